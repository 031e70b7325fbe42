/* test_journal.c -- lines of the index whose append failed never count. */
#include "support/check.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/disk/journal_int.h"

static const sp_digest space = {{0x5a, 1}};

typedef struct seen {
    int n;
    uint32_t kinds[8];
} seen;

static sp_err take(void *user, const sp_journal_line *l)
{
    seen *s = user;
    s->kinds[s->n++ & 7] = l->key.kind;
    return SP_OK;
}

static sp_journal_line line(uint32_t kind)
{
    return (sp_journal_line){.event = SP_EVENT_DROP, .key.kind = kind};
}

/* Two lines reach the file, their sync fails, and cutting them off fails, too. The next append is shorter. */
static void lines_of_a_failed_append_do_not_follow_a_shorter_one(void **state)
{
    char path[] = "/tmp/spolia-journal-XXXXXX";
    const sp_journal_line failed[] = {line(2), line(3)}, next = line(4), first = line(1);
    seen s = {0};
    sp_journal j;
    close(mkstemp(path));
    unlink(path);
    assert_ok(sp_journal_open(&j, path, &space, true, take, &s));
    assert_ok(sp_journal_rewrite(&j, NULL, 0, 1));
    assert_ok(sp_journal_append(&j, &first, 1, false));
    assert_ok(sp_journal_append(&j, failed, 2, false));
    j.n_lines -= 2;
    const int fd = j.fd;
    j.fd = open(path, O_RDONLY);
    assert_fails(sp_journal_append(&j, failed, 2, false), SP_E_IO, path);
    assert_fails(sp_journal_append(&j, &next, 1, false), SP_E_IO, "truncate"); /* nor is one written before they go */
    close(j.fd);
    j.fd = fd;
    assert_ok(sp_journal_append(&j, &next, 1, false));
    sp_journal_close(&j);
    assert_ok(sp_journal_open(&j, path, &space, false, take, &s));
    assert_int_equal(s.n, 2);
    assert_int_equal(s.kinds[0], 1);
    assert_int_equal(s.kinds[1], 4);
    sp_journal_close(&j);
    unlink(path);
}

/* Lines before the last that counts and cannot be read are counted: the index is rewritten when there are many. */
static void damaged_lines_before_the_last_good_one_are_counted(void **state)
{
    /* two lines; how many count as damaged */
    static const int damaged[][3] = {{-1, -1, 0}, {1, -1, 1}, {1, 3, 2}, {2, 4, 1}};
    for (size_t k = 0; k < SP_COUNT(damaged); k++) {
        char path[] = "/tmp/spolia-journal-XXXXXX";
        seen s = {0};
        sp_journal j;
        close(mkstemp(path));
        unlink(path);
        assert_ok(sp_journal_open(&j, path, &space, true, take, &s));
        assert_ok(sp_journal_rewrite(&j, NULL, 0, 1));
        for (uint32_t i = 0; i < 5; i++) {
            const sp_journal_line l = line(i);
            assert_ok(sp_journal_append(&j, &l, 1, true));
        }
        for (int d = 0; d < 2; d++)
            if (damaged[k][d] >= 0)
                assert_int_equal(pwrite(j.fd, "x", 1, (damaged[k][d] + 1) * SP_JOURNAL_LINE_BYTES + 9), 1);
        sp_journal_close(&j);
        assert_ok(sp_journal_open(&j, path, &space, false, take, &s));
        assert_int_equal(j.n_damaged, damaged[k][2]);
        sp_journal_close(&j);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_a_failed_append_do_not_follow_a_shorter_one),
        cmocka_unit_test(damaged_lines_before_the_last_good_one_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
