#include "random_kv.h"

#include "lab/bench/bench.h"
#include "lab/numbers.h"

enum { PIECE = 256 };

sp_err random_kv_open(sp_kv_pool *pool, uint64_t *random, random_kv *r)
{
    const sp_kv_shape *s = sp_kv_pool_shape(pool);
    sp_device *d = sp_kv_pool_device(pool);
    const size_t n = 2 * (size_t)PIECE * (size_t)(s->n_heads * s->head) + PIECE;
    *r = (random_kv){.pool = pool, .random = random};
    SP_TRY(sp_mirror_alloc(d, n * sizeof(float), "a context", &r->kv));
    SP_TRY(sp_mirror_alloc(d, PIECE * sizeof(uint32_t), "a context", &r->block));
    SP_TRY(sp_mirror_alloc(d, PIECE, "a context", &r->slot));
    SP_TRY(sp_mirror_alloc(d, PIECE * sizeof(int32_t), "a context", &r->rot));
    float *v = r->kv.host;
    for (size_t i = 0; i < n; i++) v[i] = (float)(lab_random(random) >> 40) * 0x1p-23f - 1;
    sp_mirror_push(&r->kv, n * sizeof(float));
    return SP_OK;
}

void random_kv_close(random_kv *r)
{
    sp_mirror_free(&r->kv);
    sp_mirror_free(&r->block);
    sp_mirror_free(&r->slot);
    sp_mirror_free(&r->rot);
}

/* store_piece -- tokens from .. from+n-1; each layer and piece takes another part of the random
 * numbers. */
static sp_err store_piece(random_kv *r, const uint32_t *blocks, int at, int from, int n)
{
    const sp_kv_shape *s = sp_kv_pool_shape(r->pool);
    sp_device *d = sp_kv_pool_device(r->pool);
    const sp_rope none = {0};
    for (int i = 0; i < n; i++) {
        ((uint32_t *)r->block.host)[i] = blocks[(from + i) / SP_BLOCK_TOKENS];
        ((uint8_t *)r->slot.host)[i] = (uint8_t)((from + i) % SP_BLOCK_TOKENS);
        ((int32_t *)r->rot.host)[i] = at + from + i;
    }
    sp_mirror_push(&r->block, (size_t)n * sizeof(uint32_t));
    sp_mirror_push(&r->slot, (size_t)n);
    sp_mirror_push(&r->rot, (size_t)n * sizeof(int32_t));
    for (int l = 0; l < s->n_layers; l++) {
        const sp_kv_view kv = sp_kv_pool_layer(r->pool, l);
        const float *k = (const float *)r->kv.dev + lab_random(r->random) % PIECE;
        sp_device_kv_store(d, &(sp_kv_store_args){.kv = &kv,
                                                  .rope = &none,
                                                  .k = k,
                                                  .v = k + PIECE * s->n_heads * s->head,
                                                  .m = n,
                                                  .block = r->block.dev,
                                                  .slot = r->slot.dev,
                                                  .rot = r->rot.dev});
    }
    return sp_device_synchronise(d);
}

sp_err random_kv_store(random_kv *r, const uint32_t *blocks, int at, int n)
{
    for (int from = 0; from < n; from += PIECE)
        SP_TRY(store_piece(r, blocks, at, from, SP_MIN(PIECE, n - from)));
    return SP_OK;
}
