/* test_doctor.c -- `spolia doctor` without a model: findings as text and as JSON, and its exit codes. */
#include "doctor/doctor.h"

#include <dlfcn.h>
#include <jansson.h>
#include <linux/magic.h>
#include <math.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/caught.h"

static int code;
static const char *group;   /* a folder in place of /sys/fs/cgroup */
static const char *meminfo; /* a file in place of /proc/meminfo */

/* fopen -- of the whole program. */
FILE *fopen(const char *path, const char *mode)
{
    typedef FILE *opener(const char *, const char *);
    static const char real[] = "/sys/fs/cgroup/";
    static opener *next;
    char other[200];
    if (!next) next = (opener *)dlsym(RTLD_NEXT, "fopen");
    if (meminfo && strcmp(path, "/proc/meminfo") == 0) return next(meminfo, mode);
    if (!group || strncmp(path, real, strlen(real)) != 0) return next(path, mode);
    snprintf(other, sizeof other, "%s/%s", group, path + strlen(real));
    return next(other, mode);
}

/* doctor -- what it prints to `of`; its exit code is in `code`. */
static const char *doctor(FILE *of, char *a, char *b)
{
    char name[] = "doctor";
    char *argv[] = {name, a, b, NULL};
    caught c = catch_begin(of);
    code = doctor_main(1 + (a != NULL) + (b != NULL), argv);
    return catch_end(&c);
}

/* The sets of instructions that kernels are chosen by, as the kernel of the system names them. */
static void the_cpu_is_described(void **state)
{
    static const char *const sets[] = {"avx2",     "fma",      "f16c",        "avx_vnni",    "avx512f",
                                       "avx512bw", "avx512dq", "avx512vl",    "avx512_vnni", "avx512_bf16",
                                       "amx_tile", "amx_bf16", "asimddp",     "i8mm"};
    char flags[8192] = "", line[8192], said[8192], word[32];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "flags", 5) == 0 || strncmp(line, "Features", 8) == 0)
            snprintf(flags, sizeof flags, "%.*s ", (int)strcspn(line, "\n"), line);
    if (f) fclose(f);
    if (!*flags) skip();
    const char *cpu = strstr(doctor(stdout, NULL, NULL), "cpu");
    assert_non_null(cpu);
    snprintf(said, sizeof said, "%.*s ", (int)strcspn(cpu, "\n"), cpu);
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        snprintf(word, sizeof word, " %s ", sets[i]);
        if (!strstr(flags, word) != !strstr(said, word)) fail_msg("%s: %s", sets[i], said);
    }
}

static void findings_are_json(void **state)
{
    char flag[] = "--json";
    json_error_t e;
    size_t i;
    const json_t *f;
    bool works = true;
    json_t *told = json_loads(doctor(stdout, flag, NULL), 0, &e);
    assert_non_null(told);
    json_array_foreach(json_object_get(told, "findings"), i, f)
        works &= strcmp(json_string_value(json_object_get(f, "state")), "problem") != 0;
    assert_true(i > 5);
    assert_int_equal(json_is_true(json_object_get(told, "works")), works);
    assert_int_equal(code, !works);
    json_decref(told);
}

/* Groups have a line of their own, with an empty one before all but the first. */
static void findings_are_lines(void **state)
{
    const char *said = doctor(stdout, NULL, NULL);
    assert_int_equal(strncmp(said, "machine\n  ok ", 13), 0);
    assert_non_null(strstr(said, "\n\nsystem\n  "));
    assert_non_null(strstr(said, "\n\nsettings\n  ok       config file    "));
    assert_null(strstr(said, "\nmodel\n"));
    assert_in_range(code, 0, 1);
}

