/* spolia.h -- the public C interface of Spolia, an inference engine for retrieval-augmented
 * generation that keeps the key/value caches of documents and sets them into new prompts. */
#ifndef SPOLIA_H
#define SPOLIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPOLIA_VERSION "0.1.0"
#define SP_API         __attribute__((visibility("default")))

/* -- errors --------------------------------------------------------------------------------- */

#define SP_ERRORS(X)                                                                               \
    X(OK, 0, "success")                                                                            \
    X(E_NOMEM, -1, "out of memory")                                                                \
    X(E_IO, -2, "input/output error")                                                              \
    X(E_FORMAT, -3, "malformed data")                                                              \
    X(E_UNSUPPORTED, -4, "not supported")                                                          \
    X(E_ARG, -5, "invalid argument")                                                               \
    X(E_LIMIT, -6, "over a limit")                                                                 \
    X(E_NOKV, -7, "out of KV memory")                                                              \
    X(E_CONTEXT, -8, "prompt longer than the context")                                             \
    X(E_NOTFOUND, -9, "not found")                                                                 \
    X(E_CANCELED, -10, "canceled")

typedef enum sp_err {
#define X(name, value, text) SP_##name = value,
    SP_ERRORS(X)
#undef X
} sp_err;

/* sp_error_text -- the general text of a code; never NULL. */
SP_API const char *sp_error_text(sp_err code);
/* sp_error_detail -- what exactly failed last on this thread: file, field, value. Valid until the
 * next failing call of this thread. */
SP_API const char *sp_error_detail(void);

/* -- logging -------------------------------------------------------------------------------- */

typedef enum sp_log_level { SP_LOG_ERROR = 1, SP_LOG_WARN, SP_LOG_INFO, SP_LOG_DEBUG } sp_log_level;
typedef void sp_log_sink(sp_log_level level, const char *line, void *user);

/* sp_log_set -- where log lines go; sink NULL turns logging off (the default). Call it before any
 * other thread uses the library. */
SP_API void sp_log_set(sp_log_level level, sp_log_sink *sink, void *user);

/* -- context: a model, its KV memory and what is cached --------------------------------------- */

typedef struct sp_context sp_context;

/* How cached keys and values are used. */
typedef struct sp_reuse_opts {
    const char *policy; /* exact: "off", "prefix" (longest known prefix); approximate: "set" (chunks
                           that were read together before, in any order), "full", "random", "h2o",
                           "blend", "craft", "fusion", "flow" (chunks at any position); NULL:
                           "prefix" */
    float recompute;    /* share of chunk tokens that the last six compute again, 0 .. 1 */
    float alpha;        /* craft: tokens computed again = alpha CCI (1 - beta'), chunk by chunk
                           (Cache-Craft eq. 12); 0: as many as `recompute` says */
    int focus;          /* craft: layers for which the chunks that the question looks at must stay
                           the same before the others' tokens are dropped; 0: 3; negative: never */
    bool exact_first;   /* chunks at any position: where a prefix of the prompt is known, take that
                           (exact), and copies of chunks behind it only */
    bool unfused;       /* plain copies, even where copies fused with similar chunks are known */
} sp_reuse_opts;

/* Type of cached keys and values where none is named: integers of 16 bits with a scale for each head
 * of a token. 3 % larger than f16 at heads of 64, more exact, and faster where it was measured. */
#define SP_KV_TYPE "q16"

typedef struct sp_context_opts {
    const char *model;   /* GGUF file or Hugging Face folder */
    int n_ctx;           /* prompt and answer together, tokens; 0: as trained, at most 8,192 */
    int n_batch;         /* tokens computed in one step; 0: 256 */
    int n_threads;       /* 0: one for each core */
    int max_requests;    /* running at the same time; 0: 8 */
    size_t kv_bytes;     /* memory for keys and values, cached ones included; 0: 1 GiB */
    const char *kv_type; /* "f32", "f16", "bf16", "q16", "q8_0"; NULL: SP_KV_TYPE */
    sp_reuse_opts reuse; /* of requests that do not say themselves */
    int max_variants;    /* copies of chunks behind other prefixes (craft); 0: 1,024 */
    const char *store;   /* folder of chunk copies kept on disk, created if need be; NULL: none */
    float guard;         /* share of requests whose reuse is checked against full attention in idle
                            time, 0 .. 1; 0: none; see sp_context_guard */
    float guard_bound;   /* mean divergence that is still well, nats; 0: 0.5 */
    const char *cpu;     /* kernels: "ref", "avx2", "avxvnni", "avx512", "vnni"; NULL: SPOLIA_CPU,
                            or the best */
    const char *salt;    /* tenant: entries of one are never found by another; NULL: none */
} sp_context_opts;

