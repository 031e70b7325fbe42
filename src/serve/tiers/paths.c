/* paths.c -- copies in the store whose headers must be known: path copies, placed copies, and measured ones.
 *
 *   open    headers are read, and the copies adopted, parents first
 *   store   root first: a copy is written once the store has its parent
 *   drop    a copy whose parent is in no tier is useless
 *
 * The name of a path copy is its id and a hash of the ids before it; its header lists them all, and a load compares
 * them. Each id includes the tenant's salt, so no other tenant's prompt has it. The store drops the ends of paths
 * first (disk_order.h), whatever its policy. For a placed copy, policies need to know what it was computed after
 * before it is loaded.
 * Source: RAGCache section 5.1 (R3), Cache-Craft section 3.3 (C7). */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cache/by_path.h"
#include "serve/tiers/tiers_int.h"

enum { BATCH = 64 };

/* -- headers -------------------------------------------------------------------------------- */

/* The header of a copy; its arrays are in `memory`. */
typedef struct header {
    sp_tier_info info;
    sp_record r; /* n_layers 0: not read */
    void *memory;
} header;

typedef SP_VEC(header) headers;

static sp_err take_info(void *user, const sp_tier_info *info)
{
    headers *h = user;
    const bool by_name = info->key.kind == SP_COPY_PLAIN || info->key.kind == SP_COPY_FUSED;
    if (info->key.kind >= SP_COPY_STORED_KINDS || (by_name && !(info->facts & SP_FACT_STATS))) return SP_OK;
    SP_TRY(sp_vec_reserve(h, 1));
    h->v[h->n++] = (header){.info = *info};
    return SP_OK;
}

/* take_header -- on a thread of the tier. */
static sp_err take_header(void *user, const sp_record *r)
{
    header *h = user;
    const size_t facts = sp_copy_facts_bytes(&r->facts, r->n), tokens = (size_t)r->n * sizeof *r->tokens;
    sp_free(h->memory);
    h->r.n_layers = 0;
    uint8_t *p = h->memory = sp_alloc(1, facts + tokens);
    if (!p) return sp_fail_nomem("the header of a copy");
    memcpy(p + facts, r->tokens, tokens);
    h->r = *r;
    h->r.tokens = (const int32_t *)(const void *)(p + facts);
    sp_copy_facts_own(&r->facts, r->n, p, &h->r.facts);
    return SP_OK;
}

/* read_some -- reads several at a time; skips those that cannot be read. */
static void read_some(const sp_tiers *t, header *h, size_t n)
{
    sp_tier_job jobs[BATCH];
    sp_tier_op *ops[BATCH];
    for (size_t i = 0; i < n; i++)
        jobs[i] = (sp_tier_job){
            .verb = SP_TIER_GET, .key = h[i].info.key, .head = take_header, .user = &h[i]};
    if (sp_tier_submit_all(sp_tiers_tier(t), jobs, n, ops) != SP_OK) return;
    for (size_t i = 0; i < n; i++) {
        sp_tier_op_wait(ops[i], -1); /* the context is not open yet: no other thread waits */
        if (sp_tier_op_result(ops[i]) != SP_OK) h[i].r.n_layers = 0;
        sp_tier_op_release(ops[i]);
    }
}

/* -- adopting ------------------------------------------------------------------------------- */

static sp_tier_key key_at(const sp_digest *path, int n)
{
    return (sp_tier_key){.id = path[n], .head = sp_head_key(path, n), .kind = SP_COPY_PATH};
}

/* has_path -- whether the store has every copy that this one continues. */
static bool has_path(sp_tier *disk, const sp_digest *before, int n)
{
    bool all = true;
    for (int i = 0; i < n && all; i++) {
        const sp_tier_key key = key_at(before, i);
        all = sp_tier_knows(disk, &key);
    }
    return all;
}

static void drop(const sp_tiers *t, const sp_tier_key *key)
{
    sp_err err =
        sp_tier_is_writer(sp_tiers_tier(t))
            ? sp_tier_submit(sp_tiers_tier(t), &(sp_tier_job){.verb = SP_TIER_DROP, .key = *key}, NULL)
            : SP_OK;
    if (err != SP_OK) sp_log(SP_LOG_DEBUG, "a copy was not dropped from the store: %s", sp_error_detail());
}

