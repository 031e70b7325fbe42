#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
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

bool sp_file_is_dir(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}
