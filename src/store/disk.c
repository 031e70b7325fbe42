#include "store/disk.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kv/unpack.h"
#include "store/disk_tier.h"
#include "store/erase.h"
#include "store/folder.h"
#include "store/notes.h"
#include "store/others_int.h"

enum { N_KINDS = SP_DISK_PATH + 1 };

struct sp_disk {
    sp_tier *tier;
    sp_digest space;
    sp_kv_pool *pool;
    sp_others others;  /* namespaces in the same folder */
    sp_disk_copy last; /* the copy that was read last */
    void *last_memory; /* its arrays */
    _Atomic int64_t n_read; /* sp_disk_n_read */
    sp_disk_stats stats;
};

/* -- opening -------------------------------------------------------------------------------- */

sp_err sp_disk_open(const sp_disk_opts *o, sp_disk **out)
{
    sp_disk *d = SP_NEW(sp_disk);
    if (!d) return sp_fail_nomem(sizeof *d, "the store");
    d->space = *o->space;
    d->pool = o->pool;
    sp_disk_tier_opts tier = {.dir = o->dir,
                              .space = o->space,
                              .reserve_bytes = o->reserve_bytes,
                              .evict = o->evict};
    sp_err err = sp_folder_budget(o->dir, o->space, o->max_bytes, &tier.max_bytes);
    if (err == SP_OK) err = sp_disk_tier_open(&tier, &d->tier);
    if (err == SP_OK) err = sp_others_init(&d->others, o->dir, o->space);
    if (err != SP_OK) {
        sp_disk_close(d);
        return err;
    }
    *out = d;
    return SP_OK;
}

void sp_disk_close(sp_disk *d)
{
    if (!d) return;
    sp_tier_close(d->tier);
    sp_others_fini(&d->others);
    sp_free(d->last_memory);
    sp_free(d);
}

static sp_tier_key tier_key_of(const sp_disk_key *key)
{
    return (sp_tier_key){.id = key->seg->id,
                         .head = sp_head_key(key->head, key->n_head),
                         .kind = (uint32_t)key->kind};
}

typedef struct walk {
    sp_disk_each_fn *fn;
    void *user;
} walk;

static sp_err each_one(void *user, const sp_tier_info *info)
{
    const walk *w = user;
    if (info->key.kind >= N_KINDS) return SP_OK; /* a later version's */
    return w->fn(&(sp_disk_found){.id = info->key.id,
                                  .kind = (sp_disk_kind)info->key.kind,
                                  .head = info->key.head,
                                  .facts = info->facts,
                                  .n_uses = info->n_uses,
                                  .cost_us = info->cost_us},
                 w->user);
}

sp_err sp_disk_each(sp_disk *d, sp_disk_each_fn *fn, void *user)
{
    walk w = {.fn = fn, .user = user};
    return sp_tier_run(d->tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = each_one, .user = &w});
}

/* -- blocks --------------------------------------------------------------------------------- */

/* A copy on its way between the tier and blocks. */
typedef struct transfer {
    sp_disk *d;
    const sp_disk_key *key;
    const uint32_t *blocks;
    int32_t n_blocks;
    int32_t slot;        /* put: of the first token in blocks[0] */
    sp_notes_load notes; /* get */
    uint64_t note_bytes; /* put */
    uint8_t *staging;    /* a layer; for devices that the host cannot read */
} transfer;

/* next_run -- neighbouring blocks of the pool from block i of the copy on. */
static sp_kv_run next_run(const transfer *t, int layer, int32_t i)
{
    sp_kv_run run = {.layer = layer, .first = t->blocks[i], .n = 1};
    while (i + run.n < t->n_blocks && t->blocks[i + run.n] == run.first + (uint32_t)run.n) run.n++;
    return run;
}

static sp_err read_blocks(void *user, int layer, void *to)
{
    const transfer *t = user;
    const size_t bytes = sp_kv_pool_layer_block_bytes(t->d->pool);
    uint8_t *out = to;
    t->d->n_read++;
    if (t->slot) {
        const sp_kv_tokens tokens = {.blocks = t->blocks, .first = t->slot, .n = t->key->seg->n};
        return sp_kv_unpack(t->d->pool, layer, &tokens, to);
    }
    for (int32_t i = 0; i < t->n_blocks;) {
        const uint8_t *from;
        sp_kv_run run = next_run(t, layer, i);
        SP_TRY(sp_kv_pool_read(t->d->pool, run, t->staging, &from));
        memcpy(out, from, (size_t)run.n * bytes);
        out += (size_t)run.n * bytes;
        i += run.n;
    }
    sp_notes_read(t->d->pool, layer, t->blocks, t->key->seg->n, out, t->note_bytes);
    return SP_OK;
}

