/* kernels.c -- speed of the kernels, compared with a plain AVX2 loop that does the same.
 *
 *     build/bench/kernels [threads [variant [part of a name]]]                 a fixed list, data in the caches
 *     build/bench/kernels [threads [variant]] --shapes 4864x896,8192x2048 [--types LIST] [--rows 1,8,256]
 *     build/bench/kernels [threads [variant]] --heads 14x2x64 [--types LIST] [--rows 1,256] [--depths 0,4096]
 *                         [--spans 1,32] [--tree TxP] [--joined no|packed|scattered]
 *
 * --shapes: products with matrices of outputs x inputs. --heads: span attention of one layer, query heads x key heads x
 * elements, of the last tokens (rows) of depth + rows, whose keys are in spans of one length. --tree 20x50: also all tokens over 20
 * dependency trees of 50 paths. --joined: spans are joined as those of short nodes are (compute/ops.h), in consecutive slots
 * of shared blocks, or each in blocks of its own. Both read weights, or keys and values, from memory as a model does: each
 * run uses another copy of them, out of 256 MB.
 *
 * Each line alternates the kernel and the plain loop and takes the best of both: on a shared
 * machine the ratio is reliable, the absolute number is not. With one thread, time is CPU time, which
 * other processes disturb less. GB/s counts bytes of weights or of keys and values, GFLOP/s counts
 * a multiply-add as two.
 */
#include <getopt.h>
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

enum { ROUNDS = 5, B = SP_BLOCK_TOKENS, MAX_LIST = 32 };
static const size_t COLD_BYTES = (size_t)256 << 20;

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

/* -- the plain loops ------------------------------------------------------------------------ */

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

/* -- timing --------------------------------------------------------------------------------- */

typedef void op_fn(const void *args, int part, int n_parts);
typedef struct job {
    op_fn *op;
    const void *args;
    const void **data; /* what args read from memory, in n_copies; NULL: what is there, in the caches */
    const uint8_t *copies;
    size_t stride;
    int n_copies;
} job;

/* copy_out -- the job's data in so many copies that they exceed the caches; free the result after it. */
static void *copy_out(job *j, const void **data, size_t n_bytes)
{
    j->data = data;
    j->stride = SP_ROUND_UP(n_bytes, (size_t)SP_CACHE_LINE);
    j->n_copies = (int)SP_MAX(COLD_BYTES / j->stride, (size_t)1);
    uint8_t *p = take((size_t)j->n_copies * j->stride);
    for (int i = 0; i < j->n_copies; i++) memcpy(p + (size_t)i * j->stride, *data, n_bytes);
    j->copies = p;
    return p;
}

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
    static int turn;
    for (int i = 0; i < repeat; i++) {
        if (j->data) *j->data = j->copies + (size_t)(turn++ % j->n_copies) * j->stride;
        sp_team_run(team, run_job, j);
    }
    return (now(team) - start) / repeat;
}

static const char *wanted = "";
static bool cold; /* read from memory, not from the caches */

static void compare(sp_team *team, const char *name, job kernel, job plain, double gbytes,
                    double gflop)
{
    double best_kernel = 1e9, best_plain = 1e9;
    seconds(team, &kernel, 1);
    int repeat_kernel = 1 + (int)(0.005 / seconds(team, &kernel, 1));
    int repeat_plain = plain.op ? 1 + (int)(0.005 / seconds(team, &plain, 1)) : 0;
    const int64_t start = sp_clock_us();
    for (int i = 0; i < ROUNDS && (i < 2 || sp_clock_us() - start < 2000000); i++) {
        best_kernel = fmin(best_kernel, seconds(team, &kernel, repeat_kernel));
        if (plain.op) best_plain = fmin(best_plain, seconds(team, &plain, repeat_plain));
    }
    printf("%-34s %8.3f ms %8.1f GB/s %8.1f GFLOP/s", name, best_kernel * 1e3, gbytes / best_kernel, gflop / best_kernel);
    if (plain.op) printf("   %5.2f x plain", best_plain / best_kernel);
    putchar('\n');
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
    if (sp_in_integers(ops, &w)) { /* as in the engine, one rounding of x serves several products */
        in_ints.q = x = take((size_t)m * ops->quantized_bytes(cols));
        ops->quantize(&(sp_quantize_args){a.x, m, cols, x}, 0, 1);
        kernel = (job){(op_fn *)ops->matmul_packed, &in_ints};
    }
    job plain = {(op_fn *)plain_matmul, &a};
    void *copies = NULL;
    if (cold) { /* the plain loop reads the format of the file, which it may keep in the caches: it is left out */
        copies = copy_out(&kernel, packed ? (const void **)&w.packed : (const void **)&w.data, packed ? packed : bytes);
        plain.op = NULL;
    }
    compare(team, name, kernel, plain, (double)bytes * 1e-9, 2e-9 * (double)(rows * cols * m));
    sp_free(copies);
    sp_free(layout);
    sp_free(x);
    sp_free(data);
    sp_free((void *)a.x);
    sp_free(a.y);
}

