/* documents.c -- the life cycle of registered documents: what the shelf knows, and what the tiers have of
 * it.
 *
 * Invariants
 *  I1  a document is on the shelf before a copy is computed for it, and is removed from the shelf's file only
 *      after all its copies are erased: so an interrupted deletion is known, and continues.
 *  I2  texts of live documents are known to sp_prompt_cut.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/need.h"
#include "retrieve/index/texts.h"
#include "serve/documents/documents_int.h"

#define MOST_ID   256
#define MOST_TAGS 16
#define MOST_TAG  64 /* bytes */
#define PIN_SHARE 0.5f
#define RETRY_US  20000

/* -- tenants and texts ------------------------------------------------------------------------- */

sp_err sp_tenant_name(const char *salt, char out[SP_TENANT_BYTES])
{
    const sp_digest space = {{0}};
    sp_digest id;
    *out = '\0';
    if (!salt) return SP_OK;
    SP_TRY(sp_segment_id(&space, salt, NULL, 0, &id));
    sp_digest_hex(&id, sizeof id, out);
    return SP_OK;
}

/* tenant_number -- sp_known_tenant of the salt that a name was made of: the first bytes of its digest. */
static uint64_t tenant_number(const char *name)
{
    uint8_t b[sizeof(uint64_t)] = {0};
    uint64_t number;
    for (size_t i = 0; *name && i < 2 * sizeof b; i++) {
        int digit = name[i] <= '9' ? name[i] - '0' : name[i] - 'a' + 10;
        b[i / 2] = (uint8_t)(b[i / 2] << 4 | digit);
    }
    memcpy(&number, b, sizeof number);
    return number;
}

/* -- the clock of times to live --------------------------------------------------------------- */

enum { YEAR_S = 366 * 86400, DOUBT_S = 86400 };

/* open_clock -- the wall clock is read once, and compared with when the file was last written. */
static sp_err open_clock(sp_documents *d, const char *path)
{
    struct stat st = {0};
    d->opened_s = (int64_t)time(NULL);
    d->opened_us = sp_clock_us();
    if (!path) return SP_OK;
    if (!(d->path = sp_strdup_n(path, strlen(path)))) return sp_fail_nomem("a path");
    if (stat(path, &st) == 0 && d->opened_s - (int64_t)st.st_mtime > YEAR_S)
        d->doubt_s = d->opened_s - (int64_t)st.st_mtime;
    if (d->doubt_s)
        sp_log(SP_LOG_WARN, "%s: by the clock it was last used %lld days ago; expired documents are deleted in 24 "
               "hours, unless the clock is corrected", path, (long long)d->doubt_s / 86400);
    return SP_OK;
}

static int64_t elapsed_s(const sp_documents *d)
{
    return (sp_clock_us() - d->opened_us) / 1000000;
}

/* now_s -- of what is registered: a wall clock that is set while the process runs does not change it. */
static int64_t now_s(const sp_documents *d)
{
    return d->opened_s + elapsed_s(d);
}

/* A clock that is a year ahead of the file is not believed at once. */
int64_t sp_documents_due_s(const sp_documents *d)
{
    return now_s(d) - (elapsed_s(d) < DOUBT_S ? d->doubt_s : 0);
}

/* close_clock -- the file says until when it was in use, by this clock: the next process compares its own with it. */
static void close_clock(sp_documents *d, bool writes)
{
    const struct timespec due = {.tv_sec = (time_t)sp_documents_due_s(d)}, until[2] = {due, due};
    if (d->path && writes && utimensat(AT_FDCWD, d->path, until, 0) != 0)
        sp_log(SP_LOG_DEBUG, "%s: %s", d->path, strerror(errno));
    sp_free(d->path);
}