typedef struct sp_context_info {
    const char *arch, *tokenizer, *chat, *kernels; /* names; borrowed from the context */
    int n_layers, n_embd, n_heads, n_kv_heads, head, n_vocab, n_ctx, n_threads;
    int64_t n_params;
    int64_t kv_blocks, kv_blocks_free, cached_blocks, cached_segments; /* blocks of 16 tokens */
    size_t kv_block_bytes;
} sp_context_info;

/* sp_context_open -- Errors: SP_E_IO, SP_E_FORMAT, SP_E_UNSUPPORTED, SP_E_ARG, SP_E_NOMEM.
 * Thread: a context and its prompts and requests belong to one thread at a time. */
SP_API sp_err sp_context_open(const sp_context_opts *o, sp_context **out);
/* sp_context_close -- destroys the context; its requests and prompts must be gone. NULL is
 * allowed. */
SP_API void sp_context_close(sp_context *c);
SP_API sp_context_info sp_context_describe(const sp_context *c);
/* sp_context_forget -- drops all cached keys and values that no running request uses. */
SP_API void sp_context_forget(sp_context *c);

/* -- prompts: segments, each tokenized on its own --------------------------------------------- */

typedef struct sp_prompt sp_prompt;

/* Thread: a prompt belongs to one thread at a time; any number of threads may build prompts of one
 * context at the same time. */
SP_API sp_err sp_prompt_create(sp_context *c, sp_prompt **out);
SP_API void sp_prompt_destroy(sp_prompt *p);

/* A question over documents, in the turns of the model's own chat template:
 *     sp_prompt_system, then sp_prompt_chunk for each chunk, then sp_prompt_question.
 * title may be NULL. Document text is data: texts of special tokens in it stay plain text.
 * Errors: SP_E_NOMEM; SP_E_ARG when the order is wrong. */
SP_API sp_err sp_prompt_system(sp_prompt *p, const char *text);
SP_API sp_err sp_prompt_chunk(sp_prompt *p, const char *title, const char *text);
SP_API sp_err sp_prompt_question(sp_prompt *p, const char *text);

/* A conversation:
 *     sp_prompt_message for each turn so far, then sp_prompt_answer.
 * sp_prompt_message is sp_prompt_begin, the text, sp_prompt_end; between begin and end, texts and
 * chunks may follow each other in any order. In the turns of users and tools, chunks that this
 * context has seen are found (sp_prompt_cut). An answer of an earlier turn is a segment of its own,
 * so the copy made while it was generated is found. A system turn comes first, or not at all. */
typedef enum sp_role { SP_ROLE_SYSTEM, SP_ROLE_USER, SP_ROLE_ASSISTANT, SP_ROLE_TOOL } sp_role;

SP_API sp_err sp_prompt_message(sp_prompt *p, sp_role role, const char *text);
SP_API sp_err sp_prompt_begin(sp_prompt *p, sp_role role);
SP_API sp_err sp_prompt_end(sp_prompt *p);
/* sp_prompt_answer -- ends an open turn and opens the assistant's: the prompt is complete. */
SP_API sp_err sp_prompt_answer(sp_prompt *p);

/* sp_prompt_text -- plain text as one more segment; `special`: texts of special tokens are
 * recognised. The first segment begins with BOS if the model wants one. Empty text adds no segment
 * (but BOS). */
SP_API sp_err sp_prompt_text(sp_prompt *p, const char *text, bool special);
/* sp_prompt_cut -- plain text in which chunks are found: each piece between two separators (a
 * separator belongs to the piece before it; the piece before the first one is the head, the piece
 * after the last one the question), and elsewhere texts that this context has had as chunks,
 * exactly as sp_prompt_chunk writes them ("[title]\ntext\n\n", at least 64 bytes). The text is
 * unchanged; only the segments differ. separator NULL or "": none. special: as in sp_prompt_text,
 * for text outside chunks. */
SP_API sp_err sp_prompt_cut(sp_prompt *p, const char *text, const char *separator, bool special);
/* sp_prompt_tokens -- ids as one more segment. Errors: SP_E_ARG names an id outside the
 * vocabulary. */
SP_API sp_err sp_prompt_tokens(sp_prompt *p, const int32_t *ids, size_t n);
SP_API int sp_prompt_n_tokens(const sp_prompt *p);
SP_API int sp_prompt_n_segments(const sp_prompt *p);

