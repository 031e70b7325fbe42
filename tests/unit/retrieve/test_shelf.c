/* test_shelf.c -- the shelf alone: deletion of documents that repeat themselves, and the turns of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "retrieve/shelf/collections.h"
#include "retrieve/shelf/shelf_int.h"

enum { MANY = 40000 };

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static sp_shelf *open_shelf(void)
{
    sp_shelf *s;
    assert_int_equal(sp_shelf_open(NULL, &s), SP_OK);
    return s;
}

/* chunk -- with ids of its text and, for the dressed one, its title. */
static sp_shelf_chunk chunk(const char *title, const char *text)
{
    sp_shelf_chunk c = {.title = title, .text = text, .n_tokens = 1};
    snprintf((char *)c.ids[0].b, sizeof c.ids[0].b, "%s|%s", title, text);
    snprintf((char *)c.ids[1].b, sizeof c.ids[1].b, "|%s", text);
    return c;
}

static sp_err put(sp_shelf *s, const char *id, bool replace, const sp_shelf_chunk *v, int n)
{
    const sp_shelf_row row = {.tenant = "t", .id = id, .title = id, .replace = replace};
    return sp_shelf_put(s, &row, v, n);
}

static sp_shelf_chunk *equal_chunks(int n)
{
    sp_shelf_chunk *v = calloc((size_t)n, sizeof *v);
    for (int i = 0; i < n; i++) v[i] = chunk("", "a");
    return v;
}

static int count(sp_shelf *s, const char *id)
{
    sp_hits h = {0};
    if (sp_shelf_chunks(s, "t", id, 0, &h) != SP_OK) return -1;
    int n = h.n;
    sp_hits_fini(&h);
    return n;
}

/* -- the list ------------------------------------------------------------------------------------ */

/* listed -- the ids at a second, each with a blank after it. */
static const char *listed(sp_shelf *s, int64_t now_s)
{
    static char ids[100];
    sp_document_list l;
    const sp_shelf_query q = {.tenant = "t", .now_s = now_s, .limit = 10};
    assert_int_equal(sp_shelf_list(s, &q, &l), SP_OK);
    *ids = '\0';
    for (int i = 0; i < l.n; i++) strcat(strcat(ids, l.v[i].id), " ");
    sp_document_list_fini(&l);
    return ids;
}

/* The slash of an id ends its collection's name. */
static void a_list_within_a_collection_goes_on(void **state)
{
    static const char *const ids[] = {"b", "c", "c/a", "c/b", "c/c", "cd/e"};
    sp_shelf *s = open_shelf();
    sp_document_list l;
    const sp_shelf_chunk v = chunk("", "x");
    assert_int_equal(sp_shelf_add_collection(s, "t", "c", 0), SP_OK);
    assert_int_equal(sp_shelf_add_collection(s, "t", "cd", 0), SP_OK);
    for (size_t i = 0; i < SP_COUNT(ids); i++) assert_int_equal(put(s, ids[i], false, &v, 1), SP_OK);
    sp_shelf_query q = {.tenant = "t", .collection = "c", .limit = 9};
    assert_int_equal(sp_shelf_list(s, &q, &l), SP_OK);
    assert_int_equal(l.n, 3);
    sp_document_list_fini(&l);
    q.after = "b";
    assert_int_equal(sp_shelf_list(s, &q, &l), SP_OK);
    assert_int_equal(l.n, 1);
    assert_string_equal(l.v[0].id, "c/c");
    sp_document_list_fini(&l);
    sp_shelf_close(s);
}

