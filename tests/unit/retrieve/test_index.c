/* Building an index and bringing it up to date, and everything that can go wrong with the files. */
#include "folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <utime.h>

#include "base/file.h"
#include "retrieve/index/texts.h"

static int64_t query(folder *f, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open_v2(f->index, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK);
    int rc = sqlite3_step(s);
    assert_true(rc == SQLITE_ROW || rc == SQLITE_DONE);
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    sqlite3_close(db);
    return number;
}

/* What must hold for every index that a build leaves. */
static void assert_sound(folder *f)
{
    query(f, "INSERT INTO words (words, rank) VALUES ('integrity-check', 1)");
    query(f, "INSERT INTO grams (grams, rank) VALUES ('integrity-check', 1)");
    assert_int_equal(
        query(f, "SELECT count(*) FROM grams WHERE rowid NOT IN (SELECT id FROM chunks)"), 0);
    assert_int_equal(query(f, "SELECT count(*) FROM files WHERE root NOT IN"
                              " (SELECT id FROM roots)"),
                     0);
    assert_int_equal(
        query(f, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check <> 'ok'"), 0);
    assert_int_equal(
        query(f, "SELECT count(*) FROM chunks WHERE file NOT IN (SELECT id FROM files)"), 0);
    assert_int_equal(query(f, "SELECT count(*) FROM files AS f WHERE n_chunks <>"
                              " (SELECT count(*) FROM chunks WHERE file = f.id)"),
                     0);
}

static void assert_stats(sp_index_stats s, int files, int chunks, int unchanged, int removed,
                         int skipped)
{
    assert_int_equal(s.n_files, files);
    assert_int_equal(s.n_chunks, chunks);
    assert_int_equal(s.n_unchanged, unchanged);
    assert_int_equal(s.n_removed, removed);
    assert_int_equal(s.n_skipped, skipped);
}

static void assert_refused(folder *f, sp_err code, const char *detail)
{
    sp_index_stats stats;
    assert_int_equal(folder_build(f, 20, &stats), code);
    if (!strstr(sp_error_detail(), detail))
        fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), detail);
}

static void make_old(folder *f, const char *name)
{
    assert_int_equal(utime(folder_path(f, name), &(struct utimbuf){1000000000, 1000000000}), 0);
}

/* -- building ------------------------------------------------------------------------------- */

static void every_kind_of_document_is_indexed(void **state)
{
    folder *f = *state;
    assert_int_equal(mkdir(folder_path(f, "sub"), 0755), 0);
    assert_int_equal(mkdir(folder_path(f, "sub.txt"), 0755),
                     0); /* a folder, whatever it is called */
    folder_write(f, "b.txt", "Badgers dig.");
    folder_write(f, "sub/a.md", "# Ants\n\nAnts carry.\n\n## Queens\n\nQueens rule.");
    folder_write(f, "sub.txt/c.html", "<h1>Cats</h1><p>Cats purr.");
    folder_write(f, "d.jsonl",
                 "{\"title\": \"Dogs\", \"text\": \"Dogs bark.\"}\n{\"text\": \"Ducks swim.\"}\n");
    folder_write(f, "e.png", "Eagles.");
    folder_write(f, ".hidden.txt", "Hares.");
    sp_index_stats s = folder_index(f);
    assert_stats(s, 4, 6, 0, 0, 0);
    assert_int_equal(s.n_bytes, 12 + 44 + 26 + 64);
    assert_sound(f);
    assert_string_equal(folder_ask(f, "badgers", 9), "b.txt:b.txt:Badgers dig.\n");
    assert_string_equal(folder_ask(f, "queen", 9),
                        "sub/a.md:Ants > Queens:## Queens\n\nQueens rule.\n");
    assert_string_equal(folder_ask(f, "carries", 9), "sub/a.md:Ants:# Ants\n\nAnts carry.\n");
    assert_string_equal(folder_ask(f, "purr", 9), "sub.txt/c.html:Cats:# Cats\n\nCats purr.\n");
    assert_string_equal(folder_ask(f, "bark", 9), "d.jsonl:Dogs:Dogs bark.\n");
    assert_string_equal(folder_ask(f, "swim", 9), "d.jsonl::Ducks swim.\n");
    assert_string_equal(folder_ask(f, "eagles hares", 9), "");
    assert_int_equal(query(f, "SELECT line FROM chunks WHERE text = 'Ducks swim.'"), 2);
}

