/* attend.c -- span attention: tiles of queries against steps of 64 keys.
 *
 * kernel/attend.h describes how the work is divided. For a unit, a tile and a KV head:
 *
 *     for piece of the walk                        max = -inf, sum = 0, out = 0
 *       for run of spans in the piece              queries rotated for p - shift
 *         for step of 64 keys    scores   [rows][64]  = query . key
 *                                softmax  a row at a time: maximum, rescaling, exp, sum
 *                                outputs  [rows][D]   += probability * value
 *       total += piece, both rescaled to the larger maximum
 *     out = total / sum
 *
 * A tile's rows are its queries times the query heads that share the KV head, so each block is read
 * once for all of them. Many rows: the step is first decoded to f32 panels; a product takes six
 * rows at a time, and 24 rows finish the step together, so that their scores stay in L1. Up to
 * eight rows (decode): elements are decoded in registers (attend_floats.h). Q16: blocks already
 * are panels of integers, for any number of rows (attend_words.h; with AMX x86/attend_tiles.h).
 *
 * A step of joined spans (kernel/attend.h) is gathered into blocks of the same layout, unless it is in
 * such blocks already (attend_join.h).
 *
 * Different threads compute the pieces of a divided tile. Each stores its result; the thread that
 * finishes the last piece combines all of them, in the order of the walk.
 *
 * Scores are in bits: the query is also scaled by log2(e), so exp becomes a power of two. A cap is in
 * bits as well.
 *
 * Invariants:
 *   A1  Each sum of a row has one fixed order: over d for a score; over keys in ascending order for
 *       an output within a piece (Q16: over steps; within a step in integers, where order does not
 *       matter); over pieces in ascending order for the result. Pieces follow from the sight, not
 *       from the tile (kernel/attend.h). So each row and step has one maximum, whatever the other
 *       rows.
 *   A2  Each row and step has a mask of 64 bits: the keys that are neither stale nor after the
 *       row's query nor before its window. A step or piece with an empty mask leaves the row unchanged to the
 *       bit: masked keys add a probability of +0, and a piece without keys is not added.
 *   A3  A score outside the mask is replaced, never used in arithmetic; a value outside it is not
 *       read for that row, or is multiplied by 0 as an integer. Free slots may hold anything.
 *   A4  A piece has the same result whether it is stored or added to the total at once, and
 *       whichever thread computes it.
 * From A1-A4: the result of a row depends only on its query and the spans in its sight.
 *
 * The rows of a tile are in ascending order of position. So the rows that see nothing of a step
 * come first, and the keys that a row sees are the first of those that a later row sees. With a window
 * a row also misses the first keys of a run (`hidden`); where it misses a whole step, its mask is empty.
 */
#include <string.h>

#include "base/mem.h"
#include "compute/kernel/ops.h"
#include "compute/simd/attend_join.h"
#include "compute/simd/attend_math.h"
#include "compute/simd/attend_step.h"
#if SP_AMX
#include "compute/x86/attend_tiles.h"
#else
#include "compute/simd/attend_words.h"
#endif

/* -- steps ------------------------------------------------------------------------------------- */

INLINE const uint8_t *keys_of(const state *t, uint32_t block)
{
    return t->a->kv->base + block * t->a->kv->block_bytes + (size_t)t->kv_head * t->to_head;
}

/* Keys key .. key+n-1 of joined spans, at most a block, as a block: the one that they are in, or
 * gathered into `to`. */
