/* run.c -- operations that belong together as one job of the team: each job is a meeting of all
 * threads, and the last piece of each is waited for.
 *
 *   rows       what is done to a row and then rounds it: the row is still in L1
 *   products   of one x with several matrices; the last quarter of the work goes in small pieces,
 *              so that threads end together:   | 1 | 1 | 1 | 2 | 2 | 2 |3|3|3|3|
 *
 * How the work is cut never shows in a result (compute/ops.h).
 */
#include "engine/run_int.h"

/* -- rows ----------------------------------------------------------------------------------- */

typedef struct rows_job {
    const sp_ops *ops;
    const sp_rmsnorm_args *norm;   /* or */
    const sp_silu_mul_args *gated; /* [m * n] */
    int64_t m, n;
    const float *y; /* what comes out */
    void *ints;     /* [m] the same, rounded; or NULL */
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
        } else {
            sp_silu_mul_args a = *j->gated;
            a.gate += at, a.up += at, a.y += at, a.n = j->n;
            j->ops->silu_mul(&a, 0, 1);
        }
        if (!j->ints) continue;
        uint8_t *q = (uint8_t *)j->ints + (size_t)i * j->ops->quantized_bytes(j->n);
        j->ops->quantize(&(sp_quantize_args){.x = j->y + at, .m = 1, .n = j->n, .q = q}, 0, 1);
    }
}

void sp_run_rmsnorm(sp_engine *e, const sp_rmsnorm_args *a, bool round)
{
    rows_job job = {.ops = e->o.ops, .norm = a, .m = a->m, .n = a->n, .y = a->y};
    if (round && a->n % 32 == 0) job.ints = e->ints;
    run_pieces(e, run_elements, a->m * a->n, rows_part, &job);
}

void sp_run_silu_mul(sp_engine *e, const sp_silu_mul_args *a, int64_t m)
{
    rows_job job = {.ops = e->o.ops, .gated = a, .m = m, .n = a->n / m, .y = a->y};
    if (job.n % 32 == 0) job.ints = e->ints;
    run_pieces(e, run_elements, a->n, rows_part, &job);
}

/* -- products ------------------------------------------------------------------------------- */

enum { FINER = 4 }; /* small pieces in a large one */

/* A matrix in `parts` pieces, of which those from `coarse` on are divided. */
typedef struct share {
    int64_t work;
    int parts, coarse;
} share;

typedef struct products_job {
    const sp_engine *e;
    const sp_matmul_args *a;
    int first;
    share shares[RUN_PRODUCTS];
} products_job;

static int n_pieces_of(const share *s)
{
    return s->coarse + (s->parts - s->coarse) * FINER;
}

/* product_part -- in integers when the weights want it, of x as it was rounded. */
static void product_part(const products_job *j, const sp_matmul_args *a, int part, int n_parts)
{
    const sp_ops *ops = j->e->o.ops;
    if (!sp_in_integers(a->w)) {
        ops->matmul(a, part, n_parts);
        return;
    }
    const size_t row_bytes = ops->quantized_bytes(a->w->n_cols);
    ops->matmul_packed(
        &(sp_matmul_packed_args){.w = a->w,
                                 .q = (uint8_t *)j->e->ints + (size_t)j->first * row_bytes,
                                 .m = a->m,
                                 .y = a->y,
                                 .bias = a->bias,
                                 .add = a->add},
        part, n_parts);
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

/* deal -- large pieces to matrices as they have work, but each one at least; the last quarter of
 * them is divided. Returns the number of pieces. */
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

void sp_run_products(sp_engine *e, const sp_matmul_args *a, int n, int first)
{
    const int n_threads = sp_team_size(e->o.team);
    products_job job = {.e = e, .a = a, .first = first};
    int64_t work = 0;
    assert(n <= RUN_PRODUCTS);
    for (int i = 0; i < n; i++)
        work += job.shares[i].work = a[i].m * a[i].w->n_rows * a[i].w->n_cols;
    if (work < run_product.alone) {
        for (int i = 0; i < n; i++) product_part(&job, &a[i], 0, 1);
        return;
    }
    const int64_t n_large = SP_MIN(work / run_product.piece, RUN_PIECES_OF_THREAD * n_threads);
    sp_team_share(e->o.team, products_piece, &job,
                  deal(job.shares, n, work, (int)SP_MAX(n_threads, n_large)));
}
