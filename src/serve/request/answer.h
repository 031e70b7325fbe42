/* answer.h -- the tokens of an answer: sampled, checked for stop strings, delivered. */
#ifndef SP_SERVE_ANSWER_H
#define SP_SERVE_ANSWER_H

#include "base/mem.h"
#include "engine/grammar/grammar.h"
#include "engine/offload/offload.h"
#include "engine/sampler.h"
#include "engine/sparse/sparse.h"
#include "model/tokenizer/tokenizer.h"
#include "spolia.h"

typedef struct sp_request_answer {
    int32_t max_tokens;
    sp_sampler sampler;
    sp_grammar_state *grammar;     /* from the first token on; or NULL */
    sp_sparse *sparse;             /* NULL: full attention */
    int32_t window;                /* tokens that each token looks at; 0: all */
    sp_offload_stats offload_then; /* when decoding began */
    int32_t *ends; /* [n_ends] end and stop tokens, where min_tokens forbids them; in `arena` */
    int n_ends;
    sp_token_logprob *logprobs; /* [1 + top_logprobs] for on_token; in `arena` */
    sp_text_stream stream;
    sp_bytes text;    /* so far */
    size_t n_shown;   /* bytes of it handed to on_text; the rest may become a stop string */
    sp_tokens tokens; /* generated ids */
    bool replays;     /* the tokens are being recomputed after a restart */
    float *first;     /* [n_vocab] logits at the end of the prompt, to rewind to; in `arena`; or NULL */
    int32_t n_scored; /* tokens scored so far; 0: the prompt is being computed */
} sp_request_answer;

/* What the guard checks (serve/guard/guard.h). */
typedef struct sp_request_check {
    bool first;                   /* the first token */
    bool sparse;                  /* the sparsely decoded tokens */
    struct sp_guard_noted *noted; /* those so far; owned by the guard */
} sp_request_check;

/* sp_request_stops_at -- whether the token is one of the request's stop tokens. */
bool sp_request_stops_at(const sp_request *r, int32_t id);
/* sp_request_replay -- after the prompt was recomputed: plans to recompute all tokens of the answer in one go. */
sp_err sp_request_replay(sp_request *r) SP_MUST_CHECK;
/* sp_request_score_begin -- logits [V]: of the prompt's last token; plans the tokens to score next.
 * sp_request_score -- n more of them are computed; logits [n, V]. */
void sp_request_score_begin(sp_request *r, const float *logits);
void sp_request_score(sp_request *r, int n, const float *logits);
/* sp_request_take_token -- samples from logits [V]; continues with the next token or finishes. */
void sp_request_take_token(sp_request *r, const float *logits);

#endif
