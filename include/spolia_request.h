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
    int repeat_last;      /* window of the penalty, tokens */
    uint64_t seed;
    float frequency_penalty;   /* subtracted for each use of a token in the answer; 0: off */
    float presence_penalty;    /* subtracted for tokens that are in the answer; 0: off */
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

/* What comes before the JSON of a call: a text, then, if after_number is not NULL, a whole number and that text. */
typedef struct sp_grammar_head {
    const char *before, *after_number;
} sp_grammar_head;

/* JSON that a schema accepts, one of several texts, or what a grammar or a regular expression
 * describes: at most one of schema, texts, gbnf, regex. */
typedef struct sp_grammar_opts {
    const char *schema;         /* JSON Schema, as text; NULL: any JSON object */
    const char *before, *after; /* texts around the JSON; NULL: none */
    const char
        *between; /* one or more times before JSON after, with this text, or "", between; NULL: once */
    const char *open, *close;     /* texts around all repetitions; NULL: none */
    const sp_grammar_head *heads; /* [n_heads] of a schema {"anyOf": [n_heads schemas]}: JSON of schema i follows head
                                     i; NULL: none */
    int n_heads;
    const char *const *keys; /* [3] an object's members are written as keys[0], its key, keys[1], its value, keys[2],
                                and texts have no quotes; NULL: JSON */
    const char *const *texts; /* [n_texts] exactly one of these instead; NULL: JSON */
    int n_texts;
    const char *gbnf;  /* a grammar as llama.cpp has it; begins at the rule root */
    const char *regex; /* the whole text matches; no look-around, no references (docs/server.md) */
} sp_grammar_opts;

/* sp_grammar_compile -- o NULL: any JSON object. Nothing of *o is kept. Properties come in the order of
 * the schema.
 * Errors: SP_E_FORMAT (not JSON), SP_E_UNSUPPORTED (a keyword of the schema, with its path; a part of
 * a grammar or expression, with its line and column), SP_E_ARG,
 * SP_E_LIMIT, SP_E_NOMEM. Thread: any. Owns: sp_grammar_destroy, after the requests that use it. */
SP_API sp_err sp_grammar_compile(const sp_grammar_opts *o, sp_grammar **out);
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
/* Called once when a request has finished; the request may be destroyed from then on, but not here. */
typedef void sp_done_fn(void *user);

/* Called between the layers of a step that computes a prompt. Return false to cancel: what the step has computed is
 * given up. */
typedef bool sp_go_on_fn(void *user);

typedef struct sp_request_opts {
    const sp_reuse_opts *reuse; /* NULL: the context's */
    sp_sampling sampling;
    int max_tokens;          /* of the answer; 0: compute and cache the prompt only */
    const char *const *stop; /* the answer ends before the first of these */
    int n_stop;
    const int32_t *stop_tokens; /* [n_stop_tokens] each ends the answer as an end token does, also with
                                   ignore_end; its text is not part of the answer */
    int n_stop_tokens;
    sp_text_fn *on_text;
    sp_done_fn *on_done; /* or NULL */
    void *user;          /* of on_text, on_done, on_token and go_on */
    bool
        ignore_end; /* continue after an end token; an answer that a grammar completes ends all the same */
    int min_tokens; /* no end token, stop token or stop string ends a shorter answer; 0: none */
    const sp_grammar
        *grammar; /* borrowed until the request is destroyed; NULL: any text. max_tokens may cut
                                  the answer; min_tokens then means nothing */
    sp_token_fn *on_token; /* or NULL */
    sp_go_on_fn *go_on;    /* or NULL; with `user`, on the thread that makes the steps */
    int top_logprobs;      /* most likely tokens that on_token is given, 0 .. SP_MAX_TOP_LOGPROBS */
    const char
        *decode;  /* "exact": every token of the answer reads all keys and values. "sparse:10%" or
                              "sparse:4096": it reads this share ("sparse": 10%), or this many tokens, of the
                              prompt, chosen for each KV head (docs/sparse-decoding.md has its options). "window:4096":
                              prompt and answer look at the prompt's beginning and at so many tokens before
                              them; not for trees. NULL: the context's, and of that NULL: "exact" */
    int priority;     /* lower numbers start first, before those of other tenants, too */
    int own_priority; /* of its tenant's requests with the same priority, lower numbers start first */
    const char *tenant;  /* who is served: those who had least go first; NULL: the prompt's salt */
    int64_t max_wait_ms; /* not begun by then, it fails with SP_E_CANCELED; 0: no limit */
    int64_t retain_ms;   /* so long the copies of its prompt leave memory after those of others; 0: no difference */
    int n_retain;        /* of its first segments only; 0: of all */
    bool citations;      /* note what the answer looks at: sp_result.looks. Not with sparse decoding or a window */
    bool background;     /* starts after all others, and gives way: while others run it takes a tenth of their time */
    const int32_t *scored; /* [n_scored] instead of generating: how likely these tokens are after the prompt, in
                              sp_result.logprob. max_tokens, sampling and callbacks but on_done mean nothing then */
    int n_scored;
} sp_request_opts;