/* know -- from now on the chunk is found in plain texts, with or without its title; or no longer. */
static sp_err know(sp_documents *d, const sp_hit *chunk, bool known)
{
    sp_bytes s = {0};
    sp_known *k = d->ctx->texts.prompts.known;
    uint64_t tenant = tenant_number(chunk->root);
    if (known) SP_TRY(sp_forms_add(&d->forms, tenant, chunk->text));
    void (*change)(sp_known *, uint64_t, const char *, size_t) =
        known ? sp_known_add : sp_known_drop;
    const sp_err err = sp_chunk_form(chunk->title, chunk->text, &s);
    if (err == SP_OK) {
        change(k, tenant, s.v, s.n);
        change(k, tenant, chunk->text, strlen(chunk->text));
        if (!known)
            sp_repeats_forget(d->ctx->texts.prompts.repeats, tenant); /* a message may have contained it */
    }
    sp_vec_fini(&s);
    return err;
}

/* forget_texts -- of chunks that no document has any more. A text that another one has with another title is found
 * again. */
static sp_err forget_texts(sp_documents *d, uint64_t n_published, const sp_doomed *doomed)
{
    sp_known *k = d->ctx->texts.prompts.known;
    for (int i = 0; i < doomed->texts.n; i++) {
        const sp_hit *chunk = &doomed->texts.v[i];
        SP_TRY(know(d, chunk, false));
        if (!doomed->shared.v[i]) sp_forms_drop(&d->forms, n_published, tenant_number(chunk->root), chunk->text);
        if (doomed->shared.v[i]) sp_known_add(k, tenant_number(chunk->root), chunk->text, strlen(chunk->text));
    }
    return SP_OK;
}

/* -- opening ----------------------------------------------------------------------------------- */

static sp_err know_all(sp_documents *d)
{
    sp_hits live = {0};
    SP_TRY(sp_shelf_live(d->shelf, &live));
    sp_err err = SP_OK;
    for (int i = 0; i < live.n && err == SP_OK; i++) err = know(d, &live.v[i], true);
    sp_hits_fini(&live);
    return err;
}

sp_err sp_documents_open(sp_context *c, const sp_documents_opts *o, sp_documents **out)
{
    const sp_documents_opts defaults = {0};
    SP_NEED(c);
    SP_NEED(out);
    if (!o) o = &defaults;
    int size = o->size_words ? o->size_words : 150;
    if (size < 1 || o->overlap_words < 0 || o->overlap_words >= size)
        return sp_fail(SP_E_ARG, "documents: size_words %d, overlap_words %d: the overlap must be smaller", size,
                       o->overlap_words);
    sp_documents *d = SP_NEW(sp_documents);
    if (!d) return sp_fail_nomem("documents");
    *d = (sp_documents){
        .ctx = c, .size_words = size, .overlap_words = o->overlap_words, .embedder = o->embedder};
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->counting, NULL);
    sp_readings_init(&d->readings);
    sp_forms_init(&d->forms);
    sp_err err = open_clock(d, o->path);
    if (err == SP_OK) err = sp_shelf_open(o->path, &d->shelf);
    if (err == SP_OK) err = sp_searches_create(d->shelf, d->embedder, &d->searches);
    if (err == SP_OK) err = know_all(d);
    if (err == SP_OK) c->texts.prompts.watch = (sp_chunk_watch){sp_forms_watch, d};
    if (err == SP_OK)
        *out = d;
    else
        sp_documents_close(d);
    return err;
}

static uint64_t hash_of(const sp_digests *ids)
{
    return sp_hash64(ids->v, ids->n * sizeof *ids->v) | 1;
}

/* warn_of_unfinished -- deletions that nobody continues: their list is in memory, and a tier that stays did not
 * answer. */
static void warn_of_unfinished(const sp_documents *d)
{
    sp_doomed left;
    const bool is_file = d->path, outlives = sp_tiers_has_store(d->ctx->tiers) || sp_tiers_remote(d->ctx->tiers);
    if (is_file || !outlives || !d->shelf || sp_shelf_doomed(d->shelf, NULL, &left) != SP_OK) return;
    const size_t n = left.rows.n;
    if (n && d->swept != hash_of(&left.ids))
        sp_log(SP_LOG_WARN,
               "%zu deleted document%s may have copies in a store that did not answer: register and delete %s again",
               n, n == 1 ? "" : "s", n == 1 ? "it" : "them");
    sp_doomed_fini(&left);
}

