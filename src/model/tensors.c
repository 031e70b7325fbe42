/* tensors.c -- the directory of tensors. */
#include "model/tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void sp_tensor_dir_fini(sp_tensor_dir *d)
{
    sp_vec_fini(&d->list);
    sp_dict_fini(&d->by_name);
}

sp_err sp_tensor_dir_add(sp_tensor_dir *d, const sp_tensor *t)
{
    const sp_tensor *twin = sp_tensor_find(d, t->name.s, t->name.n);
    if (twin && strcmp(twin->path, t->path) != 0)
        return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: is in %s as well", t->path, SP_VIEW(t->name),
                       twin->path);
    if (twin)
        return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: is listed twice", t->path, SP_VIEW(t->name));
    SP_TRY(sp_vec_reserve(&d->list, 1));
    SP_TRY(sp_dict_put(&d->by_name, t->name.s, t->name.n, (uint32_t)d->list.n));
    d->list.v[d->list.n++] = *t;
    return SP_OK;
}

const sp_tensor *sp_tensor_find(const sp_tensor_dir *d, const char *name, size_t n)
{
    uint32_t i = sp_dict_get(&d->by_name, name, n);
    return i == SP_DICT_NONE ? NULL : &d->list.v[i];
}

sp_err sp_tensor_elements(const sp_tensor *t, int64_t *out)
{
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(n, t->shape[i], &n))
            return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: the shape has more than 2^63 elements",
                           t->path, SP_VIEW(t->name));
    *out = n;
    return SP_OK;
}

/* shape_text -- "20 x 32" */
static const char *shape_text(const int64_t *shape, int n, char *buf, size_t n_buf)
{
    size_t at = 0;
    for (int i = 0; i < n && at < n_buf; i++)
        at += (size_t)snprintf(buf + at, n_buf - at, "%s%" PRId64, i ? " x " : "", shape[i]);
    return buf;
}

sp_err sp_tensor_check_shape(const sp_tensor *t, const int64_t *want, int n)
{
    char got[96], wanted[96];
    if (t->n_dims == n && memcmp(t->shape, want, (size_t)n * sizeof *want) == 0) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s: tensor %.*s: its shape is %s, the configuration asks for %s", t->path,
                   SP_VIEW(t->name), shape_text(t->shape, t->n_dims, got, sizeof got),
                   shape_text(want, n, wanted, sizeof wanted));
}

/* -- overlaps ------------------------------------------------------------------------------- */

static int by_offset(const void *a, const void *b)
{
    const sp_tensor *x = *(const sp_tensor *const *)a, *y = *(const sp_tensor *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

sp_err sp_tensor_dir_check(const sp_tensor_dir *d, size_t from)
{
    size_t n = 0;
    const sp_tensor **order = sp_alloc(d->list.n - from, sizeof(sp_tensor *));
    if (!order) return sp_fail_nomem("a tensor list");
    for (size_t i = from; i < d->list.n; i++)
        if (d->list.v[i].n_bytes) order[n++] = &d->list.v[i];
    qsort(order, n, sizeof *order, by_offset);
    sp_err err = SP_OK;
    for (size_t i = 1; i < n && err == SP_OK; i++) {
        const sp_tensor *a = order[i - 1], *b = order[i];
        if (b->offset - a->offset < a->n_bytes)
            err = sp_fail(SP_E_FORMAT, "%s: tensor %.*s: its bytes overlap those of %.*s", b->path,
                          SP_VIEW(b->name), SP_VIEW(a->name));
    }
    sp_free(order);
    return err;
}
