#include "cache/evict.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "spolia.h"

#define GHOSTS "+ghosts"

static const sp_evict_policy *const policies[] = {
#define X(name) &sp_evict_##name,
    SP_EVICT_POLICIES(X)
#undef X
};

/* -- the same for users of the library ------------------------------------------------------- */

static sp_evict_info infos[SP_COUNT(policies)]; /* copied once from the list */
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

static void fill_infos(void)
{
    for (size_t i = 0; i < SP_COUNT(policies); i++)
        infos[i] = (sp_evict_info){.name = policies[i]->name, .help = policies[i]->help};
}

const sp_evict_info *sp_evict_policies(int *n)
{
    pthread_once(&infos_once, fill_infos);
    if (n) *n = SP_COUNT(infos);
    return infos;
}

/* find -- the policy whose name is the first n characters. */
static sp_err find(const char *name, size_t n, const sp_evict_policy **out)
{
    char names[256] = "";
    for (size_t i = 0; i < SP_COUNT(policies); i++) {
        if (!name || (strlen(policies[i]->name) == n && memcmp(name, policies[i]->name, n) == 0)) {
            *out = policies[i];
            return SP_OK;
        }
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", policies[i]->name);
    }
    return sp_fail(SP_E_ARG, "replacement policy \"%s\" is unknown: %s; or NAME" GHOSTS, name,
                   names);
}

/* name_length -- of the name without "+ghosts". */
static size_t name_length(const char *name, bool *ghosts)
{
    size_t n = name ? strlen(name) : 0, tail = strlen(GHOSTS);
    *ghosts = n > tail && strcmp(name + n - tail, GHOSTS) == 0;
    return *ghosts ? n - tail : n;
}

sp_err sp_evict_check(const char *name)
{
    bool ghosts;
    const sp_evict_policy *policy;
    const size_t n = name_length(name, &ghosts);
    return find(name, n, &policy);
}

/* -- create and destroy --------------------------------------------------------------------- */

sp_err sp_evict_init(sp_evict *e, const sp_evict_opts *o)
{
    bool ghosts;
    size_t n = name_length(o->name, &ghosts);
    e->policy = o->policy;
    if (!e->policy) SP_TRY(find(o->name, n, &e->policy));
    e->rank.which = 0;
    e->placed.which = 1;
    e->cost = o->cost;
    e->user = o->user;
    e->most_recent = -INFINITY;
    e->half_life = SP_MAX((double)o->max_copies, (double)SP_EVICT_HALF_LIFE);
    if (ghosts || e->policy->remembers) SP_TRY(sp_past_init(&e->past, o->max_copies));
    return e->policy->open ? e->policy->open(e, o->max_copies) : SP_OK;
}

void sp_evict_fini(sp_evict *e)
{
    if (e->policy && e->policy->close) e->policy->close(e);
    sp_rank_fini(&e->rank);
    sp_rank_fini(&e->placed);
    sp_vec_fini(&e->expected);
    sp_past_fini(&e->past);
}

sp_err sp_evict_reserve(sp_evict *e, size_t n)
{
    SP_TRY(sp_rank_reserve(&e->rank, n));
    SP_TRY(sp_rank_reserve(&e->placed, n));
    return n > e->expected.n ? sp_vec_reserve(&e->expected, n - e->expected.n) : SP_OK;
}

/* -- order of use --------------------------------------------------------------------------- */

void sp_evict_link(sp_evict *e, sp_copy *c)
{
    c->used.order = ++e->order;
    c->used.newer = NULL;
    c->used.older = e->newest;
    if (e->newest) e->newest->used.newer = c;
    e->newest = c;
    if (!e->oldest) e->oldest = c;
    e->n++;
}

void sp_evict_unlink(sp_evict *e, sp_copy *c)
{
    if (c->used.newer)
        c->used.newer->used.older = c->used.older;
    else
        e->newest = c->used.older;
    if (c->used.older)
        c->used.older->used.newer = c->used.newer;
    else
        e->oldest = c->used.newer;
    c->used.newer = c->used.older = NULL;
    e->n--;
}

/* -- uses ----------------------------------------------------------------------------------- */

/* add_logs -- log2(2^a + 2^b). */
static double add_logs(double a, double b)
{
    double high = a > b ? a : b, low = a > b ? b : a;
    return low == -INFINITY ? high : high + log2(1 + exp2(low - high));
}

/* count_use -- counts one use a request, however many of its segments touch the copy. Recent uses are summed with
 * weights 2^(time / half-life): newer uses weigh more, and older sums need no update. */
static void count_use(sp_evict *e, sp_copy *c, int64_t now)
{
    e->now = now;
    if (c->uses.n && c->uses.last == now) return;
    c->uses.recent = add_logs(c->uses.n ? c->uses.recent : -INFINITY, (double)now / e->half_life);
    e->most_recent = fmax(e->most_recent, c->uses.recent);
    c->uses.n++;
    c->uses.last = now;
}

