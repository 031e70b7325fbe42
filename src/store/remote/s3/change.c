#include "store/remote/s3/change.h"

#include <stdio.h>
#include <string.h>

#include "store/remote/s3/list.h"

sp_err sp_s3_change_begin(sp_s3_http *h, const sp_s3_names *n, const char *name, const char *note)
{
    char key[SP_S3_KEY];
    sp_s3_change_key(n, name, note, key);
    sp_s3_request r = {.method = "PUT", .key = key};
    sp_err err = sp_s3_run(h, &r, 1);
    sp_s3_request_fini(&r);
    return err;
}

sp_err sp_s3_change_end(sp_s3_http *h, const sp_s3_names *n, const char *name, const char *note)
{
    char key[SP_S3_KEY];
    sp_s3_change_key(n, name, note, key);
    return sp_s3_delete(h, key, NULL);
}

/* A list of changes. */
typedef struct listing {
    const sp_s3_names *names;
    sp_err (*each)(void *user, const sp_s3_entry *e);
    void *user;
} listing;

static sp_err take_change(void *user, const sp_s3_row *row)
{
    const listing *x = user;
    sp_s3_entry e;
    return sp_s3_read_change_key(x->names, row->key, &e) ? x->each(x->user, &e) : SP_OK;
}

static sp_err list_changes(sp_s3_http *h, const char *prefix, listing *x)
{
    return sp_s3_list(h, &(sp_s3_which){.prefix = prefix}, take_change, x);
}

sp_err sp_s3_each_change(sp_s3_http *h, const sp_s3_names *n, sp_err (*each)(void *user, const sp_s3_entry *e),
                         void *user)
{
    return list_changes(h, n->change, &(listing){.names = n, .each = each, .user = user});
}

/* -- drop --------------------------------------------------------------------------------------------- */

typedef char note[SP_S3_NOTE];

/* A copy that is dropped. */
typedef struct dropping {
    sp_s3_http *h;
    const sp_s3_names *names;
    const char *name;
    char key[SP_S3_KEY];
    SP_VEC(note) notes; /* of the copy, and of changes that did not end */
} dropping;

static sp_err add_note(dropping *d, const char *says)
{
    for (size_t i = 0; i < d->notes.n; i++)
        if (strcmp(d->notes.v[i], says) == 0) return SP_OK;
    SP_TRY(sp_vec_reserve(&d->notes, 1));
    snprintf(d->notes.v[d->notes.n++], SP_S3_NOTE, "%s", says);
    return SP_OK;
}

static sp_err take_note(void *user, const sp_s3_entry *e)
{
    note says;
    dropping *d = user;
    sp_s3_note(e->time_ms, e->says, says);
    return strcmp(e->name, d->name) == 0 ? add_note(d, says) : SP_OK;
}

static sp_err find_changes(dropping *d)
{
    char prefix[SP_S3_KEY];
    sp_s3_change_key(d->names, d->name, "", prefix);
    return list_changes(d->h, prefix, &(listing){.names = d->names, .each = take_note, .user = d});
}

/* stop_upload -- a row of those under way whose keys begin with that of the copy. */
static sp_err stop_upload(void *user, const sp_s3_row *row)
{
    dropping *d = user;
    sp_s3_query q = {0};
    if (strcmp(row->key, d->key) != 0) return SP_OK;
    sp_s3_query_add(&q, "uploadId", row->upload);
    return q.is_full ? SP_OK : sp_s3_delete(d->h, row->key, q.v);
}

/* find_copy -- *found: the store has it; then its drop has begun. */
static sp_err find_copy(dropping *d, bool *found)
{
    char key[SP_S3_KEY];
    sp_s3_request r = {.method = "HEAD", .key = d->key};
    sp_err err = sp_s3_run(d->h, &r, 1);
    *found = err == SP_OK;
    if (*found && sp_s3_index_key(d->names, d->name, r.said_note, key)) {
        err = add_note(d, r.said_note);
        if (err == SP_OK) err = sp_s3_change_begin(d->h, d->names, d->name, r.said_note);
    }
    sp_s3_request_fini(&r);
    return err == SP_E_NOTFOUND ? SP_OK : err;
}

static sp_err delete_all(dropping *d)
{
    char key[SP_S3_KEY];
    SP_TRY(sp_s3_delete(d->h, d->key, NULL));
    for (size_t i = 0; i < d->notes.n; i++)
        if (sp_s3_index_key(d->names, d->name, d->notes.v[i], key)) SP_TRY(sp_s3_delete(d->h, key, NULL));
    for (size_t i = 0; i < d->notes.n; i++) SP_TRY(sp_s3_change_end(d->h, d->names, d->name, d->notes.v[i]));
    return SP_OK;
}

static sp_err drop(dropping *d)
{
    bool found;
    SP_TRY(find_changes(d));
    if (d->notes.n) SP_TRY(sp_s3_list(d->h, &(sp_s3_which){.prefix = d->key, .uploads = true}, stop_upload, d));
    SP_TRY(find_copy(d, &found));
    return found || d->notes.n ? delete_all(d) : SP_OK;
}

sp_err sp_s3_drop(sp_s3_http *h, const sp_s3_names *n, const char *name)
{
    dropping d = {.h = h, .names = n, .name = name};
    sp_s3_copy_key(n, name, d.key);
    sp_err err = drop(&d);
    sp_vec_fini(&d.notes);
    return err;
}
