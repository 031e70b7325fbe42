/* Vector search in stages: whatever the kind, the filter and the number of stages, the last stage is the search
 * without stages, ids and distances (RAGCache section 6, R6). */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "retrieve/vectors/vectors_int.h"
#include "support/check.h"
#include "support/folder.h"

enum { N = 1500, DIMS = 40, GROUPS = 30 };

static const char *const names[] = {"flat", "ivf", "hnsw"};
static float data[N][DIMS];
static int64_t ids[N];

static float number(uint64_t *seed)
{
    return (float)check_random(seed, 20001) / 10000 - 1;
}

/* Points around the middles of groups, of length 1; each tenth is equal to another one. */
static void make_data(void)
{
    uint64_t seed = 7;
    float middles[GROUPS][DIMS];
    for (int i = 0; i < GROUPS; i++)
        for (int k = 0; k < DIMS; k++) middles[i][k] = number(&seed);
    for (int i = 0; i < N; i++) {
        double length = 0;
        for (int k = 0; k < DIMS; k++) {
            data[i][k] = middles[i % GROUPS][k] + number(&seed) * 0.7f;
            if (i % 10 == 9) data[i][k] = data[i - 9][k];
            length += (double)data[i][k] * data[i][k];
        }
        for (int k = 0; k < DIMS && i % 10 != 9; k++) data[i][k] /= (float)sqrt(length);
        ids[i] = 3 * i + 5;
    }
}

static sp_vectors *make(sp_vectors_kind kind)
{
    sp_vectors *x;
    assert_ok(sp_vectors_create(&(sp_vectors_opts){.kind = kind, .n_dims = DIMS}, &x));
    assert_ok(sp_vectors_train(x, data[0], N, NULL));
    assert_ok(sp_vectors_add(x, ids, data[0], N, NULL));
    assert_int_equal(sp_vectors_count(x), N);
    return x;
}

/* What the stages said. */
typedef struct heard {
    sp_near v[N];
    int n, n_stages, n_last, stop_at;
} heard;

static bool hear(const sp_near *v, int n, bool last, void *user)
{
    heard *h = user;
    memcpy(h->v, v, (size_t)n * sizeof *v);
    h->n = n;
    h->n_stages++;
    h->n_last += last;
    for (int i = 1; i < n; i++) assert_true(v[i - 1].distance <= v[i].distance);
    return h->n_stages != h->stop_at;
}

static void assert_same(const sp_near *a, int n_a, const sp_near *b, int n_b)
{
    assert_int_equal(n_a, n_b);
    for (int i = 0; i < n_a; i++) {
        assert_int_equal(a[i].id, b[i].id);
        assert_memory_equal(&a[i].distance, &b[i].distance, sizeof(float));
    }
}

/* product -- as retrieve/vectors/distance.c defines it: 64 partial sums, the rest in steps of 16 into the first of
 * them; the quarters in pairs, each half onto the other. */
static float product(const float *a, const float *b, size_t n)
{
    volatile float sum[64] = {0}, rest = 0; /* volatile: nothing is contracted or reordered */
    size_t i = 0;
    for (; i + 64 <= n; i += 64)
        for (size_t k = 0; k < 64; k++) {
            const volatile float x = a[i + k] * b[i + k];
            sum[k] += x;
        }
    for (; i + 16 <= n; i += 16)
        for (size_t k = 0; k < 16; k++) {
            const volatile float x = a[i + k] * b[i + k];
            sum[k] += x;
        }
    for (; i < n; i++) {
        const volatile float x = a[i] * b[i];
        rest += x;
    }
    for (size_t k = 0; k < 16; k++) {
        const volatile float x = sum[k] + sum[16 + k], y = sum[32 + k] + sum[48 + k];
        sum[k] = x + y;
    }
    for (size_t half = 8; half; half /= 2)
        for (size_t k = 0; k < half; k++) sum[k] += sum[half + k];
    return sum[0] + rest;
}