static const uint8_t *join_block(sp_dtype type, state *t, int32_t key, int n, uint8_t *to)
{
    const sp_sight *sight = &t->req->sights[t->req->see[t->tile->first]];
    const sp_span *spans = sp_req_spans(t->req, t->kv_head);
    join_part part[B];
    int n_parts = 0;
    for (int got = 0; got < n;) {
        const sp_span *s = &spans[sp_sight_at(sight, t->join_span)];
        const int32_t i = key + got - t->join_key;
        if (i >= s->n) {
            t->join_key += s->n;
            t->join_span++;
            continue;
        }
        const int32_t j = s->first + i;
        const join_part next = {keys_of(t, s->blocks[j / B]), j % B,
                                SP_MIN(n - got, SP_MIN(s->n - i, B - j % B))};
        n_parts = join_add(part, n_parts, &next);
        got += next.n;
    }
    if (n_parts == 1 && part[0].slot == 0) return part[0].keys;
    join_gather(type, &(join_shape){t->head, t->width, t->head_bytes, t->row_bytes}, part, n_parts,
                to);
    return to;
}

/* Finds what the rows see of a step; false: nothing. */
static bool open_step(sp_dtype type, state *t, const sp_span *s, int32_t index, step *x)
{
    const int32_t from = index * STEP;
    x->live = sp_step_live(s, index) & first_bits(t->visible[t->n_rows - 1] - from) &
              ~first_bits(SP_MAX(0, t->hidden[0] - from));
    if (!x->live) return false;
    const int32_t least = from + __builtin_ctzll(x->live), n = 64 - __builtin_clzll(x->live);
    for (x->first = 0; t->visible[x->first] <= least;) x->first++;
    x->n_blocks = SP_DIV_UP(n, B);
    for (int b = 0; b < x->n_blocks; b++) {
        x->keys[b] = s->joined ? join_block(type, t, from + b * B, SP_MIN(B, n - b * B),
                                            t->joined + (size_t)b * 2 * t->head_bytes)
                               : keys_of(t, s->blocks[index * STEP_BLOCKS + b]);
    }
    return true;
}

/* Lists the blocks of step `next`, to prefetch them: of joined spans those of every 16th key. */
static void open_next(const state *t, const sp_span *s, int32_t next, step *x)
{
    const int32_t n_keys = s->joined ? t->run.n : s->n;
    x->n_next = SP_MAX(0, SP_MIN(STEP_BLOCKS, SP_DIV_UP(n_keys, B) - next * STEP_BLOCKS));
    if (!s->joined) {
        for (int b = 0; b < x->n_next; b++) {
            x->next[b] = keys_of(t, s->blocks[next * STEP_BLOCKS + b]);
        }
        return;
    }
    const sp_sight *sight = &t->req->sights[t->req->see[t->tile->first]];
    const sp_span *spans = sp_req_spans(t->req, t->kv_head);
    int32_t index = t->join_span, from = t->join_key;
    for (int b = 0; b < x->n_next; b++) {
        const int32_t key = next * STEP + b * B;
        s = &spans[sp_sight_at(sight, index)];
        for (; key - from >= s->n; s = &spans[sp_sight_at(sight, index)]) {
            from += s->n;
            index++;
        }
        x->next[b] = keys_of(t, s->blocks[(s->first + key - from) / B]);
    }
}

#if SP_AMX
/* Q16 with AMX: words of a step become bf16 once, for 16 rows at a time (x86/attend_tiles.h). */
static void step_q16(const state *t, step *x, int32_t index)
{
    enum { ROWS = SP_STEP_ROWS };
    const int32_t at = index * STEP;
    _Alignas(64) float scale[STEP] = {0};
    sp_tile_step s = {.n_blocks = x->n_blocks, .width = t->width, .keys = t->keys, .values = t->values};
    for (int b = 0; b < x->n_blocks; b++) {
        s.key_block[b] = x->keys[b];
        s.value_block[b] = x->keys[b] + t->head_bytes;
        s.next[b] = b < x->n_next ? x->next[b] : x->keys[b];
        memcpy(scale + b * B, s.value_block[b], SP_Q16_SCALES);
    }
    sp_tile_step_open(&s);
    for (int near = x->first / ROWS * ROWS; near < t->n_rows; near += ROWS) {
        const int from = SP_MAX(near, x->first), end = SP_MIN(near + ROWS, t->n_rows);
        sp_tile_scores(&s, t->rotated + near * t->width, t->score + near * STEP);
        softmax(t, x, at, from, end);
        for (int r = from; r < end; r++)
            t->prob_word[r] = sp_bf16_of_probs(t->score + r * STEP, scale, mask_of(t, x->live, at, r));
        sp_tile_outputs(&s, t->score + near * STEP, t->prob_word + near, from - near, end - near,
                        t->piece.out + near * t->width);
    }
}
#else
/* Q16: blocks are panels of words, for any number of rows. The first rows prefetch the next step;
 * the others prefetch what is already there. */
