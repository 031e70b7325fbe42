/* fuse.c -- sp_chunk_fuse: the offline request that computes one chunk among similar ones. */
#include "base/need.h"
#include "serve/request/request.h"

static bool same_before(const sp_digest *a, int n_a, const sp_prompt *p)
{
    if (n_a != (int)p->segs.n - 1) return false;
    for (int i = 0; i < n_a; i++)
        if (!sp_digest_eq(&a[i], &p->segs.v[i].id)) return false;
    return true;
}

/* is_kept -- a copy fused with exactly these chunks (the plain one when there are none) is in the store, or in the
 * remote tier. */
static sp_err is_kept(sp_context *c, const sp_prompt *p, const sp_tiers_key *key, bool *known)
{
    const sp_digest *before;
    sp_arena arena;
    int n;
    if ((int)p->segs.n == key->n_head + 1) {
        *known = sp_tiers_keeps(c->tiers, key, SP_COPY_PLAIN);
        return SP_OK;
    }
    sp_arena_init(&arena);
    sp_err err = sp_tiers_before(c->tiers, key, &arena, &before, &n);
    *known = err == SP_OK && n > 0 && same_before(before, n, p);
    sp_arena_fini(&arena);
    return err;
}

/* is_known -- the same; without such tiers, in memory. */
static sp_err is_known(sp_context *c, const sp_prompt *p, const sp_digest *head, int n_head, bool *known)
{
    const sp_segment *seg = &p->segs.v[p->segs.n - 1];
    const sp_tiers_key key = {.seg = seg, .head = head, .n_head = n_head};
    if (sp_tiers_has_store(c->tiers) || sp_tiers_remote(c->tiers)) return is_kept(c, p, &key, known);
    sp_content_query q = {.seg = seg, .head = head, .n_head = n_head, .ready_only = true};
    const bool alone = (int)p->segs.n == n_head + 1;
    const sp_copy *copy = sp_by_content_find(c->ledger, &q, alone ? SP_COPY_PLAIN : SP_COPY_FUSED, ++c->now);
    *known = copy && (alone || same_before(copy->facts.before, copy->facts.n_before, p));
    if (copy) sp_ledger_unpin(c->ledger, copy);
    return SP_OK;
}

typedef struct fuse_args {
    const sp_prompt *prompt;
    sp_go_on_fn *go_on;
    void *user;
    bool fresh;
} fuse_args;

static sp_err compute(sp_context *c, const fuse_args *a)
{
    const sp_request_opts o = {
        .sampling = sp_sampling_default(), .go_on = a->go_on, .user = a->user};
    sp_request *r;
    SP_TRY(sp_request_create(c, a->prompt, &o, &sp_reuse_fuse, &r));
    sp_driver_submit(c, r);
    SP_TRY(sp_request_run(c, &r));
    const bool canceled = r->account.result.finish == SP_FINISH_CANCELED;
    sp_request_destroy(r);
    return canceled ? sp_fail(SP_E_CANCELED, "fuse: the chunk") : SP_OK;
}

static sp_err fuse(sp_context *c, void *arg)
{
    fuse_args *a = arg;
    const sp_prompt *p = a->prompt;
    sp_digest head[8];
    int n = (int)p->segs.n, n_head = sp_reuse_n_head(p->segs.v, n);
    if (n_head >= n || n_head > (int)SP_COUNT(head) || p->segs.v[n - 1].kind != SP_SEG_CHUNK)
        return sp_fail(SP_E_ARG, "fuse: the prompt is not a system text, similar chunks, a chunk");
    for (int i = 0; i < n_head; i++) head[i] = p->segs.v[i].id;
    bool known;
    SP_TRY(is_known(c, p, head, n_head, &known));
    if (!known) SP_TRY(compute(c, a));
    a->fresh = !known;
    return SP_OK;
}

sp_err sp_chunk_fuse(sp_context *c, const sp_prompt *p, bool *fresh)
{
    return sp_chunk_fuse_while(c, p, NULL, NULL, fresh);
}

sp_err sp_chunk_fuse_while(sp_context *c, const sp_prompt *p, sp_go_on_fn *go_on, void *user,
                           bool *fresh)
{
    SP_NEED(c);
    SP_NEED(p);
    fuse_args a = {.prompt = p, .go_on = go_on, .user = user};
    SP_TRY(sp_driver_call(c, fuse, &a));
    if (fresh) *fresh = a.fresh;
    return SP_OK;
}
