/* tiny_rag.h -- a tiny model with a ledger, and random prompts of head, chunks and question. */
#ifndef SP_TESTS_TINY_RAG_H
#define SP_TESTS_TINY_RAG_H

#include "support/check.h"

#include "cache/ledger.h"
#include "reuse/parts.h"
#include "support/tiny_prompt.h"

typedef struct setting {
    tiny t;
    sp_ledger *ledger;
    sp_arena arena;
    prompt p;
} setting;

/* run -- binds a plan and computes it whole. */
static inline void run(tiny *t, sp_plan *plan, float *logits)
{
    sp_slice s = {plan, 0, plan->n_todo, logits ? SP_WANT_LAST : SP_WANT_NONE, logits};
    assert_ok(sp_plan_bind(plan));
    assert_ok(sp_plan_check(plan));
    if (plan->n_todo) assert_ok(sp_engine_step(t->engine, &s, 1));
}

/* -- a request as serve/ runs it, one plan at a time ------------------------------------------ */

typedef struct asked {
    setting *s;
    const prompt *p;
    const sp_reuse_policy *policy;
    sp_digest ids[MAX_SEGS];
    sp_found found[MAX_SEGS];
    sp_reuse_input in;
} asked;

/* asked_begin -- finds; a points into itself from then on. */
static inline void asked_begin(asked *a, setting *s, const prompt *p, const char *policy,
                               float recompute)
{
    *a = (asked){.s = s, .p = p};
    double params[SP_REUSE_PARAMS];
    assert_ok(sp_reuse_policy_find(policy, &a->policy, params));
    for (int i = 0; i < p->n_segs; i++) a->ids[i] = p->segs[i].id;
    a->in = (sp_reuse_input){.segs = p->segs,
                             .n_segs = p->n_segs,
                             .ids = a->ids,
                             .n_head = sp_reuse_n_head(p->segs, p->n_segs),
                             .found = a->found,
                             .recompute = a->policy->recomputes ? recompute : 0,
                             .answer_room = 4,
                             .n_layers = s->t.model.hp.n_layers};
    memcpy(a->in.params, params, sizeof params);
    assert_ok(a->policy->find(
        &(sp_finder){.in = &a->in, .ledger = s->ledger, .arena = &s->arena, .now = 1}));
}

/* asked_plan -- the next plan, initialised and made. */
static inline sp_plan_role asked_plan(asked *a, sp_plan *plan)
{
    sp_plan_role role;
    sp_plan_init(plan, a->s->t.pool);
    assert_ok(a->policy->next_plan(&a->in, plan, &role));
    return role;
}

static inline void asked_add(asked *a, sp_kept *k)
{
    sp_kv_pool *pool = a->s->t.pool;
    const sp_copy *out = NULL;
    int parent = sp_segment_parent(a->p->segs, k->seg);
    if (k->spec.facts.kind == SP_COPY_PATH && parent >= 0) k->spec.parent = a->found[parent].copy;
    if (k->spec.base)
        sp_kv_seal(pool, k->spec.patch.blocks, sp_blocks_for(k->spec.patch.n));
    else
        sp_kv_seal(pool, k->spec.blocks, sp_blocks_for(k->spec.first + k->spec.seg->n));
    assert_ok(sp_ledger_add(a->s->ledger, &k->spec, 1, &out));
    assert_non_null(out);
    if (k->spec.facts.kind != SP_COPY_PATH) return;
    sp_ledger_pin(a->s->ledger, out);
    if (a->found[k->seg].copy) sp_ledger_unpin(a->s->ledger, a->found[k->seg].copy);
    a->found[k->seg].copy = out;
}

/* asked_keep -- a plan has run: what it leaves behind enters the ledger. */
static inline void asked_keep(asked *a, sp_plan *plan, sp_plan_role role)
{
    sp_kept kept[MAX_SEGS];
    sp_kept_list list = {.v = kept};
    a->in.n_done[role]++;
    if (a->policy->keep) assert_ok(a->policy->keep(&a->in, plan, role, &list));
    for (int i = 0; i < list.n; i++) asked_add(a, &kept[i]);
}