/* Of a document that is being deleted, or whose last second is over, nothing is seen. */
static void the_list_has_what_lives(void **state)
{
    sp_shelf *s = open_shelf();
    sp_document_list l;
    const sp_shelf_chunk v = chunk("", "x");
    const sp_shelf_row row = {.tenant = "t", .id = "timed", .title = "", .expires_s = 50};
    assert_int_equal(put(s, "a", false, &v, 1), SP_OK);
    assert_int_equal(put(s, "b", false, &v, 1), SP_OK);
    assert_int_equal(sp_shelf_put(s, &row, &v, 1), SP_OK);
    assert_string_equal(listed(s, 50), "a b timed ");
    assert_string_equal(listed(s, 51), "a b ");
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_OK);
    assert_string_equal(listed(s, 50), "b timed ");
    assert_int_equal(sp_shelf_list(s, &(sp_shelf_query){.tenant = "t", .id = "a", .limit = 1}, &l), SP_E_NOTFOUND);
    assert_int_equal(count(s, "a"), -1);
    sp_digests ids = {0};
    assert_int_equal(sp_shelf_ids(s, "t", "a", &ids), SP_E_NOTFOUND);
    const sp_shelf_chunk newer = chunk("", "y");
    assert_int_equal(put(s, "a", false, &newer, 1), SP_OK);
    assert_int_equal(sp_shelf_ids(s, "t", "a", &ids), SP_OK);
    assert_int_equal(ids.n, 1); /* not those of the text that it replaces */
    sp_vec_fini(&ids);
    sp_shelf_close(s);
}

/* -- one text many times ----------------------------------------------------------------------- */

static void a_text_that_a_document_repeats_is_looked_up_once(void **state)
{
    sp_shelf *s = open_shelf();
    sp_shelf_chunk *v = equal_chunks(MANY);
    sp_doomed d;
    assert_int_equal(put(s, "many", false, v, MANY), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "many"), SP_OK);
    double before = cpu_s();
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    double used = cpu_s() - before;
    assert_int_equal(d.rows.n, 1);
    assert_int_equal(d.ids.n, 1); /* without a title both ids are one */
    assert_int_equal(d.texts.n, 1);
    assert_string_equal(d.texts.v[0].text, "a");
    if (used > 5) fail_msg("%d equal chunks take %.1f s", MANY, used); /* 0.1 s; pairwise 100 s */
    assert_int_equal(sp_shelf_forget(s, &d), SP_OK);
    sp_doomed_fini(&d);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.rows.n, 0);
    sp_doomed_fini(&d);
    free(v);
    sp_shelf_close(s);
}

static void a_text_of_a_live_document_is_not_lost(void **state)
{
    sp_shelf *s = open_shelf();
    sp_shelf_chunk both[] = {chunk("T", "shared"), chunk("T", "own"), chunk("U", "shared")};
    sp_shelf_chunk other[] = {chunk("T", "shared")};
    sp_doomed d;
    assert_int_equal(put(s, "a", false, both, 3), SP_OK);
    assert_int_equal(put(s, "b", false, other, 1), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_OK);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.ids.n, 3); /* "T|own", "|own", "U|shared" */
    assert_int_equal(d.texts.n, 2);
    assert_string_equal(d.texts.v[0].text, "own");
    assert_string_equal(d.texts.v[1].title, "U");
    assert_string_equal(d.texts.v[1].root, "t");
    assert_int_equal(d.shared.n, 2);
    assert_true(!d.shared.v[0] && d.shared.v[1]); /* "shared" is b's, too */
    sp_doomed_fini(&d);
    sp_shelf_close(s);
}

/* Ids are looked up some at a time: these are more. */
static void all_ids_of_a_document_are_lost(void **state)
{
    enum { N = 300 };
    static char texts[N][16];
    static sp_shelf_chunk v[N];
    sp_shelf *s = open_shelf();
    sp_doomed d;
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof texts[i], "text %d", i);
        v[i] = chunk("T", texts[i]);
    }
    assert_int_equal(put(s, "a", false, v, N), SP_OK);
    assert_int_equal(put(s, "b", false, v, 1), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "a"), SP_OK);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.ids.n, 2 * (N - 1));
    assert_int_equal(d.texts.n, N - 1);
    for (size_t i = 1; i < d.ids.n; i++) assert_true(memcmp(d.ids.v[i - 1].b, d.ids.v[i].b, sizeof d.ids.v->b) < 0);
    sp_doomed_fini(&d);
    sp_shelf_close(s);
}

