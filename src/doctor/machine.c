#include <errno.h>
#if !SP_NO_URING
#include <liburing.h>
#endif
#include <linux/magic.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "compute/kernels.h"
#include "doctor/doctor_int.h"

#define GIB         ((double)(1 << 30))
#define MANY_FILES  2048
#define LITTLE_DISK ((size_t)1 << 30)

/* first_line -- of a small file of the system; false: it cannot be read. */
static bool first_line(const char *path, char *out, size_t size)
{
    FILE *f = fopen(path, "r");
    bool good = f && fgets(out, (int)size, f);
    if (f) fclose(f);
    if (good) out[strcspn(out, "\n")] = '\0';
    return good;
}

/* field_of -- the text after "name ... :" in a file such as /proc/cpuinfo. */
static bool field_of(const char *path, const char *name, char *out, size_t size)
{
    char line[4096];
    bool found = false;
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof line, f)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, name, strlen(name)) != 0) continue;
        snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " \t"));
        out[strcspn(out, "\n")] = '\0';
        found = true;
    }
    if (f) fclose(f);
    return found;
}

/* -- CPU -------------------------------------------------------------------------------------- */

static void say_cpu(doctor *d)
{
    static const char *const wanted[] = {"avx2",     "fma",      "f16c",        "avx_vnni", "avx512f", "avx512bw",
                                         "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16",
                                         "amx_tile", "amx_bf16", "asimddp", "i8mm"};
    char name[128] = "unknown", flags[4096] = "", has[160] = "";
    field_of("/proc/cpuinfo", "model name", name, sizeof name);
    if (field_of("/proc/cpuinfo", "flags", flags + 1, sizeof flags - 2) ||
        field_of("/proc/cpuinfo", "Features", flags + 1, sizeof flags - 2)) /* ARM */
        flags[0] = ' ';
    strcat(flags, " ");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", wanted[i]);
        if (strstr(flags, word)) strcat(strcat(has, " "), wanted[i]);
    }
    doctor_say(d, DOCTOR_OK, "cpu", NULL, "%s:%s", name,
               *has ? has : " none of AVX2, AVX-512, VNNI, dot products (ARM)");
}

/* say_rounding -- how finely products see their inputs: why two machines may answer differently. */
static void say_rounding(doctor *d, const sp_ops *ops)
{
    const int q8 = ops->pack_bytes ? ops->x_bits(SP_Q8_0) : 0;
    const int rest = ops->pack_bytes ? ops->x_bits(SP_Q4_0) : 0;
    json_t *f;
    if (d->o->ctx.machine.exact_products && (ops->rounds_weights || (rest > 0 && rest <= 8)))
        f = doctor_say(d, DOCTOR_OK, "rounding", NULL, "inputs of products have 15 bits or more (--exact-products)");
    else if (ops->rounds_weights)
        f = doctor_say(d, DOCTOR_OK, "rounding",
                       "a CPU with other kernels may choose another word where two are nearly as "
                       "likely; --exact-products computes with VNNI's kernels and is slower",
                       "inputs and weights of products have 8 bits and an exponent (bf16)%s",
                       ops->x_bits(SP_F16) ? ", F16 among them" : ", except beside F16 and F32");
    else if (rest == 0 || rest > 8)
        f = doctor_say(d, DOCTOR_OK, "rounding", NULL, "inputs of products have 16 bits or more");
    else
        f = doctor_say(d, DOCTOR_OK, "rounding",
                       "a CPU with other kernels may choose another word where two are nearly as "
                       "likely; --exact-products gives inputs 15 bits and is slower",
                       "inputs of products have %d bits with Q8_0 weights, %d with smaller ones", q8,
                       rest);
    doctor_number(f, "q8_0_bits", q8);
    doctor_number(f, "other_bits", rest);
}

/* other_kernels -- what else this CPU could compute with, or a better one, or NULL. */
static const char *other_kernels(const sp_machine_opts *m, const char *name)
{
    const sp_ops *amx;
    if (strcmp(name, "ref") == 0)
        return "plain C, many times slower: a CPU with AVX2, or ARM with dot products, and a build for it";
    if (m->cpu || strcmp(name, "vnni") != 0 || sp_ops_select("amx", &amx) != SP_OK) return NULL;
    return "--cpu amx reads prompts faster, but writes answers slower, except of BF16 weights (F16: --amx-f16)";
}

