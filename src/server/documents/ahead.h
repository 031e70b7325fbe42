/* ahead.h -- whether an answer should begin before the search for its passages has ended, judging by earlier searches
 * of the collection. Time is passed in. Thread: any.
 *
 * After stage i of a search the passages are the final ones with probability p(i), and the search takes rest(i) more.
 * A right beginning gains the rest. A wrong one ends at the next stage, between two layers, so it costs a layer of a
 * prompt; a later stage may then begin another. If all cores compute prompts, the search and the answer slow each
 * other down: half of the time that they share is gained or lost. The gain from stage i on, computed from the last
 * stage backwards (share: 1, or 1/2 without a spare core):
 *
 *     begin(i) = p(i) rest(i) share + (1 - p(i)) (most(i + 1) - layer - (rest(i) - rest(i + 1)) (1 - share))
 *     most(i)  = the larger of begin(i) and most(i + 1), which is to wait */
#ifndef SP_SERVER_DOCUMENTS_AHEAD_H
#define SP_SERVER_DOCUMENTS_AHEAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { SRV_AHEAD_STAGES = 16 /* of a search, that are noted */ };

/* A search, stage by stage. */
typedef struct srv_ahead_search {
    uint64_t passages[SRV_AHEAD_STAGES]; /* a hash of the set after each stage */
    int64_t at_us[SRV_AHEAD_STAGES];     /* since its beginning, without interruptions */
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
    bool spare_core; /* a core does not compute prompts */
} srv_ahead_machine;

void srv_ahead_init(srv_ahead_notes *a);
void srv_ahead_fini(srv_ahead_notes *a);
/* srv_ahead_note -- a search has ended with its last stage. srv_ahead_note_prompt -- an answer read n tokens. */
void srv_ahead_note(srv_ahead_notes *a, const srv_ahead_search *s, int64_t search_us);
void srv_ahead_note_prompt(srv_ahead_notes *a, int n_tokens);
/* srv_ahead_gain -- expected gain in microseconds of beginning after stage i over waiting for the next stage; 0 until
 * some searches were seen. */
double srv_ahead_gain(srv_ahead_notes *a, int i, const srv_ahead_machine *m);
/* srv_ahead_is_quick -- whether searches end so soon that stages are useless. */
bool srv_ahead_is_quick(srv_ahead_notes *a);

#endif
