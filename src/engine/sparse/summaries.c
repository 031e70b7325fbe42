#include "engine/sparse/summaries.h"

#include <pthread.h>

#include "base/mem.h"

struct sp_summaries {
    sp_kv_pool *pool;
    sp_kv_shape shape;
    sp_summary_kind kind;
    int64_t n_blocks;
    sp_mem memory;    /* [L][G][n_blocks] summaries, then as many scales */
    uint32_t *births; /* [n_blocks] sp_kv_birth when it was summarized */
    uint8_t *n_keys;  /* [n_blocks] then */
    uint8_t *n_made;  /* [n_blocks] keys whose summary is in memory; with the lock held */
    pthread_mutex_t lock;
    sp_mirror blocks;  /* [cap] wanted */
    sp_mirror lengths; /* [cap] */
    int64_t n, cap;
};

static int64_t n_records(const sp_summaries *s)
{
    return (int64_t)s->shape.n_layers * s->shape.n_heads * s->n_blocks;
}

sp_err sp_summaries_create(sp_kv_pool *pool, sp_summary_kind kind, sp_summaries **out)
{
    sp_summaries *s = SP_NEW(sp_summaries);
    if (!s) return sp_fail_nomem("summaries of blocks");
    s->pool = pool;
    s->shape = *sp_kv_pool_shape(pool);
    s->kind = kind;
    s->n_blocks = sp_kv_pool_n_blocks(pool);
    s->births = SP_NEW_N(uint32_t, (size_t)s->n_blocks);
    s->n_keys = SP_NEW_N(uint8_t, (size_t)s->n_blocks);
    s->n_made = SP_NEW_N(uint8_t, (size_t)s->n_blocks);
    pthread_mutex_init(&s->lock, NULL);
    size_t bytes = (size_t)n_records(s) * (sp_summary_bytes(kind, s->shape.head) + sizeof(float));
    sp_err err =
        s->births && s->n_keys && s->n_made
            ? sp_mem_alloc(sp_kv_pool_device(pool), bytes, "summaries of blocks", &s->memory)
            : sp_fail_nomem("summaries of blocks");
    if (err != SP_OK) {
        sp_summaries_destroy(s);
        return err;
    }
    *out = s;
    return SP_OK;
}

void sp_summaries_destroy(sp_summaries *s)
{
    if (!s) return;
    sp_mem_free(&s->memory);
    sp_mirror_free(&s->blocks);
    sp_mirror_free(&s->lengths);
    sp_free(s->births);
    sp_free(s->n_keys);
    sp_free(s->n_made);
    pthread_mutex_destroy(&s->lock);
    sp_free(s);
}

/* grow -- a mirror that grows loses its contents, so the lists are rebuilt. */
static sp_err grow(sp_summaries *s)
{
    sp_device *d = sp_kv_pool_device(s->pool);
    const int64_t cap = SP_MAX(1024, 2 * s->cap);
    sp_mirror blocks, lengths;
    SP_TRY(sp_mirror_alloc(d, (size_t)cap * sizeof(uint32_t), "a list of blocks", &blocks));
    sp_err err = sp_mirror_alloc(d, (size_t)cap, "a list of blocks", &lengths);
    if (err != SP_OK) {
        sp_mirror_free(&blocks);
        return err;
    }
    for (int64_t i = 0; i < s->n; i++) {
        ((uint32_t *)blocks.host)[i] = ((const uint32_t *)s->blocks.host)[i];
        ((uint8_t *)lengths.host)[i] = ((const uint8_t *)s->lengths.host)[i];
    }
    sp_mirror_free(&s->blocks);
    sp_mirror_free(&s->lengths);
    s->blocks = blocks;
    s->lengths = lengths;
    s->cap = cap;
    return SP_OK;
}