typedef struct sp_segment_report {
    const char *kind; /* "system", "chunk", "question", "text", "node" (of a tree) */
    int n_tokens;
    int n_reused;       /* cached before this request, and used as they were */
    int n_recomputed;   /* of cached copies: computed again for this prompt */
    const char *from;   /* where the copy was: "memory", "host", "disk", "remote"; "" when there was none */
    const char *missed; /* why there was none: "never seen", "edited" (begins like a known one),
                           "evicted", "other system prompt", "other model" (the store has it for
                           another model or KV type), "other policy" (the store has it, and the
                           policy reuses prefixes only), "not measured" (of what the policy must know
                           of a copy), "no room" (KV memory was set aside for other requests), "damaged"
                           (the store had it); "" when there was one, or for what is no chunk. A chunk
                           of another tenant counts as never seen. */
} sp_segment_report;

/* What sparse decoding saved, and what it cost; and what was moved for the answer. */
typedef struct sp_decode_report {
    const char *full;     /* why tokens were decoded with full attention instead: "short" (a prompt of
                             fewer tokens than depth=N), "all" (the budget holds the whole prompt),
                             "guard" (it found too large a divergence), "no memory"; "": none were;
                             NULL: sparse decoding was not asked for */
    int n_sparse;         /* answer tokens that were decoded sparsely */
    double keys_read;     /* by them, as a share of the keys that full attention reads */
    int64_t kv_bytes;     /* keys and values that they read, */
    int64_t full_bytes;   /* that full attention reads, */
    int64_t choice_bytes; /* and summaries that they read to choose */
    int64_t choose_us;    /* choosing, of decode_us; a batch chooses for all of its requests */
    double lists_reused;  /* share of the choices that an earlier token had made */
    int64_t summarize_us; /* making summaries of blocks that had none */
    size_t summary_bytes; /* memory of the summaries of the prompt's blocks */
    /* With context_bytes, of all requests that decoded meanwhile: */
    int64_t file_bytes; /* read from the file */
    double found;       /* share of what is in the file that memory had from earlier tokens */
    int64_t file_us;    /* waited for the file */
    /* Nodes of trees that were stored apart, and are read as one since: */
    int n_packed; /* tokens */
    int64_t pack_us;
} sp_decode_report;