static void open_words(const state *t, const step *x, word_step *w)
{
    w->n_blocks = x->n_blocks;
    w->width = t->width;
    for (int b = 0; b < x->n_blocks; b++) {
        w->keys[b] = x->keys[b];
        w->values[b] = x->keys[b] + t->head_bytes;
        w->next_keys[b] = b < x->n_next ? x->next[b] : x->keys[b];
        w->next_values[b] = w->next_keys[b] + t->head_bytes;
    }
}

static void step_q16(const state *t, step *x, int32_t index)
{
    const int32_t at = index * STEP;
    _Alignas(64) float scale[STEP];
    word_step w;
    open_words(t, x, &w);
    for (int b = 0; b < x->n_blocks; b++) memcpy(scale + b * B, w.values[b], SP_Q16_SCALES);
    for (int k = x->n_blocks * B; k < STEP; k++) scale[k] = 0;
    for (int near = x->first; near < t->n_rows; near += NEAR_ROWS) {
        const int end = SP_MIN(near + NEAR_ROWS, t->n_rows);
        for (int r = near, n; r < end; r += n) {
            n = word_group(end - r);
            score_words_of[n](&w, t->rotated + r * t->width, t->query_word + r,
                              t->score + r * STEP);
            memcpy(w.next_keys, w.keys, sizeof w.keys);
        }
        softmax(t, x, at, near, end);
        for (int r = near; r < end; r++) {
            t->prob_word[r] =
                words_of_probs(t->score + r * STEP, scale, mask_of(t, x->live, at, r));
        }
        for (int r = near, n; r < end; r += n) {
            n = word_group(end - r);
            output_words_of[n](&w, t->score + r * STEP, t->prob_word + r,
                               t->piece.out + r * t->width);
            memcpy(w.next_values, w.values, sizeof w.values);
        }
    }
}
#endif

/* Runs steps from .. to-1 of a run. */
static void run_steps(state *t, const sp_span *s, int32_t from, int32_t to)
{
    const sp_dtype type = t->a->kv->type;
    for (int32_t i = from; i < to; i++) {
        step x;
        if (!open_step(type, t, s, i, &x)) continue;
        open_next(t, s, i + 1, &x);
        if (type == SP_Q16) {
            step_q16(t, &x, i);
        } else if (type == SP_F16 || type == SP_BF16) {
            SP_WIDTH(sp_attend_f16)(t, &x, i * STEP);
        } else {
            SP_WIDTH(sp_attend_f32)(t, &x, i * STEP);
        }
    }
}

/* -- spans ------------------------------------------------------------------------------------- */

static void rotate_queries(state *t, int first, int32_t shift)
{
    const sp_rope *rope = t->a->rope;
    const size_t row = (size_t)t->width;
    if (t->is_rotated && t->shift == shift) return;
    t->shift = shift;
    t->is_rotated = first == 0; /* rows before `first` may see keys of the next span */
    for (int r = first; r < t->n_rows; r += t->group) {
        /* A query outside the table sees no key of a span with this shift. */
        int64_t at = (int64_t)t->req->pos[query_of(t, r)] - shift;
        if (rope->n_rot > 0 && at >= 0 && at < rope->n_pos) {
            rotate_rows(rope, t->query + (size_t)r * row, t->rotated + (size_t)r * row, t->group,
                        t->width, (int32_t)at);
        } else {
            memcpy(t->rotated + (size_t)r * row, t->query + (size_t)r * row,
                   (size_t)t->group * row * sizeof(float));
        }
    }
    if (t->a->kv->type != SP_Q16) return;
    for (int r = first; r < t->n_rows; r++) {
#if SP_AMX
        sp_bf16_of_query(t->rotated + (size_t)r * row, t->width);
#else
        t->query_word[r] = words_of_query(t->rotated + (size_t)r * row, t->width);
#endif
    }
}

