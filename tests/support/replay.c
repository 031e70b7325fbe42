/* replay.c -- the main function of a fuzz target without libFuzzer: runs it over the kept corpus, over beginnings of
 * its files, and over changed copies of them, which are the same ones in every run.
 *
 *   replay [N [SEED]]      N changed copies
 *
 * An input ends at a page that cannot be read, so that reading past its end is noticed without a sanitizer. One that
 * kills the program is written to $TMPDIR/TARGET.input. */
#include "support/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MOST_BYTES = 1 << 16, PAGE = 1 << 16 /* no machine has larger ones */, MOST_FILES = 4096, MOST_CUT = 512 };

typedef struct input {
    uint8_t *data;
    size_t n;
} input;

static input corpus[MOST_FILES];
static int n_corpus, n_changed = 5000;
static uint64_t seed = 1;
static uint8_t *memory; /* [MOST_BYTES], then a page that is not accessible */
static volatile size_t n_running; /* bytes of the input */
static char kept[512];

static void keep_input(int number)
{
    const int f = open(kept, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (f >= 0 && write(f, memory + MOST_BYTES - n_running, n_running) == (ssize_t)n_running)
        dprintf(2, "killed by signal %d; the input is in %s\n", number, kept);
    signal(number, SIG_DFL);
    raise(number);
}

/* cmocka has handlers of its own, once a test begins. */
static void watch(void)
{
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], keep_input);
}

static void run_input(const uint8_t *data, size_t n)
{
    uint8_t *at = memory + MOST_BYTES - n;
    memcpy(at, data, n);
    n_running = n;
    LLVMFuzzerTestOneInput(at, n);
}

/* -- changes -------------------------------------------------------------------------------- */

static const char marks[] = "\0\1\x7f\x80\xff\"\\{}[]<>&/:,\n 0-";
static const int64_t numbers[] = {0, 1, -1, 127, 128, 255, 256, 32767, 65535, 65536, INT32_MAX, INT32_MIN, UINT32_MAX,
                                  INT64_MAX, INT64_MIN};

static size_t below(size_t n)
{
    return n ? (size_t)check_random(&seed, (int)n) : 0;
}

static void change_byte(input *in)
{
    uint8_t *at = &in->data[below(in->n)];
    switch (below(3)) {
    case 0: *at ^= (uint8_t)(1 << below(8)); break;
    case 1: *at = (uint8_t)below(256); break;
    default: *at = (uint8_t)marks[below(sizeof marks)];
    }
}

static void change_number(input *in)
{
    const size_t width = (size_t)1 << below(4), at = below(in->n);
    const int64_t number = numbers[below(sizeof numbers / sizeof *numbers)];
    if (at + width <= in->n) memcpy(in->data + at, &number, width);
}

/* change_range -- a range is removed, or copied to another place: over what is there, or before it. */
static void change_range(input *in)
{
    const size_t from = below(in->n), n = 1 + below(in->n - from), to = below(in->n);
    switch (below(3)) {
    case 0:
        memmove(in->data + from, in->data + from + n, in->n - from - n);
        in->n -= n;
        break;
    case 1: memmove(in->data + to, in->data + from, to + n <= in->n ? n : in->n - to); break;
    default:
        if (in->n + n > MOST_BYTES) break;
        memmove(in->data + to + n, in->data + to, in->n - to);
        memmove(in->data + to, in->data + (from < to ? from : from + n), n);
        in->n += n;
    }
}

/* change_end -- it ends early, or as another input does. */
static void change_end(input *in)
{
    const input *other = &corpus[below((size_t)n_corpus)];
    const size_t at = below(in->n), from = below(other->n);
    in->n = at;
    if (below(2) || at + other->n - from > MOST_BYTES) return;
    memcpy(in->data + at, other->data + from, other->n - from);
    in->n = at + other->n - from;
}

static void change(input *in)
{
    static void (*const changes[])(input *) = {change_byte, change_byte, change_number, change_range, change_end};
    for (size_t i = 1 + below(4); i > 0 && in->n; i--) changes[below(sizeof changes / sizeof *changes)](in);
}

/* -- the tests ------------------------------------------------------------------------------ */

static void what_was_found_is_read(void **state)
{
    assert_true(n_corpus > 0);
    watch();
    run_input((const uint8_t *)"", 0);
    for (int i = 0; i < n_corpus; i++) run_input(corpus[i].data, corpus[i].n);
}

static void what_was_found_is_read_cut_short(void **state)
{
    watch();
    for (int i = 0; i < n_corpus; i++)
        for (size_t n = 1; n < corpus[i].n && n <= MOST_CUT; n++) run_input(corpus[i].data, n);
}

static void what_was_found_is_read_with_changes(void **state)
{
    input in = {malloc(MOST_BYTES), 0};
    assert_non_null(in.data);
    watch();
    for (int i = 0; i < n_changed; i++) {
        const input *from = &corpus[i % n_corpus];
        in.n = from->n;
        memcpy(in.data, from->data, in.n);
        change(&in);
        run_input(in.data, in.n);
    }
    free(in.data);
}

static void read_corpus(const char *dir)
{
    struct dirent **names;
    const int n = scandir(dir, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        FILE *f = names[i]->d_name[0] != '.' && n_corpus < MOST_FILES ? fopen(path, "rb") : NULL;
        if (f) {
            input *in = &corpus[n_corpus++];
            in->data = malloc(MOST_BYTES);
            if (!in->data) abort();
            in->n = fread(in->data, 1, MOST_BYTES, f);
            fclose(f);
        }
        free(names[i]);
    }
    if (n >= 0) free(names);
}

int main(int argc, char **argv)
{
    const char *tmp = getenv("TMPDIR");
    if (argc > 1) n_changed = atoi(argv[1]);
    if (argc > 2) seed = strtoull(argv[2], NULL, 10);
    snprintf(kept, sizeof kept, "%s/%s.input", tmp ? tmp : "/tmp", TARGET);
    memory = mmap(NULL, MOST_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + MOST_BYTES, PAGE, PROT_NONE) != 0) abort();
    read_corpus("tests/fuzz/corpus/" TARGET);
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_found_is_read),
                                       cmocka_unit_test(what_was_found_is_read_cut_short),
                                       cmocka_unit_test(what_was_found_is_read_with_changes)};
    const int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < n_corpus; i++) free(corpus[i].data);
    munmap(memory, MOST_BYTES + PAGE);
    return n_failed;
}
