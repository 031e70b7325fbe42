#include "store/remote/s3/clean.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/remote/s3/change.h"
#include "store/remote/s3/list.h"

enum {
    SPACE_BYTES = 16, /* of a namespace, in the names of keys */
    SPACE_HEX = 2 * SPACE_BYTES,
    DAY_S = 86400,
    MOMENT_US = 1000000, /* by then a copy has its notice */
};

typedef SP_VEC(char *) words;

static void words_fini(words *w)
{
    for (size_t i = 0; i < w->n; i++) sp_free(w->v[i]);
    sp_vec_fini(w);
}

static sp_err add_word(words *w, const char *word)
{
    SP_TRY(sp_vec_reserve(w, 1));
    char *copy = sp_strdup_n(word, strlen(word));
    if (!copy) return sp_fail_nomem("a key of the remote tier");
    w->v[w->n++] = copy;
    return SP_OK;
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool has_word(const words *w, const char *word)
{
    return w->n && bsearch(&word, w->v, w->n, sizeof *w->v, compare);
}

static void sort(words *w)
{
    if (w->n) qsort(w->v, w->n, sizeof *w->v, compare);
}

/* -- namespaces -------------------------------------------------------------------------------------- */

static sp_err take_key(void *user, const sp_s3_row *row)
{
    return add_word(user, row->key);
}

/* list_spaces -- their names: 32 digits below the prefix. */
static sp_err list_spaces(sp_s3_http *h, words *out)
{
    const char *prefix = sp_s3_http_prefix(h);
    words folders = {0};
    sp_err err = sp_s3_list(h, &(sp_s3_which){.prefix = prefix, .folders = true}, take_key, &folders);
    for (size_t i = 0; i < folders.n && err == SP_OK; i++) {
        char *name = folders.v[i] + SP_MIN(strlen(prefix), strlen(folders.v[i]));
        if (strlen(name) != SPACE_HEX + 1 || strspn(name, "0123456789abcdef") != SPACE_HEX) continue;
        name[SPACE_HEX] = '\0';
        err = add_word(out, name);
    }
    words_fini(&folders);
    return err;
}

static sp_digest space_of(const char *hex)
{
    sp_digest out = {0};
    for (size_t i = 0; i < SPACE_BYTES; i++) {
        const char byte[] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out.b[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return out;
}

sp_err sp_s3_each_space(const sp_remote_site *s, sp_err (*each)(void *user, const sp_digest *space), void *user)
{
    sp_s3_http *h;
    words spaces = {0};
    SP_TRY(sp_s3_http_open(s, &h));
    sp_err err = list_spaces(h, &spaces);
    sp_s3_http_close(h);
    for (size_t i = 0; i < spaces.n && err == SP_OK; i++) {
        const sp_digest space = space_of(spaces.v[i]);
        err = each(user, &space);
    }
    words_fini(&spaces);
    return err;
}

/* -- cleaning ---------------------------------------------------------------------------------------- */

/* A namespace that is cleaned: the copies before and after its index was read, so that a copy that was put
 * has its notice, and one that is being dropped disappears before it. */
typedef struct cleaning {
    sp_s3_http *h;
    sp_s3_names names;
    words before, index, after; /* names of copies; keys; names */
    words noticed;              /* names in the index that are still in their time */
    int64_t n_orphans, n_gone;
} cleaning;

static sp_err take_copy(cleaning *c, words *out, const sp_s3_row *row)
{
    const size_t n = strlen(c->names.copy);
    return strncmp(row->key, c->names.copy, n) == 0 ? add_word(out, row->key + n) : SP_OK;
}

static sp_err take_before(void *user, const sp_s3_row *row)
{
    cleaning *c = user;
    return take_copy(c, &c->before, row);
}

static sp_err take_after(void *user, const sp_s3_row *row)
{
    cleaning *c = user;
    return take_copy(c, &c->after, row);
}

static sp_err take_entry(void *user, const sp_s3_row *row)
{
    cleaning *c = user;
    sp_s3_entry e;
    if (!sp_s3_read_index_key(&c->names, row->key, &e)) return SP_OK;
    SP_TRY(add_word(&c->index, row->key));
    return sp_s3_is_over(&e) ? SP_OK : add_word(&c->noticed, e.name);
}

static sp_err drop_orphans(cleaning *c)
{
    for (size_t i = 0; i < c->before.n; i++) {
        if (has_word(&c->noticed, c->before.v[i])) continue;
        SP_TRY(sp_s3_drop(c->h, &c->names, c->before.v[i]));
        c->n_orphans++;
    }
    return SP_OK;
}

/* strike_out_gone -- notices of copies that are gone. */
static sp_err strike_out_gone(cleaning *c)
{
    for (size_t i = 0; i < c->index.n; i++) {
        sp_s3_entry e;
        if (!sp_s3_read_index_key(&c->names, c->index.v[i], &e) || has_word(&c->after, e.name)) continue;
        SP_TRY(sp_s3_delete(c->h, c->index.v[i], NULL));
        c->n_gone++;
    }
    return SP_OK;
}

/* end_old_change -- one that nobody is making any more. */
static sp_err end_old_change(void *user, const sp_s3_entry *e)
{
    char note[SP_S3_NOTE];
    const cleaning *c = user;
    if ((int64_t)(e->time_ms / 1000) > (int64_t)time(NULL) - DAY_S) return SP_OK;
    sp_s3_note(e->time_ms, e->says, note);
    return has_word(&c->noticed, e->name) && has_word(&c->after, e->name)
               ? sp_s3_change_end(c->h, &c->names, e->name, note)
               : sp_s3_drop(c->h, &c->names, e->name);
}

static sp_err clean_space(cleaning *c)
{
    SP_TRY(sp_s3_list(c->h, &(sp_s3_which){.prefix = c->names.copy}, take_before, c));
    if (c->before.n) usleep(MOMENT_US);
    SP_TRY(sp_s3_list(c->h, &(sp_s3_which){.prefix = c->names.index}, take_entry, c));
    SP_TRY(sp_s3_list(c->h, &(sp_s3_which){.prefix = c->names.copy}, take_after, c));
    sort(&c->noticed);
    sort(&c->after);
    SP_TRY(strike_out_gone(c));
    SP_TRY(drop_orphans(c));
    return sp_s3_each_change(c->h, &c->names, end_old_change, c);
}

/* stop_old_upload -- a row of those that are under way. */
static sp_err stop_old_upload(void *user, const sp_s3_row *row)
{
    struct tm began = {0};
    sp_s3_query q = {0};
    if (!strptime(row->began, "%Y-%m-%dT%H:%M:%S", &began) || time(NULL) - timegm(&began) < DAY_S) return SP_OK;
    sp_s3_query_add(&q, "uploadId", row->upload);
    return q.is_full ? SP_OK : sp_s3_delete(user, row->key, q.v);
}

static void fini(cleaning *c)
{
    words_fini(&c->before);
    words_fini(&c->index);
    words_fini(&c->after);
    words_fini(&c->noticed);
}

sp_err sp_s3_clean(const sp_remote_site *s, int64_t *n_orphans, int64_t *n_gone)
{
    sp_s3_http *h;
    words spaces = {0};
    SP_TRY(sp_s3_http_open(s, &h));
    sp_err err = list_spaces(h, &spaces);
    for (size_t i = 0; i < spaces.n && err == SP_OK; i++) {
        cleaning c = {.h = h};
        sp_s3_names_init(&c.names, sp_s3_http_prefix(h), spaces.v[i]);
        err = clean_space(&c);
        *n_orphans += c.n_orphans;
        *n_gone += c.n_gone;
        fini(&c);
    }
    const sp_s3_which uploads = {.prefix = sp_s3_http_prefix(h), .uploads = true};
    if (err == SP_OK) err = sp_s3_list(h, &uploads, stop_old_upload, h);
    sp_s3_http_close(h);
    words_fini(&spaces);
    return err;
}
