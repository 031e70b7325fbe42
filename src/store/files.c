#include "store/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- faults --------------------------------------------------------------------------------- */

static struct {
    atomic_uint calls;
    atomic_long left;
    atomic_int error;
    atomic_bool stays;
} fault;

void sp_store_fault(unsigned calls, long n, int error, bool stays)
{
    atomic_store(&fault.calls, 0);
    atomic_store(&fault.left, n);
    atomic_store(&fault.error, error);
    atomic_store(&fault.stays, stays);
    atomic_store(&fault.calls, n > 0 ? calls : 0);
}

bool sp_store_fails(sp_store_call call, int *error)
{
    if (SP_LIKELY(!(atomic_load(&fault.calls) & (unsigned)call))) return false;
    long left = atomic_fetch_sub(&fault.left, 1);
    if (left > 1 || (left < 1 && !atomic_load(&fault.stays))) return false;
    *error = atomic_load(&fault.error);
    return true;
}

/* -- files ---------------------------------------------------------------------------------- */

/* fails -- injects the faults that a test asked for: true sets errno; a short transfer reduces *n; `flips` may be
 * NULL. */
static bool fails(sp_store_call call, size_t *n, bool *flips)
{
    int error;
    if (!sp_store_fails(call, &error)) return false;
    if (error == SP_FLIPS) {
        if (flips) *flips = true;
        return false;
    }
    if (error == 0) {
        *n = *n > 1 ? *n / 2 : *n;
        return false;
    }
    errno = error;
    return true;
}

sp_err sp_files_read(int fd, const char *path, uint64_t offset, void *data, size_t n, size_t *got)
{
    uint8_t *to = data;
    size_t have = 0;
    while (have < n) {
        size_t part = n - have;
        bool flips = false;
        ssize_t done = fails(SP_CALL_READ, &part, &flips)
                           ? -1
                           : pread(fd, to + have, part, (off_t)(offset + have));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return sp_fail(SP_E_IO, "%s: cannot read: %s", path, strerror(errno));
        if (done == 0) break;
        if (flips) sp_store_flip(to + have, (size_t)done);
        have += (size_t)done;
    }
    *got = have;
    return SP_OK;
}

sp_err sp_files_write(int fd, const char *path, uint64_t offset, const void *data, size_t n)
{
    const uint8_t *from = data;
    for (size_t have = 0; have < n;) {
        size_t part = n - have;
        ssize_t done = fails(SP_CALL_WRITE, &part, NULL)
                           ? -1
                           : pwrite(fd, from + have, part, (off_t)(offset + have));
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return sp_fail(SP_E_IO, "%s: cannot write: %s", path, strerror(errno));
        have += (size_t)done;
    }
    return SP_OK;
}

sp_err sp_files_sync(int fd, const char *path)
{
    size_t n = 0;
    if (!fails(SP_CALL_SYNC, &n, NULL) && fdatasync(fd) == 0) return SP_OK;
    return sp_fail(SP_E_IO, "%s: cannot sync: %s", path, strerror(errno));
}

sp_err sp_files_sync_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t n = 0;
    if (fd < 0) return sp_fail(SP_E_IO, "%s: %s", path, strerror(errno));
    bool synced = !fails(SP_CALL_SYNC, &n, NULL) && fsync(fd) == 0;
    sp_err err = synced ? SP_OK : sp_fail(SP_E_IO, "%s: cannot sync: %s", path, strerror(errno));
    close(fd);
    return err;
}

sp_err sp_files_make_folder(const char *path)
{
    if (mkdir(path, 0700) == 0 || errno == EEXIST) return SP_OK;
    return sp_fail(SP_E_IO, "%s: cannot make the folder: %s", path, strerror(errno));
}
