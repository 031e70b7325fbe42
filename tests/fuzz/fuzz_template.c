/* A chat template from any bytes; after a NUL byte, the JSON of a chat. Limits must hold, and spans
 * must be sorted ranges of the text. */
#include <stdlib.h>
#include <string.h>

#include "model/template/template.h"

static void require(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char chat[] = "{\"messages\":[{\"role\":\"user\",\"content\":\" a<b>\\u00e9 "
                               "\"}],\"tools\":[{\"x\":[1,2.5,null]}]}";
    const char *text = (const char *)data, *nul = n ? memchr(text, '\0', n) : NULL;
    size_t n_text = nul ? (size_t)(nul - text) : n;
    sp_template *t = NULL;
    if (sp_template_parse(n_text ? text : "", n_text, &t) != SP_OK) return 0;
    json_t *j = nul ? json_loadb(nul + 1, n - n_text - 1, 0, NULL)
                    : json_loadb(chat, sizeof chat - 1, 0, NULL);
    sp_template_input in = {.messages = json_object_get(j, "messages"),
                            .tools = json_object_get(j, "tools"),
                            .documents = json_object_get(j, "documents"),
                            .add_generation_prompt = true,
                            .bos_token = "<s>",
                            .max_steps = 20000,
                            .max_bytes = 1 << 20};
    sp_template_text x = {0};
    if (sp_template_render(t, &in, &x) == SP_OK) {
        require(x.n <= in.max_bytes && strlen(x.text) <= x.n);
        for (size_t i = 0, at = 0; i < x.n_spans; at = x.spans[i++].to)
            require(at <= x.spans[i].from && x.spans[i].from < x.spans[i].to &&
                    x.spans[i].to <= x.n);
    }
    sp_template_text_fini(&x);
    sp_template_destroy(t);
    json_decref(j);
    return 0;
}
