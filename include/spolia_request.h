/* spolia_request.h -- requests: submitted, computed step by step, answered; the guard over them. spolia.h includes
 * it. */
#ifndef SPOLIA_REQUEST_H
#define SPOLIA_REQUEST_H

#include "spolia_prompt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_logit_bias {
    int32_t id;
    float bias; /* added to the token's logit; -infinity: never */
} sp_logit_bias;

typedef struct sp_sampling {
    float temperature;    /* 0: greedy */
    int top_k;            /* 0: all */
    float top_p;          /* 0 or 1: all */
    float min_p;          /* relative to the best token; 0: off */
    float repeat_penalty; /* 0 or 1: off */
    int repeat_last;      /* window of repeat_penalty, tokens */
    uint64_t seed;
    float frequency_penalty;   /* subtracted for each occurrence of a token in the answer; 0: off */
    float presence_penalty;    /* subtracted once for a token that the answer has; 0: off */
    const sp_logit_bias *bias; /* borrowed while the request runs; NULL: none */
    int n_bias;
} sp_sampling;

SP_API sp_sampling sp_sampling_default(void); /* greedy, no penalty */

typedef enum sp_finish {
    SP_FINISH_NONE,     /* still running */
    SP_FINISH_STOP,     /* an end token or a stop string */
    SP_FINISH_LENGTH,   /* max_tokens, or the context is full */
    SP_FINISH_CANCELED, /* on_text returned false, or sp_request_cancel */
    SP_FINISH_ERROR,
} sp_finish;

/* What an answer may look like. Immutable; any number of requests and threads may use one. */
typedef struct sp_grammar sp_grammar;

/* The text before the JSON of a call; if after_number is not NULL, then a whole number and that text follow. */
typedef struct sp_grammar_head {
    const char *before, *after_number;
} sp_grammar_head;

/* What an answer may be: JSON that a schema accepts, one of several texts, or text that a grammar or a regular
 * expression describes. At most one of schema, texts, gbnf and regex is set. */
typedef struct sp_grammar_opts {
    const char *schema;         /* JSON Schema, as text; NULL: any JSON object */
    const char *before, *after; /* texts around the JSON; NULL: none */
    const char *between;          /* before, JSON, after repeat one or more times with this text (may be "") between
                                     them; NULL: once */
    const char *open, *close;     /* texts around all repetitions; NULL: none */
    const sp_grammar_head *heads; /* [n_heads] for a schema {"anyOf": [n_heads schemas]}: head i precedes JSON of
                                     schema i; NULL: none */
    int n_heads;
    const char *const *keys; /* [3] a member of an object is written as keys[0], its key, keys[1], its value, keys[2],
                                and strings have no quotes; NULL: JSON */
    const char *const *texts; /* [n_texts] exactly one of these instead of JSON; NULL: JSON */
    int n_texts;
    const char *gbnf;  /* a grammar in llama.cpp's format; begins at the rule root */
    const char *regex; /* matches the whole text; no look-around, no back-references (docs/server.md) */
} sp_grammar_opts;

/* sp_grammar_compile -- o NULL: any JSON object. *o is not used afterwards. Properties come in the order of the
 * schema.
 * Errors: SP_E_FORMAT (not JSON), SP_E_UNSUPPORTED (a keyword of the schema, with its path; a part of
 * a grammar or expression, with its line and column), SP_E_ARG,
 * SP_E_LIMIT, SP_E_NOMEM. Thread: any. Owns: sp_grammar_destroy, after the requests that use it. */
SP_API sp_err sp_grammar_compile(const sp_grammar_opts *o, sp_grammar **out);
/* sp_grammar_either -- what one or the other allows; both stay as they are. Errors: SP_E_LIMIT, SP_E_NOMEM.
 * Thread: any. Owns: as sp_grammar_compile. */
SP_API sp_err sp_grammar_either(const sp_grammar *one, const sp_grammar *other, sp_grammar **out);
SP_API void sp_grammar_destroy(sp_grammar *g);

#define SP_MAX_TOP_LOGPROBS 32

typedef struct sp_token_logprob {
    int32_t id;
    float logprob; /* nats, of the model's own distribution: before penalties, biases and grammar */
} sp_token_logprob;

/* Called with each token of the answer before its text: v[0] is the token, v[1 .. n-1] are the most
 * likely tokens, best first. */
typedef void sp_token_fn(const sp_token_logprob *v, int n, void *user);
/* Called with each new piece of answer text (whole UTF-8 characters). Return false to cancel. */
typedef bool sp_text_fn(const char *text, size_t n, void *user);
/* Called once when a request has finished. The request may be destroyed afterwards, but not in this call. */
typedef void sp_done_fn(void *user);

