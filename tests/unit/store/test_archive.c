/* test_archive.c -- a corpus as one file: what was exported is what is imported. */
#include "support/check.h"

#include <xxhash.h>

#include "tier.h"

#include "store/archive.h"

typedef struct bench {
    char dir[128], other_dir[128], path[200];
    sp_tier *from, *to;
} bench;

static sp_tier *must_open(const char *dir, const sp_digest *space)
{
    sp_tier *t = NULL;
    assert_ok(sp_disk_tier_open(&(sp_disk_tier_opts){.dir = dir, .space = space}, &t));
    return t;
}

static void bench_begin(bench *b, uint32_t n)
{
    make_folder(b->dir, sizeof b->dir);
    make_folder(b->other_dir, sizeof b->other_dir);
    snprintf(b->path, sizeof b->path, "%s/corpus", b->dir);
    b->from = must_open(b->dir, &noise_space);
    b->to = must_open(b->other_dir, &noise_space);
    for (uint32_t i = 0; i < n; i++) assert_ok(noise_put(b->from, i, 3));
}

static void bench_end(bench *b)
{
    sp_tier_close(b->from);
    sp_tier_close(b->to);
    remove_folder(b->dir);
    remove_folder(b->other_dir);
}

static bool is_even(void *user, const sp_tier_info *info)
{
    uint32_t number;
    memcpy(&number, info->key.id.b, sizeof number);
    return number % 2 == 0;
}

static sp_err count_copy(void *user, const sp_record *r)
{
    int *n = user;
    *n += r->n == NOISE_TOKENS;
    return SP_OK;
}

static int64_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

static void an_archive_round_trips(void **state)
{
    bench b;
    sp_archive_stats s;
    int n = 0;
    bench_begin(&b, 9);
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, is_even, NULL, &s));
    assert_int_equal(s.n_copies, 5);
    assert_ok(sp_archive_each(b.path, true, count_copy, &n, &s));
    assert_int_equal(n, 5);
    assert_ok(sp_archive_import(b.to, b.path, &noise_space, &s));
    assert_int_equal(s.n_copies, 5);
    assert_int_equal(s.n_damaged, 0);
    assert_int_equal(s.bytes, size_of(b.path));
    for (uint32_t i = 0; i < 9; i++)
        assert_int_equal(noise_get(b.to, i, 3), i % 2 ? SP_E_NOTFOUND : SP_OK);
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s)); /* replaces it */
    assert_int_equal(s.n_copies, 9);
    assert_ok(sp_archive_import(b.to, b.path, &noise_space, &s));
    for (uint32_t i = 0; i < 9; i++) assert_ok(noise_get(b.to, i, 3));
    bench_end(&b);
}

static void another_namespace_is_refused(void **state)
{
    bench b;
    sp_archive_stats s;
    bench_begin(&b, 2);
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s));
    sp_tier *other = must_open(b.other_dir, &other_noise_space);
    assert_fails(sp_archive_import(other, b.path, &other_noise_space, &s), SP_E_UNSUPPORTED,
                 "another model");
    assert_int_equal(sp_tier_stats_of(other).n_copies, 0);
    sp_tier_close(other);
    assert_ok(sp_archive_export(b.from, b.path, &other_noise_space, NULL, NULL, &s)); /* not that of its copies */
    assert_fails(sp_archive_each(b.path, false, NULL, NULL, &s), SP_E_FORMAT, "another namespace");
    bench_end(&b);
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(c ^ 4, f), c ^ 4);
    assert_int_equal(fclose(f), 0);
}

/* Damage is left out, or ends the import with an error; nothing wrong gets in. */
static void damage_is_left_out(void **state)
{
    bench b;
    sp_archive_stats s;
    int n_left_out = 0, n_errors = 0;
    bench_begin(&b, 3);
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s));
    const long size = (long)size_of(b.path);
    for (long at = 0; at < size; at += at < 60 ? 13 : size / 40) {
        flip(b.path, at);
        sp_err err = sp_archive_import(b.to, b.path, &noise_space, &s);
        assert_true(err == SP_OK || err == SP_E_FORMAT || err == SP_E_UNSUPPORTED);
        if (err != SP_OK) assert_non_null(strstr(sp_error_detail(), b.path));
        n_errors += err != SP_OK;
        n_left_out += s.n_damaged > 0;
        assert_int_equal(sp_tier_stats_of(b.to).n_copies, s.n_copies);
        for (uint32_t i = 0; i < 3; i++) {
            err = noise_get(b.to, i, 3);
            assert_true(err == SP_OK || err == SP_E_NOTFOUND);
            assert_ok(noise_drop(b.to, i));
        }
        flip(b.path, at);
    }
    assert_true(n_left_out > 10 && n_errors >= 4);
    bench_end(&b);
}

