/* model_files.c -- opening, closing, and loading a weight. */
#include "model/model_files.h"

#include <string.h>

void *sp_made_take(sp_made *m, size_t n_bytes)
{
    if (sp_vec_reserve(&m->list, 1) != SP_OK) return NULL;
    void *p = sp_alloc_aligned(n_bytes);
    if (p) m->list.v[m->list.n++] = p;
    return p;
}

void sp_made_let_go(sp_made *m, const void *data)
{
    for (size_t i = 0; i < m->list.n; i++) {
        const size_t at = (m->next + i) % m->list.n;
        if (m->list.v[at] != data) continue;
        sp_free(m->list.v[at]);
        m->list.v[at] = NULL;
        m->next = at + 1;
        return;
    }
}

void sp_made_fini(sp_made *m)
{
    for (size_t i = 0; i < m->list.n; i++) sp_free(m->list.v[i]);
    sp_vec_fini(&m->list);
}

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
    sp_made_fini(&f->made);
    sp_free(f->path);
    sp_free(f);
}

size_t sp_weight_bytes(sp_device *d, const sp_weight *w)
{
    if (w->mat) return sp_device_weight_bytes(d, w->mat, w->use);
    return d->unified ? 0 : SP_ROUND_UP((size_t)w->n * sizeof **w->vec, (size_t)SP_CACHE_LINE);
}

void sp_weight_let_go(sp_model_files *files, const void *data, size_t n_bytes)
{
    sp_made_let_go(&files->made, data);
    sp_file_map_let_go(&files->gguf.map, data, n_bytes);
    for (size_t i = 0; i < files->gguf.parts.n; i++)
        sp_file_map_let_go(&files->gguf.parts.v[i].map, data, n_bytes);
    for (size_t i = 0; i < files->folder.files.n; i++)
        sp_file_map_let_go(&files->folder.files.v[i].map, data, n_bytes);
}

sp_err sp_weight_load(sp_device *d, const sp_weight *w, sp_model_files *files, void *to)
{
    if (w->vec) {
        const sp_event e = sp_device_copy_in(d, to, *w->vec, (size_t)w->n * sizeof **w->vec);
        SP_TRY(sp_device_wait(d, e));
        *w->vec = to;
        return SP_OK;
    }
    const void *data = w->mat->data;
    sp_device_weight_load(d, w->mat, w->use, to);
    if (files) sp_weight_let_go(files, data, (size_t)w->mat->n_rows * sp_row_bytes(w->mat->type, w->mat->n_cols));
    return SP_OK;
}