/* Called between the layers of a step that computes a prompt. Return false to cancel and discard what the step has
 * computed. */
typedef bool sp_go_on_fn(void *user);

typedef struct sp_request_opts {
    const sp_reuse_opts *reuse; /* NULL: the context's */
    sp_sampling sampling;
    int max_tokens;          /* of the answer; 0: compute and cache the prompt only */
    const char *const *stop; /* the answer ends before the first of these */
    int n_stop;
    const int32_t *stop_tokens; /* [n_stop_tokens] each ends the answer like an end token, even with ignore_end; its
                                   text is not part of the answer */
    int n_stop_tokens;
    sp_text_fn *on_text;
    sp_done_fn *on_done; /* or NULL */
    void *user;          /* of on_text, on_done, on_token and go_on */
    bool ignore_end; /* continue after an end token; an answer still ends when its grammar is
                        complete */
    int min_tokens; /* shorter answers are not ended by end tokens, stop tokens or stop strings; 0: none */
    const sp_grammar *grammar; /* borrowed until the request is destroyed;
                                  NULL: any text. max_tokens may cut the
                                  answer; min_tokens is ignored */
    sp_token_fn *on_token; /* or NULL */
    sp_go_on_fn *go_on;    /* or NULL; called with `user` on the thread that runs the steps */
    int top_logprobs;      /* how many of the most likely tokens on_token gets, 0 .. SP_MAX_TOP_LOGPROBS */
    const char *decode; /* "exact": every token of the answer reads all keys and values. "sparse:10%" or
                           "sparse:4096": it reads this share ("sparse": 10%), or this many tokens, of the prompt,
                           chosen for each KV head (docs/sparse-decoding.md). "window:4096": prompt and answer look
                           at the prompt's beginning and at this many preceding tokens; not for trees. NULL: the
                           context's `how`, else "exact" */
    int priority;     /* lower numbers start first, across all tenants */
    int own_priority; /* among its tenant's requests of the same priority, lower numbers start first */
    const char *tenant;  /* whose request it is: the tenant served least goes first; NULL: the prompt's salt */
    int64_t max_wait_ms; /* if it has not started by then, it fails with SP_E_CANCELED; 0: no limit */
    int64_t retain_ms;   /* for this long, its prompt's copies are evicted only after all others; 0: no time */
    int n_retain;        /* retain copies of its first n_retain segments only; 0: of all */
    bool citations;      /* record what the answer looks at: sp_result.looks. Not with sparse decoding or a window */
    bool background;     /* starts after all others and yields to them: while others run it gets a tenth of the time */
    const int32_t *scored; /* [n_scored] computes how likely these tokens are after the prompt (sp_result.logprob)
                              instead of generating; max_tokens, sampling and all callbacks but on_done are ignored */
    int n_scored;
} sp_request_opts;

typedef struct sp_segment_report {
    const char *kind; /* "system", "chunk", "question", "text", "node" (of a tree) */
    int n_tokens;
    int n_reused;       /* cached before this request, and used as they were */
    int n_recomputed;   /* cached, but recomputed for this prompt */
    const char *from;   /* where the copy was: "memory", "host", "disk", "remote"; "" if there was none */
    const char *missed; /* why there was no copy: "never seen", "edited" (begins like a known chunk), "evicted",
                           "other system prompt", "other model" (the store has it for another model or KV type),
                           "other policy" (the store has it, but the policy reuses prefixes only), "not measured"
                           (the copy lacks statistics that the policy needs), "no room" (the rest of the prompt, or
                           other requests, need the KV memory), "damaged" (in the store). "" if there was a copy,
                           and for segments that are not chunks. A chunk of another tenant counts as never seen. */
    const char *copy;   /* kind of the copy, as sp_copy_info.kind; "" if there was none: the next two are then 0. With
                           n_reused 0 a fused one that became ready while this request computed the chunk, and served
                           it instead */
    int n_patched;      /* tokens of the copy that are stored over another one: sp_copy_info.n_recomputed */
    uint64_t origin;    /* a hash of what the copy was computed after: two copies of one text that were computed after
                           different segments differ in it */
} sp_segment_report;

