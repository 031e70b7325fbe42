/* A schema is compiled while one list cannot grow. Later allocations succeed, so nothing else would notice. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/grammar/grammar.h"
#include "support/check.h"

static int until_failure = -1; /* calls of realloc; -1: none fails */

__attribute__((visibility("default"))) void *realloc(void *p, size_t n)
{
    typedef void *allocator(void *, size_t);
    static allocator *next;
    if (!next) next = (allocator *)dlsym(RTLD_NEXT, "realloc");
    const bool fails = until_failure >= 0 && until_failure-- == 0;
    if (fails) errno = ENOMEM;
    return fails ? NULL : next(p, n);
}

static void a_schema_is_refused_if_one_list_cannot_grow(void **state)
{
    json_t *schema = json_loads("{\"properties\": {\"a name that is longer than the others before it\": {\"anyOf\": "
                                "[{\"type\": \"null\"}, {\"items\": {\"enum\": [1, 2]}}]}}}", 0, NULL);
    assert_non_null(schema);
    int n = 0;
    for (bool failed = true; failed; n++) {
        sp_grammar *g = NULL;
        until_failure = n;
        const sp_err err = sp_grammar_create(schema, &g);
        failed = until_failure < 0;
        until_failure = -1;
        assert_int_equal(err, failed ? SP_E_NOMEM : SP_OK);
        assert_int_equal(g == NULL, failed);
        sp_grammar_destroy(g);
    }
    assert_true(n > 5);
    json_decref(schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_schema_is_refused_if_one_list_cannot_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
