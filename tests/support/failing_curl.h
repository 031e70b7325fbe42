/* failing_curl.h -- memory of libcurl's, one allocation of which fails; failing_curl_begin comes before any other use
 * of libcurl. */
#ifndef SP_TESTS_FAILING_CURL_H
#define SP_TESTS_FAILING_CURL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static int curl_until_failure = -1; /* allocations; -1: none fails */

static bool curl_fails(void)
{
    return curl_until_failure >= 0 && curl_until_failure-- == 0;
}

static void *curl_take(size_t n)
{
    return curl_fails() ? NULL : malloc(n);
}

static void *curl_take_zeros(size_t n, size_t size)
{
    return curl_fails() ? NULL : calloc(n, size);
}

static void *curl_grow(void *p, size_t n)
{
    return curl_fails() ? NULL : realloc(p, n);
}

static char *curl_copy(const char *text)
{
    return curl_fails() ? NULL : strdup(text);
}

static inline void failing_curl_begin(void)
{
    const CURLcode code = curl_global_init_mem(CURL_GLOBAL_DEFAULT, curl_take, free, curl_grow, curl_copy,
                                               curl_take_zeros);
    assert_int_equal(code, CURLE_OK);
}

#endif
