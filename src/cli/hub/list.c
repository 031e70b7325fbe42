/* list.c -- the files of a model, as the hub lists them.
 *
 *   GET /api/models/ORG/REPO/revision/REVISION?blobs=true
 *   {"sha": COMMIT, "siblings": [{"rfilename": PATH, "size": N, "blobId": HEX40, "lfs": {"sha256": HEX64, "size":
 *   N}}]}
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/fail.h"
#include "cli/hub/hub_int.h"
#include "cli/json.h"

#define MOST_BYTES ((size_t)64 << 20)

typedef struct body {
    char *v;
    size_t n;
} body;

static size_t take(char *data, size_t size, size_t n, void *user)
{
    body *b = user;
    if (n > MOST_BYTES - b->n) return 0;
    char *more = realloc(b->v, b->n + n + 1);
    if (!more) return 0;
    b->v = more;
    memcpy(b->v + b->n, data, n);
    b->v[b->n += n] = '\0';
    return n;
}

static bool is_hex(const char *s, size_t n)
{
    return s && strlen(s) == n && strspn(s, "0123456789abcdef") == n;
}

/* is_safe -- a relative path that stays in its folder, of visible characters. */
static bool is_safe(const char *path)
{
    if (!path || !*path || strlen(path) > 200) return false;
    for (const char *c = path;; c = strchr(c, '/') + 1) {
        if (*c == '.' || *c == '/' || *c == '\0') return false; /* hidden, "..", empty */
        if (!strchr(c, '/')) break;
    }
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f || *c == '\\') return false;
    return true;
}

static void read_file(const json_t *item, hub_list *l)
{
    const char *path = json_string_value(json_object_get(item, "rfilename"));
    const json_t *lfs = json_object_get(item, "lfs");
    const json_t *size = json_object_get(json_is_object(lfs) ? lfs : item, "size");
    const char *sha = json_string_value(json_object_get(lfs, "sha256"));
    const char *blob = json_string_value(json_object_get(item, "blobId"));
    if (!is_safe(path)) return; /* .gitattributes, too */
    hub_file *f = &l->v[l->n++];
    *f = (hub_file){.path = cli_copy(path),
                    .size = json_is_integer(size) ? json_integer_value(size) : -1};
    if (is_hex(sha, 64))
        memcpy(f->hash, sha, 65);
    else if (!json_is_object(lfs) && is_hex(blob, 40)) /* else it is the id of a pointer */
        memcpy(f->hash, blob, 41);
}

static bool parse(const char *text, const char *url, hub_list *out)
{
    json_t *root = cli_read_json(url, text, JSON_REJECT_DUPLICATES);
    const char *commit = json_string_value(json_object_get(root, "sha"));
    const json_t *files = json_object_get(root, "siblings");
    bool good = is_hex(commit, 40) && json_is_array(files);
    if (root && !good)
        cli_fail_with("%s: field %s is missing: is this a Hugging Face hub?", url,
                      is_hex(commit, 40) ? "siblings" : "sha");
    if (good) {
        snprintf(out->commit, sizeof out->commit, "%s", commit);
        out->v = cli_alloc(json_array_size(files) + 1, sizeof *out->v);
        for (size_t i = 0; i < json_array_size(files); i++)
            read_file(json_array_get(files, i), out);
    }
    json_decref(root);
    return good;
}

bool hub_list_read(hub_site *s, const char *repo, const char *revision, hub_list *out)
{
    char url[2048];
    body b = {0};
    long status = 0;
    *out = (hub_list){.n = 0};
    snprintf(url, sizeof url, "%s/api/models/%s/revision/", s->endpoint, repo);
    hub_escape(url, sizeof url - 16, revision);
    strcat(url, "?blobs=true");
    hub_site_request(s, url);
    curl_easy_setopt(s->curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(s->curl, CURLOPT_WRITEDATA, &b);
    CURLcode rc = curl_easy_perform(s->curl);
    curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
    bool good = false;
    if (rc != CURLE_OK)
        cli_fail_with("%s: %s", s->endpoint, *s->why ? s->why : curl_easy_strerror(rc));
    else if (status != 200)
        hub_explain(s, repo, status, b.v ? b.v : "");
    else
        good = parse(b.v ? b.v : "", url, out);
    free(b.v);
    return good;
}

void hub_list_fini(hub_list *l)
{
    for (size_t i = 0; i < l->n; i++) free(l->v[i].path);
    free(l->v);
    *l = (hub_list){.n = 0};
}
