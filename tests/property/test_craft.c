/* test_craft.c -- Cache-Craft through the engine, on random prompts and whatever copies they leave
 * behind.
 *
 *   cold                  = the plain forward pass
 *   the same prompt again = the same bits, nothing computed but the question
 *   other orders          exactly ceil(r n) tokens recomputed, as far as chunks need any; no
 *                         cached byte changes; all of them again = the plain pass, within rounding
 *   measured              attention between chunks is the mass that any gate sees
 *   dropped tokens        have the bits of their cached copy in the layers that remain
 */
#include "support/tiny_rag.h"

#include "reuse/craft/gate.h"

enum { MAX_TODO = MAX_SEGS * MAX_LEN, WHOLE = 0 };

/* One request, and what another gate beside Cache-Craft's own has seen of it. */
typedef struct request {
    setting *s;
    const prompt *p;
    int piece; /* tokens in a step; WHOLE: all */
    asked a;
    sp_plan plan;
    sp_gate gate;                     /* Cache-Craft's */
    double inter[MAX_SEGS][MAX_SEGS]; /* sums of mass: from, to */
    int8_t dropped[MAX_TODO];         /* 1 + the layer after which it was; 0: not */
    int n_recomputed, n_dropped;
} request;

/* -- the gate beside it ---------------------------------------------------------------------- */

static int seg_at(const prompt *p, int32_t pos)
{
    int i = 0;
    while (i < p->n_segs - 1 && pos >= p->segs[i].n) pos -= p->segs[i++].n;
    return i;
}

/* seg_of_span -- by the position of its first token. */
static int seg_of_span(const request *r, int k)
{
    const sp_span *s = &r->plan.spans[k];
    if (k < r->p->n_segs) return k;
    return s->n ? seg_at(r->p, (s->pos ? s->pos[0] : s->at) + s->shift) : -1;
}

static void look_on(void *user, const sp_gate_view *v)
{
    request *r = user;
    int n_spans = v->plan->n_spans, seg_of[3 * MAX_SEGS + 1];
    assert_in_range(n_spans, 1, SP_COUNT(seg_of));
    for (int k = 0; k < n_spans; k++) seg_of[k] = seg_of_span(r, k);
    for (int i = 0; i < v->n; i++) {
        double *to = r->inter[seg_at(r->p, v->plan->todo[v->id[i]].pos)];
        const float *m = v->mass + i * v->n_heads * n_spans;
        for (int x = 0; x < v->n_heads * n_spans; x++)
            if (seg_of[x % n_spans] >= 0) to[seg_of[x % n_spans]] += (double)m[x];
    }
    r->gate.after_layer(r->gate.user, v);
    for (int i = 0; i < v->n; i++)
        if (!v->keep[i]) {
            r->dropped[v->id[i]] = (int8_t)(1 + v->layer);
            r->n_dropped++;
            assert_true(v->plan->todo[v->id[i]].span >= r->p->n_segs); /* only recomputed ones */
        }
}

/* -- a request ------------------------------------------------------------------------------- */

static bool is_chunk(const request *r, int i)
{
    return r->a.found[i].copy && r->a.found[i].copy->facts.kind != SP_COPY_PATH;
}

static void compute(request *r, float *logits)
{
    sp_plan *p = &r->plan;
    assert_ok(sp_plan_bind(p));
    assert_ok(sp_plan_check(p));
    int piece = r->piece == WHOLE ? p->n_todo : r->piece;
    for (int from = 0; from < p->n_todo; from += piece) {
        int n = SP_MIN(piece, p->n_todo - from);
        sp_slice slice = {p, from, n, SP_WANT_LAST, logits};
        assert_ok(sp_engine_step(r->s->t.engine, &slice, 1));
    }
}

static void begin(request *r, setting *s, const prompt *p, float recompute, int focus)
{
    *r = (request){.s = s, .p = p};
    asked_begin(&r->a, s, p, "craft", recompute);
    r->a.in.params[SP_CRAFT_FOCUS] = focus;
    for (int i = 0; i < p->n_segs; i++)
        if (is_chunk(r, i)) sp_ledger_use(s->ledger, r->a.found[i].copy, r->a.found[i].cfo, 1);
    assert_int_equal(asked_plan(&r->a, &r->plan), SP_PLAN_ANSWER);
    for (int t = 0; t < r->plan.n_todo; t++) r->n_recomputed += r->plan.todo[t].span >= p->n_segs;
    r->gate = r->plan.gate;
    r->plan.gate = (sp_gate){.after_layer = look_on, .user = r, .wants_mass = true};
}

static void go(request *r, float *logits)
{
    compute(r, logits);
    r->plan.gate = r->gate;
    asked_keep(&r->a, &r->plan, SP_PLAN_ANSWER);
}

