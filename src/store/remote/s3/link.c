/* link.c -- copies in an S3-compatible object store.
 *
 *   PREFIX/<space>/copy/<name>                     the header, then the groups of layers: one object, which appears
 *                                                  when it is whole. Larger ones are uploaded in parts. If groups
 *                                                  vary in size, a table is before the header (table.h)
 *   PREFIX/<space>/index/<time>.<name>.<notice>    an empty object, written after the copy
 *   PREFIX/<space>/change/<name>.<time>.<notice>   an empty object, there while a copy is put or dropped (change.h)
 *
 * time is when the put began: milliseconds since 1970 in hexadecimal digits, so that what is new can be listed alone.
 * The copy's metadata ("spolia") has time and notice, so that a drop knows both keys. News are found by listing the
 * index from some minutes before its newest entry on, or before now if a clock that is ahead named it: clocks differ,
 * and an upload takes time. That a copy was dropped is found out by those who ask for it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/remote/notice.h"
#include "store/remote/s3/account.h"
#include "store/remote/s3/change.h"
#include "store/remote/s3/clean.h"
#include "store/remote/s3/list.h"
#include "store/remote/s3/table.h"

enum {
    PART_BYTES = 8 << 20, /* of a part of an upload, at least; stores want 5 MiB */
    MOST_PARTS = 10000,
    ETAG_SIZE = 80,
    POLL_US = 200000,
    LIST_US = 5000000,   /* between two looks at the index */
    WINDOW_MS = 600000,  /* before the newest entry of the index, that is read once more */
};

typedef char etag[ETAG_SIZE];

/* A put under way. */
typedef struct putting {
    char name[SP_REMOTE_NAME], note[SP_S3_NOTE], key[SP_S3_KEY];
    char upload[1025]; /* "": none */
    bool has_begun;    /* as a change of the copy */
    bool may_be_there; /* the copy: its last request was sent */
    sp_remote_shape shape;
    size_t head;          /* where the header begins, after the table */
    SP_VEC(uint32_t) sizes; /* of the groups so far, for the table */
    sp_bytes first, next; /* the part with the header, which is sent last; the one that is being filled */
    SP_VEC(etag) etags;   /* of the parts, without the first */
} putting;

typedef struct s3_link {
    sp_remote_link base; /* first */
    const sp_remote_site *site;
    sp_s3_http *http;
    sp_s3_names names;
    putting put;
    bool no_conditions; /* the store does not know If-None-Match */
    int64_t listed_us;  /* when the index was read; 0: never */
    uint64_t newest_ms; /* of its entries */
    SP_VEC(uint64_t) seen; /* sorted hashes of those in the window */
} s3_link;

static s3_link *link_of(sp_remote_link *l)
{
    return (s3_link *)l;
}

static sp_err noted(s3_link *l, sp_err err)
{
    l->base.broken = sp_s3_http_is_broken(l->http);
    return err;
}

static sp_err run(s3_link *l, sp_s3_request *r)
{
    return noted(l, sp_s3_run(l->http, r, 1));
}

static uint64_t now_ms(void)
{
    struct timeval t;
    gettimeofday(&t, NULL);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_usec / 1000;
}

/* -- opening ------------------------------------------------------------------------------------------ */

static sp_err check_url(const char *url)
{
    sp_s3_address a;
    return sp_s3_parse(url, &a);
}

static sp_err check(const sp_remote_site *s)
{
    sp_s3_address a;
    sp_s3_account account;
    SP_TRY(sp_s3_parse(s->url, &a));
    SP_TRY(sp_s3_account_find(&account));
    sp_s3_account_fini(&account);
    return SP_OK;
}

static void forget_put(putting *p)
{
    sp_vec_fini(&p->first);
    sp_vec_fini(&p->next);
    sp_vec_fini(&p->etags);
    sp_vec_fini(&p->sizes);
    *p = (putting){0};
}

static void close_link(sp_remote_link *base)
{
    s3_link *l = link_of(base);
    forget_put(&l->put);
    sp_vec_fini(&l->seen);
    sp_s3_http_close(l->http);
    sp_free(l);
}

