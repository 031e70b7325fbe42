/* meter_ops.c -- one operation of the kernel table over random data; bench/kernels.c times more of them.
 *
 *   field   | copy 0 | copy 1 | ... | copy n-1 |      weights, or one layer's keys and values
 *              run 0    run 1          run n-1    run n: copy 0
 *
 * In a model, an operation reads weights that are no longer in the caches, since the whole model was
 * read after the previous token; so does a run here. Activations and results are small and reused. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kv/pool.h"
#include "lab/meter_int.h"

#define SAMPLE_US      10000
#define PATTERN_GROUPS 4096 /* distinct groups of weights; then they repeat */
#define STORE_TOKENS   256  /* tokens with distinct keys and values */
#define ROWS_MAX       (1 << 16)
#define SIDE_MAX       (1 << 20) /* of a matrix */
#define KEYS_MAX       (1 << 22)
#define COPY_MAX       ((size_t)8 << 30) /* bytes of one copy, and of activations */

/* -- noise ---------------------------------------------------------------------------------- */

static uint32_t noise(uint32_t *seed)
{
    return *seed = *seed * 1664525 + 1013904223;
}

static float noise_float(uint32_t *seed)
{
    return (float)noise(seed) / 0x1p31f - 1;
}

static float *noise_floats(size_t n)
{
    uint32_t seed = 1;
    float *x = n <= COPY_MAX / sizeof *x ? sp_alloc_aligned(n * sizeof *x) : NULL;
    for (size_t i = 0; x && i < n; i++) x[i] = noise_float(&seed);
    return x;
}

/* noise_group -- any bytes are a quantized group, but its f16 scales must be plain numbers. */
static void noise_group(sp_dtype type, uint8_t *group, uint32_t *seed)
{
    static const int16_t scales_at[SP_DTYPE_N][2] = {
        [SP_Q8_0] = {0, -1},   [SP_Q4_0] = {0, -1},   [SP_Q4_1] = {0, 2},    [SP_Q5_0] = {0, -1},
        [SP_Q5_1] = {0, 2},    [SP_Q4_K] = {0, 2},    [SP_Q5_K] = {0, 2},    [SP_Q6_K] = {208, -1},
        [SP_Q2_K] = {80, 82},  [SP_Q3_K] = {108, -1}, [SP_IQ4_NL] = {0, -1}, [SP_IQ4_XS] = {0, -1},
        [SP_MXFP4] = {-1, -1},
    };
    const sp_dtype_info *info = sp_dtype_of(type);
    if (info->n_group == 1) {
        float x = noise_float(seed);
        sp_row_from_f32(type, &x, group, 1);
        return;
    }
    for (int i = 0; i < info->group_bytes; i++) group[i] = (uint8_t)(noise(seed) >> 24);
    for (int i = 0; i < 2 && scales_at[type][i] >= 0; i++) {
        uint16_t scale = (uint16_t)(0x2000 + (noise(seed) >> 22)); /* 2^-7 .. 2^-6 */
        memcpy(group + scales_at[type][i], &scale, sizeof scale);
    }
    if (type == SP_MXFP4) group[0] = (uint8_t)(120 + (noise(seed) >> 31)); /* 2^-8, 2^-7 */
}

/* repeat -- fills a buffer with copies of its first `have` bytes. */
static void repeat(uint8_t *p, size_t have, size_t n_bytes)
{
    while (have < n_bytes) {
        size_t n = SP_MIN(have, n_bytes - have);
        memcpy(p + have, p, n);
        have += n;
    }
}

/* -- a sample ------------------------------------------------------------------------------- */

/* One kind of work: `part` on all threads, over copy after copy. */
typedef struct job {
    const sp_ops *ops;
    size_t stride; /* bytes from one copy to the next */
    int64_t n_copies;
    sp_mat w; /* its data pointer, and the view's base, are those of the copy */
    sp_matmul_args gemm;
    sp_quantize_args quantize; /* of gemm.x, when the weights are packed */
    sp_kv_view kv;
    sp_attend_args attend;
    sp_team_fn *part;
} job;

