/* fuse.c -- sp_fuse: the offline request that computes one chunk among chunks like it. */
#include "serve/context_int.h"

static bool same_before(const sp_digest *a, int n_a, const sp_prompt *p)
{
    if (n_a != (int)p->segs.n - 1) return false;
    for (int i = 0; i < n_a; i++)
        if (!sp_digest_eq(&a[i], &p->segs.v[i].id)) return false;
    return true;
}

/* is_known -- a copy fused with exactly these chunks is in memory or in the store. */
static bool is_known(sp_context *c, const sp_prompt *p, const sp_digest *head, int n_head)
{
    const sp_segment *seg = &p->segs.v[p->segs.n - 1];
    sp_disk_key key = {.kind = SP_DISK_FUSED, .seg = seg, .head = head, .n_head = n_head};
    sp_disk_copy copy;
    if (c->disk)
        return sp_disk_find(c->disk, &key, &copy) && same_before(copy.before, copy.n_before, p);
    const sp_variant *v = sp_chunks_find_fused(c->cache.chunks, seg, head, n_head, ++c->now);
    bool same = v && same_before(v->before, v->n_before, p);
    if (v) sp_chunks_unpin(c->cache.chunks, v);
    return same;
}

static sp_err compute(sp_context *c, const sp_prompt *p)
{
    const sp_reuse_opts plain = {.policy = "full", .unfused = true};
    const sp_request_opts o = {.reuse = &plain, .sampling = sp_sampling_default()};
    sp_request *r;
    SP_TRY(sp_request_submit_as(c, p, &o, true, &r));
    SP_TRY(sp_request_run(c, &r));
    sp_request_destroy(r);
    return SP_OK;
}

sp_err sp_fuse(sp_context *c, const sp_prompt *p, bool *fresh)
{
    sp_digest head[8];
    int n = (int)p->segs.n, n_head = sp_reuse_n_head(p->segs.v, n);
    if (n_head >= n - 1 || n_head > (int)SP_COUNT(head) || p->segs.v[n - 1].kind != SP_SEG_CHUNK)
        return sp_fail(SP_E_ARG, "fuse: the prompt is not a system text, similar chunks, a chunk");
    for (int i = 0; i < n_head; i++) head[i] = p->segs.v[i].id;
    bool known = is_known(c, p, head, n_head);
    if (!known) SP_TRY(compute(c, p));
    if (fresh) *fresh = !known;
    return SP_OK;
}