sp_err sp_summaries_want(sp_summaries *s, uint32_t block, int n)
{
    const uint32_t birth = sp_kv_birth(s->pool, block);
    assert(n >= 1 && n <= SP_BLOCK_TOKENS);
    if (s->births[block] == birth && s->n_keys[block] >= n) return SP_OK;
    if (s->n == s->cap) SP_TRY(grow(s));
    ((uint32_t *)s->blocks.host)[s->n] = block;
    ((uint8_t *)s->lengths.host)[s->n++] = (uint8_t)n;
    sp_summaries_lock(s);
    s->births[block] = birth;
    s->n_keys[block] = (uint8_t)n;
    s->n_made[block] = 0;
    sp_summaries_unlock(s);
    return SP_OK;
}

/* bring_in -- one layer of the wanted blocks. On failure none of them counts as summarized. */
static sp_err bring_in(sp_summaries *s, sp_offload *offload, int layer)
{
    const uint32_t *blocks = s->blocks.host;
    sp_err err = sp_offload_window(offload, layer, blocks, s->n);
    if (err == SP_OK) return SP_OK;
    sp_summaries_lock(s);
    for (int64_t i = 0; i < s->n; i++) s->births[blocks[i]] = 0;
    sp_summaries_unlock(s);
    s->n = 0;
    return err;
}

sp_err sp_summaries_make(sp_summaries *s, sp_offload *offload, int64_t *n_made)
{
    if (n_made) *n_made = s->n;
    if (s->n == 0) return SP_OK;
    sp_device *d = sp_kv_pool_device(s->pool);
    sp_mirror_push(&s->blocks, (size_t)s->n * sizeof(uint32_t));
    sp_mirror_push(&s->lengths, (size_t)s->n);
    for (int l = 0; l < s->shape.n_layers; l++) {
        const sp_kv_view kv = sp_kv_pool_layer(s->pool, l);
        const sp_summary_view to = sp_summaries_layer(s, l);
        if (offload) SP_TRY(bring_in(s, offload, l));
        sp_device_summarize(
            d, &(sp_summarize_args){
                   .kv = &kv, .to = &to, .block = s->blocks.dev, .n = s->lengths.dev, .m = s->n});
    }
    sp_summaries_lock(s);
    for (int64_t i = 0; i < s->n; i++) {
        const uint32_t block = ((const uint32_t *)s->blocks.host)[i];
        s->n_made[block] = s->n_keys[block];
    }
    sp_summaries_unlock(s);
    s->n = 0;
    SP_TRY(sp_mirror_settle(&s->blocks));
    return sp_mirror_settle(&s->lengths);
}

void sp_summaries_lock(sp_summaries *s)
{
    pthread_mutex_lock(&s->lock);
}

void sp_summaries_unlock(sp_summaries *s)
{
    pthread_mutex_unlock(&s->lock);
}

bool sp_summaries_has(const sp_summaries *s, uint32_t block, int n)
{
    return s->births[block] == sp_kv_birth(s->pool, block) && s->n_made[block] >= n;
}

void sp_summaries_put(sp_summaries *s, uint32_t block, int n)
{
    sp_summaries_lock(s);
    s->births[block] = sp_kv_birth(s->pool, block);
    s->n_keys[block] = s->n_made[block] = (uint8_t)n;
    sp_summaries_unlock(s);
}

sp_summary_view sp_summaries_layer(const sp_summaries *s, int layer)
{
    const size_t bytes = sp_summary_bytes(s->kind, s->shape.head);
    const size_t at = (size_t)layer * (size_t)(s->shape.n_heads * s->n_blocks);
    uint8_t *base = s->memory.p;
    float *scales = (float *)(void *)(base + (size_t)n_records(s) * bytes);
    return (sp_summary_view){.kind = s->kind,
                             .n_heads = s->shape.n_heads,
                             .head = s->shape.head,
                             .n_blocks = s->n_blocks,
                             .base = base + at * bytes,
                             .scale = scales + at};
}

size_t sp_summaries_block_bytes(const sp_summaries *s)
{
    return (size_t)(s->shape.n_layers * s->shape.n_heads) *
           (sp_summary_bytes(s->kind, s->shape.head) + sizeof(float));
}
