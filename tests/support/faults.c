/* faults.c -- to be preloaded into a server: calls fail at random while a test says so. The file SPOLIA_FAULTS, which
 * the test writes and this maps, says which: `one_in` of a kind is how many calls there are to one that fails (0:
 * none). Calls for files count only below the folder SPOLIA_FAULTS_DIR. io_uring is refused, so that all are seen.
 * Before a sanitizer's library (ASAN_OPTIONS=verify_asan_link_order=0) memory is the sanitizer's.
 * A disk with a set bandwidth: read_mb_s, of all threads together. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* OPEN: no file can be opened; CHANGE: none is cut, filled, renamed or removed; STAT: none can be looked at. NETWORK:
 * a connection that the server makes is refused, or breaks. */
enum kind { ALLOCATION, READ, WRITE, FULL, SHORT, SYNC, HANG, OPEN, CHANGE, STAT, NETWORK, KINDS = 16 };

/* After the n-th call: others go on; they fail, too; the process is killed before it. */
enum then { GO_ON, FAIL_ON, DIE };

typedef struct control {
    uint32_t one_in[KINDS];
    uint32_t n_failed[KINDS];
    uint32_t seed, hang_ms;
    int64_t clock_s;    /* the wall clock is ahead of the machine's by this */
    uint32_t read_mb_s; /* 0: as fast as the disk is */
    uint32_t nth;       /* the n-th call of a kind from now fails; 0: none */
    uint32_t nth_kind;
    uint32_t then;   /* an enum then */
    uint32_t killed; /* the process that was */
} control;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t at, size_t n);

/* Those of a sanitizer, if there is one. */
#define WEAK __attribute__((weak))
WEAK void *__interceptor_malloc(size_t n);
WEAK void *__interceptor_calloc(size_t n, size_t size);
WEAK void *__interceptor_realloc(void *p, size_t n);
WEAK int __interceptor_posix_memalign(void **p, size_t at, size_t n);
WEAK void __lsan_ignore_object(const void *p);
const char *__lsan_default_suppressions(void);

enum { MOST_FILES = 4096 };
static control none, *c = &none;
static unsigned char watched[MOST_FILES]; /* descriptors of files below the folder */
static const char *folder;
static uint64_t n_calls;

/* Two leaks of libcrypto (3.0). If it has no memory to copy an algorithm's name for a look-up in its map of names, it
 * takes the name for unknown, adds it again, and forgets the first entry. If a list cannot grow while the store of
 * providers is made, the store is lost. LeakSanitizer ignores what these two files allocate, and nothing else. */
static void *known_leak(void *p, const char *file)
{
    if (p && file && (strstr(file, "core_namemap.c") || strstr(file, "provider_core.c"))) __lsan_ignore_object(p);
    return p;
}

/* A leak of libzip (1.7): zip_fopen_index loses a source and its context if a later one of its allocations fails.
 * Stacks end in libzip, which keeps no frame pointers, so whatever it allocates is ignored. */
const char *__lsan_default_suppressions(void)
{
    return "leak:libzip.so";
}

static void *crypto_malloc(size_t n, const char *file, int line)
{
    return known_leak(malloc(n), file);
}

static void *crypto_realloc(void *p, size_t n, const char *file, int line)
{
    return known_leak(realloc(p, n), file);
}

static void crypto_free(void *p, const char *file, int line)
{
    free(p);
}

static void watch_libcrypto(void)
{
    int (*set)(void *(*)(size_t, const char *, int), void *(*)(void *, size_t, const char *, int),
               void (*)(void *, const char *, int));
    *(void **)&set = __lsan_ignore_object ? dlsym(RTLD_DEFAULT, "CRYPTO_set_mem_functions") : NULL;
    if (set) set(crypto_malloc, crypto_realloc, crypto_free);
}

/* libcrypto crashes if it has no memory for its first locks (docs/reliability.md): it makes them before calls fail. */
static void begin_libcrypto(void)
{
    void *(*fetch)(void *, const char *, const char *);
    void (*release)(void *);
    *(void **)&fetch = dlsym(RTLD_DEFAULT, "EVP_MD_fetch");
    *(void **)&release = dlsym(RTLD_DEFAULT, "EVP_MD_free");
    if (fetch && release) release(fetch(NULL, "SHA256", NULL));
}

__attribute__((constructor)) static void begin(void)
{
    watch_libcrypto();
    begin_libcrypto();
    const char *path = getenv("SPOLIA_FAULTS");
    folder = getenv("SPOLIA_FAULTS_DIR");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *c, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p != MAP_FAILED) c = p;
    if (fd >= 0) close(fd);
}