static sp_err open_link(const sp_remote_site *s, sp_remote_link **out)
{
    s3_link *l = SP_NEW(s3_link);
    if (!l) return sp_fail_nomem("an object store");
    l->site = s;
    sp_err err = sp_s3_http_open(s, &l->http);
    if (err != SP_OK) {
        sp_free(l);
        return err;
    }
    sp_s3_names_init(&l->names, sp_s3_http_prefix(l->http), s->space);
    *out = &l->base;
    return SP_OK;
}

/* -- get ---------------------------------------------------------------------------------------------- */

enum { TABLE_PART = SP_PART_HEAD - 1 };

/* An ask under way: one request for the header and the groups that follow it, or one for each. Where groups vary in
 * size, one for the object up to the last of them. */
typedef struct getting {
    const sp_remote_ask *ask;
    char key[SP_S3_KEY];
    sp_s3_request *head, *groups; /* the same if they are one */
    uint32_t *sizes;              /* owned: of the groups; NULL: those of the shape */
    int part;                     /* that comes next */
    uint8_t *buffer;              /* of it */
    size_t filled, size;
    int n_open;                   /* requests */
    sp_err err;                   /* of `take` */
    char detail[256];
} getting;

static size_t part_bytes(const getting *g)
{
    const sp_remote_shape *s = &g->ask->shape;
    if (g->part == TABLE_PART) return sp_s3_table_bytes(s);
    if (g->part == SP_PART_HEAD) return s->head;
    return g->sizes ? g->sizes[g->part] : sp_s3_most_bytes(s, g->part);
}

/* is_complete -- all parts have come. */
static bool is_complete(const getting *g)
{
    const sp_remote_ask *a = g->ask;
    return g->part >= 0 && (!a->n || g->part == a->first + a->n);
}

static sp_s3_took keep_error(getting *g, sp_err err)
{
    g->err = err;
    snprintf(g->detail, sizeof g->detail, "%s", sp_error_detail());
    return SP_S3_ENOUGH;
}

static sp_err read_table(getting *g)
{
    const sp_remote_shape *s = &g->ask->shape;
    g->sizes = sp_alloc((size_t)s->n_groups, sizeof *g->sizes);
    if (!g->sizes) return sp_fail_nomem("a copy of the remote tier");
    return sp_s3_read_table(s, g->buffer, g->sizes);
}

/* end_part -- a part is complete. */
static sp_s3_took end_part(getting *g)
{
    const sp_remote_ask *a = g->ask;
    const bool is_asked = g->part == SP_PART_HEAD || g->part >= a->first;
    sp_err err = g->part == TABLE_PART ? read_table(g) : SP_OK;
    if (err == SP_OK && is_asked) err = a->take(a->user, g->part, g->buffer, g->filled);
    if (err != SP_OK) return keep_error(g, err);
    g->part = g->part == SP_PART_HEAD && !g->sizes ? a->first : g->part + 1;
    g->filled = 0;
    return SP_S3_TAKEN;
}

static sp_s3_took take(getting *g, const uint8_t *data, size_t n)
{
    while (n && !is_complete(g)) {
        const size_t size = part_bytes(g), k = SP_MIN(n, size - g->filled);
        if (size > g->size) {
            sp_free(g->buffer);
            g->buffer = sp_alloc(1, size);
            if (!g->buffer) return keep_error(g, sp_fail_nomem("layers of the remote tier"));
            g->size = size;
        }
        memcpy(g->buffer + g->filled, data, k);
        g->filled += k;
        data += k;
        n -= k;
        if (g->filled == size && end_part(g) != SP_S3_TAKEN) return SP_S3_ENOUGH;
    }
    return SP_S3_TAKEN;
}

static sp_s3_took take_head(void *user, const uint8_t *data, size_t n)
{
    getting *g = user;
    const sp_s3_took took = take(g, data, n);
    if (took == SP_S3_TAKEN && g->part >= 0 && g->groups && g->groups != g->head) sp_s3_resume(g->groups);
    return took;
}

static sp_s3_took take_groups(void *user, const uint8_t *data, size_t n)
{
    getting *g = user;
    if (g->err != SP_OK) return SP_S3_ENOUGH;
    return g->part < 0 ? SP_S3_LATER : take(g, data, n);
}

static bool is_wanted(void *user)
{
    const getting *g = user;
    return g->err == SP_OK && g->ask->is_wanted(g->ask->user);
}

