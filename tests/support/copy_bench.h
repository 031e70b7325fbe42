/* copy_bench.h -- copies of chunks to enter into a small ledger, and to find by their content. */
#ifndef SP_TESTS_COPY_BENCH_H
#define SP_TESTS_COPY_BENCH_H

#include "support/ledger_bench.h"

#include "cache/by_content.h"

/* Copies are computed after the first, which is the head, unless a test says otherwise. */
static const sp_digest before[] = {{{1}}, {{2}}, {{3}}, {{4}}};

static inline sp_content_query query(const sp_segment *seg, const sp_digest *head, int n_head)
{
    return (sp_content_query){.seg = seg, .head = head, .n_head = n_head};
}

/* enter -- a copy in fresh sealed blocks, handed over to the ledger; false when it cannot fit. */
static inline bool enter(bench *b, const sp_segment *seg, sp_copy_spec spec)
{
    uint32_t blocks[MAX_BLOCKS];
    const sp_copy *c = NULL;
    int32_t n = spec.base ? spec.patch.n : seg->n;
    sealed(b->pool, n, blocks);
    spec.seg = seg;
    spec.blocks = spec.base ? spec.base->blocks : blocks;
    spec.patch.blocks = spec.base ? blocks : NULL;
    assert_ok(sp_ledger_add(b->ledger, &spec, ++b->now, &c));
    sp_kv_release(b->pool, blocks, small_blocks(n));
    return c != NULL;
}

/* computed_after -- what a copy computed after the first n_before of `before` is entered with. */
static inline sp_copy_spec computed_after(sp_copy_kind kind, int n_before)
{
    return (sp_copy_spec){
        .facts.kind = kind, .facts.before = before, .facts.n_before = n_before, .facts.n_head = 1};
}

/* insert -- the plain copy, after before[0]. */
static inline bool insert(bench *b, const sp_segment *seg)
{
    sp_copy_spec spec = computed_after(SP_COPY_PLAIN, 1);
    spec.facts.at = 5;
    return enter(b, seg, spec);
}

static inline const sp_copy *find_plain(bench *b, const sp_segment *seg, const sp_digest *head,
                                        int n_head)
{
    sp_content_query q = query(seg, head, n_head);
    return sp_by_content_find(b->ledger, &q, SP_COPY_PLAIN, ++b->now);
}

static inline const sp_copy *find_fused(bench *b, const sp_segment *seg, const sp_digest *head)
{
    sp_content_query q = query(seg, head, 1);
    return sp_by_content_find(b->ledger, &q, SP_COPY_FUSED, ++b->now);
}

static inline const sp_copy *find_copy(bench *b, const sp_segment *seg)
{
    return find_plain(b, seg, before, 1);
}

/* has -- without leaving a pin; counts as a use. */
static inline bool has(bench *b, const sp_segment *seg)
{
    const sp_copy *c = find_copy(b, seg);
    if (c) sp_ledger_unpin(b->ledger, c);
    return c != NULL;
}

static inline sp_miss why(const bench *b, const sp_segment *seg, const sp_digest *head)
{
    sp_content_query q = query(seg, head, 1);
    return sp_by_content_why(b->ledger, &q);
}

#endif