/* -- requests --------------------------------------------------------------------------------- */

typedef struct sp_sampling {
    float temperature;    /* 0: greedy */
    int top_k;            /* 0: all */
    float top_p;          /* 1: all */
    float min_p;          /* relative to the best token; 0: off */
    float repeat_penalty; /* 1: off */
    int repeat_last;      /* window of the penalty, tokens */
    uint64_t seed;
} sp_sampling;

SP_API sp_sampling sp_sampling_default(void); /* greedy, no penalty */

typedef enum sp_finish {
    SP_FINISH_NONE,     /* still running */
    SP_FINISH_STOP,     /* an end token or a stop string */
    SP_FINISH_LENGTH,   /* max_tokens, or the context is full */
    SP_FINISH_CANCELED, /* on_text returned false, or sp_request_cancel */
    SP_FINISH_ERROR,
} sp_finish;

/* Called with each new piece of answer text (whole UTF-8 characters). Return false to cancel. */
typedef bool sp_text_fn(const char *text, size_t n, void *user);

/* Called for each position in order with its logits [V], borrowed for the call. */
typedef sp_err sp_logits_fn(int position, const float *logits, int n_vocab, void *user);

typedef struct sp_request_opts {
    const sp_reuse_opts *reuse; /* NULL: the context's */
    sp_sampling sampling;
    int max_tokens;          /* of the answer; 0: compute and cache the prompt only */
    const char *const *stop; /* the answer ends before the first of these */
    int n_stop;
    sp_text_fn *on_text;
    void *user; /* of on_text and on_logits */
    /* for measuring */
    bool ignore_end;          /* go on after an end token */
    const int32_t *forced;    /* [n_forced] the answer's first tokens, instead of sampled ones */
    int n_forced;             /* an end token among them ends the answer as usual */
    sp_logits_fn *on_logits;  /* before each token of the answer is chosen; an error ends the
                                 request with it */
    bool keep_kv;             /* KV memory is held until the request is destroyed, for
                                 sp_request_kv_deviation */
} sp_request_opts;

typedef struct sp_segment_report {
    const char *kind; /* "system", "chunk", "question", "text" */
    int n_tokens;
    int n_reused;     /* cached before this request, and used as they were */
    int n_recomputed; /* of cached copies: computed again for this prompt */
    const char *from;   /* where the copy was: "memory", "disk"; "" when there was none */
    const char *missed; /* why there was none: "never seen", "edited" (begins like a known one),
                           "evicted", "other system prompt", "other model" (the store has it for
                           another model or KV type), "not measured" (of what the policy must know
                           of a copy); "" when there was one, or for what is no chunk. A chunk of
                           another tenant counts as never seen: who asks must not learn of it. */
} sp_segment_report;

/* The account of a request. Strings and arrays are borrowed until the request is destroyed. */
typedef struct sp_result {
    sp_finish finish;
    sp_err err;         /* of SP_FINISH_ERROR */
    const char *detail; /* its explanation */
    const char *text;   /* the answer, NUL-terminated */
    const int32_t *tokens;
    int n_prompt, n_reused, n_computed, n_generated; /* tokens; n_prompt = n_reused + n_computed */
    int n_recomputed;          /* tokens that stand in a cached copy and were computed again */
    int64_t queue_us, ttft_us; /* waiting; from submission to the first token */
    int64_t decode_us;         /* after the first token */
    int64_t plan_us;           /* of ttft_us: looking up and planning */
    const sp_segment_report *segments;
    int n_segments;
} sp_result;

typedef struct sp_request sp_request;

/* sp_request_submit -- queues a prompt; the prompt may be destroyed afterwards.
 * Errors: SP_E_CONTEXT (prompt does not fit the context), SP_E_ARG (empty prompt, bad sampling),
 * SP_E_NOMEM. */
SP_API sp_err sp_request_submit(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                                sp_request **out);
SP_API void sp_request_cancel(sp_request *r);
/* sp_request_destroy -- cancels it if need be. */
SP_API void sp_request_destroy(sp_request *r);
SP_API const sp_result *sp_request_result(const sp_request *r);

/* sp_request_kv_deviation -- how far the keys and values of the chunks in a finished request are
 * from those in another one with the same prompt, layer by layer: |KV - KV'| / |KV'| over all
 * chunk tokens. Both were run with keep_kv. out [n_layers]. Source: FusionRAG sections 2.2.2 and
 * 5.1 (row F8). Errors: SP_E_ARG when KV is not held or the prompts differ. */
SP_API sp_err sp_request_kv_deviation(const sp_request *r, const sp_request *reference, float *out);