static sp_err keep_titles(const sp_text_piece *p, void *user)
{
    char *to = user;
    sprintf(to + strlen(to), "%.*s|", (int)p->n_title, p->title);
    return SP_OK;
}

/* Of a document that a caller sends; without one it is the document's own. */
static void a_title_of_the_caller_replaces_the_own(void **state)
{
    static const char text[] = "# Own\n\nBadgers dig.\n\n## Part\n\nThey sleep.";
    static const char *const titles[] = {"Mine", NULL}, *const want[] = {"Mine > Own|Mine > Part|", "Own|Own > Part|"};
    for (int i = 0; i < 2; i++) {
        char got[200] = "";
        const sp_text_source s = {
            .name = "a.md", .title = titles[i], .data = text, .n = strlen(text), .size_words = 50};
        assert_int_equal(sp_text_pieces(&s, keep_titles, got), SP_OK);
        assert_string_equal(got, want[i]);
    }
}

static void an_empty_folder_gives_an_empty_index(void **state)
{
    folder *f = *state;
    assert_stats(folder_index(f), 0, 0, 0, 0, 0);
    assert_string_equal(folder_ask(f, "anything", 9), "");
    folder_write(f, "empty.txt", "");
    folder_write(f, "blank.md", " \n\n");
    folder_write(f, "empty.jsonl", "");
    folder_write(f, "empty.html", "");
    assert_stats(folder_index(f), 4, 0, 0, 0, 0);
    assert_sound(f);
}

static void what_cannot_be_read_is_skipped(void **state)
{
    folder *f = *state;
    folder_write(f, "good.txt", "Good words.");
    folder_write(f, "damaged.docx", "PK\3\4");
    folder_write_n(f, "binary.md", "a\0b", 3);
    folder_write(f, "name\xFF.txt", "name");
    assert_int_equal(symlink("nowhere", folder_path(f, "dangling.txt")), 0);
    assert_int_equal(mkfifo(folder_path(f, "pipe.txt"), 0644), 0);
    assert_stats(folder_index(f), 1, 1, 0, 0, 5);
    assert_sound(f);
    /* a file that becomes unreadable leaves the index */
    folder_write(f, "good.txt", "Bad \x01\xFF words.");
    assert_stats(folder_index(f), 0, 0, 0, 0, 6);
    assert_sound(f);
}

static const char *closed; /* the end of a folder's name that does not open */

DIR *opendir(const char *name)
{
    const size_t n = strlen(name), k = closed ? strlen(closed) : 0;
    if (closed && n >= k && strcmp(name + n - k, closed) == 0) return errno = EACCES, NULL;
    const int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? NULL : fdopendir(fd);
}

static void a_folder_that_does_not_open_is_skipped(void **state)
{
    folder *f = *state;
    sp_index_stats stats;
    folder_write(f, "a.txt", "Apples.");
    assert_int_equal(mkdir(folder_path(f, "sub"), 0755), 0);
    folder_write(f, "sub/b.txt", "Berries.");
    closed = "/sub";
    const sp_err err = folder_build(f, 20, &stats);
    closed = NULL;
    assert_int_equal(err, SP_OK);
    assert_stats(stats, 1, 1, 0, 0, 1);
    assert_stats(folder_index(f), 2, 2, 1, 0, 0);
}