/* -- span attention ------------------------------------------------------------------------- */

enum { APART, PACKED, SCATTERED, DEPTH = 3 /* nodes of a path */ };

typedef struct attention {
    sp_dtype type;
    int H, G, D;
    int n, m;             /* keys; queries, which are the last of them */
    int n_spans;          /* of one length */
    int n_trees, n_paths; /* all tokens over dependency trees, each of n_paths paths of a relation and an entity; 0: none */
    int joined;           /* the spans after the first of trees, or all */
} attention;

/* What the queries see. */
typedef struct view {
    sp_span *spans;   /* [n_spans] */
    uint32_t *blocks; /* [n_blocks] of all spans */
    int n_blocks;
    sp_sight *sights; /* [n_spans]: one, or one a span of trees */
    uint16_t *lists;  /* [n_spans, 1 + DEPTH] */
    int32_t *pos;     /* [m] */
    uint16_t *see;    /* [m] */
    double pairs;     /* of a query and a key that it sees */
} view;

/* lay_spans -- each begins a block, or follows the one before. */
static void lay_spans(view *v, const attention *a)
{
    int32_t slot = 0; /* after the last span, from block n_blocks on */
    for (int s = 0; s < a->n_spans; s++) {
        const int64_t from = (int64_t)a->n * s / a->n_spans, to = (int64_t)a->n * (s + 1) / a->n_spans;
        const bool joined = a->joined != APART && (s || !a->n_trees);
        if (slot && (!joined || a->joined == SCATTERED)) {
            v->n_blocks++;
            slot = 0;
        }
        v->spans[s] = (sp_span){.blocks = v->blocks + v->n_blocks, .first = slot, .n = (int32_t)(to - from), .at = (int32_t)from, .joined = joined};
        slot += v->spans[s].n;
        v->n_blocks += slot / B;
        slot %= B;
    }
    if (slot) v->n_blocks++;
    for (int b = 0; b < v->n_blocks; b++) v->blocks[b] = (uint32_t)b;
}

/* lay_trees -- system | root | relation | entity | relation | entity | ... | root | ...: a node sees the system text, what is
 * above it and itself; positions count depth. */
static void lay_trees(view *v, const attention *a)
{
    int32_t row = 0;
    for (int s = 0; s < a->n_spans; s++) {
        uint16_t *list = v->lists + (size_t)s * (1 + DEPTH);
        const int in_tree = s ? (s - 1) % (1 + 2 * a->n_paths) : 0;
        const int parent = !s || in_tree == 0 ? 0 : in_tree % 2 ? s - in_tree : s - 1;
        sp_span *span = &v->spans[s];
        int n = 0;
        for (; s && n < v->sights[parent].n; n++) list[n] = v->sights[parent].list[n];
        if (s) span->at = v->spans[parent].at + v->spans[parent].n;
        list[n++] = (uint16_t)s;
        v->sights[s] = (sp_sight){.list = list, .n = n};
        for (int i = 0; i + 1 < n; i++) v->pairs += (double)span->n * v->spans[list[i]].n;
        v->pairs += (double)span->n * (span->n + 1) / 2;
        for (int32_t i = 0; i < span->n; i++, row++) {
            v->pos[row] = span->at + i;
            v->see[row] = (uint16_t)s;
        }
    }
}

