/* stores.c -- a store without a model: what is in it, checks, archives, room.
 *
 * Each namespace of the folder is a disk tier of its own (store/disk/tier.h), and of a Redis server a remote one. The
 * id of a chunk is a hash over its namespace too, so one id never names chunks of two models. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/need.h"
#include "spolia.h"
#include "store/archive.h"
#include "store/disk/tier.h"
#include "store/disk/folder.h"
#include "store/remote/link.h"
#include "store/remote/server.h"
#include "store/remote/tier.h"
#include "store/sweep.h"

enum {
    HEX = 2 * sizeof(sp_digest),
    REMOTE_US = 10000000, /* that a server may take to answer */
};

typedef struct part {
    sp_tier *tier;
    sp_digest space;
    char hex[HEX + 1];
} part;

struct sp_store {
    char *dir;     /* or the URL of a server, without its password */
    char *url;     /* NULL: a folder */
    char *ca_file; /* of the server, or NULL */
    sp_store_mode mode;
    SP_VEC(part) parts;
    int64_t n_lost; /* indices that were lost when it was opened */
};

/* -- opening -------------------------------------------------------------------------------- */

static sp_err add_part(sp_store *s, const sp_digest *space)
{
    part p = {.space = *space};
    SP_TRY(sp_vec_reserve(&s->parts, 1));
    SP_TRY(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = s->dir,
                                                  .space = space,
                                                  .read_only = s->mode == SP_STORE_READ,
                                                  .must_write = s->mode != SP_STORE_READ},
                             &p.tier));
    sp_digest_hex(space, sizeof space->b, p.hex);
    s->parts.v[s->parts.n++] = p;
    return SP_OK;
}

static sp_err open_part(void *user, const sp_folder_part *found)
{
    sp_store *s = user;
    s->n_lost += found->index_is_lost;
    if (found->index_is_lost && s->mode == SP_STORE_READ)
        return sp_fail(SP_E_FORMAT, "%s: an index is damaged; spolia cache verify rebuilds it",
                       s->dir);
    return add_part(s, &found->space);
}

static sp_err open_parts(sp_store *s)
{
    sp_err err = sp_folder_each(s->dir, open_part, s);
    bool is_new = err == SP_E_NOTFOUND && s->parts.n == 0;
    if (is_new && s->mode == SP_STORE_CREATE) return SP_OK;
    SP_TRY(err);
    if (s->parts.n || (s->mode == SP_STORE_CREATE && sp_folder_is_empty(s->dir))) return SP_OK;
    return sp_fail(SP_E_NOTFOUND, "%s: not a store: it holds no copies of any model", s->dir);
}

sp_err sp_store_open(const char *dir, sp_store_mode mode, sp_store **out)
{
    SP_NEED(dir);
    SP_NEED(out);
    sp_store *s = SP_NEW(sp_store);
    if (!s) return sp_fail_nomem("a store");
    s->mode = mode;
    s->dir = sp_strdup_n(dir, strlen(dir));
    sp_err err = s->dir ? open_parts(s) : sp_fail_nomem("the name of a store");
    if (err != SP_OK) {
        sp_store_close(s);
        return err;
    }
    *out = s;
    return SP_OK;
}

/* A server that is being opened. */
typedef struct remote_opening {
    sp_store *store;
    uint8_t key[SP_REMOTE_KEY_BYTES];
    size_t n_key;
} remote_opening;

static sp_err open_space(void *user, const sp_digest *space)
{
    const remote_opening *o = user;
    sp_store *s = o->store;
    part p = {.space = *space};
    SP_TRY(sp_vec_reserve(&s->parts, 1));
    SP_TRY(sp_remote_tier_open(&(sp_remote_tier_opts){.url = s->url,
                                                      .only_checks = true,
                                                      .ca_file = s->ca_file,
                                                      .space = space,
                                                      .mac_key = o->key,
                                                      .n_mac_key = o->n_key,
                                                      .timeout_us = REMOTE_US,
                                                      .must = true},
                               &p.tier));
    sp_digest_hex(space, sizeof space->b, p.hex);
    s->parts.v[s->parts.n++] = p;
    return sp_remote_tier_await(p.tier, INT64_MAX);
}