static void an_export_counts_what_cannot_be_read(void **state)
{
    bench b;
    sp_archive_stats s;
    char path[600];
    bench_begin(&b, 3);
    flip(file_in(b.dir, "00000001.kv", path), 2 * SP_PAGE + 100);
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s));
    assert_int_equal(s.n_damaged, 1);
    assert_int_equal(s.n_copies, 2);
    assert_ok(sp_archive_import(b.to, b.path, &noise_space, &s));
    assert_int_equal(s.n_copies, 2);
    bench_end(&b);
}

enum { NOTES = 64 };

static sp_err write_noted(void *user, int layer, void *to)
{
    const noise *c = user;
    noise_layer(c, layer, to);
    memset((uint8_t *)to + c->record.layer_bytes, 0x11, NOTES);
    return SP_OK;
}

static sp_err take_record(void *user, const sp_record *r)
{
    return SP_OK;
}

/* take_notes -- the first byte of each layer's. */
static sp_err take_notes(void *user, int layer, const void *from)
{
    ((uint8_t *)user)[layer] = ((const uint8_t *)from)[NOISE_BYTES];
    return SP_OK;
}

/* They are computed again; the layer is good. */
static void damaged_notes_are_left_empty(void **state)
{
    bench b;
    sp_archive_stats s;
    noise c;
    uint8_t notes[NOISE_LAYERS];
    bench_begin(&b, 0);
    noise_init(&c, 3, 1);
    c.record.facts.note_bytes = NOTES;
    const sp_tier_job put = {.verb = SP_TIER_PUT, .record = &c.record, .source = write_noted, .user = &c};
    const sp_tier_job get = {.verb = SP_TIER_GET, .key = sp_tier_key_of(&c.record), .n_layers = NOISE_LAYERS,
                             .head = take_record, .sink = take_notes, .user = notes};
    assert_ok(sp_tier_run(b.from, &put));
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s));
    const sp_record_layout l = sp_record_layout_of(&c.record);
    flip(b.path, (1 + (long)l.head_pages + l.layer_pages) * SP_PAGE + NOISE_BYTES); /* of the second layer */
    assert_ok(sp_archive_import(b.to, b.path, &noise_space, &s));
    assert_int_equal(s.n_copies, 1);
    assert_ok(sp_tier_run(b.to, &get));
    for (int i = 0; i < NOISE_LAYERS; i++) assert_int_equal(notes[i], i == 1 ? 0 : 0x11);
    bench_end(&b);
}

/* drop_first -- a copy may be gone between the list and its turn. */
static bool drop_first(void *user, const sp_tier_info *info)
{
    bench *b = user;
    SP_UNUSED(info);
    assert_ok(noise_drop(b->from, 1));
    return true;
}

static void a_copy_that_is_gone_meanwhile_is_left_out(void **state)
{
    bench b;
    sp_archive_stats s;
    bench_begin(&b, 3);
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, drop_first, &b, &s));
    assert_int_equal(s.n_copies, 2);
    assert_int_equal(s.n_damaged, 0);
    assert_ok(sp_archive_import(b.to, b.path, &noise_space, &s));
    assert_int_equal(s.n_copies, 2);
    bench_end(&b);
}

/* rewrite -- other bytes with the right checksum: what another program or version would write. */
static void rewrite(const char *path, long from, size_t n, long at, uint8_t value)
{
    uint8_t data[64];
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, from, SEEK_SET), 0);
    assert_int_equal(fread(data, 1, n, f), n);
    data[at] = value;
    const uint64_t sum = XXH3_64bits(data, n);
    assert_int_equal(fseek(f, from, SEEK_SET), 0);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fwrite(&sum, sizeof sum, 1, f), 1);
    assert_int_equal(fclose(f), 0);
}