static void links_are_followed_and_loops_end(void **state)
{
    folder *f = *state;
    char outside[200];
    folder_write(f, "a.txt", "Apples.");
    assert_int_equal(symlink("a.txt", folder_path(f, "link.txt")), 0);
    assert_int_equal(symlink(".", folder_path(f, "loop")), 0);
    assert_int_equal(mkdir(folder_path(f, "sub"), 0755), 0);
    assert_int_equal(symlink("..", folder_path(f, "sub/up")), 0);
    assert_stats(folder_index(f), 2, 2, 0, 0, 0);

    snprintf(outside, sizeof outside, "%s/outside", f->root);
    assert_int_equal(mkdir(outside, 0755), 0);
    assert_int_equal(symlink("../outside", folder_path(f, "y")), 0);
    assert_int_equal(symlink("../outside", folder_path(f, "x")), 0);
    assert_int_equal(symlink("../docs", folder_path(f, "y/back")), 0);
    folder_write(f, "x/b.txt", "Bananas.");
    assert_stats(folder_index(f), 3, 3, 2, 0, 0); /* once, by the first of its names */
    assert_string_equal(folder_ask(f, "bananas", 9), "x/b.txt:b.txt:Bananas.\n");
}

static void other_formats_are_counted_by_suffix(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_write(f, "b.PNG", "");
    folder_write(f, "c.png", "");
    folder_write(f, "d.zip", "");
    folder_write(f, "e", "");
    sp_index_stats s = folder_index(f);
    assert_stats(s, 1, 1, 0, 0, 0);
    assert_int_equal(s.n_other, 4);
    assert_string_equal(s.other[0].suffix, ".png");
    assert_int_equal(s.other[0].n, 2);
    assert_string_equal(s.other[1].suffix, "");
    assert_string_equal(s.other[2].suffix, ".zip");
    assert_int_equal(s.other[3].n, 0);
}

static void a_bad_line_is_skipped_and_counted(void **state)
{
    folder *f = *state;
    folder_write(f, "b.jsonl",
                 "{\"text\": \"one\"}\nnonsense\n{\"text\": \"two\"}\n{\"a\": 1}\n"
                 "{\"text\": \"\xE9\"}\n");
    sp_index_stats s = folder_index(f);
    assert_stats(s, 1, 2, 0, 0, 0);
    assert_int_equal(s.n_bad_lines, 3);
    assert_string_equal(folder_ask(f, "two", 9), "b.jsonl::two\n");
    assert_int_equal(query(f, "SELECT first_line FROM chunks WHERE text = 'two'"), 3);
}

static void assert_strictly_refused(folder *f, const char *detail)
{
    assert_int_equal(folder_build_as(f, (sp_index_opts){.strict = true}, NULL), SP_E_FORMAT);
    if (!strstr(sp_error_detail(), detail))
        fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), detail);
}

static void a_bad_line_is_an_error_if_strict(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_write(f, "b.jsonl", "{\"text\": \"one\"}\nnonsense\n");
    assert_strictly_refused(f, "docs/b.jsonl:2:");
    assert_int_equal(access(f->index, F_OK), -1); /* no half-made file stays */
    folder_write(f, "b.jsonl", "{\"text\": \"one\"}\n");
    folder_index(f);
    folder_write(f, "a.txt", "Avocados.");
    folder_write(f, "b.jsonl", "{\"text\": \"one\"}\n{\"text\": 2}\n");
    assert_strictly_refused(f, "docs/b.jsonl:2: field text");
    assert_string_equal(folder_ask(f, "apples avocados", 9), "a.txt:a.txt:Apples.\n");
    assert_sound(f);
}

