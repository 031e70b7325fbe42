#include "server/documents/ahead.h"

enum {
    LEAST = 3,        /* searches that a guess is made from */
    MEMORY = 16,      /* searches that count */
    QUICK_US = 3000,  /* of a search */
    PROMPT = 256      /* tokens of a prompt before one was seen */
};

void srv_ahead_init(srv_ahead_notes *a)
{
    *a = (srv_ahead_notes){0};
    pthread_mutex_init(&a->lock, NULL);
}

void srv_ahead_fini(srv_ahead_notes *a)
{
    pthread_mutex_destroy(&a->lock);
}

/* follow -- the mean of what was seen; the newest counts 1 / MEMORY at least. */
static void follow(double *mean, double now, int n)
{
    *mean += (now - *mean) / n;
}

static int next(int n)
{
    return n < MEMORY ? n + 1 : MEMORY;
}

void srv_ahead_note(srv_ahead_notes *a, const srv_ahead_search *s, int64_t search_us)
{
    pthread_mutex_lock(&a->lock);
    a->n_searches = next(a->n_searches);
    follow(&a->search_us, (double)search_us, a->n_searches);
    for (int i = 0; i + 1 < s->n; i++) {
        const bool right = s->passages[i] == s->passages[s->n - 1];
        a->stages[i].n = next(a->stages[i].n);
        follow(&a->stages[i].right, right, a->stages[i].n);
        follow(&a->stages[i].rest_us, (double)(search_us - s->at_us[i]), a->stages[i].n);
    }
    pthread_mutex_unlock(&a->lock);
}

void srv_ahead_note_prompt(srv_ahead_notes *a, int n_tokens)
{
    pthread_mutex_lock(&a->lock);
    a->n_prompts = next(a->n_prompts);
    follow(&a->prompt_tokens, n_tokens, a->n_prompts);
    pthread_mutex_unlock(&a->lock);
}

/* begin_at -- what beginning after stage i gains. later: what the stages after it can gain. */
static double begin_at(const srv_ahead_notes *a, int i, double later, const srv_ahead_machine *m)
{
    const double right = a->stages[i].right, rest = a->stages[i].rest_us, share = m->spare_core ? 1 : 0.5;
    const double tokens = a->n_prompts ? a->prompt_tokens : PROMPT;
    const double layer = m->n_layers ? m->token_us * tokens / m->n_layers : 0;
    const double next_rest = i + 1 < SRV_AHEAD_STAGES && a->stages[i + 1].n >= LEAST ? a->stages[i + 1].rest_us : 0;
    return right * rest * share + (1 - right) * (later - layer - (rest - next_rest) * (1 - share));
}

double srv_ahead_gain(srv_ahead_notes *a, int i, const srv_ahead_machine *m)
{
    double most = 0, gain = 0;
    pthread_mutex_lock(&a->lock);
    for (int k = SRV_AHEAD_STAGES - 1; k >= i; k--) {
        if (a->stages[k].n < LEAST) continue;
        const double now = begin_at(a, k, most, m);
        if (k == i) gain = now - most;
        if (now > most) most = now;
    }
    pthread_mutex_unlock(&a->lock);
    return gain;
}

bool srv_ahead_is_quick(srv_ahead_notes *a)
{
    pthread_mutex_lock(&a->lock);
    const bool quick = a->n_searches >= LEAST && a->search_us < QUICK_US;
    pthread_mutex_unlock(&a->lock);
    return quick;
}
