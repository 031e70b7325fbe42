/* test_s3.c -- copies in an object store: whose account is used, what keys say, and the link against moto's server.
 * What every tier promises is in test_any_tier.c; signatures are verified in tests/e2e/test_remote_s3.py. */
#include "support/check.h"

#include "base/clock.h"
#include "store/remote/s3/account.h"
#include "store/remote/s3/change.h"
#include "store/remote/s3/list.h"
#include "store/remote/s3/table.h"
#include "support/s3.h"
#include "tier.h"

/* -- the address and the account -------------------------------------------------------------------- */

static void an_address_is_read_or_refused(void **state)
{
    sp_s3_address a;
    assert_ok(sp_s3_parse("s3://corpus", &a));
    assert_true(strcmp(a.bucket, "corpus") == 0 && !*a.prefix);
    assert_ok(sp_s3_parse("s3://my.bucket-1/kv/Team_a/", &a));
    assert_true(strcmp(a.bucket, "my.bucket-1") == 0 && strcmp(a.prefix, "kv/Team_a/") == 0);
    static const char *const wrong[] = {"s3://",       "s3://ab",         "s3://Corpus",   "s3://corpus/a b",
                                        "s3://corpus/a//b", "s3://corpus/../b", "s3://corpus/a?b", "s3://corpus/%41",
                                        "http://corpus"};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) assert_int_equal(sp_s3_parse(wrong[i], &a), SP_E_ARG);
}

/* write_file -- its path is in the variable. */
static void write_file(const char *dir, const char *name, const char *variable, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    setenv(variable, path, 1);
}

/* begin_account -- an environment with nothing but two files. */
static void begin_account(char dir[128], const char *credentials, const char *config)
{
    static const char *const all[] = {"AWS_ACCESS_KEY_ID",  "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
                                      "AWS_REGION",         "AWS_DEFAULT_REGION",    "AWS_ENDPOINT_URL",
                                      "AWS_ENDPOINT_URL_S3", "AWS_PROFILE"};
    for (size_t i = 0; i < SP_COUNT(all); i++) unsetenv(all[i]);
    make_folder(dir, 128);
    write_file(dir, "credentials", "AWS_SHARED_CREDENTIALS_FILE", credentials);
    write_file(dir, "config", "AWS_CONFIG_FILE", config);
}

static const char two_profiles[] = "# keys\n[default]\naws_access_key_id = A1\naws_secret_access_key=s1 ; old\n\n"
                                   "[ team ]\n  aws_access_key_id = not this\naws_access_key_id\t=\tA2\r\n"
                                   "aws_secret_access_key = s/2+=x\naws_session_token = ";
static const char regions[] = "[default]\nregion = eu-west-1\n[profile  team]\nregion=ap-south-1 # here\ns3 =\n"
                              "  endpoint_url = http://nested\nendpoint_url = https://s3.example:9000/\n";

static void files_have_profiles(void **state)
{
    char dir[128], text[2048];
    sp_s3_account a;
    snprintf(text, sizeof text, "%s%01000d\n", two_profiles, 7); /* a token longer than a line of most readers */
    begin_account(dir, text, regions);
    assert_ok(sp_s3_account_find(&a));
    assert_true(strcmp(a.key, "A1") == 0 && strcmp(a.secret, "s1") == 0 && !*a.token && !*a.endpoint);
    assert_string_equal(a.region, "eu-west-1");
    setenv("AWS_PROFILE", "team", 1);
    assert_ok(sp_s3_account_find(&a));
    assert_true(strcmp(a.key, "A2") == 0 && strcmp(a.secret, "s/2+=x") == 0 && strlen(a.token) == 1000);
    assert_true(strcmp(a.region, "ap-south-1") == 0 && strcmp(a.endpoint, "https://s3.example:9000") == 0);
    snprintf(text, sizeof text, "the profile team of %s/credentials", dir);
    assert_string_equal(a.from, text);
    setenv("AWS_PROFILE", "nobody", 1);
    assert_fails(sp_s3_account_find(&a), SP_E_ARG, "nobody");
    remove_folder(dir);
    begin_account(dir, "", "[profile team]\nregion = eu-west-1\n[default]\nregion = us-east-2\n");
    setenv("AWS_PROFILE", "team", 1);
    setenv("AWS_ACCESS_KEY_ID", "E", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "es", 1);
    assert_ok(sp_s3_account_find(&a)); /* other profiles may follow it */
    assert_string_equal(a.region, "eu-west-1");
    remove_folder(dir);
}