static void only_documents_whose_copies_were_listed_are_forgotten(void **state)
{
    sp_shelf *s = open_shelf();
    sp_shelf_chunk one[] = {chunk("", "one")}, two[] = {chunk("", "two")};
    sp_doomed d;
    assert_int_equal(put(s, "one", false, one, 1), SP_OK);
    assert_int_equal(put(s, "two", false, two, 1), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "two"), SP_OK);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(sp_shelf_doom(s, "t", "one"), SP_OK); /* while those copies are erased */
    assert_int_equal(sp_shelf_forget(s, &d), SP_OK);
    sp_doomed_fini(&d);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.rows.n, 1);
    assert_int_equal(d.texts.n, 1);
    assert_string_equal(d.texts.v[0].text, "one");
    sp_doomed_fini(&d);
    sp_shelf_close(s);
}

/* -- slices ------------------------------------------------------------------------------------ */

static void a_replaced_document_of_many_slices_is_whole_or_absent(void **state)
{
    sp_shelf *s = open_shelf();
    sp_shelf_chunk *v = equal_chunks(MANY), one[] = {chunk("", "b")};
    sp_doomed d;
    assert_int_equal(put(s, "d", false, one, 1), SP_OK);
    assert_int_equal(put(s, "d", false, v, MANY), SP_E_ARG);
    assert_int_equal(count(s, "d"), 1);
    assert_int_equal(put(s, "d", true, v, MANY), SP_OK);
    assert_int_equal(count(s, "d"), MANY);
    assert_int_equal(put(s, "d", true, one, 1), SP_OK);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.rows.n, 2);
    assert_int_equal(d.ids.n, 1);
    assert_string_equal(d.texts.v[0].text, "a");
    sp_doomed_fini(&d);
    free(v);
    sp_shelf_close(s);
}

/* turns -- how often the connection was given away since *before. */
static int turns(const sp_shelf *s, uint64_t *before)
{
    int n = (int)(s->n_tickets - *before);
    *before = s->n_tickets;
    return n;
}

static void long_documents_are_worked_on_in_many_turns(void **state)
{
    enum { SLICES = MANY / SP_SHELF_SLICE };
    sp_shelf *s = open_shelf();
    sp_shelf_chunk *v = equal_chunks(MANY);
    uint64_t before = 0;
    sp_doomed d;
    turns(s, &before);
    assert_int_equal(put(s, "many", false, v, MANY), SP_OK);
    assert_true(SLICES > 8 && turns(s, &before) >= SLICES);
    assert_int_equal(sp_shelf_doom(s, "t", "many"), SP_OK);
    assert_int_equal(turns(s, &before), 1);
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_true(turns(s, &before) >= SLICES);
    assert_int_equal(sp_shelf_forget(s, &d), SP_OK);
    assert_true(turns(s, &before) >= SLICES);
    assert_int_equal(s->n_served, s->n_tickets);
    sp_doomed_fini(&d);
    free(v);
    sp_shelf_close(s);
}

enum { THREADS = 4, ROUNDS = 50 };

static void *put_and_remove(void *arg)
{
    sp_shelf *s = arg;
    char id[24];
    snprintf(id, sizeof id, "%lx", (unsigned long)pthread_self());
    sp_shelf_chunk one[] = {chunk("", "a")};
    for (int i = 0; i < ROUNDS; i++)
        if (put(s, id, false, one, 1) != SP_OK || count(s, id) != 1 ||
            sp_shelf_doom(s, "t", id) != SP_OK)
            return s;
    return NULL;
}

