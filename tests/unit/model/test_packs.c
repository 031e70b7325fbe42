/* test_packs.c -- packed weights are kept for the next start: the same bytes, checked, within a
 * budget, by one process at a time. */
#include "support/check.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compute/cpu.h"
#include "model/model.h"
#include "model/pack_file.h"
#include "support/far_device.h"
#include "support/packing.h"
#include "temp_folder.h"
#include "tiny_model.h"

static temp_folder files, packs; /* `packs` is flat and removed with what is in it */

static int make_folders(void **state)
{
    SP_UNUSED(state);
    temp_folder_make(&files);
    temp_folder_make(&packs);
    return 0;
}

static int remove_folders(void **state)
{
    SP_UNUSED(state);
    temp_folder_remove(&files);
    temp_folder_remove(&packs);
    return 0;
}

/* Paths: those of temp_folder_file are overwritten by the next one. */
typedef struct kept_path {
    char s[512];
} kept_path;

static kept_path keep_path(const char *s)
{
    kept_path p;
    strcpy(p.s, s);
    return p;
}

/* -- models and loads ----------------------------------------------------------------------- */

static const char *model_file(const char *name)
{
    sp_bytes file = {0};
    tiny_file(&(tiny_spec){.retype = "blk.0.ffn_up.weight", .type = GGUF_Q8_0}, &file);
    temp_folder_write(&files, name, file.v, file.n);
    sp_vec_fini(&file);
    return temp_folder_file(&files, name);
}

/* Every packed byte of a model, one matrix after the other. */
static void read_packed(sp_model *m, sp_device *d, sp_bytes *out)
{
    int i = 0;
    for (sp_mat *w; (w = sp_model_next_matrix(m, &i));) {
        size_t n = sp_device_weight_bytes(d, w, SP_WEIGHT_PRODUCTS);
        if (w != &m->embed && n) assert_ok(sp_bytes_add(out, w->packed, n));
    }
}

typedef struct loaded {
    size_t packed_bytes, mapped_bytes;
    sp_bytes weights;
} loaded;

static loaded load_on(const char *path, sp_device *d, const sp_pack_opts *o)
{
    loaded l = {0};
    sp_model *m;
    assert_ok(sp_model_open(path, &m));
    assert_ok(sp_model_load(m, d, o));
    l.packed_bytes = m->on_device.n_bytes;
    l.mapped_bytes = m->mapped_bytes;
    read_packed(m, d, &l.weights);
    sp_model_close(m);
    return l;
}

static sp_device *open_cpu(const char *kernels)
{
    sp_device *d = NULL;
    sp_err err = sp_device_open("cpu", &(sp_device_opts){.kernels = kernels, .n_threads = 2}, &d);
    if (err != SP_E_UNSUPPORTED) assert_ok(err);
    return d;
}

/* The plainest kernels of this machine that pack; ref reads weights as they are in the file. */
static loaded load(const char *path, const sp_pack_opts *o)
{
    sp_device *d = open_cpu(PACKING);
    if (!d) skip();
    loaded l = load_on(path, d, o);
    sp_device_close(d);
    return l;
}

static sp_pack_opts keep(void)
{
    return (sp_pack_opts){.dir = packs.path, .max_bytes = (size_t)1 << 30};
}

/* The names of the packs, and their number. */
typedef struct listing {
    char name[8][96];
    int n;
} listing;

static listing list(void)
{
    listing l = {0};
    DIR *d = opendir(packs.path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') {
            assert_in_range(l.n, 0, 7);
            snprintf(l.name[l.n++], sizeof l.name[0], "%.95s", e->d_name);
        }
    closedir(d);
    return l;
}

static void assert_packed(loaded l)
{
    assert_true(l.packed_bytes > 0 && l.mapped_bytes == 0);
    sp_vec_fini(&l.weights);
}

static void assert_mapped(loaded l)
{
    assert_true(l.packed_bytes == 0 && l.mapped_bytes > 0);
    sp_vec_fini(&l.weights);
}

static void assert_same(const loaded *a, const loaded *b)
{
    assert_int_equal(a->weights.n, b->weights.n);
    assert_memory_equal(a->weights.v, b->weights.v, a->weights.n);
}

/* -- two starts ----------------------------------------------------------------------------- */

