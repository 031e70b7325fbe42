/* pack_cache.c -- the folder of packs:
 *
 *   DIR/KEY.pack       a whole pack; its time of modification is that of its last use
 *   DIR/KEY.pack.tmp   being written by a process, which holds the lock of the file (flock)
 *
 *   absent -> .tmp (lock, write) -> .pack (rename) -> removed: damaged, or the oldest over the budget
 *
 * Invariants
 *  I1  Only the holder of its lock writes or renames a .tmp, after it has checked that the file that
 *      it locked still has that name. So nobody writes to a file that another process has renamed,
 *      and processes that start together write one pack.
 *  I2  A .tmp without a lock is left from a process that died; it is removed or rewritten.
 *  I3  A pack is removed by name only. Processes that have mapped it keep it.
 *
 * Whatever fails here is logged at debug level: without a pack the model starts as before. */
#include "model/pack_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

enum {
    HEX = 2 * sizeof(sp_digest),
    BELOW_ANSWERS = 5, /* niceness of the writer: first answers come first */
    PATIENCE_S = 2,    /* before finish logs what it waits for */
};

static const char done_suffix[] = ".pack", draft_suffix[] = ".pack.tmp";

/* path_of -- DIR/KEY.SUFFIX; NULL when memory is exhausted. */
static char *path_of(const char *dir, const sp_digest *key, const char *suffix)
{
    char hex[HEX + 1];
    const size_t n = strlen(dir) + 1 + HEX + strlen(suffix) + 1;
    char *path = sp_alloc(n, 1);
    sp_digest_hex(key, sizeof *key, hex);
    if (path) snprintf(path, n, "%s/%s%s", dir, hex, suffix);
    return path;
}

/* -- finding -------------------------------------------------------------------------------- */

static sp_err find(const char *path, const sp_pack_name *name, int n_threads, sp_pack_map *out)
{
    struct stat st;
    if (lstat(path, &st) != 0) return sp_fail(SP_E_NOTFOUND, "%s: %s", path, strerror(errno));
    sp_err err = st.st_uid == geteuid() ? sp_pack_file_open(path, name, n_threads, out)
                                        : sp_fail(SP_E_FORMAT, "%s: belongs to another user", path);
    if (err == SP_OK) {
        utimensat(AT_FDCWD, path, NULL, 0); /* on failure it is only dropped sooner */
        return SP_OK;
    }
    if (err == SP_E_NOMEM) return err;
    sp_log(SP_LOG_DEBUG, "%s; removed", sp_error_detail());
    unlink(path);
    return sp_fail(SP_E_NOTFOUND, "%s: could not be used", path);
}

sp_err sp_pack_cache_find(const char *dir, const sp_pack_name *name, int n_threads,
                          sp_pack_map *out)
{
    char *path = path_of(dir, &name->key, done_suffix);
    if (!path) return sp_fail_nomem("a path");
    sp_err err = find(path, name, n_threads, out);
    sp_free(path);
    return err;
}

/* -- the budget ----------------------------------------------------------------------------- */

typedef struct old_pack {
    char name[HEX + sizeof draft_suffix];
    uint64_t n_bytes;
    int64_t used_ns;
} old_pack;

typedef SP_VEC(old_pack) old_packs;

static bool ends_with(const char *name, const char *suffix)
{
    return strlen(name) == HEX + strlen(suffix) && strspn(name, "0123456789abcdef") >= HEX &&
           strcmp(name + HEX, suffix) == 0;
}

/* drop_draft -- removes a .tmp that nobody writes. */
static void drop_draft(int folder, const char *name)
{
    int fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) unlinkat(folder, name, 0);
    close(fd);
}

static sp_err list_packs(DIR *d, const char *own, old_packs *out)
{
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        if (ends_with(e->d_name, draft_suffix) && strcmp(e->d_name, own) != 0)
            drop_draft(dirfd(d), e->d_name);
        if (!ends_with(e->d_name, done_suffix)) continue;
        if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) continue;
        SP_TRY(sp_vec_reserve(out, 1));
        old_pack *p = &out->v[out->n++];
        *p = (old_pack){.n_bytes = (uint64_t)st.st_size,
                        .used_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
        memcpy(p->name, e->d_name, strlen(e->d_name) + 1); /* ends_with checked its length */
    }
    return SP_OK;
}