/* Adds this piece's part to a span's mass, which is relative to the maximum at that time. */
static void add_mass(const state *t, int index)
{
    float *span_max = t->span_max + (size_t)index * (size_t)t->n_rows;
    for (int r = 0; r < t->n_rows; r++) {
        float *mass = &t->req->mass[head_of(t, r) * t->req->n_spans + index];
        if (t->span_sum[r] == 0) continue;
        if (*mass == 0) {
            *mass = t->span_sum[r];
            span_max[r] = t->piece.max[r];
            continue;
        }
        const float max = SP_MAX(span_max[r], t->piece.max[r]);
        *mass =
            *mass * exp2_one(span_max[r] - max) + t->span_sum[r] * exp2_one(t->piece.max[r] - max);
        span_max[r] = max;
    }
}

/* How many keys of the run each row sees. */
static void measure_run(state *t, const sp_span *s)
{
    const sp_sight *sight = &t->req->sights[t->req->see[t->tile->first]];
    const sp_span *spans = sp_req_spans(t->req, t->kv_head);
    for (int r = 0; r < t->n_rows; r += t->group) {
        const int32_t p = t->req->pos[query_of(t, r)];
        const int32_t n = s->joined ? sp_run_visible(spans, sight, t->next_span, &t->run, p)
                                    : sp_span_visible(s, p);
        int32_t hidden = 0;
        if (t->a->window > 0) {
            const int32_t end = p - t->a->window;
            hidden = s->joined ? sp_run_visible(spans, sight, t->next_span, &t->run, end)
                               : sp_span_visible(s, end);
        }
        for (int h = 0; h < t->group; h++) {
            t->visible[r + h] = n;
            t->hidden[r + h] = hidden;
        }
    }
}

/* Runs steps from .. to-1 of the run whose first span has this index. */
static void run_run(state *t, int index, int32_t from, int32_t to)
{
    const sp_span *s = &sp_req_spans(t->req, t->kv_head)[index];
    int first = t->n_rows;
    from = SP_MAX(from, t->hidden[0] / STEP);
    while (first > 0 && t->visible[first - 1] > from * STEP) first -= t->group;
    if (first == t->n_rows) return;
    rotate_queries(t, first, s->shift);
    memset(t->span_sum, 0, (size_t)t->n_rows * sizeof(float));
    run_steps(t, s, from, SP_MIN(to, SP_DIV_UP(t->visible[t->n_rows - 1], STEP)));
    if (t->req->mass) add_mass(t, index);
}

/* -- pieces ------------------------------------------------------------------------------------ */

static void clear(const state *t, const sums *s)
{
    for (int r = 0; r < t->n_rows; r++) s->max[r] = -INFINITY;
    memset(s->sum, 0, (size_t)t->n_rows * sizeof(float));
    for (int i = 0; i < t->n_rows * t->width; i += VL) vec_store(s->out + i, vec_zero());
}

static void open_run(state *t, const sp_sight *sight, const sp_span *spans)
{
    t->run = sp_run_at(t->req, spans, sight, t->next_span);
    t->is_measured = false;
    t->join_span = t->next_span;
    t->join_key = 0;
}

