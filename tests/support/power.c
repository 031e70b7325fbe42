/* power.c -- to be preloaded into a server: every change of a file below the folder SPOLIA_POWER_DIR is made, and
 * appended to the log SPOLIA_POWER_LOG with its bytes, in order. tests/support/power.py makes of a part of the log
 * what a loss of power at that moment may leave. io_uring is refused, so that all writes are seen.
 *
 *   a record: u32 kind, u32 n_path, u32 n_to, u32 n_data, u64 at, u64 n, then path, to and data
 *
 * A sync has two records: only what precedes the first one is on disk after the second one. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind { CREATE, WRITE, CUT, PUNCH, GROW, RENAME, UNLINK, FOLDER, SYNC_BEGIN, SYNC_END, KINDS };

typedef struct record {
    uint32_t kind, n_path, n_to, n_data;
    uint64_t at, n;
} record;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* a change and its record are one */
static const char *folder;
static size_t n_folder;
static int out = -1;
static uint64_t n_syncs;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void begin(void)
{
    const char *log = getenv("SPOLIA_POWER_LOG");
    folder = getenv("SPOLIA_POWER_DIR");
    n_folder = folder ? strlen(folder) : 0;
    if (log && folder) out = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_below(const char *path)
{
    return out >= 0 && path && strncmp(path, folder, n_folder) == 0 && (path[n_folder] == '/' || !path[n_folder]);
}

/* path_of -- of a descriptor; false: it is not below the folder. */
static int path_of(int fd, char path[4096])
{
    char link[64];
    if (out < 0) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, 4095);
    path[n > 0 ? n : 0] = '\0';
    return n > 0 && is_below(path);
}

static void put(const void *data, size_t n)
{
    for (const char *from = data; n;) {
        const ssize_t done = syscall(SYS_write, out, from, n);
        if (done < 0) abort();
        from += done;
        n -= (size_t)done;
    }
}

/* note -- lock is held. */
static void note(enum kind kind, const char *path, const char *to, uint64_t at, uint64_t n, const void *data)
{
    const record r = {.kind = kind,
                      .n_path = (uint32_t)strlen(path),
                      .n_to = to ? (uint32_t)strlen(to) : 0,
                      .n_data = data ? (uint32_t)n : 0,
                      .at = at,
                      .n = n};
    put(&r, sizeof r);
    put(path, r.n_path);
    if (to) put(to, r.n_to);
    if (data) put(data, r.n_data);
}

/* -- files ------------------------------------------------------------------------------------ */

static int open_as(const char *path, int flags, mode_t mode)
{
    const int may_change = is_below(path) && flags & (O_CREAT | O_TRUNC);
    if (!may_change) return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    pthread_mutex_lock(&lock);
    const int was = access(path, F_OK) == 0;
    const int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode), error = errno;
    if (fd >= 0 && !was) note(CREATE, path, NULL, 0, 0, NULL);
    if (fd >= 0 && was && flags & O_TRUNC) note(CUT, path, NULL, 0, 0, NULL);
    pthread_mutex_unlock(&lock);
    errno = error;
    return fd;
}

#define OPEN(name)                                                                                      \
    int name(const char *path, int flags, ...)                                                          \
    {                                                                                                   \
        va_list more;                                                                                   \
        va_start(more, flags);                                                                          \
        const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                   \
        va_end(more);                                                                                   \
        return open_as(path, flags, mode);                                                              \
    }
OPEN(open)
OPEN(open64)

