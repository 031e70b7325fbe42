/* test_s3_lost.c -- a server is lost amid a put or a drop of a copy in an object store: what is left can be found. */
#include "support/check.h"

#include "store/remote/s3/clean.h"
#include "store/remote/s3/names.h"
#include "support/canned.h"
#include "support/s3.h"

/* -- an object store that is lost after some requests -------------------------------------------------- */

enum { OBJECTS = 8, LINE = 1024 };

static canned store;
static struct object {
    char key[SP_S3_KEY], note[SP_S3_NOTE];
} objects[OBJECTS];
static int n_objects;
static int n_left = -1; /* requests until one fails; -1: none does */
static enum how {
    LOST,             /* and all after it */
    DONE_AND_LOST,    /* it takes effect all the same */
    DONE_BUT_REFUSED, /* and those after it are answered */
    N_WAYS
} how;
static bool has_failed;
static int ends_at; /* at which of the next lists a put under way has ended; 0: at none */

static struct object *find(const char *key)
{
    for (int i = 0; i < n_objects; i++)
        if (strcmp(objects[i].key, key) == 0) return &objects[i];
    return NULL;
}

/* read_field -- of a request: the text between `from` and the next of `ends`, with "%2F" as a slash. */
static void read_field(const char *request, const char *from, const char *ends, char *out)
{
    const char *at = strcasestr(request, from);
    *out = '\0';
    for (at = at ? at + strlen(from) : ""; *at && !strchr(ends, *at); out[1] = '\0', out++) {
        const bool is_slash = strncmp(at, "%2F", 3) == 0;
        *out = is_slash ? '/' : *at;
        at += is_slash ? 3 : 1;
    }
}

static const char *put(const char *request, const char *key)
{
    struct object *o = find(key);
    if (o && strcasestr(request, "If-None-Match")) return "412 No";
    if (!o) o = &objects[n_objects++];
    assert_true(n_objects <= OBJECTS);
    snprintf(o->key, sizeof o->key, "%s", key);
    read_field(request, "x-amz-meta-spolia: ", "\r", o->note);
    return "200 OK";
}

static const char *delete(const char *key)
{
    struct object *o = find(key);
    if (o) *o = objects[--n_objects];
    return "204 Gone";
}

/* end_put -- the index has the copy, and its change is over. */
static void end_put(void)
{
    for (int i = 0; i < n_objects; i++) {
        sp_s3_names names;
        sp_s3_entry e;
        char note[SP_S3_NOTE];
        sp_s3_names_init(&names, "", s3_site("").space);
        if (!sp_s3_read_change_key(&names, objects[i].key, &e)) continue;
        sp_s3_note(e.time_ms, e.says, note);
        assert_true(sp_s3_index_key(&names, e.name, note, objects[i].key));
    }
}

static void list(const char *request, char *body, size_t size)
{
    char prefix[LINE];
    if (ends_at && --ends_at == 0) end_put();
    read_field(request, "prefix=", "& ", prefix);
    const bool folders = strstr(request, "delimiter=") != NULL;
    size_t n = (size_t)snprintf(body, size, "<L>");
    if (folders)
        n += (size_t)snprintf(body + n, size - n, "<CommonPrefixes><Prefix>%s/</Prefix></CommonPrefixes>",
                              s3_site("").space);
    for (int i = 0; i < n_objects && !folders && !strstr(request, "uploads="); i++)
        if (strncmp(objects[i].key, prefix, strlen(prefix)) == 0)
            n += (size_t)snprintf(body + n, size - n, "<Contents><Key>%s</Key></Contents>", objects[i].key);
    snprintf(body + n, size - n, "</L>");
}

static void act(const char *request, char *answer, size_t size)
{
    char key[LINE], body[8192] = "", head[512] = "";
    const char *status = "200 OK";
    read_field(request, " /first/", " ?", key);
    const struct object *o = find(key);
    if (strncmp(request, "PUT", 3) == 0) status = put(request, key);
    if (strncmp(request, "DELETE", 6) == 0) status = delete(key);
    if (strncmp(request, "HEAD", 4) == 0) status = o ? "200 OK" : "404 No";
    if (strncmp(request, "HEAD", 4) == 0 && o) snprintf(head, sizeof head, "x-amz-meta-spolia: %s\r\n", o->note);
    if (strncmp(request, "GET", 3) == 0) list(request, body, sizeof body);
    snprintf(answer, size, "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\n\r\n%s", status, head, strlen(body), body);
}

static void answer(canned *c, const char *request, char *out, size_t size)
{
    if (n_left != 0 || how != LOST) act(request, out, size);
    if (n_left == 0)
        snprintf(out, size, "HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n",
                 how == DONE_BUT_REFUSED ? "400 Bad" : "503 Slow Down");
    has_failed |= n_left == 0;
    if (n_left == 0 && how == DONE_BUT_REFUSED) n_left = -1;
    if (how == DONE_AND_LOST && n_left == 0) how = LOST;
    n_left -= n_left > 0;
}

static sp_remote_link *open_link(void)
{
    static sp_remote_site site;
    sp_remote_link *l;
    site = s3_site("s3://first");
    assert_ok(sp_remote_s3.open(&site, &l));
    return l;
}

static void begin(void)
{
    canned_start(&store, "\r\n\r\n", answer);
    s3_use(store.port);
    n_objects = 0;
    n_left = -1;
}

/* -- what a server does ---------------------------------------------------------------------------------- */

static const char name[] = "4bf5122f344554c53bde2ebb8cd2b7e3d1600ad631c385a5d7cce23c7785459a-0123456789abcdef-0";

