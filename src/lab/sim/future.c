#include <string.h>

#include "base/hash.h"
#include "cache/evict.h"
#include "cli/alloc.h"
#include "lab/sim/sim.h"

/* -- next uses ------------------------------------------------------------------------------- */

/* A hash table from the name of a copy to the request that used it last; open addressing. */
typedef struct table {
    uint64_t *name; /* 0: empty */
    int64_t *request;
    size_t n_slots;
} table;

static int64_t *find(table *t, uint64_t name)
{
    size_t i = (size_t)name & (t->n_slots - 1);
    while (t->name[i] && t->name[i] != name) i = (i + 1) & (t->n_slots - 1);
    if (!t->name[i]) {
        t->name[i] = name;
        t->request[i] = INT64_MAX;
    }
    return &t->request[i];
}

/* name_of -- of reference i: the document, or the path up to it. */
static uint64_t name_of(uint64_t before, int32_t doc, bool by_path)
{
    uint64_t key[2] = {by_path ? before : 0, (uint64_t)doc};
    return sp_hash64(key, sizeof key) | 1;
}

bool sim_future_make(const sim_trace *t, bool by_path, sim_future *out)
{
    table seen = {.n_slots = 1024};
    while (seen.n_slots < 2 * (size_t)t->n_refs) seen.n_slots *= 2;
    seen.name = cli_alloc(seen.n_slots, sizeof *seen.name);
    seen.request = cli_alloc(seen.n_slots, sizeof *seen.request);
    *out = (sim_future){.next = cli_alloc((size_t)t->n_refs, sizeof *out->next)};
    for (int64_t r = t->n_requests - 1; r >= 0; r--) {
        uint64_t name = 0;
        for (int64_t i = t->first[r]; i < t->first[r + 1]; i++) {
            name = name_of(name, t->docs[i], by_path);
            int64_t *use = find(&seen, name);
            out->next[i] = *use;
            *use = r;
        }
    }
    free(seen.name);
    free(seen.request);
    return true;
}

void sim_future_free(sim_future *f)
{
    free(f->next);
    *f = (sim_future){0};
}

/* -- Belady's policy ------------------------------------------------------------------------- */

/* depth_of -- the place of a path copy in its request. */
static int depth_of(const sp_copy *c)
{
    int d = 0;
    for (const sp_copy *p = c->parent; p; p = p->parent) d++;
    return d;
}

static double belady_priority(const sp_evict *e, const sp_copy *c)
{
    const sim_future *f = e->user;
    int32_t doc = sim_digest_doc(&c->facts.id);
    if (c->facts.kind == SP_COPY_PATH) return -(double)f->soon[depth_of(c)];
    for (int i = 0; i < f->n; i++)
        if (f->docs[i] == doc) return -(double)f->soon[i];
    return c->rank[0].priority; /* not of this request: as it was */
}

static sp_copy *belady_victim(sp_evict *e)
{
    const sim_future *f = e->user;
    sp_copy *c = sp_rank_least(&e->rank);
    return c && -c->rank[0].priority > (double)f->newcomer ? c : NULL;
}

const sp_evict_policy sim_belady = {.name = "belady",
                                    .help = "drops what is used last, knowing the future",
                                    .priority = belady_priority,
                                    .victim = belady_victim};