static void the_second_start_maps_the_same_bytes(void **state)
{
    SP_UNUSED(state);
    static const char *const kernels[] = {"avx2", "avxvnni", "avx512", "vnni", "amx", "neon", "i8mm"};
    const sp_pack_opts o = keep();
    const kept_path model = keep_path(model_file("model.gguf"));
    int n_run = 0;
    for (size_t i = 0; i < SP_COUNT(kernels); i++) {
        sp_device *d = open_cpu(kernels[i]);
        if (!d) continue;
        loaded fresh = load_on(model.s, d, NULL), first = load_on(model.s, d, &o),
               second = load_on(model.s, d, &o);
        assert_true(fresh.packed_bytes > 0 && fresh.mapped_bytes == 0);
        assert_true(second.packed_bytes == 0 && second.mapped_bytes == fresh.packed_bytes);
        assert_same(&fresh, &first); /* first is mapped where other kernels have this layout */
        assert_same(&fresh, &second);
        sp_vec_fini(&fresh.weights);
        sp_vec_fini(&first.weights);
        sp_vec_fini(&second.weights);
        sp_device_close(d);
        n_run++;
    }
    if (n_run == 0) skip();
    assert_in_range(list().n, 1, n_run);
}

static void what_is_not_asked_for_is_not_written(void **state)
{
    SP_UNUSED(state);
    const kept_path model = keep_path(model_file("model.gguf"));
    sp_pack_opts small = keep(), tight = keep();
    small.min_bytes = (size_t)1 << 20;
    tight.max_bytes = 1000;
    assert_packed(load(model.s, NULL));
    assert_packed(load(model.s, &(sp_pack_opts){0}));
    assert_packed(load(model.s, &small));
    assert_packed(load(model.s, &tight));
    sp_device *ref = open_cpu("ref");
    const sp_pack_opts o = keep();
    loaded l = load_on(model.s, ref, &o); /* it packs nothing */
    assert_true(l.packed_bytes == 0 && l.mapped_bytes == 0);
    sp_device_close(ref);
    assert_int_equal(list().n, 0);
}

static void a_device_with_memory_of_its_own_maps_nothing(void **state)
{
    SP_UNUSED(state);
    const sp_pack_opts o = keep();
    sp_device *far = NULL;
    sp_model *m;
    if (far_device_open(&(sp_device_opts){.kernels = PACKING}, &far) != SP_OK) skip();
    for (int start = 0; start < 2; start++) {
        assert_ok(sp_model_open(model_file("model.gguf"), &m));
        assert_ok(sp_model_load(m, far, &o));
        assert_true(m->on_device.n_bytes > 0 && m->mapped_bytes == 0);
        sp_model_close(m);
    }
    sp_device_close(far);
    assert_int_equal(list().n, 0);
}