static void the_environment_comes_before_files(void **state)
{
    char dir[128];
    sp_s3_account a;
    begin_account(dir, two_profiles, regions);
    setenv("AWS_ACCESS_KEY_ID", "E", 1);
    assert_fails(sp_s3_account_find(&a), SP_E_ARG, "AWS_SECRET_ACCESS_KEY");
    setenv("AWS_SECRET_ACCESS_KEY", "es", 1);
    setenv("AWS_SESSION_TOKEN", "et", 1);
    setenv("AWS_DEFAULT_REGION", "us-west-2", 1);
    setenv("AWS_ENDPOINT_URL", "http://general:1/", 1);
    assert_ok(sp_s3_account_find(&a));
    assert_true(strcmp(a.key, "E") == 0 && strcmp(a.secret, "es") == 0 && strcmp(a.token, "et") == 0);
    assert_true(strcmp(a.region, "us-west-2") == 0 && strcmp(a.endpoint, "http://general:1") == 0);
    setenv("AWS_REGION", "eu-central-1", 1);
    setenv("AWS_ENDPOINT_URL_S3", "http://special", 1);
    assert_ok(sp_s3_account_find(&a));
    assert_true(strcmp(a.region, "eu-central-1") == 0 && strcmp(a.endpoint, "http://special") == 0);
    assert_string_equal(a.from, "AWS_ACCESS_KEY_ID");
    remove_folder(dir);
}

static void a_wrong_account_is_named(void **state)
{
    static const struct {
        const char *credentials, *config, *names;
    } cases[] = {
        {"", "", "AWS_ACCESS_KEY_ID"},
        {"[default]\naws_access_key_id = A\n", "", "aws_secret_access_key"},
        {"[default]\naws_access_key_id = A\nwhat is this\n", "", "line 3"},
        {"", "[default]\nrole_arn = x\n", "role"},
        {"[default]\naws_access_key_id = A\naws_secret_access_key = s\n", "[default]\nendpoint_url = ftp://x\n",
         "AWS_ENDPOINT_URL"},
        {"[default]\naws_access_key_id = A\naws_secret_access_key = s\n", "[default]\nregion = a/b\n", "AWS_REGION"},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char dir[128];
        sp_s3_account a;
        begin_account(dir, cases[i].credentials, cases[i].config);
        assert_fails(sp_s3_account_find(&a), SP_E_ARG, cases[i].names);
        remove_folder(dir);
    }
}

/* A part of the settings would be those of another account. */
static void a_file_that_cannot_be_read_is_no_empty_one(void **state)
{
    char dir[128];
    sp_s3_account a;
    begin_account(dir, two_profiles, regions);
    setenv("AWS_CONFIG_FILE", "/proc/self/mem", 1); /* nothing is mapped where it begins */
    assert_fails(sp_s3_account_find(&a), SP_E_IO, "/proc/self/mem");
    remove_folder(dir);
}

/* -- keys and answers --------------------------------------------------------------------------------- */

static void a_key_of_the_index_has_all_that_is_known(void **state)
{
    sp_s3_names n;
    sp_s3_entry e;
    char note[SP_S3_NOTE], key[SP_S3_KEY], from[SP_S3_KEY];
    sp_s3_names_init(&n, "team/", "00112233445566778899aabbccddeeff");
    sp_s3_note(0x18f0a1b2c3d, "256 24 49152 1 15300 8192 0", note);
    assert_true(sp_s3_index_key(&n, "abc-0123-0", note, key));
    assert_string_equal(key, "team/00112233445566778899aabbccddeeff/index/018f0a1b2c3d.abc-0123-0."
                             "256_24_49152_1_15300_8192_0");
    assert_true(sp_s3_read_index_key(&n, key, &e));
    assert_true(e.time_ms == 0x18f0a1b2c3d && strcmp(e.name, "abc-0123-0") == 0);
    assert_string_equal(e.says, "256 24 49152 1 15300 8192 0");
    sp_s3_index_from(&n, e.time_ms, from);
    assert_true(strcmp(from, key) < 0);
    sp_s3_index_from(&n, e.time_ms + 1, from);
    assert_true(strcmp(from, key) > 0);
    static const char *const others[] = {"", "team/", "018f0a1b2c3d.x.y", "/index/", "/index/018f0a1b2c3d",
                                         "/index/018f0a1b2c3d.", "/index/018f0a1b2c3d.x", "/index/18f.x.y",
                                         "/index/zzzzzzzzzzzz.x.y"};
    for (size_t i = 0; i < SP_COUNT(others); i++) {
        snprintf(key, sizeof key, "team/00112233445566778899aabbccddeeff%s", others[i]);
        assert_false(sp_s3_read_index_key(&n, key, &e));
    }
    assert_false(sp_s3_index_key(&n, "x", "short", key));
}