static void gemm_part(void *arg, int part, int n_parts)
{
    const job *j = arg;
    if (sp_in_integers(&j->w))
        j->ops->matmul_packed(
            &(sp_matmul_packed_args){
                .w = &j->w, .q = j->quantize.q, .m = j->gemm.m, .y = j->gemm.y},
            part, n_parts);
    else
        j->ops->matmul(&j->gemm, part, n_parts);
}

static void quantize_part(void *arg, int part, int n_parts)
{
    const job *j = arg;
    j->ops->quantize(&j->quantize, part, n_parts);
}

static void attend_part(void *arg, int part, int n_parts)
{
    const job *j = arg;
    j->ops->attend(&j->attend, part, n_parts);
}

static void run_copy(sp_meter *m, job *j, int64_t i)
{
    j->kv.base = m->field + (size_t)(i % j->n_copies) * j->stride;
    j->w.data = j->kv.base;
    if (j->w.packed) j->w.packed = j->kv.base;
    if (sp_in_integers(&j->w)) sp_team_run(m->team, quantize_part, j);
    sp_team_run(m->team, j->part, j);
}

/* seconds_of -- of one run; the first run warms up. */
static double seconds_of(sp_meter *m, job *j)
{
    run_copy(m, j, 0);
    int64_t start = sp_clock_us(), us = 0, n = 0;
    for (; us < SAMPLE_US; us = sp_clock_us() - start) run_copy(m, j, ++n);
    return (double)us * 1e-6 / (double)n;
}

/* has_copies -- the field already holds them, from a run with another number of rows. */
static bool has_copies(sp_meter *m, job *j, sp_dtype type)
{
    const sp_meter_fill *f = &m->filled;
    j->n_copies = (int64_t)(m->field_bytes / j->stride);
    if (f->type == type && f->stride == j->stride && f->block_bytes == j->kv.block_bytes)
        return true;
    m->filled = (sp_meter_fill){type, j->stride, j->kv.block_bytes};
    return false;
}

/* -- matrix products ------------------------------------------------------------------------ */

static sp_err find_type(const char *name, sp_dtype *out)
{
    for (int t = 0; name && t < SP_DTYPE_END; t++)
        if (t != SP_DTYPE_N && strcmp(sp_dtype_of((sp_dtype)t)->name, name) == 0) {
            *out = (sp_dtype)t;
            return SP_OK;
        }
    return sp_fail(SP_E_ARG, "type: '%s' is unknown", name ? name : "");
}

static sp_err check_gemm(const sp_meter_op *op, sp_dtype type)
{
    const sp_dtype_info *info = sp_dtype_of(type);
    if (type >= SP_DTYPE_N)
        return sp_fail(SP_E_ARG, "gemm: %s is a type of keys and values, not of weights",
                       info->name);
    if (op->n_out < 1 || op->n_out > SIDE_MAX || op->n_in < 1 || op->n_in > SIDE_MAX)
        return sp_fail(SP_E_ARG, "gemm: %d x %d is not in 1..%d", op->n_out, op->n_in, SIDE_MAX);
    if (op->n_in % info->n_group)
        return sp_fail(SP_E_ARG, "gemm: rows of %d weights are no whole groups of %d, as %s needs",
                       op->n_in, info->n_group, info->name);
    if ((size_t)op->n_out * sp_row_bytes(type, op->n_in) > COPY_MAX)
        return sp_fail(SP_E_LIMIT, "gemm: %d x %d weights are more than %zu MiB", op->n_out,
                       op->n_in, COPY_MAX >> 20);
    return SP_OK;
}

