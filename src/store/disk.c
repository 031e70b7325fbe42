#include "store/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "store/kv_file.h"
#include "store/names_int.h"
#include "store/others_int.h"

struct sp_disk {
    char *dir;    /* of the namespace */
    char *path;   /* dir, a name and room: of the file in use */
    size_t n_dir; /* bytes of dir, with its slash */
    sp_digest space;
    sp_kv_pool *pool;
    sp_disk_names known; /* I3 */
    sp_bytes head;       /* of the file that was read last */
    sp_others others;    /* namespaces in the same folder */
    unsigned serial;     /* of temporary files */
    sp_disk_stats stats;
};

#define NAME_ROOM 128 /* bytes: any name below dir */

/* path_to -- d->path for a file below the namespace's folder. */
static const char *path_to(sp_disk *d, const char *name)
{
    snprintf(d->path + d->n_dir, NAME_ROOM, "%s", name);
    return d->path;
}

static const char *path_of(sp_disk *d, const sp_disk_name *name)
{
    char relative[SP_DISK_NAME_BYTES];
    sp_disk_name_path(name, relative);
    return path_to(d, relative);
}

static sp_err make_folder(const char *path)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST) return SP_OK;
    return sp_fail(SP_E_IO, "%s: cannot make the folder: %s", path, strerror(errno));
}

/* -- opening -------------------------------------------------------------------------------- */

typedef sp_err entry_fn(sp_disk *d, const char *folder, const char *file);

/* each_entry -- calls fn for what is in a folder; one that cannot be read is empty. */
static sp_err each_entry(sp_disk *d, const char *folder, entry_fn *fn)
{
    DIR *dir = opendir(path_to(d, folder));
    sp_err err = SP_OK;
    if (!dir) return SP_OK;
    for (struct dirent *e; err == SP_OK && (e = readdir(dir));)
        if (e->d_name[0] != '.') err = fn(d, folder, e->d_name);
    closedir(dir);
    return err;
}

static sp_err learn_file(sp_disk *d, const char *folder, const char *file)
{
    sp_disk_name name;
    if (!sp_disk_name_parse(folder, file, &name)) return SP_OK;
    SP_TRY(sp_disk_names_reserve(&d->known));
    sp_disk_names_add(&d->known, &name);
    return SP_OK;
}

static sp_err learn_folder(sp_disk *d, const char *folder, const char *file)
{
    return strlen(file) == SP_DISK_FOLDER_CHARS ? each_entry(d, file, learn_file) : SP_OK;
}

