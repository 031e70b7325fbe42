/* known_chunks.h -- chunks that were computed each by itself, and prompts over them: for tests of sparse decoding and
 * of contexts in a file. */
#ifndef SP_TESTS_KNOWN_CHUNKS_H
#define SP_TESTS_KNOWN_CHUNKS_H

#include "support/check.h"
#include "support/tiny_model.h"

typedef struct chunk_lengths {
    const int *v; /* [n] tokens */
    int n, n_vocab;
} chunk_lengths;

/* chunks_compute -- a span for each chunk, at position 0; their blocks are sealed. */
static inline void chunks_compute(tiny *t, const chunk_lengths *c, sp_plan *known)
{
    int span, see;
    sp_plan_init(known, t->pool);
    for (int i = 0, first = 0; i < c->n; first += c->v[i++]) {
        const uint16_t own = (uint16_t)i;
        assert_ok(sp_plan_add_span(known, &(sp_span_spec){.n = c->v[i]}, &span));
        assert_ok(sp_plan_add_sight(known, &own, 1, &see));
        for (int k = 0; k < c->v[i]; k++)
            assert_ok(sp_plan_add_todo(known, (sp_todo){.token = (first + k) * 7 % c->n_vocab, .pos = k,
                                                        .span = (uint16_t)span, .see = (uint16_t)see, .index = k}));
    }
    assert_ok(sp_plan_bind(known));
    for (int from = 0; from < known->n_todo; from += 64) {
        const sp_slice slice = {known, from, SP_MIN(64, known->n_todo - from), SP_WANT_NONE, NULL};
        assert_ok(sp_engine_step(t->engine, &slice, 1));
    }
    for (int i = 0; i < c->n; i++) sp_kv_seal(t->pool, known->spans[i].blocks, sp_blocks_for(c->v[i]));
}

/* chunks_begin -- a prompt of the chunks, one after another; returns the position after them. */
static inline int chunks_begin(tiny *t, const chunk_lengths *c, const sp_plan *known, sp_plan *p)
{
    int span, place = 0;
    sp_plan_init(p, t->pool);
    for (int i = 0; i < c->n; place += c->v[i++])
        assert_ok(sp_plan_add_span(p,
                                   &(sp_span_spec){.n = c->v[i], .shift = place, .known = known->spans[i].blocks,
                                                   .n_known = c->v[i]},
                                   &span));
    return place;
}

/* chunks_ask -- the tokens of a question of n tokens, whose span follows those of the chunks. */
static inline void chunks_ask(sp_plan *p, const chunk_lengths *c, int n, int place)
{
    for (int k = 0; k < n; k++)
        assert_ok(sp_plan_add_todo(p, (sp_todo){.token = (k * 5 + 1) % c->n_vocab, .pos = place + k,
                                                .span = (uint16_t)c->n, .index = k}));
}

/* chunks_end -- all blocks must have been given back. */
static inline void chunks_end(tiny *t, sp_plan *known)
{
    sp_plan_fini(known);
    assert_int_equal(sp_kv_pool_n_free(t->pool), sp_kv_pool_n_blocks(t->pool));
    tiny_close(t);
}

/* same_logits -- of n steps [n, V], bit for bit. */
static inline void same_logits(const float *a, const float *b, int n, int n_vocab, const char *what)
{
    for (int i = 0; i < n * n_vocab; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: step %d, logit %d is %g, not %g", what, i / n_vocab, i % n_vocab, (double)a[i],
                     (double)b[i]);
}

#endif
