#include "store/moves.h"

#include <string.h>

#include "base/mem.h"
#include "kv/unpack.h"

sp_tier_key sp_move_key(const sp_move *m)
{
    return (sp_tier_key){.id = m->seg.id, .head = sp_head_key(m->head, m->n_head), .kind = m->kind};
}

static uint64_t layer_bytes_of(const sp_move *m)
{
    return (uint64_t)sp_blocks_for(m->seg.n) * sp_kv_pool_layer_block_bytes(m->pool);
}

void sp_move_record(sp_move *m, sp_record *r)
{
    const bool has_notes = m->slot == 0 && sp_notes_has(m->pool, m->blocks, m->seg.n);
    m->note_bytes = has_notes ? sp_notes_bytes(m->pool, m->seg.n) : 0;
    r->kind = m->kind;
    r->space = *m->space;
    r->id = m->seg.id;
    r->n_head = m->n_head;
    r->tokens = m->seg.tokens;
    r->n = m->seg.n;
    r->n_layers = sp_kv_pool_shape(m->pool)->n_layers;
    r->layer_bytes = layer_bytes_of(m);
    r->note_bytes = m->note_bytes;
    r->sums = NULL;
}

/* -- blocks --------------------------------------------------------------------------------- */

/* next_run -- neighbouring blocks of the pool from block i of the copy on. */
static sp_kv_run next_run(const sp_move *m, int layer, int32_t i)
{
    sp_kv_run run = {.layer = layer, .first = m->blocks[i], .n = 1};
    int32_t n = sp_blocks_for(m->seg.n);
    while (i + run.n < n && m->blocks[i + run.n] == run.first + (uint32_t)run.n) run.n++;
    return run;
}

static sp_err read_layer(void *user, int layer, void *to)
{
    const sp_move *m = user;
    const size_t bytes = sp_kv_pool_layer_block_bytes(m->pool);
    uint8_t *out = to;
    if (m->slot) {
        const sp_kv_tokens tokens = {.blocks = m->blocks, .first = m->slot, .n = m->seg.n};
        return sp_kv_unpack(m->pool, layer, &tokens, to);
    }
    for (int32_t i = 0; i < sp_blocks_for(m->seg.n);) {
        const uint8_t *from;
        sp_kv_run run = next_run(m, layer, i);
        SP_TRY(sp_kv_pool_read(m->pool, run, out, &from));
        if (from != out) memcpy(out, from, (size_t)run.n * bytes);
        out += (size_t)run.n * bytes;
        i += run.n;
    }
    sp_notes_read(m->pool, layer, m->blocks, m->seg.n, out, m->note_bytes);
    return SP_OK;
}

static sp_err write_layer(void *user, int layer, const void *from)
{
    sp_move *m = user;
    const size_t bytes = sp_kv_pool_layer_block_bytes(m->pool);
    const uint8_t *in = from;
    for (int32_t i = 0; i < sp_blocks_for(m->seg.n);) {
        sp_kv_run run = next_run(m, layer, i);
        SP_TRY(sp_kv_pool_write(m->pool, run, in));
        in += (size_t)run.n * bytes;
        i += run.n;
    }
    sp_notes_write(m->pool, &m->notes, layer, m->blocks, m->seg.n, in);
    atomic_store_explicit(&m->n_there, layer + 1, memory_order_release);
    if (m->there) m->there(m->user);
    return SP_OK;
}

/* -- what a tier says ----------------------------------------------------------------------- */

static sp_err check(const sp_move *m, const sp_record *r)
{
    if (r->n != m->seg.n || r->n_head != m->n_head || r->n_before < m->n_head ||
        (m->n_head && memcmp(r->before, m->head, sizeof *r->before * (size_t)m->n_head) != 0) ||
        memcmp(r->tokens, m->seg.tokens, sizeof *r->tokens * (size_t)r->n) != 0)
        return sp_fail(SP_E_UNSUPPORTED, "a stored copy is of other tokens than its name");
    if (r->n_layers != sp_kv_pool_shape(m->pool)->n_layers || r->layer_bytes != layer_bytes_of(m))
        return sp_fail(SP_E_UNSUPPORTED,
                       "a stored copy of %d layers of %llu bytes, not of this model", r->n_layers,
                       (unsigned long long)r->layer_bytes);
    return SP_OK;
}

static const void *append(uint8_t **end, const void *from, size_t bytes)
{
    if (!from) return NULL;
    void *to = *end;
    if (bytes) memcpy(to, from, bytes);
    *end += SP_ROUND_UP(bytes, (size_t)16);
    return to;
}

/* keep -- the record without tokens and sums, its arrays in one allocation. */
static sp_err keep(sp_move *m, const sp_record *r)
{
    const size_t b = (size_t)r->n_before, n = (size_t)r->n;
    const size_t bytes = b * (sizeof *r->before + sizeof *r->inter) +
                         n * (sizeof *r->order + sizeof *r->heavy) + 4 * (size_t)16;
    uint8_t *end = sp_alloc(1, bytes);
    if (!end) return sp_fail_nomem(bytes, "what a tier says of a copy");
    sp_move_fini(m);
    m->memory = end;
    m->said = *r;
    m->said.tokens = NULL;
    m->said.sums = NULL;
    m->said.before = append(&end, r->before, b * sizeof *r->before);
    m->said.inter = append(&end, r->inter, b * sizeof *r->inter);
    m->said.order = append(&end, r->order, n * sizeof *r->order);
    m->said.heavy = append(&end, r->heavy, n * sizeof *r->heavy);
    return SP_OK;
}

static sp_err take_head(void *user, const sp_record *r)
{
    sp_move *m = user;
    const uint64_t sums = sp_hash64(r->sums, sizeof *r->sums * (size_t)r->n_layers);
    SP_TRY(check(m, r));
    if (atomic_load(&m->n_there) >= 0) /* the first layers may be in use */
        return sums == m->sums ? SP_OK
                               : sp_fail(SP_E_NOTFOUND, "a copy was replaced while it was read");
    SP_TRY(keep(m, r));
    m->sums = sums;
    m->notes = (sp_notes_load){.n_bytes = r->note_bytes};
    atomic_store_explicit(&m->n_there, 0, memory_order_release);
    if (m->there) m->there(m->user);
    return SP_OK;
}

/* -- moves ---------------------------------------------------------------------------------- */

sp_err sp_move_put(sp_move *m, sp_tier *t, const sp_record *r)
{
    return sp_tier_run(
        t, &(sp_tier_job){.verb = SP_TIER_PUT, .record = r, .source = read_layer, .user = m});
}

sp_err sp_move_get(sp_move *m, sp_tier *t, void (*done)(void *user, sp_tier_op *op),
                   sp_tier_op **op)
{
    const int n_layers = sp_kv_pool_shape(m->pool)->n_layers;
    if (m->first == 0) atomic_store(&m->n_there, -1);
    return sp_tier_submit(
        t,
        &(sp_tier_job){.verb = SP_TIER_GET,
                       .urgent = true,
                       .key = sp_move_key(m),
                       .first = m->first,
                       .n_layers = m->n ? SP_MIN(m->n, n_layers - m->first) : n_layers - m->first,
                       .head = take_head,
                       .sink = write_layer,
                       .done = done,
                       .user = m},
        op);
}

void sp_move_fini(sp_move *m)
{
    sp_free(m->memory);
    m->memory = NULL;
}