/* One copy of the weights in the format of a file. */
static void noise_weights(sp_dtype type, uint8_t *out, size_t n_bytes)
{
    uint32_t seed = 2;
    size_t group = (size_t)sp_dtype_of(type)->group_bytes;
    size_t pattern = SP_MIN(PATTERN_GROUPS * group, n_bytes);
    for (size_t at = 0; at < pattern; at += group) noise_group(type, out + at, &seed);
    repeat(out, pattern, n_bytes);
}

/* Copies of the weights in the format that the kernels read, packed if they are. */
static sp_err make_weights(sp_meter *m, job *j, size_t packed)
{
    size_t bytes = (size_t)j->w.n_rows * sp_row_bytes(j->w.type, j->w.n_cols);
    j->stride = SP_ROUND_UP(packed ? packed : bytes, (size_t)SP_CACHE_LINE);
    SP_TRY(sp_meter_field_grow(m, j->stride));
    if (has_copies(m, j, j->w.type)) return SP_OK;
    if (packed) {
        uint8_t *file = sp_alloc_aligned(bytes);
        if (!file) return sp_fail_nomem(bytes, "weights");
        noise_weights(j->w.type, file, bytes);
        j->w.data = file;
        m->ops->pack(&(sp_pack_args){.w = &j->w, .out = m->field}, 0, 1);
        sp_free(file);
    } else {
        noise_weights(j->w.type, m->field, bytes);
    }
    repeat(m->field, j->stride, (size_t)j->n_copies * j->stride);
    return SP_OK;
}

static sp_err run_gemm(sp_meter *m, const sp_meter_op *op, sp_meter_sample *out)
{
    job j = {.ops = m->ops, .part = gemm_part, .w = {.n_rows = op->n_out, .n_cols = op->n_in}};
    SP_TRY(find_type(op->type, &j.w.type));
    SP_TRY(check_gemm(op, j.w.type));
    float *x = noise_floats((size_t)op->rows * (size_t)op->n_in);
    float *y = noise_floats((size_t)op->rows * (size_t)op->n_out);
    const size_t packed = m->ops->pack_bytes ? m->ops->pack_bytes(&j.w) : 0;
    const bool ints = packed && sp_dtype_of(j.w.type)->n_group > 1;
    void *q = ints ? sp_alloc_aligned((size_t)op->rows * m->ops->quantized_bytes(op->n_in)) : NULL;
    sp_err err = x && y && (q || !ints)
                     ? make_weights(m, &j, packed)
                     : sp_fail_nomem((size_t)op->rows * (size_t)op->n_in * sizeof *x, "rows");
    if (err == SP_OK) {
        if (packed) j.w.packed = m->field;
        j.quantize = (sp_quantize_args){.x = x, .m = op->rows, .n = op->n_in, .q = q};
        j.gemm = (sp_matmul_args){.w = &j.w, .x = x, .m = op->rows, .y = y};
        *out = (sp_meter_sample){.seconds = seconds_of(m, &j),
                                 .ops = 2.0 * op->rows * op->n_out * op->n_in,
                                 .bytes =
                                     (double)op->n_out * (double)sp_row_bytes(j.w.type, op->n_in)};
    }
    sp_free(x);
    sp_free(y);
    sp_free(q);
    return err;
}

/* -- attention ------------------------------------------------------------------------------ */

/* What one request of attention points to. */
typedef struct rig {
    sp_rope rope;
    float *tables; /* [n_keys, D] cosines, then sines; random numbers do */
    float *q, *out;
    int32_t *pos;
    uint16_t *see;
    uint32_t *blocks; /* [n_blocks] */
    int32_t n_blocks;
    sp_span span;
    sp_sight sight;
    sp_attend_req req;
    void *scratch;
} rig;

