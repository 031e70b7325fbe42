/* cpu_run.c -- how the CPU cuts operations into pieces for the threads of its team.
 *
 * Operations that belong together are one job: each job is a meeting of all threads that ends when
 * its last piece does.
 *
 *   rows       what is done to a row, and then its rounding: the row is still in L1
 *   products   of one x with several matrices; the last quarter of the work goes in small pieces,
 *              so that threads end together:   | 1 | 1 | 1 | 2 | 2 | 2 |3|3|3|3|
 *
 * `work` counts multiply-adds in products and attention, and elements elsewhere. It decides how
 * many pieces there are, which a result never depends on (compute/ops.h): only the time does.
 */
#include <string.h>

#include "base/mem.h"
#include "compute/cpu_int.h"

/* The caller alone does what is smaller than `alone`: calling the team costs more than it saves. A
 * piece of `piece` lasts some 50 to 100 us. */
typedef struct run_sizes {
    int64_t alone, piece;
} run_sizes;

/* A product of one row of x reads 10 to 20 weights a nanosecond. With many rows it is faster, but
 * then there are more pieces than these anyway: PIECES_OF_THREAD. */
static const run_sizes of_products = {64 << 10, 1 << 20};
static const run_sizes of_elements = {16 << 10, 64 << 10};

/* More pieces a thread would cut the runs of rows that share what is in the caches. */
enum { PIECES_OF_THREAD = 8 };

static void run_pieces(const sp_cpu *c, run_sizes s, int64_t work, sp_team_fn *fn, void *job)
{
    const int n_threads = sp_team_size(c->team);
    if (work < s.alone)
        fn(job, 0, 1);
    else
        sp_team_share(c->team, fn, job,
                      (int)SP_MAX(n_threads, SP_MIN(work / s.piece, PIECES_OF_THREAD * n_threads)));
}

/* For operations that have scratch for each thread, and share out their work by themselves. */
static void run_threads(const sp_cpu *c, run_sizes s, int64_t work, sp_team_fn *fn, void *job)
{
    if (work < s.alone)
        fn(job, 0, 1);
    else
        sp_team_run(c->team, fn, job);
}

