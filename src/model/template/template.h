/* template.h -- renders a model's chat template: a strict subset of Jinja2.
 *
 * The subset is what published chat templates use: for, if, set, macro, namespace, whitespace control,
 * loop.*, slices, about thirty filters, twenty tests and the common methods of strings and
 * dictionaries. Any other construct is refused by name and line: a method when it is called, a filter or test in a
 * condition when it is evaluated, the rest when the template is parsed. The environment is that of
 * Hugging Face's apply_chat_template: trim_blocks, lstrip_blocks, tojson without HTML escapes,
 * raise_exception, strftime_now, break and continue, {% generation %}.
 *
 * The renderer tracks which bytes of its output come from the input (messages, tools, documents,
 * template arguments) and which from the template. Input is data: a caller recognises special tokens
 * in template text only. Concatenation, slices, trim, split, join and replace keep the origin of
 * every byte. Where an operation has no such map (tojson, a printed list), its whole result counts as
 * input, never as template.
 */
#ifndef SP_MODEL_TEMPLATE_H
#define SP_MODEL_TEMPLATE_H

#include <jansson.h>

#include "base/mem.h"

typedef struct sp_template sp_template;

/* sp_template_parse -- compiles a template; it is immutable and any number of threads may render it.
 * Errors: SP_E_FORMAT (syntax, invalid UTF-8) and SP_E_UNSUPPORTED (a construct outside the subset)
 * name the line; SP_E_LIMIT over 1 MiB or 100 nested levels; SP_E_NOMEM. Owns: sp_template_destroy. */
sp_err sp_template_parse(const char *text, size_t n, sp_template **out) SP_MUST_CHECK;
void sp_template_destroy(sp_template *t);

typedef struct sp_template_input {
    json_t *messages;                  /* array */
    json_t *tools;                     /* array; NULL: none */
    json_t *documents;                 /* array; NULL: none */
    json_t *kwargs;                    /* object with more variables; NULL: none */
    const char *bos_token, *eos_token; /* NULL: the model has none */
    bool add_generation_prompt;
    int64_t now;       /* seconds since 1970, for strftime_now (UTC) */
    int64_t max_steps; /* expressions and statements evaluated; 0: 2,000,000 */
    size_t max_bytes;  /* memory of all values and the output; 0: 64 MiB + 8 times the input */
} sp_template_input;

typedef enum sp_template_origin {
    SP_TEMPLATE_MESSAGE,  /* the content of messages[index], whole or a part */
    SP_TEMPLATE_DOCUMENT, /* a string of documents[index] */
    SP_TEMPLATE_OTHER,    /* any other input: tools, arguments, mixtures; index is -1 */
} sp_template_origin;

/* Bytes from .. to of the output that come from the input. */
typedef struct sp_template_span {
    size_t from, to;
    sp_template_origin origin;
    int index;
    const char *path; /* "messages[2].content", "documents[0].title"; "" for mixtures */
    int64_t at;       /* the span equals the input string from this byte on; -1: it was changed */
} sp_template_span;

typedef struct sp_template_text {
    const char *text; /* NUL-terminated */
    size_t n;
    const sp_template_span *spans; /* sorted, disjoint; the rest is the template's own text */
    size_t n_spans;
    sp_arena arena; /* owns all of it */
} sp_template_text;

/* sp_template_render -- Errors: SP_E_ARG when the template raises an exception (with its message) or the
 * input does not fit it (with the line); SP_E_UNSUPPORTED; SP_E_LIMIT names the limit; SP_E_NOMEM.
 * Owns: sp_template_text_fini. */
sp_err sp_template_render(const sp_template *t, const sp_template_input *in,
                          sp_template_text *out) SP_MUST_CHECK;
void sp_template_text_fini(sp_template_text *x);

#endif