static void threads_take_turns(void **state)
{
    sp_shelf *s = open_shelf();
    pthread_t threads[THREADS];
    sp_doomed d;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, put_and_remove, s), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(sp_shelf_doomed(s, NULL, &d), SP_OK);
    assert_int_equal(d.rows.n, THREADS * ROUNDS);
    assert_int_equal(d.ids.n, 1);
    assert_int_equal(sp_shelf_forget(s, &d), SP_OK);
    sp_doomed_fini(&d);
    sp_shelf_close(s);
}

/* -- damaged files ----------------------------------------------------------------------------- */

enum { STORED = 60 };

static void id_of(int i, char out[16])
{
    snprintf(out, 16, "doc-%02d", i);
}

static int chunks_of(int i)
{
    return 1 + i % 7 * 3;
}

static char *text_of(int i, int at)
{
    char *text;
    assert_true(asprintf(&text, "%d/%d %0*d", i, at, 40 + i % 5 * 400, i * 1000 + at) > 0);
    return text;
}

static void make_file(const char *path)
{
    sp_shelf *s;
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    for (int i = 0; i < STORED; i++) {
        char id[16];
        sp_shelf_chunk v[32];
        id_of(i, id);
        for (int c = 0; c < chunks_of(i); c++) v[c] = chunk("title", text_of(i, c));
        assert_int_equal(put(s, id, false, v, chunks_of(i)), SP_OK);
        for (int c = 0; c < chunks_of(i); c++) free((char *)v[c].text);
    }
    sp_shelf_close(s);
}

/* What a repair said was lost: documents by number, and without a name. */
typedef struct said {
    bool lost[STORED];
    int n_named, n_nameless;
} said;

static void hear(const char *id, const char *title, void *user)
{
    said *s = user;
    if (!id) s->n_nameless++;
    if (!id) return;
    s->n_named++;
    if (strncmp(id, "doc-", 4) == 0 && atoi(id + 4) < STORED) s->lost[atoi(id + 4)] = true;
}

/* is_there -- with all chunks and their texts; a document that is there has to be. */
static bool is_there(sp_shelf *s, int i)
{
    char id[16];
    sp_hits h = {0};
    id_of(i, id);
    if (sp_shelf_chunks(s, "t", id, 0, &h) != SP_OK) return false;
    assert_int_equal(h.n, chunks_of(i));
    for (int c = 0; c < h.n; c++) {
        char *text = text_of(i, c);
        assert_string_equal(h.v[c].text, text);
        free(text);
    }
    sp_hits_fini(&h);
    return true;
}

static void damage(const char *path, long at, int byte, long n)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    while (n--) fputc(byte, f);
    assert_int_equal(fclose(f), 0);
}

static void copy_file(const char *from, const char *to)
{
    char command[256];
    snprintf(command, sizeof command, "cp %s %s", from, to);
    assert_int_equal(system(command), 0);
}

/* Every page in turn is zeros, or noise: what the repair calls saved is whole, all else is named. */
static void a_repair_saves_what_can_be_read_and_names_the_rest(void **state)
{
    char dir[] = "/dev/shm/shelf-XXXXXX", path[64], whole[64], kept[64];
    int n_saved = 0, n_pages = 0;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/documents.db", dir);
    snprintf(whole, sizeof whole, "%s/whole.db", dir);
    snprintf(kept, sizeof kept, "%s/documents.db.damaged", dir);
    make_file(whole);
    struct stat st;
    assert_int_equal(stat(whole, &st), 0);
    for (long at = 4096; at < st.st_size; at += at < 20 * 4096 ? 4096 : 7 * 4096, n_pages++) {
        said s = {0};
        sp_documents_repaired sum;
        sp_shelf *fixed;
        copy_file(whole, path);
        damage(path, at, at % 8192 ? 0 : 0xA5, 4096);
        const sp_shelf_repair_opts save = {.save = true, .lost = hear, .user = &s};
        sp_err err = sp_shelf_repair(path, &save, &sum);
        if (err != SP_OK) print_message("page %ld: %s\n", at / 4096, sp_error_detail());
        assert_int_equal(err, SP_OK);
        assert_int_equal(sum.n_lost, s.n_named + s.n_nameless);
        assert_int_equal(sum.n_saved + sum.n_lost, STORED);
        bool good;
        assert_int_equal(sp_shelf_is_whole(path, &good), SP_OK);
        assert_true(good);
        assert_int_equal(stat(kept, &st), 0);
        assert_int_equal(sp_shelf_open(path, &fixed), SP_OK);
        int n = 0;
        for (int i = 0; i < STORED; i++) {
            const bool there = is_there(fixed, i);
            assert_false(there && s.lost[i]);
            n += there;
        }
        assert_int_equal(n, sum.n_saved);
        n_saved += n;
        sp_shelf_close(fixed);
    }
    assert_true(n_pages > 60 && n_saved > n_pages * STORED * 9 / 10);
    snprintf(kept, sizeof kept, "rm -r %s", dir);
    assert_int_equal(system(kept), 0);
}

