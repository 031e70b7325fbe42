#include "lab/study.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compute/kernels.h"
#include "engine/sparse/sparse.h"

enum { B = SP_BLOCK_TOKENS, TOP_SHARE = 10 }; /* a tenth */

struct sp_study {
    int n_layers, n_heads, n_kv_heads;
    sp_study_result sum; /* read, exact, best, overlap: not yet divided */
    int64_t n_read;      /* addends of read, exact and best */
    double *importance;  /* [L, H] sums */
    double *similarity;
    int64_t *n_similar; /* [L, H] */
    float *query;       /* [L, H, SP_HEAD_MAX] rotated, of the token before */
    uint8_t *top;       /* [L, H, cap] the largest blocks of the token before */
    bool follows;       /* there is a token before */
    int32_t cap;
    /* of the layer that is computed */
    sp_span *spans;  /* [cap] one a block */
    uint64_t *stale; /* [cap] */
    uint8_t *kind;   /* [cap] bit 0: sink or recent */
    float *mass;     /* [H, cap] */
    float *out;      /* [H, D] not used */
    int32_t n;
};

sp_err sp_study_create(int n_layers, int n_heads, int n_kv_heads, sp_study **out)
{
    const size_t n = (size_t)(n_layers * n_heads);
    sp_study *s = SP_NEW(sp_study);
    if (!s) return sp_fail_nomem("a study");
    s->n_layers = n_layers;
    s->n_heads = n_heads;
    s->n_kv_heads = n_kv_heads;
    s->importance = SP_NEW_N(double, n);
    s->similarity = SP_NEW_N(double, n);
    s->n_similar = SP_NEW_N(int64_t, n);
    s->query = SP_NEW_N(float, n *SP_HEAD_MAX);
    s->out = SP_NEW_N(float, (size_t)n_heads *SP_HEAD_MAX);
    if (!s->importance || !s->similarity || !s->n_similar || !s->query || !s->out) {
        sp_study_destroy(s);
        return sp_fail_nomem("a study");
    }
    *out = s;
    return SP_OK;
}

static void free_blocks(sp_study *s)
{
    sp_free(s->top);
    sp_free(s->spans);
    sp_free(s->stale);
    sp_free(s->kind);
    sp_free(s->mass);
    s->top = s->kind = NULL;
    s->spans = NULL;
    s->stale = NULL;
    s->mass = NULL;
    s->cap = 0;
    s->follows = false;
}

void sp_study_destroy(sp_study *s)
{
    if (!s) return;
    free_blocks(s);
    sp_free(s->importance);
    sp_free(s->similarity);
    sp_free(s->n_similar);
    sp_free(s->query);
    sp_free(s->out);
    sp_free(s);
}

void sp_study_next(sp_study *s)
{
    s->follows = false;
}

sp_study_result sp_study_result_of(const sp_study *s)
{
    sp_study_result r = s->sum;
    const double n = (double)SP_MAX(1, s->n_read);
    r.read /= n;
    r.exact /= n;
    r.best /= n;
    for (int i = 0; i < SP_STUDY_BINS; i++) r.overlap[i] /= (double)SP_MAX(1, r.n_pairs[i]);
    return r;
}

void sp_study_heads(const sp_study *s, sp_heads *out)
{
    for (int i = 0; i < s->n_layers * s->n_heads; i++) {
        out->importance[i] = (float)(s->importance[i] / (double)SP_MAX(1, s->sum.n_steps));
        out->similarity[i] =
            s->n_similar[i] ? (float)(s->similarity[i] / (double)s->n_similar[i]) : 1;
    }
}

/* -- blocks ---------------------------------------------------------------------------------- */

/* n_parts_of -- its blocks; a joined span is one part. */
static int32_t n_parts_of(const sp_span *s)
{
    return s->joined ? s->n > 0 : sp_blocks_for(s->n);
}

