/* failing_json.h -- memory of jansson's, one allocation of which fails: sp_json_watch(json_allocate). */
#ifndef SP_TESTS_FAILING_JSON_H
#define SP_TESTS_FAILING_JSON_H

#include <stdlib.h>

#include "spolia_base.h"

static int until_failure = -1; /* allocations; -1: none fails */

static void *json_allocate(size_t n)
{
    if (until_failure >= 0 && until_failure-- == 0) return NULL;
    return malloc(n);
}

#endif
