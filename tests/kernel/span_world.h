/* span_world.h -- keys and values of spans, for tests of what reads them: what must not be read is NaN. */
#ifndef SP_TESTS_SPAN_WORLD_H
#define SP_TESTS_SPAN_WORLD_H

#include "kernel/kernels.h"

enum { B = SP_BLOCK_TOKENS };

typedef struct shape {
    int H, G, D, n_rot;
    bool adjacent;
} shape;

static const sp_dtype kv_types[] = {SP_F32, SP_F16, SP_BF16, SP_Q16, SP_Q8_0};

/* open_kv -- blocks of NaN; free(kv.base) with sp_free. */
static sp_kv_view open_kv(const shape *s, sp_dtype type, uint32_t n_blocks)
{
    const size_t block_bytes = 2 * (size_t)s->G * sp_kv_head_bytes(type, s->D);
    uint8_t *base = sp_alloc(n_blocks, block_bytes);
    assert_non_null(base);
    memset(base, 0xff, n_blocks * block_bytes); /* NaN in every type */
    return (sp_kv_view){type, s->G, s->D, base, block_bytes};
}

/* store_key -- a token, its key rotated for position `rot`; k and v are [G, D]. */
static void store_key(const sp_kv_view *kv, const sp_rope *rope, sp_kv_slot to, const float *k, const float *v)
{
    sp_kv_store_args a = {kv, rope, k, v, 1, &to.block, &to.slot, &to.rot};
    reference()->kv_store(&a, 0, 1);
}

static bool is_stale(const sp_span *s, int i)
{
    return s->stale && (s->stale[i / 64] >> (i % 64) & 1);
}

static int32_t at(const sp_span *s, int i)
{
    return s->pos ? s->pos[i] : s->at + i;
}

/* fill_spans -- random keys and values of all tokens that are live, and not after position `last`. */
static void fill_spans(const sp_kv_view *kv, const sp_rope *rope, const sp_span *spans, int n_spans, int32_t last,
                       uint64_t *seed)
{
    const int n = kv->n_heads * kv->head;
    float *k = random_floats(seed, n, 1), *v = random_floats(seed, n, 1);
    for (const sp_span *s = spans; s < spans + n_spans; s++)
        for (int t = 0; t < s->n; t++) {
            if (is_stale(s, t) || at(s, t) + s->shift > last) continue;
            fill(seed, k, n, 2);
            fill(seed, v, n, 1);
            store_key(kv, rope, (sp_kv_slot){s->blocks[t / B], (uint8_t)(t % B), at(s, t)}, k, v);
        }
    sp_free(k);
    sp_free(v);
}

#endif
