#include "engine/encoder/encode.h"

#include <math.h>
#include <string.h>

enum { STEP_TOKENS = 1024, TEXT_TOKENS = 8 }; /* a step has room for texts of at least this length */

/* Lists with an item for each row of a step, on the device and on the host. */
typedef struct rows {
    sp_mirror ids, places, block, slot, rot, pos, see;
} rows;

struct sp_encode_pass {
    const sp_encoder *m;
    sp_device *device;
    int n_tokens, n_texts; /* of a step, at most */
    rows rows;
    sp_mirror x;        /* [n_tokens, E] */
    sp_mem work;        /* what the rest points into */
    float *q, *k, *v;   /* [n_tokens, E] */
    float *seen, *wide; /* [n_tokens, E] what attention returns; [n_tokens, F] */
    sp_kv_view kv;
    uint32_t *blocks;   /* [blocks of kv] 0, 1, 2 ... */
    sp_span *spans;     /* [n_texts] */
    sp_attend_req *reqs; /* [n_texts] */
};

/* -- memory --------------------------------------------------------------------------------- */

static int n_blocks_of(const sp_encode_pass *p)
{
    return SP_DIV_UP(p->n_tokens, SP_BLOCK_TOKENS) + p->n_texts;
}

static sp_err alloc_rows(sp_encode_pass *p)
{
    rows *r = &p->rows;
    const struct {
        sp_mirror *of;
        size_t size;
    } lists[] = {{&r->ids, sizeof(int32_t)}, {&r->places, sizeof(int32_t)}, {&r->block, sizeof(uint32_t)},
                 {&r->slot, sizeof(uint8_t)}, {&r->rot, sizeof(int32_t)}, {&r->pos, sizeof(int32_t)},
                 {&r->see, sizeof(uint16_t)}, {&p->x, (size_t)p->m->size.n_embd * sizeof(float)}};
    for (size_t i = 0; i < SP_COUNT(lists); i++)
        SP_TRY(sp_mirror_alloc(p->device, (size_t)p->n_tokens * lists[i].size, "a step of the encoder", lists[i].of));
    return SP_OK;
}

static sp_err alloc_work(sp_encode_pass *p)
{
    const sp_encoder_sizes *s = &p->m->size;
    const size_t row = (size_t)p->n_tokens * (size_t)s->n_embd, wide = (size_t)p->n_tokens * (size_t)s->n_ff;
    const size_t block = 2 * (size_t)s->n_heads * sp_kv_head_bytes(SP_F32, s->n_embd / s->n_heads);
    const size_t floats = SP_ROUND_UP(4 * row + wide, (size_t)16);
    SP_TRY(sp_mem_alloc(p->device, floats * sizeof(float) + (size_t)n_blocks_of(p) * block, "a step of the encoder",
                        &p->work));
    float *at = p->work.p;
    p->q = at, p->k = at + row, p->v = at + 2 * row, p->seen = at + 3 * row, p->wide = at + 4 * row;
    p->kv = (sp_kv_view){.type = SP_F32,
                         .n_heads = s->n_heads,
                         .head = s->n_embd / s->n_heads,
                         .base = (uint8_t *)(at + floats),
                         .block_bytes = block};
    return SP_OK;
}

static sp_err alloc_all(sp_encode_pass *p)
{
    const sp_encoder_sizes *s = &p->m->size;
    SP_TRY(alloc_rows(p));
    SP_TRY(alloc_work(p));
    p->blocks = SP_NEW_N(uint32_t, (size_t)n_blocks_of(p));
    p->spans = SP_NEW_N(sp_span, (size_t)p->n_texts);
    p->reqs = SP_NEW_N(sp_attend_req, (size_t)p->n_texts);
    if (!p->blocks || !p->spans || !p->reqs) return sp_fail_nomem("a step of the encoder");
    for (int b = 0; b < n_blocks_of(p); b++) p->blocks[b] = (uint32_t)b;
    return sp_device_reserve(p->device, &(sp_step_sizes){.rows = p->n_tokens,
                                                         .width = SP_MAX(s->n_embd, s->n_ff),
                                                         .n_heads = s->n_heads,
                                                         .n_kv_heads = s->n_heads,
                                                         .head = s->n_embd / s->n_heads,
                                                         .n_spans = 1});
}

sp_err sp_encode_pass_create(const sp_encoder *m, sp_device *d, int n_tokens, sp_encode_pass **out)
{
    sp_encode_pass *p = SP_NEW(sp_encode_pass);
    if (!p) return sp_fail_nomem("a step of the encoder");
    p->m = m;
    p->device = d;
    p->n_tokens = SP_MAX(n_tokens ? n_tokens : STEP_TOKENS, m->recipe.max_tokens);
    p->n_texts = SP_MAX(1, p->n_tokens / TEXT_TOKENS);
    sp_err err = alloc_all(p);
    if (err == SP_OK)
        *out = p;
    else
        sp_encode_pass_destroy(p);
    return err;
}

