/* kernels.c -- speed of the kernels, compared with a plain AVX2 loop that does the same.
 *
 *     build/bench/kernels [threads [variant [part of a name]]]
 *
 * Each line alternates the kernel and the plain loop and takes the best of both: on a shared
 * machine the ratio is reliable, the absolute number is not. With one thread, time is CPU time, which
 * other processes disturb less. GB/s counts bytes of weights or of keys and values, GFLOP/s counts
 * a multiply-add as two.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define PLAIN __attribute__((target("avx2,fma,f16c")))
#else
#define PLAIN
#endif

#include "base/clock.h"
#include "base/mem.h"
#include "compute/kernels.h"

enum { ROUNDS = 5, B = SP_BLOCK_TOKENS };

static void *take(size_t n_bytes)
{
    void *p = sp_alloc_aligned(n_bytes);
    if (!p) abort();
    return p;
}

static uint32_t noise(uint32_t *seed)
{
    return *seed = *seed * 1664525 + 1013904223;
}

static float *floats(int64_t n)
{
    uint32_t seed = 1;
    float *x = take((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) x[i] = (float)noise(&seed) / 0x1p31f - 1;
    return x;
}

/* -- the plain loops
 * ------------------------------------------------------------------------------- */

PLAIN static float plain_dot(const float *a, const float *b, int64_t n)
{
#if defined(__x86_64__)
    __m256 s = _mm256_setzero_ps();
    for (int64_t i = 0; i + 8 <= n; i += 8) {
        s = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), s);
    }
    float t[8], sum = 0;
    _mm256_storeu_ps(t, s);
    for (int i = 0; i < 8; i++) sum += t[i];
    return sum;
#else
    float sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
#endif
}

/* A row of weights to f32: by instruction for F16, else by the library's plain decoder. */
PLAIN static void plain_decode(sp_dtype type, const uint8_t *p, float *y, int64_t n)
{
#if defined(__x86_64__)
    if (type == SP_F16) {
        for (int64_t i = 0; i + 8 <= n; i += 8) {
            _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 2 * i))));
        }
        return;
    }
    if (type == SP_Q8_0) {
        for (int64_t i = 0; i + 32 <= n; i += 32, p += 34) {
            uint16_t h;
            memcpy(&h, p, 2);
            __m256 d = _mm256_set1_ps(_cvtsh_ss(h));
            for (int j = 0; j < 32; j += 8) {
                __m256i q = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p + 2 + j)));
                _mm256_storeu_ps(y + i + j, _mm256_mul_ps(d, _mm256_cvtepi32_ps(q)));
            }
        }
        return;
    }
#endif
    sp_row_to_f32(type, p, y, n);
}

static void plain_matmul(const sp_matmul_args *a, int part, int n_parts)
{
    const sp_mat *w = a->w;
    static _Thread_local float row[1 << 15];
    int64_t from, to;
    sp_part(w->n_rows, 16, part, n_parts, &from, &to);
    for (int64_t r = from; r < to; r++) {
        plain_decode(w->type,
                     (const uint8_t *)w->data + (size_t)r * sp_row_bytes(w->type, w->n_cols), row,
                     w->n_cols);
        for (int64_t m = 0; m < a->m; m++) {
            a->y[m * w->n_rows + r] = plain_dot(a->x + m * w->n_cols, row, w->n_cols);
        }
    }
}

/* One query at a time over rows of f16 keys and values [n][D]: the loop of a contiguous cache. */
typedef struct plain_attend_args {
    const float *q;
    float *out;
    const uint8_t *k, *v; /* [G][n][D] f16 */
    int H, G, D, m;
    int64_t n;
    float *scratch; /* [parts][n + D] */
} plain_attend_args;

PLAIN static void plain_attend(const plain_attend_args *a, int part, int n_parts)
{
    float *p = a->scratch + part * (a->n + a->D), *row = p + a->n;
    for (int h = part; h < a->H; h += n_parts) {
        const size_t head = (size_t)(h / (a->H / a->G)) * (size_t)a->n * (size_t)a->D * 2;
        for (int m = 0; m < a->m; m++) {
            const float *q = a->q + (m * a->H + h) * a->D;
            float *out = a->out + (m * a->H + h) * a->D, max = -INFINITY, sum = 0;
            int64_t n = a->n - a->m + m + 1;
            for (int64_t i = 0; i < n; i++) {
                plain_decode(SP_F16, a->k + head + (size_t)(i * a->D * 2), row, a->D);
                p[i] = plain_dot(q, row, a->D) / sqrtf((float)a->D);
                max = fmaxf(max, p[i]);
            }
            memset(out, 0, (size_t)a->D * sizeof(float));
            for (int64_t i = 0; i < n; i++) {
                float e = expf(p[i] - max);
                sum += e;
                plain_decode(SP_F16, a->v + head + (size_t)(i * a->D * 2), row, a->D);
                for (int d = 0; d < a->D; d++) out[d] += e * row[d];
            }
            for (int d = 0; d < a->D; d++) out[d] /= sum;
        }
    }
}