static void say_kernels(doctor *d)
{
    const sp_ops *ops;
    const sp_machine_opts *m = &d->o->ctx.machine;
    if (sp_ops_select(sp_ops_amx(m->cpu, m->amx_f16, m->amx_attend), &ops) != SP_OK) {
        doctor_say(d, DOCTOR_PROBLEM, "kernels", "leave --cpu, --amx-f16, --amx-attend and SPOLIA_CPU out", "%s",
                   sp_error_detail());
        return;
    }
    const bool is_ref = strcmp(ops->name, "ref") == 0;
    doctor_say(d, is_ref ? DOCTOR_WARNING : DOCTOR_OK, "kernels", other_kernels(m, ops->name), "%s", ops->name);
    say_rounding(d, ops);
}

/* quota_of -- CPUs that the control group allows; 0: no limit. */
static double quota_of(void)
{
    char line[64];
    double us, period;
    bool is_limited = first_line("/sys/fs/cgroup/cpu.max", line, sizeof line) &&
                      sscanf(line, "%lf %lf", &us, &period) == 2 && period > 0;
    return is_limited ? us / period : 0;
}

static void say_cores(doctor *d)
{
    cpu_set_t set;
    double load[1] = {0}, quota = quota_of();
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    int n_threads = d->o->ctx.machine.n_threads ? d->o->ctx.machine.n_threads : n;
    if (getloadavg(load, 1) < 1) load[0] = 0;
    const char *advice = NULL;
    if (quota > 0 && n_threads > quota)
        advice = "the control group allows less CPU than there are threads: set --threads to it";
    else if (n_threads > n)
        advice = "more threads than cores are slower: leave --threads out";
    else if (load[0] > 0.5 * n)
        advice = "other programs are busy: what is measured here is lower than it could be";
    char limit[48] = "";
    if (quota > 0) snprintf(limit, sizeof limit, "; the control group allows %.1f", quota);
    json_t *f = doctor_say(d, advice ? DOCTOR_WARNING : DOCTOR_OK, "cores", advice,
                           "%d, %d threads, load %.1f%s", n, n_threads, load[0], limit);
    doctor_number(f, "n_cores", n);
    doctor_number(f, "n_threads", n_threads);
}

/* -- memory ------------------------------------------------------------------------------------- */

static size_t kib_of(const char *name)
{
    char text[64];
    return field_of("/proc/meminfo", name, text, sizeof text) ? strtoull(text, NULL, 10) << 10 : 0;
}

/* cached_in_group -- bytes of cached files, which count for the group but are freed when memory is short, as those in
 * MemAvailable. */
static size_t cached_in_group(void)
{
    char line[128], name[64];
    unsigned long long bytes, all = 0;
    FILE *f = fopen("/sys/fs/cgroup/memory.stat", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%63s %llu", name, &bytes) == 2 &&
            (strcmp(name, "active_file") == 0 || strcmp(name, "inactive_file") == 0))
            all += bytes;
    if (f) fclose(f);
    return all;
}

/* in_group -- what the control group leaves of `bytes`. */
static size_t in_group(size_t bytes)
{
    char most[32], used[32];
    if (!first_line("/sys/fs/cgroup/memory.max", most, sizeof most) || most[0] == 'm') return bytes;
    size_t limit = strtoull(most, NULL, 10), taken = 0;
    if (first_line("/sys/fs/cgroup/memory.current", used, sizeof used))
        taken = strtoull(used, NULL, 10);
    const size_t cached = cached_in_group();
    taken -= cached < taken ? cached : taken;
    size_t left = limit > taken ? limit - taken : 0;
    return left < bytes ? left : bytes;
}

static void say_memory(doctor *d)
{
    size_t total = kib_of("MemTotal");
    d->available_bytes = in_group(kib_of("MemAvailable"));
    json_t *f = doctor_say(d, DOCTOR_OK, "memory", NULL, "%.1f of %.1f GiB available",
                           (double)d->available_bytes / GIB, (double)total / GIB);
    doctor_number(f, "available_bytes", (double)d->available_bytes);
}

static void say_huge_pages(doctor *d)
{
    char line[64];
    if (!first_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line)) return;
    bool never = strstr(line, "[never]") != NULL;
    doctor_say(d, never ? DOCTOR_WARNING : DOCTOR_OK, "huge pages",
               never ? "as root: echo madvise >/sys/kernel/mm/transparent_hugepage/enabled" : NULL,
               "%s", line);
}

