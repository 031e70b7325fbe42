/* test_stores.c -- a store without a model (serve/tiers/stores.c): two namespaces in one folder, what is shown of
 * copies, checks, room and archives. */
#include "support/check.h"
#include "support/stored.h"

#include "../store/tier.h"

#include "spolia.h"

enum { N = 4 /* copies of each namespace: two plain ones, two fused ones */ };

static sp_err put_noise(sp_tier *t, const sp_digest *space, uint32_t number, sp_copy_kind kind)
{
    noise c;
    noise_init(&c, number, 1);
    c.record.space = *space;
    c.record.facts.kind = kind;
    const sp_tier_job job = noise_put_job(&c);
    return sp_tier_run(t, &job);
}

/* fill -- numbers first .. first + N - 1. */
static void fill(const char *dir, const sp_digest *space, uint32_t first)
{
    sp_tier *t;
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = space, .reserve_bytes = -1}, &t));
    for (uint32_t i = first; i < first + N; i++) assert_ok(put_noise(t, space, i, i % 2));
    sp_tier_close(t);
}

static sp_store *open_filled(const char *dir)
{
    sp_store *s;
    fill(dir, &noise_space, 0x10);
    fill(dir, &other_noise_space, 0x20);
    assert_ok(sp_store_open(dir, SP_STORE_WRITE, &s));
    return s;
}

typedef struct seen {
    int64_t n, done, total, most;
    int n_head;
} seen;

static bool on_copy(int64_t done, int64_t total, void *user)
{
    seen *s = user;
    assert_int_equal(done, ++s->n);
    assert_int_equal(total, s->total);
    return s->n < s->most;
}

static void all_copies_are_verified(void **state)
{
    sp_store_stats stats;
    sp_store *s = open_filled(*state);
    seen all = {.total = 2 * N, .most = 100}, one = {.total = 2 * N, .most = 1};
    assert_ok(sp_store_verify(s, on_copy, &all, &stats));
    assert_true(all.n == 2 * N && stats.n_copies == 2 * N && stats.n_damaged == 0);
    assert_fails(sp_store_verify(s, on_copy, &one, &stats), SP_E_CANCELED, "interrupted");
    assert_int_equal(one.n, 1);
    sp_store_close(s);
}

static sp_err note_head(const sp_store_copy *c, void *user)
{
    seen *s = user;
    s->n++;
    s->n_head = c->n_head;
    assert_int_equal(c->n_before, NOISE_BEFORE);
    return SP_OK;
}

/* A path copy continues what precedes it: it has no head. */
static void of_a_copy_its_header_is_shown(void **state)
{
    sp_tier *t;
    sp_store *s;
    seen plain = {0}, path = {0};
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = *state, .space = &noise_space, .reserve_bytes = -1}, &t));
    assert_ok(put_noise(t, &noise_space, 0x31, SP_COPY_PLAIN));
    assert_ok(put_noise(t, &noise_space, 0x32, SP_COPY_PATH));
    sp_tier_close(t);
    assert_ok(sp_store_open(*state, SP_STORE_READ, &s));
    assert_ok(sp_store_show(s, "31", note_head, &plain));
    assert_ok(sp_store_show(s, "32", note_head, &path));
    assert_true(plain.n == 1 && plain.n_head == 1 && path.n == 1 && path.n_head == 0);
    assert_fails(sp_store_show(s, "3", note_head, &plain), SP_E_ARG, "several ids");
    assert_fails(sp_store_show(s, "4", note_head, &plain), SP_E_NOTFOUND, "begins with");
    sp_store_close(s);
}

/* A program of a later version may have written them. */
static void copies_of_another_version_do_not_end_a_check(void **state)
{
    sp_store_stats stats;
    sp_store_close(open_filled(*state));
    stored_flip(*state, SP_COPY_FUSED, 9, 0);
    stored_damage(*state, SP_COPY_PLAIN);
    sp_store *s;
    assert_ok(sp_store_open(*state, SP_STORE_WRITE, &s));
    seen all = {.total = 2 * N, .most = 100};
    assert_fails(sp_store_verify(s, on_copy, &all, &stats), SP_E_UNSUPPORTED, "4 of 8 copies cannot be checked, such");
    assert_non_null(strstr(sp_error_detail(), ": a copy of version 260, "));
    assert_int_equal(all.n, 2 * N);
    assert_ok(sp_store_stats_of(s, &stats));
    assert_true(stats.n_copies == N && stats.n_damaged == N); /* those of another version stay */
    sp_store_close(s);
}