static sp_err write_blocks(void *user, int layer, const void *from)
{
    transfer *t = user;
    const size_t bytes = sp_kv_pool_layer_block_bytes(t->d->pool);
    const uint8_t *in = from;
    for (int32_t i = 0; i < t->n_blocks;) {
        sp_kv_run run = next_run(t, layer, i);
        SP_TRY(sp_kv_pool_write(t->d->pool, run, in));
        in += (size_t)run.n * bytes;
        i += run.n;
    }
    sp_notes_write(t->d->pool, &t->notes, layer, t->blocks, t->key->seg->n, in);
    return SP_OK;
}

static uint64_t layer_bytes_of(const sp_disk *d, int32_t n)
{
    return (uint64_t)sp_blocks_for(n) * sp_kv_pool_layer_block_bytes(d->pool);
}

int64_t sp_disk_bytes_of(const sp_kv_pool *pool, int32_t n, int n_before)
{
    static const float some_floats[1] = {0};
    static const int32_t some_tokens[1] = {0};
    const sp_record r = {.n = n,
                         .n_before = n_before,
                         .inter = some_floats,
                         .heavy = some_tokens,
                         .n_layers = sp_kv_pool_shape(pool)->n_layers,
                         .layer_bytes =
                             (uint64_t)sp_blocks_for(n) * sp_kv_pool_layer_block_bytes(pool),
                         .note_bytes = sp_notes_bytes(pool, n)};
    return (int64_t)sp_record_layout_of(&r).pages * SP_PAGE;
}

/* -- put ------------------------------------------------------------------------------------ */

static bool begins_with(const sp_digest *before, int n_before, const sp_disk_key *key)
{
    if (n_before < key->n_head) return false;
    return key->n_head == 0 || memcmp(before, key->head, sizeof *before * (size_t)key->n_head) == 0;
}

sp_err sp_disk_put(sp_disk *d, const sp_disk_key *key, const sp_disk_copy *copy,
                   const uint32_t *blocks)
{
    const sp_segment *seg = key->seg;
    if (!begins_with(copy->before, copy->n_before, key))
        return sp_fail(SP_E_ARG, "a copy that was not computed after the head of its key");
    const sp_record record = {.kind = (uint32_t)key->kind,
                              .space = d->space,
                              .id = seg->id,
                              .before = copy->before,
                              .n_before = copy->n_before,
                              .n_head = key->n_head,
                              .tokens = seg->tokens,
                              .n = seg->n,
                              .at = copy->at,
                              .exact = copy->exact,
                              .cost_us = copy->cost_us,
                              .inter = copy->inter,
                              .order = copy->order,
                              .cci = copy->cci,
                              .heavy = copy->heavy,
                              .n_layers = sp_kv_pool_shape(d->pool)->n_layers,
                              .layer_bytes = layer_bytes_of(d, seg->n),
                              .note_bytes = copy->slot ? 0 : sp_notes_bytes(d->pool, seg->n)};
    transfer t = {.d = d,
                  .key = key,
                  .blocks = blocks,
                  .n_blocks = sp_blocks_for(seg->n),
                  .slot = copy->slot,
                  .note_bytes = record.note_bytes};
    t.staging = sp_alloc(1, record.layer_bytes);
    if (!t.staging) return sp_fail_nomem(record.layer_bytes, "a layer of a chunk");
    sp_err err = sp_tier_run(
        d->tier,
        &(sp_tier_job){.verb = SP_TIER_PUT, .record = &record, .source = read_blocks, .user = &t});
    sp_free(t.staging);
    if (err != SP_OK) return err;
    d->stats.n_put++;
    d->stats.bytes_written += (int64_t)(record.layer_bytes + record.note_bytes) * record.n_layers;
    return SP_OK;
}

int64_t sp_disk_n_read(const sp_disk *d)
{
    return d->n_read;
}

/* -- get ------------------------------------------------------------------------------------ */

bool sp_disk_has(sp_disk *d, const sp_disk_key *key)
{
    sp_tier_key k = tier_key_of(key);
    return sp_tier_knows(d->tier, &k);
}

