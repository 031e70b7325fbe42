/* pretokenize.h -- splits text into words; byte-level BPE merges only within a word. */
#ifndef SP_MODEL_PRETOKENIZE_H
#define SP_MODEL_PRETOKENIZE_H

#include "model/tokenizer/vocab_spec.h"

typedef struct sp_splitter sp_splitter; /* a compiled pattern; immutable, any number of threads */

#define SP_PRE_MAX_STEPS 6

/* A piece of the text that a step splits further, and its next match. */
typedef struct sp_split_level {
    size_t start, at, end; /* the piece; words before `at` are out */
    size_t from, to;       /* the next match; valid if `known` */
    bool known;
} sp_split_level;

/* State of one pass over one text; used by one thread. */
typedef struct sp_split {
    const sp_splitter *splitter;
    void *match; /* pcre2_match_data */
    const char *text;
    size_t n;
    size_t at; /* the end of the level-0 pieces so far */
    sp_split_level level[SP_PRE_MAX_STEPS];
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

/* A name in GGUF files. */
typedef struct sp_pre_row {
    const char *name;
    sp_pre_tokenizer kind;
    bool ignore_merges; /* whole words take precedence over merging */
    bool add_bos;       /* by default */
} sp_pre_row;

/* sp_pre_find -- the row of a name; NULL: unknown. sp_pre_row_at: the rows in order, then NULL. */
const sp_pre_row *sp_pre_find(sp_text_view name);
const sp_pre_row *sp_pre_row_at(size_t i);

/* sp_pre_name -- "gpt-2", "llama-3", "qwen2" ... */
const char *sp_pre_name(sp_pre_tokenizer kind);
/* sp_pre_steps -- SP_PRE_MAX_STEPS regular expressions as published, NULL after the last. */
const char *const *sp_pre_steps(sp_pre_tokenizer kind);
/* sp_pre_from_steps -- the pre-tokenizer with exactly these steps; false: none. */
bool sp_pre_from_steps(const char *const *steps, size_t n, sp_pre_tokenizer *out);

/* The published form of a step that splits before every third digit from the right. */
#define SP_PRE_THOUSANDS "(?=(\\d{3})+(?!\\d))"

/* Steps of tokenizer.json that are not regular expressions; sp_pre_step_regex: an equivalent expression. */
typedef enum sp_pre_step {
    SP_STEP_BYTE_LEVEL,
    SP_STEP_DIGIT,
    SP_STEP_DIGITS,
    SP_STEP_PUNCTUATION
} sp_pre_step;
const char *sp_pre_step_regex(sp_pre_step kind);

#endif