void sp_encode_pass_destroy(sp_encode_pass *p)
{
    if (!p) return;
    rows *r = &p->rows;
    sp_mirror *lists[] = {&r->ids, &r->places, &r->block, &r->slot, &r->rot, &r->pos, &r->see, &p->x};
    for (size_t i = 0; i < SP_COUNT(lists); i++) sp_mirror_free(lists[i]);
    sp_mem_free(&p->work);
    sp_free(p->blocks);
    sp_free(p->spans);
    sp_free(p->reqs);
    sp_free(p);
}

/* -- rows ----------------------------------------------------------------------------------- */

size_t sp_encode_fit(const sp_encode_pass *p, const sp_encode_text *texts, size_t n, int64_t most)
{
    int64_t tokens = 0;
    size_t i = 0;
    if (most <= 0 || most > p->n_tokens) most = p->n_tokens;
    for (; i < n && i < (size_t)p->n_texts; i++)
        if ((tokens += texts[i].n) > most && i > 0) break;
    return i;
}

/* Fills the lists of the step and the requests of attention; returns the number of rows. */
static int64_t lay_out(sp_encode_pass *p, const sp_encode_text *texts, size_t n)
{
    const rows *r = &p->rows;
    int32_t *ids = r->ids.host, *places = r->places.host, *rot = r->rot.host, *pos = r->pos.host;
    uint32_t *block = r->block.host, next = 0;
    uint8_t *slot = r->slot.host;
    uint16_t *see = r->see.host;
    static const sp_sight all = {.n = 1};
    int64_t at = 0;
    for (size_t t = 0; t < n; t++) {
        const int32_t len = texts[t].n;
        const int32_t n_zero = texts[t].n_first && p->m->size.n_types > 1 ? texts[t].n_first : len;
        p->spans[t] = (sp_span){.blocks = p->blocks + next, .n = len};
        p->reqs[t] = (sp_attend_req){.q = p->q + at * p->m->size.n_embd,
                                     .out = p->seen + at * p->m->size.n_embd,
                                     .pos = (const int32_t *)r->pos.dev + at,
                                     .see = (const uint16_t *)r->see.dev + at,
                                     .m = len,
                                     .spans = &p->spans[t],
                                     .n_spans = 1,
                                     .sights = &all};
        for (int32_t i = 0; i < len; i++, at++) {
            ids[at] = texts[t].ids[i];
            places[at] = i < n_zero ? i : i + p->m->size.n_ctx;
            block[at] = next + (uint32_t)(i / SP_BLOCK_TOKENS);
            slot[at] = (uint8_t)(i % SP_BLOCK_TOKENS);
            rot[at] = 0;
            pos[at] = len - 1;
            see[at] = 0;
        }
        next += (uint32_t)SP_DIV_UP(len, SP_BLOCK_TOKENS);
    }
    return at;
}

static sp_err push_rows(sp_encode_pass *p, int64_t m)
{
    rows *r = &p->rows;
    sp_mirror *words[] = {&r->ids, &r->places, &r->block, &r->rot, &r->pos};
    for (size_t i = 0; i < SP_COUNT(words); i++) sp_mirror_push(words[i], (size_t)m * sizeof(int32_t));
    sp_mirror_push(&r->slot, (size_t)m);
    sp_mirror_push(&r->see, (size_t)m * sizeof(uint16_t));
    for (size_t i = 0; i < SP_COUNT(words); i++) SP_TRY(sp_mirror_settle(words[i]));
    SP_TRY(sp_mirror_settle(&r->slot));
    return sp_mirror_settle(&r->see);
}

/* -- the layers ----------------------------------------------------------------------------- */

static sp_matmul_args product(const sp_linear *l, const float *x, int64_t m, float *y, bool add)
{
    return (sp_matmul_args){.w = &l->w, .x = x, .m = m, .y = y, .bias = l->b, .add = add};
}

static void multiply(const sp_encode_pass *p, sp_matmul_args a)
{
    sp_device_products(p->device, &(sp_products_args){.a = &a, .n = 1});
}

/* x = norm(x) */
static void normalise(const sp_encode_pass *p, const sp_layernorm *n, int64_t m)
{
    sp_device_layernorm(p->device, &(sp_layernorm_args){.x = p->x.dev,
                                                        .w = n->w,
                                                        .b = n->b,
                                                        .y = p->x.dev,
                                                        .m = m,
                                                        .n = p->m->size.n_embd,
                                                        .eps = p->m->size.norm_eps,
                                                        .feeds = true});
}