/* sweep -- a temporary file that nobody has locked belongs to a writer that died. */
static sp_err sweep(sp_disk *d, const char *folder, const char *file)
{
    char name[NAME_ROOM];
    if ((size_t)snprintf(name, sizeof name, "%s/%s", folder, file) >= sizeof name) return SP_OK;
    int fd = open(path_to(d, name), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return SP_OK;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(d->path);
    close(fd);
    return SP_OK;
}

static sp_err set_paths(sp_disk *d, const char *dir)
{
    char space[2 * SP_SPACE_BYTES + 1];
    sp_bytes b = {0};
    sp_digest_hex(&d->space, SP_SPACE_BYTES, space);
    SP_TRY(sp_bytes_addf(&b, "%s/%s/", dir, space));
    d->n_dir = b.n;
    d->dir = sp_strdup_n(b.v, b.n);
    d->path = sp_alloc(b.n + NAME_ROOM, 1);
    if (d->path) memcpy(d->path, b.v, b.n);
    sp_vec_fini(&b);
    return d->dir && d->path ? SP_OK : sp_fail_nomem(d->n_dir, "the store");
}

static sp_err open_folder(sp_disk *d, const char *dir)
{
    SP_TRY(set_paths(d, dir));
    SP_TRY(make_folder(dir));
    SP_TRY(make_folder(path_to(d, "")));
    SP_TRY(make_folder(path_to(d, "tmp")));
    SP_TRY(each_entry(d, "tmp", sweep));
    SP_TRY(each_entry(d, "", learn_folder));
    return sp_others_init(&d->others, dir, &d->space);
}

sp_err sp_disk_open(const char *dir, const sp_digest *space, sp_kv_pool *pool, sp_disk **out)
{
    sp_disk *d = SP_NEW(sp_disk);
    if (!d) return sp_fail_nomem(sizeof *d, "the store");
    d->space = *space;
    d->pool = pool;
    sp_err err = open_folder(d, dir);
    if (err != SP_OK) {
        sp_disk_close(d);
        return err;
    }
    sp_log(SP_LOG_INFO, "%s: %zu copies of chunks", d->dir, d->known.n);
    *out = d;
    return SP_OK;
}

void sp_disk_close(sp_disk *d)
{
    if (!d) return;
    sp_disk_names_fini(&d->known);
    sp_others_fini(&d->others);
    sp_vec_fini(&d->head);
    sp_free(d->path);
    sp_free(d->dir);
    sp_free(d);
}

sp_err sp_disk_each(const sp_disk *d, sp_disk_each_fn *fn, void *user)
{
    for (size_t i = 0; i < d->known.cap; i++) {
        const sp_disk_name *name = &d->known.slots[i];
        sp_disk_found copy = {.id = name->id, .kind = (sp_disk_kind)name->kind, .head = name->head};
        if (name->used) SP_TRY(fn(&copy, user));
    }
    return SP_OK;
}

/* -- writing -------------------------------------------------------------------------------- */

static sp_kv_head head_of(const sp_disk *d, const sp_disk_key *key, const sp_disk_copy *copy)
{
    return (sp_kv_head){.kind = (uint32_t)key->kind,
                        .space = d->space,
                        .id = key->seg->id,
                        .before = copy->before,
                        .n_before = copy->n_before,
                        .n_head = key->n_head,
                        .tokens = key->seg->tokens,
                        .n = key->seg->n,
                        .at = copy->at};
}

static bool begins_with(const sp_digest *before, int n_before, const sp_disk_key *key)
{
    if (n_before < key->n_head) return false;
    return key->n_head == 0 || memcmp(before, key->head, sizeof *before * (size_t)key->n_head) == 0;
}

/* write_file -- a whole file, synced, under a name that nobody looks at; nothing on failure. */
static sp_err write_file(sp_disk *d, const char *temporary, const sp_kv_head *head,
                         const uint32_t *blocks)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return sp_fail(SP_E_IO, "%s: cannot create: %s", temporary, strerror(errno));
    flock(fd, LOCK_EX | LOCK_NB); /* against the sweep of others, where the file system has locks */
    sp_err err = sp_kv_file_write(fd, temporary, head, d->pool, blocks);
    if (err == SP_OK && fsync(fd) != 0)
        err = sp_fail(SP_E_IO, "%s: cannot write: %s", temporary, strerror(errno));
    if (close(fd) != 0 && err == SP_OK)
        err = sp_fail(SP_E_IO, "%s: cannot write: %s", temporary, strerror(errno));
    if (err != SP_OK) unlink(temporary);
    return err;
}

static sp_err make_folder_of(sp_disk *d, const sp_disk_name *name)
{
    char folder[SP_DISK_NAME_BYTES];
    sp_disk_name_path(name, folder);
    folder[SP_DISK_FOLDER_CHARS] = '\0';
    return make_folder(path_to(d, folder));
}

/* put_named -- I1. `temporary` is a buffer of the size of d->path. */
static sp_err put_named(sp_disk *d, const sp_disk_name *name, const sp_kv_head *head,
                        const uint32_t *blocks, char *temporary)
{
    snprintf(temporary, d->n_dir + NAME_ROOM, "%stmp/%ld-%u", d->dir, (long)getpid(), d->serial++);
    SP_TRY(make_folder_of(d, name));
    SP_TRY(write_file(d, temporary, head, blocks));
    if (rename(temporary, path_of(d, name)) == 0) return SP_OK;
    sp_err err = sp_fail(SP_E_IO, "%s: cannot put in place: %s", d->path, strerror(errno));
    unlink(temporary);
    return err;
}

sp_err sp_disk_put(sp_disk *d, const sp_disk_key *key, const sp_disk_copy *copy,
                   const uint32_t *blocks)
{
    sp_kv_head head = head_of(d, key, copy);
    sp_disk_name name = sp_disk_name_of(key);
    if (!begins_with(copy->before, copy->n_before, key))
        return sp_fail(SP_E_ARG, "a copy that was not computed after the head of its key");
    SP_TRY(sp_kv_head_check(&head));
    SP_TRY(sp_disk_names_reserve(&d->known));
    char *temporary = sp_alloc(d->n_dir + NAME_ROOM, 1);
    if (!temporary) return sp_fail_nomem(d->n_dir + NAME_ROOM, "a file name");
    sp_err err = put_named(d, &name, &head, blocks, temporary);
    sp_free(temporary);
    if (err != SP_OK) return err;
    sp_disk_names_add(&d->known, &name);
    d->stats.n_put++;
    d->stats.bytes_written +=
        (int64_t)sp_blocks_for(head.n) * (int64_t)sp_kv_block_bytes(sp_kv_pool_shape(d->pool));
    return SP_OK;
}

/* -- reading -------------------------------------------------------------------------------- */

bool sp_disk_has(const sp_disk *d, const sp_disk_key *key)
{
    sp_disk_name name = sp_disk_name_of(key);
    return sp_disk_names_has(&d->known, &name);
}

