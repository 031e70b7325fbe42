#include "store/disk/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store/files.h"
#include "store/disk/journal_int.h"
#include "store/record.h"
#include "store/disk/segments_int.h"

#define RESERVE_BYTES ((int64_t)1 << 30)
#define LEAST_BUDGET  ((int64_t)1 << 20)

enum {
    RESERVE_SHARE = 20 /* 5 % */,
    SPACE_HEX = 32 /* digits of a namespace, in its folder's name */
};

/* -- the disk ------------------------------------------------------------------------------- */

/* to_parent -- removes the last name of a path; false: no name is left. */
static bool to_parent(char *path)
{
    char *slash = strrchr(path, '/');
    if (strcmp(path, ".") == 0 || strcmp(path, "/") == 0) return false;
    if (!slash)
        strcpy(path, ".");
    else
        slash[slash == path] = '\0';
    return true;
}

sp_err sp_folder_space_of(const char *dir, sp_folder_space *out)
{
    struct statvfs fs;
    size_t n = strlen(dir);
    char *path = sp_alloc(SP_MAX(n, (size_t)1) + 1, 1);
    if (!path) return sp_fail_nomem("a path");
    memcpy(path, n ? dir : ".", SP_MAX(n, (size_t)1) + (n != 0));
    if (!n) path[1] = '\0';
    int rc;
    while ((rc = statvfs(path, &fs)) != 0 && errno == ENOENT && to_parent(path)) {
    }
    sp_free(path);
    if (rc != 0) return sp_fail(SP_E_IO, "%s: %s", dir, strerror(errno));
    out->total = (int64_t)fs.f_blocks * (int64_t)fs.f_frsize;
    out->free = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    out->reserve = SP_MIN(out->total / RESERVE_SHARE, RESERVE_BYTES);
    return SP_OK;
}

/* -- namespaces ----------------------------------------------------------------------------- */

/* read_space -- of the first copy of a segment: its header says the namespace. */
static bool read_space(int dir, const char *name, sp_digest *out)
{
    uint32_t head_pages;
    size_t got = 0;
    sp_record r = {0};
    uint8_t *data = NULL;
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    uint8_t *page = sp_alloc(SP_PAGE, 1);
    bool good = page && sp_files_read(fd, name, 0, page, SP_PAGE, &got) == SP_OK &&
                got == SP_PAGE && sp_record_size(page, &head_pages) == SP_OK;
    const size_t n = good ? (size_t)head_pages * SP_PAGE : 0;
    if (good) data = sp_alloc(n, 1);
    good = data && sp_files_read(fd, name, 0, data, n, &got) == SP_OK && got == n &&
           sp_record_read(data, n, &r) == SP_OK;
    if (good) *out = r.space;
    sp_free(data);
    sp_free(page);
    close(fd);
    return good;
}

/* look_inside -- reads the sizes of segments and, if the index is lost, their namespace. */
static bool look_inside(const char *folder, sp_folder_part *out)
{
    bool known = !out->index_is_lost;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!sp_segment_number_of(e->d_name) || fstatat(dirfd(d), e->d_name, &st, 0) != 0) continue;
        out->bytes += (int64_t)st.st_size;
        if (!known) known = read_space(dirfd(d), e->d_name, &out->space);
    }
    if (d && !known) known = read_space(dirfd(d), "index", &out->space); /* the name of another segment */
    if (d) closedir(d);
    return known;
}

/* visit -- a folder of this name, if it is a namespace. */
static sp_err visit(const char *dir, const char *name, sp_folder_fn *fn, void *user)
{
    sp_bytes path = {0};
    sp_folder_part part = {0};
    SP_TRY(sp_bytes_addf(&path, "%s/%s/index", dir, name));
    sp_err err = sp_bytes_add(&path, "", 1);
    if (err == SP_OK) {
        part.index_is_lost = sp_journal_space(path.v, &part.space) != SP_OK;
        *strrchr(path.v, '/') = '\0';
        if (look_inside(path.v, &part)) err = fn(user, &part);
    }
    sp_vec_fini(&path);
    return err;
}

sp_err sp_folder_each(const char *dir, sp_folder_fn *fn, void *user)
{
    DIR *all = opendir(dir);
    sp_err err = SP_OK;
    if (!all)
        return sp_fail(errno == ENOENT ? SP_E_NOTFOUND : SP_E_IO, "%s: %s", dir, strerror(errno));
    for (struct dirent *e; err == SP_OK && (e = readdir(all));)
        if (strlen(e->d_name) == SPACE_HEX) err = visit(dir, e->d_name, fn, user);
    closedir(all);
    return err;
}

bool sp_folder_is_empty(const char *dir)
{
    DIR *all = opendir(dir);
    bool any = !all;
    for (struct dirent *e; all && !any && (e = readdir(all));)
        any = e->d_name[0] != '.' && strcmp(e->d_name, "made-for") != 0;
    if (all) closedir(all);
    return !any;
}

typedef struct share {
    const sp_digest *space;
    int64_t own, others;
} share;

static sp_err add_up(void *user, const sp_folder_part *part)
{
    share *s = user;
    *(sp_digest_eq(&part->space, s->space) ? &s->own : &s->others) += part->bytes;
    return SP_OK;
}

sp_err sp_folder_budget(const char *dir, const sp_digest *space, int64_t max_bytes, int64_t *out)
{
    share s = {.space = space};
    sp_folder_space disk;
    sp_err err = sp_folder_each(dir, add_up, &s);
    if (err == SP_E_NOMEM) return err; /* creating the folder reports other errors */
    if (max_bytes == 0) {
        SP_TRY(sp_folder_space_of(dir, &disk));
        *out = SP_MAX(s.own + disk.free / 2, LEAST_BUDGET);
        return SP_OK;
    }
    if (max_bytes <= s.others)
        return sp_fail(SP_E_LIMIT,
                       "%s: copies of other models take %lld MiB of its limit of %lld MiB",
                       dir, (long long)(s.others >> 20), (long long)(max_bytes >> 20));
    *out = max_bytes - s.others;
    return SP_OK;
}
