/* test_documents_memory.c -- a thread that has read none before reads a document while an allocation fails, of the
 * program or of a library: it is read whole, or there was no memory. Nothing says that it is damaged. */
#include "support/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <iconv.h>
#include <libxml/parser.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "base/json.h"
#include "retrieve/documents/readers_int.h"

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t width);
void *__libc_realloc(void *p, size_t n);

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* the sanitizer has its own malloc, which a test cannot replace: all tests are skipped */
#else
#define SANITIZED 0
#endif

#define SEEN __attribute__((visibility("default"))) /* by libraries, too */

/* Of the thread: an allocation of another one, such as the test's own, does not count. */
static _Thread_local int until_failure = -1; /* allocations; -1: none fails */

#if !SANITIZED
static bool fails(void)
{
    if (until_failure < 0 || until_failure-- > 0) return false;
    errno = ENOMEM;
    return true;
}

SEEN void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

SEEN void *calloc(size_t n, size_t width)
{
    return fails() ? NULL : __libc_calloc(n, width);
}

SEEN void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}
#endif

static _Thread_local int n_converters; /* that are open, also libxml2's */

SEEN iconv_t iconv_open(const char *to, const char *from)
{
    typedef iconv_t open_fn(const char *, const char *);
    open_fn *next = (open_fn *)dlsym(RTLD_NEXT, "iconv_open");
    iconv_t c = next(to, from);
    n_converters += c != (iconv_t)-1;
    return c;
}

SEEN int iconv_close(iconv_t c)
{
    n_converters--;
    int (*next)(iconv_t) = (int (*)(iconv_t))dlsym(RTLD_NEXT, "iconv_close");
    return next(c);
}

/* make_docx -- an archive with one file: 40 paragraphs. */
static size_t make_docx(char *out, size_t most)
{
    static char xml[8192];
    zip_error_t why;
    size_t n = (size_t)snprintf(xml, sizeof xml, "<?xml version=\"1.0\"?><w:document xmlns:w=\"http://schemas."
                                                 "openxmlformats.org/wordprocessingml/2006/main\"><w:body>");
    for (int i = 0; i < 40; i++)
        n += (size_t)snprintf(xml + n, sizeof xml - n, "<w:p><w:r><w:t>Pier %d was built in %d.</w:t></w:r></w:p>", i,
                              1800 + i);
    snprintf(xml + n, sizeof xml - n, "</w:body></w:document>");
    zip_source_t *to = zip_source_buffer_create(NULL, 0, 0, &why);
    zip_t *z = zip_open_from_source(to, ZIP_TRUNCATE, &why);
    zip_source_keep(to);
    zip_source_t *from = zip_source_buffer(z, xml, strlen(xml), 0);
    assert_true(zip_file_add(z, "word/document.xml", from, 0) >= 0);
    assert_int_equal(zip_close(z), 0);
    assert_int_equal(zip_source_open(to), 0);
    const zip_int64_t got = zip_source_read(to, out, most);
    assert_true(got > 0 && (size_t)got < most);
    zip_source_close(to);
    zip_source_free(to);
    return (size_t)got;
}

typedef struct taken {
    char text[8192];
    size_t n;
} taken;

static sp_err take(const sp_document *d, void *user)
{
    taken *t = user;
    assert_true(d->n < sizeof t->text);
    memcpy(t->text, d->text, t->n = d->n);
    return SP_OK;
}

/* A file, and how its reading ends. */
typedef struct job {
    const char *path, *file;
    size_t n;
    int at; /* the allocation that fails; -1: none */
    taken text;
    sp_err err;
    bool failed;
    int n_open; /* converters of encodings that it left open */
    char why[256];
} job;

static void *read_file(void *arg)
{
    job *j = arg;
    sp_reading r = {.path = j->path, .fn = take, .user = &j->text};
    until_failure = j->at;
    j->err = sp_documents_read(&r, sp_document_format(r.path), j->file, j->n);
    j->failed = j->at >= 0 && until_failure < 0;
    until_failure = -1;
    j->n_open = n_converters;
    if (j->err != SP_OK) snprintf(j->why, sizeof j->why, "%s", sp_error_detail());
    return NULL;
}