bool sp_disk_has_elsewhere(const sp_disk *d, const sp_segment *seg, const sp_segment *head,
                           int n_head, const char *salt)
{
    return sp_others_have(&d->others, &(sp_others_query){.seg = seg,
                                                         .head = head,
                                                         .n_head = n_head,
                                                         .salt = salt,
                                                         .n_kinds = SP_DISK_FUSED + 1});
}

/* pack -- an array at the end of those in `memory`; NULL memory: only its size is added. */
static const void *pack(char *memory, size_t *used, const void *from, size_t bytes)
{
    if (!from) return NULL;
    const size_t at = *used;
    *used += SP_ROUND_UP(bytes, (size_t)16);
    if (!memory) return from;
    if (bytes) memcpy(memory + at, from, bytes);
    return memory + at;
}

static size_t pack_all(const sp_disk_copy *c, int32_t n, char *memory, sp_disk_copy *out)
{
    const size_t b = (size_t)c->n_before, four_n = 4 * (size_t)n;
    size_t used = 0;
    *out = *c;
    out->before = pack(memory, &used, c->before, b * sizeof *c->before);
    out->inter = pack(memory, &used, c->inter, b * sizeof *c->inter);
    out->order = pack(memory, &used, c->order, four_n);
    out->heavy = pack(memory, &used, c->heavy, four_n);
    return used;
}

sp_err sp_disk_copy_own(const sp_disk_copy *c, int32_t n, sp_disk_copy *out, void **memory)
{
    const size_t bytes = pack_all(c, n, NULL, out);
    char *own = sp_alloc(bytes ? bytes : 1, 1);
    if (!own) return sp_fail_nomem(bytes, "a copy from the store");
    pack_all(c, n, own, out);
    *memory = own;
    return SP_OK;
}

static sp_disk_copy copy_of(const sp_record *r)
{
    return (sp_disk_copy){.before = r->before,
                          .n_before = r->n_before,
                          .at = r->at,
                          .exact = r->exact,
                          .cost_us = r->cost_us,
                          .inter = r->inter,
                          .order = r->order,
                          .cci = r->cci,
                          .heavy = r->heavy};
}

/* check_head -- the copy is what its key says, and has the pool's shape; keeps what it says. */
static sp_err check_head(void *user, const sp_record *r)
{
    transfer *t = user;
    const sp_segment *seg = t->key->seg;
    sp_disk *d = t->d;
    if (r->n != seg->n || r->n_head != t->key->n_head ||
        !begins_with(r->before, r->n_before, t->key) ||
        memcmp(r->tokens, seg->tokens, sizeof *seg->tokens * (size_t)seg->n) != 0)
        return sp_fail(SP_E_UNSUPPORTED, "a stored copy is of other tokens than its name");
    if (r->n_layers != sp_kv_pool_shape(d->pool)->n_layers ||
        r->layer_bytes != layer_bytes_of(d, r->n))
        return sp_fail(SP_E_UNSUPPORTED,
                       "a stored copy of %d layers of %llu bytes, not of this model", r->n_layers,
                       (unsigned long long)r->layer_bytes);
    t->notes = (sp_notes_load){.n_bytes = r->note_bytes};
    const sp_disk_copy said = copy_of(r);
    sp_free(d->last_memory);
    d->last_memory = NULL;
    return sp_disk_copy_own(&said, r->n, &d->last, &d->last_memory);
}

/* look_up -- the header, and with `blocks` the layers. The tier itself reports damage. */
static bool look_up(sp_disk *d, const sp_disk_key *key, const uint32_t *blocks, sp_disk_copy *out)
{
    transfer t = {.d = d, .key = key, .blocks = blocks, .n_blocks = sp_blocks_for(key->seg->n)};
    sp_err err = sp_tier_run(
        d->tier, &(sp_tier_job){.verb = SP_TIER_GET,
                                .urgent = true,
                                .key = tier_key_of(key),
                                .n_layers = blocks ? sp_kv_pool_shape(d->pool)->n_layers : 0,
                                .head = check_head,
                                .sink = write_blocks,
                                .user = &t});
    if (err == SP_OK) {
        if (out) *out = d->last;
        return true;
    }
    if (err != SP_E_NOTFOUND && err != SP_E_FORMAT)
        sp_log(SP_LOG_WARN, "not used: %s", sp_error_detail());
    d->stats.n_failed += err != SP_E_NOTFOUND && err != SP_E_NOMEM;
    return false;
}

bool sp_disk_find(sp_disk *d, const sp_disk_key *key, sp_disk_copy *out)
{
    return look_up(d, key, NULL, out);
}

