/* readings.h -- what a reader gives of a file, as one text. */
#ifndef SP_TESTS_READINGS_H
#define SP_TESTS_READINGS_H

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "retrieve/documents/readers_int.h"
#include "support/check.h"

/* Everything a reader gave: "title|text#" for each document, and the marks as "{offset:number}". */
static inline sp_err take(const sp_document *d, void *user)
{
    SP_TRY(sp_bytes_addf(user, "%.*s|%.*s#", (int)d->n_title, d->title, (int)d->n, d->text));
    for (size_t i = 0; d->place == SP_PLACE_MARKED_PAGES && i < d->n_marks; i++)
        SP_TRY(
            sp_bytes_addf(user, "{%zu:%lld}", d->marks[i].offset, (long long)d->marks[i].number));
    return SP_OK;
}

static inline sp_err read_bytes(const char *path, const void *data, size_t n, sp_bytes *got)
{
    sp_reading r = {.path = path, .fn = take, .user = got};
    char *copy = malloc(n + 1); /* its end is checked by the sanitizer */
    memcpy(copy, data, n);
    sp_err err = sp_documents_read(&r, sp_document_format(path), copy, n);
    free(copy);
    assert_int_equal(sp_bytes_add(got, "", 1), SP_OK);
    return err;
}

static inline void gives_bytes(const char *path, const void *data, size_t n, const char *want)
{
    sp_bytes got = {0};
    if (read_bytes(path, data, n, &got) != SP_OK) fail_msg("%s", sp_error_detail());
    assert_string_equal(got.v, want);
    sp_vec_fini(&got);
}

static inline void gives(const char *path, const char *text, const char *want)
{
    gives_bytes(path, text, strlen(text), want);
}

static inline void refuses(const char *path, const char *text, const char *words)
{
    sp_bytes got = {0};
    assert_int_equal(read_bytes(path, text, strlen(text), &got), SP_E_UNSUPPORTED);
    assert_string_equal(got.v, "");
    if (!strstr(sp_error_detail(), words) || !strstr(sp_error_detail(), path))
        fail_msg("\"%s\" lacks \"%s\"", sp_error_detail(), words);
    sp_vec_fini(&got);
}

#endif