static view look(const attention *a)
{
    const size_t n = (size_t)a->n_spans, m = (size_t)a->m;
    view v = {.spans = take(n * sizeof *v.spans),
              .blocks = take(((size_t)a->n / B + n) * sizeof *v.blocks),
              .sights = take(n * sizeof *v.sights),
              .lists = take(n * (1 + DEPTH) * sizeof *v.lists),
              .pos = take(m * sizeof *v.pos),
              .see = take(m * sizeof *v.see)};
    lay_spans(&v, a);
    if (a->n_trees) {
        lay_trees(&v, a);
        return v;
    }
    memset(v.see, 0, m * sizeof *v.see);
    for (int i = 0; i < a->m; i++) v.pos[i] = a->n - a->m + i;
    v.sights[0] = (sp_sight){.n = a->n_spans};
    v.pairs = (double)a->m * (a->n - a->m) + (double)a->m * (a->m + 1.0) / 2;
    return v;
}

static void leave(view *v)
{
    sp_free(v->spans);
    sp_free(v->blocks);
    sp_free(v->sights);
    sp_free(v->lists);
    sp_free(v->pos);
    sp_free(v->see);
}

static void name_attention(const attention *a, char *name, size_t size)
{
    static const char *const joined[] = {"", " packed", " scattered"};
    int n = snprintf(name, size, "attend %s H%d G%d D%d n=%d m=%d", sp_dtype_of(a->type)->name, a->H, a->G, a->D, a->n, a->m);
    if (a->n_trees)
        snprintf(name + n, size - (size_t)n, " trees=%dx%d%s", a->n_trees, a->n_paths, joined[a->joined]);
    else if (a->n_spans > 1)
        snprintf(name + n, size - (size_t)n, " spans=%d%s", a->n_spans, joined[a->joined]);
}

static void bench_attention(sp_team *team, const sp_ops *ops, const attention *o)
{
    const int H = o->H, G = o->G, D = o->D, n = o->n, m = o->m, n_parts = sp_team_size(team);
    char name[96];
    name_attention(o, name, sizeof name);
    if (!strstr(name, wanted)) return;
    view v = look(o);
    const size_t block_bytes = 2 * (size_t)G * sp_kv_head_bytes(o->type, D), bytes = (size_t)v.n_blocks * block_bytes;
    uint32_t seed = 3;
    uint8_t *base = take(bytes);
    for (size_t i = 0; i < bytes; i++) base[i] = (uint8_t)((noise(&seed) >> 24) & 0x3b);
    float *tables = floats((int64_t)n * D);
    sp_kv_view kv = {o->type, G, D, base, block_bytes};
    sp_rope rope = {D, false, n, tables, tables + (int64_t)n * D / 2};
    sp_attend_req req = {.q = floats((int64_t)m * H * D), .out = floats((int64_t)m * H * D), .pos = v.pos, .see = v.see,
                         .m = m, .spans = v.spans, .n_spans = o->n_spans, .sights = v.sights};
    size_t scratch_bytes = sp_attend_scratch_bytes(H, G, D, o->n_spans);
    sp_attend_args a = {&kv, &rope, H, 1 / sqrtf((float)D), &req, 1, take((size_t)n_parts * scratch_bytes), scratch_bytes};
    job kernel = {(op_fn *)ops->attend, &a}, plain = {NULL};
    plain_attend_args p = {req.q, req.out, NULL, NULL, H, G, D, m, n, floats(n_parts * (int64_t)(n + D))};
    void *copies = cold ? copy_out(&kernel, (const void **)&kv.base, bytes) : NULL, *f16 = NULL;
    if (!cold) { /* the plain loop reads keys and values as f16, in one piece */
        uint8_t *copy = f16 = floats((int64_t)G * n * D);
        for (int64_t i = 0; i < (int64_t)G * n * D * 4; i++) copy[i] &= 0x3b;
        p.k = copy;
        p.v = copy + (size_t)G * (size_t)n * (size_t)D * 2;
        plain = (job){(op_fn *)plain_attend, &p};
    }
    compare(team, name, kernel, plain, (double)bytes * 1e-9, 4e-9 * H * D * v.pairs);
    sp_free(copies);
    sp_free(f16);
    sp_free(base);
    sp_free(tables);
    sp_free((void *)req.q);
    sp_free(req.out);
    sp_free(a.scratch);
    sp_free(p.scratch);
    leave(&v);
}

