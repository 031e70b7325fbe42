/* copies.c -- what a context has cached, for those who look at it. */
#include <string.h>

#include "base/need.h"
#include "cache/tree.h"
#include "serve/request/context.h"
#include "spolia_copies.h"

enum { LIMIT = 100, TEXT_TOKENS = 48, TEXT_BYTES = 240, HEX = 2 * sizeof(sp_digest) };

_Static_assert((int)SP_COPY_IN_MEMORY == SP_AT_DEVICE && (int)SP_COPY_IN_HOST == SP_AT_HOST &&
                   (int)SP_COPY_IN_DISK == SP_AT_DISK && (int)SP_COPY_IN_REMOTE == SP_AT_REMOTE,
               "public names of tiers");

typedef struct reading {
    const char *salt;
    const sp_copies_query *q;
    sp_arena arena;
    sp_copies out;
} reading;

static sp_err fail_memory(void)
{
    return sp_fail_nomem("a list of copies");
}

/* text_of -- how a copy's segment begins, in the arena. */
static sp_err text_of(const sp_context *c, reading *r, const sp_copy *copy, sp_copy_info *out)
{
    sp_bytes b = {0};
    sp_err err = SP_OK;
    for (int32_t i = 0; copy->tokens && i < SP_MIN(copy->n, TEXT_TOKENS) && err == SP_OK && b.n < TEXT_BYTES; i++)
        err = sp_tokenizer_piece(c->texts.vocab.tokenizer, copy->tokens[i], true, &b);
    char *text = sp_arena_take(&r->arena, b.n + 1, 1);
    if (err == SP_OK && !text) err = fail_memory();
    if (err == SP_OK && b.n) memcpy(text, b.v, b.n);
    out->text = text;
    out->n_text = b.n;
    sp_vec_fini(&b);
    return err;
}

static sp_err describe(const sp_context *c, reading *r, const sp_tree_node *node, sp_copy_info *out)
{
    const sp_copy *copy = node->copy;
    const bool below = copy->state == SP_COPY_FREE && copy->facts.kind != SP_COPY_PATH;
    char *id = sp_arena_take(&r->arena, HEX + 1, 1);
    if (!id) return fail_memory();
    sp_digest_hex(&copy->facts.id, sizeof copy->facts.id.b, id);
    *out = (sp_copy_info){.name = copy->name,
                          .id = id,
                          .kind = sp_copy_kind_name(copy->facts.kind),
                          .tiers = copy->places,
                          .n_tokens = copy->n ? copy->n : copy->stored.n,
                          .n_recomputed = copy->patch.n,
                          .exact = below ? copy->stored.exact : copy->facts.exact,
                          .n_uses = copy->uses.n,
                          .cost_us = (double)copy->facts.cost_us,
                          .n_below = node->n_below};
    return text_of(c, r, copy, out);
}

static sp_err read_page(const sp_context *c, reading *r, sp_tree_node *nodes)
{
    const sp_copies_query *q = r->q;
    sp_tree_query t = {.reader.space = &c->texts.prompts.space,
                       .reader.salt = r->salt,
                       .reader.tenant = sp_known_tenant(r->salt),
                       .after = {.n_uses = q->after_uses, .name = q->after_name},
                       .limit = q->limit ? q->limit : LIMIT};
    t.parent = q->parent ? sp_tree_find(c->ledger, &t.reader, q->parent) : NULL;
    if (q->parent && !t.parent) return sp_fail(SP_E_NOTFOUND, "no such copy; it may have been evicted");
    SP_TRY(sp_tree_list(c->ledger, &t, nodes, &r->out.n, &r->out.more));
    r->out.v = sp_arena_take(&r->arena, (size_t)r->out.n + 1, sizeof *r->out.v);
    if (!r->out.v) return fail_memory();
    for (int i = 0; i < r->out.n; i++) SP_TRY(describe(c, r, &nodes[i], &r->out.v[i]));
    return SP_OK;
}

static sp_err read_copies(sp_context *c, void *arg)
{
    reading *r = arg;
    const int limit = r->q->limit ? r->q->limit : LIMIT;
    sp_tree_node *nodes = sp_alloc((size_t)limit, sizeof *nodes);
    sp_err err = nodes ? read_page(c, r, nodes) : fail_memory();
    sp_free(nodes);
    return err;
}

sp_err sp_copies_list(sp_context *c, const char *salt, const sp_copies_query *q, sp_copies *out)
{
    static const sp_copies_query defaults;
    SP_NEED(c);
    SP_NEED(out);
    reading r = {.salt = salt, .q = q ? q : &defaults};
    if (r.q->limit < 0) return sp_fail(SP_E_ARG, "limit: %d is negative", r.q->limit);
    sp_arena *arena = SP_NEW(sp_arena);
    if (!arena) return fail_memory();
    sp_arena_init(&r.arena);
    sp_err err = sp_driver_call(c, read_copies, &r);
    *arena = r.arena;
    r.out.memory = arena;
    if (err == SP_OK)
        *out = r.out;
    else
        sp_copies_fini(&r.out);
    return err;
}

void sp_copies_fini(sp_copies *l)
{
    if (!l || !l->memory) return;
    sp_arena_fini(l->memory);
    sp_free(l->memory);
    *l = (sp_copies){0};
}