/* The account of a request. Strings and arrays are borrowed until the request is destroyed. */
typedef struct sp_result {
    sp_finish finish;
    sp_err err;         /* of SP_FINISH_ERROR */
    const char *detail; /* its explanation */
    const char *text;   /* the answer, NUL-terminated */
    const char *stop;   /* the stop string that ended it; NULL: none */
    const int32_t *tokens;
    int n_prompt, n_reused, n_computed, n_generated; /* tokens; n_prompt = n_reused + n_computed */
    int n_recomputed;          /* cached tokens that were recomputed */
    int n_dropped;             /* of these: in the first layers only, since the question does not look at their chunks;
                                  in the others the copies serve (craft: Cache-Craft section 3.2.2) */
    double logprob; /* of n_scored tokens together, nats: the log of their probability */
    int64_t queue_us, ttft_us; /* waiting; from submission to the first token */
    int64_t cold_us; /* what ttft_us - queue_us would have been if nothing had been reused: as it was where nothing
                        was, else an estimate by the steps of late; 0: unknown, or no token came */
    int64_t decode_us;         /* after the first token */
    int64_t plan_us;           /* of ttft_us: looking up and planning */
    const char *policy; /* reuse policy that served it, which may not be the one it asked for */
    float recompute;    /* its share of recomputed tokens; 0 where it has none */
    const sp_segment_report *segments;
    int n_segments;
    sp_decode_report decode;
    const float *looks; /* [n_looks, n_segments] of citations: the share of attention that each token of the answer
                           gives to each segment, mean over layers and heads; or NULL */
    const float *looks_before, *looks_asking; /* [n_segments] of citations: the same for the first tokens of the last
                           segment, which know no question yet, and for its others; or NULL */
    const int *text_at; /* [n_looks + 1] of citations: bytes of `text` before each token */
    int n_looks;        /* tokens; the last of the answer has none */
} sp_result;

typedef struct sp_request sp_request;

/* sp_request_submit -- queues a prompt; the prompt may be destroyed afterwards.
 * Errors: SP_E_CONTEXT (prompt does not fit the context), SP_E_ARG (empty prompt, bad sampling),
 * SP_E_NOMEM. */
SP_API sp_err sp_request_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                                sp_request **out);
/* sp_request_progress -- prompt tokens of the plan that runs now: computed, and to be computed in
 * all. What is reused counts in neither. *total is 0 before the request has started and while it
 * decodes. done and total may be NULL.
 * Thread: that of the context; with an engine thread, any. */
SP_API void sp_request_progress(sp_request *r, int *done, int *total);
/* Where a request is. */
typedef enum sp_phase {
    SP_PHASE_WAITING, /* in the queue */
    SP_PHASE_LOADING, /* the same, while copies come from a tier */
    SP_PHASE_PROMPT,
    SP_PHASE_ANSWER,
    SP_PHASE_DONE,
} sp_phase;

typedef struct sp_request_view {
    sp_phase phase;
    int n_done, n_todo; /* tokens, as sp_request_progress has them */
    int n_generated;
} sp_request_view;

/* sp_requests_look -- at requests [n] of one context, all at the same moment between two steps; out [n].
 * Thread: as sp_request_progress. */
SP_API void sp_requests_look(sp_request *const *requests, int n, sp_request_view *out);
/* sp_request_cancel -- it finishes at the next step, or at the next layer of its prompt. Segments of the prompt that
 * steps have computed whole are kept as copies. Thread: any. */
SP_API void sp_request_cancel(sp_request *r);
/* sp_request_destroy -- cancels it if need be; its callbacks are no longer called. */
SP_API void sp_request_destroy(sp_request *r);
/* sp_request_result -- complete once the request has finished: finish is not SP_FINISH_NONE or,
 * with an engine thread, sp_request_wait has returned true. */
SP_API const sp_result *sp_request_result(const sp_request *r);

/* sp_chunk_fuse -- computes the last chunk of a prompt (system text, similar chunks, the chunk; no
 * question) while it sees the plain copies of the chunks before it, and keeps that copy: policies
 * that reuse chunks at any position prefer it. Without similar chunks: its plain copy. It is in the store when this
 * returns, or without one in the remote tier. *fresh (may be NULL): false when a copy fused with
 * exactly these was there. Source: FusionRAG section 3.1, eq. 10.
 * Errors: SP_E_ARG, SP_E_NOKV, SP_E_IO when the store cannot be written. */