/* judge -- how the ask ends once its requests have. Errors: in g->err. */
static void judge(getting *g, const sp_s3_request *r)
{
    if (g->err != SP_OK || r->err == SP_OK) return;
    if (r->err == SP_E_NOTFOUND)
        keep_error(g, g->ask->take(g->ask->user, SP_PART_HEAD, NULL, 0));
    else
        keep_error(g, sp_s3_request_fail(r));
}

static void end_request(sp_s3_request *r)
{
    getting *g = r->user;
    judge(g, r);
    if (r == g->head && g->part < 0 && g->err == SP_OK)
        keep_error(g, sp_fail(SP_E_FORMAT, "remote tier: a copy is cut short"));
    if (--g->n_open) return; /* after an error nobody wants the other one (is_wanted) */
    if (g->err == SP_OK && !is_complete(g))
        keep_error(g, sp_fail(SP_E_FORMAT, "remote tier: a copy is cut short"));
    sp_free(g->buffer);
    sp_free(g->sizes);
    g->ask->end(g->ask->user, g->err == SP_OK ? SP_OK : sp_fail(g->err, "%s", g->detail));
}

/* plan -- the requests of an ask into v [2]; returns how many. */
static int plan(const s3_link *l, getting *g, const sp_remote_ask *a, sp_s3_request *v)
{
    const sp_remote_shape *s = &a->shape;
    const int first = s->varies ? 0 : a->first, n_groups = a->n ? a->first + a->n - first : 0;
    const uint64_t n = n_groups ? (uint64_t)(n_groups - 1) * s->group + sp_s3_most_bytes(s, a->first + a->n - 1) : 0;
    *g = (getting){.ask = a, .part = s->varies ? TABLE_PART : SP_PART_HEAD, .head = v};
    sp_s3_copy_key(&l->names, a->name, g->key);
    v[0] = (sp_s3_request){.method = "GET",
                           .key = g->key,
                           .n = s->head + sp_s3_table_bytes(s),
                           .take = take_head,
                           .is_wanted = is_wanted,
                           .end = end_request,
                           .user = g};
    if (first == 0) v[0].n += n;
    g->groups = a->n ? v : NULL;
    g->n_open = 1;
    if (!a->n || first == 0) return 1;
    g->groups = v + 1;
    g->n_open = 2;
    v[1] = v[0];
    v[1].first = s->head + (uint64_t)a->first * s->group;
    v[1].n = n;
    v[1].take = take_groups;
    return 2;
}

static void get(sp_remote_link *base, const sp_remote_ask *asks, int n)
{
    s3_link *l = link_of(base);
    getting *g = SP_NEW_N(getting, (size_t)n);
    sp_s3_request *v = SP_NEW_N(sp_s3_request, 2 * (size_t)n);
    int n_requests = 0;
    for (int i = 0; i < n; i++) {
        if (!g || !v)
            asks[i].end(asks[i].user, sp_fail_nomem("loads of the remote tier"));
        else if (!asks[i].shape.head) /* the notice of an older program */
            asks[i].end(asks[i].user, sp_fail(SP_E_NOTFOUND, "remote tier: the size of a header is not known"));
        else
            n_requests += plan(l, &g[i], &asks[i], v + n_requests);
    }
    if (n_requests && noted(l, sp_s3_run(l->http, v, n_requests)) != SP_OK)
        sp_log(SP_LOG_DEBUG, "remote tier: %s", sp_error_detail());
    for (int i = 0; i < n_requests; i++) sp_s3_request_fini(&v[i]);
    sp_free(g);
    sp_free(v);
}

/* -- put ---------------------------------------------------------------------------------------------- */

/* is_there -- whether the store has the copy; one whose time is over is dropped. */
static sp_err is_there(s3_link *l, bool *out)
{
    const putting *p = &l->put;
    char key[SP_S3_KEY];
    sp_s3_entry e;
    sp_s3_request r = {.method = "HEAD", .key = p->key};
    sp_err err = run(l, &r);
    const bool over = err == SP_OK && sp_s3_index_key(&l->names, p->name, r.said_note, key) &&
                      sp_s3_read_index_key(&l->names, key, &e) && sp_s3_is_over(&e);
    sp_s3_request_fini(&r);
    *out = err == SP_OK && !over;
    if (over) return noted(l, sp_s3_drop(l->http, &l->names, p->name));
    return err == SP_E_NOTFOUND ? SP_OK : err;
}

