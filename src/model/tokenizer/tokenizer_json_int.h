/* tokenizer_json_int.h -- what the files that read tokenizer.json share. */
#ifndef SP_MODEL_TOKENIZER_JSON_INT_H
#define SP_MODEL_TOKENIZER_JSON_INT_H

#include "model/tokenizer/tokenizer_json.h"

typedef struct sp_tj_reader {
    const char *path;
    const json_t *root;
    sp_arena arena; /* owns the lists of spec until the tokenizer has copied them */
    sp_vocab_spec spec;
    sp_text_view *tokens;
    int32_t *types;
    bool byte_fallback;
} sp_tj_reader;

/* -- fields ---------------------------------------------------------------------------------- */

/* sp_tj_malformed, sp_tj_unsupported -- an error that names the file and the field, and of `value` the text or the
 * object's type. */
sp_err sp_tj_malformed(const sp_tj_reader *r, const char *field, const char *what) SP_MUST_CHECK;
sp_err sp_tj_unsupported(const sp_tj_reader *r, const char *field,
                         const json_t *value) SP_MUST_CHECK;
/* sp_tj_absent -- whether a field is missing or null. */
bool sp_tj_absent(const json_t *value);
bool sp_tj_text_is(const json_t *object, const char *key, const char *text);
bool sp_tj_type_is(const json_t *object, const char *type);
sp_err sp_tj_bool(const sp_tj_reader *r, const json_t *object, const char *key, const char *field,
                  bool otherwise, bool *out) SP_MUST_CHECK;
/* sp_tj_step_count, sp_tj_step_at -- the elements of a Sequence, or the step itself as the only one. */
size_t sp_tj_step_count(const json_t *step, const char *list);
const json_t *sp_tj_step_at(const json_t *step, const char *list, size_t i);

/* -- steps: which algorithm; they fill r->spec ------------------------------------------------ */

sp_err sp_tj_normalizer(sp_tj_reader *r) SP_MUST_CHECK;
sp_err sp_tj_pre_tokenizer(sp_tj_reader *r) SP_MUST_CHECK;
sp_err sp_tj_decoder(const sp_tj_reader *r) SP_MUST_CHECK;

#endif