/* Few open files, more threads than cores, and a store in memory. */
static void what_is_slow_or_short_is_a_warning(void **state)
{
    char threads[] = "-t", many[] = "1000", one[] = "1", store[] = "--store", memory[] = "/dev/shm";
    struct rlimit was, less;
    struct statfs fs;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    for (int k = 0; k < 2 && was.rlim_max >= 2048; k++) {
        less = (struct rlimit){k ? 2048 : 2047, was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
        assert_non_null(strstr(doctor(stdout, NULL, NULL), k ? "  ok       open files     at most 2048\n"
                                                             : "  warning  open files     at most 2047\n"));
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    group = "/none"; /* no limits */
    assert_non_null(strstr(doctor(stdout, threads, many), "-> more threads than cores are slower"));
    assert_null(strstr(doctor(stdout, threads, one), "more threads than cores"));
    group = NULL;
    if (statfs(memory, &fs) == 0 && fs.f_type == TMPFS_MAGIC && fs.f_bavail * (size_t)fs.f_bsize > 1 << 30)
        assert_non_null(strstr(doctor(stdout, store, memory), "-> the folder is in memory"));
}

static void other_words_are_refused(void **state)
{
    char word[] = "word", option[] = "--jsn", flag[] = "--json", help[] = "--help";
    assert_string_equal(doctor(stderr, word, NULL), "spolia: doctor: unexpected \"word\"\n");
    assert_int_equal(code, 2);
    assert_non_null(strstr(doctor(stderr, option, NULL), "did you mean --json?"));
    assert_int_equal(code, 2);
    assert_non_null(strstr(doctor(stdout, help, NULL), "spolia doctor [-m MODEL] [options]"));
    assert_int_equal(code, 0);
    assert_non_null(strstr(doctor(stdout, flag, word), "{\"error\":"));
    assert_int_equal(code, 2);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* available -- bytes of memory; *cores is what is said of CPUs, which the caller frees. */
static double available(char **cores)
{
    char flag[] = "--json";
    size_t i;
    double bytes = -1;
    const json_t *f;
    json_t *told = json_loads(doctor(stdout, flag, NULL), 0, NULL);
    json_array_foreach(json_object_get(told, "findings"), i, f)
    {
        const char *name = json_string_value(json_object_get(f, "name"));
        if (strcmp(name, "memory") == 0) bytes = json_number_value(json_object_get(f, "available_bytes"));
        if (strcmp(name, "cores") == 0) *cores = strdup(json_string_value(json_object_get(f, "value")));
    }
    json_decref(told);
    return bytes;
}

/* A control group allows one CPU and a half, and has left 32 MB of its memory; or it has no limits. Cached files
 * are available, memory that programs share is not. */
static void limits_of_a_control_group_count(void **state)
{
    static const char *const names[] = {"cpu.max", "memory.max", "memory.current", "memory.stat"};
    char folder[] = "/tmp/spolia-group-XXXXXX", *cores, path[200];
    assert_non_null(mkdtemp(folder));
    put(folder, names[0], "150000 100000\n");
    put(folder, names[1], "64000000\n");
    put(folder, names[2], "32000000\n");
    group = folder;
    assert_true(available(&cores) == 32e6);
    assert_non_null(strstr(cores, "; the control group allows 1.5"));
    free(cores);
    put(folder, names[3], "anon 1000000\nfile 25000000\nshmem 5000000\ninactive_file 4000000\nactive_file 16000000\n");
    assert_true(available(&cores) == 52e6);
    free(cores);
    put(folder, names[0], "max 100000\n");
    put(folder, names[1], "max\n");
    assert_true(available(&cores) > 32e6);
    assert_null(strstr(cores, "control group"));
    free(cores);
    group = NULL;
    for (size_t i = 0; i < SP_COUNT(names); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(unlink(path), 0);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* What is free is less: caches can be emptied. */
static void available_memory_is_what_the_system_says(void **state)
{
    char folder[] = "/tmp/spolia-memory-XXXXXX", path[200], *cores;
    assert_non_null(mkdtemp(folder));
    put(folder, "meminfo", "MemTotal:        8388608 kB\nMemFree:          100000 kB\nMemAvailable:    3145728 kB\n"
                           "Cached:          2000000 kB\n");
    snprintf(path, sizeof path, "%s/meminfo", folder);
    meminfo = path;
    group = "/none"; /* no limits */
    assert_int_equal(round(available(&cores) / (1 << 20)), 3072);
    free(cores);
    assert_non_null(strstr(doctor(stdout, NULL, NULL), "3.0 of 8.0 GiB available"));
    group = meminfo = NULL;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

/* doctor_for -- what it prints of a store to a user who is not root. */
static const char *doctor_for(char *store)
{
    static char said[4096];
    int ends[2];
    char option[] = "--store";
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        if (geteuid() == 0 && setuid(65534) != 0) _exit(1);
        const char *text = doctor(stdout, option, store);
        _exit(write(ends[1], text, strlen(text)) < 0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(ends[0], said + n, sizeof said - 1 - n)) > 0;) n += (size_t)got;
    said[n] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return said;
}

/* A folder that may be read only, and one that does not exist: then the nearest above it counts. */
static void a_store_must_be_writable(void **state)
{
    char folder[] = "/tmp/spolia-doctor-XXXXXX", none[] = "/none/of/these", said[200];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0555), 0);
    snprintf(said, sizeof said, "%s: Permission denied", folder);
    assert_non_null(strstr(doctor_for(folder), said));
    assert_int_equal(rmdir(folder), 0);
    if (access("/", W_OK) == 0 && geteuid() != 0) skip();
    assert_non_null(strstr(doctor_for(none), " /: Permission denied"));
}

int main(void)
{
    setenv("SPOLIA_CONFIG", "", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(findings_are_lines),
        cmocka_unit_test(the_cpu_is_described),
        cmocka_unit_test(what_is_slow_or_short_is_a_warning),
        cmocka_unit_test(other_words_are_refused), /* from --json on, errors are JSON, too */
        cmocka_unit_test(findings_are_json),
        cmocka_unit_test(limits_of_a_control_group_count),
        cmocka_unit_test(available_memory_is_what_the_system_says),
        cmocka_unit_test(a_store_must_be_writable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
