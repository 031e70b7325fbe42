#include "serve/queue/order.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "spolia_context.h"

/* The ratio of RAGCache's section 5.2: cached / computed tokens. */
static double ratio(const sp_waiting *w)
{
    return (double)w->n_cached / SP_MAX(w->n_computed, 1);
}

static double cached(const sp_waiting *w)
{
    return (double)w->n_cached;
}

static double shared(const sp_waiting *w)
{
    return (double)w->n_shared;
}

static const sp_queue_order orders[] = {
    {"reorder", "most cached tokens for each computed one (RAGCache)", true, false, ratio},
    {"fcfs", "in the order of arrival", false, false, NULL},
    {"lpm", "most cached tokens (longest prefix match)", true, false, cached},
    {"lsp", "longest beginning shared with another waiting request", false, true, shared},
};

sp_err sp_queue_order_find(const char *name, const sp_queue_order **out)
{
    char names[128] = "";
    for (size_t i = 0; i < SP_COUNT(orders); i++) {
        if (!name || strcmp(name, orders[i].name) == 0) {
            *out = &orders[i];
            return SP_OK;
        }
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", orders[i].name);
    }
    return sp_fail(SP_E_ARG, "order \"%s\" is unknown: %s", name, names);
}

/* -- the same for users of the library ------------------------------------------------------- */

static sp_queue_info infos[SP_COUNT(orders)]; /* copied once from the list */
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

static void fill_infos(void)
{
    for (size_t i = 0; i < SP_COUNT(orders); i++)
        infos[i] = (sp_queue_info){.name = orders[i].name, .help = orders[i].help};
}

const sp_queue_info *sp_queue_orders(int *n)
{
    pthread_once(&infos_once, fill_infos);
    if (n) *n = SP_COUNT(infos);
    return infos;
}

/* -- the rules -------------------------------------------------------------------------------- */

/* goes_first -- rules 1 to 3: the class of a before the class of b. */
static bool goes_first(const sp_waiting *a, const sp_waiting *b)
{
    if (a->priority != b->priority) return a->priority < b->priority;
    if (a->tenant != b->tenant) return a->served < b->served;
    return a->own_priority < b->own_priority;
}

static bool same_class(const sp_waiting *a, const sp_waiting *b)
{
    return a->priority == b->priority && a->tenant == b->tenant && a->own_priority == b->own_priority;
}

int sp_queue_order_next(const sp_queue_order *o, const sp_waiting *w, int n, int window)
{
    int class = 0;
    for (int i = 1; i < n; i++)
        if (goes_first(&w[i], &w[class])) class = i;
    int best = -1;
    double best_score = 0;
    for (int i = 0; i < n; i++) {
        if (!same_class(&w[i], &w[class])) continue;
        if (!o->score || w[i].n_overtaken >= window || w[i].waited) return w[i].deferred ? -1 : i;
        double score = o->score(&w[i]);
        if (w[i].deferred || (best >= 0 && score <= best_score)) continue;
        best = i;
        best_score = score;
    }
    return best;
}

void sp_queue_order_overtakes(sp_waiting *w, int next)
{
    for (int i = 0; i < next; i++)
        if (same_class(&w[i], &w[next])) w[i].n_overtaken++;
}
