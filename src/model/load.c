/* load.c -- the weights of a model on a device, in one piece of its memory:
 *
 *   | embedding | layer 0: norms, wq, wk, ... | layer 1 | ... | norm, output |
 *
 * without those that the device reads where they are: on the CPU vectors, the embedding, and
 * matrices that no kernel wants in a layout of its own. The mapped pages that a matrix was made from
 * are let go, so that weights are in memory once. The file stays readable. */
#include "base/log.h"
#include "model/model_int.h"
#include "model/weights.h"

static sp_weight_use use_of(const sp_model *m, const sp_mat *w)
{
    return w == &m->embed ? SP_WEIGHT_ROWS : SP_WEIGHT_PRODUCTS;
}

/* bytes_of -- what a weight takes of the device's memory; 0: it stays where it is. */
static size_t bytes_of(const sp_model *m, sp_device *d, const sp_weight *w)
{
    if (w->mat) return sp_device_weight_bytes(d, w->mat, use_of(m, w->mat));
    return d->unified ? 0 : SP_ROUND_UP((size_t)w->n * sizeof **w->vec, (size_t)SP_CACHE_LINE);
}

/* The pages of a matrix, in whichever file they are. */
static void let_go(const struct sp_model_files *files, const void *data, size_t n_bytes)
{
    if (!files) return; /* a model that was made in memory */
    sp_file_map_let_go(&files->gguf.map, data, n_bytes);
    for (size_t i = 0; i < files->folder.files.n; i++)
        sp_file_map_let_go(&files->folder.files.v[i].map, data, n_bytes);
}

static sp_err load_weight(sp_model *m, sp_device *d, const sp_weight *w, void *to)
{
    if (w->vec) {
        sp_event e = sp_device_copy_in(d, to, *w->vec, (size_t)w->n * sizeof **w->vec);
        SP_TRY(sp_device_wait(d, e));
        *w->vec = to;
        return SP_OK;
    }
    const void *data = w->mat->data;
    sp_device_weight_load(d, w->mat, use_of(m, w->mat), to);
    let_go(m->files, data, (size_t)w->mat->n_rows * sp_row_bytes(w->mat->type, w->mat->n_cols));
    return SP_OK;
}

sp_err sp_model_load(sp_model *m, sp_device *d)
{
    size_t n_bytes = 0;
    sp_weight w;
    assert(!m->device);
    for (int i = 0; sp_weights_next(m, &i, &w);) n_bytes += bytes_of(m, d, &w);
    SP_TRY(sp_mem_alloc(d, n_bytes, "the weights", &m->on_device));
    uint8_t *to = m->on_device.p;
    m->device = d;
    for (int i = 0; sp_weights_next(m, &i, &w);) {
        size_t n = bytes_of(m, d, &w);
        if (n) SP_TRY(load_weight(m, d, &w, to));
        to += n;
    }
    sp_log(SP_LOG_DEBUG, "%s: %zu MiB of weights loaded for %s, %s", m->path, n_bytes >> 20,
           d->name, d->kernels);
    return SP_OK;
}

void sp_model_unload(sp_model *m)
{
    sp_mem_free(&m->on_device);
    m->device = NULL;
}
