/* test_remote_texts.c -- what the remote tier reads and writes besides layers: its key, notices, tables of sizes,
 * queries and answers. Without a server. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "store/remote/notice.h"
#include "store/remote/s3/names.h"
#include "store/remote/s3/reply.h"
#include "store/remote/s3/table.h"
#include "store/remote/server.h"

static void a_key_has_16_to_64_bytes(void **state)
{
    static const struct {
        int n;
        const char *end;
        bool good;
    } cases[] = {{15, "", false}, {15, "\n", false}, {16, "", true},    {16, "\n", true},
                 {64, "", true},  {64, "\n", true},  {65, "", false}, {65, "\n", false}};
    char path[] = "/tmp/spolia-key-XXXXXX";
    uint8_t key[SP_REMOTE_KEY_BYTES + 8];
    size_t n;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char text[80];
        memset(text, 'k', sizeof text);
        strcpy(text + cases[i].n, cases[i].end);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, text, strlen(text), 0), strlen(text));
        assert_int_equal(sp_remote_read_key(path, key, &n), cases[i].good ? SP_OK : SP_E_ARG);
        if (cases[i].good) assert_int_equal(n, cases[i].n);
    }
    close(fd);
    unlink(path);
}

static void a_group_of_layers_has_one_mebibyte(void **state)
{
    assert_int_equal(sp_remote_per_group(1 << 21), 1);
    assert_int_equal(sp_remote_per_group((1 << 20) + 1), 1);
    assert_int_equal(sp_remote_per_group(1 << 20), 1);
    assert_int_equal(sp_remote_per_group((1 << 19) + 1), 1);
    assert_int_equal(sp_remote_per_group(1 << 19), 2);
    assert_int_equal(sp_remote_per_group(1), 1 << 20);
}

static void a_notice_is_of_a_copy_that_can_be(void **state)
{
    static const struct {
        const char *says;
        bool good;
    } cases[] = {{"5 2 100 3 1 64 7", true}, {"5 2 100 3 1", true},     {"5 2 100 3", false},
                 {"0 2 100 3 1", false},     {"-5 2 100 3 1", false},   {"5 0 100 3 1", false},
                 {"5 4095 100 3 1", true},   {"5 4096 100 3 1", false}, {"5 2 0 3 1", false},
                 {"5 2 4294967295 3 1", true}, {"5 2 4294967296 3 1", false}};
    char name[SP_REMOTE_NAME];
    sp_remote_notice n;
    sp_remote_name(&(sp_tier_key){.head = 9, .kind = 1}, name);
    for (size_t i = 0; i < SP_COUNT(cases); i++)
        if (sp_remote_read_notice(name, cases[i].says, &n) != cases[i].good) fail_msg("\"%s\"", cases[i].says);
    assert_false(sp_remote_read_notice("no name", cases[0].says, &n));
}

/* In the second in which its time ends. */
static void a_name_is_of_one_copy(void **state)
{
    const sp_tier_key key = {.id = {{1, 0xab}}, .head = 0xfedc, .kind = 2};
    sp_tier_key read;
    char name[SP_REMOTE_NAME], other[SP_REMOTE_NAME + 1];
    sp_remote_name(&key, name);
    assert_true(sp_remote_read_name(name, &read));
    assert_memory_equal(&read.id, &key.id, sizeof key.id);
    assert_true(read.head == key.head && read.kind == key.kind);
    snprintf(other, sizeof other, "%sx", name);
    assert_false(sp_remote_read_name(other, &read)); /* which would be the same copy by another name */
    snprintf(other, sizeof other, "%s", name);
    other[strlen(name) - 1] = '\0';
    assert_false(sp_remote_read_name(other, &read));
    other[0] = 'x';
    assert_false(sp_remote_read_name(other, &read));
}

static void a_copy_is_over_when_its_time_has_come(void **state)
{
    const int64_t now = time(NULL);
    const struct {
        int64_t expires_s;
        bool over;
    } cases[] = {{0, false}, {now - 1, true}, {now, true}, {now + 3600, false}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_s3_entry e = {0};
        sp_remote_name(&(sp_tier_key){.kind = 1}, e.name);
        snprintf(e.says, sizeof e.says, "5 2 100 3 1 64 %lld", (long long)cases[i].expires_s);
        assert_int_equal(sp_s3_is_over(&e), cases[i].over);
    }
}

/* Nothing of a value that does not fit is sent. */
static void a_query_says_when_it_is_full(void **state)
{
    sp_s3_query q = {0};
    size_t n = 0;
    for (size_t i = 0; i < sizeof q.v && !q.is_full; i++) {
        n = q.n;
        sp_s3_query_add(&q, "a", "b/c");
    }
    assert_true(q.is_full);
    assert_int_equal(q.n, n);
    assert_memory_equal(q.v, "a=b%2Fc&a=", 10);
}

static void sizes_of_groups_are_within_the_shape(void **state)
{
    const sp_remote_shape s = {.group = 100, .last = 50, .n_groups = 3, .varies = true};
    static const struct {
        uint32_t sizes[3];
        bool good;
    } cases[] = {{{100, 1, 50}, true}, {{101, 1, 50}, false}, {{100, 0, 50}, false}, {{100, 1, 51}, false}};
    uint8_t table[64];
    uint32_t got[3];
    assert_true(sp_s3_table_bytes(&s) <= sizeof table);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        sp_s3_write_table(&s, cases[i].sizes, table);
        assert_int_equal(sp_s3_read_table(&s, table, got), cases[i].good ? SP_OK : SP_E_FORMAT);
        if (cases[i].good) assert_memory_equal(got, cases[i].sizes, sizeof got);
    }
    table[4]++; /* how many they are */
    assert_int_equal(sp_s3_read_table(&s, table, got), SP_E_FORMAT);
}

static void an_error_has_a_code_and_a_message(void **state)
{
    static const char xml[] =
        "<Error><Resource>/b/k</Resource><Message>No such key.</Message><Code>NoSuchKey</Code></Error>";
    sp_s3_error e;
    sp_s3_read_error(xml, strlen(xml), &e);
    assert_string_equal(e.code, "NoSuchKey");
    assert_string_equal(e.message, "No such key.");
    sp_s3_read_error("<html>", 6, &e);
    assert_string_equal(e.code, "");
    assert_string_equal(e.message, "");
}

static void an_upload_has_an_id(void **state)
{
    static const struct {
        const char *xml, *id;
    } cases[] = {{"<R><UploadId>u-1</UploadId></R>", "u-1"}, {"<R><UploadId></UploadId></R>", NULL},
                 {"<R><Key>k</Key></R>", NULL},              {"", NULL}};
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char id[1025] = "";
        const sp_err err = sp_s3_read_upload(cases[i].xml, strlen(cases[i].xml), id);
        assert_int_equal(err, cases[i].id ? SP_OK : SP_E_FORMAT);
        if (cases[i].id) assert_string_equal(id, cases[i].id);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_16_to_64_bytes),
        cmocka_unit_test(a_group_of_layers_has_one_mebibyte),
        cmocka_unit_test(a_notice_is_of_a_copy_that_can_be),
        cmocka_unit_test(a_name_is_of_one_copy),
        cmocka_unit_test(a_copy_is_over_when_its_time_has_come),
        cmocka_unit_test(a_query_says_when_it_is_full),
        cmocka_unit_test(sizes_of_groups_are_within_the_shape),
        cmocka_unit_test(an_error_has_a_code_and_a_message),
        cmocka_unit_test(an_upload_has_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