static void chunks_know_their_lines(void **state)
{
    folder *f = *state;
    folder_write(f, "a.md", "# One\n\nAnts carry leaves\nover branches.\n\n## Two\n\nBees fly.\n");
    folder_write(f, "b.c",
                 "int ants(void)\n{\n    return 1;\n}\n\nint bees(void)\n{\n"
                 "    return one + two + three + four + five + six;\n}\n");
    folder_write(f, "c.html", "<html>\n<h1>H</h1>\n<p>text\n<h2>K</h2>\n<p>more</html>");
    folder_write(f, "d.csv", "name,kind\n\"Two\nlines\",moth\nsmall,gnat\n");
    folder_index(f);
    static const struct {
        const char *file, *like;
        int first, last;
    } cases[] = {
        {"a.md", "%Ants%", 1, 4},   {"a.md", "%Bees%", 6, 8},   {"b.c", "int ants%", 1, 4},
        {"b.c", "int bees%", 6, 9}, {"c.html", "%text%", 2, 3}, {"c.html", "%more%", 4, 5},
        {"d.csv", "%", 2, 4},
    };
    for (size_t i = 0; i < SP_COUNT(cases); i++) {
        char sql[200];
        snprintf(sql, sizeof sql,
                 "SELECT first_line * 100 + last_line FROM hits WHERE file = '%s' AND text LIKE "
                 "'%s'",
                 cases[i].file, cases[i].like);
        int64_t got = query(f, sql), expected = cases[i].first * 100 + cases[i].last;
        if (got != expected)
            fail_msg("%s %s: %lld instead of %lld", cases[i].file, cases[i].like, (long long)got,
                     (long long)expected);
    }
}

/* -- bringing it up to date ----------------------------------------------------------------- */

static void only_what_changed_is_read_again(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_write(f, "b.txt", "Bananas.");
    folder_write(f, "c.txt", "Cherries.");
    assert_stats(folder_index(f), 3, 3, 0, 0, 0);
    int64_t kept =
        query(f, "SELECT chunks.id FROM chunks JOIN files ON files.id = file WHERE path = 'c.txt'");
    assert_stats(folder_index(f), 3, 3, 3, 0, 0);

    folder_write(f, "a.txt", "Avocado"); /* as long as before and within the same clock tick */
    assert_int_equal(remove(folder_path(f, "b.txt")), 0);
    folder_write(f, "d.txt", "Dates.");
    assert_stats(folder_index(f), 3, 3, 1, 1, 0);
    assert_sound(f);
    assert_string_equal(folder_ask(f, "apples bananas", 9), "");
    assert_string_equal(folder_ask(f, "avocado", 9), "a.txt:a.txt:Avocado\n");
    assert_string_equal(folder_ask(f, "dates", 9), "d.txt:d.txt:Dates.\n");
    assert_int_equal(
        query(f, "SELECT chunks.id FROM chunks JOIN files ON files.id = file WHERE path = 'c.txt'"),
        kept);
}

static void an_old_time_and_the_same_size_is_taken_as_unchanged(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    make_old(f, "a.txt");
    folder_index(f);
    folder_write(f, "a.txt", "Avocado");
    make_old(f, "a.txt"); /* somebody set the time back: nothing tells that it changed */
    assert_stats(folder_index(f), 1, 1, 1, 0, 0);
    folder_write(f, "a.txt", "Avocados");
    make_old(f, "a.txt"); /* another size */
    assert_stats(folder_index(f), 1, 1, 0, 0, 0);
}

static void a_new_time_alone_changes_nothing(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_index(f);
    make_old(f, "a.txt");
    assert_stats(folder_index(f), 1, 1, 1, 0, 0);
    assert_int_equal(query(f, "SELECT mtime_ns FROM files"), INT64_C(1000000000) * 1000000000);
}

static void other_sizes_cut_everything_again(void **state)
{
    folder *f = *state;
    sp_index_stats stats;
    folder_write(f, "a.txt", "Apples are red. Bananas are yellow.");
    assert_int_equal(folder_build(f, 6, &stats), SP_OK);
    assert_stats(stats, 1, 1, 0, 0, 0);
    assert_int_equal(folder_build(f, 3, &stats), SP_OK);
    assert_stats(stats, 1, 2, 0, 0, 0);
    assert_int_equal(query(f, "SELECT size_words FROM options"), 3);
    assert_int_equal(query(f, "SELECT count(*) FROM options"), 1);
    assert_sound(f);
}