void sp_documents_close(sp_documents *d)
{
    if (!d) return;
    sp_err err = sp_context_hold(d->ctx, NULL, 0, 0, &d->held); /* unpinning cannot fail */
    SP_UNUSED(err);
    if (d->shelf) err = sp_counts_flush(d); /* lost when it fails */
    warn_of_unfinished(d);
    sp_vec_fini(&d->held);
    sp_vec_fini(&d->counts);
    sp_searches_destroy(d->searches);
    const bool writes = d->shelf && sp_shelf_writes(d->shelf);
    sp_shelf_close(d->shelf);
    close_clock(d, writes);
    pthread_mutex_destroy(&d->lock);
    pthread_mutex_destroy(&d->counting);
    sp_readings_fini(&d->readings);
    if (d->ctx->texts.prompts.watch.user == d) d->ctx->texts.prompts.watch = (sp_chunk_watch){0};
    sp_forms_fini(&d->forms);
    sp_free(d);
}

bool sp_documents_writes(const sp_documents *d)
{
    return d && sp_shelf_writes(d->shelf);
}

/* -- registering ------------------------------------------------------------------------------- */

/* A document being cut. */
typedef struct putting {
    sp_documents *d;
    sp_prompt *prompt; /* makes tokens and content ids */
    sp_arena arena;
    SP_VEC(sp_shelf_chunk) chunks;
    sp_sha256 *hash;   /* of all texts */
    sp_bytes id, tags; /* of the row */
    sp_shelf_row row;
} putting;

static const char *copy_text(putting *p, const char *text, size_t n)
{
    char *copy = sp_arena_take(&p->arena, n + 1, 1);
    if (copy && n) memcpy(copy, text, n);
    return copy;
}

/* take_id -- of the text as a chunk; title NULL: without one. */
static sp_err take_id(putting *p, const char *title, const char *text, sp_digest *id, int32_t *n)
{
    sp_bytes s = {0};
    sp_err err = sp_chunk_form(title, text, &s);
    if (err == SP_OK) err = sp_prompt_piece(p->prompt, s.v, s.n);
    sp_vec_fini(&s);
    SP_TRY(err);
    const sp_segment *last = &p->prompt->segs.v[p->prompt->segs.n - 1];
    *id = last->id;
    *n = last->n;
    return SP_OK;
}

static sp_err take_ids(putting *p, sp_shelf_chunk *c, size_t n_text)
{
    int32_t unused;
    SP_TRY(take_id(p, c->title, c->text, &c->ids[0], &c->n_tokens));
    c->has_untitled = *c->title != 0;
    if (c->has_untitled) SP_TRY(take_id(p, NULL, c->text, &c->untitled, &unused));
    SP_TRY(sp_prompt_piece(p->prompt, c->text, n_text));
    c->ids[1] = p->prompt->segs.v[p->prompt->segs.n - 1].id;
    return sp_forms_add(&p->d->forms, p->prompt->tenant, c->text);
}

static sp_err take_piece(const sp_text_piece *piece, void *user)
{
    putting *p = user;
    sp_shelf_chunk c = {.title = copy_text(p, piece->title, piece->n_title),
                        .text = copy_text(p, piece->text, piece->n_text)};
    if (!c.title || !c.text) return sp_fail_nomem("a document");
    sp_sha256_field(p->hash, "title", piece->title, piece->n_title);
    sp_sha256_field(p->hash, "text", piece->text, piece->n_text);
    SP_TRY(take_ids(p, &c, piece->n_text));
    SP_TRY(sp_vec_reserve(&p->chunks, 1));
    p->chunks.v[p->chunks.n++] = c;
    return SP_OK;
}

static sp_err check_tags(const sp_document_new *n)
{
    if (n->n_tags && !n->collection) return sp_fail(SP_E_ARG, "document: tags are for documents of a collection");
    if (n->n_tags > MOST_TAGS) return sp_fail(SP_E_ARG, "document: %d tags; %d are allowed", n->n_tags, MOST_TAGS);
    for (int i = 0; i < n->n_tags; i++) {
        const size_t len = strlen(n->tags[i]);
        if (len == 0 || len > MOST_TAG)
            return sp_fail(SP_E_ARG, "document: a tag of %zu bytes; 1 to %d are allowed", len, MOST_TAG);
        for (const char *s = n->tags[i]; *s; s++)
            if ((unsigned char)*s < ' ' || *s == 0x7f)
                return sp_fail(SP_E_ARG, "document: a tag has a control character");
    }
    return SP_OK;
}

