#include "kv/plan.h"

#include <limits.h>
#include <string.h>

void sp_plan_init(sp_plan *p, sp_kv_pool *pool)
{
    *p = (sp_plan){.pool = pool};
    sp_arena_init(&p->arena);
}

/* n_held -- blocks of span s that the plan holds: the known ones, and all once bound. */
static int32_t n_held(const sp_plan *p, int s)
{
    const sp_slots *slots = &p->slots[s];
    if (p->bound) return sp_span_n_blocks(&p->spans[s]);
    return slots->n_known ? sp_blocks_for(p->spans[s].first + slots->n_known) : 0;
}

void sp_plan_fini(sp_plan *p)
{
    for (int s = 0; s < p->n_spans; s++) sp_kv_release(p->pool, p->slots[s].blocks, n_held(p, s));
    sp_arena_fini(&p->arena);
    *p = (sp_plan){0};
}

/* grown -- room for one more item in an arena array: doubles it when full; the old one stays
 * unused. */
static void *grown(sp_arena *a, void *v, int n, int *cap, size_t size)
{
    if (n < *cap) return v;
    int want = SP_MAX(8, *cap * 2);
    void *bigger = sp_arena_take(a, (size_t)want, size);
    if (!bigger) return NULL;
    if (n) memcpy(bigger, v, (size_t)n * size);
    *cap = want;
    return bigger;
}

static sp_err reserve_span(sp_plan *p)
{
    if (p->n_spans >= UINT16_MAX) return sp_fail(SP_E_LIMIT, "plan: over %d spans", UINT16_MAX);
    if (p->n_spans < p->cap_spans) return SP_OK;
    int cap_slots = p->cap_spans; /* both arrays grow together */
    sp_slots *slots = grown(&p->arena, p->slots, p->n_spans, &cap_slots, sizeof *slots);
    sp_span *spans =
        slots ? grown(&p->arena, p->spans, p->n_spans, &p->cap_spans, sizeof *spans) : NULL;
    if (!spans) return sp_fail_nomem("a plan");
    p->spans = spans;
    p->slots = slots;
    return SP_OK;
}

/* place_fresh -- a joined span that is not known may begin in the last block of another one. */
static void place_fresh(sp_plan *p, const sp_span_spec *spec, sp_span *span, sp_slots *slots)
{
    const sp_span *last = p->last_fresh ? &p->spans[p->last_fresh - 1] : NULL;
    if (!spec->joined || spec->n_known || spec->n == 0) return;
    if (last && spec->packed && (last->first + last->n) % SP_BLOCK_TOKENS) {
        span->first = (last->first + last->n) % SP_BLOCK_TOKENS;
        slots->shares = p->last_fresh;
    }
    p->last_fresh = p->n_spans + 1;
}

sp_err sp_plan_add_span(sp_plan *p, const sp_span_spec *spec, int *span)
{
    const int32_t n = spec->n, room = SP_MAX(n, spec->room);
    assert(!p->bound && n >= 0 && spec->n_known <= n);
    assert(spec->n_known == n || (spec->n_known % SP_BLOCK_TOKENS == 0 && spec->first == 0));
    SP_TRY(reserve_span(p));
    sp_span *s = &p->spans[p->n_spans];
    sp_slots *slots = &p->slots[p->n_spans];
    *s = (sp_span){
        .n = n, .first = spec->first, .at = spec->at, .shift = spec->shift, .joined = spec->joined};
    *slots = (sp_slots){.n_known = spec->n_known, .room = room};
    place_fresh(p, spec, s, slots);
    uint32_t *blocks =
        sp_arena_take(&p->arena, (size_t)sp_blocks_for(s->first + room), sizeof *blocks);
    int32_t *where = spec->pos ? sp_arena_take(&p->arena, (size_t)room, sizeof *where) : NULL;
    if (!blocks || (spec->pos && !where))
        return sp_fail_nomem("a plan");
    if (spec->pos) memcpy(where, spec->pos, (size_t)n * sizeof *where);
    int32_t held = n_held(p, p->n_spans);
    if (held) memcpy(blocks, spec->known, (size_t)held * sizeof *blocks);
    sp_kv_retain(p->pool, blocks, held);
    s->blocks = slots->blocks = blocks;
    s->pos = where;
    *span = p->n_spans++;
    return SP_OK;
}

/* stale_map -- the stale map of a span, created on first use, for as many tokens as the span can have. NULL: out of
 * memory. */
static uint64_t *stale_map(sp_plan *p, int span)
{
    sp_span *s = &p->spans[span];
    size_t n = (size_t)SP_DIV_UP(p->slots[span].room, 64);
    if (!s->stale) s->stale = sp_arena_take(&p->arena, n, sizeof *s->stale);
    return (uint64_t *)s->stale;
}

sp_err sp_plan_mark_stale(sp_plan *p, int span, int32_t index)
{
    assert(index >= 0 && index < p->spans[span].n);
    uint64_t *map = stale_map(p, span);
    if (!map) return sp_fail_nomem("a stale map");
    map[index / 64] |= UINT64_C(1) << (index % 64);
    return SP_OK;
}