static sp_err check_attend(const sp_meter_op *op, const sp_kv_shape *shape)
{
    SP_TRY(sp_kv_shape_check(shape));
    if (op->n_heads < 1 || op->n_heads > 1024 || op->n_heads % op->n_kv_heads)
        return sp_fail(SP_E_ARG, "attend: %d heads over %d of keys", op->n_heads, op->n_kv_heads);
    if (op->n_kv_heads > 1024 || op->head % 2 || op->head > SP_HEAD_MAX)
        return sp_fail(SP_E_ARG, "attend: %d heads of %d elements", op->n_kv_heads, op->head);
    if (op->n_keys < op->rows || op->n_keys > KEYS_MAX)
        return sp_fail(SP_E_ARG, "attend: %d keys for %d queries, at most %d", op->n_keys, op->rows,
                       KEYS_MAX);
    return SP_OK;
}

static sp_err make_rig(rig *r, const sp_meter_op *op, size_t scratch_bytes)
{
    const size_t rows = (size_t)op->rows, wide = (size_t)op->n_heads * (size_t)op->head;
    r->n_blocks = SP_DIV_UP(op->n_keys, SP_BLOCK_TOKENS);
    r->tables = noise_floats((size_t)op->n_keys * (size_t)op->head);
    r->q = noise_floats(rows * wide);
    r->out = noise_floats(rows * wide);
    r->pos = sp_alloc(rows, sizeof *r->pos);
    r->see = sp_alloc_zero(rows, sizeof *r->see);
    r->blocks = sp_alloc((size_t)r->n_blocks, sizeof *r->blocks);
    r->scratch = sp_alloc_aligned(scratch_bytes);
    if (!r->tables || !r->q || !r->out || !r->pos || !r->see || !r->blocks || !r->scratch)
        return sp_fail_nomem(rows * wide * sizeof *r->q, "queries and what they need");
    for (int32_t b = 0; b < r->n_blocks; b++) r->blocks[b] = (uint32_t)b;
    for (int i = 0; i < op->rows; i++) r->pos[i] = op->n_keys - op->rows + i;
    r->span = (sp_span){.blocks = r->blocks, .n = op->n_keys};
    r->sight = (sp_sight){.n = 1};
    r->rope = (sp_rope){.n_rot = op->head,
                        .n_pos = op->n_keys,
                        .c = r->tables,
                        .s = r->tables + (size_t)op->n_keys * (size_t)op->head / 2};
    r->req = (sp_attend_req){.q = r->q,
                             .out = r->out,
                             .pos = r->pos,
                             .see = r->see,
                             .m = op->rows,
                             .spans = &r->span,
                             .n_spans = 1,
                             .sights = &r->sight};
    return SP_OK;
}

static void free_rig(rig *r)
{
    sp_free(r->tables);
    sp_free(r->q);
    sp_free(r->out);
    sp_free(r->pos);
    sp_free(r->see);
    sp_free(r->blocks);
    sp_free(r->scratch);
}

typedef struct store_job {
    const sp_ops *ops;
    sp_kv_store_args args;
} store_job;

static void store_part(void *arg, int part, int n_parts)
{
    const store_job *s = arg;
    s->ops->kv_store(&s->args, part, n_parts);
}

/* store_tokens -- stores some tokens in the first blocks, through the kernel, which knows the layout. */
static void store_tokens(sp_meter *m, const job *j, const rig *r, const float *kv)
{
    uint32_t blocks[STORE_TOKENS];
    uint8_t slots[STORE_TOKENS];
    int32_t rot[STORE_TOKENS] = {0};
    int64_t room = (int64_t)r->n_blocks * SP_BLOCK_TOKENS;
    for (int i = 0; i < STORE_TOKENS; i++) {
        blocks[i] = (uint32_t)(i / SP_BLOCK_TOKENS);
        slots[i] = (uint8_t)(i % SP_BLOCK_TOKENS);
    }
    store_job s = {m->ops,
                   {.kv = &j->kv,
                    .rope = &r->rope,
                    .k = kv,
                    .v = kv,
                    .m = SP_MIN(STORE_TOKENS, room),
                    .block = blocks,
                    .slot = slots,
                    .rot = rot}};
    sp_team_run(m->team, store_part, &s);
}