/* Graphs and rankings are the same on every machine: the bits of a distance are those of its definition. */
static void a_distance_has_the_bits_of_its_definition(void **state)
{
    uint64_t seed = 11;
    float a[700], b[700];
    for (int i = 0; i < 3000; i++) {
        const size_t n = 1 + check_random(&seed, 700);
        for (size_t k = 0; k < n; k++) a[k] = number(&seed), b[k] = number(&seed);
        const float here = sp_product_best()(a, b, n), defined = product(a, b, n);
        assert_memory_equal(&here, &defined, sizeof here);
    }
}

/* exhaustive -- by comparing all that are allowed, and not removed. */
static int exhaustive(const sp_vectors_query *q, int64_t first_id, sp_near *out)
{
    sp_vectors *x;
    int n;
    const size_t from = (size_t)(first_id - ids[0]) / 3;
    assert_ok(sp_vectors_create(&(sp_vectors_opts){.kind = SP_VECTORS_FLAT, .n_dims = DIMS}, &x));
    for (size_t i = from; i < N; i++) {
        bool allowed = !q->allowed;
        for (size_t k = 0; k < q->n_allowed && !allowed; k++) allowed = q->allowed[k] == ids[i];
        if (allowed) assert_ok(sp_vectors_add(x, &ids[i], data[i], 1, NULL));
    }
    assert_ok(sp_vectors_search(x, &(sp_vectors_query){.v = q->v, .k = q->k}, out, &n));
    sp_vectors_destroy(x);
    return n;
}

/* check_query -- staged against unstaged; returns how many of the truly nearest are found. */
static int check_query(const sp_vectors *x, sp_vectors_query q, int64_t first_id, int *n_true)
{
    static sp_near plain[N], staged[N], all[N];
    static heard h;
    int n, n_staged, found = 0;
    h = (heard){0};
    assert_ok(sp_vectors_search(x, &q, plain, &n));
    q.on_stage = hear;
    q.user = &h;
    assert_ok(sp_vectors_search(x, &q, staged, &n_staged));
    assert_same(staged, n_staged, plain, n);
    assert_same(h.v, h.n, plain, n);
    assert_int_equal(h.n_last, 1);
    assert_true(q.n_stages < 2 || h.n_stages > 1 || n == 0 || q.allowed);
    *n_true = exhaustive(&q, first_id, all);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < *n_true; k++) found += plain[i].id == all[k].id;
    return found;
}

static void the_last_stage_is_the_search_without_stages(void **state)
{
    uint64_t seed = 11;
    static int64_t allowed[N];
    for (sp_vectors_kind kind = SP_VECTORS_FLAT; kind <= SP_VECTORS_HNSW; kind++) {
        sp_vectors *x = make(kind);
        int found = 0, n_all = 0;
        for (int i = 0; i < 120; i++) {
            float v[DIMS];
            size_t n_allowed = 0;
            for (int k = 0; k < DIMS; k++) v[k] = data[check_random(&seed, N)][k] + number(&seed) * 0.02f;
            if (i % 2) memcpy(v, data[check_random(&seed, N)], sizeof v); /* of one of them */
            for (int k = 0; k < N; k++)
                if (i % 3 == 0 && check_random(&seed, 5) == 0) allowed[n_allowed++] = ids[k];
            if (i == 60) assert_ok(sp_vectors_remove(x, ids, N / 3)); /* from here on with removed ones */
            const sp_vectors_query q = {.v = v,
                                        .k = 1 + check_random(&seed, 20),
                                        .breadth = i % 4 == 1 ? 1 + check_random(&seed, 40) : 0,
                                        .allowed = i % 3 == 0 ? allowed : NULL,
                                        .n_allowed = n_allowed,
                                        .n_stages = check_random(&seed, 9)};
            int n_true;
            int n = check_query(x, q, i < 60 ? ids[0] : ids[N / 3], &n_true);
            if (q.breadth == 0 && i % 2) found += n, n_all += n_true;
            /* with a filter all clusters are visited, and without a breadth all that it allows */
            if (kind == SP_VECTORS_FLAT || (q.allowed && (kind == SP_VECTORS_IVF || !q.breadth)))
                assert_int_equal(n, n_true);
        }
        printf("%s: %d of %d nearest\n", names[kind], found, n_all);
        assert_true(found * 10 >= n_all * 8);
        sp_vectors_destroy(x);
    }
}

