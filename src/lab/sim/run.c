/* run.c -- a ledger over a pool without memory, driven as requests drive it: what is found is pinned,
 * what is missing is added, and pinned until the request is over. Time is the number of the request.
 */
#include <malloc.h>
#include <string.h>

#include "base/clock.h"
#include "cache/by_content.h"
#include "cache/by_path.h"
#include "cache/evict.h"
#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/sim/sim.h"

#define MEAN_CCI 0.75f /* of Cache-Craft, between its bounds; a CFO where nothing overlaps */

struct sim_cache {
    const sim_trace *t;
    sim_opts o;
    sp_kv_pool *pool;
    sp_ledger *ledger;
    sim_future future; /* belady alone */
    sp_segment *segs;  /* [most] of the present request ... */
    int32_t **tokens;  /* [most] ... with these tokens, which begin with the document's number */
    const sp_copy **found; /* [most] */
    uint32_t *blocks;      /* of the largest document */
    sim_result r;
    int64_t began;
    sim_samples *samples;
    bool timed;   /* the calls of this request */
    size_t bytes; /* allocated before the ledger was there */
};

/* -- segments -------------------------------------------------------------------------------- */

static sp_digest id_of(int32_t doc)
{
    sp_digest id = {0};
    uint64_t key = (uint64_t)doc, hash = sp_hash64(&key, sizeof key);
    memcpy(id.b, &hash, sizeof hash);
    memcpy(id.b + sizeof hash, &doc, sizeof doc);
    return id;
}

int32_t sim_digest_doc(const void *digest)
{
    int32_t doc;
    memcpy(&doc, (const uint8_t *)digest + 8, sizeof doc);
    return doc;
}

/* fill_segment -- the i-th of the request. Different documents begin with different tokens. */
static void fill_segment(sim_cache *c, int i, int32_t doc)
{
    int32_t n = c->t->size[doc];
    for (int32_t k = 0; k < SP_MIN(n, (int32_t)SP_BLOCK_TOKENS); k++) c->tokens[i][k] = doc;
    c->segs[i] =
        (sp_segment){.kind = SP_SEG_CHUNK, .tokens = c->tokens[i], .n = n, .id = id_of(doc)};
}

static int fill_request(sim_cache *c, int64_t r)
{
    int n = (int)(c->t->first[r + 1] - c->t->first[r]);
    for (int i = 0; i < n; i++) fill_segment(c, i, c->t->docs[c->t->first[r] + i]);
    return n;
}

/* -- one request ----------------------------------------------------------------------------- */

static sp_content_query query_of(const sp_segment *seg)
{
    return (sp_content_query){.seg = seg, .ready_only = true};
}

/* look_ahead -- what the next requests will read, the sooner the more. */
static void look_ahead(sim_cache *c, int64_t r)
{
    if (!c->o.look_ahead || !sp_ledger_looks_ahead(c->ledger)) return;
    sp_ledger_look(c->ledger);
    for (int k = 0; k < c->o.look_ahead && r + 1 + k < c->t->n_requests; k++) {
        int n = fill_request(c, r + 1 + k);
        if (c->o.by_path) sp_by_path_peek(c->ledger, c->segs, n, c->found);
        for (int i = 0; i < n; i++) {
            sp_content_query q = query_of(&c->segs[i]);
            const sp_copy *copy =
                c->o.by_path ? c->found[i] : sp_by_content_peek(c->ledger, &q, SP_COPY_PLAIN);
            if (copy) sp_ledger_expect(c->ledger, copy, 1 - (float)k / (float)c->o.look_ahead);
        }
    }
}

/* began, note -- around a call whose time counts. */
static int64_t began(const sim_cache *c)
{
    return c->timed ? sim_ns() : 0;
}

static void note(sim_cache *c, sim_op op, int64_t since)
{
    if (c->timed) sim_note(&c->samples, op, sim_ns() - since);
}

static void look_up(sim_cache *c, int n, int64_t now)
{
    int64_t t = began(c);
    if (c->o.by_path) {
        sp_path_match m = sp_by_path_find(c->ledger, c->segs, n, now, c->found);
        note(c, SIM_LOOK_UP, t);
        if (m.partial) sp_ledger_unpin(c->ledger, m.partial);
        return;
    }
    for (int i = 0; i < n; i++) {
        sp_content_query q = query_of(&c->segs[i]);
        t = began(c);
        c->found[i] = sp_by_content_find(c->ledger, &q, SP_COPY_PLAIN, now);
        note(c, SIM_LOOK_UP, t);
        t = began(c);
        /* A plain copy is exact in front; elsewhere none of what precedes it is in it. */
        if (c->found[i]) sp_ledger_use(c->ledger, c->found[i], i ? MEAN_CCI : 0, now);
        if (c->found[i]) note(c, SIM_USE, t);
    }
}

/* add -- document i was computed, with what else the request missed: `at_once` are its counts. */
static sp_err add(sim_cache *c, int i, const sp_copy_spec *at_once, int64_t now)
{
    const sp_segment *seg = &c->segs[i];
    int32_t n_blocks = sp_blocks_for(seg->n);
    SP_TRY(sp_kv_acquire(c->pool, n_blocks, c->blocks));
    sp_kv_seal(c->pool, c->blocks, n_blocks);
    c->future.newcomer = c->future.soon ? c->future.soon[i] : 0;
    sp_copy_spec spec = {.seg = seg,
                         .facts.kind = c->o.by_path ? SP_COPY_PATH : SP_COPY_PLAIN,
                         .facts.exact = true,
                         .parent = c->o.by_path && i ? c->found[i - 1] : NULL,
                         .blocks = c->blocks,
                         .n_cached = at_once->n_cached,
                         .n_fresh = at_once->n_fresh};
    int64_t t = began(c);
    sp_err err = sp_ledger_add(c->ledger, &spec, now, &c->found[i]);
    note(c, SIM_ADD, t);
    sp_kv_release(c->pool, c->blocks, n_blocks);
    if (err == SP_OK && c->found[i]) sp_ledger_pin(c->ledger, c->found[i]);
    return err;
}