static void a_rewritten_model_has_a_pack_of_its_own(void **state)
{
    SP_UNUSED(state);
    const sp_pack_opts o = keep();
    const kept_path model = keep_path(model_file("model.gguf"));
    assert_packed(load(model.s, &o));
    const struct timespec later[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    assert_int_equal(utimensat(AT_FDCWD, model.s, later, 0), 0);
    assert_packed(load(model.s, &o));
    assert_int_equal(list().n, 2);
    assert_mapped(load(model.s, &o));
    const kept_path twin = keep_path(model_file("twin.gguf")); /* the same bytes */
    assert_packed(load(twin.s, &o));
    assert_int_equal(utimensat(AT_FDCWD, twin.s, later, 0), 0); /* and the same time */
    assert_packed(load(twin.s, &o));
}

static void split_keys(gguf_writer *w, int no)
{
    gw_number(w, "split.no", SP_GGUF_U16, (uint64_t)no, 2);
    gw_number(w, "split.count", SP_GGUF_U16, 2, 2);
    gw_number(w, "split.tensors.count", SP_GGUF_I32, 21, 4);
}

static void first_of_two(gguf_writer *w)
{
    split_keys(w, 0);
}

static void a_rewritten_part_of_a_model_counts(void **state)
{
    SP_UNUSED(state);
    const sp_pack_opts o = keep();
    const struct timespec later[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    gguf_writer w;
    sp_bytes file = {0};
    tiny_file(&(tiny_spec){.drop = "output.weight", .more = first_of_two}, &file);
    temp_folder_write(&files, "m-00001-of-00002.gguf", file.v, file.n);
    const kept_path model = keep_path(temp_folder_file(&files, "m-00001-of-00002.gguf"));
    gw_begin(&w, 3);
    split_keys(&w, 1);
    gw_tensor(&w, "output.weight", GGUF_F32, TINY_V, TINY_E, 1);
    gw_file(&w, &file);
    temp_folder_write(&files, "m-00002-of-00002.gguf", file.v, file.n);
    gw_end(&w);
    sp_vec_fini(&file);
    assert_packed(load(model.s, &o));
    assert_mapped(load(model.s, &o));
    assert_int_equal(utimensat(AT_FDCWD, temp_folder_file(&files, "m-00002-of-00002.gguf"), later, 0), 0);
    assert_packed(load(model.s, &o));
}

/* -- damage --------------------------------------------------------------------------------- */

static void flip(const char *path, off_t at)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static void a_damaged_pack_is_written_again(void **state)
{
    SP_UNUSED(state);
    const sp_pack_opts o = keep();
    const kept_path model = keep_path(model_file("model.gguf"));
    loaded good = load(model.s, &o);
    const kept_path pack = keep_path(temp_folder_file(&packs, list().name[0]));
    struct stat st;
    assert_int_equal(stat(pack.s, &st), 0);
    const off_t head[] = {0, 8, 12, 16, 47, 48, 56, 64}, weights = 2 << 20;
    for (size_t i = 0; i < SP_COUNT(head) + 3; i++) {
        const off_t at = i < SP_COUNT(head)        ? head[i]
                         : i == SP_COUNT(head)     ? weights
                         : i == SP_COUNT(head) + 1 ? (weights + st.st_size) / 2
                                                   : st.st_size - 1;
        flip(pack.s, at);
        loaded again = load(model.s, &o);
        assert_true(again.packed_bytes > 0);
        assert_same(&good, &again);
        sp_vec_fini(&again.weights);
        assert_mapped(load(model.s, &o));
    }
    const off_t sizes[] = {0, 1, 63, 64, weights, st.st_size - 1, st.st_size + 1};
    for (size_t i = 0; i < SP_COUNT(sizes); i++) {
        assert_int_equal(truncate(pack.s, sizes[i]), 0);
        assert_packed(load(model.s, &o));
        assert_mapped(load(model.s, &o));
    }
    sp_vec_fini(&good.weights);
}

static void a_foreign_pack_is_replaced(void **state)
{
    SP_UNUSED(state);
    const sp_pack_opts o = keep();
    const kept_path a = keep_path(model_file("a.gguf"));
    assert_packed(load(a.s, &o));
    const kept_path pack = keep_path(temp_folder_file(&packs, list().name[0]));
    const kept_path moved = keep_path(temp_folder_file(&packs, "moved"));
    assert_int_equal(rename(pack.s, moved.s), 0);
    assert_packed(load(model_file("b.gguf"), &o));
    for (int i = 0; i < list().n; i++) /* the pack of b under the name of a's */
        if (!strstr(list().name[i], "moved"))
            assert_int_equal(rename(temp_folder_file(&packs, list().name[i]), pack.s), 0);
    assert_packed(load(a.s, &o));
    assert_mapped(load(a.s, &o));
    if (geteuid() == 0) { /* only root can give a file away */
        assert_int_equal(chown(pack.s, 1, (gid_t)-1), 0);
        assert_packed(load(a.s, &o));
        assert_mapped(load(a.s, &o));
    }
    assert_int_equal(unlink(pack.s),
                     0); /* a folder in its place can be neither read nor replaced */
    assert_int_equal(mkdir(pack.s, 0700), 0);
    assert_packed(load(a.s, &o));
    assert_int_equal(rmdir(pack.s), 0);
}

/* -- the budget ----------------------------------------------------------------------------- */

static void age(const char *name, time_t used)
{
    const struct timespec times[2] = {{.tv_sec = used}, {.tv_sec = used}};
    assert_int_equal(utimensat(AT_FDCWD, temp_folder_file(&packs, name), times, 0), 0);
}

static void the_least_recently_used_packs_are_removed(void **state)
{
    SP_UNUSED(state);
    sp_pack_opts o = keep();
    const kept_path a = keep_path(model_file("a.gguf")), b = keep_path(model_file("b.gguf"));
    loaded first = load(a.s, &o);
    const kept_path pack_a = keep_path(list().name[0]);
    age(pack_a.s, 1000);
    o.max_bytes = 2 * sp_pack_file_bytes(first.packed_bytes);
    sp_vec_fini(&first.weights);
    assert_packed(load(b.s, &o));
    for (int i = 0; i < 2; i++)
        if (strcmp(list().name[i], pack_a.s) != 0) age(list().name[i], 2000);
    assert_mapped(load(a.s, &o)); /* used: now b's is the oldest */
    assert_packed(load(model_file("c.gguf"), &o));
    assert_int_equal(list().n, 2);
    assert_mapped(load(a.s, &o));
    assert_packed(load(b.s, &o));
    assert_int_equal(list().n, 2);
}

static void drafts_without_a_writer_are_removed(void **state)
{
    SP_UNUSED(state);
    const sp_pack_opts o = keep();
    char dead[128], alive[128];
    memset(dead, 'd', 64);
    memset(alive, 'a', 64);
    strcpy(dead + 64, ".pack.tmp");
    strcpy(alive + 64, ".pack.tmp");
    temp_folder_text(&packs, dead, "half");
    temp_folder_text(&packs, alive, "half");
    int fd = open(temp_folder_file(&packs, alive), O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    assert_packed(load(model_file("model.gguf"), &o));
    assert_int_not_equal(access(temp_folder_file(&packs, dead), F_OK), 0);
    assert_int_equal(access(temp_folder_file(&packs, alive), F_OK), 0);
    close(fd);
}

/* -- failures and company ------------------------------------------------------------------- */

static void a_folder_that_cannot_be_written_is_no_error(void **state)
{
    SP_UNUSED(state);
    const kept_path model = keep_path(model_file("model.gguf"));
    temp_folder_text(&packs, "file", "");
    const kept_path inside = keep_path(temp_folder_file(&packs, "file/packs"));
    assert_packed(load(model.s, &(sp_pack_opts){.dir = inside.s, .max_bytes = (size_t)1 << 30}));
    assert_int_equal(list().n, 1);
}

/* Others could put weights there, or read a private model's. */
static void a_folder_is_made_for_its_owner_alone(void **state)
{
    SP_UNUSED(state);
    const kept_path model = keep_path(model_file("model.gguf"));
    const sp_pack_opts o = keep();
    const mode_t before = umask(0);
    struct stat s;
    assert_int_equal(rmdir(packs.path), 0);
    assert_packed(load(model.s, &o));
    umask(before);
    assert_int_equal(stat(packs.path, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
}

static void a_full_disk_is_no_error(void **state)
{
    SP_UNUSED(state);
    const sp_pack_opts o = keep();
    const kept_path model = keep_path(model_file("model.gguf"));
    struct rlimit limit, before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = before;
    limit.rlim_cur = (2 << 20) + 1000; /* within the weights */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    loaded l = load(model.s, &o);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_packed(l);
    assert_int_equal(list().n, 0);
    assert_packed(load(model.s, &o));
    assert_mapped(load(model.s, &o));
}

static void processes_that_start_together_write_one_pack(void **state)
{
    SP_UNUSED(state);
    enum { N = 4, ROUNDS = 5 };
    const sp_pack_opts o = keep();
    const kept_path model = keep_path(model_file("model.gguf"));
    loaded fresh = load(model.s, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child[N];
        for (int i = 0; i < N; i++)
            if ((child[i] = fork()) == 0) {
                loaded l = load(model.s, &o);
                _exit(l.weights.n == fresh.weights.n &&
                              memcmp(l.weights.v, fresh.weights.v, fresh.weights.n) == 0
                          ? 0
                          : 1);
            }
        for (int i = 0; i < N; i++) {
            int status;
            assert_int_equal(waitpid(child[i], &status, 0), child[i]);
            assert_int_equal(status, 0);
        }
        assert_int_equal(list().n, 1);
        assert_mapped(load(model.s, &o));
        assert_int_equal(unlink(temp_folder_file(&packs, list().name[0])), 0);
    }
    sp_vec_fini(&fresh.weights);
}

static void memory_that_is_out_is_said(void **state)
{
    SP_UNUSED(state);
    const sp_pack_opts o = keep();
    sp_device *d = open_cpu(PACKING);
    if (!d) skip();
    for (int start = 0; start < 2; start++) { /* packs, then maps */
        sp_model *m;
        assert_ok(sp_model_open(model_file("model.gguf"), &m));
        assert_survives_faults(sp_model_load(m, d, &o), m->device == NULL && m->packs == NULL);
        sp_model_close(m);
        assert_packed(load(temp_folder_file(&files, "model.gguf"), NULL));
    }
    sp_device_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, make_folders, remove_folders)
        T(the_second_start_maps_the_same_bytes),
        T(what_is_not_asked_for_is_not_written),
        T(a_device_with_memory_of_its_own_maps_nothing),
        T(a_rewritten_model_has_a_pack_of_its_own),
        T(a_rewritten_part_of_a_model_counts),
        T(a_damaged_pack_is_written_again),
        T(a_foreign_pack_is_replaced),
        T(the_least_recently_used_packs_are_removed),
        T(drafts_without_a_writer_are_removed),
        T(a_folder_that_cannot_be_written_is_no_error),
        T(a_folder_is_made_for_its_owner_alone),
        T(a_full_disk_is_no_error),
        T(processes_that_start_together_write_one_pack),
        T(memory_that_is_out_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