static void bench_attend(sp_team *team, const sp_ops *ops, sp_dtype type, int H, int G, int D, int n, int m)
{
    bench_attention(team, ops, &(attention){type, H, G, D, n, m, .n_spans = 1});
}

/* -- settings of the command line ----------------------------------------------------------- */

typedef struct settings {
    const char *shapes, *heads, *types, *rows, *depths, *spans, *tree, *joined;
} settings;

static void fail(const char *option, const char *text, const char *like)
{
    fprintf(stderr, "kernels: --%s: \"%s\" is not %s\n", option, text, like);
    exit(2);
}

/* each -- the next of a comma-separated list, or false. */
static bool each(const char **at, char *out, size_t size)
{
    if (!*at || !**at) return false;
    const size_t n = strcspn(*at, ",");
    if (n >= size) return false;
    memcpy(out, *at, n);
    out[n] = '\0';
    *at += n + ((*at)[n] == ',');
    return true;
}

static int ints(const char *option, const char *list, int least, int *out)
{
    char one[32];
    int n = 0;
    for (const char *at = list; n < MAX_LIST && each(&at, one, sizeof one); n++) {
        char *end;
        const long v = strtol(one, &end, 10);
        if (*end || end == one || v < least || v > 1 << 22) fail(option, one, "a number that makes sense there");
        out[n] = (int)v;
    }
    if (!n) fail(option, list, "a list of numbers");
    return n;
}

static sp_dtype type_of(const char *name, bool weights)
{
    for (int t = 0; t < (weights ? SP_DTYPE_N : SP_DTYPE_END); t++)
        if (t != SP_DTYPE_N && strcmp(sp_dtype_of((sp_dtype)t)->name, name) == 0) return (sp_dtype)t;
    fail("types", name, weights ? "a type of weights" : "a type of keys and values");
    return SP_F32;
}

static void bench_shapes(sp_team *team, const sp_ops *ops, const settings *o)
{
    char shape[32], type[16], end;
    int rows[MAX_LIST], n = ints("rows", o->rows ? o->rows : "1,8,256", 1, rows), out, in;
    for (const char *at = o->shapes; each(&at, shape, sizeof shape);) {
        if (sscanf(shape, "%7dx%7d%c", &out, &in, &end) != 2 || out < 1 || in < 1) fail("shapes", shape, "like 4864x896");
        for (const char *t = o->types ? o->types : "q8_0,q4_0,q4_k,f16"; each(&t, type, sizeof type);)
            for (int r = 0; r < n; r++)
                if (in % sp_dtype_of(type_of(type, true))->n_group == 0)
                    bench_matmul(team, ops, type_of(type, true), out, in, rows[r]);
                else
                    printf("matmul %s %s: skipped: rows are no whole groups\n", type, shape);
    }
}

static int joined_of(const char *name)
{
    static const char *const names[] = {"no", "packed", "scattered"};
    for (int i = 0; i < (int)SP_COUNT(names); i++)
        if (!name || strcmp(name, names[i]) == 0) return i;
    fail("joined", name, "no, packed or scattered");
    return 0;
}

