#include "serve/documents/erase.h"

#include <stdlib.h>
#include <string.h>

#include "serve/guard/guard.h"
#include "serve/request/request.h"

/* The tiers below the device that copies are erased from. */

typedef SP_VEC(const sp_copy *) copy_list;

typedef struct erasing {
    const sp_digest *ids;
    size_t n;
    sp_erased sum;
} erasing;

/* -- which copies ------------------------------------------------------------------------------ */

static sp_err list_copies(sp_context *c, const erasing *e, copy_list *out)
{
    for (const sp_copy *copy = NULL; (copy = sp_ledger_next(c->ledger, copy));) {
        if (!sp_copy_has_seen(copy, e->ids, e->n)) continue;
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = copy;
    }
    return SP_OK;
}

/* -- the tiers below -------------------------------------------------------------------------- */

typedef struct sweeping {
    const sp_digest *ids;
    size_t n;
    sp_tiers_sweep *sweep; /* NULL: there are no tiers */
    int64_t *n_store;
} sweeping;

static sp_err begin_sweep(sp_context *c, void *arg)
{
    sweeping *s = arg;
    if (!c->tiers) return SP_OK;
    SP_TRY(sp_tiers_erasing(c->tiers, s->ids, s->n));
    if (!s->n) return SP_OK;
    const sp_sweep_opts o = {.ids = s->ids,
                             .n = s->n,
                             .after = 1u << SP_COPY_FUSED | 1u << SP_COPY_PATH | 1u << SP_COPY_PLACED,
                             .overwrite = true};
    return sp_tiers_sweep_begin(c->tiers, &o, SP_BELOW_DEVICE, &s->sweep);
}

static sp_err end_sweep(sp_context *c, void *arg)
{
    sweeping *s = arg;
    SP_UNUSED(c);
    return sp_tiers_sweep_end(s->sweep, s->n_store);
}

sp_err sp_context_erase_tiers(sp_context *c, const sp_digest *ids, size_t n, int64_t *n_store)
{
    sweeping s = {.ids = ids, .n = n, .n_store = n_store};
    *n_store = 0;
    SP_TRY(sp_driver_call(c, begin_sweep, &s));
    if (!s.sweep) return SP_OK;
    sp_tiers_sweep_wait(s.sweep);
    return sp_driver_call(c, end_sweep, &s);
}

/* -- the device -------------------------------------------------------------------------------- */

/* zero_block -- overwrites a block with one holder. */
static sp_err zero_block(sp_kv_pool *pool, uint32_t block, uint8_t *zeros)
{
    const size_t n = sp_kv_pool_layer_block_bytes(pool);
    for (int l = 0; l < sp_kv_pool_shape(pool)->n_layers; l++) {
        sp_kv_run run = {.layer = l, .first = block, .n = 1};
        uint8_t *to = sp_kv_pool_target(pool, run, zeros);
        memset(to, 0, n);
        SP_TRY(sp_kv_pool_write(pool, run, to));
    }
    return SP_OK;
}

/* drop_copy -- keeps its blocks until they are zeroed; blocks that others hold stay as they are. */
static sp_err drop_copy(sp_context *c, const sp_copy *copy, uint8_t *zeros, uint32_t *blocks)
{
    int32_t n = copy->state == SP_COPY_READY ? sp_copy_n_own_blocks(copy) : 0;
    sp_err err = SP_OK;
    if (n)
        memcpy(blocks, copy->base ? copy->patch.blocks : copy->blocks, (size_t)n * sizeof *blocks);
    if (n) sp_kv_retain(c->pool, blocks, n);
    sp_ledger_drop(c->ledger, copy);
    for (int32_t i = 0; i < n && err == SP_OK; i++)
        if (sp_kv_refs(c->pool, blocks[i]) == 1) err = zero_block(c->pool, blocks[i], zeros);
    if (n) sp_kv_release(c->pool, blocks, n);
    return err;
}

static bool is_free_to_go(const sp_copy *c)
{
    return c->n_pins == 0 && !c->children.first && c->state != SP_COPY_LOADING;
}

/* drop_all -- children before parents, patches before their bases: passes until one drops nothing. Without
 * a place and unpinned, a dropped copy is gone at once, and no other with it. */
static sp_err drop_all(sp_context *c, erasing *e, copy_list *doomed, uint8_t *zeros,
                       uint32_t *blocks)
{
    sp_err err = SP_OK;
    for (bool some = true; some && err == SP_OK;) {
        some = false;
        for (size_t i = doomed->n; i-- > 0 && err == SP_OK;) {
            const sp_copy *copy = doomed->v[i];
            if (!is_free_to_go(copy)) continue;
            e->sum.n_device += copy->state == SP_COPY_READY;
            err = drop_copy(c, copy, zeros, blocks);
            doomed->v[i] = doomed->v[--doomed->n];
            some = true;
        }
    }
    e->sum.n_pending = (int64_t)doomed->n;
    return err;
}