/* Of a file whose first page is gone nothing can be read: repair changes nothing, a rebuild starts an empty file. */
static void a_file_without_its_header_is_rebuilt_empty(void **state)
{
    char dir[] = "/tmp/shelf-XXXXXX", path[64], other[80];
    sp_documents_repaired sum;
    sp_shelf *s;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/documents.db", dir);
    make_file(path);
    damage(path, 0, 0xA5, 100);
    assert_int_equal(sp_shelf_open(path, &s), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), "spolia documents repair"));
    assert_int_equal(sp_shelf_repair(path, &(sp_shelf_repair_opts){.save = true}, &sum), SP_E_FORMAT);
    assert_non_null(strstr(sp_error_detail(), "spolia documents rebuild"));
    snprintf(other, sizeof other, "%s.damaged", path);
    assert_int_equal(access(other, F_OK), -1);
    assert_int_equal(sp_shelf_repair(path, &(sp_shelf_repair_opts){0}, &sum), SP_OK);
    assert_int_equal(access(other, F_OK), 0);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    assert_int_equal(count(s, "doc-01"), -1);
    sp_shelf_close(s);
    snprintf(other, sizeof other, "rm -r %s", dir);
    assert_int_equal(system(other), 0);
}

static void a_file_that_was_no_database_is_not_rebuilt(void **state)
{
    char path[] = "/tmp/shelf-XXXXXX", other[40];
    static const char model[4096] = "GGUF\3\0\0\0", text[512] = "A note.";
    const struct {
        const void *data;
        size_t n;
        sp_err err;
    } cases[] = {{text, 7, SP_E_UNSUPPORTED}, {model, 4095, SP_E_UNSUPPORTED}, {model, 4096, SP_OK}};
    sp_documents_repaired sum;
    const int f = mkstemp(path);
    assert_true(f >= 0);
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        assert_int_equal(ftruncate(f, 0), 0);
        assert_int_equal(pwrite(f, cases[i].data, cases[i].n, 0), cases[i].n);
        assert_int_equal(sp_shelf_repair(path, &(sp_shelf_repair_opts){0}, &sum), cases[i].err);
    }
    close(f);
    snprintf(other, sizeof other, "%s.damaged", path);
    assert_int_equal(unlink(other), 0); /* of the last one: it may be a page of a database */
    unlink(path);
}

/* -- bytes of what is deleted -------------------------------------------------------------------- */

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static bool file_has(const char *path, const char *text)
{
    FILE *f = fopen(path, "rb");
    char *data = malloc(1 << 22);
    assert_non_null(f);
    const size_t n = fread(data, 1, 1 << 22, f);
    const bool has = memmem(data, n, text, strlen(text));
    fclose(f);
    free(data);
    return has;
}

static int64_t n_free_pages(const sp_shelf *s)
{
    int64_t n;
    assert_int_equal(sp_db_number(s->db, s->path, "PRAGMA freelist_count", &n), SP_OK);
    return n;
}

