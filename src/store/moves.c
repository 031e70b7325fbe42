#include "store/moves.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"

/* Of the blocks of a move:  FREE <--begin, end--> BUSY,  FREE --sp_move_cut--> CUT */
enum { FREE, BUSY, CUT };
enum { CUT_TRIES = 20, CUT_PAUSE_US = 100 };

sp_tier_key sp_move_key(const sp_move *m)
{
    return (sp_tier_key){.id = m->seg.id, .head = sp_head_key(m->head, m->n_head), .kind = m->kind};
}

static uint64_t layer_bytes_of(const sp_move *m)
{
    return (uint64_t)sp_blocks_for(m->seg.n) * sp_kv_pool_layer_block_bytes(m->pool);
}

void sp_move_record(const sp_move *m, sp_record *r)
{
    const bool has_notes = m->slot == 0 && !m->patch.blocks && sp_notes_has(m->pool, m->blocks, m->seg.n);
    r->facts.kind = m->kind;
    r->space = *m->space;
    r->facts.id = m->seg.id;
    if (m->kind != SP_COPY_PLACED) {
        r->facts.n_head = m->n_head;
        r->facts.head = sp_head_key(m->head, m->n_head);
    }
    r->tokens = m->seg.tokens;
    r->n = m->seg.n;
    r->n_layers = sp_kv_pool_shape(m->pool)->n_layers;
    r->layer_bytes = layer_bytes_of(m);
    r->facts.note_bytes = has_notes ? sp_notes_bytes(m->pool, m->seg.n) : 0;
    r->sums = NULL;
}

int64_t sp_move_bytes(const sp_kv_pool *pool, int32_t n, int n_before)
{
    static const float some_floats[1] = {0};
    static const int32_t some_tokens[1] = {0};
    const sp_record r = {.n = n,
                         .facts.n_before = n_before,
                         .facts.stats.inter = some_floats,
                         .facts.heavy = some_tokens,
                         .n_layers = sp_kv_pool_shape(pool)->n_layers,
                         .layer_bytes =
                             (uint64_t)sp_blocks_for(n) * sp_kv_pool_layer_block_bytes(pool),
                         .facts.note_bytes = sp_notes_bytes(pool, n)};
    return (int64_t)sp_record_layout_of(&r).pages * SP_PAGE;
}

/* -- own memory ----------------------------------------------------------------------------- */

static const void *append(uint8_t **end, const void *from, size_t bytes)
{
    if (!from) return NULL;
    void *to = *end;
    if (bytes) memcpy(to, from, bytes);
    *end += SP_ROUND_UP(bytes, (size_t)16);
    return to;
}

/* own -- copies tokens, head, blocks and patch: what they pointed to may be freed. */
static sp_err own(sp_move *m)
{
    const size_t head = (size_t)m->n_head * sizeof *m->head;
    const size_t tokens = (size_t)m->seg.n * sizeof *m->seg.tokens;
    const size_t blocks = (size_t)sp_blocks_for(m->slot + m->seg.n) * sizeof *m->blocks;
    const size_t patch = (size_t)m->patch.n * sizeof *m->patch.tokens;
    const size_t patch_blocks = (size_t)sp_blocks_for(m->patch.n) * sizeof *m->patch.blocks;
    const size_t all = head + tokens + blocks + patch + patch_blocks;
    uint8_t *end = sp_alloc(1, all + 5 * (size_t)16);
    if (!end) return sp_fail_nomem("a copy that moves");
    m->own = end;
    m->head = append(&end, m->head, head);
    m->seg.tokens = append(&end, m->seg.tokens, tokens);
    m->blocks = append(&end, m->blocks, blocks);
    m->patch.tokens = append(&end, m->patch.tokens, patch);
    m->patch.blocks = append(&end, m->patch.blocks, patch_blocks);
    return SP_OK;
}

/* keep -- the record without tokens and sums, its arrays in one allocation. */
static sp_err keep(sp_move *m, const sp_record *r)
{
    const size_t bytes = sp_copy_facts_bytes(&r->facts, r->n);
    void *memory = sp_alloc(1, bytes + 1);
    if (!memory) return sp_fail_nomem("what a tier says of a copy");
    sp_free(m->memory);
    m->memory = memory;
    m->said = *r;
    m->said.tokens = NULL;
    m->said.sums = NULL;
    sp_copy_facts_own(&r->facts, r->n, memory, &m->said.facts);
    return SP_OK;
}