bool sp_disk_has_elsewhere(const sp_disk *d, const sp_segment *seg, const sp_segment *head,
                           int n_head, const char *salt)
{
    return sp_others_have(&d->others, seg, head, n_head, salt);
}

/* check_key -- the file is what its name says. */
static sp_err check_key(const sp_disk *d, const sp_kv_head *h, const sp_disk_key *key)
{
    const sp_segment *seg = key->seg;
    if (!sp_digest_eq(&h->space, &d->space))
        return sp_fail(SP_E_UNSUPPORTED, "%s: a copy of another model", d->path);
    bool same = h->kind == (uint32_t)key->kind && sp_digest_eq(&h->id, &seg->id) &&
                h->n == seg->n && h->n_head == key->n_head &&
                begins_with(h->before, h->n_before, key) &&
                memcmp(h->tokens, seg->tokens, sizeof *seg->tokens * (size_t)seg->n) == 0;
    if (same) return SP_OK;
    return sp_fail(SP_E_UNSUPPORTED, "%s: not the copy that its name says", d->path);
}

/* read_copy -- the file of a key; its body as well if blocks is given. *gone: there is no file. A
 * damaged one is deleted; one of another version or model is somebody's. */
static sp_err read_copy(sp_disk *d, const sp_disk_key *key, const uint32_t *blocks, sp_kv_head *h,
                        bool *gone)
{
    int fd = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *gone = fd < 0 && errno == ENOENT;
    if (fd < 0) return sp_fail(SP_E_IO, "%s: %s", d->path, strerror(errno));
    sp_err err = sp_kv_file_read_head(fd, d->path, d->pool, &d->head, h);
    if (err == SP_OK) err = check_key(d, h, key);
    if (err == SP_OK && blocks)
        err = sp_kv_file_read_body(fd, d->path, h, &d->head, d->pool, blocks);
    close(fd);
    if (err == SP_E_FORMAT) unlink(d->path);
    return err;
}

/* look_up -- I2. A file deleted by others is forgotten without a word. */
static bool look_up(sp_disk *d, const sp_disk_key *key, const uint32_t *blocks, sp_disk_copy *out)
{
    sp_disk_name name = sp_disk_name_of(key);
    if (!sp_disk_names_has(&d->known, &name)) return false;
    sp_kv_head h;
    bool gone;
    path_of(d, &name);
    sp_err err = read_copy(d, key, blocks, &h, &gone);
    if (err == SP_OK) {
        if (out) *out = (sp_disk_copy){.before = h.before, .n_before = h.n_before, .at = h.at};
        return true;
    }
    if (!gone) sp_log(SP_LOG_WARN, "not used: %s", sp_error_detail());
    if (err == SP_E_NOMEM) return false; /* it may be fine next time */
    sp_disk_names_drop(&d->known, &name);
    d->stats.n_failed += !gone;
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
        (int64_t)sp_blocks_for(key->seg->n) * (int64_t)sp_kv_block_bytes(sp_kv_pool_shape(d->pool));
    return true;
}

/* -- removing ------------------------------------------------------------------------------- */

static sp_err remove_named(sp_disk *d, const sp_disk_name *name)
{
    if (unlink(path_of(d, name)) != 0 && errno != ENOENT)
        return sp_fail(SP_E_IO, "%s: cannot delete: %s", d->path, strerror(errno));
    sp_disk_names_drop(&d->known, name);
    return SP_OK;
}

sp_err sp_disk_remove(sp_disk *d, const sp_disk_key *key)
{
    sp_disk_name name = sp_disk_name_of(key);
    return remove_named(d, &name);
}

sp_err sp_disk_retain(sp_disk *d, sp_disk_keep_fn *keep, void *user, int64_t *n_removed)
{
    SP_VEC(sp_disk_name) unwanted = {0}; /* a list: removing moves the slots */
    sp_err err = SP_OK;
    int64_t n = 0;
    for (size_t i = 0; i < d->known.cap && err == SP_OK; i++) {
        const sp_disk_name *name = &d->known.slots[i];
        if (!name->used || keep(&name->id, user)) continue;
        err = sp_vec_reserve(&unwanted, 1);
        if (err == SP_OK) unwanted.v[unwanted.n++] = *name;
    }
    for (size_t i = 0; i < unwanted.n && err != SP_E_NOMEM; i++) {
        sp_err one = remove_named(d, &unwanted.v[i]);
        n += one == SP_OK;
        if (one != SP_OK) err = one;
    }
    sp_vec_fini(&unwanted);
    if (n_removed) *n_removed = n;
    return err;
}

sp_disk_stats sp_disk_stats_of(const sp_disk *d)
{
    sp_disk_stats s = d->stats;
    s.n_copies = (int64_t)d->known.n;
    return s;
}