static sp_err begin(sp_remote_link *base, const char *name, const char *says, const sp_remote_shape *shape,
                    bool *taken)
{
    s3_link *l = link_of(base);
    putting *p = &l->put;
    forget_put(p);
    snprintf(p->name, sizeof p->name, "%s", name);
    sp_s3_copy_key(&l->names, name, p->key);
    p->shape = *shape;
    sp_s3_note(now_ms(), says, p->note);
    SP_TRY(is_there(l, taken));
    if (*taken) return SP_OK;
    p->head = sp_s3_table_bytes(shape);
    SP_TRY(sp_vec_reserve(&p->first, p->head + shape->head));
    p->first.n = p->head + shape->head; /* written at the end */
    SP_TRY(noted(l, sp_s3_change_begin(l->http, &l->names, name, p->note)));
    p->has_begun = true;
    return SP_OK;
}

/* put_new -- the object in one request, or the end of its upload. *taken: there is one already. */
static sp_err put_new(s3_link *l, sp_s3_request *r, bool *taken)
{
    sp_s3_error e;
    r->if_absent = !l->no_conditions;
    sp_err err = run(l, r);
    if (err == SP_E_UNSUPPORTED && r->if_absent) {
        l->no_conditions = true;
        r->if_absent = false;
        r->err = SP_OK;
        r->text.n = 0;
        err = run(l, r);
    }
    *taken = r->is_there;
    sp_s3_read_error(r->text.v, err == SP_OK && !*taken ? r->text.n : 0, &e); /* a success that became an error */
    if (*e.code) err = sp_fail(SP_E_IO, "an object store cannot complete an upload: %s: %s", e.code, e.message);
    sp_s3_request_fini(r);
    return err;
}

/* upload_query -- of the upload under way; number: of a part, NULL: none. */
static sp_err upload_query(const putting *p, const char *number, sp_s3_query *out)
{
    *out = (sp_s3_query){0};
    if (number) sp_s3_query_add(out, "partNumber", number);
    sp_s3_query_add(out, "uploadId", p->upload);
    return out->is_full ? sp_fail(SP_E_FORMAT, "the id of an upload to an object store is too long") : SP_OK;
}

static sp_err begin_upload(s3_link *l)
{
    putting *p = &l->put;
    sp_s3_request r = {.method = "POST", .key = p->key, .query = "uploads=", .note = p->note};
    sp_err err = run(l, &r);
    if (err == SP_OK) err = sp_s3_read_upload(r.text.v, r.text.n, p->upload);
    sp_s3_request_fini(&r);
    return err;
}

/* send_part -- number: from 1 on. */
static sp_err send_part(s3_link *l, size_t number, const sp_bytes *data, etag out)
{
    char digits[24];
    sp_s3_query q;
    putting *p = &l->put;
    if (number > MOST_PARTS) return sp_fail(SP_E_LIMIT, "a copy too large for an object store");
    if (!*p->upload) SP_TRY(begin_upload(l));
    snprintf(digits, sizeof digits, "%zu", number);
    SP_TRY(upload_query(p, digits, &q));
    sp_s3_request r = {.method = "PUT", .key = p->key, .query = q.v, .body = data->v, .n_body = data->n};
    sp_err err = run(l, &r);
    if (err == SP_OK && !*r.etag) err = sp_fail(SP_E_FORMAT, "an object store accepted a part without an ETag");
    if (err == SP_OK) snprintf(out, ETAG_SIZE, "%s", r.etag);
    sp_s3_request_fini(&r);
    return err;
}

static sp_err append(sp_bytes *to, const uint8_t *data, size_t n)
{
    SP_TRY(sp_vec_reserve(to, n));
    memcpy(to->v + to->n, data, n);
    to->n += n;
    return SP_OK;
}

/* send_next -- the part that is full; the first one waits for the header. */
static sp_err send_next(s3_link *l)
{
    putting *p = &l->put;
    SP_TRY(sp_vec_reserve(&p->etags, 1));
    SP_TRY(send_part(l, p->etags.n + 2, &p->next, p->etags.v[p->etags.n]));
    p->etags.n++;
    p->next.n = 0;
    return SP_OK;
}