static int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All hits for a question, sorted, since the order of equal scores follows the ids. */
static void answers(folder *f, char *out)
{
    char *lines[256], *text = strdup(folder_ask(f, "alpha beta gamma delta", 200));
    size_t n = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) lines[n++] = line;
    qsort(lines, n, sizeof *lines, by_line);
    for (size_t i = 0; i < n; i++) out = stpcpy(stpcpy(out, lines[i]), "\n");
    *out = '\0';
    free(text);
}

/* Random changes to a folder: an index that was updated equals one that is built from nothing. */
static void an_updated_index_equals_a_new_one(void **state)
{
    static const char *const words[] = {"alpha", "beta", "gamma", "delta", "epsilon", "zeta"};
    static char updated[8192], rebuilt[8192];
    folder *f = *state, fresh = *f;
    snprintf(fresh.index, sizeof fresh.index, "%s/fresh", f->root);
    uint32_t seed = 7;
    for (int round = 0; round < 12; round++) {
        for (int change = 0; change < 6; change++) {
            char name[16], text[160] = "";
            seed = seed * 1664525u + 1013904223u;
            snprintf(name, sizeof name, "%u.txt", (seed >> 8) % 12);
            for (uint32_t i = 0, n = (seed >> 16) % 8; i < n; i++) {
                strcat(text, words[(seed >> (3 * i)) % SP_COUNT(words)]);
                strcat(text, i % 3 == 2 ? ". " : " ");
            }
            if ((seed >> 24) % 4 == 0)
                remove(folder_path(f, name));
            else
                folder_write(f, name, text);
        }
        sp_index_stats a, b;
        assert_int_equal(folder_build(f, 3, &a), SP_OK);
        unlink(fresh.index);
        assert_int_equal(folder_build(&fresh, 3, &b), SP_OK);
        assert_int_equal(a.n_files, b.n_files);
        assert_int_equal(a.n_chunks, b.n_chunks);
        assert_int_equal(a.n_bytes, b.n_bytes);
        answers(f, updated);
        answers(&fresh, rebuilt);
        assert_string_equal(updated, rebuilt);
        assert_sound(f);
    }
    assert_true(strlen(rebuilt) > 100);
}

static void equal_texts_have_equal_hashes(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "The same.");
    folder_write(f, "b.md", "# H\n\nother");
    folder_write(f, "c.jsonl", "{\"title\": \"another\", \"text\": \"  The same.\"}");
    folder_index(f);
    assert_int_equal(query(f, "SELECT count(DISTINCT sha256) FROM chunks"), 2);
    assert_int_equal(query(f, "SELECT count(*) FROM chunks WHERE hex(sha256) = "
                              "'002A94032DB09F02B1EF15274639E60C9AD2B6DA0AACF62DF1E23275F570EB08'"),
                     2);
    assert_int_equal(query(f, "SELECT min(length(sha256)) FROM chunks"), 32);
}

/* -- progress ------------------------------------------------------------------------------- */

typedef struct calls {
    sp_index_stats stats;
    int n, cancel_at;
    int64_t last_done;
} calls;

static bool look(const char *file, int64_t done, int64_t total, void *user)
{
    calls *c = user;
    assert_non_null(file);
    assert_true(done >= c->last_done && done <= total);
    assert_true(c->stats.n_files <= done + 1);
    c->last_done = done;
    return ++c->n != c->cancel_at;
}

static void progress_is_shown_within_a_large_file(void **state)
{
    folder *f = *state;
    FILE *out = fopen(folder_path(f, "big.jsonl"), "w");
    for (int i = 0; i < 3000; i++) fprintf(out, "{\"text\": \"document %d\"}\n", i);
    fclose(out);
    calls c = {.cancel_at = -1};
    sp_index_opts o = {.size_words = 20, .progress = look, .user = &c};
    assert_int_equal(folder_build_as(f, o, &c.stats), SP_OK);
    assert_int_equal(c.n, 3); /* after 1,024 and 2,048 chunks, and at the end of the file */
    assert_int_equal(c.last_done, 1);
    assert_int_equal(c.stats.n_chunks, 3000);
}