static void end(request *r)
{
    sp_plan_fini(&r->plan);
    asked_end(&r->a);
}

/* -- what must hold of each ------------------------------------------------------------------- */

static uint64_t bytes_of(sp_kv_pool *pool, const uint32_t *blocks, int32_t n_tokens)
{
    uint64_t h = 0;
    for (int l = 0; l < sp_kv_pool_shape(pool)->n_layers; l++)
        for (int32_t b = 0; b < SP_DIV_UP(n_tokens, SP_BLOCK_TOKENS); b++) {
            uint8_t *kv = tiny_block(pool, l, blocks[b]);
            h = h * 31 + sp_hash64(kv, sp_kv_pool_layer_block_bytes(pool));
            free(kv);
        }
    return h;
}

/* fingerprint -- of all copies that the request reads. */
static uint64_t fingerprint(const request *r)
{
    uint64_t h = 0;
    for (int i = 0; i < r->p->n_segs; i++)
        if (is_chunk(r, i)) {
            const sp_copy *v = r->a.found[i].copy;
            h = h * 31 + bytes_of(r->s->t.pool, v->blocks, v->n);
            if (v->base) h = h * 31 + bytes_of(r->s->t.pool, v->patch.blocks, v->patch.n);
        }
    return h;
}

static void assert_count(const request *r)
{
    int all = 0, willing = 0;
    for (int i = 0; i < r->p->n_segs; i++)
        if (is_chunk(r, i)) {
            all += r->p->segs[i].n;
            willing += r->a.found[i].cfo > 0 ? r->p->segs[i].n : 0;
        }
    int want = (int)ceilf(r->a.in.recompute * (float)all);
    assert_int_equal(r->n_recomputed, r->a.in.recompute < 1 ? SP_MIN(want, willing) : all);
}

/* Means over layers and heads; chunks only. What was dropped is not whole. */
static void assert_measured(const request *r)
{
    const sp_craft_gate *w = sp_craft_gate_of(&r->plan);
    double per = r->s->t.model.hp.n_layers * r->s->t.model.hp.n_heads;
    for (int i = 1; i < r->p->n_segs - 1; i++) {
        const sp_craft_measured *c = &w->chunks[i];
        if (!c->on || c->dropped) continue;
        double sum = 0, prior = 0;
        assert_true(fabs((double)c->intra - r->inter[i][i] / per) < 1e-3);
        for (int k = 1; k < i; k++) {
            assert_true(fabs((double)c->inter[k] - r->inter[i][k] / per) < 1e-3);
            sum += (double)c->inter[k];
        }
        for (int32_t t = 0; t < r->p->segs[i].n; t++) prior += (double)c->to_prior[t];
        assert_true(fabs(sum - prior) < 1e-3);
    }
}

typedef struct slot_kv {
    float v[2][2][SP_HEAD_MAX];
} slot_kv;

static void read_slot(const request *r, int layer, int span, int32_t index, slot_kv *out)
{
    sp_kv_pool *pool = r->s->t.pool;
    const int n_heads = sp_kv_pool_shape(pool)->n_heads;
    sp_kv_slot at = sp_span_slot(&r->plan.spans[span], index);
    memset(out, 0, sizeof *out);
    assert_in_range(n_heads, 1, 2);
    for (int g = 0; g < n_heads; g++) tiny_kv_read(pool, layer, &at, g, out->v[g][0], out->v[g][1]);
}

static void assert_dropped(const request *r)
{
    for (int t = 0; t < r->plan.n_todo; t++)
        for (int l = r->dropped[t]; r->dropped[t] && l < r->s->t.model.hp.n_layers; l++) {
            const sp_todo *d = &r->plan.todo[t];
            slot_kv got, want;
            read_slot(r, l, d->span, d->index, &got);
            read_slot(r, l, r->plan.twins[t].span, r->plan.twins[t].index, &want);
            assert_memory_equal(&got, &want, sizeof got);
        }
}

/* ask -- a whole request with all of that; returns how many tokens were recomputed. */
static int ask(setting *s, const prompt *p, float recompute, int focus, int piece, float *logits,
               int *n_dropped)
{
    request r;
    begin(&r, s, p, recompute, focus);
    r.piece = piece;
    uint64_t before = fingerprint(&r);
    go(&r, logits);
    assert_true(fingerprint(&r) == before);
    assert_count(&r);
    assert_measured(&r);
    assert_dropped(&r);
    int n = r.n_recomputed;
    if (n_dropped) *n_dropped += r.n_dropped;
    end(&r);
    return n;
}

/* -- prompts ---------------------------------------------------------------------------------- */