/* adopt_path -- *useless: no prompt can find it. */
static sp_err adopt_path(const sp_tiers *t, const header *h, bool *useless)
{
    const sp_record *r = &h->r;
    const sp_segment seg = {.tokens = r->tokens, .n = r->n, .id = r->facts.id};
    const sp_copy *parent = sp_by_path_at(t->ledger, r->facts.before, r->facts.n_before);
    if (r->facts.n_before) {
        const sp_tier_key continues = key_at(r->facts.before, r->facts.n_before - 1);
        sp_disk_order_follows(t->order, &h->info.key, &continues);
    }
    if (r->facts.n_before && !parent) {
        *useless = !has_path(sp_tiers_tier(t), r->facts.before, r->facts.n_before);
        return SP_OK;
    }
    sp_err err =
        sp_ledger_adopt_path(t->ledger, &(sp_adopted_path){.seg = &seg,
                                                           .parent = parent,
                                                           .facts.at = r->facts.at,
                                                           .facts.exact = r->facts.exact,
                                                           .place = SP_AT_DISK,
                                                           .facts.cost_us = r->facts.cost_us,
                                                           .n_uses = h->info.n_uses});
    *useless = err == SP_E_FORMAT;
    return *useless ? SP_OK : err;
}

/* adopt_chunk -- of a measured copy all but the order of its tokens. */
static sp_err adopt_chunk(const sp_tiers *t, const header *h)
{
    sp_adopted a = {.facts = h->r.facts,
                    .n = h->r.n,
                    .place = SP_AT_DISK,
                    .measured = h->info.facts & SP_FACT_STATS,
                    .heavy = h->info.facts & SP_FACT_HEAVY,
                    .n_uses = h->info.n_uses};
    a.facts.head = sp_head_key(a.facts.before, a.facts.n_head);
    return sp_ledger_adopt(t->ledger, &a);
}

static int by_depth(const void *a, const void *b)
{
    return ((const header *)a)->r.facts.n_before - ((const header *)b)->r.facts.n_before;
}

static sp_err adopt_all(const sp_tiers *t, header *h, size_t n)
{
    sp_err err = SP_OK;
    int64_t n_useless = 0;
    if (n) qsort(h, n, sizeof *h, by_depth);
    for (size_t i = 0; i < n && err == SP_OK; i++) {
        bool useless = false;
        if (!h[i].r.n_layers) continue;
        err = h[i].info.key.kind == SP_COPY_PATH ? adopt_path(t, &h[i], &useless) : adopt_chunk(t, &h[i]);
        if (useless) drop(t, &h[i].info.key);
        n_useless += useless;
    }
    if (n_useless)
        sp_log(SP_LOG_INFO, "dropped %lld copies from the store whose parents are lost",
               (long long)n_useless);
    return err;
}

sp_err sp_tiers_adopt_headers(sp_tiers *t, size_t most)
{
    headers all = {0};
    sp_err err = sp_tier_run(sp_tiers_tier(t),
                             &(sp_tier_job){.verb = SP_TIER_LIST, .each = take_info, .user = &all});
    const size_t n = SP_MIN(all.n, most), first = all.n - n; /* used last */
    for (size_t i = first; err == SP_OK && i < all.n; i += BATCH)
        read_some(t, &all.v[i], SP_MIN(all.n - i, (size_t)BATCH));
    if (err == SP_OK && n) err = adopt_all(t, &all.v[first], n);
    for (size_t i = 0; i < all.n; i++) sp_free(all.v[i].memory);
    sp_vec_fini(&all);
    return err;
}

/* -- storing -------------------------------------------------------------------------------- */

/* is_known -- whether the store is known to have it. */
static bool is_known(sp_tiers *t, const sp_copy *c)
{
    sp_tier_key key;
    return sp_tiers_key_of(t, c, &key) == SP_OK && sp_tier_knows(sp_tiers_tier(t), &key);
}

sp_err sp_tiers_store_path(sp_tiers *t, const sp_copy *c, int64_t max_blocks)
{
    sp_move m;
    if (c->state != SP_COPY_READY || !sp_tiers_writes(t) || sp_tiers_is_storing(t, c)) return SP_OK;
    if (is_known(t, c)) {
        if (!(c->places & SP_AT_DISK)) sp_ledger_placed(t->ledger, c, SP_AT_DISK);
        return SP_OK;
    }
    if (c->parent && !sp_tiers_is_storing(t, c->parent) && !is_known(t, c->parent)) return SP_OK;
    if (sp_tiers_n_storing_blocks(t) + sp_copy_n_own_blocks(c) > max_blocks) return SP_OK;
    SP_TRY(sp_tiers_move_of(t, c, NULL, 0, &m));
    return sp_tiers_store(
        t, &(sp_tiers_key){.copy = c, .seg = &m.seg, .head = m.head, .n_head = m.n_head});
}

/* -- dropping ------------------------------------------------------------------------------- */

void sp_tiers_drop_path(sp_tiers *t, const sp_copy *c)
{
    sp_tier_key key;
    if (sp_tiers_key_of(t, c, &key) != SP_OK) return;
    /* after any other failure of a load the paths are still complete */
    if (!has_path(sp_tiers_tier(t), t->path.v, (int)t->path.n)) drop(t, &key);
}

void sp_tiers_drop_placed(sp_tiers *t, const sp_copy *c)
{
    sp_tier_key key;
    if (sp_tiers_key_of(t, c, &key) == SP_OK) drop(t, &key);
}
