/* model_files.c -- opening, closing, and loading a weight. */
#include "model/model_files.h"

#include <string.h>

sp_err sp_model_files_create(const char *path, sp_model_files **out)
{
    sp_model_files *f = SP_NEW(sp_model_files);
    char *copy = sp_strdup_n(path, strlen(path));
    if (!f || !copy) {
        sp_free(f);
        sp_free(copy);
        return sp_fail_nomem("the files of a model");
    }
    f->path = copy;
    sp_arena_init(&f->arena);
    *out = f;
    return SP_OK;
}

void sp_model_files_close(sp_model_files *f)
{
    if (!f) return;
    sp_gguf_close(&f->gguf);
    sp_safetensors_close(&f->folder);
    sp_arena_fini(&f->arena);
    sp_free(f->path);
    sp_free(f);
}

size_t sp_weight_bytes(sp_device *d, const sp_weight *w)
{
    if (w->mat) return sp_device_weight_bytes(d, w->mat, w->use);
    return d->unified ? 0 : SP_ROUND_UP((size_t)w->n * sizeof **w->vec, (size_t)SP_CACHE_LINE);
}

static void let_go(const sp_model_files *files, const void *data, size_t n_bytes)
{
    sp_file_map_let_go(&files->gguf.map, data, n_bytes);
    for (size_t i = 0; i < files->gguf.parts.n; i++)
        sp_file_map_let_go(&files->gguf.parts.v[i].map, data, n_bytes);
    for (size_t i = 0; i < files->folder.files.n; i++)
        sp_file_map_let_go(&files->folder.files.v[i].map, data, n_bytes);
}

sp_err sp_weight_load(sp_device *d, const sp_weight *w, const sp_model_files *files, void *to)
{
    if (w->vec) {
        const sp_event e = sp_device_copy_in(d, to, *w->vec, (size_t)w->n * sizeof **w->vec);
        SP_TRY(sp_device_wait(d, e));
        *w->vec = to;
        return SP_OK;
    }
    const void *data = w->mat->data;
    sp_device_weight_load(d, w->mat, w->use, to);
    if (files) let_go(files, data, (size_t)w->mat->n_rows * sp_row_bytes(w->mat->type, w->mat->n_cols));
    return SP_OK;
}