/* settle_rank -- inserts or moves the copy by its priority. Expected copies have their own list. */
static void settle_rank(sp_evict *e, sp_copy *c)
{
    if (!e->policy->priority) return;
    double priority = e->policy->priority(e, c);
    if (c->expected.aside)
        c->rank[0].priority = priority;
    else
        sp_rank_put(&e->rank, c, priority);
}

/* recall -- restores what is remembered of an evicted copy. */
static void recall(const sp_evict *e, sp_copy *c)
{
    const sp_past_copy *p = e->past.slots ? sp_past_find(&e->past, c->name) : NULL;
    if (!p || c->uses.n) return; /* a copy that stayed in a lower tier has kept its counts */
    c->uses = p->uses;
}

/* count_cost -- the copy was computed again: updates the mean of cost / new tokens over these requests. */
static void count_cost(sp_copy *c, double token_cost)
{
    c->uses.n_costs++;
    c->uses.mean_cost += (float)((token_cost - c->uses.mean_cost) / c->uses.n_costs);
}

/* guess_cost -- the cost of a token of a copy that another process computed. A tier stores measured time, which is
 * comparable only with a profile's times. */
static double guess_cost(const sp_evict *e, const sp_copy *c)
{
    const int32_t n = SP_MAX(c->n, 1);
    if (e->cost && c->facts.cost_us > 0) return (double)c->facts.cost_us / n;
    return sp_cost_us(e->cost, c->facts.at, n) / n;
}

void sp_evict_add(sp_evict *e, sp_copy *c, double token_cost, int64_t now)
{
    recall(e, c);
    count_use(e, c, now);
    if (token_cost >= 0)
        count_cost(c, token_cost);
    else if (!c->uses.n_costs)
        count_cost(c, guess_cost(e, c));
    sp_evict_link(e, c);
    if (e->policy->use) e->policy->use(e, c, now);
    settle_rank(e, c);
    if (c->facts.kind == SP_COPY_PLACED) sp_rank_put(&e->placed, c, c->uses.worth);
}

void sp_evict_use(sp_evict *e, sp_copy *c, int64_t now)
{
    count_use(e, c, now);
    sp_evict_unlink(e, c);
    sp_evict_link(e, c);
    if (e->policy->use) e->policy->use(e, c, now);
    settle_rank(e, c);
    if (c->facts.kind == SP_COPY_PLACED) sp_rank_put(&e->placed, c, c->uses.worth);
}

void sp_evict_back(sp_evict *e, sp_copy *c)
{
    if (e->policy->priority && !c->expected.aside) sp_rank_back(&e->rank, c);
    if (c->facts.kind == SP_COPY_PLACED) sp_rank_back(&e->placed, c);
}

void sp_evict_drop(sp_evict *e, sp_copy *c)
{
    sp_rank_drop(&e->rank, c);
    sp_rank_drop(&e->placed, c);
    for (size_t i = 0; c->expected.aside && i < e->expected.n; i++) {
        if (e->expected.v[i] != c) continue;
        e->expected.v[i] = e->expected.v[--e->expected.n];
        c->expected.aside = false;
    }
    if (e->past.slots) sp_past_put(&e->past, &(sp_past_copy){.name = c->name, .uses = c->uses});
    sp_evict_unlink(e, c);
}

/* -- what is expected ----------------------------------------------------------------------- */

void sp_evict_look(sp_evict *e)
{
    e->look++;
    e->most_expected = 0;
    for (size_t i = 0; i < e->expected.n; i++) {
        e->expected.v[i]->expected.aside = false;
        sp_rank_back(&e->rank, e->expected.v[i]);
    }
    e->expected.n = 0;
}

void sp_evict_expect(sp_evict *e, sp_copy *c, float weight)
{
    if (c->expected.look != e->look) c->expected.uses = 0;
    c->expected.look = e->look;
    c->expected.uses += weight;
    if (c->state != SP_COPY_READY) return;
    e->most_expected = SP_MAX(e->most_expected, c->expected.uses);
    if (!e->policy->looks_ahead || c->expected.aside) return;
    assert(e->expected.n < e->expected.cap);
    e->expected.v[e->expected.n++] = c;
    c->expected.aside = true;
    sp_rank_drop(&e->rank, c);
}

/* -- victims -------------------------------------------------------------------------------- */

sp_copy *sp_evict_victim(sp_evict *e)
{
    return e->policy->victim ? e->policy->victim(e) : sp_rank_least(&e->rank);
}

sp_copy *sp_evict_placed_victim(sp_evict *e)
{
    return sp_rank_least(&e->placed);
}
