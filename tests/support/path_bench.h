/* path_bench.h -- prompts that come and go over the path index of a small ledger. */
#ifndef SP_TESTS_PATH_BENCH_H
#define SP_TESTS_PATH_BENCH_H

#include "support/ledger_bench.h"

#include "cache/by_path.h"

enum { MAX_PATH = 16 };

/* What a prompt has found, and what was added after it; all pinned. */
typedef struct match {
    const sp_copy *path[MAX_PATH];
    int n_path;
    const sp_copy *partial;
    int32_t n_partial;
} match;

static inline const sp_copy *tip_of(const match *m)
{
    return m->n_path ? m->path[m->n_path - 1] : NULL;
}

static inline match find(bench *b, const sp_segment *segs, int n)
{
    match m;
    sp_path_match got = sp_by_path_find(b->ledger, segs, n, ++b->now, m.path);
    m.n_path = got.n;
    m.partial = got.partial;
    m.n_partial = got.n_partial;
    for (int i = got.n; i < n; i++) assert_null(m.path[i]);
    return m;
}

static inline void release(bench *b, match *m)
{
    for (int i = 0; i < m->n_path; i++) sp_ledger_unpin(b->ledger, m->path[i]);
    if (m->partial) sp_ledger_unpin(b->ledger, m->partial);
    *m = (match){0};
}

/* extend_with -- the next segment in these blocks; false when there was no room for it. */
static inline bool extend_with(bench *b, match *m, const sp_segment *seg, const uint32_t *blocks)
{
    sp_copy_spec spec = {.seg = seg,
                         .facts.kind = SP_COPY_PATH,
                         .facts.exact = true,
                         .parent = tip_of(m),
                         .blocks = blocks};
    const sp_copy *c = NULL;
    assert_ok(sp_ledger_add(b->ledger, &spec, b->now, &c));
    if (!c) return false;
    sp_ledger_pin(b->ledger, c);
    m->path[m->n_path++] = c;
    return true;
}

/* extend -- as after a prefill: fresh sealed blocks, handed over to the ledger. */
static inline bool extend(bench *b, match *m, const sp_segment *seg)
{
    uint32_t blocks[MAX_BLOCKS];
    sealed(b->pool, seg->n, blocks);
    bool added = extend_with(b, m, seg, blocks);
    sp_kv_release(b->pool, blocks, small_blocks(seg->n));
    return added;
}

/* learn -- a whole prompt comes and goes; returns how many of its segments were known. */
static inline int learn(bench *b, const sp_segment *segs, int n)
{
    match m = find(b, segs, n);
    int known = m.n_path;
    for (int i = known; i < n && extend(b, &m, &segs[i]); i++) {
    }
    release(b, &m);
    return known;
}

/* known -- how many leading segments the ledger has; they count as used. */
static inline int known(bench *b, const sp_segment *segs, int n)
{
    match m = find(b, segs, n);
    int found = m.n_path;
    release(b, &m);
    return found;
}

#endif