sp_err sp_plan_mark_all_stale(sp_plan *p, int span)
{
    assert(!p->spans[span].stale);
    int32_t n = p->spans[span].n;
    uint64_t *map = stale_map(p, span);
    if (!map) return sp_fail_nomem("a stale map");
    for (int32_t i = 0; i < n / 64; i++) map[i] = UINT64_MAX;
    if (n % 64) map[n / 64] = (UINT64_C(1) << (n % 64)) - 1;
    return SP_OK;
}

/* push_sight -- `list` is in the plan's arena, or NULL. */
static sp_err push_sight(sp_plan *p, const uint16_t *list, int32_t n, int *sight)
{
    if (p->n_sights >= UINT16_MAX) return sp_fail(SP_E_LIMIT, "plan: over %d sights", UINT16_MAX);
    sp_sight *v = grown(&p->arena, p->sights, p->n_sights, &p->cap_sights, sizeof *v);
    if (!v) return sp_fail_nomem("a plan");
    p->sights = v;
    v[p->n_sights] = (sp_sight){.list = list, .n = n};
    *sight = p->n_sights++;
    return SP_OK;
}

sp_err sp_plan_add_sight(sp_plan *p, const uint16_t *list, int32_t n, int *sight)
{
    uint16_t *copy = list ? sp_arena_take(&p->arena, (size_t)n, sizeof *copy) : NULL;
    if (list && !copy) return sp_fail_nomem("a plan");
    if (n && list) memcpy(copy, list, (size_t)n * sizeof *list);
    return push_sight(p, copy, n, sight);
}

sp_err sp_plan_add_sight_of(sp_plan *p, const sp_segment *segs, int i, int *sight)
{
    int n = sp_segment_n_seen(segs, i);
    if (n == i + 1) return push_sight(p, NULL, n, sight);
    uint16_t *list = sp_arena_take(&p->arena, (size_t)n, sizeof *list);
    if (!list) return sp_fail_nomem("a plan");
    sp_segment_sight(segs, i, list);
    return push_sight(p, list, n, sight);
}

sp_err sp_plan_add_todo(sp_plan *p, sp_todo todo)
{
    sp_todo *v = grown(&p->arena, p->todo, p->n_todo, &p->cap_todo, sizeof *v);
    if (!v) return sp_fail_nomem("a plan");
    p->todo = v;
    v[p->n_todo++] = todo;
    return SP_OK;
}

sp_err sp_plan_add_run(sp_plan *p, sp_todo first, const int32_t *tokens, int32_t n)
{
    if (n > p->cap_todo - p->n_todo) SP_TRY(sp_plan_reserve_todo(p, SP_MAX(n, p->n_todo)));
    sp_todo *out = p->todo + p->n_todo;
    for (int32_t i = 0; i < n; i++)
        out[i] = (sp_todo){.token = tokens[i],
                           .pos = first.pos + i,
                           .span = first.span,
                           .see = first.see,
                           .index = first.index + i};
    p->n_todo += n;
    return SP_OK;
}

sp_err sp_plan_reserve_todo(sp_plan *p, int n)
{
    if (n <= p->cap_todo - p->n_todo) return SP_OK;
    size_t want = (size_t)p->n_todo + (size_t)n;
    sp_todo *v = want <= INT_MAX ? sp_arena_take(&p->arena, want, sizeof *v) : NULL;
    if (!v) return sp_fail_nomem("a plan");
    if (p->n_todo) memcpy(v, p->todo, (size_t)p->n_todo * sizeof *v);
    p->todo = v;
    p->cap_todo = (int)want;
    return SP_OK;
}

int64_t sp_plan_n_fresh(const sp_plan *p)
{
    if (p->bound) return 0;
    int64_t n = 0;
    for (int s = 0; s < p->n_spans; s++)
        n += sp_span_n_blocks(&p->spans[s]) - n_held(p, s) - (p->slots[s].shares > 0);
    return n;
}

/* spare -- tokens by which bound spans may still grow; their todo entries are reserved with them,
 * so that decoding allocates nothing. */
static int spare(const sp_plan *p)
{
    int n = 0;
    for (int s = 0; s < p->n_spans; s++) n += p->slots[s].room - p->spans[s].n;
    return n;
}

/* share_block -- the first block of span s is the last of an earlier one. */
static void share_block(sp_plan *p, int s, int32_t *held)
{
    const sp_span *with = &p->spans[p->slots[s].shares - 1];
    p->slots[s].blocks[0] = with->blocks[sp_span_n_blocks(with) - 1];
    sp_kv_retain(p->pool, p->slots[s].blocks, 1);
    *held = 1;
}