/* bench_depths -- one type and head shape: every depth, number of queries and of spans; then trees. */
static void bench_depths(sp_team *team, const sp_ops *ops, const settings *o, attention a)
{
    int rows[MAX_LIST], depths[MAX_LIST], spans[MAX_LIST], paths[2] = {0};
    const int n_rows = ints("rows", o->rows ? o->rows : "1,256", 1, rows), n_spans = ints("spans", o->spans ? o->spans : "1", 1, spans);
    const int n_depths = ints("depths", o->depths ? o->depths : "0,4096", 0, depths);
    char end;
    for (int i = 0; i < n_depths * n_rows * n_spans; i++) {
        a.m = rows[i / n_spans % n_rows];
        a.n = depths[i / n_spans / n_rows] + a.m;
        a.n_spans = spans[i % n_spans];
        if (a.n_spans <= a.n) bench_attention(team, ops, &a);
    }
    if (!o->tree) return;
    if (sscanf(o->tree, "%4dx%4d%c", &paths[0], &paths[1], &end) != 2 || paths[0] < 1 || paths[1] < 1) fail("tree", o->tree, "like 20x50");
    for (int i = 0; i < n_rows; i++) {
        a.n = a.m = rows[i];
        a.n_trees = paths[0];
        a.n_paths = paths[1];
        a.n_spans = 1 + paths[0] * (1 + 2 * paths[1]);
        if (a.n_spans > a.n) fail("tree", o->tree, "so small that each node has a token: --rows are too few");
        bench_attention(team, ops, &a);
    }
}

static void bench_heads(sp_team *team, const sp_ops *ops, const settings *o)
{
    char heads[32], type[16], end;
    for (const char *at = o->heads; each(&at, heads, sizeof heads);) {
        attention a = {.joined = joined_of(o->joined)};
        if (sscanf(heads, "%4dx%4dx%4d%c", &a.H, &a.G, &a.D, &end) != 3 || a.G < 1 || a.H < 1 || a.H % a.G || a.D < 2 || a.D % 2)
            fail("heads", heads, "like 14x2x64");
        for (const char *t = o->types ? o->types : "q16,f16,q8_0"; each(&t, type, sizeof type);) {
            a.type = type_of(type, false);
            bench_depths(team, ops, o, a);
        }
    }
}

static void bench_all(sp_team *team, const sp_ops *ops)
{
    static const sp_dtype types[] = {SP_Q8_0, SP_Q4_K, SP_Q6_K, SP_Q4_0, SP_Q5_0, SP_F16, SP_F32};
    static const int m_counts[] = {1, 4, 32, 512};
    for (size_t k = 0; k < SP_COUNT(m_counts); k++) {
        for (size_t i = 0; i < SP_COUNT(types); i++) {
            if (sp_dtype_of(types[i])->n_group < 256) bench_matmul(team, ops, types[i], 4864, 896, m_counts[k]);
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
}

int main(int argc, char **argv)
{
    static const struct option names[] = {{"shapes", 1, NULL, 0}, {"heads", 1, NULL, 1}, {"types", 1, NULL, 2}, {"rows", 1, NULL, 3},
                                          {"depths", 1, NULL, 4}, {"spans", 1, NULL, 5}, {"tree", 1, NULL, 6}, {"joined", 1, NULL, 7}, {0}};
    settings o = {0};
    const char **const fields[] = {&o.shapes, &o.heads, &o.types, &o.rows, &o.depths, &o.spans, &o.tree, &o.joined};
    for (int k; (k = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (k == '?') return fprintf(stderr, "usage: kernels [THREADS [VARIANT [PART OF A NAME]]] [--shapes LIST | --heads LIST] "
                                             "[--types LIST] [--rows LIST] [--depths LIST] [--spans LIST] [--tree TxP] "
                                             "[--joined no|packed|scattered]\n"), 2;
        *fields[k] = optarg;
    }
    argc -= optind;
    argv += optind;
    const sp_ops *ops;
    sp_team *team;
    if (sp_team_create(&team, argc > 0 ? atoi(argv[0]) : 0) != SP_OK || sp_ops_select(argc > 1 ? argv[1] : NULL, &ops) != SP_OK) {
        fprintf(stderr, "%s\n", sp_error_detail());
        return 1;
    }
    if (argc > 2) wanted = argv[2];
    cold = o.shapes || o.heads;
    printf("%s, %d threads\n", ops->name, sp_team_size(team));
    if (o.shapes) bench_shapes(team, ops, &o);
    if (o.heads) bench_heads(team, ops, &o);
    if (!cold) bench_all(team, ops);
    sp_team_destroy(team);
    return 0;
}
