/* models.c -- models in the user's cache, and what -m may name.
 *
 *   pulled.json   {"version": 1, "revision": COMMIT, "names": {"": "0123456789ab/x.gguf", "Q4_0": ...},
 *                  "files": {HASH: "0123456789ab/x.gguf", ...}}
 *
 * A name is entered when its files are complete. A file that another revision has, too, is linked, not downloaded.
 * Pulls at the same time enter what they have one after the other: each locks the folder, and reads the list again. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/cache_dir.h"
#include "cli/fail.h"
#include "cli/hub/hub_int.h"
#include "cli/json.h"
#include "cli/show.h"

#define MANIFEST "pulled.json"

static bool take_word(const char *from, size_t n, const char *extra, char *out, size_t size)
{
    if (n == 0 || n >= size || *from == '.') return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.", from[i]) &&
            !strchr(extra, from[i]))
            return false;
    memcpy(out, from, n);
    out[n] = '\0';
    return true;
}

bool hub_name_of(const char *text, hub_name *out)
{
    if (strncmp(text, HUB_PREFIX, strlen(HUB_PREFIX)) == 0) text += strlen(HUB_PREFIX);
    *out = (hub_name){.quant = ""};
    const char *slash = strchr(text, '/'), *colon = strchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : strlen(text);
    if (!slash || slash >= text + n || strchr(slash + 1, '/')) return false;
    if (slash[1] == '.' || slash + 1 == text + n) return false;
    if (!take_word(text, n, "/", out->repo, sizeof out->repo) || *text == '/') return false;
    return !colon || take_word(colon + 1, strlen(colon + 1), "", out->quant, sizeof out->quant);
}

/* -- the cache --------------------------------------------------------------------------------- */

/* folder_of -- of a repository. */
static bool folder_of(const hub_name *name, char *out, size_t size)
{
    char below[300];
    snprintf(below, sizeof below, "models/%s", name->repo);
    return cache_dir(below, out, size) ||
           (cli_fail_with("neither XDG_CACHE_HOME nor HOME names a folder for models"), false);
}

static json_t *manifest_new(void)
{
    json_t *root = json_pack("{s:i, s:{}, s:{}}", "version", 1, "names", "files");
    if (!root) cli_fail_with("out of memory");
    return root;
}

/* manifest_read -- a new one where there is none yet. NULL after an error message: what is there is not replaced. */
static json_t *manifest_read(const char *folder)
{
    char path[4200];
    struct stat st;
    snprintf(path, sizeof path, "%s/" MANIFEST, folder);
    if (stat(path, &st) != 0 && errno == ENOENT) return manifest_new();
    char *text = cli_read_file(path, &(size_t){0});
    json_t *root = text ? cli_read_json(path, text, 0) : NULL;
    const bool good = json_integer_value(json_object_get(root, "version")) == 1 &&
                      json_is_object(json_object_get(root, "names")) && json_is_object(json_object_get(root, "files"));
    free(text);
    if (good || !root) return root;
    cli_fail_with("%s: it is damaged, or of another version of spolia; without it, models are downloaded again", path);
    json_decref(root);
    return NULL;
}

static bool manifest_write(const char *folder, const json_t *root)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/" MANIFEST, folder);
    return cli_write_json(path, root, JSON_INDENT(1) | JSON_SORT_KEYS);
}

/* is_there -- a relative path in a folder. */
static bool is_there(const char *folder, const char *relative, char *path, size_t size)
{
    int n = snprintf(path, size, "%s/%s", folder, relative ? relative : "");
    return relative && n > 0 && (size_t)n < size && access(path, R_OK) == 0;
}

static bool known(const json_t *manifest, const hub_name *name, const char *folder, char *path, size_t size)
{
    const json_t *names = json_object_get(manifest, "names");
    return is_there(folder, json_string_value(json_object_get(names, name->quant)), path, size);
}

/* -- a pull ------------------------------------------------------------------------------------ */

typedef struct pulling {
    const hub_pull *p;
    hub_site site;
    hub_list list;
    const hub_file *file; /* NULL: a folder */
    char folder[4096];    /* of the repository */
    char revision[16];    /* folder of the commit in it */
    json_t *manifest;     /* as it was at the beginning */
    json_t *files;        /* to enter into it */
    progress progress;
    int64_t n_bytes; /* downloaded */
} pulling;

