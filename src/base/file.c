#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static sp_err open_regular(const char *path, int *fd, sp_file_id *id)
{
    /* O_NONBLOCK: open a pipe without waiting for its writer, and refuse it below */
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0) return sp_fail(SP_E_IO, "%s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(f, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(f);
        return sp_fail(SP_E_IO, "%s: not a regular file", path);
    }
    *fd = f;
    *id = (sp_file_id){.inode = (uint64_t)st.st_ino,
                       .size = (uint64_t)st.st_size,
                       .modified_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
    return SP_OK;
}

sp_err sp_file_map_open(const char *path, sp_file_map *out)
{
    int fd;
    sp_file_id id;
    SP_TRY(open_regular(path, &fd, &id));
    const size_t size = (size_t)id.size;
    void *p = NULL;
    if (size) p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return sp_fail(SP_E_IO, "%s: cannot map: %s", path, strerror(errno));
    *out = (sp_file_map){.data = p, .size = size, .pages = p, .id = id};
    return SP_OK;
}

void sp_file_map_close(sp_file_map *map)
{
    if (map->pages) munmap(map->pages, map->size);
    *map = (sp_file_map){0};
}

static bool is_inside(const sp_file_map *map, uintptr_t from, uintptr_t to)
{
    const uintptr_t start = (uintptr_t)map->data;
    return map->data && from >= start && to <= start + map->size;
}

void sp_file_map_let_go(const sp_file_map *map, const void *p, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)p, to = from + n;
    if (!is_inside(map, from, to)) return;
    from = SP_ROUND_UP(from, page);
    to -= to % page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED); /* a hint */
}

void sp_file_map_huge(const sp_file_map *map)
{
    if (map->data) madvise(map->pages, map->size, MADV_HUGEPAGE);
}

void sp_file_map_populate(const sp_file_map *map, const void *p, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)p, to = from + n;
    if (!is_inside(map, from, to)) return;
    from -= from % page;
#ifdef MADV_POPULATE_READ /* Linux 5.14 */
    if (madvise((void *)from, to - from, MADV_POPULATE_READ) == 0) return;
#endif
    madvise((void *)from, to - from, MADV_WILLNEED);
}

sp_err sp_file_read(const char *path, size_t max_bytes, sp_bytes *out)
{
    int fd;
    sp_file_id id;
    SP_TRY(open_regular(path, &fd, &id));
    const size_t size = (size_t)id.size;
    sp_err err = SP_OK;
    size_t before = out->n;
    if (size > max_bytes)
        err = sp_fail(SP_E_LIMIT, "%s: %zu bytes, the limit is %zu", path, size, max_bytes);
    else
        err = sp_vec_reserve(out, size);
    for (size_t got = 0; err == SP_OK && got < size;) {
        ssize_t n = read(fd, out->v + out->n, size - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) err = sp_fail(SP_E_IO, "%s: %s", path, strerror(errno));
        if (n <= 0) break;
        out->n += (size_t)n;
        got += (size_t)n;
    }
    if (err != SP_OK) out->n = before;
    close(fd);
    return err;
}

/* write_all -- and closes fd; errno is the first failure's. mode: of a file that is to be durable, or 0. */
static bool write_all(int fd, const uint8_t *data, size_t n, mode_t mode)
{
    bool good = fd >= 0;
    while (good && n) {
        const ssize_t done = write(fd, data, n);
        if (done < 0 && errno == EINTR) continue;
        good = done >= 0;
        data += good ? done : 0;
        n -= good ? (size_t)done : 0;
    }
    if (good && mode) good = fchmod(fd, mode) == 0 && fsync(fd) == 0;
    const int why = errno;
    if (fd >= 0 && close(fd) != 0 && good) return false;
    errno = why;
    return good;
}

static bool replace(const char *path, mode_t mode, char *draft, const void *data, size_t n)
{
    const int fd = mkstemp(draft);
    if (fd < 0) return false;
    if (write_all(fd, data, n, mode) && rename(draft, path) == 0) return true;
    const int why = errno;
    unlink(draft);
    errno = why;
    return false;
}

/* replace_target -- of a symbolic link the file it leads to. */
static bool replace_target(const char *path, mode_t mode, const void *data, size_t n)
{
    char *target = realpath(path, NULL), *draft = NULL;
    const char *to = target ? target : path;
    bool good = false;
    if (asprintf(&draft, "%s.XXXXXX", to) < 0) {
        draft = NULL;
        errno = ENOMEM;
    } else {
        good = replace(to, mode, draft, data, n);
    }
    const int why = errno;
    free(target);
    free(draft);
    errno = why;
    return good;
}

sp_err sp_file_write(const char *path, const void *data, size_t n)
{
    struct stat st;
    const bool exists = stat(path, &st) == 0;
    const bool good = exists && !S_ISREG(st.st_mode)
                          ? write_all(open(path, O_WRONLY | O_CLOEXEC), data, n, 0)
                          : replace_target(path, exists ? st.st_mode & 0777 : 0644, data, n);
    return good ? SP_OK : sp_fail(SP_E_IO, "%s: cannot be written: %s", path, strerror(errno));
}

bool sp_file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