static sp_err add(sp_remote_link *base, int part, const uint8_t *data, size_t n)
{
    s3_link *l = link_of(base);
    putting *p = &l->put;
    if (part == SP_PART_HEAD) {
        if (n != p->shape.head) return sp_fail(SP_E_ARG, "a header of %zu bytes", n);
        memcpy(p->first.v + p->head, data, n);
        if (p->shape.varies) sp_s3_write_table(&p->shape, p->sizes.v, (uint8_t *)p->first.v);
        return SP_OK;
    }
    SP_TRY(sp_vec_reserve(&p->sizes, 1));
    p->sizes.v[p->sizes.n++] = (uint32_t)n;
    const bool in_first = p->first.n < PART_BYTES && !p->next.n && !p->etags.n;
    SP_TRY(append(in_first ? &p->first : &p->next, data, n));
    return p->next.n < PART_BYTES ? SP_OK : send_next(l);
}

/* end_upload -- the last parts, the first one, and the list of all. */
static sp_err end_upload(s3_link *l, bool *taken)
{
    putting *p = &l->put;
    sp_s3_query q;
    etag first;
    sp_bytes list = {0};
    if (p->next.n) SP_TRY(send_next(l));
    SP_TRY(send_part(l, 1, &p->first, first));
    SP_TRY(upload_query(p, NULL, &q));
    SP_TRY(sp_vec_reserve(&list, 128 + (p->etags.n + 1) * (ETAG_SIZE + 96)));
    list.n += (size_t)sprintf(list.v, "<CompleteMultipartUpload>");
    for (size_t i = 0; i <= p->etags.n; i++)
        list.n += (size_t)sprintf(list.v + list.n, "<Part><PartNumber>%zu</PartNumber><ETag>%s</ETag></Part>", i + 1,
                                  i ? p->etags.v[i - 1] : first);
    list.n += (size_t)sprintf(list.v + list.n, "</CompleteMultipartUpload>");
    sp_s3_request r = {.method = "POST", .key = p->key, .query = q.v, .body = list.v, .n_body = list.n};
    sp_err err = put_new(l, &r, taken);
    sp_vec_fini(&list);
    if (err == SP_OK && !*taken) *p->upload = '\0';
    return err;
}

static sp_err put_notice(s3_link *l)
{
    char key[SP_S3_KEY];
    if (!sp_s3_index_key(&l->names, l->put.name, l->put.note, key)) return SP_OK;
    sp_s3_request r = {.method = "PUT", .key = key};
    sp_err err = run(l, &r);
    sp_s3_request_fini(&r);
    return err;
}

/* stop_upload -- what was uploaded is deleted. */
static sp_err stop_upload(s3_link *l)
{
    sp_s3_query q;
    if (!*l->put.upload) return SP_OK;
    SP_TRY(upload_query(&l->put, NULL, &q));
    return noted(l, sp_s3_delete(l->http, l->put.key, q.v));
}

/* end_change -- unless something remains, which a sweep finds by the change. */
static void end_change(s3_link *l, bool stops)
{
    putting *p = &l->put;
    if (!p->has_begun || l->base.broken) return;
    sp_err err = stops ? stop_upload(l) : SP_OK;
    if (err == SP_OK) err = noted(l, sp_s3_change_end(l->http, &l->names, p->name, p->note));
    if (err != SP_OK) sp_log(SP_LOG_DEBUG, "a change of a copy remains: %s", sp_error_detail());
}

static sp_err finish(sp_remote_link *base, bool *taken)
{
    s3_link *l = link_of(base);
    putting *p = &l->put;
    sp_s3_request whole = {.method = "PUT", .key = p->key, .body = p->first.v, .n_body = p->first.n, .note = p->note};
    p->may_be_there = true;
    SP_TRY(*p->upload || p->next.n ? end_upload(l, taken) : put_new(l, &whole, taken));
    if (!*taken) SP_TRY(put_notice(l));
    end_change(l, *taken);
    forget_put(p);
    return SP_OK;
}

static void abandon(sp_remote_link *base)
{
    s3_link *l = link_of(base);
    if (!l->put.may_be_there) end_change(l, true);
    forget_put(&l->put);
}