bool sp_disk_load(sp_disk *d, const sp_disk_key *key, const uint32_t *blocks, sp_disk_copy *out)
{
    if (!look_up(d, key, blocks, out)) return false;
    d->stats.n_loaded++;
    d->stats.bytes_read +=
        (int64_t)layer_bytes_of(d, key->seg->n) * sp_kv_pool_shape(d->pool)->n_layers;
    return true;
}

/* -- removing ------------------------------------------------------------------------------- */

sp_err sp_disk_remove(sp_disk *d, const sp_disk_key *key)
{
    return sp_tier_run(d->tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = tier_key_of(key)});
}

typedef struct sieve {
    sp_disk_keep_fn *keep;
    void *user;
    SP_VEC(sp_tier_key) unwanted;
    SP_VEC(sp_tier_key) paths;
    SP_VEC(sp_digest) ids; /* of the unwanted, sorted */
} sieve;

static sp_err sift(void *user, const sp_tier_info *info)
{
    sieve *s = user;
    if (info->key.kind == SP_DISK_PATH) { /* heads and questions, too: `keep` does not know them */
        SP_TRY(sp_vec_reserve(&s->paths, 1));
        s->paths.v[s->paths.n++] = info->key;
        return SP_OK;
    }
    if (s->keep(&info->key.id, s->user)) return SP_OK;
    SP_TRY(sp_vec_reserve(&s->unwanted, 1));
    SP_TRY(sp_vec_reserve(&s->ids, 1));
    s->unwanted.v[s->unwanted.n++] = info->key;
    s->ids.v[s->ids.n++] = info->key.id;
    return SP_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(sp_digest));
}

/* sift_paths -- those that contain a chunk that goes. */
static sp_err sift_paths(sp_disk *d, sieve *s)
{
    if (!s->ids.n) return SP_OK;
    qsort(s->ids.v, s->ids.n, sizeof *s->ids.v, by_bytes);
    SP_TRY(sp_vec_reserve(&s->unwanted, s->paths.n));
    for (size_t i = 0; i < s->paths.n; i++) {
        const sp_tier_key *key = &s->paths.v[i];
        if (sp_digest_among(&key->id, s->ids.v, s->ids.n) ||
            sp_tier_depends(d->tier, key, s->ids.v, s->ids.n))
            s->unwanted.v[s->unwanted.n++] = *key;
    }
    return SP_OK;
}

/* drop_all -- all at once, so that they share the syncs of the tier. */
static sp_err drop_all(sp_disk *d, const sieve *s, int64_t *n_removed)
{
    SP_VEC(sp_tier_op *) ops = {0};
    sp_err err = sp_vec_reserve(&ops, s->unwanted.n);
    for (size_t i = 0; i < s->unwanted.n && err == SP_OK; i++) {
        err = sp_tier_submit(d->tier, &(sp_tier_job){.verb = SP_TIER_DROP, .key = s->unwanted.v[i]},
                             &ops.v[ops.n]);
        ops.n += err == SP_OK;
    }
    for (size_t i = 0; i < ops.n; i++) {
        sp_tier_op_wait(ops.v[i], -1);
        sp_err one = sp_tier_op_result(ops.v[i]);
        *n_removed += one == SP_OK;
        if (one != SP_OK) err = one;
        sp_tier_op_release(ops.v[i]);
    }
    sp_vec_fini(&ops);
    return err;
}

sp_err sp_disk_retain(sp_disk *d, sp_disk_keep_fn *keep, void *user, int64_t *n_removed)
{
    sieve s = {.keep = keep, .user = user};
    int64_t n = 0;
    sp_err err =
        sp_tier_run(d->tier, &(sp_tier_job){.verb = SP_TIER_LIST, .each = sift, .user = &s});
    if (err == SP_OK) err = sift_paths(d, &s);
    if (err == SP_OK && s.unwanted.n) err = drop_all(d, &s, &n);
    sp_vec_fini(&s.unwanted);
    sp_vec_fini(&s.paths);
    sp_vec_fini(&s.ids);
    if (n_removed) *n_removed = n;
    return err;
}

sp_disk_stats sp_disk_stats_of(sp_disk *d)
{
    sp_disk_stats s = d->stats;
    s.n_copies = sp_tier_stats_of(d->tier).n_copies;
    return s;
}

sp_tier *sp_disk_tier_of(sp_disk *d)
{
    return d->tier;
}
