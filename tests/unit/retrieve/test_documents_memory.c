/* test_documents_memory.c -- reading a document while an allocation fails, of the program or of a library: it is read
 * whole, or there was no memory. Nothing says that it is damaged. */
#include "support/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

#include "retrieve/documents_int.h"

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t width);
void *__libc_realloc(void *p, size_t n);

#define SEEN __attribute__((visibility("default"))) /* by libraries, too */

static int until_failure = -1; /* allocations; -1: none fails */

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

static sp_err read_docx(const char *file, size_t n, taken *t)
{
    sp_reading r = {.path = "a.docx", .fn = take, .user = t};
    t->n = 0;
    return sp_documents_read(&r, sp_document_format(r.path), file, n);
}

static void a_document_is_whole_or_memory_was_short(void **state)
{
    static char file[16384];
    static taken right, t;
    const size_t n = make_docx(file, sizeof file);
    assert_int_equal(read_docx(file, n, &right), SP_OK);
    assert_true(right.n > 40 * 20);
    int at = 0, n_short = 0;
    bool failed = true;
    for (; failed; at++) {
        until_failure = at;
        const sp_err err = read_docx(file, n, &t);
        failed = until_failure < 0;
        until_failure = -1;
        if (err != SP_OK && err != SP_E_NOMEM) fail_msg("allocation %d: %d %s", at, err, sp_error_detail());
        if (err == SP_OK && (t.n != right.n || memcmp(t.text, right.text, t.n) != 0))
            fail_msg("allocation %d: %zu of %zu bytes", at, t.n, right.n);
        n_short += err != SP_OK;
    }
    if (at < 40 || n_short < 10) fail_msg("%d allocations, %d of them needed", at, n_short);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_document_is_whole_or_memory_was_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