static sp_err add_missing(sim_cache *c, int n, const bool *hit, int64_t now)
{
    sp_copy_spec at_once = {0};
    for (int i = 0; i < n; i++) *(hit[i] ? &at_once.n_cached : &at_once.n_fresh) += c->segs[i].n;
    int last = c->o.keep ? SP_MIN(n, c->o.keep) : n;
    for (int i = 0; i < last; i++) {
        if (c->found[i]) continue;
        if (c->o.by_path && i && !c->found[i - 1]) break; /* its parent found no room */
        SP_TRY(add(c, i, &at_once, now));
    }
    return SP_OK;
}

bool sim_cache_request(sim_cache *c, int64_t r, bool *hit)
{
    int64_t now = r + 1;
    c->timed = c->o.times && r % SIM_TIMED == 0;
    look_ahead(c, r);
    int n = fill_request(c, r);
    if (c->future.next) {
        c->future.docs = c->t->docs + c->t->first[r];
        c->future.soon = c->future.next + c->t->first[r];
        c->future.n = n;
    }
    look_up(c, n, now);
    for (int i = 0; i < n; i++) {
        hit[i] = c->found[i] != NULL;
        c->r.n_docs++;
        c->r.n_hits += hit[i];
        c->r.tokens += c->segs[i].n;
        c->r.tokens_hit += hit[i] ? c->segs[i].n : 0;
    }
    sp_err err = add_missing(c, n, hit, now);
    for (int i = 0; i < n; i++)
        if (c->found[i]) sp_ledger_unpin(c->ledger, c->found[i]);
    if (err != SP_OK) cli_fail(err);
    return err == SP_OK;
}

/* -- create and destroy ---------------------------------------------------------------------- */

static bool open_ledger(sim_cache *c, int64_t max_blocks, int64_t largest)
{
    bool belady = strcmp(c->o.policy, "belady") == 0;
    c->bytes = mallinfo2().uordblks + mallinfo2().hblkhd;
    if (belady) sim_future_make(c->t, c->o.by_path, &c->future);
    /* An eighth more than may be cached, so that the search for free blocks is short. */
    sp_kv_shape shape = {.n_layers = 1, .n_heads = 1, .head = 2, .type = SP_F16};
    sp_err err = sp_kv_pool_create(NULL, &shape, max_blocks + max_blocks / 8 + largest, &c->pool);
    sp_ledger_opts o = {.pool = c->pool,
                        .max_blocks = max_blocks,
                        .evict = c->o.policy,
                        .policy = belady ? &sim_belady : NULL,
                        .user = &c->future,
                        .cost = c->o.cost};
    if (err == SP_OK) err = sp_ledger_create(&o, &c->ledger);
    return err == SP_OK || cli_fail(err) == 0;
}

bool sim_cache_open(const sim_trace *t, const sim_opts *o, sim_cache **out)
{
    sim_cache *c = cli_alloc(1, sizeof *c);
    const int32_t largest = SP_MAX(t->largest, 1);
    c->t = t;
    c->o = *o;
    c->segs = cli_alloc((size_t)t->most, sizeof *c->segs);
    c->found = cli_alloc((size_t)t->most, sizeof *c->found);
    c->tokens = cli_alloc((size_t)t->most, sizeof *c->tokens);
    for (int i = 0; i < t->most; i++) c->tokens[i] = cli_alloc((size_t)largest, sizeof **c->tokens);
    c->blocks = cli_alloc((size_t)sp_blocks_for(largest), sizeof *c->blocks);
    c->began = sp_clock_us();
    *out = c;
    if (open_ledger(c, SP_MAX(o->memory / SP_BLOCK_TOKENS, (int64_t)1), sp_blocks_for(largest)))
        return true;
    sim_cache_close(c);
    return false;
}

sim_result sim_cache_close(sim_cache *c)
{
    sim_result r = c->r;
    r.seconds = (double)(sp_clock_us() - c->began) / 1e6;
    if (c->ledger) {
        r.n_evicted = sp_ledger_stats_of(c->ledger).n_evicted;
        r.n_copies = sp_ledger_stats_of(c->ledger).n_copies;
        c->future.newcomer = -1; /* all may go */
        size_t now = mallinfo2().uordblks + mallinfo2().hblkhd;
        r.entry_bytes = r.n_copies ? (double)(now - c->bytes - sim_samples_bytes(c->samples)) /
                                         (double)r.n_copies
                                   : 0;
    }
    for (int op = 0; op < SIM_N_OPS; op++) r.times[op] = sim_times_of(c->samples, (sim_op)op);
    sim_samples_free(c->samples);
    sp_ledger_destroy(c->ledger);
    sp_kv_pool_destroy(c->pool);
    sim_future_free(&c->future);
    for (int i = 0; i < c->t->most; i++) free(c->tokens[i]);
    free(c->tokens);
    free(c->found);
    free(c->segs);
    free(c->blocks);
    free(c);
    return r;
}

bool sim_run(const sim_trace *t, const sim_opts *o, sim_result *out)
{
    sim_cache *c;
    if (!sim_cache_open(t, o, &c)) return false;
    bool *hit = cli_alloc((size_t)t->most, sizeof *hit), good = true;
    for (int64_t r = 0; good && r < t->n_requests; r++) good = sim_cache_request(c, r, hit);
    free(hit);
    *out = sim_cache_close(c);
    return good;
}