static void a_query_is_escaped(void **state)
{
    sp_s3_query q = {0};
    sp_s3_query_add(&q, "continuation-token", "a+b/c=");
    sp_s3_query_add(&q, "prefix", "x/y z~");
    assert_string_equal(q.v, "continuation-token=a%2Bb%2Fc%3D&prefix=x%2Fy%20z~");
}

static sp_err add_key(void *user, const sp_s3_row *row)
{
    strcat(user, row->key);
    strcat(user, " ");
    return SP_OK;
}

static void answers_are_read(void **state)
{
    char keys[256] = "", next[1025];
    sp_s3_error e;
    static const char page[] = "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\">"
                               "<Contents><Key>a&amp;b</Key><Size>1</Size></Contents>"
                               "<CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes>"
                               "<NextContinuationToken>t=</NextContinuationToken></ListBucketResult>";
    assert_ok(sp_s3_read_list(page, strlen(page), add_key, keys, next));
    assert_true(strcmp(keys, "a&b c/ ") == 0 && strcmp(next, "t=") == 0);
    assert_int_equal(sp_s3_read_list(page, strlen(page) / 2, add_key, keys, next), SP_E_FORMAT);
    static const char error[] = "<Error><Code>NoSuchBucket</Code><Message>none</Message></Error>";
    sp_s3_read_error(error, strlen(error), &e);
    assert_true(strcmp(e.code, "NoSuchBucket") == 0 && strcmp(e.message, "none") == 0);
    sp_s3_read_error("not found", 9, &e);
    assert_true(!*e.code && !*e.message);
}

static sp_err count_bytes(void *user, const sp_s3_row *row)
{
    *(size_t *)user += strlen(row->key);
    return SP_OK;
}

/* S3's own limit is 1024 bytes; a key is never cut. */
static void a_key_that_is_too_long_is_refused(void **state)
{
    char page[2048], next[1025];
    for (int n = 1024; n <= 1025; n++) {
        size_t got = 0;
        snprintf(page, sizeof page, "<ListBucketResult><Contents><Key>%0*d</Key></Contents></ListBucketResult>", n, 7);
        const sp_err err = sp_s3_read_list(page, strlen(page), count_bytes, &got, next);
        if (n == 1024) assert_ok(err);
        if (n > 1024) assert_fails(err, SP_E_FORMAT, "a key that is too long");
        assert_int_equal(got, n == 1024 ? 1024 : 0);
    }
}

/* -- the link ----------------------------------------------------------------------------------------- */

enum { GROUP = 3 << 20, GROUPS = 7, LAST = 1000, HEAD = 5000 };

static const char name_of_all[] = "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a-"
                                  "0123456789abcdef-0";

static uint8_t byte_of(int part, size_t i)
{
    return (uint8_t)(i * 2654435761u >> 13 ^ (unsigned)(part + 2) * 97u);
}

static bool varies; /* groups are smaller than the shape says, each in its own way */

static size_t size_of(int part, int n_groups)
{
    const size_t most = part == SP_PART_HEAD ? HEAD : part == n_groups - 1 ? LAST : GROUP;
    return varies && part != SP_PART_HEAD ? most - (size_t)(part * 7919 + 1) % most : most;
}

static sp_remote_shape shape_of(int n_groups)
{
    return (sp_remote_shape){.head = HEAD, .group = GROUP, .last = LAST, .n_groups = n_groups, .varies = varies};
}

static sp_err add_part(sp_remote_link *l, int part, int n_groups)
{
    const size_t n = size_of(part, n_groups);
    uint8_t *data = malloc(n);
    for (size_t i = 0; i < n; i++) data[i] = byte_of(part, i);
    sp_err err = sp_remote_s3.add(l, part, data, n);
    free(data);
    return err;
}

