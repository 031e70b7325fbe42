/* Whatever bytes a GGUF file holds: reading, describing and opening it end with a model or an
 * error. */
#include <stdlib.h>
#include <string.h>

#include "model/model_int.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Looks at every value and every byte that the reader vouches for. */
static unsigned walk(const sp_gguf *g)
{
    unsigned sum = 0;
    for (size_t i = 0; i < g->entries.n; i++) {
        const sp_gguf_entry *e = &g->entries.v[i];
        double x;
        if (e->type == SP_GGUF_STRING) {
            sp_text_view *list = malloc((e->n + 1) * sizeof *list);
            if (!list) abort();
            sp_gguf_strings(e, e->n, list);
            for (uint64_t k = 0; k < e->n; k++) sum += list[k].n ? (unsigned)list[k].s[0] : 0;
            free(list);
        } else {
            for (uint64_t k = 0; k < e->n; k++)
                if (!sp_gguf_number(e, k, &x)) abort();
        }
    }
    for (size_t i = 0; i < g->tensors.list.n; i++) {
        const sp_tensor *t = &g->tensors.list.v[i];
        for (size_t k = 0; k < t->n_bytes; k++) sum += t->data[k];
    }
    return sum;
}

static volatile unsigned sink;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    sp_gguf g;
    sp_model *m;
    sp_bytes text = {0};
    if (sp_gguf_parse(data, size, "fuzz", &g) != SP_OK) {
        if (strncmp(sp_error_detail(), "fuzz: ", 6) != 0) abort();
        return 0;
    }
    sink += walk(&g);
    if (sp_model_inspect_gguf(&g, "fuzz", &text) != SP_OK) abort();
    sp_vec_fini(&text);
    if (sp_model_from_gguf(&g, &m) == SP_OK)
        sp_model_close(m);
    else if (strncmp(sp_error_detail(), "fuzz: ", 6) != 0)
        abort();
    return 0;
}
