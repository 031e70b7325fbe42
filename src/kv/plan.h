/* plan.h -- what to compute and what each token may see: the contract between policies and engine.
 *
 *   spans     the context as runs of KV (compute/ops.h: sp_span), in prompt order
 *   todo      the Q index: tokens to compute, with position and the slot for their KV
 *   sights    which spans a token may look at
 *   gate      called after each layer; may drop tokens from the remaining layers
 *   selector  called before each layer's attention; may rewrite the spans of a KV head
 *   observer  called after each layer's attention in steps of one token; measures
 *
 * A policy (reuse/) builds a plan without touching memory of the pool: a span names the known
 * blocks it reads and says how many more it needs. sp_plan_bind then takes those blocks, and the
 * engine executes the todo list in pieces of any size, in order. Plans are host memory.
 *
 * Invariants
 *  I1  each span is ascending in position, and so is each run of todo tokens that share a sight.
 *  I2  each todo token has one slot of its own, in an open block of its span.
 *  I3  the plan holds a reference on every block that it names, for each span that names it, until
 *      sp_plan_fini.
 */
#ifndef SP_KV_PLAN_H
#define SP_KV_PLAN_H

#include "base/mem.h"
#include "kv/pool.h"
#include "kv/segment.h"

typedef struct sp_plan sp_plan;

/* One token to compute. */
typedef struct sp_todo {
    int32_t token; /* id */
    int32_t pos;   /* position in the prompt */
    uint16_t span; /* where its KV goes ... */
    uint16_t see;  /* ... and its sight, an index into sights */
    int32_t index; /* token of that span */
} sp_todo;

/* What a gate sees after a layer, and may change. */
typedef struct sp_gate_view {
    const sp_plan *plan;
    int layer;         /* just finished, 0 .. L-1 */
    int n_heads;       /* H */
    int n;             /* tokens still computed in this piece */
    const int32_t *id; /* [n] index into plan->todo */
    const float *mass; /* host [n, H, n_spans] attention mass of this layer, if wanted; else NULL */
    bool *keep;        /* [n] all true; false drops the token from the remaining layers, in which
                          its slot gets the KV of its twin, if it has one */
} sp_gate_view;

typedef struct sp_gate {
    void (*after_layer)(void *user, const sp_gate_view *view);
    void *user;
    bool wants_mass;
} sp_gate;

/* What a selector sees before a layer's attention: a copy of the plan's spans for one KV head.
 * It may drop a span (n = 0) or let it name fewer keys (n, blocks, at or pos, shift, stale); what it
 * points to must live until the step ends. Every query must still see at least one key. */
typedef struct sp_selector_view {
    const sp_plan *plan;
    int layer, kv_head;
    sp_span *spans; /* [n_spans] */
} sp_selector_view;

/* Sparse attention. Not with a probe of columns, which needs the keys of the plan's spans. */
typedef struct sp_selector {
    void (*rewrite)(void *user, const sp_selector_view *view);
    void *user;
} sp_selector;

/* Sparse decoding (engine/sparse/sparse.h): if a plan has it, steps of one token read only some blocks. Not with a
 * selector. */
typedef struct sp_sparse sp_sparse;

/* What an observer sees after a layer's attention. */
typedef struct sp_observed {
    const sp_plan *plan;
    int layer;
    int32_t pos; /* of the token */
    sp_device *device;
    const sp_attend_args *args; /* of this plan's request alone. Its spans are the plan's; spans_of_head: those that
                                   each KV head read; NULL: all */
} sp_observed;

/* An error of `look` ends the step. It may attend once more, to one span for each block of the plan. The keys of all
 * spans are in memory. */
typedef struct sp_observer {
    sp_err (*look)(void *user, const sp_observed *seen);
    void *user;
} sp_observer;

/* A probe is a plan that runs to measure, not to answer: its rows end after the probed layer.
 * COLUMNS of every layer are added up while the plan runs to its end. */
#define SP_EVERY_LAYER (-1)
typedef enum sp_probe_kind {
    SP_PROBE_NONE,
    SP_PROBE_COLUMNS,  /* attention that the todo tokens give to each key */
    SP_PROBE_DEVIATION /* distance between the KV of each todo token and an older copy of it */
} sp_probe_kind;

/* The older copy of a todo token: a probe compares the token with it, and it replaces the token in
 * the layers after a gate dropped it (both keys are then rotated for the same position).
 * span < 0: none. */
typedef struct sp_twin {
    int32_t span, index;
} sp_twin;

typedef struct sp_probe {
    sp_probe_kind kind;
    int layer;        /* 0 .. L-1 */
    float **columns;  /* COLUMNS: host [n_spans] of [span.n], sums; NULL where not wanted */
    float *deviation; /* DEVIATION (of twins): host [n_todo] |K - K'|^2 + |V - V'|^2 */
} sp_probe;

/* The blocks of a span. */
typedef struct sp_slots {
    uint32_t *blocks; /* [ceil((first + room) / B)] the same array as sp_span.blocks */
    int32_t n_known;  /* leading tokens of the span whose KV existed before this plan */
    int32_t room;     /* tokens that blocks has entries for */
    int32_t shares;   /* 1 + an earlier span, whose last block is the first of this one; or 0 */
} sp_slots;

/* A span to add. Tokens whose KV is not known yet get fresh blocks when the plan is bound. */
typedef struct sp_span_spec {
    int32_t n;          /* tokens */
    int32_t room;       /* tokens to reserve slots for, for spans that grow; below n: n */
    int32_t at;         /* position of its first key, when pos is NULL */
    const int32_t *pos; /* [n] positions of scattered keys, ascending, or NULL */
    int32_t shift;      /* position in the prompt = position of the key + shift */
    const uint32_t
        *known;      /* [ceil((first + n_known) / B)] blocks that hold the first tokens, or NULL */
    int32_t n_known; /* n, or a multiple of B; then first is 0 */
    int32_t first;   /* slot of the first known token in known[0] */
    bool joined;     /* as sp_span.joined */
    bool packed;     /* joined, not known: takes slots after those of the last such span */
} sp_span_spec;