static int by_use(const void *a, const void *b)
{
    const old_pack *x = a, *y = b;
    return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static sp_err drop_oldest(DIR *d, const char *dir, const char *own, uint64_t room)
{
    old_packs all = {0};
    uint64_t sum = 0;
    sp_err err = list_packs(d, own, &all);
    for (size_t i = 0; i < all.n; i++) sum += all.v[i].n_bytes;
    if (all.n) qsort(all.v, all.n, sizeof *all.v, by_use);
    for (size_t i = 0; i < all.n && sum > room; i++) {
        if (unlinkat(dirfd(d), all.v[i].name, 0) != 0) continue;
        sum -= all.v[i].n_bytes;
        sp_log(SP_LOG_DEBUG, "%s/%s: removed: the packs exceed their budget", dir, all.v[i].name);
    }
    sp_vec_fini(&all);
    return err;
}

/* make_room -- for n more bytes in the budget, and on the disk, where n bytes must stay free. */
static sp_err make_room(const sp_pack_opts *o, const char *own, uint64_t n)
{
    if (n > o->max_bytes)
        return sp_fail(SP_E_LIMIT, "%s: a pack of %" PRIu64 " bytes, the budget is %zu", o->dir, n,
                       o->max_bytes);
    DIR *d = opendir(o->dir);
    if (!d) return sp_fail(SP_E_IO, "%s: %s", o->dir, strerror(errno));
    sp_err err = drop_oldest(d, o->dir, own, o->max_bytes - n);
    closedir(d);
    struct statvfs v;
    if (err != SP_OK || statvfs(o->dir, &v) != 0) return err;
    if (v.f_bavail * v.f_frsize / 2 < n)
        return sp_fail(SP_E_IO, "%s: a pack of %" PRIu64 " bytes would fill the disk", o->dir, n);
    return SP_OK;
}

/* -- writing -------------------------------------------------------------------------------- */

struct sp_pack_writer {
    pthread_t thread;
    sp_pack_opts o;
    char *dir, *path, *draft; /* owned */
    sp_pack_name name;
    const uint8_t *weights;
};

/* make_folders -- every folder of the path. */
static sp_err make_folders(char *path)
{
    for (char *p = path + 1;; p++) {
        const char c = *p;
        if (c != '/' && c != '\0') continue;
        *p = '\0';
        int failed = mkdir(path, 0700) != 0 && errno != EEXIST ? errno : 0;
        *p = c;
        if (failed) return sp_fail(SP_E_IO, "%s: cannot be made: %s", path, strerror(failed));
        if (c == '\0') return SP_OK;
    }
}

/* lock_draft -- whether this process may write the draft: I1. */
static sp_err lock_draft(int fd, const char *draft, const char *path)
{
    struct stat held, named;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || fstat(fd, &held) != 0 || lstat(draft, &named) != 0 ||
        held.st_ino != named.st_ino || held.st_dev != named.st_dev)
        return sp_fail(SP_E_IO, "%s: another process writes it", draft);
    if (access(path, F_OK) != 0) return SP_OK;
    unlink(draft);
    return sp_fail(SP_E_IO, "%s: another process wrote it", path);
}

static sp_err write_draft(const sp_pack_writer *w, int fd)
{
    SP_TRY(make_room(&w->o, strrchr(w->draft, '/') + 1, sp_pack_file_bytes(w->name.n_bytes)));
    if (ftruncate(fd, 0) != 0) return sp_fail(SP_E_IO, "%s: %s", w->draft, strerror(errno));
    SP_TRY(sp_pack_file_write(fd, w->draft, &w->name, w->weights));
    if (rename(w->draft, w->path) == 0) return SP_OK;
    return sp_fail(SP_E_IO, "%s: cannot be renamed: %s", w->draft, strerror(errno));
}

static sp_err write_pack(const sp_pack_writer *w)
{
    SP_TRY(make_folders(w->dir));
    int fd = open(w->draft, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return sp_fail(SP_E_IO, "%s: %s", w->draft, strerror(errno));
    sp_err err = lock_draft(fd, w->draft, w->path);
    if (err == SP_OK) {
        err = write_draft(w, fd);
        if (err != SP_OK) unlink(w->draft);
    }
    close(fd);
    return err;
}

static void *run(void *arg)
{
    const sp_pack_writer *w = arg;
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), BELOW_ANSWERS); /* of this thread */
    if (write_pack(w) == SP_OK)
        sp_log(SP_LOG_DEBUG, "%s: %zu MiB of packed weights written", w->path,
               w->name.n_bytes >> 20);
    else
        sp_log(SP_LOG_DEBUG, "packed weights are not kept: %s", sp_error_detail());
    return NULL;
}

static void free_writer(sp_pack_writer *w)
{
    sp_free(w->dir);
    sp_free(w->path);
    sp_free(w->draft);
    sp_free(w);
}

sp_pack_writer *sp_pack_writer_start(const sp_pack_opts *o, const sp_pack_name *name,
                                     const uint8_t *weights)
{
    sp_pack_writer *w = SP_NEW(sp_pack_writer);
    if (!w) return NULL;
    *w = (sp_pack_writer){.o = *o, .name = *name, .weights = weights};
    w->o.dir = w->dir = sp_strdup_n(o->dir, strlen(o->dir));
    w->path = path_of(o->dir, &name->key, done_suffix);
    w->draft = path_of(o->dir, &name->key, draft_suffix);
    if (w->dir && w->path && w->draft && pthread_create(&w->thread, NULL, run, w) == 0) return w;
    free_writer(w);
    return NULL;
}

void sp_pack_writer_finish(sp_pack_writer *w)
{
    struct timespec until;
    if (!w) return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_S;
    if (pthread_timedjoin_np(w->thread, NULL, &until) != 0) {
        sp_log(SP_LOG_WARN,
               "%s: still writing %zu MiB of packed weights, which make the next start faster",
               w->dir, w->name.n_bytes >> 20);
        pthread_join(w->thread, NULL);
    }
    free_writer(w);
}