/* So many are allowed that the graph is searched, which leads through what is hidden. */
static void a_filter_of_many_hides_the_others(void **state)
{
    int64_t allowed[N];
    sp_near out[10];
    sp_vectors *x = make(SP_VECTORS_HNSW);
    for (int far = 0; far < 2; far++) {
        size_t n_allowed = 0;
        for (int i = 0; i < N; i++)
            if (far ? i % GROUPS >= GROUPS / 2 : i % 2) allowed[n_allowed++] = ids[i];
        for (int i = 0; i < N; i += 7)
            for (int stages = 0; stages < 4; stages += 3) {
                int n;
                const sp_vectors_query q = {.v = data[i],
                                            .k = 10,
                                            .breadth = 10,
                                            .allowed = allowed,
                                            .n_allowed = n_allowed,
                                            .n_stages = stages};
                assert_ok(sp_vectors_search(x, &q, out, &n));
                assert_int_equal(n, 10);
                for (int k = 0; k < n; k++) assert_true(sp_is_allowed(&q, out[k].id));
            }
    }
    sp_vectors_destroy(x);
}

static void of_equal_vectors_the_first_is_found(void **state)
{
    for (sp_vectors_kind kind = SP_VECTORS_FLAT; kind <= SP_VECTORS_HNSW; kind++) {
        sp_vectors *x = make(kind);
        for (int i = 0; i < N; i += 100) {
            sp_near out[1];
            int n;
            assert_ok(sp_vectors_search(x, &(sp_vectors_query){.v = data[i], .k = 1, .breadth = 200}, out, &n));
            assert_int_equal(n, 1);
            assert_int_equal(out[0].id, ids[i]); /* not ids[i + 9] */
        }
        sp_vectors_destroy(x);
    }
}

static void all_clusters_are_all_vectors(void **state)
{
    sp_vectors *x = make(SP_VECTORS_IVF);
    for (int i = 0; i < N; i += 100) {
        int n_true;
        const sp_vectors_query q = {.v = data[i], .k = 12, .breadth = N, .n_stages = 5};
        int n = check_query(x, q, ids[0], &n_true);
        assert_int_equal(n, n_true);
    }
    sp_vectors_destroy(x);
}

/* 2^16 is the number of bits that a filter is first compared by: ids that differ by it share one. */
static void ids_that_are_far_apart_are_told_apart(void **state)
{
    for (sp_vectors_kind kind = SP_VECTORS_FLAT; kind <= SP_VECTORS_HNSW; kind++) {
        sp_vectors *x;
        int64_t far[300], odd[150];
        sp_near out[300];
        int n;
        for (int i = 0; i < 300; i++) far[i] = 7 + (int64_t)i * 65536;
        for (int i = 0; i < 150; i++) odd[i] = far[2 * i + 1];
        assert_ok(sp_vectors_create(&(sp_vectors_opts){.kind = kind, .n_dims = DIMS}, &x));
        assert_ok(sp_vectors_train(x, data[0], 300, NULL));
        assert_ok(sp_vectors_add(x, far, data[0], 300, NULL));
        assert_ok(sp_vectors_search(
            x, &(sp_vectors_query){.v = data[0], .k = 300, .allowed = odd, .n_allowed = 150}, out, &n));
        assert_int_equal(n, 150);
        for (int i = 0; i < n; i++) assert_int_equal((out[i].id - 7) / 65536 % 2, 1);
        sp_vectors_destroy(x);
    }
}

static void a_search_can_end_at_a_stage(void **state)
{
    for (sp_vectors_kind kind = SP_VECTORS_FLAT; kind <= SP_VECTORS_HNSW; kind++) {
        sp_vectors *x = make(kind);
        static heard h;
        static sp_near out[N];
        int n = -1;
        h = (heard){.stop_at = 2};
        const sp_vectors_query q = {.v = data[3], .k = 4, .n_stages = 6, .on_stage = hear, .user = &h};
        assert_int_equal(sp_vectors_search(x, &q, out, &n), SP_E_CANCELED);
        assert_int_equal(h.n_stages, 2);
        assert_int_equal(n, -1);
        sp_vectors_destroy(x);
    }
}