static sp_err check_new(const sp_document_new *n)
{
    size_t len = n->id ? strlen(n->id) : 1;
    if (len == 0 || len > MOST_ID)
        return sp_fail(SP_E_ARG, "document: an id of %zu bytes; 1 to %d are allowed", len, MOST_ID);
    for (const char *s = n->id; s && *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f || *s == '/')
            return sp_fail(SP_E_ARG, "document: the id has a control character or a slash");
    SP_TRY(check_tags(n));
    if (n->collection) SP_TRY(sp_collection_check_name(n->collection));
    if (!n->text == !n->file)
        return sp_fail(SP_E_ARG, "document \"%.80s\": give either a text or a file",
                       n->id ? n->id : "");
    if (n->file && !n->data) return sp_fail(SP_E_ARG, "document: the file has no content");
    return n->ttl_s < 0 ? sp_fail(SP_E_ARG, "document: ttl_s is negative") : SP_OK;
}

static sp_err cut(putting *p, const char *salt, const sp_document_new *n)
{
    const sp_text_source source = {.name = n->text ? NULL : n->file,
                                   .title = n->title,
                                   .data = n->text ? n->text : n->data,
                                   .n = n->text ? strlen(n->text) : n->n_data,
                                   .size_words = p->d->size_words,
                                   .overlap_words = p->d->overlap_words};
    SP_TRY(sp_sha256_create(&p->hash));
    SP_TRY(salt ? sp_prompt_create_for(p->d->ctx, salt, &p->prompt)
                : sp_prompt_create(p->d->ctx, &p->prompt));
    SP_TRY(sp_prompt_system(p->prompt, "")); /* a chunk never begins a prompt */
    const sp_err err = sp_text_pieces(&source, take_piece, p);
    if (err == SP_E_FORMAT) return SP_E_UNSUPPORTED; /* the file is damaged, not the shelf; the detail stays */
    SP_TRY(err);
    return p->chunks.n ? SP_OK : sp_fail(SP_E_ARG, "document: there is no text in it");
}

/* name_new -- what the shelf knows the document by: the caller's id, or one made of the content, after the
 * collection; and its tags, a line each. */
static sp_err name_new(putting *p, const sp_document_new *n)
{
    sp_bytes *id = &p->id, *tags = &p->tags;
    sp_digest digest;
    char hex[17];
    sp_sha256_final(p->hash, &digest);
    p->hash = NULL;
    sp_digest_hex(&digest, 8, hex);
    if (n->collection) SP_TRY(sp_bytes_addf(id, "%s/", n->collection));
    SP_TRY(n->id ? sp_bytes_addf(id, "%s%c", n->id, '\0') : sp_bytes_addf(id, "doc-%s%c", hex, '\0'));
    for (int i = 0; i < n->n_tags; i++) SP_TRY(sp_bytes_addf(tags, "%s\n", n->tags[i]));
    return sp_bytes_addf(tags, "%c", '\0');
}

static sp_err enter(putting *p, const char *tenant, const sp_document_new *n)
{
    const int64_t now = now_s(p->d);
    sp_err err = name_new(p, n);
    p->row = (sp_shelf_row){.tenant = tenant,
                            .id = p->id.v,
                            .title = n->title ? n->title : p->chunks.v[0].title,
                            .created_s = now,
                            .expires_s = n->ttl_s ? now + n->ttl_s : 0,
                            .pinned = n->pinned,
                            .replace = n->replace || !n->id,
                            .file = n->text ? NULL : n->file,
                            .tags = p->tags.v,
                            .arrival = n->arrival};
    if (err == SP_OK) err = sp_shelf_doom_expired(p->d->shelf, sp_documents_due_s(p->d));
    if (err == SP_OK) err = sp_shelf_put(p->d->shelf, &p->row, p->chunks.v, (int)p->chunks.n);
    for (size_t i = 0; i < p->chunks.n && err == SP_OK; i++)
        err = sp_forms_add(&p->d->forms, p->prompt->tenant, p->chunks.v[i].text);
    sp_forms_published(&p->d->forms);
    return err;
}