/* sp_fuse -- computes the last chunk of a prompt (system text, similar chunks, the chunk; no
 * question) while it sees the plain copies of the chunks before it, and keeps that copy: policies
 * that reuse chunks at any position prefer it. *fresh (may be NULL): false when a copy fused with
 * exactly these was there. Source: FusionRAG section 3.1, eq. 10 (row F3).
 * Errors: SP_E_ARG, SP_E_NOKV, SP_E_IO when the store cannot be written. */
SP_API sp_err sp_fuse(sp_context *c, const sp_prompt *p, bool *fresh);

/* The guard answers a sampled share of requests once more with full attention, in steps where
 * nothing else is to do, and compares the distribution of the first answer token. When the mean
 * divergence of a policy leaves the bound, its recomputation ratio rises by steps to 1/2, and
 * after that it falls back to "prefix"; each with a log line. */
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

/* sp_context_step -- one step of all running requests; *busy tells whether work is left. A request
 * that fails finishes with SP_FINISH_ERROR; the step itself fails only when the engine does. */
SP_API sp_err sp_context_step(sp_context *c, bool *busy);
/* sp_generate -- submits, steps until done, and hands over the finished request. */
SP_API sp_err sp_generate(sp_context *c, const sp_prompt *p, const sp_request_opts *o,
                          sp_request **out);

/* -- tokens and logits ------------------------------------------------------------------------ */

typedef struct sp_vocab sp_vocab;

/* sp_vocab_open -- the tokenizer alone; works on vocabulary-only GGUF files. */
SP_API sp_err sp_vocab_open(const char *path, sp_vocab **out);
SP_API void sp_vocab_close(sp_vocab *v);
/* sp_vocab_encode -- *ids is owned by the caller: free it with sp_buffer_free. `special`: begin
 * with BOS if the model wants one, and recognise the texts of special tokens. */
SP_API sp_err sp_vocab_encode(const sp_vocab *v, const char *text, size_t n, bool special,
                              int32_t **ids, size_t *n_ids);
/* sp_vocab_piece -- the bytes of one token, NUL-terminated after n bytes; free with
 * sp_buffer_free. */
SP_API sp_err sp_vocab_piece(const sp_vocab *v, int32_t id, char **text, size_t *n);

/* sp_context_vocab -- the tokenizer of a context; borrowed. */
SP_API const sp_vocab *sp_context_vocab(const sp_context *c);

/* sp_score -- the plain forward pass over n ids, `piece` tokens in a step (0: n_batch); caches
 * nothing.
 * Errors: SP_E_CONTEXT, SP_E_ARG, SP_E_NOKV, and what fn returns. */
SP_API sp_err sp_score(sp_context *c, const int32_t *ids, size_t n, int piece, sp_logits_fn *fn,
                       void *user);

/* sp_inspect -- what a model file or folder holds, as JSON; free *json with sp_buffer_free. */
SP_API sp_err sp_inspect(const char *path, char **json);

SP_API void sp_buffer_free(void *p);

/* -- measuring: single operations, and what the machine can do at most ------------------------ */

typedef struct sp_meter sp_meter; /* threads, kernels, and memory larger than the caches */

/* sp_meter_open -- n_threads and cpu as in sp_context_opts. Errors: SP_E_ARG, SP_E_UNSUPPORTED,
 * SP_E_NOMEM. */
SP_API sp_err sp_meter_open(int n_threads, const char *cpu, sp_meter **out);
SP_API void sp_meter_close(sp_meter *m);

/* What all threads together reach in loops that do nothing else. Rates a second. */
typedef struct sp_peaks {
    double fp32, int8;                       /* operations: a multiply-add counts as two */
    double read;                             /* bytes, from a buffer of read_bytes */
    const char *fp32_by, *int8_by, *read_by; /* instructions of the fastest loop */
    size_t read_bytes;                       /* more than the caches of most machines hold */
    int n_threads;
    const char *kernels; /* of operations: "avx2" */
} sp_peaks;

/* sp_meter_peaks -- one sample of some tenths of a second. What else the machine does lowers it:
 * take the best of several. */
SP_API sp_peaks sp_meter_peaks(sp_meter *m);

typedef struct sp_meter_op {
    const char *kind; /* "gemm": y [rows, n_out] = x [rows, n_in] W^T; "attend": span attention of
                         the last `rows` of n_keys tokens over all before them */
    const char *type; /* of weights; of keys and values */
    int rows;
    int n_out, n_in;                                /* gemm */
    int n_heads, n_kv_heads, head, n_keys, n_spans; /* attend; spans of one length */
} sp_meter_op;