/* put -- a copy of so many groups; *taken: there was one. */
static void put(sp_remote_link *l, int n_groups, bool *taken)
{
    const sp_remote_shape shape = shape_of(n_groups);
    assert_ok(sp_remote_s3.begin(l, name_of_all, "1 2 3 0 4 5000 0", &shape, taken));
    if (*taken) return;
    for (int i = 0; i < n_groups; i++) assert_ok(add_part(l, i, n_groups));
    assert_ok(add_part(l, SP_PART_HEAD, n_groups));
    assert_ok(sp_remote_s3.finish(l, taken));
}

/* What an ask brings. */
typedef struct taking {
    int n_groups, next, n_ended;
    bool gone, stop;
    sp_err err;
} taking;

static sp_err take(void *user, int part, const uint8_t *data, size_t n)
{
    taking *t = user;
    if (!data) {
        t->gone = true;
        return sp_fail(SP_E_NOTFOUND, "gone");
    }
    assert_int_equal(n, size_of(part, t->n_groups));
    for (size_t i = 0; i < n; i++)
        if (data[i] != byte_of(part, i)) return sp_fail(SP_E_FORMAT, "byte %zu of part %d", i, part);
    t->next = part + 1;
    return SP_OK;
}

static bool is_wanted(void *user)
{
    return !((taking *)user)->stop;
}

static void end(void *user, sp_err err)
{
    taking *t = user;
    t->n_ended++;
    t->err = err;
}

static sp_remote_ask ask_of(taking *t, int first, int n)
{
    return (sp_remote_ask){.name = name_of_all,
                           .shape = shape_of(t->n_groups),
                           .first = first,
                           .n = n,
                           .take = take,
                           .is_wanted = is_wanted,
                           .end = end,
                           .user = t};
}

static sp_remote_link *open_at(const sp_remote_site *site)
{
    sp_remote_link *l;
    assert_ok(sp_remote_s3.check(site));
    assert_ok(sp_remote_s3.open(site, &l));
    return l;
}

/* get_all_ranges -- every run of groups, at once. */
static void get_all_ranges(sp_remote_link *l, int n_groups)
{
    sp_remote_ask asks[64] = {{0}};
    taking t[64];
    int n = 0;
    for (int first = 0; first < n_groups; first += 2)
        for (int k = first ? 1 : 0; first + k <= n_groups; k += 2, n++) {
            t[n] = (taking){.n_groups = n_groups};
            asks[n] = ask_of(&t[n], first, k);
        }
    sp_remote_s3.get(l, asks, n);
    for (int i = 0; i < n; i++) {
        assert_ok(t[i].err);
        assert_int_equal(t[i].n_ended, 1);
        assert_int_equal(t[i].next, asks[i].n ? asks[i].first + asks[i].n : 0);
    }
}

static void come_back_in_any_range(const char *url)
{
    bool taken;
    const sp_remote_site site = s3_site(url);
    sp_remote_link *l = open_at(&site);
    static const int sizes[] = {2, 5, GROUPS}; /* one request; an upload that begins at the end; one that began */
    for (size_t s = 0; s < SP_COUNT(sizes); s++) {
        const int n_groups = sizes[s];
        put(l, n_groups, &taken);
        assert_false(taken);
        get_all_ranges(l, n_groups);
        put(l, n_groups, &taken);
        assert_true(taken);
        assert_ok(sp_remote_s3.drop(l, name_of_all));
        assert_int_equal(s3_count(&site, false), 0); /* its notice is gone, too */
        assert_ok(sp_remote_s3.drop(l, name_of_all));
        taking t = {.n_groups = n_groups};
        const sp_remote_ask ask = ask_of(&t, 1, 1);
        sp_remote_s3.get(l, &ask, 1);
        assert_int_equal(t.err, SP_E_NOTFOUND);
        assert_true(t.gone && t.n_ended == 1 && !l->broken);
    }
    sp_remote_s3.close(l);
}

static void copies_of_any_size_come_back_in_any_range(void **state)
{
    if (!s3_start()) skip();
    come_back_in_any_range("s3://first/ranges");
}

static void groups_of_any_size_come_back_in_any_range(void **state)
{
    if (!s3_start()) skip();
    varies = true;
    come_back_in_any_range("s3://first/varies");
    varies = false;
}

