/* The id of a request. */
#include "server/http/log.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static void *no_memory(size_t n, const char *file, int line)
{
    return NULL;
}

static void *no_more_memory(void *p, size_t n, const char *file, int line)
{
    return NULL;
}

static void release(void *p, const char *file, int line)
{
    free(p);
}

static void ids_differ_although_libcrypto_has_no_memory(void **state)
{
    (void)state;
    srv_record a, b;
    assert_int_equal(CRYPTO_set_mem_functions(no_memory, no_more_memory, release), 1);
    srv_record_begin(&a, NULL, "GET", "/");
    srv_record_begin(&b, NULL, "GET", "/");
    assert_int_equal(strspn(a.id, "0123456789abcdef"), 24);
    assert_int_equal(strlen(a.id), 24);
    assert_string_not_equal(a.id, b.id);
}

static void the_id_of_the_client_is_kept(void **state)
{
    (void)state;
    srv_record r;
    srv_record_begin(&r, "mine-7", "GET", "/");
    assert_string_equal(r.id, "mine-7");
    srv_record_begin(&r, "no spaces", "GET", "/");
    assert_int_equal(strlen(r.id), 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_differ_although_libcrypto_has_no_memory),
        cmocka_unit_test(the_id_of_the_client_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