static char rewrite_said[512];

static void hear_rewrite(sp_log_level level, const char *text, void *user)
{
    const size_t n = strlen(rewrite_said);
    if (strstr(text, "rewritten")) snprintf(rewrite_said + n, sizeof rewrite_said - n, "%s\n", text);
}

/* A transaction that fails, or is killed, leaves in a page that was free what it wrote there: so none is. */
static void no_page_is_free(void **state)
{
    char path[] = "/tmp/spolia-shelf-XXXXXX";
    sp_shelf *s;
    close(mkstemp(path));
    make_file(path);
    run_sql(path, "PRAGMA auto_vacuum = NONE; VACUUM; PRAGMA secure_delete = OFF;"  /* a file of before */
                  "CREATE TABLE t (x);"
                  "INSERT INTO t VALUES ('left by a failed write' || zeroblob(9000));"
                  "DROP TABLE t");
    assert_true(file_has(path, "left by a failed write"));
    sp_log_set(SP_LOG_WARN, hear_rewrite, NULL);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    const char *before = strstr(rewrite_said, "is rewritten once"), *after = strstr(rewrite_said, "rewritten in ");
    assert_true(before && after && before < after && strstr(after, " s\n"));
    assert_false(file_has(path, "left by a failed write"));
    assert_int_equal(count(s, "doc-01"), chunks_of(1));
    sp_doomed gone = {0};
    for (int i = 0; i < STORED; i++) {
        char id[16];
        id_of(i, id);
        assert_int_equal(sp_shelf_doom(s, "t", id), SP_OK);
    }
    assert_int_equal(sp_shelf_doomed(s, NULL, &gone), SP_OK);
    assert_int_equal(sp_shelf_forget(s, &gone), SP_OK);
    assert_int_equal(n_free_pages(s), 0);
    sp_doomed_fini(&gone);
    sp_shelf_close(s);
    unlink(path);
}

