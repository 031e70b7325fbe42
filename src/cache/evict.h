/* evict.h -- replacement policies: which copy is evicted next.
 *
 * The order of use is kept here, for every policy: a list of all READY copies from newest to oldest.
 * A policy is one file with one sp_evict_policy, and its name in SP_EVICT_POLICIES. Most only compute a
 * priority; the heap (cache/rank.h) finds the least.
 *
 *   ledger            sp_evict_...   policy
 *   copy is READY     add            begin, then priority
 *   request reads it  use            use, then priority
 *   unpinned, or its last child has left:  back
 *   it is dropped     drop           drop; a policy that remembers keeps its past
 *   room is needed    victim         victim, or the least of the heap
 *
 * "NAME+ghosts" remembers uses and costs of dropped copies (cache/past.h); a copy that returns
 * continues with them. Some policies always remember.
 */
#ifndef SP_CACHE_EVICT_H
#define SP_CACHE_EVICT_H

#include "cache/cost.h"
#include "cache/past.h"
#include "cache/rank.h"

/* Half-life of recent uses, in requests; max_copies if that is more. */
enum { SP_EVICT_HALF_LIFE = 512 };

/* The default of a context: always close to the best policy, on traces with popular documents and on traces with
 * recent ones (docs/lab/replacement.md). */
#define SP_EVICT_DEFAULT "hazard"

typedef struct sp_evict_policy sp_evict_policy;

typedef struct sp_evict_opts {
    const char *name;              /* of a policy, or "NAME+ghosts"; NULL: the first */
    const sp_evict_policy *policy; /* instead of a name; NULL: by name */
    int64_t max_copies;            /* approximate; sizes the memory of past copies */
    const sp_cost *cost;           /* borrowed; NULL: the default of sp_cost_us */
    void *user;                    /* of `policy` */
} sp_evict_opts;

typedef struct sp_evict {
    const sp_evict_policy *policy;
    sp_copy *newest, *oldest;   /* order of use */
    int64_t n, order;           /* READY copies; the last number given in the order of use */
    int64_t look;               /* looks at the waiting queue so far: sp_ledger_look */
    int64_t now;                /* of the last use */
    sp_rank rank;               /* READY copies by the policy's priority, if it has one */
    sp_rank placed;             /* placed copies by worth */
    SP_VEC(sp_copy *) expected; /* READY copies that the current look expects */
    sp_past past;               /* without slots it remembers nothing */
    const sp_cost *cost;
    double half_life;   /* requests */
    double clock;       /* gdsf, pgdsf: the largest priority that was evicted */
    double most_recent; /* the largest sp_copy.recent so far */
    float most_expected;
    void *state; /* the policy's own */
    void *user;
} sp_evict;

/* Hooks may be NULL. `now` is logical time. */
struct sp_evict_policy {
    const char *name, *help;
    bool looks_ahead; /* reads sp_copy.expected */
    bool remembers;   /* with or without "+ghosts" */
    sp_err (*open)(sp_evict *e, int64_t max_copies);
    void (*close)(sp_evict *e);
    void (*use)(sp_evict *e, sp_copy *c, int64_t now); /* ancestors are used after descendants */
    double (*priority)(const sp_evict *e, const sp_copy *c); /* the least leaves first */
    sp_copy *(*victim)(sp_evict *e);                         /* an evictable copy; NULL: none */
};

/* SP_EVICT_POLICIES -- all policies: X(lru) is sp_evict_lru. The only list: a new policy is a file and a word here. */
#define SP_EVICT_POLICIES(X) X(lru) X(lfu) X(gdsf) X(pgdsf) X(fr) X(lacr) X(hazard)

#define X(name) extern const sp_evict_policy sp_evict_##name;
SP_EVICT_POLICIES(X)
#undef X

/* sp_evict_check -- SP_E_ARG, with the names that there are, if a policy is none of them. */
sp_err sp_evict_check(const char *name) SP_MUST_CHECK;
/* sp_evict_init -- Errors: SP_E_ARG, SP_E_NOMEM; fini cleans up after both. */
sp_err sp_evict_init(sp_evict *e, const sp_evict_opts *o) SP_MUST_CHECK;
void sp_evict_fini(sp_evict *e);
/* sp_evict_reserve -- makes room for n copies in all. Errors: SP_E_NOMEM. */
sp_err sp_evict_reserve(sp_evict *e, size_t n) SP_MUST_CHECK;

/* Called by the ledger. */
/* sp_evict_add -- token_cost: what a token of the copy, which was just computed, costs (sp_cost_us);
 * SP_EVICT_NOT_COMPUTED: it was loaded or moved, and keeps its mean cost. */
#define SP_EVICT_NOT_COMPUTED (-1.0)
void sp_evict_add(sp_evict *e, sp_copy *c, double token_cost, int64_t now);
void sp_evict_use(sp_evict *e, sp_copy *c, int64_t now);
void sp_evict_back(sp_evict *e, sp_copy *c);
void sp_evict_drop(sp_evict *e, sp_copy *c);
sp_copy *sp_evict_victim(sp_evict *e);
/* sp_evict_placed_victim -- the evictable placed copy of least worth: for I5 of the ledger, whichever policy runs. */
sp_copy *sp_evict_placed_victim(sp_evict *e);
/* sp_evict_look -- begins a new look at the queue. sp_evict_expect -- a waiting request will use this copy: raises its
 * `expected`. */
void sp_evict_look(sp_evict *e);
void sp_evict_expect(sp_evict *e, sp_copy *c, float weight);

/* sp_evict_link, sp_evict_unlink -- the order of use only: adds `c` as the newest, or removes it. */
void sp_evict_link(sp_evict *e, sp_copy *c);
void sp_evict_unlink(sp_evict *e, sp_copy *c);

/* sp_evict_expected -- uses that the current look expects; earlier looks do not count. */
static inline float sp_evict_expected(const sp_evict *e, const sp_copy *c)
{
    return c->expected.look == e->look ? c->expected.uses : 0;
}

#endif
