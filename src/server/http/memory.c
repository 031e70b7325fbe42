#include "server/http/memory.h"

#include <stdlib.h>

#include "spolia.h"

static void *(*allocator)(size_t);
static _Thread_local bool notes, failed;

static void *take(size_t n)
{
    void *p = failed ? NULL : allocator(n);
    failed |= !p && notes;
    return p;
}

void srv_memory_open(void *(*allocate)(size_t))
{
    allocator = allocate;
    sp_json_watch(take);
}

void srv_memory_begin(void)
{
    notes = true;
    failed = false;
}

void srv_memory_end(void)
{
    notes = failed = false;
}

void srv_memory_lost(void)
{
    failed = notes;
}

bool srv_memory_failed(void)
{
    return failed;
}