static void embed(const sp_encode_pass *p, int64_t m)
{
    float *x = p->x.dev;
    sp_device_embed(p->device, &(sp_embed_args){&p->m->words, p->rows.ids.dev, m, x});
    sp_device_embed(p->device, &(sp_embed_args){&p->m->places, p->rows.places.dev, m, p->q});
    sp_device_blend(p->device,
                    &(sp_blend_args){.x = p->q, .y = x, .n = m * p->m->size.n_embd, .keep = 1, .scale = 1});
    normalise(p, &p->m->embed_norm, m);
}

static void attention(const sp_encode_pass *p, const sp_encoder_layer *l, int64_t m, int n_texts)
{
    const float *x = p->x.dev;
    const sp_rope none = {.n_pos = p->m->size.n_ctx};
    const sp_matmul_args qkv[] = {product(&l->q, x, m, p->q, false), product(&l->k, x, m, p->k, false),
                                  product(&l->v, x, m, p->v, false)};
    sp_device_products(p->device, &(sp_products_args){.a = qkv, .n = 3});
    sp_device_kv_store(p->device, &(sp_kv_store_args){.kv = &p->kv,
                                                      .rope = &none,
                                                      .k = p->k,
                                                      .v = p->v,
                                                      .m = m,
                                                      .block = p->rows.block.dev,
                                                      .slot = p->rows.slot.dev,
                                                      .rot = p->rows.rot.dev});
    sp_device_attend(p->device, &(sp_attend_args){.kv = &p->kv,
                                                  .rope = &none,
                                                  .n_heads = p->m->size.n_heads,
                                                  .scale = 1 / sqrtf((float)p->kv.head),
                                                  .reqs = p->reqs,
                                                  .n_reqs = n_texts});
    multiply(p, product(&l->o, p->seen, m, p->x.dev, true));
    normalise(p, &l->attn_norm, m);
}

static void feed_forward(const sp_encode_pass *p, const sp_encoder_layer *l, int64_t m)
{
    multiply(p, product(&l->up, p->x.dev, m, p->wide, false));
    sp_device_act_mul(p->device, &(sp_act_mul_args){.gate = p->wide,
                                                    .y = p->wide,
                                                    .n = m * p->m->size.n_ff,
                                                    .feeds = m,
                                                    .act = p->m->size.act});
    multiply(p, product(&l->down, p->wide, m, p->x.dev, true));
    normalise(p, &l->ffn_norm, m);
}

/* -- the vector ----------------------------------------------------------------------------- */

/* x [n, E] are the rows of a text. */
static void pool(const sp_encoder *m, const float *x, int32_t n, float *out)
{
    const int width = m->size.n_embd;
    double square = 0;
    for (int i = 0; i < width; i++) {
        double sum = 0;
        const int32_t n_rows = m->recipe.pooling == SP_POOL_FIRST ? 1 : n;
        for (int32_t r = 0; r < n_rows; r++) sum += (double)x[(int64_t)r * width + i];
        out[i] = (float)(sum / n_rows);
        square += (double)out[i] * out[i];
    }
    const double factor = 1 / fmax(sqrt(square), 1e-12);
    for (int i = 0; i < width && m->recipe.normalize; i++) out[i] = (float)(out[i] * factor);
}

/* The score of a pair whose first row is x [E]. */
static void judge(const sp_encoder *m, const float *x, float *out)
{
    const sp_encoder_head *h = m->head;
    const int width = m->size.n_embd;
    double sum = h->out_b[0];
    for (int i = 0; i < width; i++) {
        double y = h->dense_b[i];
        for (int k = 0; k < width; k++) y += (double)h->dense_w[(size_t)i * (size_t)width + (size_t)k] * x[k];
        sum += h->out_w[i] * tanh(y);
    }
    *out = (float)(h->sigmoid ? 1 / (1 + exp(-sum)) : sum);
}

sp_err sp_encode_step(sp_encode_pass *p, const sp_encode_text *texts, size_t n, sp_encode_between *between, void *user)
{
    const int width = p->m->size.n_embd;
    assert(n > 0 && n <= (size_t)p->n_texts);
    const int64_t m = lay_out(p, texts, n);
    assert(m <= p->n_tokens);
    SP_TRY(push_rows(p, m));
    embed(p, m);
    for (int l = 0; l < p->m->size.n_layers; l++) {
        if (l && between) between(user);
        attention(p, &p->m->layers[l], m, (int)n);
        feed_forward(p, &p->m->layers[l], m);
    }
    SP_TRY(sp_mirror_pull(&p->x, (size_t)(m * width) * sizeof(float)));
    const float *x = p->x.host;
    for (size_t t = 0; t < n; t++) {
        if (p->m->head)
            judge(p->m, x, texts[t].out);
        else
            pool(p->m, x, texts[t].n, texts[t].out);
        x += (int64_t)texts[t].n * width;
    }
    return SP_OK;
}