static sp_err put_copy(sp_remote_link *l)
{
    bool taken;
    const sp_remote_shape shape = {.head = 4, .group = 4, .last = 4, .n_groups = 1};
    SP_TRY(sp_remote_s3.begin(l, name, "1 2 3 0 4 5000 0", &shape, &taken));
    assert_false(taken);
    sp_err err = sp_remote_s3.add(l, 0, (const uint8_t *)"last", 4);
    if (err == SP_OK) err = sp_remote_s3.add(l, SP_PART_HEAD, (const uint8_t *)"head", 4);
    if (err == SP_OK) err = sp_remote_s3.finish(l, &taken);
    if (err != SP_OK) sp_remote_s3.abandon(l);
    return err;
}

static sp_err drop_copy(sp_remote_link *l)
{
    return sp_remote_s3.drop(l, name);
}

static sp_err count(void *user, const char *which, const char *says)
{
    assert_string_equal(which, name);
    assert_string_equal(says, "1 2 3 0 4 5000 0");
    ++*(int *)user;
    return SP_OK;
}

/* sweep -- as a deletion does: drops what the index names, and what changes that did not end may have left. */
static void sweep(void)
{
    int n = 0;
    sp_remote_link *l = open_link();
    const sp_remote_ears ears = {.learn = count, .suspect = count, .user = &n};
    assert_ok(sp_remote_s3.hear(l, &ears));
    assert_ok(sp_remote_s3.recall(l, &ears));
    if (n) assert_ok(sp_remote_s3.drop(l, name));
    sp_remote_s3.close(l);
}

/* fail_amid -- request n of a server that does something. false: it needed no more. */
static bool fail_amid(sp_err (*what)(sp_remote_link *l), int n, enum how which)
{
    sp_remote_link *l = open_link();
    n_left = n;
    how = which;
    has_failed = false;
    const sp_err err = what(l);
    if (!has_failed) assert_ok(err);
    sp_remote_s3.close(l);
    n_left = -1;
    return has_failed;
}

/* try_all -- returns how many requests it needs. */
static int try_all(sp_err (*what)(sp_remote_link *l), bool has_copy, enum how which)
{
    for (int n = 0;; n++) {
        n_objects = 0;
        if (has_copy) assert_false(fail_amid(put_copy, -1, LOST));
        const bool failed = fail_amid(what, n, which);
        sweep();
        if (n_objects) fail_msg("after request %d of %s: %s", n, has_copy ? "a drop" : "a put", objects[0].key);
        if (!failed) return n;
    }
}

static void a_lost_put_leaves_nothing_that_is_not_found(void **state)
{
    begin();
    for (enum how which = 0; which < N_WAYS; which++) assert_true(try_all(put_copy, false, which) >= 3);
    canned_stop(&store);
}

static void a_lost_drop_leaves_nothing_that_is_not_found(void **state)
{
    begin();
    for (enum how which = 0; which < N_WAYS; which++) assert_true(try_all(drop_copy, true, which) >= 3);
    canned_stop(&store);
}

/* A sweep lists changes and the index one after the other. */
static void a_put_that_ends_amid_a_sweep_is_found(void **state)
{
    begin();
    for (int at = 1; at < 3; at++) {
        n_objects = 0;
        assert_true(fail_amid(put_copy, 3, LOST)); /* the index does not name the copy */
        assert_int_equal(n_objects, 2);
        int n = 0;
        sp_remote_link *l = open_link();
        const sp_remote_ears ears = {.learn = count, .suspect = count, .user = &n};
        ends_at = at;
        assert_ok(sp_remote_s3.recall(l, &ears));
        assert_true(ends_at == 0 && n > 0);
        sp_remote_s3.close(l);
    }
    canned_stop(&store);
}

static void a_put_leaves_a_copy_and_its_notice(void **state)
{
    begin();
    assert_false(fail_amid(put_copy, -1, LOST));
    assert_int_equal(n_objects, 2);
    assert_true(strstr(objects[0].key, "/copy/") || strstr(objects[1].key, "/copy/"));
    assert_true(strstr(objects[0].key, "/index/") || strstr(objects[1].key, "/index/"));
    canned_stop(&store);
}

/* -- cleaning ------------------------------------------------------------------------------------------- */

/* add_change -- one that began so long ago. */
static void add_change(int64_t age_s)
{
    char note[SP_S3_NOTE], key[SP_S3_KEY];
    sp_s3_names names;
    sp_s3_names_init(&names, "", s3_site("").space);
    sp_s3_note((uint64_t)(time(NULL) - age_s) * 1000, "1 2 3 0 4 5000 0", note);
    sp_s3_change_key(&names, name, note, key);
    put("", key);
}

static void clean(void)
{
    int64_t n_orphans = 0, n_gone = 0;
    const sp_remote_site site = s3_site("s3://first");
    assert_ok(sp_s3_clean(&site, &n_orphans, &n_gone));
    assert_true(n_orphans == 0 && n_gone == 0);
}

/* Another server may be making a younger one. */
static void changes_of_more_than_a_day_are_cleaned_up(void **state)
{
    begin();
    for (int has_copy = 0; has_copy < 2; has_copy++) {
        if (has_copy) assert_false(fail_amid(put_copy, -1, LOST));
        const int n = n_objects;
        add_change(80000);
        clean();
        assert_int_equal(n_objects, n + 1);
        n_objects = n;
        add_change(90000);
        clean();
        assert_int_equal(n_objects, n); /* the copy stays */
    }
    canned_stop(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_put_leaves_nothing_that_is_not_found),
        cmocka_unit_test(a_lost_drop_leaves_nothing_that_is_not_found),
        cmocka_unit_test(a_put_that_ends_amid_a_sweep_is_found),
        cmocka_unit_test(a_put_leaves_a_copy_and_its_notice),
        cmocka_unit_test(changes_of_more_than_a_day_are_cleaned_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
