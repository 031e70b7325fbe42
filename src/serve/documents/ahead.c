/* ahead.c -- which passages of a collection are worth computing before a question arrives: the most retrieved ones,
 * then others in order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/need.h"
#include "serve/documents/documents_int.h"

enum { MOST_READ = 50000 /* chunks of an index */ };

/* A choice under way. */
typedef struct choice {
    const sp_shelf_counts *counts; /* sorted by chunk */
    int most;
    int64_t n_others; /* that were never retrieved, so far */
    SP_VEC(sp_hit) chosen;
    sp_arena *strings;
} choice;

static int by_chunk(const void *a, const void *b)
{
    const sp_shelf_count *x = a, *y = b;
    return memcmp(x->chunk.b, y->chunk.b, sizeof x->chunk.b);
}

/* by_count -- stable: `id` is the order of choice. */
static int by_count(const void *a, const void *b)
{
    const sp_hit *x = a, *y = b;
    if (x->score != y->score) return (x->score < y->score) - (x->score > y->score);
    return (x->id > y->id) - (x->id < y->id);
}

static const char *copy(choice *c, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *to = sp_arena_take(c->strings, n, 1);
    return to ? memcpy(to, text, n) : NULL;
}

static sp_err consider(const sp_hit *chunk, void *user)
{
    choice *c = user;
    sp_shelf_count key;
    SP_TRY(sp_shelf_chunk_hash(chunk->title, chunk->text, &key.chunk));
    const sp_shelf_count *found =
        c->counts->n ? bsearch(&key, c->counts->v, c->counts->n, sizeof key, by_chunk) : NULL;
    if (!found && c->n_others++ >= c->most) return SP_OK;
    sp_hit h = {.id = (int64_t)c->chosen.n,
                .score = found ? (double)found->n : 0,
                .title = copy(c, chunk->title),
                .text = copy(c, chunk->text),
                .file = "",
                .root = ""};
    if (!h.title || !h.text) return sp_fail_nomem("a passage");
    SP_TRY(sp_vec_reserve(&c->chosen, 1));
    c->chosen.v[c->chosen.n++] = h;
    return SP_OK;
}

sp_err sp_collection_ahead(sp_documents *d, const char *salt, const char *name, sp_retriever *of, int most,
                           sp_hits *out)
{
    SP_NEED(d);
    SP_NEED(name);
    SP_NEED(out);
    char tenant[SP_TENANT_BYTES], place[SP_PLACE_BYTES];
    sp_shelf_counts counts = {0};
    SP_TRY(sp_tenant_name(of ? NULL : salt, tenant));
    snprintf(place, sizeof place, "%s/%.64s", tenant, name);
    sp_counts_try(d); /* else the order alone suffers */
    choice c = {.counts = &counts, .most = most, .strings = SP_NEW(sp_arena)};
    const sp_searched in = {tenant, name, sp_documents_due_s(d)};
    sp_err err = c.strings ? SP_OK : sp_fail_nomem("passages");
    if (err == SP_OK) err = sp_shelf_counted(d->shelf, place, most, &counts);
    if (counts.n) qsort(counts.v, counts.n, sizeof *counts.v, by_chunk);
    if (err == SP_OK)
        err = of ? sp_retriever_each(of, MOST_READ, consider, &c) : sp_searches_each(d->searches, &in, consider, &c);
    sp_vec_fini(&counts);
    if (c.chosen.n) qsort(c.chosen.v, c.chosen.n, sizeof *c.chosen.v, by_count);
    sp_hits hits = {.v = c.chosen.v, .n = (int)SP_MIN(c.chosen.n, (size_t)most), .strings = c.strings};
    if (err == SP_OK)
        *out = hits;
    else
        sp_hits_fini(&hits);
    return err;
}