static sp_err open_spaces(sp_store *s, const char *key_file)
{
    const char *at = strrchr(s->url, '@');
    const sp_remote_server server = {s->url, s->ca_file, REMOTE_US};
    remote_opening o = {.store = s};
    SP_TRY(sp_remote_read_key(key_file, o.key, &o.n_key));
    const char *shown = at ? at + 1 : s->url;
    s->dir = sp_strdup_n(shown, strlen(shown));
    sp_err err = s->dir ? sp_remote_each_space(&server, open_space, &o)
                        : sp_fail_nomem("the name of a store");
    explicit_bzero(&o, sizeof o);
    return err;
}

sp_err sp_store_check_url(const char *url)
{
    SP_NEED(url);
    return sp_remote_check_url(url);
}

sp_err sp_store_open_remote(const char *url, const char *key_file, const char *ca_file, sp_store **out)
{
    SP_NEED(url);
    SP_NEED(out);
    sp_store *s = SP_NEW(sp_store);
    if (!s) return sp_fail_nomem("a store");
    s->mode = SP_STORE_WRITE;
    s->url = sp_strdup_n(url, strlen(url));
    if (ca_file) s->ca_file = sp_strdup_n(ca_file, strlen(ca_file));
    const bool named = s->url && (!ca_file || s->ca_file);
    sp_err err = named ? open_spaces(s, key_file) : sp_fail_nomem("the name of a store");
    if (err != SP_OK) {
        sp_store_close(s);
        return err;
    }
    *out = s;
    return SP_OK;
}

void sp_store_close(sp_store *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->parts.n; i++) sp_tier_close(s->parts.v[i].tier);
    sp_vec_fini(&s->parts);
    sp_free(s->dir);
    sp_free(s->url);
    sp_free(s->ca_file);
    sp_free(s);
}

/* -- listing -------------------------------------------------------------------------------- */

typedef struct listing {
    const part *of;
    sp_store_fn *fn;
    void *user;
} listing;

static const char *kind_name(uint32_t kind)
{
    static const char *const names[SP_COPY_STORED_KINDS] = {"plain", "fused", "path", "placed"};
    return kind < SP_COPY_STORED_KINDS ? names[kind] : "unknown";
}

static sp_err list_one(void *user, const sp_tier_info *info)
{
    const listing *l = user;
    char id[HEX + 1];
    sp_digest_hex(&info->key.id, sizeof info->key.id.b, id);
    return l->fn(&(sp_store_copy){.id = id,
                                  .space = l->of->hex,
                                  .kind = kind_name(info->key.kind),
                                  .n_tokens = info->n,
                                  .bytes = info->bytes,
                                  .cost_us = (double)info->cost_us,
                                  .n_uses = info->n_uses,
                                  .exact = info->facts & SP_FACT_EXACT,
                                  .measured = info->facts & (SP_FACT_STATS | SP_FACT_HEAVY)},
                 l->user);
}

sp_err sp_store_list(sp_store *s, sp_store_fn *fn, void *user)
{
    SP_NEED(s);
    SP_NEED(fn);
    for (size_t i = 0; i < s->parts.n; i++) {
        listing l = {&s->parts.v[i], fn, user};
        SP_TRY(sp_tier_run(l.of->tier,
                           &(sp_tier_job){.verb = SP_TIER_LIST, .each = list_one, .user = &l}));
    }
    return SP_OK;
}

/* -- the copies of one chunk ---------------------------------------------------------------- */

typedef struct choice {
    const part *of;
    const char *prefix;
    SP_VEC(sp_tier_info) list; /* copies of one id */
    const part *found_in;
} choice;

static sp_err choose(void *user, const sp_tier_info *info)
{
    choice *c = user;
    char id[HEX + 1];
    sp_digest_hex(&info->key.id, sizeof info->key.id.b, id);
    if (strncmp(id, c->prefix, strlen(c->prefix)) != 0) return SP_OK;
    if (c->list.n && !sp_digest_eq(&c->list.v[0].key.id, &info->key.id))
        return sp_fail(SP_E_ARG, "\"%s\" is the beginning of several ids", c->prefix);
    SP_TRY(sp_vec_reserve(&c->list, 1));
    c->list.v[c->list.n++] = *info;
    c->found_in = c->of;
    return SP_OK;
}

