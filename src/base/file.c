#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static sp_err open_regular(const char *path, int *fd, size_t *size)
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
    *size = (size_t)st.st_size;
    return SP_OK;
}

sp_err sp_file_map_open(const char *path, sp_file_map *out)
{
    int fd;
    size_t size;
    SP_TRY(open_regular(path, &fd, &size));
    void *p = NULL;
    if (size) p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED) return sp_fail(SP_E_IO, "%s: cannot map: %s", path, strerror(errno));
    *out = (sp_file_map){.data = p, .size = size, .pages = p};
    return SP_OK;
}

void sp_file_map_close(sp_file_map *map)
{
    if (map->pages) munmap(map->pages, map->size);
    *map = (sp_file_map){0};
}

void sp_file_map_let_go(const sp_file_map *map, const void *p, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)map->data;
    uintptr_t from = (uintptr_t)p, to = from + n;
    if (!map->data || from < start || to > start + map->size) return;
    from = SP_ROUND_UP(from, page);
    to -= to % page;
    if (from < to) madvise((void *)from, to - from, MADV_DONTNEED); /* a hint */
}

sp_err sp_file_read(const char *path, size_t max_bytes, sp_bytes *out)
{
    int fd;
    size_t size;
    SP_TRY(open_regular(path, &fd, &size));
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