#define DEFINE_RUN(op, how, sizes)                                                                 \
    typedef struct op##_job {                                                                      \
        const sp_ops *ops;                                                                         \
        const sp_##op##_args *args;                                                                \
    } op##_job;                                                                                    \
    static void op##_part(void *job, int part, int n_parts)                                        \
    {                                                                                              \
        const op##_job *j = job;                                                                   \
        j->ops->op(j->args, part, n_parts);                                                        \
    }                                                                                              \
    static void run_##op(const sp_cpu *c, int64_t work, const sp_##op##_args *args)                \
    {                                                                                              \
        op##_job job = {c->ops, args};                                                             \
        how(c, sizes, work, op##_part, &job);                                                      \
    }

DEFINE_RUN(quantize, run_pieces, of_elements)
DEFINE_RUN(embed, run_pieces, of_elements)
DEFINE_RUN(blend, run_pieces, of_elements)
DEFINE_RUN(take, run_pieces, of_elements)
DEFINE_RUN(spread, run_pieces, of_elements)
DEFINE_RUN(kv_store, run_pieces, of_elements)
DEFINE_RUN(kv_differ, run_pieces, of_elements)
DEFINE_RUN(attend, run_threads, of_products)
DEFINE_RUN(columns, run_threads, of_products)

#undef DEFINE_RUN

/* -- rounded rows --------------------------------------------------------------------------- */

/* wrote -- n floats at y have changed: their rounding no longer holds. */
static void wrote(sp_cpu *c, const float *y, int64_t n)
{
    sp_rounded *r = &c->rounded;
    if (r->x && y < r->x + r->m * r->n && r->x < y + n) r->x = NULL;
}

/* rounds -- whether rows of n elements are to be rounded; says that `ints` holds them if so. */
static bool rounds(sp_cpu *c, const float *x, int64_t m, int64_t n)
{
    sp_rounded *r = &c->rounded;
    if (!c->in_integers || n % 32) return false;
    const size_t copies = c->base.exact_products ? 2 : 1;
    assert((size_t)m * c->ops->quantized_bytes(n) * copies <= r->ints.n_bytes); /* reserved */
    SP_UNUSED(copies);
    r->x = x;
    r->m = m;
    r->n = n;
    r->n_copies = atomic_load_explicit(&c->n_copies, memory_order_relaxed);
    return true;
}

/* rest_of -- what rounding the rows at q has taken away; NULL without exact products. */
static uint8_t *rest_of(const sp_cpu *c, const void *q)
{
    const sp_rounded *r = &c->rounded;
    return c->base.exact_products ? (uint8_t *)q + (size_t)r->m * c->ops->quantized_bytes(r->n)
                                  : NULL;
}

/* rounded -- rows [m, n] of x as integers; rounds them now unless that has been done. */
static const uint8_t *rounded(sp_cpu *c, const float *x, int64_t m, int64_t n)
{
    sp_rounded *r = &c->rounded;
    const size_t row_bytes = c->ops->quantized_bytes(n);
    const bool holds = r->x && r->n == n && x >= r->x && x + m * n <= r->x + r->m * n &&
                       (x - r->x) % n == 0 &&
                       r->n_copies == atomic_load_explicit(&c->n_copies, memory_order_relaxed);
    if (!holds) {
        rounds(c, x, m, n);
        void *q = r->ints.p;
        run_quantize(c, m * n,
                     &(sp_quantize_args){.x = x, .m = m, .n = n, .q = q, .rest = rest_of(c, q)});
    }
    return (const uint8_t *)r->ints.p + (size_t)((x - r->x) / n) * row_bytes;
}

/* -- rows ----------------------------------------------------------------------------------- */

typedef struct rows_job {
    const sp_ops *ops;
    const sp_rmsnorm_args *norm;       /* or */
    const sp_layernorm_args *layernorm; /* or */
    const sp_act_mul_args *gated;      /* [m * n] */
    int64_t m, n;
    const float *y; /* what comes out */
    uint8_t *ints;  /* [m] the same, rounded; or NULL */
    uint8_t *rest;  /* [m] see sp_quantize_args */
} rows_job;

static void rows_part(void *job, int part, int n_parts)
{
    const rows_job *j = job;
    int64_t from, to;
    sp_part(j->m, 1, part, n_parts, &from, &to);
    for (int64_t i = from; i < to; i++) {
        const int64_t at = i * j->n;
        if (j->norm) {
            sp_rmsnorm_args a = *j->norm;
            a.x += at, a.y += at, a.m = 1;
            j->ops->rmsnorm(&a, 0, 1);
        } else if (j->layernorm) {
            sp_layernorm_args a = *j->layernorm;
            a.x += at, a.y += at, a.m = 1;
            j->ops->layernorm(&a, 0, 1);
        } else {
            sp_act_mul_args a = *j->gated;
            a.gate += at, a.y += at, a.n = j->n;
            if (a.up) a.up += at;
            j->ops->act_mul(&a, 0, 1);
        }
        if (!j->ints) continue;
        const size_t row = (size_t)i * j->ops->quantized_bytes(j->n);
        j->ops->quantize(&(sp_quantize_args){.x = j->y + at,
                                             .m = 1,
                                             .n = j->n,
                                             .q = j->ints + row,
                                             .rest = j->rest ? j->rest + row : NULL},
                         0, 1);
    }
}

static void hold_ints(const sp_cpu *c, rows_job *job)
{
    job->ints = c->rounded.ints.p;
    job->rest = rest_of(c, job->ints);
}

static void run_rmsnorm(sp_cpu *c, const sp_rmsnorm_args *a)
{
    rows_job job = {.ops = c->ops, .norm = a, .m = a->m, .n = a->n, .y = a->y};
    wrote(c, a->y, a->m * a->n);
    if (a->feeds && rounds(c, a->y, a->m, a->n)) hold_ints(c, &job);
    run_pieces(c, of_elements, a->m * a->n, rows_part, &job);
}

static void run_layernorm(sp_cpu *c, const sp_layernorm_args *a)
{
    rows_job job = {.ops = c->ops, .layernorm = a, .m = a->m, .n = a->n, .y = a->y};
    wrote(c, a->y, a->m * a->n);
    if (a->feeds && rounds(c, a->y, a->m, a->n)) hold_ints(c, &job);
    run_pieces(c, of_elements, a->m * a->n, rows_part, &job);
}

static void run_act_mul(sp_cpu *c, const sp_act_mul_args *a)
{
    const int64_t m = a->feeds ? a->feeds : 1;
    rows_job job = {.ops = c->ops, .gated = a, .m = m, .n = a->n / m, .y = a->y};
    wrote(c, a->y, a->n);
    if (a->feeds && rounds(c, a->y, m, job.n)) hold_ints(c, &job);
    run_pieces(c, of_elements, a->n, rows_part, &job);
}

static void blend(sp_cpu *c, const sp_blend_args *a)
{
    wrote(c, a->y, a->n);
    run_blend(c, a->n, a);
}

static void take(sp_cpu *c, const sp_take_args *a)
{
    wrote(c, a->y, a->m * a->n);
    run_take(c, a->m * a->n, a);
}

static void spread(sp_cpu *c, const sp_spread_args *a)
{
    for (int64_t i = 0; i < a->m; i++) wrote(c, a->y + a->to[i] * a->n, a->n);
    run_spread(c, a->m * a->n, a);
}

/* close_up -- few rows move, and only where some were dropped: not worth calling the team. */
static void close_up(sp_cpu *c, const sp_gather_args *a)
{
    const size_t row_bytes = (size_t)a->n * sizeof *a->x;
    int64_t i = 0;
    while (i < a->m && a->from[i] == i) i++; /* these stay, and their rounding with them */
    if (i < a->m) wrote(c, a->x + i * a->n, (a->from[a->m - 1] + 1 - i) * a->n);
    for (; i < a->m; i++) memcpy(a->x + i * a->n, a->x + a->from[i] * a->n, row_bytes);
}

/* -- products ------------------------------------------------------------------------------- */

enum { FINER = 4 }; /* small pieces in a large one */

/* A matrix in `parts` pieces, of which those from `coarse` on are divided. */
typedef struct share {
    int64_t work;
    int parts, coarse;
} share;

typedef struct products_job {
    const sp_ops *ops;
    const sp_matmul_args *a;
    const uint8_t *q; /* x as integers, where a matrix wants it */
    const uint8_t *rest; /* see sp_quantize_args */
    share shares[SP_PRODUCTS_MAX];
} products_job;

static int n_pieces_of(const share *s)
{
    return s->coarse + (s->parts - s->coarse) * FINER;
}

static void product_part(const products_job *j, const sp_matmul_args *a, int part, int n_parts)
{
    if (!sp_in_integers(j->ops, a->w)) {
        j->ops->matmul(a, part, n_parts);
        return;
    }
    sp_matmul_packed_args in = {
        .w = a->w, .q = j->q, .m = a->m, .y = a->y, .bias = a->bias, .add = a->add};
    j->ops->matmul_packed(&in, part, n_parts);
    if (!j->rest || j->ops->x_bits(a->w->type) > 8) return;
    in.q = j->rest, in.bias = NULL, in.add = true;
    j->ops->matmul_packed(&in, part, n_parts);
}

static void products_piece(void *job, int piece, int n_pieces)
{
    const products_job *j = job;
    int i = 0;
    for (int n; piece >= (n = n_pieces_of(&j->shares[i])); i++) piece -= n;
    const share *s = &j->shares[i];
    if (piece < s->coarse)
        product_part(j, &j->a[i], piece, s->parts);
    else
        product_part(j, &j->a[i], s->coarse * FINER + piece - s->coarse, s->parts * FINER);
}

/* deal -- large pieces to matrices in proportion to their work, at least one each; the last quarter
 * of them is divided. Returns the number of pieces. */
static int deal(share *s, int n, int64_t work, int n_large)
{
    int pieces = 0, parts = 0;
    for (int i = 0; i < n; i++) {
        s[i].parts = (int)SP_MAX(1, (s[i].work * n_large + work / 2) / work);
        parts += s[i].parts;
    }
    for (int i = n - 1, divided = parts / 4; i >= 0; i--) {
        const int d = SP_MIN(divided, s[i].parts);
        divided -= d;
        s[i].coarse = s[i].parts - d;
        pieces += n_pieces_of(&s[i]);
    }
    return pieces;
}

static void run_products(sp_cpu *c, const sp_products_args *p)
{
    const sp_matmul_args *a = p->a;
    const int n_threads = sp_team_size(c->team);
    products_job job = {.ops = c->ops, .a = a};
    int64_t work = 0;
    bool in_integers = false;
    assert(p->n >= 1 && p->n <= SP_PRODUCTS_MAX);
    for (int i = 0; i < p->n; i++) {
        assert(a[i].x == a[0].x && a[i].m == a[0].m);
        in_integers |= sp_in_integers(c->ops, a[i].w);
        work += job.shares[i].work = a[i].m * a[i].w->n_rows * a[i].w->n_cols;
    }
    if (in_integers) {
        job.q = rounded(c, a[0].x, a[0].m, a[0].w->n_cols);
        job.rest = rest_of(c, job.q);
    }
    for (int i = 0; i < p->n; i++) wrote(c, a[i].y, a[i].m * a[i].w->n_rows);
    if (work < of_products.alone) {
        for (int i = 0; i < p->n; i++) product_part(&job, &a[i], 0, 1);
        return;
    }
    const int64_t n_large = SP_MIN(work / of_products.piece, PIECES_OF_THREAD * n_threads);
    sp_team_share(c->team, products_piece, &job,
                  deal(job.shares, p->n, work, (int)SP_MAX(n_threads, n_large)));
}

/* -- keys and values ------------------------------------------------------------------------ */

static void copy_piece(void *job, int piece, int n_pieces)
{
    const sp_kv_copy_args *a = job;
    for (int64_t i = a->m * piece / n_pieces; i < a->m * (piece + 1) / n_pieces; i++)
        sp_kv_copy(a->kv, &a->from[i], &a->to[i]);
}

static void copy_tokens(const sp_cpu *c, const sp_kv_copy_args *a)
{
    sp_kv_copy_args job = *a;
    run_pieces(c, of_elements, a->m * a->kv->n_heads * a->kv->head * 2, copy_piece, &job);
}

static void attend(sp_cpu *c, const sp_attend_args *args)
{
    sp_attend_args a = *args;
    const int64_t width = (int64_t)a.n_heads * a.kv->head;
    int64_t work = 0;
    for (int i = 0; i < a.n_reqs; i++) {
        const sp_attend_req *r = &a.reqs[i];
        assert(sp_attend_scratch_bytes(a.n_heads, a.kv->n_heads, a.kv->head, r->n_spans) <=
               c->attend_bytes); /* reserved */
        if (r->m == 0) continue;
        work += r->m * r->pos[r->m - 1] * 2 * width;
        wrote(c, r->out, r->m * width);
    }
    a.scratch = c->attend.p;
    a.scratch_bytes = c->attend_bytes;
    run_attend(c, work, &a);
}

static void columns(sp_cpu *c, const sp_columns_args *args)
{
    sp_columns_args a = *args;
    int64_t keys = 0;
    for (int i = 0; i < a.req->n_spans; i++) keys += a.req->spans[i].n;
    a.scratch = c->columns.p;
    run_columns(c, a.req->m * keys * a.n_heads * a.kv->head, &a);
}

/* -- selection ------------------------------------------------------------------------------ */

typedef struct pick_job {
    const sp_pick_args *a;
    const sp_summary_ops *ops;
} pick_job;

static void summarize_piece(void *job, int piece, int n_pieces)
{
    sp_summarize(job, piece, n_pieces);
}

static void score_piece(void *job, int piece, int n_pieces)
{
    const pick_job *j = job;
    sp_pick_score(j->a, j->ops, piece, n_pieces);
}

static void take_piece(void *job, int piece, int n_pieces)
{
    const pick_job *j = job;
    sp_pick_take(j->a, j->ops, piece, n_pieces);
}

static void fine_score_piece(void *job, int piece, int n_pieces)
{
    const pick_job *j = job;
    sp_pick_fine_score(j->a, j->ops, piece, n_pieces);
}

static void fine_take_piece(void *job, int piece, int n_pieces)
{
    const pick_job *j = job;
    sp_pick_fine_take(j->a, j->ops, piece, n_pieces);
}

static void summarize(const sp_cpu *c, const sp_summarize_args *a)
{
    sp_summarize_args job = *a;
    sp_team_share(c->team, summarize_piece, &job, (int)SP_MIN(SP_DIV_UP(a->m, 16), 1 << 20));
}

static void pick(const sp_cpu *c, const sp_pick_args *args)
{
    sp_pick_args a = *args;
    pick_job job = {&a, c->summaries};
    a.scratch = c->pick.p;
    sp_team_share(c->team, score_piece, &job, (int)SP_MIN(sp_pick_units(&a), 1 << 20));
    sp_team_share(c->team, take_piece, &job, a.n_reqs * a.summary->n_heads);
    const int units = a.fine ? (int)SP_MIN(sp_pick_fine_units(&a), 1 << 20) : 0;
    if (units == 0) return;
    sp_team_share(c->team, fine_score_piece, &job, units);
    sp_team_share(c->team, fine_take_piece, &job, a.n_reqs * a.summary->n_heads);
}

/* -- all of them ---------------------------------------------------------------------------- */

void sp_cpu_run(sp_device *d, sp_op op, const void *args)
{
    sp_cpu *c = sp_cpu_of(d);
    switch (op) {
    case SP_OP_EMBED: {
        const sp_embed_args *a = args;
        wrote(c, a->x, a->m * a->w->n_cols);
        run_embed(c, a->m * a->w->n_cols, a);
        break;
    }
    case SP_OP_RMSNORM:
        run_rmsnorm(c, args);
        break;
    case SP_OP_LAYERNORM:
        run_layernorm(c, args);
        break;
    case SP_OP_ACT_MUL:
        run_act_mul(c, args);
        break;
    case SP_OP_BLEND:
        blend(c, args);
        break;
    case SP_OP_TAKE:
        take(c, args);
        break;
    case SP_OP_SPREAD:
        spread(c, args);
        break;
    case SP_OP_PRODUCTS:
        run_products(c, args);
        break;
    case SP_OP_GATHER:
        close_up(c, args);
        break;
    case SP_OP_KV_STORE: {
        const sp_kv_store_args *a = args;
        run_kv_store(c, a->m * a->kv->n_heads * a->kv->head * 2, a);
        break;
    }
    case SP_OP_KV_COPY:
        copy_tokens(c, args);
        break;
    case SP_OP_KV_DIFFER: {
        const sp_kv_differ_args *a = args;
        run_kv_differ(c, a->m * a->kv->n_heads * a->kv->head * SP_BLOCK_TOKENS, a);
        break;
    }
    case SP_OP_ATTEND:
        attend(c, args);
        break;
    case SP_OP_COLUMNS:
        columns(c, args);
        break;
    case SP_OP_SUMMARIZE:
        summarize(c, args);
        break;
    case SP_OP_PICK:
        pick(c, args);
        break;
    }
}