static void a_table_of_sizes_that_is_damaged_is_refused(void **state)
{
    enum { N = 3, BYTES = 8 + 4 * N };
    const sp_remote_shape shape = {.head = 10, .group = 1000, .last = 300, .n_groups = N, .varies = true};
    const uint32_t sizes[N] = {1000, 1, 300};
    uint8_t good[BYTES], bad[BYTES];
    uint32_t out[N];
    assert_int_equal(sp_s3_table_bytes(&shape), BYTES);
    sp_s3_write_table(&shape, sizes, good);
    assert_ok(sp_s3_read_table(&shape, good, out));
    assert_memory_equal(out, sizes, sizeof sizes);
    static const struct {
        int at, value;
    } wrong[] = {{0, 'x'}, {4, 2}, {9, 4} /* 1000: 0x3e8 */, {12, 0} /* 1 */, {17, 2} /* 300: 0x12c */, {19, 1}};
    for (size_t i = 0; i < SP_COUNT(wrong); i++) {
        memcpy(bad, good, BYTES);
        bad[wrong[i].at] = (uint8_t)wrong[i].value;
        assert_int_equal(sp_s3_read_table(&shape, bad, out), SP_E_FORMAT);
    }
    assert_int_equal(sp_s3_table_bytes(&(sp_remote_shape){.n_groups = N}), 0);
}

static void the_first_of_two_writers_wins(void **state)
{
    bool taken, late;
    if (!s3_start()) skip();
    const sp_remote_site site = s3_site("s3://first/race");
    for (int n_groups = 2; n_groups <= GROUPS; n_groups += 5) {
        sp_remote_link *one = open_at(&site), *two = open_at(&site);
        const sp_remote_shape shape = shape_of(n_groups);
        assert_ok(sp_remote_s3.begin(two, name_of_all, "1 2 3 0 4 5000 0", &shape, &taken));
        assert_false(taken);
        put(one, n_groups, &taken);
        assert_false(taken);
        for (int i = 0; i < n_groups; i++) assert_ok(add_part(two, i, n_groups));
        assert_ok(add_part(two, SP_PART_HEAD, n_groups));
        assert_ok(sp_remote_s3.finish(two, &late));
        assert_true(late);
        assert_int_equal(s3_count(&site, true), 0); /* its parts are gone */
        get_all_ranges(two, n_groups);
        assert_ok(sp_remote_s3.drop(one, name_of_all));
        sp_remote_s3.close(one);
        sp_remote_s3.close(two);
    }
}

static void a_put_that_is_abandoned_leaves_nothing(void **state)
{
    bool taken;
    if (!s3_start()) skip();
    const sp_remote_site site = s3_site("s3://first/abandoned");
    sp_remote_link *l = open_at(&site);
    const sp_remote_shape shape = shape_of(GROUPS);
    assert_ok(sp_remote_s3.begin(l, name_of_all, "1 2 3 0 4 5000 0", &shape, &taken));
    for (int i = 0; i < GROUPS; i++) assert_ok(add_part(l, i, GROUPS));
    assert_int_equal(s3_count(&site, true), 1);
    sp_remote_s3.abandon(l);
    assert_true(s3_count(&site, true) == 0 && s3_count(&site, false) == 0);
    sp_remote_s3.close(l);
}

static void objects_that_are_cut_short_are_damaged(void **state)
{
    static const size_t sizes[] = {1, HEAD - 1, HEAD, HEAD + 10, HEAD + GROUP + LAST - 1};
    bool taken;
    char key[SP_S3_KEY];
    sp_s3_names names;
    if (!s3_start()) skip();
    const sp_remote_site site = s3_site("s3://first/short");
    sp_remote_link *l = open_at(&site);
    uint8_t *data = malloc(HEAD + GROUP + LAST);
    sp_s3_names_init(&names, "short/", site.space);
    sp_s3_copy_key(&names, name_of_all, key);
    for (size_t i = 0; i < HEAD + GROUP; i++)
        data[i] = i < HEAD ? byte_of(SP_PART_HEAD, i) : byte_of(0, i - HEAD);
    for (size_t i = 0; i < LAST; i++) data[HEAD + GROUP + i] = byte_of(1, i);
    put(l, 2, &taken);
    for (size_t i = 0; i < SP_COUNT(sizes); i++)
        for (int first = 0; first < 2; first++) {
            taking t = {.n_groups = 2};
            const sp_remote_ask ask = ask_of(&t, first, 2 - first);
            assert_ok(s3_ask(site.url, "PUT", key, data, sizes[i]));
            sp_remote_s3.get(l, &ask, 1);
            assert_int_equal(t.err, SP_E_FORMAT);
            assert_true(t.n_ended == 1 && !l->broken);
        }
    free(data);
    sp_remote_s3.close(l);
}