static inline void asked_end(asked *a)
{
    for (int i = 0; i < MAX_SEGS; i++)
        if (a->found[i].copy) sp_ledger_unpin(a->s->ledger, a->found[i].copy);
}

/* plain -- logits of the plain forward pass. */
static inline void plain(setting *s, const prompt *p, float *logits)
{
    asked a;
    sp_plan plan;
    asked_begin(&a, s, p, "off", 0);
    assert_int_equal(asked_plan(&a, &plan), SP_PLAN_ANSWER);
    run(&s->t, &plan, logits);
    sp_plan_fini(&plan);
    asked_end(&a);
}

/* tiny_ledger -- over the tiny model's pool. */
static inline sp_ledger *tiny_ledger(tiny *t)
{
    sp_ledger *l = NULL;
    assert_ok(sp_ledger_create(
        &(sp_ledger_opts){.pool = t->pool, .max_blocks = 200, .max_placed = 64}, &l));
    return l;
}

/* random_rag -- a head, at least one chunk (sometimes one twice), a question. */
static inline void random_rag(prompt *p, uint64_t *rng, int n_vocab)
{
    do random_prompt(p, rng, n_vocab);
    while (p->n_segs < 3);
    p->segs[0].kind = SP_SEG_SYSTEM;
    p->segs[p->n_segs - 1].kind = SP_SEG_QUESTION;
    if (p->n_segs > 3 && tiny_below(rng, 2)) {
        p->segs[2].n = p->segs[1].n;
        memcpy(p->tokens[2], p->tokens[1], sizeof p->tokens[1]);
    }
    set_ids(p);
}

/* elsewhere -- the same head and chunks the other way round, with a stranger among them. */
static inline void elsewhere(prompt *q, const prompt *p, int n_vocab)
{
    *q = *p;
    for (int i = 1; i < p->n_segs - 1; i++) {
        int from = p->n_segs - 1 - i;
        q->segs[i] = p->segs[from];
        memcpy(q->tokens[i], p->tokens[from], sizeof q->tokens[i]);
    }
    int last = q->n_segs - 1;
    q->segs[last].kind = SP_SEG_CHUNK;
    q->tokens[last][0] = (q->tokens[last][0] + 1) % n_vocab;
    set_ids(q);
}

static inline void close_to(const float *got, const float *want, size_t n, double bound,
                            const char *what)
{
    double nmse = tiny_nmse(got, want, n);
    if (!(nmse <= bound)) fail_msg("%s: NMSE %g over %g", what, nmse, bound);
}

static int rag_window; /* of the models to come: tiny_spec.window */

/* everywhere -- a check on every kernel variant of this CPU and every KV type; the pool must be
 * free at the end. */
static inline void everywhere(void (*check)(setting *s))
{
    for (size_t v = 0; v < SP_COUNT(variants); v++)
        for (size_t k = 0; k < SP_COUNT(kv_types); k++)
            for (int i = 0; i < variants[v].rounds; i++) {
                setting s = {0};
                tiny_spec spec = TINY_SPEC_DEFAULT;
                uint64_t rng = 7000 * v + 100 * k + (uint64_t)i;
                spec.cpu = variants[v].name;
                spec.device = variants[v].device;
                spec.kv_type = kv_types[k];
                spec.adjacent = i & 1;
                spec.n_layers = 1 + i % 3;
                spec.window = rag_window;
                sp_err err = tiny_open(&s.t, &spec, rng);
                if (err == SP_E_UNSUPPORTED) break;
                assert_ok(err);
                s.ledger = tiny_ledger(&s.t);
                sp_arena_init(&s.arena);
                random_rag(&s.p, &rng, spec.n_vocab);
                check(&s);
                sp_ledger_destroy(s.ledger);
                sp_arena_fini(&s.arena);
                assert_int_equal(sp_kv_pool_n_free(s.t.pool), sp_kv_pool_n_blocks(s.t.pool));
                tiny_close(&s.t);
            }
}

#endif