/* find_copies -- the copies of the only chunk whose id has this prefix. The caller frees c->list in any case. */
static sp_err find_copies(sp_store *s, choice *c)
{
    for (size_t i = 0; i < s->parts.n; i++) {
        c->of = &s->parts.v[i];
        SP_TRY(sp_tier_run(c->of->tier,
                           &(sp_tier_job){.verb = SP_TIER_LIST, .each = choose, .user = c}));
    }
    if (c->list.n) return SP_OK;
    return sp_fail(SP_E_NOTFOUND, "%s: no copy has an id that begins with \"%s\"", s->dir,
                   c->prefix);
}

typedef struct showing {
    const listing *l;
    const sp_tier_info *info;
} showing;

/* show_header -- shows a copy with the facts of its header. */
static sp_err show_header(void *user, const sp_record *r)
{
    const showing *w = user;
    const size_t n = (size_t)r->facts.n_before;
    char id[HEX + 1];
    char(*hex)[HEX + 1] = sp_alloc(n + 1, sizeof *hex);
    const char **before = sp_alloc(n + 1, sizeof *before);
    sp_err err = SP_OK;
    if (!hex || !before) err = sp_fail_nomem("the header of a copy");
    for (size_t i = 0; err == SP_OK && i < n; i++) {
        sp_digest_hex(&r->facts.before[i], sizeof r->facts.before[i].b, hex[i]);
        before[i] = hex[i];
    }
    sp_digest_hex(&r->facts.id, sizeof r->facts.id.b, id);
    if (err == SP_OK)
        err =
            w->l->fn(&(sp_store_copy){.id = id,
                                      .space = w->l->of->hex,
                                      .kind = kind_name(r->facts.kind),
                                      .n_tokens = r->n,
                                      .bytes = w->info->bytes,
                                      .cost_us = (double)r->facts.cost_us,
                                      .n_uses = w->info->n_uses,
                                      .exact = r->facts.exact,
                                      .measured = r->facts.stats.inter || r->facts.heavy,
                                      .before = before,
                                      .n_before = r->facts.n_before,
                                      .n_head = r->facts.kind == SP_COPY_PATH ? 0 : r->facts.n_head,
                                      .position = r->facts.at,
                                      .n_layers = r->n_layers,
                                      .layer_bytes = (int64_t)r->layer_bytes},
                     w->l->user);
    sp_free(before);
    sp_free(hex);
    return err;
}

sp_err sp_store_show(sp_store *s, const char *prefix, sp_store_fn *fn, void *user)
{
    SP_NEED(s);
    SP_NEED(prefix);
    SP_NEED(fn);
    choice c = {.prefix = prefix};
    sp_err err = find_copies(s, &c);
    const listing l = {c.found_in, fn, user};
    for (size_t i = 0; err == SP_OK && i < c.list.n; i++) {
        showing w = {&l, &c.list.v[i]};
        err = sp_tier_run(l.of->tier, &(sp_tier_job){.verb = SP_TIER_GET,
                                                     .key = c.list.v[i].key,
                                                     .head = show_header,
                                                     .user = &w});
    }
    sp_vec_fini(&c.list);
    return err;
}

typedef SP_VEC(sp_tier_info) infos;

static sp_err collect(void *user, const sp_tier_info *info)
{
    infos *all = user;
    SP_TRY(sp_vec_reserve(all, 1));
    all->v[all->n++] = *info;
    return SP_OK;
}

sp_err sp_store_drop(sp_store *s, const char *prefix, int64_t *n_dropped)
{
    SP_NEED(s);
    SP_NEED(prefix);
    choice c = {.prefix = prefix};
    int64_t n = 0;
    sp_err err = find_copies(s, &c);
    if (err == SP_OK) /* no prompt finds a path without what it continues */
        err = sp_sweep_run(c.found_in->tier,
                           &(sp_sweep_opts){.ids = &c.list.v[0].key.id,
                                            .n = 1,
                                            .after = 1u << SP_COPY_PATH,
                                            .all_or_none = true},
                           &n);
    sp_vec_fini(&c.list);
    if (n_dropped) *n_dropped = n;
    return err;
}