void sp_move_fini(sp_move *m)
{
    sp_tier_op_release(m->op);
    sp_free(m->own);
    sp_free(m->memory);
    sp_free(m->after);
    m->own = m->memory = NULL;
    m->after = NULL;
    m->op = NULL;
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

static sp_err read_blocks(const sp_move *m, int layer, void *to)
{
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
    sp_notes_read(m->pool, layer, m->blocks, m->seg.n, out, m->said.facts.note_bytes);
    return SP_OK;
}

static sp_err begin_access(sp_move *m)
{
    int now = FREE;
    if (atomic_compare_exchange_strong(&m->access, &now, BUSY)) return SP_OK;
    return sp_fail(SP_E_CANCELED, "a copy is no longer waited for");
}

static void end_access(sp_move *m)
{
    atomic_store(&m->access, FREE);
}

bool sp_move_cut(sp_move *m)
{
    for (int i = 0; i < CUT_TRIES; i++) {
        int now = FREE;
        if (atomic_compare_exchange_strong(&m->access, &now, CUT) || now == CUT) return true;
        usleep(CUT_PAUSE_US);
    }
    return false;
}

static sp_err read_layer(void *user, int layer, void *to)
{
    sp_move *m = user;
    SP_TRY(begin_access(m));
    sp_err err = read_blocks(m, layer, to);
    if (err == SP_OK && m->patch.blocks) err = sp_kv_merge(m->pool, layer, &m->patch, m->seg.n, to);
    end_access(m);
    if (err != SP_OK) return err;
    atomic_store_explicit(&m->n_there, layer + 1, memory_order_release);
    if (m->there) m->there(m->user);
    return SP_OK;
}

static sp_err write_blocks(sp_move *m, int layer, const uint8_t *in)
{
    const size_t bytes = sp_kv_pool_layer_block_bytes(m->pool);
    for (int32_t i = 0; i < sp_blocks_for(m->seg.n);) {
        sp_kv_run run = next_run(m, layer, i);
        SP_TRY(sp_kv_pool_write(m->pool, run, in));
        in += (size_t)run.n * bytes;
        i += run.n;
    }
    sp_notes_write(m->pool, &m->notes, layer, m->blocks, m->seg.n, in);
    return SP_OK;
}

static sp_err write_layer(void *user, int layer, const void *from)
{
    sp_move *m = user;
    SP_TRY(begin_access(m));
    sp_err err = write_blocks(m, layer, from);
    end_access(m);
    if (err != SP_OK) return err;
    atomic_store_explicit(&m->n_there, layer + 1, memory_order_release);
    if (m->there) m->there(m->user);
    return SP_OK;
}

static bool begins_with_head(const sp_move *m, const sp_record *r)
{
    if (r->facts.n_before < m->n_head) return false;
    return !m->n_head ||
           memcmp(r->facts.before, m->head, sizeof *r->facts.before * (size_t)m->n_head) == 0;
}

/* -- what a tier says ----------------------------------------------------------------------- */

static sp_err check(const sp_move *m, const sp_record *r)
{
    const int n_head = m->kind == SP_COPY_PLACED ? r->facts.n_before : r->facts.n_head;
    if (r->n != m->seg.n || n_head != m->n_head || !begins_with_head(m, r) ||
        memcmp(r->tokens, m->seg.tokens, sizeof *r->tokens * (size_t)r->n) != 0)
        return sp_fail(SP_E_UNSUPPORTED, "a stored copy has other tokens than its key");
    if (r->n_layers != sp_kv_pool_shape(m->pool)->n_layers || r->layer_bytes != layer_bytes_of(m))
        return sp_fail(SP_E_UNSUPPORTED,
                       "a stored copy has %d layers of %llu bytes, unlike this model", r->n_layers,
                       (unsigned long long)r->layer_bytes);
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
    m->notes = (sp_notes_load){.n_bytes = r->facts.note_bytes};
    atomic_store_explicit(&m->n_there, 0, memory_order_release);
    if (m->there) m->there(m->user);
    return SP_OK;
}

/* -- moves ---------------------------------------------------------------------------------- */

/* name_path -- the names of all that a path copy continues. */
static sp_err name_path(sp_move *m)
{
    const size_t n = (size_t)m->n_head;
    m->after = n ? SP_NEW_N(sp_tier_key, n) : NULL;
    m->n_after = m->n_head;
    if (n && !m->after) return sp_fail_nomem("the path of a copy");
    for (int i = 0; i < m->n_after; i++)
        m->after[i] = (sp_tier_key){
            .id = m->head[i], .head = sp_head_key(m->head, i), .kind = m->kind};
    return SP_OK;
}

sp_err sp_move_put(sp_move *m, sp_tier *t, const sp_record *r, bool by_path, sp_move_done *done)
{
    if (!begins_with_head(m, r))
        return sp_fail(SP_E_ARG, "a copy that was not computed after the head of its key");
    atomic_store(&m->n_there, 0);
    SP_TRY(own(m));
    if (by_path) SP_TRY(name_path(m));
    SP_TRY(keep(m, r));
    m->said.tokens = m->seg.tokens;
    return sp_tier_submit(t,
                          &(sp_tier_job){.verb = SP_TIER_PUT,
                                         .record = &m->said,
                                         .source = read_layer,
                                         .after = m->after,
                                         .n_after = m->n_after,
                                         .done = done,
                                         .user = m},
                          &m->op);
}

sp_err sp_move_put_here(sp_move *m, sp_tier *t, const sp_record *r)
{
    m->said = *r;
    return sp_tier_run(
        t, &(sp_tier_job){.verb = SP_TIER_PUT, .record = r, .source = read_layer, .user = m});
}

sp_err sp_move_get(sp_move *m, sp_tier *t, sp_move_done *done)
{
    const int n_layers = sp_kv_pool_shape(m->pool)->n_layers;
    const bool is_first = m->first == 0;
    if (is_first && !m->own) SP_TRY(own(m));
    if (is_first) {
        sp_tier_op_release(m->op); /* of a get that failed */
        m->op = NULL;
        atomic_store(&m->n_there, -1);
    }
    return sp_tier_submit(
        t,
        &(sp_tier_job){.verb = SP_TIER_GET,
                       .urgent = !m->is_ahead,
                       .key = sp_move_key(m),
                       .first = m->first,
                       .n_layers = m->n ? SP_MIN(m->n, n_layers - m->first) : n_layers - m->first,
                       .head = take_head,
                       .sink = write_layer,
                       .done = done,
                       .user = m},
        is_first ? &m->op : NULL);
}