static void a_canceled_build_leaves_the_old_index(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_write(f, "b.txt", "Bananas.");
    calls c = {.cancel_at = 1};
    sp_index_opts o = {.size_words = 20, .progress = look, .user = &c};
    assert_int_equal(folder_build_as(f, o, &c.stats), SP_E_CANCELED);
    assert_int_equal(access(f->index, F_OK), -1);
    folder_index(f);
    folder_write(f, "a.txt", "Avocados.");
    c = (calls){.cancel_at = 2};
    assert_int_equal(folder_build_as(f, o, &c.stats), SP_E_CANCELED);
    assert_string_equal(folder_ask(f, "apples avocados", 9), "a.txt:a.txt:Apples.\n");
    assert_sound(f);
}

/* -- files that are not what they should be --------------------------------------------------- */

static void a_missing_folder_is_an_error(void **state)
{
    folder *f = *state;
    assert_int_equal(rmdir(f->docs), 0);
    assert_refused(f, SP_E_IO, f->docs);
    assert_int_equal(access(f->index, F_OK), -1);
}

static void bad_sizes_are_refused(void **state)
{
    folder *f = *state;
    sp_index_stats stats;
    assert_int_equal(folder_build(f, -1, &stats), SP_E_ARG);
    sp_index_opts o = {.size_words = 5, .overlap_words = 5};
    assert_int_equal(folder_build_as(f, o, NULL), SP_E_ARG);
    assert_int_equal(access(f->index, F_OK), -1);
}

static void an_index_that_cannot_be_written_is_an_error(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    snprintf(f->index, sizeof f->index, "%s/none/index", f->root);
    assert_refused(f, SP_E_IO, "none/index");
    snprintf(f->index, sizeof f->index, "%s", f->docs);
    assert_refused(f, SP_E_IO, f->docs);
    assert_int_equal(chmod(f->root, 0555), 0);
    snprintf(f->index, sizeof f->index, "%s/new", f->root);
    bool root = geteuid() == 0;
    if (root) assert_int_equal(seteuid(65534), 0);
    sp_err err = folder_build(f, 20, NULL);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(f->root, 0755), 0);
    assert_int_equal(err, SP_E_IO);
    assert_non_null(strstr(sp_error_detail(), "Permission denied"));
    f->index[0] = '\0';
    assert_refused(f, SP_E_ARG, "empty file name");
}

static void a_read_only_index_is_an_error(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_index(f);
    folder_write(f, "a.txt", "Avocados.");
    assert_int_equal(chmod(f->root, 0755), 0);
    assert_int_equal(chmod(f->index, 0444), 0);
    bool root = geteuid() == 0; /* whom no mode stops */
    if (root) assert_int_equal(seteuid(65534), 0);
    sp_index_stats stats;
    sp_err err = folder_build(f, 20, &stats);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_int_equal(err, SP_E_IO);
    assert_non_null(strstr(sp_error_detail(), f->index));
    assert_non_null(strstr(sp_error_detail(), "cannot write"));
    assert_string_equal(folder_ask(f, "apples", 9), "a.txt:a.txt:Apples.\n");
}

/* A limit on the size of files stands for a full disk: writing beyond it fails. */
static void a_full_disk_leaves_the_old_index(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_index(f);
    FILE *out = fopen(folder_path(f, "big.txt"), "w");
    for (int i = 0; i < 40000; i++) fprintf(out, "word%d. ", i);
    fclose(out);

    struct rlimit before, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    tight = (struct rlimit){.rlim_cur = 100000, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    sp_index_stats stats;
    sp_err err = folder_build(f, 20, &stats);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_DFL);

    assert_int_equal(err, SP_E_IO);
    assert_non_null(strstr(sp_error_detail(), f->index));
    assert_string_equal(folder_ask(f, "apples", 9), "a.txt:a.txt:Apples.\n");
    assert_sound(f);
}