typedef struct sp_meter_sample {
    double seconds;    /* of one run, the mean over some milliseconds */
    double ops, bytes; /* of one run: operations; bytes of weights, or of keys and values */
} sp_meter_sample;

/* sp_meter_run -- one sample of an operation over noise. Weights, or keys and values, come from
 * memory: each run takes another copy of them, and all copies together do not fit the caches.
 * Errors: SP_E_ARG names the field, SP_E_LIMIT, SP_E_NOMEM. */
SP_API sp_err sp_meter_run(sp_meter *m, const sp_meter_op *op, sp_meter_sample *out);

/* -- retrieval -------------------------------------------------------------------------------- */

typedef struct sp_chunk_opts {
    int size_words;    /* no chunk is longer than this many words */
    int overlap_words; /* 0 .. size-1 words at the end of a chunk, repeated in the next */
} sp_chunk_opts;

typedef struct sp_index_stats {
    int64_t n_files, n_chunks, n_unchanged, n_removed, n_skipped, n_bytes;
} sp_index_stats;

/* Called after each file; done and total in files. Return false to cancel. */
typedef bool sp_index_progress(const char *file, int64_t done, int64_t total, void *user);

/* sp_index_build -- chunks of the *.txt *.md *.markdown *.jsonl *.html *.htm below `dir`
 * (recursively, sorted) in the SQLite file `out_path`, created or brought up to date: files with
 * the same size and time, or the same SHA-256, are kept, vanished ones removed. JSONL: one
 * document a line, fields title and text (or content, contents); a bad line is an error naming
 * file and line. Unreadable files and invalid UTF-8 are skipped with a warning and counted. One
 * transaction: an interrupted build leaves the old index. *stats is kept current while it runs.
 * Errors: SP_E_IO, SP_E_FORMAT, SP_E_CANCELED, SP_E_ARG. */
SP_API sp_err sp_index_build(const char *dir, const char *out_path, const sp_chunk_opts *o,
                             sp_index_progress *progress, void *user, sp_index_stats *stats);

typedef struct sp_index sp_index;

typedef struct sp_hit {
    int64_t id;
    double score;      /* BM25, higher is better */
    const char *file;  /* relative to the indexed folder */
    const char *title; /* of the document or heading; may be "" */
    const char *text;
} sp_hit;

typedef struct sp_hits {
    sp_hit *v;
    int n;
    void *strings; /* what v points into */
} sp_hits;

/* sp_index_open -- read-only. Errors: SP_E_IO; SP_E_FORMAT when it is no index of ours or another
 * version. */
SP_API sp_err sp_index_open(const char *path, sp_index **out);
SP_API void sp_index_close(sp_index *ix);
SP_API int64_t sp_index_n_chunks(const sp_index *ix);
/* sp_index_search -- the k best chunks for a question in plain words: best first, ties by id.
 * Words are matched after stemming, any of them; nothing in the question is taken as query syntax.
 * No match is an empty list. Thread: one at a time for one index. Owns: sp_hits_fini. */
SP_API sp_err sp_index_search(sp_index *ix, const char *question, int k, sp_hits *out);
SP_API void sp_hits_fini(sp_hits *h);
/* sp_index_chunk -- the chunk with the lowest id above `after` (0: the first), as a list of one;
 * an empty list at the end. */
SP_API sp_err sp_index_chunk(sp_index *ix, int64_t after, sp_hits *out);
/* sp_index_document -- the chunks of the first document whose file or title is `name`. */
SP_API sp_err sp_index_document(sp_index *ix, const char *name, sp_hits *out);
/* sp_index_similar -- the k chunks most similar to chunk `id`, itself left out. source: "bm25"
 * (its own words as the question), "neighbour" (the chunks before and after it in its document,
 * nearest first). Exact copies of its text are left out as well. Errors: SP_E_ARG for another
 * source or an unknown id. Source: FusionRAG section 3.1 (row F3). */
SP_API sp_err sp_index_similar(sp_index *ix, const char *source, int64_t id, int k, sp_hits *out);
/* sp_store_retain -- deletes the copies in the context's store of chunks that the index does not
 * hold; what other models or KV types keep in the same folder stays, what other salts keep does
 * not. *n_removed (may be NULL).
 * Errors: SP_E_ARG without a store, SP_E_IO. Cost: tokenizes the index. */
SP_API sp_err sp_store_retain(sp_context *c, sp_index *ix, int64_t *n_removed);

#ifdef __cplusplus
}
#endif
#endif