sp_err sp_plan_bind(sp_plan *p)
{
    assert(!p->bound);
    int64_t n = sp_plan_n_fresh(p);
    SP_TRY(sp_plan_reserve_todo(p, spare(p)));
    uint32_t *fresh = sp_arena_take(&p->arena, (size_t)n, sizeof *fresh);
    if (!fresh) return sp_fail_nomem("a plan");
    SP_TRY(sp_kv_acquire(p->pool, n, fresh));
    for (int s = 0; s < p->n_spans; s++) {
        int32_t held = n_held(p, s), all = sp_span_n_blocks(&p->spans[s]);
        if (p->slots[s].shares) share_block(p, s, &held);
        if (all > held)
            memcpy(p->slots[s].blocks + held, fresh, (size_t)(all - held) * sizeof *fresh);
        fresh += all - held;
    }
    p->bound = true;
    return SP_OK;
}

static int32_t span_pos(const sp_span *s, int32_t i)
{
    return (s->pos ? s->pos[i] : s->at + i) + s->shift;
}

static sp_err check_sight(const sp_plan *p, int i)
{
    const sp_sight *see = &p->sights[i];
    if (see->n < 0 || (!see->list && see->n > p->n_spans))
        return sp_fail(SP_E_ARG, "plan: sight %d holds %d of %d spans", i, see->n, p->n_spans);
    for (int32_t k = 0; see->list && k < see->n; k++)
        if (see->list[k] >= p->n_spans || (k && see->list[k] <= see->list[k - 1]))
            return sp_fail(SP_E_ARG, "plan: sight %d names span %d out of order or range", i,
                           see->list[k]);
    return SP_OK;
}

sp_err sp_plan_check(const sp_plan *p)
{
    for (int i = 0; i < p->n_sights; i++) SP_TRY(check_sight(p, i));
    for (int s = 0; s < p->n_spans; s++)
        for (int32_t i = 1; p->spans[s].pos && i < p->spans[s].n; i++)
            if (p->spans[s].pos[i] <= p->spans[s].pos[i - 1])
                return sp_fail(SP_E_ARG, "plan: span %d is not ascending at token %d", s, i);
    for (int t = 0; t < p->n_todo; t++) {
        const sp_todo *d = &p->todo[t];
        if (d->span >= p->n_spans || d->see >= p->n_sights)
            return sp_fail(SP_E_ARG, "plan: todo %d names span %d, sight %d", t, d->span, d->see);
        const sp_span *s = &p->spans[d->span];
        if (d->index < p->slots[d->span].n_known || d->index >= s->n)
            return sp_fail(SP_E_ARG, "plan: todo %d writes token %d of span %d", t, d->index,
                           d->span);
        if (span_pos(s, d->index) != d->pos)
            return sp_fail(SP_E_ARG, "plan: todo %d is at position %d, its slot at %d", t, d->pos,
                           span_pos(s, d->index));
        if (t && d->see == p->todo[t - 1].see && d->pos <= p->todo[t - 1].pos)
            return sp_fail(SP_E_ARG, "plan: todo %d is not ascending", t);
        if (p->bound && sp_kv_is_sealed(p->pool, sp_span_slot(s, d->index).block))
            return sp_fail(SP_E_ARG, "plan: todo %d writes a sealed block", t);
    }
    return SP_OK;
}

void sp_plan_seal_done(sp_plan *p, int from, int upto)
{
    for (int i = from; i < upto; i++) {
        const sp_span *s = &p->spans[p->todo[i].span];
        const int32_t slot = s->first + p->todo[i].index; /* first is 0 unless the span is joined, or known */
        const bool is_last = (slot + 1) % SP_BLOCK_TOKENS == 0; /* I1: its others are computed */
        if (is_last && !s->joined) sp_kv_seal(p->pool, &s->blocks[slot / SP_BLOCK_TOKENS], 1);
    }
}

sp_err sp_plan_grow(sp_plan *p, int span, int32_t token, int32_t pos, uint16_t see)
{
    assert(p->bound);
    sp_span *s = &p->spans[span];
    sp_slots *slots = &p->slots[span];
    assert(s->first == 0);
    if (s->n >= slots->room)
        return sp_fail(SP_E_LIMIT, "plan: the room of %d tokens is used up", slots->room);
    sp_todo next = {.token = token, .pos = pos, .span = (uint16_t)span, .see = see, .index = s->n};
    if (s->n % SP_BLOCK_TOKENS == 0)
        SP_TRY(sp_kv_acquire(p->pool, 1, &slots->blocks[s->n / SP_BLOCK_TOKENS]));
    s->n++; /* the plan holds its block from here on, even if a later step fails */
    return sp_plan_add_todo(p, next);
}

int32_t sp_plan_shrink(sp_plan *p, int span, int32_t n)
{
    sp_span *s = &p->spans[span];
    assert(p->bound && s->first == 0 && p->slots[span].n_known <= n && n <= s->n);
    const int32_t from = sp_blocks_for(n), released = sp_blocks_for(s->n) - from;
    sp_kv_release(p->pool, p->slots[span].blocks + from, released);
    s->n = n;
    return released;
}