static void putting_fini(putting *p)
{
    sp_digest unused;
    if (p->hash) sp_sha256_final(p->hash, &unused);
    sp_prompt_destroy(p->prompt);
    sp_vec_fini(&p->id);
    sp_vec_fini(&p->tags);
    sp_vec_fini(&p->chunks);
    sp_arena_fini(&p->arena);
}

static sp_err erase_doomed(sp_documents *d, const char *tenant, int64_t timeout_us,
                           sp_documents_removed *out);

void sp_documents_arrive(sp_documents *d, sp_documents_arrival *a)
{
    if (!d || !a) return;
    *a = (sp_documents_arrival){.of = d};
    sp_shelf_arrive(d->shelf, a);
}

void sp_documents_depart(sp_documents_arrival *a)
{
    if (!a || !a->of) return;
    sp_shelf_depart(a->of->shelf, a);
    a->of = NULL;
}

/* describe_new -- what has been registered, from memory. */
static sp_err describe_new(const putting *p, sp_document_list *out)
{
    const sp_shelf_row *row = &p->row;
    sp_document_info *i = SP_NEW(sp_document_info);
    sp_arena *arena = SP_NEW(sp_arena);
    sp_document_list l = {.v = i, .n = 1, .strings = arena};
    const char *const from[] = {row->id, row->title, strchr(row->id, '/') && row->file ? row->file : "", row->tags};
    if (!i || !arena) return sp_document_list_fini(&l), sp_fail_nomem("a document");
    const char **const to[] = {&i->id, &i->title, &i->file, &i->tags};
    *i = (sp_document_info){.created_s = row->created_s,
                            .expires_s = row->expires_s,
                            .pinned = row->pinned,
                            .n_chunks = (int64_t)p->chunks.n};
    for (size_t k = 0; k < p->chunks.n; k++) {
        i->n_bytes += (int64_t)strlen(p->chunks.v[k].text);
        i->n_tokens += p->chunks.v[k].n_tokens;
    }
    for (size_t k = 0; k < SP_COUNT(to); k++) {
        const size_t n = strlen(from[k]) + 1;
        char *copy = sp_arena_take(arena, n, 1);
        if (!copy) return sp_document_list_fini(&l), sp_fail_nomem("a document");
        *to[k] = memcpy(copy, from[k], n);
    }
    *out = l;
    return SP_OK;
}

/* get_new -- what has been registered, also if it cannot be read. */
static sp_err get_new(const putting *p, const char *salt, sp_document_list *out)
{
    const sp_documents_arrival *a = p->row.arrival;
    const sp_err err = sp_documents_get(p->d, salt, p->row.id, out);
    if (err == SP_E_NOTFOUND) return sp_shelf_deleted_meanwhile(p->row.id);
    if (err == SP_OK || (a && a->replaced)) return err;
    sp_log(SP_LOG_WARN, "a registered document cannot be read: %s", sp_error_detail());
    return describe_new(p, out);
}

/* put -- what has arrived. */
static sp_err put(sp_documents *d, const char *salt, const sp_document_new *n, sp_document_list *out)
{
    char tenant[SP_TENANT_BYTES];
    sp_documents_removed removed;
    SP_TRY(check_new(n));
    SP_TRY(sp_tenant_name(salt, tenant));
    putting p = {.d = d};
    sp_arena_init(&p.arena);
    sp_err err = cut(&p, salt, n);
    if (err == SP_OK) err = enter(&p, tenant, n);
    if (err == SP_OK && erase_doomed(d, tenant, 0, &removed) !=
        SP_OK) /* of a document that it replaces; the next tick tries again */
        sp_log(SP_LOG_WARN, "a replaced document is not erased yet: %s", sp_error_detail());
    if (err == SP_OK) err = get_new(&p, salt, out);
    putting_fini(&p);
    return err;
}