/* is_nth -- whether this is the one that `nth` said, or one after it. */
static int is_nth(enum kind k)
{
    if (__atomic_load_n(&c->nth_kind, __ATOMIC_RELAXED) != k) return 0;
    const enum then then = __atomic_load_n(&c->then, __ATOMIC_RELAXED);
    uint32_t n = __atomic_load_n(&c->nth, __ATOMIC_RELAXED);
    do {
        if (n == 0) return 0;
        if (n == 1 && then == FAIL_ON) break;
    } while (!__atomic_compare_exchange_n(&c->nth, &n, n - 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return n == 1;
}

static int is_drawn(enum kind k)
{
    const uint32_t one_in = __atomic_load_n(&c->one_in[k], __ATOMIC_RELAXED);
    if (!one_in) return 0;
    uint64_t x = __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED) + ((uint64_t)c->seed << 32);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % one_in == 0;
}

static int fails(enum kind k)
{
    const int nth = is_nth(k);
    if (!nth && !is_drawn(k)) return 0;
    __atomic_add_fetch(&c->n_failed[k], 1, __ATOMIC_RELAXED);
    if (nth && __atomic_load_n(&c->then, __ATOMIC_RELAXED) == DIE) {
        c->killed = (uint32_t)getpid();
        raise(SIGKILL);
    }
    return 1;
}

/* A sanitizer ends the program if it has no memory when a thread begins. */
static __thread int n_spared __attribute__((tls_model("initial-exec"))); /* the other model allocates */

static int no_memory(void)
{
    if (__interceptor_malloc && n_spared < 4) return n_spared++, 0;
    return fails(ALLOCATION);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* -- memory ----------------------------------------------------------------------------------- */

static void *without(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t n)
{
    if (no_memory()) return without();
    return __interceptor_malloc ? __interceptor_malloc(n) : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    if (no_memory()) return without();
    return __interceptor_calloc ? __interceptor_calloc(n, size) : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    if (n && no_memory()) return without();
    return __interceptor_realloc ? __interceptor_realloc(p, n) : __libc_realloc(p, n);
}

int posix_memalign(void **p, size_t at, size_t n)
{
    if (no_memory()) return ENOMEM;
    if (__interceptor_posix_memalign) return __interceptor_posix_memalign(p, at, n);
    void *q = __libc_memalign(at, n);
    if (!q) return ENOMEM;
    *p = q;
    return 0;
}

void *aligned_alloc(size_t at, size_t n)
{
    void *p;
    return posix_memalign(&p, at, n) == 0 ? p : without();
}

/* -- files ------------------------------------------------------------------------------------ */

static int is_below(const char *path)
{
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}

static int note(int fd, const char *path)
{
    if (fd >= 0 && fd < MOST_FILES) watched[fd] = is_below(path);
    return fd;
}

#define OPEN_CALL(name)                                                                                      \
    int name(const char *path, int flags, ...)                                                          \
    {                                                                                                   \
        va_list more;                                                                                   \
        va_start(more, flags);                                                                          \
        const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;                   \
        va_end(more);                                                                                   \
        if (is_below(path) && fails(OPEN)) return errno = EMFILE, -1;                                   \
        return note(REAL(name)(path, flags, mode), path);                                               \
    }
OPEN_CALL(open)
OPEN_CALL(open64)

/* hang -- for hang_ms, or until no call hangs any more. */
static void hang(void)
{
    for (uint32_t ms = 0; ms < c->hang_ms && __atomic_load_n(&c->one_in[HANG], __ATOMIC_RELAXED); ms += 5)
        usleep(5000);
}

static int is_watched(int fd)
{
    if (fd < 0 || fd >= MOST_FILES || !watched[fd]) return 0;
    if (fails(HANG)) hang();
    return 1;
}

/* pace -- returns when a disk of read_mb_s, which serves one read after another, would have read n bytes. */
static void pace(ssize_t n)
{
    static int64_t free_ns; /* when the disk has served all reads so far */
    const uint32_t rate = __atomic_load_n(&c->read_mb_s, __ATOMIC_RELAXED);
    if (!rate || n <= 0) return;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const int64_t now = t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
    int64_t last = __atomic_load_n(&free_ns, __ATOMIC_RELAXED), end;
    do end = (last > now ? last : now) + n * 1000 / rate;
    while (!__atomic_compare_exchange_n(&free_ns, &last, end, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    t = (struct timespec){.tv_sec = end / 1000000000, .tv_nsec = end % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

#define PREAD(name, type)                                                                               \
    ssize_t name(int fd, void *to, size_t n, type at)                                                   \
    {                                                                                                   \
        if (is_watched(fd) && fails(READ)) return errno = EIO, -1;                                      \
        if (n > 1 && is_watched(fd) && fails(SHORT)) n /= 2;                                            \
        const ssize_t got = REAL(name)(fd, to, n, at);                                                  \
        if (is_watched(fd)) pace(got);                                                                  \
        return got;                                                                                     \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)

#define PWRITE(name, type)                                                                              \
    ssize_t name(int fd, const void *from, size_t n, type at)                                           \
    {                                                                                                   \
        if (is_watched(fd) && fails(WRITE)) return errno = EIO, -1;                                     \
        if (is_watched(fd) && fails(FULL)) return errno = ENOSPC, -1;                                   \
        if (n > 1 && is_watched(fd) && fails(SHORT)) n /= 2;                                            \
        return REAL(name)(fd, from, n, at);                                                             \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define SYNC_CALL(name)                                                                                 \
    int name(int fd)                                                                                    \
    {                                                                                                   \
        if (is_watched(fd) && fails(SYNC)) return errno = EIO, -1;                                      \
        return REAL(name)(fd);                                                                          \
    }
SYNC_CALL(fsync)
SYNC_CALL(fdatasync)

static int is_stopped(const char *path, enum kind k)
{
    if (!is_below(path)) return 0;
    if (fails(HANG)) hang();
    return fails(k);
}

#define FILE_CALL(name, kind, more, arguments)                                                          \
    int name more                                                                                       \
    {                                                                                                   \
        if (is_watched(fd) && fails(kind)) return errno = EIO, -1;                                      \
        return REAL(name) arguments;                                                                    \
    }
#define PATH_CALL(name, kind, more, arguments)                                                          \
    int name more                                                                                       \
    {                                                                                                   \
        if (is_stopped(path, kind)) return errno = EIO, -1;                                             \
        return REAL(name) arguments;                                                                    \
    }
FILE_CALL(ftruncate, CHANGE, (int fd, off_t n), (fd, n))
FILE_CALL(ftruncate64, CHANGE, (int fd, off64_t n), (fd, n))
FILE_CALL(fallocate, CHANGE, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n))
FILE_CALL(fallocate64, CHANGE, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n))
FILE_CALL(fstat, STAT, (int fd, struct stat *st), (fd, st))
FILE_CALL(fstat64, STAT, (int fd, struct stat64 *st), (fd, st))
PATH_CALL(truncate, CHANGE, (const char *path, off_t n), (path, n))
PATH_CALL(truncate64, CHANGE, (const char *path, off64_t n), (path, n))
PATH_CALL(unlink, CHANGE, (const char *path), (path))
PATH_CALL(rename, CHANGE, (const char *path, const char *to), (path, to))
PATH_CALL(stat, STAT, (const char *path, struct stat *st), (path, st))
PATH_CALL(stat64, STAT, (const char *path, struct stat64 *st), (path, st))
PATH_CALL(lstat, STAT, (const char *path, struct stat *st), (path, st))
PATH_CALL(lstat64, STAT, (const char *path, struct stat64 *st), (path, st))

int io_uring_queue_init(unsigned entries, void *ring, unsigned flags)
{
    return -ENOSYS;
}

/* -- connections to others --------------------------------------------------------------------- */

static unsigned char connected[MOST_FILES]; /* descriptors that this process connected */

int connect(int fd, const struct sockaddr *to, socklen_t n)
{
    if (fails(NETWORK)) return errno = ECONNREFUSED, -1;
    if (fd >= 0 && fd < MOST_FILES) connected[fd] = 1;
    return REAL(connect)(fd, to, n);
}

int socket(int domain, int type, int protocol)
{
    const int fd = REAL(socket)(domain, type, protocol);
    if (fd >= 0 && fd < MOST_FILES) connected[fd] = 0;
    return fd;
}

int accept4(int fd, struct sockaddr *from, socklen_t *n, int flags)
{
    const int got = REAL(accept4)(fd, from, n, flags);
    if (got >= 0 && got < MOST_FILES) connected[got] = 0;
    return got;
}

static int is_broken(int fd)
{
    return fd >= 0 && fd < MOST_FILES && connected[fd] && fails(NETWORK);
}

#define SOCKET_CALL(name, more, arguments)                                                              \
    ssize_t name more                                                                                   \
    {                                                                                                   \
        if (is_broken(fd)) return errno = ECONNRESET, -1;                                               \
        return REAL(name) arguments;                                                                    \
    }
SOCKET_CALL(send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags))
SOCKET_CALL(recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
SOCKET_CALL(sendmsg, (int fd, const struct msghdr *m, int flags), (fd, m, flags))
SOCKET_CALL(recvmsg, (int fd, struct msghdr *m, int flags), (fd, m, flags))

/* -- the wall clock --------------------------------------------------------------------------- */

int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = REAL(clock_gettime)(id, t);
    if (rc == 0 && id == CLOCK_REALTIME) t->tv_sec += c->clock_s;
    return rc;
}

time_t time(time_t *out)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}

int gettimeofday(struct timeval *t, void *zone)
{
    int rc = REAL(gettimeofday)(t, zone);
    if (rc == 0) t->tv_sec += c->clock_s;
    return rc;
}