/* Another process can begin to write it meanwhile. */
static void a_store_that_is_read_is_not_locked(void **state)
{
    sp_store *reader, *writer;
    sp_store_stats stats;
    sp_store_close(open_filled(*state));
    assert_ok(sp_store_open(*state, SP_STORE_READ, &reader));
    assert_ok(sp_store_open(*state, SP_STORE_WRITE, &writer));
    assert_ok(sp_store_stats_of(reader, &stats));
    assert_true(stats.n_copies == 2 * N && !stats.writes);
    sp_store_close(writer);
    sp_store_close(reader);
}

static void room_is_shared_by_the_namespaces(void **state)
{
    sp_store_stats all, less, trimmed;
    int64_t n;
    sp_store *s = open_filled(*state);
    assert_ok(sp_store_stats_of(s, &all));
    assert_true(all.n_copies == 2 * N && all.writes);
    assert_ok(sp_store_drop(s, "11", &n));
    assert_int_equal(n, 1);
    assert_ok(sp_store_stats_of(s, &less));
    assert_true(less.bytes < all.bytes && less.file_bytes > less.bytes); /* its bytes are still in a file */
    assert_ok(sp_store_trim(s, all.file_bytes * 3 / 4));
    assert_ok(sp_store_stats_of(s, &trimmed));
    assert_true(trimmed.file_bytes <= all.file_bytes * 3 / 4 && trimmed.n_copies >= 2);
    sp_store_close(s);
    assert_ok(sp_store_open(*state, SP_STORE_WRITE, &s)); /* nobody writes it any more */
    sp_store_close(s);
}

/* An empty folder may become one, where an archive is read. */
static void a_folder_of_others_is_no_store(void **state)
{
    static const sp_store_mode modes[] = {SP_STORE_READ, SP_STORE_WRITE, SP_STORE_CREATE};
    char path[200];
    sp_store *s;
    assert_ok(sp_store_open(*state, SP_STORE_CREATE, &s));
    sp_store_close(s);
    for (int i = 0; i < 2; i++) assert_fails(sp_store_open(*state, modes[i], &s), SP_E_NOTFOUND, "not a store");
    snprintf(path, sizeof path, "%s/letter.txt", (const char *)*state);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs("Dear Anna", f) > 0 && fclose(f) == 0);
    for (size_t i = 0; i < SP_COUNT(modes); i++)
        assert_fails(sp_store_open(*state, modes[i], &s), SP_E_NOTFOUND, "not a store");
    assert_int_equal(unlink(path), 0);
}

static void an_archive_is_of_one_namespace(void **state)
{
    char path[200], other[200];
    sp_store_stats out;
    sp_store *s = open_filled(*state), *into;
    snprintf(path, sizeof path, "%s/archive", (const char *)*state);
    snprintf(other, sizeof other, "%s/other", (const char *)*state);
    assert_fails(sp_store_export(s, NULL, path, &out), SP_E_ARG, "several models");
    assert_fails(sp_store_export(s, "77", path, &out), SP_E_NOTFOUND, "77");
    assert_ok(sp_store_export(s, "5a", path, &out));
    assert_int_equal(out.n_copies, N);
    sp_store_close(s);
    fill(other, &other_noise_space, 0x20);
    assert_ok(sp_store_open(other, SP_STORE_WRITE, &into));
    char named[65];
    sp_digest_hex(&other_noise_space, sizeof other_noise_space.b, named);
    assert_fails(sp_store_import(into, named, path, &out), SP_E_UNSUPPORTED, "than the one named");
    assert_fails(sp_store_import(into, NULL, path, &out), SP_E_UNSUPPORTED, "name the model");
    sp_digest_hex(&noise_space, sizeof noise_space.b, named);
    assert_ok(sp_store_import(into, named, path, &out));
    assert_ok(sp_store_stats_of(into, &out));
    assert_int_equal(out.n_copies, 2 * N);
    sp_store_close(into);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_copies_are_verified, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(of_a_copy_its_header_is_shown, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(copies_of_another_version_do_not_end_a_check, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_store_that_is_read_is_not_locked, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(room_is_shared_by_the_namespaces, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(a_folder_of_others_is_no_store, folder_setup, folder_teardown),
        cmocka_unit_test_setup_teardown(an_archive_is_of_one_namespace, folder_setup, folder_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