static sp_err erase_device(sp_context *c, erasing *e)
{
    copy_list doomed = {0};
    size_t n_block = sp_kv_pool_layer_block_bytes(c->pool), most = 1;
    SP_TRY(list_copies(c, e, &doomed));
    for (size_t i = 0; i < doomed.n; i++)
        most = SP_MAX(most, (size_t)sp_copy_n_own_blocks(doomed.v[i]));
    uint8_t *zeros = sp_alloc_zero(n_block, 1);
    uint32_t *blocks = sp_alloc(most, sizeof *blocks);
    sp_err err = zeros && blocks ? drop_all(c, e, &doomed, zeros, blocks)
                                 : sp_fail_nomem("erasing copies");
    sp_free(blocks);
    sp_free(zeros);
    sp_vec_fini(&doomed);
    return err;
}

/* n_among -- requests of a list whose prompt has one of the segments. */
static int64_t n_among(const sp_request *list, const erasing *e)
{
    int64_t n = 0;
    for (const sp_request *r = list; r; r = r->next) {
        int i = 0;
        while (i < r->prompt.n_segs && !sp_digest_among(&r->prompt.ids[i], e->ids, e->n)) i++;
        n += i < r->prompt.n_segs;
    }
    return n;
}

/* erase -- a request that waits, or computes the segment first, has no copy of it yet, but will keep one. */
static sp_err erase(sp_context *c, void *arg)
{
    erasing *e = arg;
    sp_err err = e->n ? erase_device(c, e) : SP_OK;
    e->sum.n_pending += n_among(c->waiting.first, e) + n_among(c->running, e);
    if (!e->sum.n_pending) sp_guard_forget(c->guard, e->ids, e->n);
    for (size_t i = 0; i < e->n; i++) sp_ledger_forget(c->ledger, &e->ids[i]);
    if (err != SP_OK || e->sum.n_pending || !c->tiers) return err;
    return sp_tiers_erasing(c->tiers, NULL, 0);
}

sp_err sp_context_erase_device(sp_context *c, const sp_digest *ids, size_t n, sp_erased *out)
{
    erasing e = {.ids = ids, .n = n};
    sp_err err = sp_driver_call(c, erase, &e);
    *out = e.sum;
    return err;
}

/* -- where they are ---------------------------------------------------------------------------- */

typedef struct presence_query {
    const sp_digest *ids;
    size_t n;
    sp_presence sum;
} presence_query;

static const sp_digest *find_id(const sp_digest *ids, size_t n, const sp_digest *id)
{
    for (size_t low = 0, high = n; low < high;) {
        size_t middle = low + (high - low) / 2;
        int order = memcmp(ids[middle].b, id->b, sizeof id->b);
        if (order == 0) return &ids[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static sp_err look(sp_context *c, void *arg)
{
    presence_query *q = arg;
    uint8_t *at = sp_alloc_zero(q->n, 1);
    if (!at) return sp_fail_nomem("a look for copies");
    for (const sp_copy *copy = NULL; (copy = sp_ledger_next(c->ledger, copy));) {
        const sp_digest *id = find_id(q->ids, q->n, &copy->facts.id);
        if (id) at[id - q->ids] |= (uint8_t)copy->places;
    }
    for (size_t i = 0; i < q->n; i++) {
        q->sum.n_device += (at[i] & SP_AT_DEVICE) != 0;
        q->sum.n_store += (at[i] & SP_BELOW_DEVICE) != 0;
    }
    sp_free(at);
    return SP_OK;
}

sp_err sp_context_presence(sp_context *c, const sp_digest *ids, size_t n, sp_presence *out)
{
    presence_query q = {.ids = ids, .n = n};
    if (n) SP_TRY(sp_driver_call(c, look, &q));
    *out = q.sum;
    return SP_OK;
}

/* -- pins -------------------------------------------------------------------------------------- */

typedef struct hold_args {
    const sp_digest *ids;
    size_t n;
    float share;
    sp_held *held;
} hold_args;

static bool is_held(const sp_held *held, const sp_copy *c)
{
    for (size_t i = 0; i < held->n; i++)
        if (held->v[i] == c) return true;
    return false;
}

static sp_err hold(sp_context *c, void *arg)
{
    hold_args *a = arg;
    sp_held *held = a->held;
    int64_t n_blocks = 0, most = (int64_t)(a->share * (float)sp_kv_pool_n_blocks(c->pool));
    SP_TRY(sp_tiers_hold(c->tiers, a->ids, a->n));
    for (size_t i = held->n; i-- > 0;) {
        const sp_copy *copy = held->v[i];
        if (sp_digest_among(&copy->facts.id, a->ids, a->n)) {
            n_blocks += sp_copy_n_own_blocks(copy);
            continue;
        }
        held->v[i] = held->v[--held->n];
        sp_ledger_unpin(c->ledger, copy);
    }
    for (const sp_copy *copy = NULL; a->n && (copy = sp_ledger_next(c->ledger, copy));) {
        if (copy->state != SP_COPY_READY || copy->facts.kind == SP_COPY_PATH ||
            !sp_digest_among(&copy->facts.id, a->ids, a->n) || is_held(held, copy))
            continue;
        if (n_blocks + sp_copy_n_own_blocks(copy) > most) continue;
        SP_TRY(sp_vec_reserve(held, 1));
        sp_ledger_pin(c->ledger, copy);
        held->v[held->n++] = copy;
        n_blocks += sp_copy_n_own_blocks(copy);
    }
    return SP_OK;
}

sp_err sp_context_hold(sp_context *c, const sp_digest *ids, size_t n, float share, sp_held *held)
{
    return sp_driver_call(c, hold, &(hold_args){ids, n, share, held});
}
