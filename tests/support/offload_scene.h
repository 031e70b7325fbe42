/* offload_scene.h -- a small model whose known chunks leave memory, and answers that read them. */
#ifndef SP_TESTS_OFFLOAD_SCENE_H
#define SP_TESTS_OFFLOAD_SCENE_H

#include "support/check.h"

#include "engine/offload/offload.h"
#include "engine/sparse/sparse.h"
#include "store/aio/pages.h"
#include "support/known_chunks.h"

enum { B = SP_BLOCK_TOKENS, V = 101, N_CHUNKS = 4, STEPS = 7, QUESTION = 21, LAYERS = 3, G = 2 };

static const int lengths[N_CHUNKS] = {150, 70, 64, 83};
static const chunk_lengths chunks = {lengths, N_CHUNKS, V};
static const sp_sparse_opts some = {.tokens = 160, .min_depth = -1, .refine = 1};

typedef struct scene {
    tiny t;
    sp_offload *offload;
    sp_plan known; /* each chunk by itself, at position 0 */
} scene;

static int window; /* of layers 0 and 1 of the scenes to come */

static inline int n_tokens(void)
{
    int n = QUESTION;
    for (int i = 0; i < N_CHUNKS; i++) n += lengths[i];
    return n;
}

/* scene_open -- with `seats` of each list; 0: all in memory. */
static inline void scene_open(scene *s, int seats, const char *io)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    spec.kv_type = SP_Q16;
    spec.window = window;
    s->offload = NULL;
    assert_ok(tiny_open(&s->t, &spec, 21));
    if (seats) {
        assert_ok(sp_offload_create(&(sp_offload_opts){.pool = s->t.pool, .dir = "/tmp", .io = io,
                                                       .max_bytes = (size_t)64 << 20,
                                                       .n_seats = seats}, &s->offload));
        sp_engine_set_offload(s->t.engine, s->offload);
    }
    chunks_compute(&s->t, &chunks, &s->known);
}

/* send_away -- all chunks; their memory holds nothing of them afterwards. */
static inline void send_away(scene *s)
{
    for (int i = 0; i < N_CHUNKS; i++) {
        const int n = sp_blocks_for(lengths[i]);
        assert_ok(sp_offload_leave(s->offload, s->known.spans[i].blocks, n));
        for (int k = 0; k < n; k++) {
            assert_true(sp_kv_is_away(s->t.pool, s->known.spans[i].blocks[k]));
            for (int l = 0; l < LAYERS; l++) {
                const int planes = sp_kv_pool_n_planes(s->t.pool);
                for (int g = 0; g < G; g += G / planes)
                    if (!sp_offload_is_resident(s->offload, l, g))
                        memset(sp_kv_pool_bytes_at(s->t.pool, l, g * planes / G, s->known.spans[i].blocks[k]), 0xff,
                               sp_kv_pool_layer_block_bytes(s->t.pool) / (size_t)planes);
            }
        }
    }
}

static inline void scene_close(scene *s)
{
    sp_engine_set_offload(s->t.engine, NULL);
    sp_offload_destroy(s->offload);
    chunks_end(&s->t, &s->known);
}

/* prompt -- the chunks in order, a question, room for an answer. */
static inline sp_err prompt(scene *s, sp_plan *p)
{
    int span, see;
    const int place = chunks_begin(&s->t, &chunks, &s->known, p);
    assert_ok(sp_plan_mark_stale(p, 0, 3));
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.n = QUESTION, .at = place}, &span));
    assert_ok(sp_plan_add_span(p, &(sp_span_spec){.room = STEPS, .at = place + QUESTION}, &span));
    assert_ok(sp_plan_add_sight(p, NULL, p->n_spans, &see));
    chunks_ask(p, &chunks, QUESTION, place);
    assert_ok(sp_plan_bind(p));
    return sp_engine_step(s->t.engine, &(sp_slice){p, 0, p->n_todo, SP_WANT_NONE, NULL}, 1);
}

/* decode -- STEPS tokens: logits [STEPS, V]. */
static inline sp_err decode(scene *s, const sp_sparse_opts *o, float *logits)
{
    sp_plan p;
    sp_sparse *sparse = NULL;
    sp_err err = prompt(s, &p);
    if (o) assert_ok(sp_sparse_create(o, &sparse));
    p.sparse = sparse;
    for (int i = 0; i < STEPS && err == SP_OK; i++) {
        assert_ok(sp_plan_grow(&p, p.n_spans - 1, (i * 11 + 2) % V, n_tokens() + i, 0));
        err = sp_engine_step(s->t.engine,
                             &(sp_slice){&p, p.n_todo - 1, 1, SP_WANT_LAST, logits + i * V}, 1);
    }
    sp_sparse_destroy(sparse);
    sp_plan_fini(&p);
    return err;
}

/* tight_opts -- a budget of `blocks` beside summaries; `resident` blocks of one head are more. */
static inline sp_offload_opts tight_opts(const scene *s, int blocks, int seats, int resident)
{
    const sp_kv_shape *shape = sp_kv_pool_shape(s->t.pool);
    const size_t block = sp_kv_block_bytes(shape);
    const size_t lists = LAYERS * G * (size_t)sp_kv_pool_n_blocks(s->t.pool);
    const size_t record = sp_summary_bytes(SP_SUMMARY_BOUNDS, shape->head) + 8 + sp_pages_sum_bytes();
    const size_t kept = (size_t)resident * block / (LAYERS * G);
    return (sp_offload_opts){.pool = s->t.pool, .dir = "/tmp", .n_seats = seats,
                             .max_bytes = lists * record + kept + (size_t)blocks * block,
                             .resident_bytes = kept};
}

static inline void tight_open(scene *s, int blocks, int seats, int resident)
{
    tiny_spec spec = TINY_SPEC_DEFAULT;
    spec.kv_type = SP_Q16;
    assert_ok(tiny_open(&s->t, &spec, 21));
    const sp_offload_opts o = tight_opts(s, blocks, seats, resident);
    assert_ok(sp_offload_create(&o, &s->offload));
    sp_offload_rank(s->offload, (const float[LAYERS * G]){0.1f, 0.4f, 0.5f, 0.2f, 0.3f, 0.6f});
    sp_engine_set_offload(s->t.engine, s->offload);
}

/* tight -- the same; its chunks are away. */
static inline void tight(scene *s, int blocks, int seats, int resident)
{
    tight_open(s, blocks, seats, resident);
    chunks_compute(&s->t, &chunks, &s->known);
    send_away(s);
}

#endif