/* What sparse decoding saved and cost, and what was read and moved for the answer. */
typedef struct sp_decode_report {
    const char *full;     /* why tokens were decoded with full attention: "short" (fewer prompt tokens than depth=N),
                             "all" (the budget holds the whole prompt), "guard" (it measured too large a divergence),
                             "no memory"; "": all were decoded sparsely; NULL: sparse decoding was not requested */
    int n_sparse;         /* answer tokens that were decoded sparsely; the next three are theirs */
    double keys_read;     /* keys read, as a share of those that full attention reads */
    int64_t kv_bytes;     /* keys and values read */
    int64_t full_bytes;   /* keys and values that full attention would have read */
    int64_t choice_bytes; /* summaries read to choose blocks */
    int64_t choose_us;    /* the part of decode_us spent choosing, for all requests of the batch */
    double lists_reused;  /* share of choices taken over from an earlier token */
    int64_t summarize_us; /* time to summarize blocks that had no summary */
    size_t summary_bytes; /* memory of the summaries of the prompt's blocks */
    /* With context_bytes, for all requests that decoded at the same time: */
    int64_t file_bytes; /* read from the file */
    double found;       /* share of reads served from memory instead of the file */
    int64_t file_us;    /* time waiting for the file */
    /* Nodes of trees whose blocks were scattered and are now packed together: */
    int n_packed; /* tokens */
    int64_t pack_us;
} sp_decode_report;

/* The result of a request. Strings and arrays are borrowed until the request is destroyed. */
typedef struct sp_result {
    sp_finish finish;
    sp_err err;         /* of SP_FINISH_ERROR */
    const char *detail; /* its explanation */
    const char *text;   /* the answer, NUL-terminated */
    const char *stop;   /* the stop string that ended it; NULL: none */
    const int32_t *tokens;
    int n_prompt, n_reused, n_computed, n_generated; /* tokens; n_prompt = n_reused + n_computed */
    int n_recomputed;          /* cached tokens that were recomputed */
    int n_dropped;             /* of these, recomputed in the first layers only, since the question does not look at
                                  their chunks; deeper layers use the copies (craft: Cache-Craft section 3.2.2) */
    double logprob; /* log probability of all n_scored tokens together, nats */
    int64_t queue_us, ttft_us; /* time in the queue; from submission to the first token */
    int64_t cold_us; /* ttft_us - queue_us without reuse: measured if nothing was reused, else estimated from recent
                        steps; 0: unknown, or no token was generated */
    int64_t decode_us;         /* after the first token */
    int64_t plan_us;           /* the part of ttft_us spent on look-up and planning */
    const char *policy; /* the reuse policy that served it, which may differ from the requested one */
    float recompute;    /* its share of recomputed tokens; 0 where it has none */
    const sp_segment_report *segments;
    int n_segments;
    sp_decode_report decode;
    /* With citations; else NULL: */
    const float *looks; /* [n_looks, n_segments] share of attention that each token of the answer gives to each
                           segment, mean over layers and heads */
    const float *looks_before, *looks_asking; /* [n_segments] the same for the first tokens of the last segment, which
                           precede the question, and for its other tokens */
    const int *text_at; /* [n_looks + 1] bytes of `text` before each token */
    int n_looks;        /* tokens of the answer but the last */
} sp_result;

typedef struct sp_request sp_request;

/* sp_request_submit -- queues a prompt; the prompt may be destroyed afterwards.
 * Errors: SP_E_CONTEXT (the prompt does not fit the context, or prompt and answer not all of the KV memory; with
 * recomputed tokens the latter may be known later, and is then in the result), SP_E_ARG (empty prompt, one made for
 * another model or type of KV, bad sampling), SP_E_NOMEM. */
SP_API sp_err sp_request_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                                sp_request **out);
/* sp_request_progress -- prompt tokens of the current plan: computed so far, and to be computed in all. Reused tokens
 * count in neither. *total is 0 before the request has started; once it decodes, both are what the prompt's last plan
 * computed. done and total may be NULL.
 * Thread: that of the context; with an engine thread, any. */
SP_API void sp_request_progress(sp_request *r, int *done, int *total);
/* Where a request is. */
typedef enum sp_phase {
    SP_PHASE_WAITING, /* in the queue */
    SP_PHASE_LOADING, /* in the queue, while copies are loaded from a tier */
    SP_PHASE_PROMPT,
    SP_PHASE_ANSWER,
    SP_PHASE_DONE,
} sp_phase;

typedef struct sp_request_view {
    sp_phase phase;
    int n_done, n_todo; /* done and total of sp_request_progress */
    int n_generated;
} sp_request_view;

/* sp_requests_look -- the state of requests [n] of one context at one moment between two steps; out [n].
 * Thread: as sp_request_progress. */
SP_API void sp_requests_look(sp_request *const *requests, int n, sp_request_view *out);
/* sp_request_cancel -- it finishes at the next step, or at the next layer of its prompt. Prompt segments that are
 * completely computed are kept as copies. Thread: any. */