/* Runs a piece of the walk, which must not be before the current position. */
static void run_piece(state *t, int64_t index)
{
    const sp_sight *sight = &t->req->sights[t->req->see[t->tile->first]];
    const sp_span *spans = sp_req_spans(t->req, t->kv_head);
    const int64_t from = index * SP_PIECE_STEPS, to = from + SP_PIECE_STEPS;
    clear(t, &t->piece);
    while (t->next_span < sight->n && t->next_step < to) {
        const int s = sp_sight_at(sight, t->next_span);
        if (t->run.n_spans == 0) open_run(t, sight, spans);
        const int64_t n = SP_DIV_UP(t->run.n, STEP);
        const int64_t first = SP_MAX(0, from - t->next_step), end = SP_MIN(n, to - t->next_step);
        if (first < end) {
            if (!t->is_measured) measure_run(t, &spans[s]);
            t->is_measured = true;
            run_run(t, s, (int32_t)first, (int32_t)end);
        }
        if (end < n) return; /* the run continues in the next piece */
        t->next_span += t->run.n_spans;
        t->next_step += n;
        t->run.n_spans = 0;
    }
}

/* Adds a piece's sums to the total. An empty total takes them unchanged: 2^0 is 1. */
static void add_piece(const state *t, const sums *piece)
{
    const sums *all = &t->total;
    for (int r = 0; r < t->n_rows; r++) {
        if (piece->max[r] == -INFINITY) continue;
        const float max = SP_MAX(all->max[r], piece->max[r]);
        const float old = exp2_one(all->max[r] - max), new = exp2_one(piece->max[r] - max);
        float *out = all->out + r * t->width;
        const float *more = piece->out + r * t->width;
        all->max[r] = max;
        all->sum[r] = all->sum[r] * old + piece->sum[r] * new;
        for (int d = 0; d < t->width; d += VL) {
            vec kept = vec_mul(vec_load(out + d), vec_all(old));
            vec_store(out + d, vec_fma(vec_load(more + d), vec_all(new), kept));
        }
    }
}

/* -- tiles ------------------------------------------------------------------------------------- */

static void open_rows(state *t)
{
    const float scale = t->a->scale * 0x1.715476p+0f; /* log2(e) */
    t->next_span = 0;
    t->next_step = 0;
    t->run.n_spans = 0;
    t->is_rotated = false;
    for (int r = 0; r < t->n_rows; r++) {
        const float *q = t->req->q + head_of(t, r) * t->head;
        float *query = t->query + r * t->width;
        for (int d = 0; d < t->head; d++) query[d] = q[d] * scale;
        for (int d = t->head; d < t->width; d++) query[d] = 0;
    }
}

static void clear_mass(const state *t)
{
    const size_t n = (size_t)t->req->n_spans;
    for (int r = 0; r < t->n_rows; r++) {
        memset(t->req->mass + (size_t)head_of(t, r) * n, 0, n * sizeof(float));
    }
}

/* add_sinks -- as a last piece, of one key whose value is 0. */
static void add_sinks(const state *t)
{
    for (int r = 0; r < t->n_rows; r++) {
        const float sink = t->a->sinks[head_of(t, r) % t->a->n_heads] * 0x1.715476p+0f; /* in bits */
        const float max = SP_MAX(t->total.max[r], sink), old = exp2_one(t->total.max[r] - max);
        float *out = t->total.out + r * t->width;
        t->total.sum[r] = t->total.sum[r] * old + exp2_one(sink - max);
        t->total.max[r] = max;
        for (int d = 0; d < t->width; d += VL) vec_store(out + d, vec_mul(vec_load(out + d), vec_all(old)));
    }
}

static void close_rows(const state *t)
{
    if (t->a->sinks) add_sinks(t);
    for (int r = 0; r < t->n_rows; r++) {
        const int64_t qh = head_of(t, r);
        const float inverse = t->total.sum[r] > 0 ? 1 / t->total.sum[r] : 0;
        float *out = t->req->out + qh * t->head;
        for (int d = 0; d < t->head; d++) out[d] = t->total.out[r * t->width + d] * inverse;
        if (t->req->lse) {
            t->req->lse[qh] = t->total.max[r] * 0x1.62e43p-1f + logf(t->total.sum[r]);
        }
        if (!t->req->mass) continue;
        float *mass = t->req->mass + qh * t->req->n_spans;
        for (int s = 0; s < t->req->n_spans; s++) {
            if (mass[s] == 0) continue;
            float max = t->span_max[(size_t)s * (size_t)t->n_rows + (size_t)r];
            mass[s] *= inverse * exp2_one(max - t->total.max[r]);
        }
    }
}