sp_err sp_documents_put(sp_documents *d, const char *salt, const sp_document_new *n,
                        sp_document_list *out)
{
    SP_NEED(d);
    SP_NEED(n);
    SP_NEED(out);
    sp_documents_arrival now;
    sp_document_new arrived = *n;
    if (n->arrival && n->arrival->of) return put(d, salt, n, out);
    sp_documents_arrive(d, &now);
    arrived.arrival = &now;
    const sp_err err = put(d, salt, &arrived, out);
    sp_documents_depart(&now);
    return err;
}

/* -- reading ----------------------------------------------------------------------------------- */

static sp_err count_copies(sp_documents *d, const char *tenant, sp_document_info *info)
{
    sp_digests ids = {0};
    sp_presence p = {0};
    sp_err err = sp_shelf_ids(d->shelf, tenant, info->id, &ids);
    if (err == SP_OK) err = sp_context_presence(d->ctx, ids.v, ids.n, &p);
    info->n_device = p.n_device;
    info->n_store = p.n_store;
    sp_vec_fini(&ids);
    return err;
}

sp_err sp_documents_get(sp_documents *d, const char *salt, const char *id, sp_document_list *out)
{
    SP_NEED(d);
    SP_NEED(id);
    SP_NEED(out);
    char tenant[SP_TENANT_BYTES];
    sp_document_list list;
    SP_TRY(sp_tenant_name(salt, tenant));
    SP_TRY(sp_shelf_list(
        d->shelf, &(sp_shelf_query){.tenant = tenant, .id = id, .limit = 1, .now_s = sp_documents_due_s(d)}, &list));
    sp_err err = count_copies(d, tenant, &list.v[0]);
    if (err == SP_OK)
        *out = list;
    else
        sp_document_list_fini(&list);
    return err;
}

sp_err sp_documents_list(sp_documents *d, const char *salt, const char *after, int limit,
                         sp_document_list *out)
{
    SP_NEED(d);
    SP_NEED(out);
    char tenant[SP_TENANT_BYTES];
    if (limit < 1) return sp_fail(SP_E_ARG, "limit: %d is below 1", limit);
    SP_TRY(sp_tenant_name(salt, tenant));
    const sp_shelf_query q = {.tenant = tenant, .after = after, .limit = limit, .now_s = sp_documents_due_s(d)};
    return sp_shelf_list(d->shelf, &q, out);
}

sp_err sp_collection_documents(sp_documents *d, const char *salt, const char *name, const char *after, int limit,
                               sp_document_list *out)
{
    SP_NEED(d);
    SP_NEED(name);
    SP_NEED(out);
    char tenant[SP_TENANT_BYTES];
    sp_collection_list there;
    if (limit < 1) return sp_fail(SP_E_ARG, "limit: %d is below 1", limit);
    SP_TRY(sp_tenant_name(salt, tenant));
    SP_TRY(sp_shelf_collections(d->shelf, &(sp_collections_query){.tenant = tenant, .name = name}, &there));
    sp_collection_list_fini(&there);
    const sp_shelf_query q = {
        .tenant = tenant, .collection = name, .after = after, .limit = limit, .now_s = sp_documents_due_s(d)};
    return sp_shelf_list(d->shelf, &q, out);
}

sp_err sp_documents_chunks(sp_documents *d, const char *salt, const char *id, sp_hits *out)
{
    SP_NEED(d);
    SP_NEED(id);
    SP_NEED(out);
    char tenant[SP_TENANT_BYTES];
    SP_TRY(sp_tenant_name(salt, tenant));
    return sp_shelf_chunks(d->shelf, tenant, id, sp_documents_due_s(d), out);
}

/* -- pins and time ----------------------------------------------------------------------------- */

/* hold_pinned -- Called with the lock held. */
static sp_err hold_pinned(sp_documents *d)
{
    sp_digests ids = {0};
    sp_err err = sp_shelf_pinned_ids(d->shelf, &ids);
    if (err == SP_OK && (ids.n || d->held.n))
        err = sp_context_hold(d->ctx, ids.v, ids.n, PIN_SHARE, &d->held);
    sp_vec_fini(&ids);
    return err;
}

static sp_err set(sp_documents *d, const char *salt, const char *id, sp_shelf_field field,
                  int64_t value)
{
    char tenant[SP_TENANT_BYTES];
    SP_TRY(sp_tenant_name(salt, tenant));
    SP_TRY(sp_shelf_doom_expired(d->shelf, sp_documents_due_s(d)));
    return sp_shelf_set(d->shelf, tenant, id, field, value);
}