static sp_err make_room(sp_study *s, int32_t n)
{
    if (n <= s->cap) return SP_OK;
    const size_t cap = (size_t)n + 64, heads = (size_t)(s->n_layers * s->n_heads);
    free_blocks(s);
    s->top = SP_NEW_N(uint8_t, heads * cap);
    s->spans = SP_NEW_N(sp_span, cap);
    s->stale = SP_NEW_N(uint64_t, cap);
    s->kind = SP_NEW_N(uint8_t, cap);
    s->mass = SP_NEW_N(float, (size_t)s->n_heads *cap);
    if (!s->top || !s->spans || !s->stale || !s->kind || !s->mass) {
        free_blocks(s);
        return sp_fail_nomem("a study");
    }
    s->cap = (int32_t)cap;
    return SP_OK;
}

/* list_blocks -- a span for each block of the plan. */
static void list_blocks(sp_study *s, const sp_plan *p, int32_t pos)
{
    s->n = 0;
    for (int i = 0; i < p->n_spans; i++) {
        const sp_span *span = &p->spans[i];
        for (int32_t b = 0; b < n_parts_of(span); b++, s->n++) {
            const int32_t n = span->joined ? span->n : SP_MIN(B, span->n - b * B);
            sp_span *one = &s->spans[s->n];
            *one = (sp_span){.blocks = span->blocks + b,
                             .n = n,
                             .at = span->at + b * B,
                             .pos = span->pos ? span->pos + b * B : NULL,
                             .shift = span->shift,
                             .first = span->first,
                             .joined = span->joined};
            if (span->stale) {
                s->stale[s->n] = span->stale[b / 4] >> (b % 4 * B) & 0xffff;
                one->stale = &s->stale[s->n];
            }
            const int32_t from = (one->pos ? one->pos[0] : one->at) + one->shift;
            const int32_t to = (one->pos ? one->pos[n - 1] : one->at + n - 1) + one->shift;
            s->kind[s->n] = from < SP_SPARSE_SINK || to > pos - SP_SPARSE_RECENT;
        }
    }
}

/* attend -- full attention again, with the masses of the blocks. */
static sp_err attend(sp_study *s, const sp_observed *seen)
{
    const sp_plan *p = seen->plan;
    sp_sight *sights = SP_NEW_N(sp_sight, (size_t)p->n_sights);
    if (!sights) return sp_fail_nomem("a study");
    for (int k = 0; k < p->n_sights; k++) sights[k] = (sp_sight){.n = s->n};
    sp_attend_args args = *seen->args;
    sp_attend_req req = *args.reqs;
    req.out = s->out;
    req.lse = NULL;
    req.spans = s->spans;
    req.n_spans = s->n;
    req.sights = sights;
    req.spans_of_head = NULL;
    req.mass = s->mass;
    args.reqs = &req;
    sp_device_attend(seen->device, &args);
    sp_free(sights);
    return sp_device_synchronise(seen->device);
}

/* -- heads ----------------------------------------------------------------------------------- */

typedef struct ranked {
    float mass;
    int32_t block;
} ranked;

static int by_mass(const void *a, const void *b)
{
    const float x = ((const ranked *)a)->mass, y = ((const ranked *)b)->mass;
    return (x < y) - (x > y);
}

/* rank -- the blocks by the mass that n_heads heads from h on give them together. */
static ranked *rank(const sp_study *s, int h, int n_heads)
{
    ranked *v = sp_alloc((size_t)s->n, sizeof *v);
    for (int32_t b = 0; v && b < s->n; b++) {
        v[b] = (ranked){.block = b};
        for (int i = h; i < h + n_heads; i++)
            v[b].mass += s->mass[(size_t)i * (size_t)s->n + (size_t)b];
    }
    if (v) qsort(v, (size_t)s->n, sizeof *v, by_mass);
    return v;
}

static float cosine(const float *x, const float *y, int n)
{
    double xy = 0, xx = 0, yy = 0;
    for (int d = 0; d < n; d++)
        xy += (double)x[d] * y[d], xx += (double)x[d] * x[d], yy += (double)y[d] * y[d];
    return xx > 0 && yy > 0 ? (float)(xy / sqrt(xx * yy)) : 0;
}

