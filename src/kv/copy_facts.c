#include "kv/copy_facts.h"

#include <string.h>

#include "kv/segment.h"

const sp_digest sp_copy_below_all;

/* pack -- an array at the end of those in `memory`; NULL memory: only its size is added. */
static const void *pack(uint8_t *memory, size_t *used, const void *from, size_t bytes)
{
    if (!from) return NULL;
    const size_t at = *used;
    *used += SP_ROUND_UP(bytes, (size_t)16);
    if (!memory) return from;
    if (bytes) memcpy(memory + at, from, bytes);
    return memory + at;
}

static size_t pack_all(const sp_copy_facts *f, int32_t n, uint8_t *memory, sp_copy_facts *out)
{
    const size_t b = (size_t)f->n_before, tokens = (size_t)n * sizeof(int32_t);
    size_t used = 0;
    *out = *f;
    out->before = pack(memory, &used, f->before, b * sizeof *f->before);
    out->below = pack(memory, &used, f->below, (size_t)f->n_below * sizeof *f->below);
    out->stats.inter = pack(memory, &used, f->stats.inter, b * sizeof *f->stats.inter);
    out->stats.order = pack(memory, &used, f->stats.order, tokens);
    out->heavy = pack(memory, &used, f->heavy, tokens);
    return used;
}

uint64_t sp_copy_key_head(const sp_copy_facts *f)
{
    return f->kind == SP_COPY_PLACED ? sp_head_key(f->before, f->n_before) : f->head;
}

size_t sp_copy_facts_bytes(const sp_copy_facts *f, int32_t n)
{
    sp_copy_facts unused;
    return pack_all(f, n, NULL, &unused);
}

void sp_copy_facts_own(const sp_copy_facts *f, int32_t n, void *memory, sp_copy_facts *out)
{
    pack_all(f, n, memory, out);
}