static sp_err make_kv(sp_meter *m, job *j, const rig *r)
{
    size_t n = (size_t)STORE_TOKENS * (size_t)j->kv.n_heads * (size_t)j->kv.head;
    size_t chunk = STORE_TOKENS / SP_BLOCK_TOKENS * j->kv.block_bytes;
    j->stride = SP_ROUND_UP((size_t)r->n_blocks * j->kv.block_bytes, (size_t)SP_CACHE_LINE);
    SP_TRY(sp_meter_field_grow(m, j->stride));
    float *kv = noise_floats(n);
    if (!kv) return sp_fail_nomem(n * sizeof *kv, "keys and values");
    bool done = has_copies(m, j, j->kv.type);
    j->kv.base = m->field;
    if (!done) store_tokens(m, j, r, kv);
    sp_free(kv);
    if (done) return SP_OK;
    size_t one = (size_t)r->n_blocks * j->kv.block_bytes;
    repeat(m->field, SP_MIN(chunk, one), one);
    for (int64_t c = 1; c < j->n_copies; c++)
        memcpy(m->field + (size_t)c * j->stride, m->field, one);
    return SP_OK;
}

static sp_err run_attend(sp_meter *m, const sp_meter_op *op, sp_meter_sample *out)
{
    sp_kv_shape shape = {.n_layers = 1, .n_heads = op->n_kv_heads, .head = op->head};
    SP_TRY(find_type(op->type, &shape.type));
    SP_TRY(check_attend(op, &shape));
    size_t block_bytes = sp_kv_block_bytes(&shape);
    if ((size_t)op->n_keys / SP_BLOCK_TOKENS > COPY_MAX / block_bytes)
        return sp_fail(SP_E_LIMIT, "attend: keys and values are more than %zu MiB", COPY_MAX >> 20);
    job j = {.ops = m->ops,
             .part = attend_part,
             .kv = {.type = shape.type,
                    .n_heads = op->n_kv_heads,
                    .head = op->head,
                    .block_bytes = block_bytes}};
    size_t scratch = sp_attend_scratch_bytes(op->n_heads, op->n_kv_heads, op->head, 1);
    rig r = {0};
    sp_err err = make_rig(&r, op, scratch * (size_t)sp_team_size(m->team));
    if (err == SP_OK) err = make_kv(m, &j, &r);
    if (err == SP_OK) {
        j.attend = (sp_attend_args){.kv = &j.kv,
                                    .rope = &r.rope,
                                    .n_heads = op->n_heads,
                                    .scale = 0.125f,
                                    .reqs = &r.req,
                                    .n_reqs = 1,
                                    .scratch = r.scratch,
                                    .scratch_bytes = scratch};
        /* Of a query and a key that it sees. */
        const double pairs = op->rows * (op->n_keys - op->rows + (op->rows + 1) / 2.0);
        *out = (sp_meter_sample){.seconds = seconds_of(m, &j),
                                 .ops = 4.0 * op->n_heads * op->head * pairs,
                                 .bytes = (double)r.n_blocks * (double)block_bytes};
    }
    free_rig(&r);
    return err;
}

sp_err sp_meter_run(sp_meter *m, const sp_meter_op *op, sp_meter_sample *out)
{
    if (op->rows < 1 || op->rows > ROWS_MAX)
        return sp_fail(SP_E_ARG, "rows: %d is not in 1..%d", op->rows, ROWS_MAX);
    if (op->kind && strcmp(op->kind, "gemm") == 0) return run_gemm(m, op, out);
    if (op->kind && strcmp(op->kind, "attend") == 0) return run_attend(m, op, out);
    return sp_fail(SP_E_ARG, "kind: '%s' is neither gemm nor attend", op->kind ? op->kind : "");
}