static void assert_not_opened(folder *f, sp_err code, const char *detail)
{
    sp_index *ix = NULL;
    assert_int_equal(sp_index_open(f->index, &ix), code);
    assert_null(ix);
    if (!strstr(sp_error_detail(), detail))
        fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), detail);
    assert_non_null(strstr(sp_error_detail(), f->index));
}

static void what_is_no_index_is_refused_and_untouched(void **state)
{
    folder *f = *state;
    assert_not_opened(f, SP_E_IO, "No such file");
    FILE *out = fopen(f->index, "w");
    for (int i = 0; i < 500; i++) fputs("a text of somebody, not a database\n", out);
    fclose(out);
    assert_not_opened(f, SP_E_FORMAT, "not a database");
    assert_refused(f, SP_E_FORMAT, "not a database");
    struct stat st;
    assert_int_equal(stat(f->index, &st), 0);
    assert_int_equal(st.st_size, 500 * 35);

    assert_int_equal(truncate(f->index, 0), 0); /* an empty file is an index in waiting */
    assert_not_opened(f, SP_E_FORMAT, "not an index");
    folder_index(f);
}

static void another_database_is_refused_and_untouched(void **state)
{
    folder *f = *state;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(f->index, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "CREATE TABLE chunks (x); INSERT INTO chunks VALUES (7)", 0, 0, 0), 0);
    sqlite3_close(db);
    assert_not_opened(f, SP_E_FORMAT, "not an index");
    assert_refused(f, SP_E_FORMAT, "not an index");
    assert_int_equal(query(f, "SELECT x FROM chunks"), 7);
}

static void another_version_is_refused(void **state)
{
    folder *f = *state;
    folder_index(f);
    query(f, "PRAGMA user_version = 99");
    assert_not_opened(f, SP_E_FORMAT, "version 99");
    assert_refused(f, SP_E_FORMAT, "version 99");
    assert_refused(f, SP_E_FORMAT, "--replace"); /* says how to rebuild it */
    query(f, "DROP TABLE roots");
    folder_write(f, "a.txt", "Apples.");
    assert_int_equal(folder_build_as(f, (sp_index_opts){.replace = true}, NULL), SP_OK);
    assert_string_equal(folder_ask(f, "apples", 9), "a.txt:a.txt:Apples.\n");
    assert_sound(f);
}

/* Overwrites pages of a good index with noise: every outcome but a crash or a wrong success is
 * fine. */
static void a_damaged_index_is_an_error_or_still_works(void **state)
{
    folder *f = *state;
    char name[32], text[200];
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "%d.txt", i);
        snprintf(text, sizeof text, "Document %d tells of apples and pears number %d.", i, i * i);
        folder_write(f, name, text);
    }
    folder_index(f);
    sp_bytes good = {0};
    assert_int_equal(sp_file_read(f->index, 1 << 24, &good), SP_OK);
    int n_errors = 0;
    for (size_t at = 0; at < good.n; at += 1500) {
        int fd = open(f->index, O_WRONLY | O_TRUNC);
        size_t n = SP_MIN((size_t)700, good.n - at);
        char noise[700];
        for (size_t i = 0; i < n; i++) noise[i] = (char)(i * 37 + at);
        assert_int_equal(pwrite(fd, good.v, good.n, 0), good.n);
        assert_int_equal(pwrite(fd, noise, n, (off_t)at), n);
        close(fd);
        sp_index *ix;
        sp_hits hits;
        sp_err err = sp_index_open(f->index, &ix);
        if (err == SP_OK) {
            err = sp_index_search(ix, "apples number", 50, &hits);
            if (err == SP_OK) sp_hits_fini(&hits);
            sp_index_close(ix);
        }
        sp_index_stats stats;
        if (err == SP_OK) err = folder_build(f, 20, &stats);
        if (err == SP_OK) err = folder_build(f, 30, &stats);
        assert_true(err == SP_OK || err == SP_E_FORMAT || err == SP_E_IO);
        n_errors += err != SP_OK;
    }
    assert_true(n_errors > 5);
    sp_vec_fini(&good);
}

