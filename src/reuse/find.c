/* find.c -- the look-ups that policies share: by path, and by content. */
#include "reuse/parts.h"

int sp_reuse_n_head(const sp_segment *segs, int n_segs)
{
    int n_system = 0, n = 0;
    while (n_system < n_segs && segs[n_system].kind == SP_SEG_SYSTEM) n_system++;
    while (n < n_segs && segs[n].kind != SP_SEG_CHUNK) n++;
    return n < n_segs && n_system ? n_system : n;
}

void sp_reuse_serve(const sp_finder *f, int i, const sp_copy *copy, int32_t n_known)
{
    sp_found *found = &f->in->found[i];
    found->copy = copy;
    found->n_known = n_known;
    found->at = copy->facts.at;
    found->source = copy->state == SP_COPY_READY ? SP_AT_DEVICE : sp_place_fastest(copy->places & SP_BELOW_DEVICE);
    found->miss = SP_MISS_NONE;
}

sp_err sp_reuse_find_path(const sp_finder *f, int n, sp_path_match *match)
{
    const sp_reuse_input *in = f->in;
    const sp_copy **path = sp_arena_take(f->arena, (size_t)n, sizeof *path);
    if (!path) return sp_fail_nomem("a look-up");
    const sp_path_query q = {.segs = in->segs, .n_segs = n, .ready_only = f->ready_only};
    sp_path_match m = sp_by_path_match(f->ledger, &q, f->now, path);
    for (int i = 0; i < n; i++) {
        if (!path[i]) continue;
        sp_reuse_serve(f, i, path[i], in->segs[i].n);
        in->found[i].exact = true;
    }
    if (match)
        *match = m;
    else if (m.partial)
        sp_ledger_unpin(f->ledger, m.partial);
    return SP_OK;
}

sp_err sp_reuse_find_start(const sp_finder *f)
{
    const sp_reuse_input *in = f->in;
    /* A warm-up wants a plain copy of every chunk. Source: FusionRAG section 4.1. */
    int n = in->exact_first && !in->warm ? in->n_segs - 1 : in->n_head;
    return sp_reuse_find_path(f, n, NULL);
}

int64_t sp_reuse_n_missing(const sp_reuse_input *in)
{
    int64_t n = 0;
    for (int i = 0; i < in->n_segs; i++) n += in->found[i].copy ? 0 : sp_blocks_for(in->segs[i].n);
    return n;
}

bool sp_reuse_wants_copy(const sp_reuse_input *in, int i)
{
    return in->segs[i].kind == SP_SEG_CHUNK && !in->found[i].copy;
}

bool sp_reuse_may_keep(const sp_reuse_input *in, int i)
{
    int n = 0; /* chunks before it */
    if (!in->keep_chunks || in->segs[i].kind != SP_SEG_CHUNK) return true;
    for (int k = in->n_head; k < i && n < in->keep_chunks; k++) n += in->segs[k].kind == SP_SEG_CHUNK;
    return n < in->keep_chunks;
}

sp_content_query sp_reuse_query(const sp_finder *f, int i)
{
    return (sp_content_query){.seg = &f->in->segs[i],
                              .head = f->in->ids,
                              .n_head = f->in->n_head,
                              .ready_only = f->ready_only,
                              .no_path = f->in->warm};
}

/* is_exact -- a plain copy of the chunk that directly follows the head is what computing the prompt would give. */
static bool is_exact(const sp_reuse_input *in, int i, const sp_copy *c)
{
    const bool first = in->exact_first && !in->warm && i == in->n_head && sp_segment_on_path(in->segs, i);
    const bool whole = c->state == SP_COPY_READY ? c->facts.exact : c->stored.exact;
    return first && whole && c->facts.kind != SP_COPY_FUSED;
}

sp_err sp_reuse_find_chunks(const sp_finder *f)
{
    const sp_reuse_input *in = f->in;
    SP_TRY(sp_reuse_find_start(f));
    for (int i = in->n_head; i < in->n_segs; i++) {
        if (!sp_reuse_wants_copy(in, i)) continue;
        sp_content_query q = sp_reuse_query(f, i);
        const sp_copy *c = NULL;
        if (!in->unfused) c = sp_by_content_find(f->ledger, &q, SP_COPY_FUSED, f->now);
        if (!c) c = sp_by_content_find(f->ledger, &q, SP_COPY_PLAIN, f->now);
        if (c)
            sp_reuse_serve(f, i, c, in->segs[i].n);
        else
            in->found[i].miss = (uint8_t)sp_by_content_why(f->ledger, &q);
        in->found[i].exact = c && is_exact(in, i, c);
    }
    return SP_OK;
}

const sp_copy *sp_reuse_peek_chunk(const sp_ledger *l, const sp_content_query *q, bool unfused)
{
    const sp_copy *fused = unfused ? NULL : sp_by_content_peek(l, q, SP_COPY_FUSED);
    return fused ? fused : sp_by_content_peek(l, q, SP_COPY_PLAIN);
}