static void nothing_is_found_among_nothing(void **state)
{
    for (sp_vectors_kind kind = SP_VECTORS_FLAT; kind <= SP_VECTORS_HNSW; kind += 2) {
        sp_vectors *x;
        sp_near out[2];
        heard *h = calloc(1, sizeof *h);
        int n = -1;
        assert_ok(sp_vectors_create(&(sp_vectors_opts){.kind = kind, .n_dims = DIMS}, &x));
        const sp_vectors_query q = {.v = data[0], .k = 2, .n_stages = 3, .on_stage = hear, .user = h};
        assert_ok(sp_vectors_search(x, &q, out, &n));
        assert_int_equal(n, 0);
        assert_int_equal(h->n_last, 1);
        sp_vectors_destroy(x);
        free(h);
    }
}

/* -- files ------------------------------------------------------------------------------------- */

static void a_graph_in_a_file_finds_the_same(void **state)
{
    char folder[200], path[300];
    sp_vectors *x = make(SP_VECTORS_HNSW), *y;
    sp_near a[10], b[10];
    int n_a, n_b;
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/graph", folder);
    assert_ok(sp_vectors_remove(x, ids, 50));
    assert_ok(sp_vectors_write(x, path));
    assert_ok(sp_vectors_create(&(sp_vectors_opts){.kind = SP_VECTORS_HNSW, .n_dims = DIMS}, &y));
    assert_ok(sp_vectors_read(y, path));
    assert_int_equal(sp_vectors_count(y), N - 50);
    assert_ok(sp_vectors_remove(y, ids, 50)); /* they are gone */
    sp_vector_ids left = {0};
    assert_ok(sp_vectors_ids(y, &left));
    assert_int_equal(left.n, N - 50);
    assert_memory_equal(left.v, ids + 50, (N - 50) * sizeof *ids);
    sp_vec_fini(&left);
    for (int i = 0; i < N; i += 50) {
        const sp_vectors_query q = {.v = data[i], .k = 10};
        assert_ok(sp_vectors_search(x, &q, a, &n_a));
        assert_ok(sp_vectors_search(y, &q, b, &n_b));
        assert_same(a, n_a, b, n_b);
    }
    assert_ok(sp_vectors_add(y, ids, data[0], 50, NULL)); /* what was removed comes back */
    assert_int_equal(sp_vectors_count(y), N);
    sp_vectors_destroy(x);
    sp_vectors_destroy(y);
    remove_folder(folder);
}

/* Also where only the last bytes, links of upper layers, did not fit. */
static void a_graph_that_is_not_written_whole_is_an_error(void **state)
{
    char folder[200], path[300];
    sp_vectors *x = make(SP_VECTORS_HNSW);
    struct stat st;
    struct rlimit before;
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/graph", folder);
    assert_ok(sp_vectors_write(x, path));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)st.st_size - 1, before.rlim_max}), 0);
    const sp_err err = sp_vectors_write(x, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(err, SP_E_IO);
    sp_vectors_destroy(x);
    remove_folder(folder);
}