/* study_head -- importance, and the neighbouring query. */
static sp_err study_head(sp_study *s, int at, int h, const float *query, int head)
{
    const int32_t n_top = SP_MAX(1, s->n / TOP_SHARE);
    uint8_t *top = s->top + (size_t)at * (size_t)s->cap;
    ranked *v = rank(s, h, 1);
    if (!v) return sp_fail_nomem("a study");
    for (int32_t b = 0; b < s->n; b++)
        if (!s->kind[b]) s->importance[at] += s->mass[(size_t)h * (size_t)s->n + (size_t)b];
    if (s->follows) {
        int same = 0;
        for (int32_t i = 0; i < n_top; i++) same += top[v[i].block]; /* 0 for a block that is new */
        const float c = cosine(query, s->query + (size_t)at * SP_HEAD_MAX, head);
        const int bin = SP_MIN(SP_STUDY_BINS - 1, SP_MAX(0, (int)((c + 1) / 2 * SP_STUDY_BINS)));
        s->sum.n_pairs[bin]++;
        s->sum.overlap[bin] += (double)same / n_top;
        s->similarity[at] += c;
        s->n_similar[at]++;
    }
    memset(top, 0, (size_t)s->cap);
    for (int32_t i = 0; i < n_top; i++) top[v[i].block] = 1;
    memcpy(s->query + (size_t)at * SP_HEAD_MAX, query, (size_t)head * sizeof *query);
    sp_free(v);
    return SP_OK;
}

/* n_read_of -- marks (bit 1) the blocks that a KV head's list names; their number. */
static int32_t mark_read(sp_study *s, const sp_plan *p, const sp_span *spans)
{
    int32_t at = 0, n = 0;
    for (int i = 0; i < p->n_spans; i++) {
        const sp_span *all = &p->spans[i];
        int32_t k = 0, n_kept = n_parts_of(&spans[i]);
        for (int32_t b = 0; b < n_parts_of(all); b++, at++) {
            const bool reads = k < n_kept && spans[i].blocks[k] == all->blocks[b];
            s->kind[at] = (uint8_t)((s->kind[at] & 1) | reads << 1);
            k += reads;
            n += reads;
        }
    }
    return n;
}

static sp_err study_choice(sp_study *s, const sp_plan *p, const sp_span *spans, int g)
{
    const int group = s->n_heads / s->n_kv_heads;
    const int32_t n = mark_read(s, p, spans);
    ranked *v = rank(s, g * group, group);
    if (!v) return sp_fail_nomem("a study");
    double read = 0, exact = 0, best = 0;
    int32_t n_free = n;
    for (int32_t b = 0; b < s->n; b++) n_free -= (s->kind[b] & 3) == 3;
    for (int32_t i = 0; i < s->n; i++) {
        const uint8_t kind = s->kind[v[i].block];
        if (i < n) best += (double)v[i].mass;
        if (kind & 2) read += (double)v[i].mass;
        if (kind == 3 || (!(kind & 1) && n_free-- > 0))
            exact += (double)v[i].mass;
    }
    s->sum.read += read / group;
    s->sum.exact += exact / group;
    s->sum.best += best / group;
    s->n_read++;
    sp_free(v);
    return SP_OK;
}

static sp_err look(void *user, const sp_observed *seen)
{
    sp_study *s = user;
    const sp_attend_req *req = seen->args->reqs;
    const int head = seen->args->kv->head;
    float query[SP_HEAD_MAX];
    if (!seen->device->unified) return sp_fail(SP_E_UNSUPPORTED, "a study on device %s", seen->device->name);
    SP_TRY(make_room(s, sp_plan_n_blocks(seen->plan)));
    list_blocks(s, seen->plan, seen->pos);
    SP_TRY(attend(s, seen));
    for (int h = 0; h < s->n_heads; h++) {
        memcpy(query, req->q + h * head, (size_t)head * sizeof *query);
        sp_rope_rotate(seen->args->rope, query, seen->pos);
        SP_TRY(study_head(s, seen->layer * s->n_heads + h, h, query, head));
    }
    for (int g = 0; req->spans_of_head && g < s->n_kv_heads; g++)
        SP_TRY(study_choice(s, seen->plan, req->spans_of_head[g], g));
    if (seen->layer == s->n_layers - 1) {
        s->sum.n_steps++;
        s->follows = true;
    }
    return SP_OK;
}

sp_observer sp_study_observer(sp_study *s)
{
    return (sp_observer){.look = s ? look : NULL, .user = s};
}