static void an_archive_that_lacks_copies_or_is_newer_is_refused(void **state)
{
    enum { HEADER = 48, END = 16, VERSION_AT = 8, COUNT_AT = 8, SUM = 8 };
    bench b;
    sp_archive_stats s;
    bench_begin(&b, 3);
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s));
    rewrite(b.path, (long)s.bytes - END - SUM, END, COUNT_AT, 4);
    assert_fails(sp_archive_import(b.to, b.path, &noise_space, &s), SP_E_FORMAT, "3 copies, but its end says 4");
    rewrite(b.path, 0, HEADER, VERSION_AT, 2);
    assert_fails(sp_archive_import(b.to, b.path, &noise_space, &s), SP_E_UNSUPPORTED, "version 2");
    bench_end(&b);
}

static void a_truncated_archive_is_an_error(void **state)
{
    bench b;
    sp_archive_stats s;
    bench_begin(&b, 3);
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s));
    for (int64_t n = s.bytes - 1; n > 0; n -= s.bytes / 7) {
        sp_archive_stats part;
        assert_int_equal(truncate(b.path, n), 0);
        assert_fails(sp_archive_import(b.to, b.path, &noise_space, &part), SP_E_FORMAT, b.path);
        assert_fails(sp_archive_each(b.path, true, NULL, NULL, &part), SP_E_FORMAT, b.path);
        for (uint32_t i = 0; i < 3; i++) {
            sp_err err = noise_get(b.to, i, 3);
            assert_true(err == SP_OK || err == SP_E_NOTFOUND);
        }
    }
    bench_end(&b);
}

/* In a folder that others may write, somebody may have made a link of the draft's name. */
static void a_draft_does_not_follow_links(void **state)
{
    bench b;
    sp_archive_stats s;
    char draft[240], victim[240];
    bench_begin(&b, 1);
    snprintf(draft, sizeof draft, "%s.%ld.new", b.path, (long)getpid());
    snprintf(victim, sizeof victim, "%s/victim", b.dir);
    FILE *f = fopen(victim, "w");
    assert_non_null(f);
    assert_true(fputs("precious", f) >= 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(symlink(victim, draft), 0);
    assert_fails(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s), SP_E_IO, draft);
    assert_int_equal(size_of(victim), strlen("precious"));
    assert_int_equal(access(b.path, F_OK), -1);
    bench_end(&b);
}

static void files_that_cannot_be_are_refused(void **state)
{
    bench b;
    sp_archive_stats s;
    bench_begin(&b, 2);
    assert_fails(sp_archive_import(b.to, b.path, &noise_space, &s), SP_E_IO, b.path);
    assert_fails(sp_archive_export(b.from, "/nowhere/at/all", &noise_space, NULL, NULL, &s), SP_E_IO,
                 "/nowhere/at/all");
    assert_ok(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s));
    const int64_t size = size_of(b.path);
    sp_store_fault(SP_CALL_WRITE, 3, ENOSPC, true);
    assert_fails(sp_archive_export(b.from, b.path, &noise_space, NULL, NULL, &s), SP_E_IO, b.path);
    sp_store_fault(0, 0, 0, false);
    assert_int_equal(size_of(b.path), size); /* the older one */
    char draft[240];
    snprintf(draft, sizeof draft, "%s.%ld.new", b.path, (long)getpid());
    assert_int_equal(access(draft, F_OK), -1);
    sp_store_fault(SP_CALL_READ, 4, EIO, true);
    assert_fails(sp_archive_import(b.to, b.path, &noise_space, &s), SP_E_IO, b.path);
    sp_store_fault(0, 0, 0, false);
    assert_ok(sp_archive_import(b.to, b.path, &noise_space, &s));
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_archive_round_trips),
        cmocka_unit_test(another_namespace_is_refused),
        cmocka_unit_test(damage_is_left_out),
        cmocka_unit_test(an_export_counts_what_cannot_be_read),
        cmocka_unit_test(damaged_notes_are_left_empty),
        cmocka_unit_test(a_copy_that_is_gone_meanwhile_is_left_out),
        cmocka_unit_test(an_archive_that_lacks_copies_or_is_newer_is_refused),
        cmocka_unit_test(a_truncated_archive_is_an_error),
        cmocka_unit_test(a_draft_does_not_follow_links),
        cmocka_unit_test(files_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