/* take_known -- the file, from this revision or linked from another; false: it must be downloaded. */
static bool take_known(pulling *u, const hub_file *f, const char *to)
{
    char other[4200];
    const json_t *listed = json_object_get(json_object_get(u->manifest, "files"), f->hash),
                 *got = json_object_get(u->files, f->hash);
    const char *old = *f->hash ? json_string_value(got ? got : listed) : NULL;
    struct stat st;
    if (!is_there(u->folder, old, other, sizeof other)) return false;
    if (stat(other, &st) != 0 || st.st_size != f->size) return false;
    return strcmp(other, to) == 0 || link(other, to) == 0 || errno == EEXIST;
}

static bool pull_file(pulling *u, const hub_file *f)
{
    char relative[300], to[4400];
    snprintf(relative, sizeof relative, "%s/%s", u->revision, f->path);
    snprintf(to, sizeof to, "%s/%s", u->folder, relative);
    char *slash = strrchr(to, '/');
    *slash = '\0';
    bool made = cache_dir_make(to);
    *slash = '/';
    if (!made) return cli_fail_with("%s: %s", to, strerror(errno)), false;
    if (!take_known(u, f, to)) {
        const hub_download d = {.site = &u->site,
                                .repo = u->p->name.repo,
                                .commit = u->list.commit,
                                .file = f,
                                .to = to,
                                .progress = &u->progress};
        if (!hub_download_file(&d)) return false;
        u->n_bytes += f->size;
    }
    if (*f->hash) json_object_set_new(u->files, f->hash, json_string(relative));
    return true;
}

static void say_begin(const pulling *u)
{
    int64_t bytes = 0;
    char size[SHOW_SIZE];
    for (size_t i = 0; i < u->list.n; i++)
        if (u->list.v[i].wanted) bytes += u->list.v[i].size > 0 ? u->list.v[i].size : 0;
    if (!u->p->quiet)
        fprintf(stderr, "spolia: %s%s%s from %s: %s\n", u->p->name.repo, u->file ? "/" : "",
                u->file ? u->file->path : "", u->site.endpoint, show_size(size, bytes));
}

/* enter -- into the list as it is now. named: what the name means, or NULL. */
static bool enter(const pulling *u, const char *named)
{
    const int folder = open(u->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return errno == ENOENT || (cli_fail_with("%s: %s", u->folder, strerror(errno)), false);
    while (flock(folder, LOCK_EX) != 0 && errno == EINTR) {} /* a file system without locks: two pulls may collide */
    json_t *now = manifest_read(u->folder);
    bool good = now && json_object_update(json_object_get(now, "files"), u->files) == 0;
    if (good && named) {
        json_object_set_new(json_object_get(now, "names"), u->p->name.quant, json_string(named));
        json_object_set_new(now, "revision", json_string(u->list.commit));
    }
    if (now && !good) cli_fail_with("out of memory");
    good = good && manifest_write(u->folder, now);
    json_decref(now);
    close(folder);
    return good;
}

/* pull_files -- all that are wanted; then the name is entered. */
static bool pull_files(pulling *u, char *path, size_t size)
{
    char relative[300];
    snprintf(u->revision, sizeof u->revision, "%.12s", u->list.commit);
    u->manifest = manifest_read(u->folder);
    if (!u->manifest) return false;
    u->files = json_object();
    if (!u->files) return cli_fail_with("out of memory"), false;
    say_begin(u);
    progress_begin(&u->progress, u->p->quiet, SP_LOG_WARN);
    bool good = true;
    for (size_t i = 0; i < u->list.n && good; i++)
        if (u->list.v[i].wanted) good = pull_file(u, &u->list.v[i]);
    progress_end(&u->progress);
    snprintf(relative, sizeof relative, "%s%s%s", u->revision, u->file ? "/" : "", u->file ? u->file->path : "");
    /* what is complete is known to the next command, also when something else failed */
    good = enter(u, good ? relative : NULL) && good;
    if (good && !u->p->quiet && u->n_bytes == 0)
        fprintf(stderr, "spolia: all of it is there already\n");
    return good && is_there(u->folder, relative, path, size);
}

bool hub_pull_model(const hub_pull *p, char *path, size_t size)
{
    pulling u = {.p = p};
    if (!folder_of(&p->name, u.folder, sizeof u.folder)) return false;
    json_t *manifest = manifest_read(u.folder);
    const bool there = p->offline_first && known(manifest, &p->name, u.folder, path, size);
    json_decref(manifest);
    if (!manifest || there) return there;
    bool good = hub_site_open(&u.site) &&
                hub_list_read(&u.site, p->name.repo, p->revision, &u.list) &&
                hub_choose(&p->name, &u.list, &u.file) && pull_files(&u, path, size);
    json_decref(u.manifest);
    json_decref(u.files);
    hub_list_fini(&u.list);
    hub_site_close(&u.site);
    return good;
}