/* turned -- the same head, chunks and question; chunks rotated by k places, and perhaps one
 * less. */
static void turned(prompt *q, const prompt *p, int k, bool shorter)
{
    int n = p->n_segs - 2;
    *q = *p;
    for (int i = 0; i < n; i++) {
        q->segs[1 + i] = p->segs[1 + (i + k) % n];
        memcpy(q->tokens[1 + i], p->tokens[1 + (i + k) % n], sizeof q->tokens[1]);
    }
    if (shorter && n > 1) {
        q->segs[n] = p->segs[n + 1];
        memcpy(q->tokens[n], p->tokens[n + 1], sizeof q->tokens[n]);
        q->n_segs--;
    }
    set_ids(q);
}

typedef struct logit_rows {
    float *want, *got, *again;
    size_t n;
    double bound;
} logit_rows;

static logit_rows rows_of(const setting *s)
{
    size_t n = (size_t)s->t.model.hp.n_vocab;
    float *v = malloc(3 * n * sizeof *v);
    assert_non_null(v);
    return (logit_rows){v, v + n, v + 2 * n, n, bound_of(sp_kv_pool_shape(s->t.pool)->type)};
}

static void check_same_prompt(setting *s)
{
    logit_rows l = rows_of(s);
    plain(s, &s->p, l.want);
    assert_int_equal(ask(s, &s->p, 0.3f, 1, 17, l.got, NULL), 0);
    close_to(l.got, l.want, l.n, l.bound, "cold");
    for (int piece = 0; piece <= 5; piece += 5) {
        assert_int_equal(ask(s, &s->p, 0.3f, 1, piece, l.again, NULL), 0);
        assert_memory_equal(l.again, l.got, l.n * sizeof *l.got);
    }
    free(l.want);
}

/* All recomputed, whatever copies there are by then, in pieces of any size. */
static void check_other_orders(setting *s)
{
    logit_rows l = rows_of(s);
    int n_dropped = 0;
    ask(s, &s->p, 0, 0, WHOLE, l.got, NULL);
    for (int k = 0; k < 6; k++) {
        prompt q;
        turned(&q, &s->p, 1 + k, k % 2);
        plain(s, &q, l.want);
        ask(s, &q, 0.15f * (float)(1 + k % 3), k % 3, k % 2 ? 13 : WHOLE, l.got, &n_dropped);
        ask(s, &q, 1, 1, k % 2 ? WHOLE : 19, l.got, &n_dropped);
        close_to(l.got, l.want, l.n, l.bound, "all recomputed");
    }
    free(l.want);
}

/* A patch over its base is what was computed then: the same prompt gives the same bits. A chunk
 * that got no token of the share has its turn when the others need none any more. */
static void check_patches(setting *s)
{
    logit_rows l = rows_of(s);
    prompt q;
    int n_recomputed = 1, round = 0;
    ask(s, &s->p, 0, 0, WHOLE, l.got, NULL);
    turned(&q, &s->p, 1, false);
    for (; n_recomputed > 0; round++) { /* the last one was all patches */
        memcpy(l.got, l.again, l.n * sizeof *l.got);
        n_recomputed = ask(s, &q, 0.4f, 0, WHOLE, l.again, NULL);
        assert_in_range(round, 0, MAX_SEGS);
    }
    if (round > 1) assert_memory_equal(l.again, l.got, l.n * sizeof *l.got);
    free(l.want);
}

static int dropped_everywhere;

static void check_dropping(setting *s)
{
    logit_rows l = rows_of(s);
    ask(s, &s->p, 0, 0, WHOLE, l.got, NULL);
    for (int k = 1; k < 4; k++) {
        prompt q;
        turned(&q, &s->p, k, false);
        ask(s, &q, 0.5f, 1, WHOLE, l.got, &dropped_everywhere);
        ask(s, &q, 0.5f, 2, WHOLE, l.got, &dropped_everywhere);
    }
    free(l.want);
}

static void the_same_prompt_again_is_exact(void **state)
{
    everywhere(check_same_prompt);
}
static void other_orders_are_recomputed_where_they_differ(void **state)
{
    everywhere(check_other_orders);
}
static void patches_serve_their_own_order(void **state)
{
    everywhere(check_patches);
}
static void dropped_tokens_fall_back_to_their_copies(void **state)
{
    dropped_everywhere = 0;
    everywhere(check_dropping);
    assert_true(dropped_everywhere > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_prompt_again_is_exact),
        cmocka_unit_test(other_orders_are_recomputed_where_they_differ),
        cmocka_unit_test(patches_serve_their_own_order),
        cmocka_unit_test(dropped_tokens_fall_back_to_their_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