static sp_err drop(sp_remote_link *base, const char *name)
{
    s3_link *l = link_of(base);
    return noted(l, sp_s3_drop(l->http, &l->names, name));
}

/* strike_out -- a copy that expired; nothing is left to do for one that is gone. */
static sp_err strike_out(sp_remote_link *base, const char *name)
{
    s3_link *l = link_of(base);
    char key[SP_S3_KEY];
    sp_s3_copy_key(&l->names, name, key);
    sp_s3_request r = {.method = "HEAD", .key = key};
    sp_err err = run(l, &r);
    sp_s3_request_fini(&r);
    if (err == SP_E_NOTFOUND) return SP_OK;
    return err == SP_OK ? drop(base, name) : err;
}

/* -- news --------------------------------------------------------------------------------------------- */

/* A look at the index. */
typedef struct listing {
    s3_link *l;
    const sp_remote_ears *ears;
    SP_VEC(uint64_t) seen;
    uint64_t newest_ms;
} listing;

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static sp_err take_name(void *user, const sp_s3_row *row)
{
    listing *x = user;
    s3_link *l = x->l;
    sp_s3_entry e;
    if (!sp_s3_read_index_key(&l->names, row->key, &e)) return SP_OK;
    const uint64_t hash = sp_hash64(row->key, strlen(row->key));
    const bool known = l->seen.n && bsearch(&hash, l->seen.v, l->seen.n, sizeof hash, compare);
    SP_TRY(sp_vec_reserve(&x->seen, 1));
    x->seen.v[x->seen.n++] = hash;
    x->newest_ms = SP_MAX(x->newest_ms, e.time_ms);
    return known ? SP_OK : x->ears->learn(x->ears->user, e.name, e.says);
}

static sp_err list_index(s3_link *l, const sp_remote_ears *ears)
{
    char from[SP_S3_KEY] = "";
    listing x = {.l = l, .ears = ears, .newest_ms = l->newest_ms};
    const uint64_t newest_ms = SP_MIN(l->newest_ms, now_ms()); /* a clock may be years ahead */
    if (newest_ms > WINDOW_MS) sp_s3_index_from(&l->names, newest_ms - WINDOW_MS, from);
    const sp_s3_which which = {.prefix = l->names.index, .after = *from ? from : NULL};
    sp_err err = noted(l, sp_s3_list(l->http, &which, take_name, &x));
    if (err != SP_OK) {
        sp_vec_fini(&x.seen);
        return err;
    }
    if (x.seen.n) qsort(x.seen.v, x.seen.n, sizeof *x.seen.v, compare);
    sp_vec_fini(&l->seen);
    memcpy(&l->seen, &x.seen, sizeof l->seen);
    l->newest_ms = x.newest_ms;
    l->listed_us = sp_clock_us();
    return SP_OK;
}

static sp_err hear(sp_remote_link *base, const sp_remote_ears *ears)
{
    s3_link *l = link_of(base);
    if (!l->listed_us || sp_clock_us() - l->listed_us >= LIST_US) return list_index(l, ears);
    usleep(POLL_US);
    return SP_OK;
}

static sp_err take_change(void *user, const sp_s3_entry *e)
{
    const sp_remote_ears *ears = user;
    return ears->suspect(ears->user, e->name, e->says);
}

/* recall -- a put that ends meanwhile is in one of the two: its change ends after the index has it. */
static sp_err recall(sp_remote_link *base, const sp_remote_ears *ears)
{
    s3_link *l = link_of(base);
    sp_remote_ears to = *ears;
    SP_TRY(noted(l, sp_s3_each_change(l->http, &l->names, take_change, &to)));
    return list_index(l, ears);
}

const sp_remote_kind sp_remote_s3 = {.check_url = check_url,
                                     .check = check,
                                     .open = open_link,
                                     .close = close_link,
                                     .get = get,
                                     .begin = begin,
                                     .add = add,
                                     .finish = finish,
                                     .abandon = abandon,
                                     .drop = drop,
                                     .strike_out = strike_out,
                                     .hear = hear,
                                     .recall = recall,
                                     .each_space = sp_s3_each_space,
                                     .clean = sp_s3_clean};
