/* json.c -- what the program prints as JSON is whole, or the program says that it is not. */
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/json.h"

static atomic_bool lacks_memory; /* an allocation has failed since the last value was printed */

static void *allocate(size_t n)
{
    void *p = malloc(n);
    if (!p) lacks_memory = true;
    return p;
}

void cli_watch_json(void)
{
    sp_json_watch(allocate);
}

void cli_print_json(json_t *value, size_t flags)
{
    char *text = value ? json_dumps(value, flags) : NULL;
    if (atomic_exchange(&lacks_memory, false))
        cli_lose_output("the result as JSON: out of memory");
    else if (!text)
        cli_lose_output("the result as JSON: a text in it is not UTF-8");
    else
        puts(text);
    free(text);
    json_decref(value);
}