sp_err sp_documents_pin(sp_documents *d, const char *salt, const char *id, bool pinned)
{
    SP_NEED(d);
    SP_NEED(id);
    SP_TRY(set(d, salt, id, SP_SHELF_PINNED, pinned));
    pthread_mutex_lock(&d->lock);
    sp_err err = hold_pinned(d);
    pthread_mutex_unlock(&d->lock);
    return err;
}

sp_err sp_documents_expire(sp_documents *d, const char *salt, const char *id, int64_t ttl_s)
{
    SP_NEED(d);
    SP_NEED(id);
    if (ttl_s < 0) return sp_fail(SP_E_ARG, "document: ttl_s is negative");
    return set(d, salt, id, SP_SHELF_EXPIRES, ttl_s ? now_s(d) + ttl_s : 0);
}

/* -- deleting ---------------------------------------------------------------------------------- */

/* erase_tiers -- once for a list: what is erased is not written to a tier before the list is forgotten, or another
 * list is erased. Called with the lock held, as the next two. */
static sp_err erase_tiers(sp_documents *d, const sp_digests *ids, sp_documents_removed *out)
{
    const uint64_t list = hash_of(ids);
    int64_t n_store;
    if (d->swept == list) return SP_OK;
    SP_TRY(sp_context_erase_tiers(d->ctx, ids->v, ids->n, &n_store));
    out->n_store += n_store;
    d->swept = list;
    return SP_OK;
}

/* What is erased: documents of a tenant, or of all (NULL), and the readings that had begun when they were doomed. */
typedef struct erasure {
    const char *tenant;
    sp_doomed doomed;
    uint64_t n_readings;
} erasure;

/* erase_now -- erases what no request reads; forgets the list once all of it is erased. Readings come first: their
 * requests are not known yet. */
static sp_err erase_now(sp_documents *d, const erasure *what, sp_documents_removed *out)
{
    sp_erased e;
    const sp_doomed *doomed = &what->doomed;
    out->n_pending = sp_readings_among(&d->readings, what->tenant, what->n_readings, &doomed->texts);
    if (out->n_pending) return SP_OK;
    SP_TRY(erase_tiers(d, &doomed->ids, out));
    SP_TRY(sp_context_erase_device(d->ctx, doomed->ids.v, doomed->ids.n, &e));
    out->n_device += e.n_device;
    out->n_pending = e.n_pending;
    if (e.n_pending) return SP_OK;
    d->swept = 0;
    SP_TRY(sp_counts_flush(d));
    return sp_shelf_forget(d->shelf, doomed);
}

static sp_err list_doomed(sp_documents *d, const char *tenant, sp_doomed *out)
{
    const uint64_t n_published = sp_forms_n_published(&d->forms);
    SP_TRY(sp_shelf_doomed(d->shelf, tenant, out));
    sp_err err = forget_texts(d, n_published, out);
    if (err == SP_OK && out->rows.n) err = hold_pinned(d); /* no longer theirs */
    return err;
}

/* await -- how many readings had begun when these documents were doomed, or a little later. Ticks come again with the
 * same list, and do not wait for those that begin meanwhile. Called with the lock held. */
static uint64_t await(sp_documents *d, const char *tenant, const sp_doomed *doomed)
{
    const uint64_t list = sp_hash64(doomed->rows.v, doomed->rows.n * sizeof *doomed->rows.v) | 1;
    const uint64_t n = sp_readings_begun(&d->readings);
    if (tenant) return n;
    if (d->awaited.list != list) d->awaited = (sp_awaited){list, n};
    return d->awaited.n;
}

/* erase_doomed -- of a tenant, or of all (NULL). It waits for requests that read them without the lock: deletions of
 * others continue, and say nothing of these. */
