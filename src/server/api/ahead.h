/* ahead.h -- whether an answer should begin before the search for its passages has ended: by what earlier searches of
 * the collection have shown. Time is passed in. Thread: any.
 *
 * After stage i of a search the passages are those of its end with probability p(i), and its end is rest(i) away. A
 * right beginning gains the rest. A wrong one ends at the next stage, between two layers, so it costs a layer of a
 * prompt; a later stage may then begin another. Where all cores compute prompts, the search and the answer slow each
 * other: half of the time that they share is gained, or lost. What is gained from stage i on is, from the last stage
 * back (share: 1, or 1/2 without a core to spare):
 *
 *     begin(i) = p(i) rest(i) share + (1 - p(i)) (most(i + 1) - layer - (rest(i) - rest(i + 1)) (1 - share))
 *     most(i)  = the larger of begin(i) and most(i + 1), which is to wait */
#ifndef SP_SERVER_API_AHEAD_H
#define SP_SERVER_API_AHEAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { SRV_AHEAD_STAGES = 16 /* of a search, that are noted */ };

/* A search, stage by stage. */
typedef struct srv_ahead_search {
    uint64_t passages[SRV_AHEAD_STAGES]; /* a hash of the set after each stage */
    int64_t at_us[SRV_AHEAD_STAGES];     /* since its begin, without what others did meanwhile */
    int n;
} srv_ahead_search;

typedef struct srv_ahead_notes {
    pthread_mutex_t lock; /* guards the following; older searches count less */
    struct {
        double right, rest_us;
        int n; /* searches, at most */
    } stages[SRV_AHEAD_STAGES];
    double search_us, prompt_tokens;
    int n_searches, n_prompts;
} srv_ahead_notes;

typedef struct srv_ahead_machine {
    double token_us; /* of a prompt */
    int n_layers;
    bool spare_core; /* beside those that compute prompts */
} srv_ahead_machine;

void srv_ahead_init(srv_ahead_notes *a);
void srv_ahead_fini(srv_ahead_notes *a);
/* srv_ahead_note -- a search has ended with its last stage. srv_ahead_note_prompt -- an answer read n tokens. */
void srv_ahead_note(srv_ahead_notes *a, const srv_ahead_search *s, int64_t search_us);
void srv_ahead_note_prompt(srv_ahead_notes *a, int n_tokens);
/* srv_ahead_gain -- microseconds that beginning after stage i is expected to gain over waiting for the next stage; 0
 * before some searches were seen. */
double srv_ahead_gain(srv_ahead_notes *a, int i, const srv_ahead_machine *m);
/* srv_ahead_is_quick -- searches end so soon that their stages are of no use. */
bool srv_ahead_is_quick(srv_ahead_notes *a);

#endif
