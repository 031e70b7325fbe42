#include "server/documents/collections.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cache_dir.h"
#include "cli/cli.h"
#include "server/http/memory.h"

struct srv_collections {
    srv_collection *v;
    int n;
    srv_ahead_notes searches; /* in those that keys have created */
};

/* -- opening ----------------------------------------------------------------------------------- */

static bool is_name(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i])) return false;
    return n > 0 && n <= 64;
}

/* index_path -- the path of a folder's index. Owns: free. NULL after an error message. */
static char *index_path(const char *name, const char *folder)
{
    char where[4096], *out = NULL, *whole = realpath(folder, NULL);
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a: folders of one name have indexes of their own */
    for (const char *c = whole ? whole : ""; *c; c++) hash = (hash ^ (unsigned char)*c) * UINT64_C(1099511628211);
    if (!whole)
        cli_fail_with("serve: --collection %s=%s: no such file or folder", name, folder);
    else if (!cache_dir("collections", where, sizeof where) || !cache_dir_make(where))
        cli_fail_with("serve: --collection %s: the user's cache cannot be written; name an index of spolia index",
                      name);
    else if (asprintf(&out, "%s/%s-%016llx.db", where, name, (unsigned long long)hash) < 0)
        out = NULL;
    free(whole);
    return out;
}

/* may_read -- a file or folder that is there. */
static bool may_read(const char *given, const char *path)
{
    if (access(path, R_OK) == 0 || errno != EACCES) return true;
    return cli_fail_with("serve: --collection %s: %s", given, strerror(errno)), false;
}

/* is_index -- whether SQLite made the file. */
static bool is_index(const char *path)
{
    char head[16] = "";
    FILE *f = fopen(path, "rb");
    const bool read = f && fread(head, 1, sizeof head, f) == sizeof head;
    if (f) fclose(f);
    return read && memcmp(head, "SQLite format 3", sizeof head) == 0;
}

bool srv_index_progress(int64_t done, int64_t total, void *user)
{
    int64_t *told_us = user;
    if (srv_now_us() - *told_us < 60000000) return true;
    *told_us = srv_now_us();
    fprintf(stderr, "collection: %lld of %lld vectors\n", (long long)done, (long long)total);
    return true;
}

/* make_index -- of a folder or file, with vectors where there is an encoder. */
static sp_err make_index(const srv_server *s, const srv_collection *c, const char *folder)
{
    const sp_index_opts o = {.replace = true};
    int64_t told_us = srv_now_us();
    sp_err err = sp_index_build(&folder, 1, c->path, &o, NULL);
    if (err != SP_OK || !s->o.models.embedder) return err;
    const sp_index_embed_opts how = {.progress = srv_index_progress, .user = &told_us};
    return sp_index_embed(c->path, s->o.models.embedder, &how, NULL);
}

static bool open_one(const srv_server *s, srv_collection *c, const char *given)
{
    const char *path = strchr(given, '=');
    c->name = strndup(given, (size_t)(path++ - given));
    if (!may_read(given, path)) return false;
    const bool ready = is_index(path);
    c->path = !c->name ? NULL : ready ? strdup(path) : index_path(c->name, path);
    if (!c->path) return false;
    sp_err err = ready ? SP_OK : make_index(s, c, path);
    if (err == SP_OK) err = sp_retriever_open(c->path, s->o.models.embedder, &c->retriever);
    if (err != SP_OK) return cli_fail(err), false;
    if (sp_retriever_describe(c->retriever).n_chunks == 0)
        cli_warn("serve: --collection %s: no documents with text", given);
    return true;
}

bool srv_collections_check(const char *const *given, int n)
{
    for (int i = 0; i < n; i++) {
        const size_t name = strcspn(given[i], "=");
        const bool good = is_name(given[i], name) && given[i][name] && given[i][name + 1];
        if (!good)
            return cli_fail_with("serve: --collection %s: must be NAME=PATH; a name has letters, digits, . _ and -",
                                 given[i]),
                   false;
        for (int k = 0; k < i; k++)
            if (strncmp(given[k], given[i], name + 1) == 0)
                return cli_fail_with("serve: --collection %.*s is given twice", (int)name, given[i]), false;
    }
    return true;
}

bool srv_collections_open(srv_server *s)
{
    srv_collections *all = calloc(1, sizeof *all);
    s->collections = all;
    if (all) srv_ahead_init(&all->searches);
    if (all) all->v = calloc((size_t)s->o.n_collections + 1, sizeof *all->v);
    if (!all || !all->v) return cli_fail_with("out of memory for collections"), false;
    for (int i = 0; i < s->o.n_collections; i++) {
        srv_ahead_init(&all->v[all->n++].searches);
        if (!open_one(s, &all->v[i], s->o.collections[i])) return false;
    }
    return true;
}