/* -- timing
 * ---------------------------------------------------------------------------------------- */

typedef void op_fn(const void *args, int part, int n_parts);
typedef struct job {
    op_fn *op;
    const void *args;
} job;

static void run_job(void *arg, int part, int n_parts)
{
    const job *j = arg;
    j->op(j->args, part, n_parts);
}

static double now(const sp_team *team)
{
    struct timespec t;
    if (sp_team_size(team) > 1) return (double)sp_clock_us() * 1e-6;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of one run, taken over `repeat` of them. */
static double seconds(sp_team *team, job *j, int repeat)
{
    double start = now(team);
    for (int i = 0; i < repeat; i++) sp_team_run(team, run_job, j);
    return (now(team) - start) / repeat;
}

static const char *wanted = "";

static void compare(sp_team *team, const char *name, job kernel, job plain, double gbytes,
                    double gflop)
{
    double best_kernel = 1e9, best_plain = 1e9;
    seconds(team, &kernel, 1);
    int repeat_kernel = 1 + (int)(0.005 / seconds(team, &kernel, 1));
    int repeat_plain = 1 + (int)(0.005 / seconds(team, &plain, 1));
    const int64_t start = sp_clock_us();
    for (int i = 0; i < ROUNDS && (i < 2 || sp_clock_us() - start < 2000000); i++) {
        best_kernel = fmin(best_kernel, seconds(team, &kernel, repeat_kernel));
        best_plain = fmin(best_plain, seconds(team, &plain, repeat_plain));
    }
    printf("%-34s %8.3f ms %8.1f GB/s %8.1f GFLOP/s   %5.2f x plain\n", name, best_kernel * 1e3,
           gbytes / best_kernel, gflop / best_kernel, best_plain / best_kernel);
    fflush(stdout);
}

static void bench_matmul(sp_team *team, const sp_ops *ops, sp_dtype type, int64_t rows,
                         int64_t cols, int64_t m)
{
    const size_t bytes = (size_t)rows * sp_row_bytes(type, cols);
    char name[64];
    snprintf(name, sizeof name, "matmul %s %dx%d m=%d", sp_dtype_of(type)->name, (int)rows,
             (int)cols, (int)m);
    if (!strstr(name, wanted)) return;
    uint32_t seed = 2;
    uint8_t *data = take(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)((noise(&seed) >> 24) & 0x3b); /* no NaN */
    sp_mat w = {.type = type, .n_rows = rows, .n_cols = cols, .data = data};
    sp_matmul_args a = {.w = &w, .x = floats(m * cols), .m = m, .y = floats(m * rows)};
    job kernel = {(op_fn *)ops->matmul, &a};
    const size_t packed = ops->pack_bytes ? ops->pack_bytes(&w) : 0;
    void *layout = packed ? take(packed) : NULL, *x = NULL;
    if (packed) {
        ops->pack(&(sp_pack_args){&w, layout}, 0, 1);
        w.packed = layout;
    }
    sp_matmul_packed_args in_ints = {.w = &w, .m = m, .y = a.y};
    if (sp_in_integers(&w)) { /* as in the engine, one rounding of x serves several products */
        in_ints.q = x = take((size_t)m * ops->quantized_bytes(cols));
        ops->quantize(&(sp_quantize_args){a.x, m, cols, x}, 0, 1);
        kernel = (job){(op_fn *)ops->matmul_packed, &in_ints};
    }
    compare(team, name, kernel, (job){(op_fn *)plain_matmul, &a}, (double)bytes * 1e-9,
            2e-9 * (double)(rows * cols * m));
    sp_free(layout);
    sp_free(x);
    sp_free(data);
    sp_free((void *)a.x);
    sp_free(a.y);
}

static void bench_attend(sp_team *team, const sp_ops *ops, sp_dtype type, int H, int G, int D,
                         int n, int m)
{
    const size_t head_bytes = sp_kv_head_bytes(type, D), block_bytes = 2 * (size_t)G * head_bytes;
    const int n_blocks = SP_DIV_UP(n, B), n_parts = sp_team_size(team);
    char name[64];
    snprintf(name, sizeof name, "attend %s H%d G%d D%d n=%d m=%d", sp_dtype_of(type)->name, H, G, D,
             n, m);
    if (!strstr(name, wanted)) return;
    uint32_t seed = 3;
    uint8_t *base = take((size_t)n_blocks * block_bytes);
    for (size_t i = 0; i < (size_t)n_blocks * block_bytes; i++) {
        base[i] = (uint8_t)((noise(&seed) >> 24) & 0x3b);
    }
    uint32_t *blocks = take((size_t)n_blocks * sizeof *blocks);
    for (int i = 0; i < n_blocks; i++) blocks[i] = (uint32_t)i;
    float *tables = floats((int64_t)n * D);
    int32_t *pos = take((size_t)m * sizeof *pos);
    uint16_t *see = take((size_t)m * sizeof *see);
    for (int i = 0; i < m; i++) pos[i] = n - m + i;
    sp_kv_view kv = {type, G, D, base, block_bytes};
    sp_rope rope = {D, false, n, tables, tables + (int64_t)n * D / 2};
    sp_span span = {.blocks = blocks, .n = n};
    sp_sight sight = {NULL, 1};
    sp_attend_req req = {.q = floats(m * H * D),
                         .out = floats(m * H * D),
                         .pos = pos,
                         .see = see,
                         .m = m,
                         .spans = &span,
                         .n_spans = 1,
                         .sights = &sight};
    size_t scratch_bytes = sp_attend_scratch_bytes(H, G, D, 1);
    sp_attend_args a = {
        &kv,          &rope, H, 1 / sqrtf((float)D), &req, 1, take((size_t)n_parts * scratch_bytes),
        scratch_bytes};
    uint8_t *copy = (uint8_t *)floats((int64_t)G * n * D); /* keys and values as f16 */
    plain_attend_args plain = {req.q, req.out,
                               copy,  copy + (size_t)G * (size_t)n * (size_t)D * 2,
                               H,     G,
                               D,     m,
                               n,     floats(n_parts * (int64_t)(n + D))};
    for (int64_t i = 0; i < (int64_t)G * n * D * 4; i++) copy[i] &= 0x3b;
    compare(team, name, (job){(op_fn *)ops->attend, &a}, (job){(op_fn *)plain_attend, &plain},
            (double)n_blocks * (double)block_bytes * 1e-9,
            4e-9 * H * D * (double)m * (n - m / 2.0));
    sp_free(base);
    sp_free(blocks);
    sp_free(tables);
    sp_free(pos);
    sp_free(see);
    sp_free((void *)req.q);
    sp_free(req.out);
    sp_free(a.scratch);
    sp_free(plain.scratch);
    sp_free(copy);
}

int main(int argc, char **argv)
{
    static const sp_dtype types[] = {SP_Q8_0, SP_Q4_K, SP_Q6_K, SP_Q4_0, SP_Q5_0, SP_F16, SP_F32};
    static const int m_counts[] = {1, 4, 32, 512};
    const sp_ops *ops;
    sp_team *team;
    if (sp_team_create(&team, argc > 1 ? atoi(argv[1]) : 0) != SP_OK ||
        sp_ops_select(argc > 2 ? argv[2] : NULL, &ops) != SP_OK) {
        fprintf(stderr, "%s\n", sp_error_detail());
        return 1;
    }
    if (argc > 3) wanted = argv[3];
    printf("%s, %d threads\n", ops->name, sp_team_size(team));
    for (size_t k = 0; k < SP_COUNT(m_counts); k++) {
        for (size_t i = 0; i < SP_COUNT(types); i++) {
            if (sp_dtype_of(types[i])->n_group < 256) {
                bench_matmul(team, ops, types[i], 4864, 896, m_counts[k]);
            }
            bench_matmul(team, ops, types[i], 2048, 8192, m_counts[k]);
        }
    }
    for (int m = 1; m <= 256; m *= 256) {
        bench_attend(team, ops, SP_F16, 14, 2, 64, 4096, m);
        bench_attend(team, ops, SP_F16, 32, 8, 128, 4096, m);
        bench_attend(team, ops, SP_F16, 16, 16, 64, 4096, m);
        bench_attend(team, ops, SP_Q8_0, 14, 2, 64, 4096, m);
        bench_attend(team, ops, SP_Q16, 14, 2, 64, 4096, m);
        bench_attend(team, ops, SP_Q16, 16, 16, 64, 4096, m);
    }
    sp_team_destroy(team);
    return 0;
}