/* A file with any byte changed is refused, or searched without harm (sanitizers look on). */
static void a_damaged_graph_does_no_harm(void **state)
{
    char folder[200], path[300];
    sp_vectors *x = make(SP_VECTORS_HNSW), *y;
    uint64_t seed = 5;
    int n_refused = 0;
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/graph", folder);
    assert_ok(sp_vectors_write(x, path));
    FILE *f = fopen(path, "rb");
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    unsigned char *bytes = malloc((size_t)size);
    rewind(f);
    assert_int_equal(fread(bytes, 1, (size_t)size, f), size);
    fclose(f);
    for (int i = 0; i < 120; i++) {
        const long at = i < 92 ? i : check_random(&seed, (int)size), cut = i % 30 == 29 ? at : size;
        bytes[at] ^= 0x80;
        f = fopen(path, "wb");
        fwrite(bytes, 1, (size_t)cut, f);
        fclose(f);
        bytes[at] ^= 0x80;
        assert_ok(sp_vectors_create(&(sp_vectors_opts){.kind = SP_VECTORS_HNSW, .n_dims = DIMS}, &y));
        if (sp_vectors_read(y, path) == SP_OK) {
            sp_near out[5];
            int n;
            assert_ok(sp_vectors_search(y, &(sp_vectors_query){.v = data[i], .k = 5}, out, &n));
        } else {
            n_refused++;
        }
        sp_vectors_destroy(y);
    }
    assert_true(n_refused >= 90);
    free(bytes);
    sp_vectors_destroy(x);
    remove_folder(folder);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* A link of an upper layer to a node that is not there, or a byte after the end: the file of another program. */
static void a_graph_with_a_link_to_nowhere_is_refused(void **state)
{
    enum { HEAD = 96, EACH_AT = 24 };
    char folder[200], path[300];
    sp_vectors *x = make(SP_VECTORS_HNSW);
    sp_bytes file = {0};
    uint64_t size_each;
    uint32_t size, low = 0, linked = 0;
    make_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/graph", folder);
    assert_ok(sp_vectors_write(x, path));
    assert_ok(sp_file_read(path, SIZE_MAX, &file));
    memcpy(&size_each, file.v + EACH_AT, sizeof size_each);
    char *at = file.v + HEAD + N * size_each;
    for (uint32_t i = 0; i < N; i++, at += sizeof size + size) {
        memcpy(&size, at, sizeof size);
        if (!size)
            low = i;
        else if (at[4] && !linked)
            linked = (uint32_t)(at + 8 - file.v); /* after the size and the count */
    }
    assert_true(linked && low);
    assert_ptr_equal(at, file.v + file.n);
    assert_ok(sp_vec_reserve(&file, 1));
    file.v[file.n] = 0;
    write_file(path, file.v, file.n + 1);
    assert_int_equal(sp_vectors_read(x, path), SP_E_FORMAT);
    memcpy(file.v + linked, &low, sizeof low);
    write_file(path, file.v, file.n);
    assert_int_equal(sp_vectors_read(x, path), SP_E_FORMAT);
    sp_vec_fini(&file);
    sp_vectors_destroy(x);
    remove_folder(folder);
}

static void many_threads_add_what_one_adds(void **state)
{
    sp_team *team;
    assert_ok(sp_team_create(&team, 4));
    for (sp_vectors_kind kind = SP_VECTORS_FLAT; kind <= SP_VECTORS_HNSW; kind++) {
        sp_vectors *x;
        sp_vector_ids all = {0};
        assert_ok(sp_vectors_create(&(sp_vectors_opts){.kind = kind, .n_dims = DIMS, .n_clusters = 20}, &x));
        assert_ok(sp_vectors_train(x, data[0], N, team));
        assert_ok(sp_vectors_add(x, ids, data[0], N, team));
        assert_ok(sp_vectors_ids(x, &all));
        assert_int_equal(all.n, N);
        assert_memory_equal(all.v, ids, sizeof ids);
        sp_vec_fini(&all);
        sp_vectors_destroy(x);
    }
    sp_team_destroy(team);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_distance_has_the_bits_of_its_definition),
        cmocka_unit_test(the_last_stage_is_the_search_without_stages),
        cmocka_unit_test(a_filter_of_many_hides_the_others),
        cmocka_unit_test(of_equal_vectors_the_first_is_found),
        cmocka_unit_test(all_clusters_are_all_vectors),
        cmocka_unit_test(ids_that_are_far_apart_are_told_apart),
        cmocka_unit_test(a_search_can_end_at_a_stage),
        cmocka_unit_test(nothing_is_found_among_nothing),
        cmocka_unit_test(a_graph_in_a_file_finds_the_same),
        cmocka_unit_test(a_graph_that_is_not_written_whole_is_an_error),
        cmocka_unit_test(a_damaged_graph_does_no_harm),
        cmocka_unit_test(a_graph_with_a_link_to_nowhere_is_refused),
        cmocka_unit_test(many_threads_add_what_one_adds),
    };
    make_data();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