static sp_err erase_doomed(sp_documents *d, const char *tenant, int64_t timeout_us,
                           sp_documents_removed *out)
{
    const struct timespec pause = {.tv_nsec = RETRY_US * 1000};
    const int64_t end = sp_clock_us() + timeout_us;
    erasure what = {.tenant = tenant};
    *out = (sp_documents_removed){0};
    pthread_mutex_lock(&d->lock);
    sp_err err = list_doomed(d, tenant, &what.doomed);
    if (err == SP_OK) what.n_readings = await(d, tenant, &what.doomed);
    if (err == SP_OK && what.doomed.rows.n) err = erase_now(d, &what, out);
    pthread_mutex_unlock(&d->lock);
    while (err == SP_OK && out->n_pending && sp_clock_us() < end) {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&d->lock);
        err = erase_now(d, &what, out);
        pthread_mutex_unlock(&d->lock);
    }
    sp_doomed_fini(&what.doomed);
    return err;
}

/* check_erasable -- a server that shares the store of another one cannot erase there. */
static sp_err check_erasable(const sp_documents *d)
{
    if (d->ctx->tiers && sp_tiers_has_store(d->ctx->tiers) && !sp_tiers_writes(d->ctx->tiers))
        return sp_fail(SP_E_UNSUPPORTED, "another process writes the store: delete the document there");
    return SP_OK;
}

sp_err sp_documents_remove(sp_documents *d, const char *salt, const char *id, int64_t timeout_us,
                           sp_documents_removed *out)
{
    SP_NEED(d);
    SP_NEED(id);
    char tenant[SP_TENANT_BYTES];
    sp_documents_removed removed;
    SP_TRY(check_erasable(d));
    SP_TRY(sp_tenant_name(salt, tenant));
    SP_TRY(sp_shelf_doom(d->shelf, tenant, id));
    sp_searches_drop_stale(d->searches, sp_documents_due_s(d));
    SP_TRY(erase_doomed(d, tenant, timeout_us, &removed));
    if (out) *out = removed;
    return SP_OK;
}

sp_err sp_collection_remove(sp_documents *d, const char *salt, const char *name, int64_t timeout_us,
                            sp_documents_removed *out)
{
    SP_NEED(d);
    SP_NEED(name);
    char tenant[SP_TENANT_BYTES];
    sp_documents_removed removed;
    SP_TRY(check_erasable(d));
    SP_TRY(sp_tenant_name(salt, tenant));
    SP_TRY(sp_shelf_drop_collection(d->shelf, tenant, name));
    sp_searches_drop_stale(d->searches, sp_documents_due_s(d));
    SP_TRY(erase_doomed(d, tenant, timeout_us, &removed));
    if (out) *out = removed;
    return SP_OK;
}

sp_err sp_documents_tick(sp_documents *d, int64_t now)
{
    SP_NEED(d);
    sp_documents_removed removed;
    if (sp_shelf_writes(d->shelf)) SP_TRY(sp_shelf_doom_expired(d->shelf, now ? now : sp_documents_due_s(d)));
    sp_counts_try(d);
    sp_searches_drop_stale(d->searches, sp_documents_due_s(d));
    if (sp_shelf_writes(d->shelf)) SP_TRY(erase_doomed(d, NULL, 0, &removed));
    pthread_mutex_lock(&d->lock);
    sp_err err = hold_pinned(d);
    pthread_mutex_unlock(&d->lock);
    return err;
}

/* -- a damaged file ---------------------------------------------------------------------------- */

sp_err sp_documents_repair(const char *path, sp_documents_lost *lost, void *user, sp_documents_repaired *out)
{
    SP_NEED(path);
    SP_NEED(out);
    bool whole;
    SP_TRY(sp_shelf_is_whole(path, &whole));
    if (!whole) return sp_shelf_repair(path, &(sp_shelf_repair_opts){.save = true, .lost = lost, .user = user}, out);
    *out = (sp_documents_repaired){.was_whole = true};
    return SP_OK;
}

sp_err sp_documents_rebuild(const char *path, sp_documents_lost *lost, void *user, sp_documents_repaired *out)
{
    SP_NEED(path);
    SP_NEED(out);
    bool whole; /* only checks that it exists: a rebuild was requested */
    SP_TRY(sp_shelf_is_whole(path, &whole));
    return sp_shelf_repair(path, &(sp_shelf_repair_opts){.lost = lost, .user = user}, out);
}
