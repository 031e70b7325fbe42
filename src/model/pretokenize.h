/* pretokenize.h -- splits text into words; byte-level BPE merges only within a word. */
#ifndef SP_MODEL_PRETOKENIZE_H
#define SP_MODEL_PRETOKENIZE_H

#include "model/vocab_spec.h"

typedef struct sp_splitter sp_splitter; /* a compiled pattern; immutable, any number of threads */

/* State of one pass over one text; used by one thread. */
typedef struct sp_split {
    const sp_splitter *splitter;
    void *match; /* pcre2_match_data */
    const char *text;
    size_t n;
    size_t at;       /* next byte */
    size_t valid_to; /* text[at..valid_to) is known to be valid UTF-8 */
} sp_split;

/* sp_splitter_create -- match_limit: backtracking steps for one word, after which the word is cut;
 * 0: the default, which the built-in patterns never reach. */
sp_err sp_splitter_create(sp_pre_tokenizer kind, uint32_t match_limit,
                          sp_splitter **out) SP_MUST_CHECK;
void sp_splitter_destroy(sp_splitter *s);

/* sp_split_init / sp_split_start / sp_split_next -- start sets the text (n bytes, borrowed); next
 * returns its words in order, without gaps, until *more is false. A byte that is not valid UTF-8 is
 * a word. Errors: SP_E_NOMEM. */
sp_err sp_split_init(sp_split *it, const sp_splitter *s) SP_MUST_CHECK;
void sp_split_fini(sp_split *it);
void sp_split_start(sp_split *it, const char *text, size_t n);
sp_err sp_split_next(sp_split *it, sp_text_view *word, bool *more) SP_MUST_CHECK;

/* sp_pre_name -- "gpt-2", "llama-3", "qwen2". */
const char *sp_pre_name(sp_pre_tokenizer kind);
/* sp_pre_from_regex -- the pre-tokenizer of a published pattern from tokenizer.json. */
bool sp_pre_from_regex(const char *pattern, sp_pre_tokenizer *out);

#endif
