#include "serve/queue/share.h"

#include <string.h>

#include "base/mem.h"

struct sp_share {
    sp_share *next;
    char *name;
    int n_requests;
    double served;
};

static sp_share **find(sp_shares *s, const char *name)
{
    sp_share **at = &s->first;
    while (*at && strcmp((*at)->name, name) != 0) at = &(*at)->next;
    return at;
}

/* lift -- to the lowest counter of the others that are active, if there are any. */
static void lift(const sp_shares *s, sp_share *share)
{
    const sp_share *lowest = NULL;
    for (const sp_share *o = s->first; o; o = o->next)
        if (o != share && o->n_requests > 0 && (!lowest || o->served < lowest->served)) lowest = o;
    if (lowest && share->served < lowest->served) share->served = lowest->served;
}

/* forget_one -- forgets the idle tenant with the lowest counter, which loses least when it is lifted later. */
static void forget_one(sp_shares *s)
{
    sp_share **least = NULL;
    for (sp_share **at = &s->first; *at; at = &(*at)->next)
        if ((*at)->n_requests == 0 && (!least || (*at)->served < (*least)->served)) least = at;
    if (!least) return;
    sp_share *gone = *least;
    *least = gone->next;
    sp_free(gone->name);
    sp_free(gone);
    s->n_idle--;
}

sp_err sp_shares_join(sp_shares *s, const char *tenant, sp_share **out)
{
    const char *name = tenant ? tenant : "";
    sp_share **at = find(s, name), *share = *at;
    if (!share) {
        share = SP_NEW(sp_share);
        if (!share) return sp_fail_nomem("a tenant");
        *share = (sp_share){.name = sp_strdup_n(name, strlen(name))};
        if (!share->name) {
            sp_free(share);
            return sp_fail_nomem("a tenant's name");
        }
        *at = share;
        s->n_idle++;
    }
    if (share->n_requests++ == 0) {
        s->n_idle--;
        lift(s, share);
    }
    *out = share;
    return SP_OK;
}

void sp_shares_leave(sp_shares *s, sp_share *share)
{
    if (!share || --share->n_requests > 0) return;
    s->n_idle++;
    if (s->n_idle > SP_SHARES_IDLE) forget_one(s);
}

void sp_share_serve(sp_share *share, int n_prompt, int n_generated)
{
    if (share) share->served += n_prompt + 2.0 * n_generated;
}

double sp_share_served(const sp_share *share)
{
    return share ? share->served : 0;
}

void sp_shares_fini(sp_shares *s)
{
    for (sp_share *o = s->first, *next; o; o = next) {
        next = o->next;
        sp_free(o->name);
        sp_free(o);
    }
    *s = (sp_shares){0};
}
