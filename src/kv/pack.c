#include "kv/pack.h"

#include <string.h>

enum { B = SP_BLOCK_TOKENS, WORTH = 4 /* 1 / WORTH of a run's keys */ };

/* Joined spans of one shift that follow each other: first .. end - 1. */
typedef struct run {
    int first, end;
    int32_t n; /* tokens */
} run;

/* next_run -- the first run at or after span `from`; false: there is none. */
static bool next_run(const sp_plan *p, int from, run *out)
{
    while (from < p->n_spans && !p->spans[from].joined) from++;
    *out = (run){.first = from, .end = from};
    for (const sp_span *s = p->spans + from; out->end < p->n_spans; s++, out->end++) {
        if (!s->joined || s->shift != p->spans[from].shift) break;
        out->n += s->n;
    }
    return from < p->n_spans;
}

/* n_gathered -- keys in groups of B that are not one block from slot 0. */
static int32_t n_gathered(const sp_plan *p, const run *r)
{
    int32_t key = 0, n_in_place = 0;
    uint32_t block = 0;
    bool in_place = false;
    for (int s = r->first; s < r->end; s++)
        for (int32_t i = 0; i < p->spans[s].n; i++, key++) {
            const sp_kv_slot at = sp_span_slot(&p->spans[s], i);
            if (key % B == 0) {
                block = at.block;
                in_place = true;
            }
            in_place &= at.block == block && at.slot == key % B;
            if (in_place && (key % B == B - 1 || key == r->n - 1)) n_in_place += key % B + 1;
        }
    return r->n - n_in_place;
}

static bool is_worth_moving(const sp_plan *p, const run *r)
{
    return r->n > 0 && WORTH * n_gathered(p, r) >= r->n;
}

/* next_moved -- as next_run, of those that move. */
static bool next_moved(const sp_plan *p, int from, run *out)
{
    do {
        if (!next_run(p, from, out)) return false;
        from = out->end;
    } while (!is_worth_moving(p, out));
    return true;
}

sp_packing sp_plan_packing(const sp_plan *p)
{
    sp_packing all = {0};
    assert(p->bound);
    for (run r = {0}; next_moved(p, r.end, &r);) {
        all.n_tokens += r.n;
        all.n_blocks += sp_blocks_for(r.n);
    }
    return all;
}

typedef struct move {
    uint32_t *blocks;      /* [n_blocks] new, in the order of the runs */
    uint32_t *lists;       /* room for the block list of each span, in the plan's arena */
    sp_kv_slot *from, *to; /* [n] of each token */
    int32_t n;
} move;

/* list_slots -- where each token is, and where it goes. */
static void list_slots(const sp_plan *p, move *m)
{
    const uint32_t *blocks = m->blocks;
    for (run r = {0}; next_moved(p, r.end, &r); blocks += sp_blocks_for(r.n)) {
        int32_t key = 0;
        for (int s = r.first; s < r.end; s++)
            for (int32_t i = 0; i < p->spans[s].n; i++, key++) {
                const sp_kv_slot at = sp_span_slot(&p->spans[s], i);
                m->from[m->n] = at;
                m->to[m->n++] = (sp_kv_slot){
                    .block = blocks[key / B], .slot = (uint8_t)(key % B), .rot = at.rot};
            }
    }
}

/* move_span -- its first key becomes key `key` of a run in `blocks`. */
static void move_span(sp_plan *p, int i, const uint32_t *blocks, int32_t key, uint32_t **lists)
{
    sp_span *s = &p->spans[i];
    sp_kv_release(p->pool, s->blocks, sp_span_n_blocks(s));
    s->first = key % B;
    const int32_t n = sp_span_n_blocks(s);
    memcpy(*lists, blocks + key / B, (size_t)n * sizeof **lists);
    s->blocks = p->slots[i].blocks = *lists;
    sp_kv_retain(p->pool, s->blocks, n);
    *lists += n;
}

static void move_spans(sp_plan *p, move *m)
{
    const uint32_t *blocks = m->blocks;
    for (run r = {0}; next_moved(p, r.end, &r); blocks += sp_blocks_for(r.n))
        for (int s = r.first, key = 0; s < r.end; key += p->spans[s++].n)
            if (p->spans[s].n) move_span(p, s, blocks, key, &m->lists);
}

sp_err sp_plan_pack(sp_plan *p, const sp_packing *what, sp_pack_copy *copy, void *user)
{
    const size_t n = (size_t)what->n_tokens, n_blocks = (size_t)what->n_blocks;
    const size_t n_listed =
        2 * (size_t)p->n_spans + n / B; /* a span begins and ends inside a block */
    move m = {.blocks = sp_arena_take(&p->arena, n_blocks, sizeof *m.blocks),
              .lists = sp_arena_take(&p->arena, n_listed, sizeof *m.lists)};
    if (m.blocks && m.lists) m.from = sp_alloc(2 * n, sizeof *m.from);
    if (!m.from) return sp_fail_nomem("nodes to be packed");
    m.to = m.from + n;
    sp_err err = sp_kv_acquire(p->pool, what->n_blocks, m.blocks);
    if (err != SP_OK) {
        sp_free(m.from);
        return err;
    }
    list_slots(p, &m);
    err = copy(user, m.from, m.to, m.n);
    if (err == SP_OK) {
        sp_kv_seal(p->pool, m.blocks, what->n_blocks);
        move_spans(p, &m);
    }
    sp_kv_release(p->pool, m.blocks, what->n_blocks); /* the spans hold them */
    sp_free(m.from);
    return err;
}