/* -- checks and room ------------------------------------------------------------------------ */

sp_err sp_store_stats_of(sp_store *s, sp_store_stats *out)
{
    SP_NEED(s);
    SP_NEED(out);
    sp_store_stats sum = {.n_damaged = s->n_lost, .writes = s->mode != SP_STORE_READ};
    for (size_t i = 0; i < s->parts.n; i++) {
        const sp_tier_stats one = sp_tier_stats_of(s->parts.v[i].tier);
        sum.n_copies += one.n_copies;
        sum.bytes += one.bytes_live;
        sum.file_bytes += one.bytes_used;
        sum.n_damaged += one.n_damaged;
    }
    *out = sum;
    return SP_OK;
}

static sp_err read_n_layers(void *user, const sp_record *r)
{
    int *n = user;
    *n = r->n_layers;
    return SP_OK;
}

static sp_err ignore_layer(void *user, int layer, const void *from)
{
    SP_UNUSED(user);
    SP_UNUSED(layer);
    SP_UNUSED(from);
    return SP_OK;
}

/* verify_one -- the tier checks what it reads, and counts what is damaged; a disk tier drops it, too. */
static sp_err verify_one(const sp_store *s, sp_tier *t, const sp_tier_info *info)
{
    int n = 0;
    sp_err err = sp_tier_run(
        t,
        &(sp_tier_job){.verb = SP_TIER_GET, .key = info->key, .head = read_n_layers, .user = &n});
    if (err == SP_OK)
        err = sp_tier_run(
            t, &(sp_tier_job){
                   .verb = SP_TIER_GET, .key = info->key, .n_layers = n, .sink = ignore_layer});
    if (err == SP_E_FORMAT && s->url) err = sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_DROP, .key = info->key});
    return err == SP_E_FORMAT || err == SP_E_NOTFOUND ? SP_OK : err;
}

/* Copies of another version, which cannot be checked. */
typedef struct unread {
    int64_t n;
    char id[HEX + 1], why[200]; /* of the first */
} unread;

static void note_unread(unread *u, const sp_digest *id)
{
    if (u->n++) return;
    sp_digest_hex(id, sizeof id->b, u->id);
    snprintf(u->why, sizeof u->why, "%s", sp_error_detail());
}

sp_err sp_store_verify(sp_store *s, bool (*on_copy)(int64_t done, int64_t total, void *user),
                       void *user, sp_store_stats *out)
{
    SP_NEED(s);
    SP_NEED(out);
    sp_store_stats before;
    int64_t done = 0;
    unread u = {0};
    SP_TRY(sp_store_stats_of(s, &before));
    for (size_t i = 0; i < s->parts.n; i++) {
        infos all = {0};
        sp_tier *t = s->parts.v[i].tier;
        sp_err err =
            sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_LIST, .each = collect, .user = &all});
        for (size_t k = 0; err == SP_OK && k < all.n; k++) {
            err = verify_one(s, t, &all.v[k]);
            if (err == SP_E_UNSUPPORTED && !s->url) { /* the others are checked */
                note_unread(&u, &all.v[k].key.id);
                err = SP_OK;
            }
            if (err == SP_OK && on_copy && !on_copy(++done, before.n_copies, user))
                err = sp_fail(SP_E_CANCELED, "%s: interrupted", s->dir);
        }
        sp_vec_fini(&all);
        SP_TRY(err);
    }
    if (u.n)
        return sp_fail(SP_E_UNSUPPORTED, "%s: %lld of %lld copies cannot be checked, such as %.12s: %s", s->dir,
                       (long long)u.n, (long long)before.n_copies, u.id, u.why);
    return sp_store_stats_of(s, out);
}

sp_err sp_store_clean(sp_store *s, int64_t *n_orphans, int64_t *n_gone)
{
    SP_NEED(s);
    SP_NEED(n_orphans);
    SP_NEED(n_gone);
    if (!s->url) return sp_fail(SP_E_ARG, "%s: a folder needs no cleaning: opening it cleans it", s->dir);
    return sp_remote_clean(&(sp_remote_server){s->url, s->ca_file, REMOTE_US}, n_orphans, n_gone);
}