SP_API void sp_request_cancel(sp_request *r);
/* sp_request_destroy -- cancels it if it is running; its callbacks are not called any more. */
SP_API void sp_request_destroy(sp_request *r);
/* sp_request_result -- complete once the request has finished: finish is not SP_FINISH_NONE or,
 * with an engine thread, sp_request_wait has returned true. */
SP_API const sp_result *sp_request_result(const sp_request *r);

/* sp_chunk_fuse -- computes the last chunk of a prompt (system text, similar chunks, the chunk; no
 * question) while it sees the plain copies of the chunks before it, and keeps this fused copy, which policies that
 * reuse chunks at any position prefer. Without similar chunks it computes the plain copy. When it returns, the copy is
 * in the store, or, without a store, in the remote tier. *fresh (may be NULL): false if a copy fused with exactly
 * these chunks existed. Source: FusionRAG section 3.1, eq. 10.
 * Errors: SP_E_ARG, SP_E_NOKV, SP_E_IO when the store cannot be written. */
SP_API sp_err sp_chunk_fuse(sp_context *c, const sp_prompt *p, bool *fresh);
/* sp_chunk_fuse_while -- as sp_chunk_fuse, but go_on (may be NULL) can cancel it. Errors: also SP_E_CANCELED. */
SP_API sp_err sp_chunk_fuse_while(sp_context *c, const sp_prompt *p, sp_go_on_fn *go_on, void *user,
                                  bool *fresh);

/* The guard repeats a sampled share of requests with full attention, in steps that are otherwise idle, and compares
 * the distribution of the first answer token. When the mean divergence of a policy exceeds the bound, its
 * recomputation ratio rises in steps to 1/2; after that the policy falls back to "prefix". Each change is logged.
 * Sparse decoding has a report of its own, as the policy "sparse": the first four sparsely decoded tokens are
 * compared, and it falls back to full attention. */
typedef struct sp_guard_report {
    const char *policy;
    int64_t n_checked, n_agreed; /* requests; agreed: the most likely token is the same */
    double mean_kl;              /* nats; recent requests weigh more */
    float recompute;             /* current ratio */
    int64_t n_raised;            /* times the ratio rose */
    bool fallen_back;
} sp_guard_report;

/* sp_context_guard -- a report for each checked policy; borrowed until the next step. */
SP_API const sp_guard_report *sp_context_guard(const sp_context *c, int *n);

/* sp_context_guard_read -- copies up to `most` of these reports to out; returns how many reports exist.
 * Thread: any, with an engine thread. */
SP_API int sp_context_guard_read(sp_context *c, sp_guard_report *out, int most);

/* sp_context_step -- runs one step of all running requests; *busy tells whether work is left. A request
 * that fails finishes with SP_FINISH_ERROR; the step itself fails only when the engine does. */
SP_API sp_err sp_context_step(sp_context *c, bool *busy);
/* sp_generate -- submits a request, waits (or steps) until it has finished, and returns it. */
SP_API sp_err sp_generate(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                          sp_request **out);
/* sp_compute_depkv -- computes the nodes of a prompt of trees without a question, before questions over them arrive:
 * DepCache's compute_depkv. Its generate_with_depkv is sp_generate with the question. Only the last node is
 * recomputed if it is cached. *n_computed (may be NULL): computed tokens.
 * Errors: those of sp_generate; SP_E_NOKV when the nodes do not fit the KV memory.
 * Source: DepCache section 5 (D9). */
SP_API sp_err sp_compute_depkv(sp_context *c, const sp_prompt *p, int *n_computed);

/* sp_context_start -- starts an engine thread, which runs the steps of the context. From then on any thread may call
 * any function of the context except sp_context_step, sp_context_guard and sp_context_close; on_text and on_done are
 * called on the engine thread and must be quick.
 * Errors: SP_E_NOMEM. */
SP_API sp_err sp_context_start(sp_context *c);
/* sp_context_step_us -- how long the current step or command of the engine thread has taken so far; 0: it runs none.
 * A step takes milliseconds to seconds: one of minutes hangs. Thread: any. */
SP_API int64_t sp_context_step_us(sp_context *c);
/* sp_context_n_decoding -- requests that answer now; those that wait or compute their prompt do not count.
 * Thread: any. */
SP_API int sp_context_n_decoding(const sp_context *c);
/* sp_context_stop -- waits until all requests have finished and ends the engine thread. */
SP_API void sp_context_stop(sp_context *c);
/* sp_request_wait -- waits until the request has finished or timeout_us have passed (negative: no limit); returns
 * whether it has finished. Without an engine thread it does not wait. */
SP_API bool sp_request_wait(sp_request *r, int64_t timeout_us);

#ifdef __cplusplus
}
#endif

#endif