struct sp_plan {
    sp_span *spans;  /* [n_spans] */
    sp_slots *slots; /* [n_spans] what the plan knows about the blocks of each span */
    int n_spans, cap_spans;
    sp_todo *todo;
    int n_todo, cap_todo;
    sp_sight *sights;
    int n_sights, cap_sights;
    sp_twin *twins; /* [n_twins] of the first todo tokens */
    int n_twins;
    sp_gate gate;         /* after_layer NULL: none */
    sp_selector selector; /* rewrite NULL: none */
    sp_sparse *sparse;    /* borrowed; or NULL */
    sp_observer observer; /* look NULL: none */
    sp_probe probe;
    sp_kv_pool *pool;
    bool bound;
    int32_t n_dropped; /* todo tokens that gates have dropped before the last layer */
    int last_fresh; /* 1 + the last joined span without known tokens; 0: none */
    sp_arena arena; /* everything above */
};

/* sp_span_n_blocks -- blocks with the span's tokens; the first and the last may hold tokens of other spans, too. */
static inline int32_t sp_span_n_blocks(const sp_span *s)
{
    return sp_blocks_for(s->first + s->n);
}

/* sp_plan_n_blocks -- of all spans; a shared one counts for each of them. */
static inline int sp_plan_n_blocks(const sp_plan *p)
{
    int n = 0;
    for (int i = 0; i < p->n_spans; i++) n += sp_span_n_blocks(&p->spans[i]);
    return n;
}

/* sp_span_slot -- where the KV of token `index` of a span is stored. */
static inline sp_kv_slot sp_span_slot(const sp_span *s, int32_t index)
{
    const int32_t j = s->first + index;
    return (sp_kv_slot){.block = s->blocks[j / SP_BLOCK_TOKENS],
                        .slot = (uint8_t)(j % SP_BLOCK_TOKENS),
                        .rot = s->pos ? s->pos[index] : s->at + index};
}

void sp_plan_init(sp_plan *p, sp_kv_pool *pool);
/* sp_plan_fini -- releases the plan's references to its blocks. */
void sp_plan_fini(sp_plan *p);

/* sp_plan_add_span -- adds a span. The plan retains the known blocks and copies pos.
 * Errors: SP_E_NOMEM, SP_E_LIMIT over 65,535 spans. */
sp_err sp_plan_add_span(sp_plan *p, const sp_span_spec *spec, int *span) SP_MUST_CHECK;
/* sp_plan_mark_stale -- token `index` of a span must not be read, since a recomputed one replaces it. */
sp_err sp_plan_mark_stale(sp_plan *p, int span, int32_t index) SP_MUST_CHECK;
/* sp_plan_mark_all_stale -- all tokens of a span that has no map yet. */
sp_err sp_plan_mark_all_stale(sp_plan *p, int span) SP_MUST_CHECK;
/* sp_plan_add_sight -- list NULL: the first n spans. The list is copied. */
sp_err sp_plan_add_sight(sp_plan *p, const uint16_t *list, int32_t n, int *sight) SP_MUST_CHECK;
/* sp_plan_add_sight_of -- the sight of segment i: itself and its ancestors, each of which has the
 * span of its own index. */
sp_err sp_plan_add_sight_of(sp_plan *p, const sp_segment *segs, int i, int *sight) SP_MUST_CHECK;
sp_err sp_plan_add_todo(sp_plan *p, sp_todo todo) SP_MUST_CHECK;
/* sp_plan_add_run -- n consecutive tokens of prompt and span, beginning at the place of `first`, whose token is
 * ignored. */
sp_err sp_plan_add_run(sp_plan *p, sp_todo first, const int32_t *tokens, int32_t n) SP_MUST_CHECK;
/* sp_plan_reserve_todo -- allocates memory for n more, which avoids copying a growing list. */
sp_err sp_plan_reserve_todo(sp_plan *p, int n) SP_MUST_CHECK;

/* sp_plan_n_fresh -- blocks that sp_plan_bind will take. */
int64_t sp_plan_n_fresh(const sp_plan *p);
/* sp_plan_bind -- takes the fresh blocks. Errors: SP_E_NOKV, and nothing is taken. */
sp_err sp_plan_bind(sp_plan *p) SP_MUST_CHECK;
/* sp_plan_check -- verifies I1, I2 and ranges; SP_E_ARG names the problem. Cost: O(tokens). */
sp_err sp_plan_check(const sp_plan *p) SP_MUST_CHECK;

/* sp_plan_seal_done -- todo tokens [from, upto) have been computed, after those before them: seals the blocks that
 * they fill. Blocks shared by several spans stay open. */
void sp_plan_seal_done(sp_plan *p, int from, int upto);

/* sp_plan_grow -- decoding: one more token at the end of a bound span that has room, as the next
 * todo. Takes a block when the last is full. Errors: SP_E_NOKV, SP_E_LIMIT when the room is used
 * up. */
sp_err sp_plan_grow(sp_plan *p, int span, int32_t token, int32_t pos, uint16_t see) SP_MUST_CHECK;
/* sp_plan_shrink -- removes all but the first n tokens of a span that sp_plan_grow has extended, once they are
 * computed. Returns the number of released blocks. */
int32_t sp_plan_shrink(sp_plan *p, int span, int32_t n);

#endif