static ssize_t write_at(int fd, const void *from, size_t n, off_t at, int moves)
{
    char path[4096];
    const int is_ours = path_of(fd, path);
    if (is_ours) pthread_mutex_lock(&lock);
    if (moves && is_ours) at = lseek(fd, 0, fcntl(fd, F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
    const ssize_t done = moves ? syscall(SYS_write, fd, from, n) : syscall(SYS_pwrite64, fd, from, n, at);
    const int error = errno;
    if (is_ours && done > 0) note(WRITE, path, NULL, (uint64_t)at, (uint64_t)done, from);
    if (is_ours) pthread_mutex_unlock(&lock);
    errno = error;
    return done;
}

ssize_t write(int fd, const void *from, size_t n)
{
    return write_at(fd, from, n, 0, 1);
}

ssize_t pwrite(int fd, const void *from, size_t n, off_t at)
{
    return write_at(fd, from, n, at, 0);
}

ssize_t pwrite64(int fd, const void *from, size_t n, off64_t at)
{
    return write_at(fd, from, n, at, 0);
}

static int change(int fd, enum kind kind, off_t at, off_t n, long rc_call(int, off_t, off_t))
{
    char path[4096];
    const int is_ours = path_of(fd, path);
    if (is_ours) pthread_mutex_lock(&lock);
    const long rc = rc_call(fd, at, n);
    const int error = errno;
    if (is_ours && rc == 0) note(kind, path, NULL, (uint64_t)at, (uint64_t)n, NULL);
    if (is_ours) pthread_mutex_unlock(&lock);
    errno = error;
    return (int)rc;
}

static long cut(int fd, off_t at, off_t n)
{
    return syscall(SYS_ftruncate, fd, at);
}

static long punch(int fd, off_t at, off_t n)
{
    return syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n);
}

static long zero(int fd, off_t at, off_t n)
{
    return syscall(SYS_fallocate, fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, at, n);
}

static long grow(int fd, off_t at, off_t n)
{
    return syscall(SYS_fallocate, fd, 0, at, n);
}

int ftruncate(int fd, off_t n)
{
    return change(fd, CUT, n, 0, cut);
}

int ftruncate64(int fd, off64_t n)
{
    return change(fd, CUT, n, 0, cut);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)) return change(fd, PUNCH, at, n, punch);
    if (mode == (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE)) return change(fd, PUNCH, at, n, zero);
    if (mode == 0) return change(fd, GROW, at, n, grow);
    return errno = EOPNOTSUPP, -1; /* what is not known here cannot be replayed */
}

int fallocate64(int fd, int mode, off64_t at, off64_t n)
{
    return fallocate(fd, mode, at, n);
}

/* -- names ------------------------------------------------------------------------------------ */

int rename(const char *from, const char *to)
{
    const int is_ours = is_below(from) || is_below(to);
    if (is_ours) pthread_mutex_lock(&lock);
    const int rc = REAL(rename)(from, to), error = errno;
    if (is_ours && rc == 0) note(RENAME, from, to, 0, 0, NULL);
    if (is_ours) pthread_mutex_unlock(&lock);
    errno = error;
    return rc;
}

#define ON_NAME(name, kind, params, ...)                                                                \
    int name params                                                                                     \
    {                                                                                                   \
        const int is_ours = is_below(path);                                                             \
        if (is_ours) pthread_mutex_lock(&lock);                                                         \
        const int rc = REAL(name)(__VA_ARGS__), error = errno;                                          \
        if (is_ours && rc == 0) note(kind, path, NULL, 0, 0, NULL);                                     \
        if (is_ours) pthread_mutex_unlock(&lock);                                                       \
        errno = error;                                                                                  \
        return rc;                                                                                      \
    }
ON_NAME(unlink, UNLINK, (const char *path), path)
ON_NAME(remove, UNLINK, (const char *path), path)
ON_NAME(mkdir, FOLDER, (const char *path, mode_t mode), path, mode)

/* -- syncs ------------------------------------------------------------------------------------ */

static int sync_as(int fd, long number)
{
    char path[4096];
    const int is_ours = path_of(fd, path);
    uint64_t id = 0;
    if (is_ours) {
        pthread_mutex_lock(&lock);
        id = ++n_syncs;
        note(SYNC_BEGIN, path, NULL, id, 0, NULL);
        pthread_mutex_unlock(&lock);
    }
    const int rc = (int)syscall(number, fd), error = errno;
    if (is_ours && rc == 0) {
        pthread_mutex_lock(&lock);
        note(SYNC_END, path, NULL, id, 0, NULL);
        pthread_mutex_unlock(&lock);
    }
    errno = error;
    return rc;
}

int fsync(int fd)
{
    return sync_as(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return sync_as(fd, SYS_fdatasync);
}

int io_uring_queue_init(unsigned entries, void *ring, unsigned flags)
{
    return -ENOSYS;
}