void srv_collections_close(srv_server *s)
{
    srv_collections *all = s->collections;
    if (!all) return;
    for (int i = 0; i < all->n; i++) {
        srv_collection *c = &all->v[i];
        sp_retriever_close(c->retriever);
        srv_ahead_fini(&c->searches);
        free(c->name);
        free(c->path);
    }
    free(all->v);
    srv_ahead_fini(&all->searches);
    free(all);
}

/* -- names ------------------------------------------------------------------------------------- */

const srv_collection *srv_collections_served(const srv_server *s, int *n)
{
    *n = s->collections->n;
    return s->collections->v;
}

static srv_collection *find_served(const srv_server *s, const char *name, size_t n)
{
    for (int i = 0; i < s->collections->n; i++) {
        srv_collection *c = &s->collections->v[i];
        if (strlen(c->name) == n && memcmp(c->name, name, n) == 0) return c;
    }
    return NULL;
}

/* check_created -- that the key has created one of this name. Errors: SP_E_NOTFOUND; what failed. */
static sp_err check_created(const srv_call *call, const char *name)
{
    char *salt;
    sp_collection_list l;
    if (!srv_salt_of(call, &salt)) return SP_E_NOMEM;
    const sp_err err = sp_collections(call->s->documents, salt, name, &l);
    if (err == SP_OK) sp_collection_list_fini(&l);
    if (err == SP_E_NOMEM) srv_memory_lost();
    free(salt);
    return err;
}

sp_err srv_collection_find(const srv_call *call, const char *name, size_t n, srv_found *out)
{
    if (n == 0 || n > SRV_MAX_NAME) return SP_E_NOTFOUND;
    srv_found found = {.served = find_served(call->s, name, n)};
    memcpy(found.name, name, n);
    found.searches = found.served ? &found.served->searches : &call->s->collections->searches;
    const sp_err err = found.served ? SP_OK : check_created(call, found.name);
    if (err == SP_OK) *out = found;
    return err;
}

sp_err srv_collection_of_model(const srv_call *call, const char *model, srv_found *out)
{
    const char *at = model ? strchr(model, '@') : NULL;
    if (!at) return SP_E_NOTFOUND;
    return srv_collection_find(call, model, (size_t)(at - model), out);
}

bool srv_collection_read(const srv_call *call, srv_fields *f, const char *name, srv_found *out)
{
    const sp_err err = srv_collection_find(call, name, strlen(name), out);
    if (err == SP_E_NOTFOUND)
        srv_fields_refuse(f, "collection", "there is no collection \"%.64s\"", name);
    else if (err != SP_OK)
        srv_fields_break(f, "collection", err);
    return err == SP_OK;
}

static void add_model(const srv_server *s, const char *name, json_t *list)
{
    json_array_append_new(list, json_pack("{s:o, s:s, s:I, s:s}", "id", json_sprintf("%s@%s", name, s->o.alias),
                                          "object", "model", "created", (json_int_t)s->started, "owned_by", "spolia"));
}

sp_err srv_collections_models(const srv_call *call, json_t *list)
{
    sp_collection_list l;
    for (int i = 0; i < call->s->collections->n; i++) add_model(call->s, call->s->collections->v[i].name, list);
    sp_err err = sp_collections(call->s->documents, call->salt, NULL, &l);
    if (err != SP_OK) return err;
    for (int i = 0; i < l.n; i++) add_model(call->s, l.v[i].name, list);
    sp_collection_list_fini(&l);
    return SP_OK;
}

/* -- searches ---------------------------------------------------------------------------------- */

sp_err srv_collection_search(const srv_call *call, const srv_found *in, const sp_retrieve_query *q, sp_hits *out)
{
    char *salt;
    if (in->served) return sp_retriever_search(in->served->retriever, q, out);
    if (!srv_salt_of(call, &salt)) return SP_E_NOMEM;
    sp_err err = sp_documents_search(call->s->documents, salt, in->name, q, out);
    free(salt);
    return err;
}

void srv_collection_count(const srv_call *call, const srv_found *in, const sp_hits *hits)
{
    char *salt = NULL;
    if (!in->served && !srv_salt_of(call, &salt)) return;
    sp_err err = sp_collection_count(call->s->documents, salt, in->name, hits);
    (void)err; /* a count is lost when there is no memory */
    free(salt);
}