/* Where there is no room for a rewritten file the documents are served from the old one. */
static void a_file_that_cannot_be_rewritten_is_opened(void **state)
{
    char path[] = "/tmp/spolia-shelf-XXXXXX";
    struct rlimit before, tight;
    sp_shelf *s;
    close(mkstemp(path));
    make_file(path);
    run_sql(path, "PRAGMA auto_vacuum = NONE; VACUUM; CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(9000000));");
    *rewrite_said = '\0';
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = (struct rlimit){.rlim_cur = 4000000, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    sp_log_set(SP_LOG_WARN, hear_rewrite, NULL);
    const sp_err err = sp_shelf_open(path, &s);
    sp_log_set(SP_LOG_WARN, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(err, SP_OK);
    assert_non_null(strstr(rewrite_said, "cannot be rewritten, so a failed write may leave texts in its free pages"));
    assert_int_equal(count(s, "doc-01"), chunks_of(1));
    const sp_shelf_chunk one = chunk("", "x");
    assert_int_equal(put(s, "new", false, &one, 1), SP_OK);
    sp_shelf_close(s);
    unlink(path);
}

/* SQLite leaves rows that it moves to balance pages where they were, and secure_delete does not see them there. */
static void nothing_is_between_the_cells_of_a_page(void **state)
{
    enum { N = 40, STEPS = 600, LONGEST = 1200 };
    char path[] = "/tmp/spolia-shelf-XXXXXX", text[LONGEST + 64], words[N][40] = {{0}};
    uint64_t seed = 1;
    sp_shelf *s;
    close(mkstemp(path));
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    for (int i = 0; i < STEPS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        const int k = (int)(seed >> 33) % N, n = (int)(seed >> 40) % LONGEST;
        char id[16];
        snprintf(id, sizeof id, "d%d", k);
        if (words[k][0]) {
            sp_doomed gone = {0};
            assert_int_equal(sp_shelf_doom(s, "t", id), SP_OK);
            assert_int_equal(sp_shelf_doomed(s, NULL, &gone), SP_OK);
            assert_int_equal(sp_shelf_forget(s, &gone), SP_OK);
            sp_doomed_fini(&gone);
            assert_false(file_has(path, words[k]));
            words[k][0] = '\0';
            continue;
        }
        snprintf(words[k], sizeof words[k], "what document %d says", i);
        snprintf(text, sizeof text, "%s %0*d", words[k], n + 1, i);
        const sp_shelf_chunk one = chunk("T", text);
        assert_int_equal(put(s, id, false, &one, 1), SP_OK);
        assert_true(file_has(path, words[k]));
    }
    int64_t n_bad;
    const char *bad = "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'";
    assert_int_equal(sp_db_number(s->db, path, bad, &n_bad), SP_OK);
    assert_int_equal(n_bad, 0);
    sp_shelf_close(s);
    unlink(path);
}

/* Pages are told apart by their first byte, which the number of a page must not reach (gaps.c). */
static void a_file_has_no_more_pages_than_can_be_told_apart(void **state)
{
    char path[] = "/tmp/spolia-shelf-XXXXXX";
    sp_shelf *s;
    int64_t most;
    close(mkstemp(path));
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    assert_int_equal(sp_db_number(s->db, s->path, "PRAGMA max_page_count", &most), SP_OK);
    assert_true(most >> 24 < 2); /* 2 begins a page of a tree */
    sp_shelf_close(s);
    unlink(path);
}

/* A transaction that fails, and whose file cannot be cut afterwards, leaves there what it wrote beyond the end. */
static void nothing_is_beyond_the_last_page(void **state)
{
    char path[] = "/tmp/spolia-shelf-XXXXXX";
    char text[8192] = "left by a failed write";
    sp_shelf *s;
    close(mkstemp(path));
    make_file(path);
    assert_int_equal(sp_shelf_open(path, &s), SP_OK);
    FILE *f = fopen(path, "a");
    assert_int_equal(fwrite(text, sizeof text, 1, f), 1);
    fclose(f);
    sp_doomed gone = {0};
    assert_int_equal(sp_shelf_doom(s, "t", "doc-00"), SP_OK);
    assert_true(file_has(path, "left by a failed write"));
    assert_int_equal(sp_shelf_doomed(s, NULL, &gone), SP_OK);
    assert_int_equal(sp_shelf_forget(s, &gone), SP_OK);
    assert_false(file_has(path, "left by a failed write"));
    assert_int_equal(count(s, "doc-01"), chunks_of(1));
    sp_doomed_fini(&gone);
    sp_shelf_close(s);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_page_is_free),
        cmocka_unit_test(a_file_that_cannot_be_rewritten_is_opened),
        cmocka_unit_test(nothing_is_beyond_the_last_page),
        cmocka_unit_test(nothing_is_between_the_cells_of_a_page),
        cmocka_unit_test(a_file_has_no_more_pages_than_can_be_told_apart),
        cmocka_unit_test(a_file_that_was_no_database_is_not_rebuilt),
        cmocka_unit_test(a_list_within_a_collection_goes_on),
        cmocka_unit_test(the_list_has_what_lives),
        cmocka_unit_test(a_text_that_a_document_repeats_is_looked_up_once),
        cmocka_unit_test(a_text_of_a_live_document_is_not_lost),
        cmocka_unit_test(all_ids_of_a_document_are_lost),
        cmocka_unit_test(only_documents_whose_copies_were_listed_are_forgotten),
        cmocka_unit_test(a_replaced_document_of_many_slices_is_whole_or_absent),
        cmocka_unit_test(long_documents_are_worked_on_in_many_turns),
        cmocka_unit_test(threads_take_turns),
        cmocka_unit_test(a_repair_saves_what_can_be_read_and_names_the_rest),
        cmocka_unit_test(a_file_without_its_header_is_rebuilt_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
