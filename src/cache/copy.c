#include <string.h>

#include "cache/ledger_int.h"

/* Arrays one after the other in one allocation. While there is no memory, their sizes are added. */
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
    size_t n = (size_t)spec->seg->n, n_before = (size_t)spec->n_before;
    size_t n_patch = spec->base ? (size_t)spec->n_patch : 0;
    c->tokens = pack(p, spec->seg->tokens, n, sizeof *c->tokens);
    c->before = pack(p, spec->before, n_before, sizeof *c->before);
    c->blocks =
        pack(p, spec->blocks, (size_t)sp_blocks_for(spec->first + spec->seg->n), sizeof *c->blocks);
    c->heavy = pack(p, spec->heavy, n, sizeof *c->heavy);
    if (spec->base) {
        c->patch = pack(p, spec->patch, n_patch, sizeof *c->patch);
        c->patch_blocks = pack(p, spec->patch_blocks, (size_t)sp_blocks_for(spec->n_patch),
                               sizeof *c->patch_blocks);
    }
    if (spec->stats) {
        sp_copy_stats *stats = pack(p, spec->stats, 1, sizeof *stats);
        const float *inter = pack(p, spec->stats->inter, n_before, sizeof *inter);
        const int32_t *order = pack(p, spec->stats->order, n, sizeof *order);
        if (stats) *stats = (sp_copy_stats){inter, spec->stats->cci, order};
        c->stats = stats;
    }
}

sp_err sp_copy_fill(sp_copy *c, const sp_copy_spec *spec)
{
    packer p = {0};
    pack_all(&p, spec, c);
    p.memory = sp_alloc(p.used, 1);
    if (!p.memory) {
        sp_copy_empty(c);
        return sp_fail_nomem(p.used, "a cached copy");
    }
    p.used = 0;
    pack_all(&p, spec, c);
    c->memory = p.memory;
    c->kind = spec->kind;
    c->exact = spec->exact;
    c->id = spec->seg->id;
    c->tenant = spec->seg->tenant;
    c->n = spec->seg->n;
    c->first = spec->first;
    c->at = spec->at;
    c->n_before = spec->n_before;
    c->base = spec->base;
    c->n_patch = spec->base ? spec->n_patch : 0;
    c->cost_us = spec->cost_us;
    return SP_OK;
}

void sp_copy_move_contents(sp_copy *to, sp_copy *from)
{
    assert(!to->memory);
    to->kind = from->kind;
    to->exact = from->exact;
    to->id = from->id;
    to->tenant = from->tenant;
    to->tokens = from->tokens;
    to->n = from->n;
    to->at = from->at;
    to->before = from->before;
    to->n_before = from->n_before;
    to->stats = from->stats;
    to->heavy = from->heavy;
    to->blocks = from->blocks;
    to->first = from->first;
    to->base = from->base;
    to->n_patch = from->n_patch;
    to->patch = from->patch;
    to->patch_blocks = from->patch_blocks;
    to->cost_us = from->cost_us;
    to->memory = from->memory;
    from->memory = NULL;
    sp_copy_empty(from);
}

void sp_copy_empty(sp_copy *c)
{
    sp_free(c->memory);
    c->memory = NULL;
    c->exact = false;
    c->tokens = NULL;
    c->n = c->at = c->n_before = c->n_patch = 0;
    c->before = NULL;
    c->parent = NULL;
    c->stats = NULL;
    c->heavy = NULL;
    c->blocks = NULL;
    c->first = 0;
    c->base = NULL;
    c->patch = NULL;
    c->patch_blocks = NULL;
}

bool sp_copy_says(const sp_copy *c, const sp_segment *seg)
{
    return c->tokens && c->n == seg->n && sp_digest_eq(&c->id, &seg->id) &&
           memcmp(c->tokens, seg->tokens, (size_t)seg->n * sizeof *seg->tokens) == 0;
}