/* run -- in a new thread: libxml2 has a state for each. */
static void run(job *j, int at)
{
    pthread_t thread;
    j->at = at;
    j->text.n = 0;
    assert_int_equal(pthread_create(&thread, NULL, read_file, j), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* check_whole_or_short -- when each allocation fails; at least so many of them are needed. */
static void check_whole_or_short(const char *path, const char *file, size_t n, size_t n_text, int n_needed)
{
    static job right, j;
    if (SANITIZED) skip();
    right = j = (job){.path = path, .file = file, .n = n};
    run(&right, -1);
    assert_int_equal(right.err, SP_OK);
    assert_true(right.text.n > n_text);
    int at = 0, n_short = 0;
    do {
        run(&j, at);
        if (j.err != SP_OK && j.err != SP_E_NOMEM) fail_msg("allocation %d: %d %s", at, j.err, j.why);
        if (j.err == SP_OK && (j.text.n != right.text.n || memcmp(j.text.text, right.text.text, j.text.n) != 0))
            fail_msg("allocation %d: %zu of %zu bytes", at, j.text.n, right.text.n);
        if (j.n_open) fail_msg("allocation %d: %d converters are left open", at, j.n_open);
        n_short += j.err != SP_OK;
        at++;
    } while (j.failed);
    if (n_short < n_needed) fail_msg("%d allocations, %d of them needed", at, n_short);
}

static void a_document_is_whole_or_memory_was_short(void **state)
{
    static char file[16384];
    check_whole_or_short("a.docx", file, make_docx(file, sizeof file), 40 * 20, 10);
}

static void a_page_is_whole_or_memory_was_short(void **state)
{
    static char page[32768];
    size_t n = (size_t)snprintf(page, sizeof page, "<html><title>Piers</title><body><h1>Piers &amp; boats</h1><p>");
    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(page + n, sizeof page - n, "<b id=i%d>%d</b> <i>of</i>", i, i % 10);
    check_whole_or_short("a.html", page, n, 3000, 5);
}

static void a_page_in_another_encoding_is_whole_or_memory_was_short(void **state)
{
    static char page[32768];
    size_t n = (size_t)snprintf(page, sizeof page, "<html><meta charset=koi8-r><title>\xC4\xC1</title><body><p>");
    for (int i = 0; i < 1000; i++) n += (size_t)snprintf(page + n, sizeof page - n, "<b>\xC4</b> <i>%d</i>", i);
    check_whole_or_short("a.html", page, n, 3000, 5);
}

static void a_text_in_another_encoding_is_whole_or_memory_was_short(void **state)
{
    /* GB 18030: "artificial intelligence changes how we live and work" */
    static const char text[] = "\xC8\xCB\xB9\xA4\xD6\xC7\xC4\xDC\xD5\xFD\xD4\xDA\xB8\xC4\xB1\xE4\xCE\xD2\xC3"
                               "\xC7\xB5\xC4\xC9\xFA\xBB\xEE\xB7\xBD\xCA\xBD\xA1\xA3";
    check_whole_or_short("a.txt", text, sizeof text - 1, 40, 2);
}

/* jansson calls some lacks of memory a syntax error, and a bad line is skipped; of others it cuts a text. */
static void json_is_whole_or_memory_was_short(void **state)
{
#define PIER "The pier of Velm was built in 1850, of oak from the woods of Larbar"
    static const char line[] = "{\"title\": \"Piers\", \"text\": \"" PIER ", with a lamp.\", \"n\": [1, 2.5, null]}\n";
    static const char book[] = "{\"cells\": [{\"cell_type\": \"markdown\", \"source\": "
                               "[\"# Piers of Velm and others\\n\", \"" PIER "\"]}]}";
    check_whole_or_short("a.jsonl", line, sizeof line - 1, 80, 10);
    check_whole_or_short("a.json", line, sizeof line - 1, 80, 10);
    check_whole_or_short("a.ipynb", book, sizeof book - 1, 80, 10);
}

static void xml_is_whole_or_memory_was_short(void **state)
{
    static const char xml[] = "<?xml version=\"1.0\"?><piers><pier name=\"one\"><built>in 1801</built></pier>"
                              "<pier name=\"two\"><built>in 1802 &amp; later</built></pier></piers>";
    check_whole_or_short("a.xml", xml, sizeof xml - 1, 30, 10);
}

/* The first thread that uses libxml2 is its main thread, whose state is static. */
static int set_up(void **state)
{
    xmlInitParser();
    return 0;
}

int main(void)
{
    sp_json_watch(malloc); /* as the program does */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_document_is_whole_or_memory_was_short),
        cmocka_unit_test(a_page_is_whole_or_memory_was_short),
        cmocka_unit_test(a_page_in_another_encoding_is_whole_or_memory_was_short),
        cmocka_unit_test(a_text_in_another_encoding_is_whole_or_memory_was_short),
        cmocka_unit_test(json_is_whole_or_memory_was_short),
        cmocka_unit_test(xml_is_whole_or_memory_was_short),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
