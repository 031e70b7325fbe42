#include "store/remote/redis/clean.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/remote/notice.h"
#include "store/remote/redis/redis.h"

enum {
    SPACE_BYTES = 16,              /* of a namespace, in the names of keys */
    SPACE_HEX = 2 * SPACE_BYTES,
    PREFIX = sizeof "SPOLIA:" - 1, /* before it */
    MOMENT_US = 1000000,           /* by then a copy that is being written has its index entry */
};

static sp_err open_server(const sp_remote_site *s, sp_redis **out)
{
    sp_redis_address a;
    SP_TRY(sp_redis_parse(s->url, &a));
    a.ca_file = s->ca_file;
    return sp_redis_new(&a, s->timeout_us, NULL, out);
}

/* -- lists of words --------------------------------------------------------------------------------- */

typedef SP_VEC(char *) words;

static void words_fini(words *w)
{
    for (size_t i = 0; i < w->n; i++) sp_free(w->v[i]);
    sp_vec_fini(w);
}

static sp_err add_word(void *user, const char *word, const char *value)
{
    words *w = user;
    SP_UNUSED(value);
    SP_TRY(sp_vec_reserve(w, 1));
    char *copy = sp_strdup_n(word, strlen(word));
    if (!copy) return sp_fail_nomem("a key of the remote tier");
    w->v[w->n++] = copy;
    return SP_OK;
}

static int compare_words(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* list_keys -- all that match. */
static sp_err list_keys(sp_redis *c, const char *pattern, words *out)
{
    sp_err err = sp_redis_scan_keys(c, pattern, add_word, out);
    if (err != SP_OK) words_fini(out);
    return err;
}

/* -- namespaces -------------------------------------------------------------------------------------- */

/* read_space -- of "SPOLIA:<space>:index", or "SPOLIA:<space>{<part>}:index" in a cluster; false: another key. */
static bool read_space(const char *key, sp_digest *out)
{
    unsigned byte;
    *out = (sp_digest){0};
    if (strlen(key) < PREFIX + SPACE_HEX || !strchr(":{", key[PREFIX + SPACE_HEX])) return false;
    for (size_t i = 0; i < SPACE_BYTES; i++) {
        if (sscanf(key + PREFIX + 2 * i, "%2x", &byte) != 1) return false;
        out->b[i] = (uint8_t)byte;
    }
    return true;
}

sp_err sp_redis_each_space(const sp_remote_site *s, sp_err (*each)(void *user, const sp_digest *space), void *user)
{
    sp_redis *c;
    words keys = {0};
    sp_digest space;
    SP_TRY(open_server(s, &c));
    sp_err err = list_keys(c, "SPOLIA:*:index", &keys);
    sp_redis_free(c);
    if (keys.n) qsort(keys.v, keys.n, sizeof *keys.v, compare_words); /* in a cluster a namespace has many */
    sp_digest last = {0};
    for (size_t i = 0; i < keys.n && err == SP_OK; i++) {
        if (!read_space(keys.v[i], &space) || sp_digest_eq(&space, &last)) continue;
        last = space;
        err = each(user, &space);
    }
    words_fini(&keys);
    return err;
}

/* -- cleaning ---------------------------------------------------------------------------------------- */

static sp_err ask_integer(sp_redis *c, const sp_redis_command *command, bool *out)
{
    redisReply *r;
    SP_TRY(sp_redis_call(c, command, &r));
    *out = r->type == REDIS_REPLY_INTEGER && r->integer > 0;
    freeReplyObject(r);
    return SP_OK;
}

/* index_of -- the index that should name this copy, and its name there; false: another key. */
static bool index_of(const char *key, char out[64], const char **name)
{
    const char *copy = strstr(key, ":copy:");
    sp_tier_key k;
    if (!copy || copy - key > 48) return false;
    snprintf(out, 64, "%.*s:index", (int)(copy - key), key);
    *name = copy + sizeof ":copy:" - 1;
    return sp_remote_read_name(*name, &k);
}

/* keep_orphans -- those of the copies that have a header, which is written last, and no index entry. */
static sp_err keep_orphans(sp_redis *c, words *keys)
{
    size_t n = 0;
    sp_err err = SP_OK;
    for (size_t i = 0; i < keys->n; i++) {
        char index[64];
        const char *name;
        bool whole = false, named = true;
        if (err == SP_OK && index_of(keys->v[i], index, &name)) {
            err = ask_integer(c, &(sp_redis_command){.words = {"HEXISTS", keys->v[i], "head"}, .n = 3}, &whole);
            if (err == SP_OK)
                err = ask_integer(c, &(sp_redis_command){.words = {"HEXISTS", index, name}, .n = 3}, &named);
        }
        if (err == SP_OK && whole && !named)
            keys->v[n++] = keys->v[i];
        else
            sp_free(keys->v[i]);
    }
    keys->n = n;
    return err;
}

static sp_err drop_orphans(sp_redis *c, int64_t *n)
{
    words keys = {0};
    *n = 0;
    SP_TRY(list_keys(c, "SPOLIA:*:copy:*", &keys));
    sp_err err = keep_orphans(c, &keys);
    if (err == SP_OK && keys.n) {
        usleep(MOMENT_US);
        err = keep_orphans(c, &keys);
    }
    for (size_t i = 0; i < keys.n && err == SP_OK; i++) {
        err = sp_redis_run(c, &(sp_redis_command){.words = {"DEL", keys.v[i]}, .n = 2});
        *n += err == SP_OK;
    }
    words_fini(&keys);
    return err;
}

/* strike_out_gone -- removes the entries of one index whose copies are gone. */
static sp_err strike_out_gone(sp_redis *c, const char *index, int64_t *n)
{
    words names = {0};
    sp_err err = sp_redis_scan_hash(c, index, add_word, &names);
    for (size_t i = 0; i < names.n && err == SP_OK; i++) {
        char key[192];
        bool there;
        snprintf(key, sizeof key, "%.*s:copy:%s", (int)(strrchr(index, ':') - index), index, names.v[i]);
        err = ask_integer(c, &(sp_redis_command){.words = {"EXISTS", key}, .n = 2}, &there);
        if (err != SP_OK || there) continue;
        err = sp_redis_run(c, &(sp_redis_command){.words = {"HDEL", index, names.v[i]}, .n = 3});
        *n += err == SP_OK;
    }
    words_fini(&names);
    return err;
}

static sp_err strike_out_all(sp_redis *c, int64_t *n)
{
    words keys = {0};
    sp_digest space;
    *n = 0;
    SP_TRY(list_keys(c, "SPOLIA:*:index", &keys));
    sp_err err = SP_OK;
    for (size_t i = 0; i < keys.n && err == SP_OK; i++)
        if (read_space(keys.v[i], &space)) err = strike_out_gone(c, keys.v[i], n);
    words_fini(&keys);
    return err;
}

sp_err sp_redis_clean(const sp_remote_site *s, int64_t *n_orphans, int64_t *n_gone)
{
    sp_redis *c;
    SP_TRY(open_server(s, &c));
    sp_err err = drop_orphans(c, n_orphans);
    if (err == SP_OK) err = strike_out_all(c, n_gone);
    sp_redis_free(c);
    return err;
}