/* -- the system and other programs ---------------------------------------------------------------- */

static void say_io_uring(doctor *d)
{
#if SP_NO_URING
    doctor_say(d, DOCTOR_OK, "io_uring", NULL, "not in this build: threads read the store");
#else
    struct io_uring ring;
    int failed = io_uring_queue_init(4, &ring, 0);
    if (failed == 0) io_uring_queue_exit(&ring);
    doctor_say(d, failed ? DOCTOR_WARNING : DOCTOR_OK, "io_uring",
               failed ? "allow it (many containers forbid it); until then threads read the store"
                      : NULL,
               "%s", failed ? strerror(-failed) : "allowed");
#endif
}

static void say_files(doctor *d)
{
    struct rlimit r = {0};
    if (getrlimit(RLIMIT_NOFILE, &r) != 0) return;
    bool few = r.rlim_cur < MANY_FILES;
    doctor_say(d, few ? DOCTOR_WARNING : DOCTOR_OK, "open files",
               few ? "serve takes 1024 connections: ulimit -n 4096, or LimitNOFILE= of systemd"
                   : NULL,
               "at most %llu", (unsigned long long)r.rlim_cur);
}

static bool is_in_path(const char *program)
{
    char path[4096];
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t n = strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", (int)n, at, program);
        if (access(path, X_OK) == 0) return true;
        at += n + (at[n] == ':');
    }
    return false;
}

static void say_programs(doctor *d)
{
    bool pdf = is_in_path("pdftotext"), fts = sqlite3_compileoption_used("ENABLE_FTS5") != 0;
    doctor_say(d, pdf ? DOCTOR_OK : DOCTOR_WARNING, "pdftotext",
               pdf ? NULL : "PDFs are skipped; Debian: apt install poppler-utils", "%s",
               pdf ? "found" : "not found");
    doctor_say(d, fts ? DOCTOR_OK : DOCTOR_PROBLEM, "SQLite",
               fts ? NULL : "index and search need a SQLite with FTS5", "%s, %s FTS5",
               sqlite3_libversion(), fts ? "with" : "without");
}

void doctor_machine(doctor *d)
{
    d->group = "machine";
    say_cpu(d);
    say_kernels(d);
    say_cores(d);
    say_memory(d);
    say_huge_pages(d);
    d->group = "system";
    say_io_uring(d);
    say_files(d);
    say_programs(d);
}

/* -- the store's folder --------------------------------------------------------------------------- */

/* existing -- the folder, or the nearest one above it that exists. */
static void existing(const char *dir, char *out, size_t size)
{
    snprintf(out, size, "%s", dir);
    while (access(out, F_OK) != 0) {
        char *slash = strrchr(out, '/');
        if (!slash)
            snprintf(out, size, ".");
        else if (slash == out)
            snprintf(out, size, "/");
        else
            *slash = '\0';
        if (!slash || slash == out) return;
    }
}

void doctor_store(doctor *d)
{
    const char *dir = d->o->ctx.tiers.store, *advice = NULL;
    char path[4096];
    struct statfs fs;
    struct stat s;
    d->group = "store";
    if (!dir) {
        doctor_say(d, DOCTOR_OK, "folder", "--store DIR keeps copies of documents after the end",
                   "none");
        return;
    }
    existing(dir, path, sizeof path);
    bool is_dir = stat(path, &s) == 0 && S_ISDIR(s.st_mode);
    if (!is_dir || statfs(path, &fs) != 0 || access(path, R_OK | W_OK | X_OK) != 0) {
        doctor_say(d, DOCTOR_PROBLEM, "folder", "choose a folder that you may write", "%s: %s",
                   path, is_dir ? strerror(errno) : "not a folder");
        return;
    }
    d->disk_bytes = (size_t)fs.f_bavail * (size_t)fs.f_bsize;
    if (fs.f_type == TMPFS_MAGIC) advice = "the folder is in memory: it is empty after a restart";
    if (d->disk_bytes < LITTLE_DISK) advice = "little room: choose another disk";
    json_t *f = doctor_say(d, advice ? DOCTOR_WARNING : DOCTOR_OK, "folder", advice,
                           "%s: %.1f GiB free", dir, (double)d->disk_bytes / GIB);
    doctor_number(f, "free_bytes", (double)d->disk_bytes);
}