/* -- memory --------------------------------------------------------------------------------- */

static void running_out_of_memory_leaves_the_old_index(void **state)
{
    folder *f = *state;
    folder_write(f, "a.txt", "Apples.");
    folder_index(f);
    folder_write(f, "a.txt", "Avocados are green.");
    folder_write(f, "b.md", "# B\n\n## C\n\nBananas.");
    sp_err err = SP_E_NOMEM;
    int allocation = 1;
    for (; err != SP_OK; allocation++) {
        sp_index_stats stats;
        assert_in_range(allocation, 1, 1000);
        sp_fault_after(allocation);
        err = folder_build(f, 20, &stats);
        sp_fault_after(-1);
        assert_true(err == SP_OK || err == SP_E_NOMEM);
        if (err != SP_OK)
            assert_string_equal(folder_ask(f, "apples green", 9), "a.txt:a.txt:Apples.\n");
    }
    assert_true(allocation > 10);
    assert_sound(f);
}

/* same_time -- gives a file the time that it had. */
static void same_time(folder *f, const char *name, const struct stat *had)
{
    const struct timespec times[] = {had->st_atim, had->st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, folder_path(f, name), times, 0), 0);
}

/* A file that changes right after it was read may keep its size and its time, where the clock of the
 * file system is coarse: so young files are compared by their content. */
static void a_change_within_the_clocks_grain_is_seen(void **state)
{
    folder *f = *state;
    struct stat had;
    folder_write(f, "a.txt", "The harbour opens at nine.");
    assert_int_equal(stat(folder_path(f, "a.txt"), &had), 0);
    folder_index(f);
    folder_write(f, "a.txt", "The harbour opens at noon.");
    same_time(f, "a.txt", &had);
    sp_index_stats s = folder_index(f);
    assert_int_equal(s.n_unchanged, 0);
    assert_non_null(strstr(folder_ask(f, "harbour", 1), "noon"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(every_kind_of_document_is_indexed),
        FOLDER_TEST(a_title_of_the_caller_replaces_the_own),
        FOLDER_TEST(a_change_within_the_clocks_grain_is_seen),
        FOLDER_TEST(an_empty_folder_gives_an_empty_index),
        FOLDER_TEST(what_cannot_be_read_is_skipped),
        FOLDER_TEST(a_folder_that_does_not_open_is_skipped),
        FOLDER_TEST(links_are_followed_and_loops_end),
        FOLDER_TEST(other_formats_are_counted_by_suffix),
        FOLDER_TEST(a_bad_line_is_skipped_and_counted),
        FOLDER_TEST(a_bad_line_is_an_error_if_strict),
        FOLDER_TEST(chunks_know_their_lines),
        FOLDER_TEST(only_what_changed_is_read_again),
        FOLDER_TEST(an_old_time_and_the_same_size_is_taken_as_unchanged),
        FOLDER_TEST(a_new_time_alone_changes_nothing),
        FOLDER_TEST(other_sizes_cut_everything_again),
        FOLDER_TEST(an_updated_index_equals_a_new_one),
        FOLDER_TEST(equal_texts_have_equal_hashes),
        FOLDER_TEST(progress_is_shown_within_a_large_file),
        FOLDER_TEST(a_canceled_build_leaves_the_old_index),
        FOLDER_TEST(a_missing_folder_is_an_error),
        FOLDER_TEST(bad_sizes_are_refused),
        FOLDER_TEST(an_index_that_cannot_be_written_is_an_error),
        FOLDER_TEST(a_read_only_index_is_an_error),
        FOLDER_TEST(a_full_disk_leaves_the_old_index),
        FOLDER_TEST(what_is_no_index_is_refused_and_untouched),
        FOLDER_TEST(another_database_is_refused_and_untouched),
        FOLDER_TEST(another_version_is_refused),
        FOLDER_TEST(a_damaged_index_is_an_error_or_still_works),
        FOLDER_TEST(running_out_of_memory_leaves_the_old_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
