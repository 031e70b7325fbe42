#include <string.h>

#include "cache/ledger_int.h"

const char *sp_place_name(sp_place place)
{
#define X(name, text) text,
    static const char *const names[] = {SP_TIERS(X)};
#undef X
    return place ? names[__builtin_ctz((unsigned)place)] : "";
}

const char *sp_copy_kind_name(sp_copy_kind kind)
{
    static const char *const names[SP_COPY_STORED_KINDS] = {"plain", "fused", "path", "placed"};
    return names[kind];
}

/* Arrays one after the other in one allocation. With memory NULL, only their sizes are added. */
typedef struct packer {
    char *memory;
    size_t used; /* bytes */
} packer;

static void *pack(packer *p, const void *from, size_t n, size_t size)
{
    if (!from) return NULL;
    size_t at = p->used;
    p->used += SP_ROUND_UP(n * size, (size_t)16);
    if (!p->memory) return NULL;
    if (n) memcpy(p->memory + at, from, n * size);
    return p->memory + at;
}

static void pack_all(packer *p, const sp_copy_spec *spec, sp_copy *c)
{
    const int32_t n = spec->seg->n;
    size_t n_patch = spec->base ? (size_t)spec->patch.n : 0;
    c->tokens = pack(p, spec->seg->tokens, (size_t)n, sizeof *c->tokens);
    c->blocks = pack(p, spec->blocks, (size_t)sp_blocks_for(spec->first + n), sizeof *c->blocks);
    if (spec->base) {
        c->patch.tokens = pack(p, spec->patch.tokens, n_patch, sizeof *c->patch.tokens);
        c->patch.blocks = pack(p, spec->patch.blocks, (size_t)sp_blocks_for(spec->patch.n),
                               sizeof *c->patch.blocks);
    }
    if (p->memory) sp_copy_facts_own(&spec->facts, n, p->memory + p->used, &c->facts);
    p->used += sp_copy_facts_bytes(&spec->facts, n);
}

sp_err sp_copy_fill(sp_copy *c, const sp_copy_spec *spec)
{
    packer p = {0};
    pack_all(&p, spec, c);
    p.memory = sp_alloc(p.used, 1);
    if (!p.memory) {
        sp_copy_empty(c);
        return sp_fail_nomem("a cached copy");
    }
    p.used = 0;
    pack_all(&p, spec, c);
    c->memory = p.memory;
    c->facts.id = spec->seg->id;
    c->tenant = spec->seg->tenant;
    c->n = spec->seg->n;
    c->first = spec->first;
    c->base = spec->base;
    c->patch.n = spec->base ? spec->patch.n : 0;
    return SP_OK;
}

void sp_copy_move_contents(sp_copy *to, sp_copy *from)
{
    const uint64_t head = to->facts.head;
    assert(!to->memory);
    to->facts = from->facts;
    to->facts.head = head;
    to->tenant = from->tenant;
    to->tokens = from->tokens;
    to->n = from->n;
    to->blocks = from->blocks;
    to->first = from->first;
    to->base = from->base;
    to->patch.n = from->patch.n;
    to->patch.tokens = from->patch.tokens;
    to->patch.blocks = from->patch.blocks;
    to->memory = from->memory;
    from->memory = NULL;
    sp_copy_empty(from);
}

void *sp_copy_known(const sp_copy_facts *f, sp_copy_facts *out)
{
    sp_copy_facts known = *f;
    known.stats.order = NULL;
    known.heavy = NULL;
    void *memory = sp_copy_is_measured(f) ? sp_alloc(1, sp_copy_facts_bytes(&known, 0) + 1) : NULL;
    if (memory) sp_copy_facts_own(&known, 0, memory, out);
    return memory;
}

void sp_copy_fade(sp_copy *c, void *memory, const sp_copy_facts *known)
{
    sp_copy_empty(c);
    c->memory = memory;
    if (memory) c->facts = *known;
}

void sp_copy_empty(sp_copy *c)
{
    const sp_copy_facts f = c->facts;
    sp_free(c->memory);
    c->memory = NULL;
    c->facts = (sp_copy_facts){.kind = f.kind, .id = f.id, .head = f.head, .cost_us = f.cost_us};
    c->tokens = NULL;
    c->n = c->patch.n = 0;
    c->parent = NULL;
    c->blocks = NULL;
    c->first = 0;
    c->base = NULL;
    c->patch.tokens = NULL;
    c->patch.blocks = NULL;
}

bool sp_copy_says(const sp_copy *c, const sp_segment *seg)
{
    return c->tokens && c->n == seg->n && sp_digest_eq(&c->facts.id, &seg->id) &&
           memcmp(c->tokens, seg->tokens, (size_t)seg->n * sizeof *seg->tokens) == 0;
}