SP_API sp_err sp_chunk_fuse(sp_context *c, const sp_prompt *p, bool *fresh);
/* sp_chunk_fuse_while -- the same, which go_on (may be NULL) can end. Errors: also SP_E_CANCELED. */
SP_API sp_err sp_chunk_fuse_while(sp_context *c, const sp_prompt *p, sp_go_on_fn *go_on, void *user,
                                  bool *fresh);

/* The guard answers a sampled share of requests once more with full attention, in steps where
 * nothing else is to do, and compares the distribution of the first answer token. When the mean
 * divergence of a policy leaves the bound, its recomputation ratio rises by steps to 1/2, and
 * after that it falls back to "prefix"; each with a log line. Sparse decoding has a report, too, of
 * the policy "sparse": the first four tokens that were decoded sparsely are compared, and it falls
 * back to full attention. */
typedef struct sp_guard_report {
    const char *policy;
    int64_t n_checked, n_agreed; /* requests; agreed: the most likely token is the same */
    double mean_kl;              /* nats, recent requests weigh more */
    float recompute;             /* ratio in use now */
    int64_t n_raised;            /* times the ratio rose */
    bool fallen_back;
} sp_guard_report;

/* sp_context_guard -- one report for each policy that was checked; borrowed until the next step. */
SP_API const sp_guard_report *sp_context_guard(const sp_context *c, int *n);

/* sp_context_guard_read -- the first `most` of the same reports into out[]; returns how many there are.
 * Thread: any, with an engine thread. */
SP_API int sp_context_guard_read(sp_context *c, sp_guard_report *out, int most);

/* sp_context_step -- one step of all running requests; *busy tells whether work is left. A request
 * that fails finishes with SP_FINISH_ERROR; the step itself fails only when the engine does. */
SP_API sp_err sp_context_step(sp_context *c, bool *busy);
/* sp_generate -- submits, waits or steps until done, and hands over the finished request. */
SP_API sp_err sp_generate(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                          sp_request **out);
/* sp_compute_depkv -- computes the nodes of a prompt of trees without a question, ahead of questions
 * over them: DepCache's compute_depkv. Its generate_with_depkv is sp_generate with the question. Nodes
 * that are cached are not computed again, but for the last one; *n_computed: tokens that were, or NULL.
 * Errors: those of sp_generate; SP_E_NOKV when the nodes do not fit the KV memory.
 * Source: DepCache section 5 (D9). */
SP_API sp_err sp_compute_depkv(sp_context *c, const sp_prompt *p, int *n_computed);

/* sp_context_start -- gives the context to an engine thread of its own, which makes the steps. From
 * then on any thread may call any function of the context but sp_context_step, sp_context_guard and
 * sp_context_close; on_text and on_done are called on the engine thread and must be quick.
 * Errors: SP_E_NOMEM. */
SP_API sp_err sp_context_start(sp_context *c);
/* sp_context_step_us -- how long the step or command that its engine thread runs now has taken; 0: it runs none.
 * A step takes milliseconds to seconds: one of minutes hangs. Thread: any. */
SP_API int64_t sp_context_step_us(sp_context *c);
/* sp_context_n_decoding -- requests that answer now; those that wait or compute their prompt do not count.
 * Thread: any. */
SP_API int sp_context_n_decoding(const sp_context *c);
/* sp_context_stop -- waits until all requests have finished, and takes the context back. */
SP_API void sp_context_stop(sp_context *c);
/* sp_request_wait -- until the request has finished or timeout_us have passed (negative: no limit);
 * whether it has finished. Without an engine thread it does not wait. */
SP_API bool sp_request_wait(sp_request *r, int64_t timeout_us);

#ifdef __cplusplus
}
#endif

#endif