sp_err sp_store_trim(sp_store *s, int64_t bytes)
{
    SP_NEED(s);
    if (s->url)
        return sp_fail(SP_E_ARG, "%s: the server keeps to its own budget (maxmemory, a lifecycle rule)", s->dir);
    sp_store_stats all;
    SP_TRY(sp_store_stats_of(s, &all));
    if (bytes < 0) return sp_fail(SP_E_ARG, "a budget of %lld bytes", (long long)bytes);
    if (all.file_bytes <= bytes) return SP_OK;
    for (size_t i = 0; i < s->parts.n; i++) {
        sp_tier *t = s->parts.v[i].tier;
        const double share =
            (double)sp_tier_stats_of(t).bytes_used / (double)all.file_bytes * (double)bytes;
        SP_TRY(sp_tier_run(t, &(sp_tier_job){.verb = SP_TIER_TRIM, .max_bytes = (int64_t)share}));
    }
    return SP_OK;
}

/* -- archives ------------------------------------------------------------------------------- */

/* find_part -- the namespace with this prefix; NULL: the only one. */
static sp_err find_part(const sp_store *s, const char *space, const part **out)
{
    const part *found = NULL;
    for (size_t i = 0; i < s->parts.n; i++) {
        const part *p = &s->parts.v[i];
        if (space && strncmp(p->hex, space, strlen(space)) != 0) continue;
        if (found)
            return sp_fail(SP_E_ARG,
                           "%s: copies of several models or KV types: name one of them (--namespace; "
                           "spolia cache list shows them)",
                           s->dir);
        found = p;
    }
    if (!found)
        return sp_fail(SP_E_NOTFOUND, "%s: no copies of namespace \"%s\"", s->dir,
                       space ? space : "");
    *out = found;
    return SP_OK;
}

static sp_store_stats stats_of_archive(const sp_archive_stats *a, bool writes)
{
    return (sp_store_stats){.n_copies = a->n_copies,
                            .bytes = a->bytes,
                            .file_bytes = a->bytes,
                            .n_damaged = a->n_damaged,
                            .writes = writes};
}

sp_err sp_store_export(sp_store *s, const char *space, const char *path, sp_store_stats *out)
{
    SP_NEED(s);
    SP_NEED(path);
    SP_NEED(out);
    const part *p = NULL;
    sp_archive_stats a;
    SP_TRY(find_part(s, space, &p));
    SP_TRY(sp_archive_export(p->tier, path, &p->space, NULL, NULL, &a));
    *out = stats_of_archive(&a, false);
    return SP_OK;
}

/* take_space -- the namespace of an archive, if this store accepts it. */
static sp_err take_space(sp_store *s, const char *space, const char *path, const part **out)
{
    sp_digest is;
    char hex[HEX + 1];
    SP_TRY(sp_archive_space(path, &is));
    sp_digest_hex(&is, sizeof is.b, hex);
    if (space && strcmp(space, hex) != 0)
        return sp_fail(SP_E_UNSUPPORTED,
                       "%s: its copies are of another model or KV type than the one named", path);
    for (size_t i = 0; i < s->parts.n; i++)
        if (sp_digest_eq(&s->parts.v[i].space, &is)) return *out = &s->parts.v[i], SP_OK;
    if (!space && s->parts.n)
        return sp_fail(SP_E_UNSUPPORTED,
                       "%s: its copies are of another model or KV type than those in %s; name the "
                       "model to add them",
                       path, s->dir);
    SP_TRY(add_part(s, &is));
    *out = &s->parts.v[s->parts.n - 1];
    return SP_OK;
}

sp_err sp_store_import(sp_store *s, const char *space, const char *path, sp_store_stats *out)
{
    SP_NEED(s);
    SP_NEED(path);
    SP_NEED(out);
    const part *p = NULL;
    sp_archive_stats a;
    SP_TRY(take_space(s, space, path, &p));
    SP_TRY(sp_archive_import(p->tier, path, &p->space, &a));
    *out = stats_of_archive(&a, true);
    return SP_OK;
}