static void an_ask_that_nobody_wants_ends(void **state)
{
    bool taken;
    if (!s3_start()) skip();
    const sp_remote_site site = s3_site("s3://first/unwanted");
    sp_remote_link *l = open_at(&site);
    put(l, GROUPS, &taken);
    kill(s3_pid, SIGSTOP);
    taking t[2] = {{.n_groups = GROUPS, .stop = true}, {.n_groups = GROUPS, .stop = true}};
    const sp_remote_ask asks[] = {ask_of(&t[0], 0, 2), ask_of(&t[1], 2, 2)};
    const int64_t began = sp_clock_us();
    sp_remote_s3.get(l, asks, 2);
    kill(s3_pid, SIGCONT);
    assert_true(sp_clock_us() - began < site.timeout_us);
    assert_true(t[0].err == SP_E_CANCELED && t[1].err == SP_E_CANCELED && t[0].n_ended == 1 && t[1].n_ended == 1);
    sp_remote_s3.close(l);
}

static void a_store_that_hangs_is_given_up(void **state)
{
    if (!s3_start()) skip();
    sp_remote_site site = s3_site("s3://first/hangs");
    site.timeout_us = 300000;
    sp_remote_link *l = open_at(&site);
    taking t = {.n_groups = 2};
    const sp_remote_ask ask = ask_of(&t, 0, 2);
    kill(s3_pid, SIGSTOP);
    const int64_t began = sp_clock_us();
    sp_remote_s3.get(l, &ask, 1);
    kill(s3_pid, SIGCONT);
    assert_int_equal(t.err, SP_E_IO);
    assert_true(l->broken && sp_clock_us() - began < 20000000);
    sp_remote_s3.close(l);
}

static sp_err count_name(void *user, const char *name, const char *says)
{
    ++*(int *)user;
    return SP_OK;
}

static void an_upload_of_a_lost_server_is_found_and_stopped(void **state)
{
    bool taken;
    int n = 0;
    if (!s3_start()) skip();
    const sp_remote_site site = s3_site("s3://first/lost");
    sp_remote_link *l = open_at(&site);
    const sp_remote_shape shape = shape_of(GROUPS);
    const sp_remote_ears ears = {.learn = count_name, .suspect = count_name, .user = &n};
    assert_ok(sp_remote_s3.begin(l, name_of_all, "1 2 3 0 4 5000 0", &shape, &taken));
    for (int i = 0; i < GROUPS; i++) assert_ok(add_part(l, i, GROUPS));
    sp_remote_s3.close(l);
    assert_int_equal(s3_count(&site, true), 1);
    l = open_at(&site);
    assert_ok(sp_remote_s3.recall(l, &ears));
    assert_int_equal(n, 1);
    assert_ok(sp_remote_s3.drop(l, name_of_all));
    assert_true(s3_count(&site, true) == 0 && s3_count(&site, false) == 0);
    sp_remote_s3.close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_read_or_refused),
        cmocka_unit_test(files_have_profiles),
        cmocka_unit_test(the_environment_comes_before_files),
        cmocka_unit_test(a_wrong_account_is_named),
        cmocka_unit_test(a_file_that_cannot_be_read_is_no_empty_one),
        cmocka_unit_test(a_key_of_the_index_has_all_that_is_known),
        cmocka_unit_test(a_query_is_escaped),
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(a_key_that_is_too_long_is_refused),
        cmocka_unit_test(copies_of_any_size_come_back_in_any_range),
        cmocka_unit_test(groups_of_any_size_come_back_in_any_range),
        cmocka_unit_test(a_table_of_sizes_that_is_damaged_is_refused),
        cmocka_unit_test(the_first_of_two_writers_wins),
        cmocka_unit_test(a_put_that_is_abandoned_leaves_nothing),
        cmocka_unit_test(objects_that_are_cut_short_are_damaged),
        cmocka_unit_test(an_ask_that_nobody_wants_ends),
        cmocka_unit_test(a_store_that_hangs_is_given_up),
        cmocka_unit_test(an_upload_of_a_lost_server_is_found_and_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