/* The place of the result of a divided tile's piece. */
static sums stored_piece(const state *t, const sp_unit *u, float *share, int64_t piece)
{
    const size_t rows = (size_t)t->n_rows, width = (size_t)t->width;
    float *p = share + u->share + (size_t)piece * rows * (width + 2);
    return (sums){.max = p, .sum = p + rows, .out = p + 2 * rows};
}

static void attend_unit(state *t, const sp_unit *u, float *share)
{
    t->tile = &u->tile;
    t->req = u->tile.req;
    t->kv_head = u->kv_head;
    t->n_rows = u->tile.n * t->group;
    open_rows(t);
    if (u->divided) {
        t->piece = stored_piece(t, u, share, u->piece);
        run_piece(t, u->piece);
        if (!sp_turns_piece_done(t->a, u)) return;
        clear(t, &t->total);
        for (int64_t i = 0; i < u->n_pieces; i++) {
            sums piece = stored_piece(t, u, share, i);
            add_piece(t, &piece);
        }
    } else {
        if (t->req->mass) clear_mass(t);
        t->piece = t->own;
        clear(t, &t->total);
        for (int64_t i = 0; i < u->n_pieces; i++) {
            run_piece(t, i);
            add_piece(t, &t->piece);
        }
    }
    close_rows(t);
}

/* Divides up the scratch of one part. */
static void lay_out(state *t, float *p)
{
    const size_t rows = SP_ROUND_UP((size_t)sp_tile_rows(t->group, t->head), 16);
    const size_t width = (size_t)t->width;
#define TAKE(n) (p += (n), p - (n))
    t->query = TAKE(rows * width);
    t->rotated = TAKE(rows * width);
    t->own.out = TAKE(rows * width);
    t->total.out = TAKE(rows * width);
    t->keys = TAKE(STEP * width);
    t->values = TAKE(STEP * width);
    t->joined = (uint8_t *)TAKE(2 * STEP * width);
    t->score = TAKE(rows * STEP);
    t->own.max = TAKE(rows);
    t->own.sum = TAKE(rows);
    t->total.max = TAKE(rows);
    t->total.sum = TAKE(rows);
    t->span_sum = TAKE(rows);
    t->query_word = TAKE(rows);
    t->prob_word = TAKE(rows);
    t->visible = (int32_t *)TAKE(rows);
    t->hidden = (int32_t *)TAKE(rows);
    t->n_seen = (int32_t *)TAKE(rows);
    t->span_max = p;
#undef TAKE
}

void SP_VARIANT(sp_attend)(const sp_attend_args *a, int part, int n_parts)
{
    const int head = a->kv->head;
    assert(head <= SP_HEAD_MAX && a->n_heads % a->kv->n_heads == 0);
    state t = {.a = a,
               .group = a->n_heads / a->kv->n_heads,
               .head = head,
               .width = SP_ROUND_UP(head, 16),
               .head_bytes = sp_kv_head_bytes(a->kv->type, head),
               .row_bytes = sp_row_bytes(a->kv->type, head)};
    t.to_head = a->kv->head_bytes ? a->kv->head_bytes : 2 * t.head_bytes;
    lay_out(&t, sp_attend_own(a, part));
    sp_deal deal;
    sp_unit unit;
    sp_deal_open(&deal, a, n_parts);
#if SP_AMX
    sp_tiles_open();
#endif
    while (sp_deal_unit(&deal, sp_turns_next(a), &unit)) {
        attend_unit(&t, &unit, sp_attend_share(a, n_parts));
    }
#if SP_AMX
    sp_tiles_close();
#endif
    sp_turns_close(a, n_parts);
}
