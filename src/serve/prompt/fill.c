/* fill.c -- prompts to fill in the middle: the text before and after a gap, between the model's own marks. */
#include <string.h>

#include "base/need.h"
#include "serve/prompt/prompt.h"

/* The marks of model families: Qwen and CodeGemma, StarCoder, SantaCoder, DeepSeek. */
static const struct marks {
    const char *before, *after, *gap;
} families[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"},
};

static const struct marks *marks_of(const sp_tokenizer *t)
{
    for (size_t i = 0; t && i < SP_COUNT(families); i++)
        if (sp_tokenizer_find(t, families[i].before) >= 0 &&
            sp_tokenizer_find(t, families[i].after) >= 0 &&
            sp_tokenizer_find(t, families[i].gap) >= 0)
            return &families[i];
    return NULL;
}

sp_err sp_prompt_fill(sp_prompt *p, const char *before, const char *after)
{
    SP_NEED(p);
    SP_NEED(before);
    SP_NEED(after);
    const struct marks *m = marks_of(p->space->tokenizer);
    if (!m) return sp_fail(SP_E_UNSUPPORTED, "the model has no tokens to fill in the middle");
    const char *const parts[] = {m->before, before, m->after, after, m->gap};
    sp_bytes text = {0};
    sp_err err = SP_OK;
    for (size_t i = 0; i < SP_COUNT(parts) && err == SP_OK; i++)
        err = sp_bytes_add(&text, parts[i], strlen(parts[i]));
    if (err == SP_OK) err = sp_bytes_add(&text, "", 1);
    if (err == SP_OK) err = sp_prompt_text(p, text.v, true);
    sp_vec_fini(&text);
    return err;
}
