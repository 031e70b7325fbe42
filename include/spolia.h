/* spolia.h -- the public C interface of Spolia, an inference engine for retrieval-augmented
 * generation that keeps the key/value caches of documents and sets them into new prompts. */
#ifndef SPOLIA_H
#define SPOLIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spolia_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOLIA_VERSION "0.1.0"

/* One rule for NULL: options that are NULL, or zeroed, mean all defaults; a required argument that is
 * NULL is SP_E_ARG, whose detail names the function and the argument. Functions that destroy, close,
 * stop, cancel or free do nothing with NULL; those that count or describe return zeros. */

/* -- context: a model, its KV memory and what is cached --------------------------------------- */

typedef struct sp_context sp_context;

/* How cached keys and values are used. */
typedef struct sp_reuse_opts {
    const char *policy; /* exact: "off", "prefix" (longest known prefix); approximate: "set" (chunks
                           that were read together before, in any order), "full", "random", "h2o",
                           "blend", "craft", "fusion", "flow" (chunks at any position); NULL:
                           "prefix" */
    float recompute;    /* share of the chunks' tokens that the last six recompute, 0 .. 1 */
    float alpha;        /* craft: tokens to recompute = alpha CCI (1 - beta'), chunk by chunk
                           (Cache-Craft eq. 12); 0: as many as `recompute` says */
    int focus;          /* craft: layers for which the chunks that the question looks at must stay
                           the same before the others' tokens are dropped; 0: 3; negative: never */
    bool exact_first;   /* chunks at any position: where a prefix of the prompt is known, take that
                           (exact), and copies of chunks only after it */
    bool unfused;       /* plain copies, even where copies fused with similar chunks are known */
} sp_reuse_opts;

/* A reuse policy that sp_reuse_opts can name. */
typedef struct sp_reuse_info {
    const char *name, *help;
    bool exact;          /* answers equal those of "off" */
    bool recomputes;     /* sp_reuse_opts.recompute has a meaning for it */
    bool anywhere;       /* takes chunks at any position, fused copies too */
    bool own_statistics; /* reads statistics of copies that only its own requests record */
    bool keeps_placed;   /* keeps copies conditioned on the chunks that preceded them in a prompt */
} sp_reuse_info;

/* sp_reuse_policies -- all of them, [*n]. Thread: any. */
SP_API const sp_reuse_info *sp_reuse_policies(int *n);

/* Type of cached keys and values where none is named: integers of 16 bits with a scale for each head
 * of a token. 3 % larger than f16 at heads of 64, more exact, and faster where it was measured. */
#define SP_KV_TYPE "q16"

/* When copies that are not in the memory of keys and values are loaded. */
typedef enum sp_preload {
    SP_PRELOAD_LAYERS, /* while requests wait; a request begins once the first layers are there, if the
                           others will be in time (Cache-Craft section 3.4.2) */
    SP_PRELOAD_REQUEST, /* while requests wait; a request begins when all is there */
    SP_PRELOAD_NONE,    /* when the request is the oldest that waits */
} sp_preload;

typedef struct sp_context_opts {
    const char *model;   /* GGUF file or Hugging Face folder */
    int n_ctx;           /* prompt and answer together, tokens; 0: as trained, at most 8,192 */
    int n_batch;         /* tokens computed in one step; 0: 256 */
    int n_threads;       /* 0: one for each core */
    int max_requests;    /* running at the same time; 0: 8 */
    size_t kv_bytes;     /* memory for keys and values, cached ones included; 0: 1 GiB */
    const char *kv_type; /* "f32", "f16", "bf16", "q16", "q8_0"; NULL: SP_KV_TYPE */
    sp_reuse_opts reuse; /* of requests that do not say themselves */
    int max_variants;    /* copies of chunks computed after other chunks (craft); 0: 1,024 */
    const char *order; /* which waiting request starts next: "reorder" (most cached tokens for each
                            computed one), "fcfs", "lpm", "lsp"; NULL: "reorder". Priorities and
                            tenants come first */
    int order_window;  /* later requests of its tenant that may start before one; 0: 32 */
    const char *evict; /* replacement policy of cached copies: "lru", "lfu", "gdsf", "pgdsf", "fr",
                            "lacr" (what waiting requests will use stays), "hazard"; with "+ghosts" it
                            remembers uses of copies that are gone; NULL: "lru" */
    const char
        *profile; /* file of `spolia profile`: what computing tokens costs, for "pgdsf"; NULL:
                            costs that rise evenly with the tokens looked at */
    int64_t
        host_bytes; /* memory of the host tier: copies that leave the memory of keys and values go
                            there, and come back when a prompt has their text; 0: none */
    const char
        *host_kv; /* type of keys and values there, such as "q8_0": smaller, and rounded; copies
                            of exact prefixes are never rounded. NULL: kv_type */
    const char *host_evict; /* which copy leaves the host tier: a name of `evict`; NULL: "lru" */
    sp_preload preload;
    bool
        admit_cheaper; /* the host tier and the store take a copy only if loading it costs less than
                            computing it did, going by the loads so far; before the first, all */
    const char
        *store; /* folder of copies of chunks, created if need be: they are loaded from there,
                            and those that requests compute are written there in the background;
                            NULL: none */
    int64_t
        store_bytes;    /* that the folder may take: copies leave it as `store_evict` says;
                            0: what it holds when the context opens, and half of what its disk has
                            free. 1 GiB of the disk (5 % of a small one) stays free in any case */
    int load_timeout_ms; /* a copy of which the host tier or the store brings nothing for so long is
                            computed instead, and after a write that takes in nothing for so long no
                            other begins until it is over; 0: 5000 */
    const char *store_evict; /* which copy leaves it when it is full: a name of `evict`; NULL: "lru" */
    float guard;        /* share of requests whose reuse is checked against full attention in idle
                            time, 0 .. 1; 0: none; see sp_context_guard */
    float guard_bound;  /* mean divergence that is acceptable, nats; 0: 0.5 */
    const char *device; /* what computes and holds weights, keys and values: "cpu"; NULL: that */
    const char *cpu;  /* its kernels: "ref", "avx2", "avxvnni", "avx512", "vnni"; NULL: SPOLIA_CPU,
                            or the best */
    const char *salt; /* tenant: entries of one are never found by another; NULL: none */
    const char
        *packs; /* folder that keeps packed weights, created if need be: the next context maps
                          them instead of packing again; NULL: none */
    size_t packs_max_bytes; /* of that folder; the least recently used are removed; 0: 20 GiB */
    const char *decode;     /* how answers are decoded, of requests that do not say themselves */
    int64_t
        context_bytes; /* memory that keys and values may take; cached ones beyond it are in a file
                                and are read from there, up to kv_bytes together. 0: kv_bytes, no file */
    int64_t resident_bytes; /* of context_bytes: for the layers whose heads are hardest to reuse; what
                                is in a file of theirs is in memory too. 0: none */
    const char *context_dir; /* the folder whose disk has that file; NULL: `store`, else /var/tmp */
} sp_context_opts;

typedef struct sp_context_info {
    const char *arch, *tokenizer, *chat, *kernels; /* names; borrowed from the context */
    int n_layers, n_embd, n_heads, n_kv_heads, head, n_vocab, n_ctx, n_threads;
    int64_t n_params;
    int64_t kv_blocks, kv_blocks_free, cached_blocks, cached_segments; /* blocks of 16 tokens */
    size_t kv_block_bytes;
    size_t packed_bytes,
        mapped_bytes; /* weights packed for the kernels when the context was opened,
                                          and those mapped from sp_context_opts.packs instead */
    int64_t n_lookups, n_hits,
        n_evicted; /* segments looked up, and found; copies dropped for room */
} sp_context_info;

/* sp_context_open -- Errors: SP_E_IO, SP_E_FORMAT, SP_E_UNSUPPORTED, SP_E_ARG, SP_E_NOMEM.
 * Thread: a context and its requests belong to one thread at a time, until sp_context_start. */
SP_API sp_err sp_context_open(const sp_context_opts *o, sp_context **out);
/* sp_context_close -- destroys the context; its requests and prompts must be gone. NULL is
 * allowed. When a read or a write of a tier hangs for load_timeout_ms, the context is closed without it: the
 * process keeps the memory that it may still use, and may end. */
SP_API void sp_context_close(sp_context *c);
SP_API sp_context_info sp_context_describe(sp_context *c);
/* sp_context_forget -- drops all cached keys and values that no running request uses. */
SP_API void sp_context_forget(sp_context *c);

/* -- prompts: segments, each tokenized on its own --------------------------------------------- */

typedef struct sp_prompt sp_prompt;

/* Thread: a prompt belongs to one thread at a time; any number of threads may build prompts of one
 * context at the same time. */
SP_API sp_err sp_prompt_create(sp_context *c, sp_prompt **out);
/* sp_prompt_create_for -- for a tenant of a context that serves several: a salt of its own instead
 * of the context's. What is cached or known of one salt is never found, or told, to another. */
SP_API sp_err sp_prompt_create_for(sp_context *c, const char *salt, sp_prompt **out);
SP_API void sp_prompt_destroy(sp_prompt *p);

/* A question over documents, in the turns of the model's own chat template:
 *     sp_prompt_system, then sp_prompt_chunk for each chunk, then sp_prompt_question.
 * title may be NULL. Document text is data: texts of special tokens in it stay plain text.
 * Errors: SP_E_NOMEM; SP_E_ARG when the order is wrong. */
SP_API sp_err sp_prompt_system(sp_prompt *p, const char *text);
SP_API sp_err sp_prompt_chunk(sp_prompt *p, const char *title, const char *text);
SP_API sp_err sp_prompt_question(sp_prompt *p, const char *text);

/* A node of a dependency tree: in a prompt it sees what precedes the first tree (the system text),
 * the nodes above it and itself; no other branch and no other tree. */
typedef struct sp_prompt_node {
    const char *text; /* tokenized alone; ancestors and node together are read as one text */
    int parent;       /* index of an earlier node of the same call; -1: a root */
} sp_prompt_node;

/* Positions of the nodes of trees.
 *   SP_TREE_EXACT    count depth: each tree begins right after the system text, siblings share positions,
 *                    and what follows the trees comes after the longest path. The KV of a node depends
 *                    on its path alone: once computed it is reused, exactly, in every prompt that has
 *                    the path.
 *   SP_TREE_SHIFTED  are consecutive, as in a linear prompt. A copy of a node serves its path at any
 *                    position, rotated. That is approximate: its distance to the system text, and to
 *                    ancestors that had other descendants, is as it was when it was computed. */
typedef enum sp_tree_mode {
    SP_TREE_EXACT,
    SP_TREE_SHIFTED,
} sp_tree_mode;

/* sp_prompt_tree_mode -- before the first tree; the default is SP_TREE_EXACT. Errors: SP_E_ARG.
 * Source: DepCache section 4.1 (D4). */
SP_API sp_err sp_prompt_tree_mode(sp_prompt *p, sp_tree_mode mode);

/* sp_prompt_tree -- n nodes of trees, after sp_prompt_system:
 *     sp_prompt_system, then sp_prompt_tree any number of times, then sp_prompt_question.
 * What follows the trees sees all of them. Prompts with trees use exact policies: another one that is
 * asked for is replaced by "prefix". A node without text adds no segment. After an error the prompt
 * is destroyed.
 * Errors: SP_E_ARG (a parent that is not earlier, no system text), SP_E_LIMIT (65,500 segments, 256
 * levels), SP_E_NOMEM. Source: DepCache sections 3 and 4.1 (rows D2, D3, D4). */
SP_API sp_err sp_prompt_tree(sp_prompt *p, const sp_prompt_node *nodes, int n);
/* sp_prompt_list -- n items that do not see each other: search results, examples side by side. Each
 * gets a line end. An item is cached for every list, in any order. Errors: as sp_prompt_tree. */
SP_API sp_err sp_prompt_list(sp_prompt *p, const char *const *items, int n);
/* sp_prompt_table -- n rows that see the header and not each other. Each gets a line end. */
SP_API sp_err sp_prompt_table(sp_prompt *p, const char *header, const char *const *rows, int n);

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

/* A document of sp_prompt_chat. */
typedef struct sp_chat_chunk {
    const char *title, *text; /* as in sp_prompt_chunk */
    int segment;              /* out: its index in the prompt */
} sp_chat_chunk;

typedef struct sp_chat_opts {
    const char *request;   /* JSON, as in sp_apply_template */
    const char *jinja;     /* a template instead of the model's; NULL: the model's */
    int64_t now;           /* seconds since 1970 */
    sp_chat_chunk *chunks; /* [n_chunks] before the text of messages[chunks_at] */
    int n_chunks, chunks_at;
} sp_chat_opts;

/* sp_prompt_chat -- a whole conversation by the model's own chat template, instead of
 * sp_prompt_message and sp_prompt_answer: the same segments, with what only the template knows (tools,
 * default texts, arguments). After an error the prompt is destroyed by its owner; it holds a part.
 * Errors: those of sp_apply_template; SP_E_ARG when the template does not show messages[chunks_at]. */
SP_API sp_err sp_prompt_chat(sp_prompt *p, const sp_chat_opts *o);

/* sp_prompt_text -- plain text as one more segment; `special`: texts of special tokens are
 * recognised. The first segment begins with BOS if the model wants one. Empty text adds no segment
 * (but BOS). */
SP_API sp_err sp_prompt_text(sp_prompt *p, const char *text, bool special);
/* sp_prompt_fill -- the answer is what is missing between two plain texts, for models with tokens for
 * that ("<|fim_prefix|>" and so on). Errors: SP_E_UNSUPPORTED (the model has none). */
SP_API sp_err sp_prompt_fill(sp_prompt *p, const char *before, const char *after);
/* sp_prompt_cut -- plain text in which chunks are found: each piece between two separators (a
 * separator belongs to the piece before it; the piece before the first one is the head, the piece
 * after the last one the question), and elsewhere texts that this context has had as chunks,
 * exactly as sp_prompt_chunk writes them ("[title]\ntext\n\n", at least 64 bytes). The text is
 * unchanged; only the segments differ. separator NULL or "": none. special: as in sp_prompt_text,
 * for text outside chunks. */
SP_API sp_err sp_prompt_cut(sp_prompt *p, const char *text, const char *separator, bool special);
/* sp_prompt_find_chunks -- which chunks are found in the texts that follow, beside those that a separator
 * cuts: known ones (the default); repeats too, which are texts of 256 bytes or more that an earlier,
 * different text had, learned when they occur for the second time; or none. */
typedef enum sp_find { SP_FIND_KNOWN, SP_FIND_REPEATS, SP_FIND_NONE } sp_find;
SP_API sp_err sp_prompt_find_chunks(sp_prompt *p, sp_find find);
/* sp_prompt_tokens -- ids as one more segment. Errors: SP_E_ARG names an id outside the
 * vocabulary. */
SP_API sp_err sp_prompt_tokens(sp_prompt *p, const int32_t *ids, size_t n);
SP_API int sp_prompt_n_tokens(const sp_prompt *p);
SP_API int sp_prompt_n_segments(const sp_prompt *p);

/* -- requests --------------------------------------------------------------------------------- */

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

/* JSON that a schema accepts, one of several texts, or what a grammar or a regular expression
 * describes: at most one of schema, texts, gbnf, regex. */
typedef struct sp_grammar_opts {
    const char *schema;         /* JSON Schema, as text; NULL: any JSON object */
    const char *before, *after; /* texts around the JSON; NULL: none */
    const char
        *between; /* one or more times before JSON after, with this text between; NULL: once */
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
    void *user;          /* of on_text, on_done and on_token */
    bool
        ignore_end; /* continue after an end token; an answer that a grammar completes ends all the same */
    int min_tokens; /* no end token, stop token or stop string ends a shorter answer; 0: none */
    const sp_grammar
        *grammar; /* borrowed until the request is destroyed; NULL: any text. max_tokens may cut
                                  the answer; min_tokens then means nothing */
    sp_token_fn *on_token; /* or NULL */
    int top_logprobs;      /* most likely tokens that on_token is given, 0 .. SP_MAX_TOP_LOGPROBS */
    const char
        *decode;  /* "exact": every token of the answer reads all keys and values. "sparse:10%" or
                              "sparse:4096": it reads this share ("sparse": 10%), or this many tokens, of the prompt, chosen
                              for each KV head (docs/sparse-decoding.md has its options). "window:4096":
                              prompt and answer look at the prompt's beginning and at so many tokens before
                              them; not for trees. NULL: the context's, and of that NULL: "exact" */
    int priority; /* lower numbers start first */
    const char *tenant;  /* who is served: those who had least go first; NULL: the prompt's salt */
    int64_t max_wait_ms; /* not begun by then, it fails with SP_E_CANCELED; 0: no limit */
} sp_request_opts;

typedef struct sp_segment_report {
    const char *kind; /* "system", "chunk", "question", "text", "node" (of a tree) */
    int n_tokens;
    int n_reused;       /* cached before this request, and used as they were */
    int n_recomputed;   /* of cached copies: computed again for this prompt */
    const char *from;   /* where the copy was: "memory", "host", "disk"; "" when there was none */
    const char *missed; /* why there was none: "never seen", "edited" (begins like a known one),
                           "evicted", "other system prompt", "other model" (the store has it for
                           another model or KV type), "not measured" (of what the policy must know
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
    const int32_t *tokens;
    int n_prompt, n_reused, n_computed, n_generated; /* tokens; n_prompt = n_reused + n_computed */
    int n_recomputed;          /* tokens that stand in a cached copy and were computed again */
    int64_t queue_us, ttft_us; /* waiting; from submission to the first token */
    int64_t decode_us;         /* after the first token */
    int64_t plan_us;           /* of ttft_us: looking up and planning */
    const char *policy; /* reuse policy that served it, which may not be the one it asked for */
    float recompute;    /* its share of recomputed tokens; 0 where it has none */
    const sp_segment_report *segments;
    int n_segments;
    sp_decode_report decode;
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
/* sp_request_cancel -- it finishes at the next step. Thread: any. */
SP_API void sp_request_cancel(sp_request *r);
/* sp_request_destroy -- cancels it if need be; its callbacks are not called any more. */
SP_API void sp_request_destroy(sp_request *r);
/* sp_request_result -- complete once the request has finished: finish is not SP_FINISH_NONE or,
 * with an engine thread, sp_request_wait has returned true. */
SP_API const sp_result *sp_request_result(const sp_request *r);

/* sp_fuse -- computes the last chunk of a prompt (system text, similar chunks, the chunk; no
 * question) while it sees the plain copies of the chunks before it, and keeps that copy: policies
 * that reuse chunks at any position prefer it. *fresh (may be NULL): false when a copy fused with
 * exactly these was there. Source: FusionRAG section 3.1, eq. 10 (row F3).
 * Errors: SP_E_ARG, SP_E_NOKV, SP_E_IO when the store cannot be written. */
SP_API sp_err sp_fuse(sp_context *c, const sp_prompt *p, bool *fresh);

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
/* sp_context_stop -- waits until all requests have finished, and takes the context back. */
SP_API void sp_context_stop(sp_context *c);
/* sp_request_wait -- until the request has finished or timeout_us have passed (negative: no limit);
 * whether it has finished. Without an engine thread it does not wait. */
SP_API bool sp_request_wait(sp_request *r, int64_t timeout_us);

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

/* sp_vocab_template -- the model's chat template, in Jinja; borrowed. NULL: it has none. */
SP_API const char *sp_vocab_template(const sp_vocab *v);

/* sp_apply_template -- the text of a chat, by the model's own chat template (a strict subset of
 * Jinja2). jinja: a template instead of the model's, or NULL; v may be NULL with one. request: JSON
 * with "messages" and, if wanted, "tools", "documents", "add_generation_prompt" (default true) and
 * "chat_template_kwargs". now: seconds since 1970, for templates that write the date. *json is
 *   {"text": ..., "spans": [{"from", "to", "origin", "index", "path", "at"}]}
 * where a span is a range of bytes that comes from the request: texts of special tokens are such
 * tokens outside of all spans only. origin: "message" (content of messages[index]), "document",
 * "other". `at`: the range equals the string at `path` from this byte on; -1: it was changed.
 * Free *json with sp_buffer_free.
 * Errors: SP_E_NOTFOUND without a template; SP_E_FORMAT, SP_E_UNSUPPORTED and SP_E_ARG name the line
 * of the template, or say what it refuses; SP_E_LIMIT. */
SP_API sp_err sp_apply_template(const sp_vocab *v, const char *jinja, const char *request,
                                int64_t now, char **json);

/* sp_context_vocab -- the tokenizer of a context; borrowed. */
SP_API const sp_vocab *sp_context_vocab(const sp_context *c);

/* Called for each position in order with its logits [V], borrowed for the call. */
typedef sp_err sp_logits_fn(int position, const float *logits, int n_vocab, void *user);

/* sp_score -- the plain forward pass over n ids, `piece` tokens in a step (0: n_batch); caches
 * nothing.
 * Errors: SP_E_CONTEXT, SP_E_ARG, SP_E_NOKV, and what fn returns. */
SP_API sp_err sp_score(sp_context *c, const int32_t *ids, size_t n, int piece, sp_logits_fn *fn,
                       void *user);

/* sp_inspect -- what a model file or folder holds, as JSON; free *json with sp_buffer_free. */
SP_API sp_err sp_inspect(const char *path, char **json);

SP_API void sp_buffer_free(void *p);

/* -- retrieval -------------------------------------------------------------------------------- */

/* Called after each file, and every thousand chunks within one; done and total in files. Return
 * false to cancel. */
typedef bool sp_index_progress(const char *file, int64_t done, int64_t total, void *user);

typedef struct sp_index_opts {
    int size_words;    /* no chunk is longer; 0: as the index has it, or 150 for a new one */
    int overlap_words; /* 0 .. size-1 words at the end of a chunk, repeated in the next */
    bool add;          /* folders that the index does not have yet are added to it */
    bool replace;      /* folders that are not named leave the index; makes an index of an older
                          version anew */
    bool strict;       /* a bad line of a JSONL file is an error instead of being skipped */
    sp_index_progress *progress;
    void *user;
} sp_index_opts;

#define SP_INDEX_SUFFIXES 8

typedef struct sp_index_stats {
    int64_t n_files, n_chunks, n_bytes; /* of the folders that were named */
    int64_t n_unchanged, n_removed;     /* files */
    int64_t n_skipped;   /* files that cannot be read; each has a warning in the log */
    int64_t n_bad_lines; /* of JSONL files; skipped */
    int64_t n_other;     /* files in formats that have no reader, by suffix: */
    struct {
        char suffix[16]; /* with its period, or "" */
        int64_t n;
    } other[SP_INDEX_SUFFIXES]; /* the most frequent first; n 0 ends the list */
} sp_index_stats;

/* sp_index_build -- the chunks of documents, in a SQLite file that is created or brought up to
 * date. `roots` are folders, read recursively, and single files; they belong to the index: n_roots
 * 0 updates all that it has, another root is refused unless `add` or `replace` says what to do.
 * Formats, by suffix: text, Markdown, reStructuredText, HTML, JSONL (one document a line, fields
 * title and text, content or contents), CSV and TSV, PDF, DOCX, ODT, EPUB, and source code. Files
 * of the same size and time, or the same SHA-256, are kept; vanished ones are removed. Linked
 * folders are read once. One transaction: an interrupted build leaves the old index. o NULL:
 * defaults. *stats (may be NULL) is kept current while it runs.
 * Errors: SP_E_IO, SP_E_FORMAT, SP_E_CANCELED, SP_E_ARG. */
SP_API sp_err sp_index_build(const char *const *roots, int n_roots, const char *out_path,
                             const sp_index_opts *o, sp_index_stats *stats);

typedef struct sp_index sp_index;

typedef struct sp_hit {
    int64_t id;
    double score;      /* BM25, higher is better */
    const char *file;  /* relative to its root; begins with the root's name if there are several */
    const char *title; /* of the document or heading; may be "" */
    const char *text;
    int64_t first_line, last_line; /* in the file, from 1; 0: its format has no lines */
    int64_t page;                  /* of a PDF, from 1; 0 in other formats */
    const char *root;              /* absolute path of the folder, or of the file */
} sp_hit;

typedef struct sp_hits {
    sp_hit *v;
    int n;
    void *strings; /* what v points into */
} sp_hits;

/* sp_index_open -- read-only. Errors: SP_E_IO; SP_E_FORMAT when it is no index, damaged, or of
 * another version. */
SP_API sp_err sp_index_open(const char *path, sp_index **out);
SP_API void sp_index_close(sp_index *ix);
SP_API int64_t sp_index_n_chunks(const sp_index *ix);
/* sp_index_search -- the k best chunks for a question in plain words: best first, ties by id. Any
 * word matches, after stemming (English) and without accents; scripts without spaces (Chinese,
 * Japanese, Thai ...) and Korean match by pairs of characters, identifiers by their parts. Nothing
 * in the question is query syntax. No match is an empty list.
 * Thread: one at a time for one index. Owns: sp_hits_fini. */
SP_API sp_err sp_index_search(sp_index *ix, const char *question, int k, sp_hits *out);
SP_API void sp_hits_fini(sp_hits *h);
/* sp_index_chunk -- the chunk with the lowest id above `after` (0: the first), as a list of one;
 * an empty list at the end. */
SP_API sp_err sp_index_chunk(sp_index *ix, int64_t after, sp_hits *out);
/* sp_index_document -- the chunks of the first document whose file or title is `name`. */
SP_API sp_err sp_index_document(sp_index *ix, const char *name, sp_hits *out);
/* sp_index_similar -- the k chunks most similar to chunk `id`, itself left out. source: "bm25"
 * (its own words as the question), "neighbour" (the chunks before and after it in its document,
 * nearest first); NULL: "bm25". Exact copies of its text are left out as well. Errors: SP_E_ARG for
 * another source or an unknown id. Source: FusionRAG section 3.1 (row F3). */
SP_API sp_err sp_index_similar(sp_index *ix, const char *source, int64_t id, int k, sp_hits *out);
/* sp_store_retain -- deletes the copies in the context's store of chunks that the index does not
 * hold; what other models or KV types keep in the same folder stays, what other salts keep does
 * not. *n_removed (may be NULL).
 * Errors: SP_E_ARG without a store, SP_E_IO. Cost: tokenizes the index. */
SP_API sp_err sp_store_retain(sp_context *c, sp_index *ix, int64_t *n_removed);

/* The store of a context, in bytes. */
typedef struct sp_store_info {
    const char *dir;
    int64_t n_copies, bytes; /* of this model and KV type */
    int64_t max_bytes;       /* that they may take */
    int64_t disk_free;       /* of the file system */
    int64_t disk_reserve;    /* of that, what stays free */
    int64_t token_bytes;     /* keys and values of one token */
    bool writes;             /* false: another process writes the store, this one only reads it */
} sp_store_info;

/* sp_store_describe -- Errors: SP_E_ARG without a store, SP_E_IO. */
SP_API sp_err sp_store_describe(sp_context *c, sp_store_info *out);

/* What the copies of all chunks of an index take in the store: a fused copy of each, and the plain one
 * that others were fused with. */
typedef struct sp_store_need {
    int64_t n_chunks, n_tokens; /* chunks whose texts differ */
    int64_t bytes;              /* of their copies, at most */
    int64_t new_bytes;          /* of those that the store does not have after this system text */
} sp_store_need;

/* sp_store_estimate -- before sp_fuse computes them: tokenizes the index, computes nothing.
 * Errors: SP_E_ARG without a store, SP_E_IO, SP_E_NOMEM. */
SP_API sp_err sp_store_estimate(sp_context *c, sp_index *ix, const char *system,
                                sp_store_need *out);

/* -- stores, without a model --------------------------------------------------------------- */

typedef struct sp_store sp_store; /* all copies in a folder, of any model */

typedef enum sp_store_mode {
    SP_STORE_READ,  /* other processes may write meanwhile */
    SP_STORE_WRITE, /* SP_E_IO when another process writes */
    SP_STORE_CREATE /* the same; a folder that is not there or empty becomes a store */
} sp_store_mode;

/* A copy of a chunk. Borrowed for the call that hands it over. */
typedef struct sp_store_copy {
    const char *id;    /* of the chunk: 64 hex digits; it may have several copies */
    const char *space; /* 64 hex digits, a hash of model, KV type and layout */
    const char *kind;  /* "plain", "fused", "path" */
    int n_tokens;
    int64_t bytes;
    double cost_us; /* time that computing it took; 0: unknown */
    int64_t n_uses; /* by requests, since it was stored */
    bool exact;     /* equals a plain forward pass after what it was computed after */
    bool measured;  /* it has attention statistics */
    /* From its header; sp_store_list does not read it: */
    const char *const
        *before;          /* [n_before] ids of the segments it was computed after; NULL: not read */
    int n_before, n_head; /* the first n_head of them precede the first chunk */
    int position, n_layers; /* of the first key; of the model */
    int64_t layer_bytes;
} sp_store_copy;

typedef sp_err sp_store_fn(const sp_store_copy *copy, void *user);

/* sp_store_open -- Errors: SP_E_NOTFOUND (the folder holds no store), SP_E_IO, SP_E_FORMAT,
 * SP_E_NOMEM. Thread: one at a time for one store. */
SP_API sp_err sp_store_open(const char *dir, sp_store_mode mode, sp_store **out);
SP_API void sp_store_close(sp_store *s);
/* sp_store_list -- every copy; those used longest ago first. Errors: fn's. */
SP_API sp_err sp_store_list(sp_store *s, sp_store_fn *fn, void *user);
/* sp_store_show -- the copies of the chunk whose id begins with `prefix`, headers read. Errors:
 * SP_E_NOTFOUND (no such id), SP_E_ARG (more than one begins so), or fn's. */
SP_API sp_err sp_store_show(sp_store *s, const char *prefix, sp_store_fn *fn, void *user);
/* sp_store_drop -- deletes them, and the path copies that continue them. Errors: as show; SP_E_IO. *n_dropped
 * may be NULL. */
SP_API sp_err sp_store_drop(sp_store *s, const char *prefix, int64_t *n_dropped);

typedef struct sp_store_stats {
    int64_t n_copies, bytes; /* of copies; of an archive: written or read */
    int64_t file_bytes;      /* with space to be reclaimed */
    int64_t n_damaged;       /* since it was opened, in opening too: copies, and indices */
    bool writes;             /* damaged copies are out of the store, not only out of sight */
} sp_store_stats;

SP_API sp_err sp_store_stats_of(sp_store *s, sp_store_stats *out);
/* sp_store_verify -- reads all copies and their checksums; *out says what is damaged. on_copy (may be
 * NULL) is called for each; false cancels. Errors: SP_E_IO, SP_E_CANCELED. */
SP_API sp_err sp_store_verify(sp_store *s, bool (*on_copy)(int64_t done, int64_t total, void *user),
                              void *user, sp_store_stats *out);
/* sp_store_trim -- drops the copies used longest ago until the folder's files take at most `bytes`.
 * Each model's copies lose their share. */
SP_API sp_err sp_store_trim(sp_store *s, int64_t bytes);
/* sp_store_export -- the copies of one namespace in a file, which appears when it is whole. space: how
 * its digits begin; NULL: the only one. Errors: SP_E_ARG (several), SP_E_NOTFOUND, SP_E_IO. */
SP_API sp_err sp_store_export(sp_store *s, const char *space, const char *path,
                              sp_store_stats *out);
/* sp_store_import -- puts the copies of such a file into the store. space: the only namespace that is
 * taken (sp_store_space); NULL: one that the store has, or any if the store is empty. Each copy is
 * verified. Errors: SP_E_UNSUPPORTED (of another model or KV type), SP_E_FORMAT, SP_E_IO. */
SP_API sp_err sp_store_import(sp_store *s, const char *space, const char *path,
                              sp_store_stats *out);
/* sp_store_space -- the namespace of a model's copies, without loading its weights; kv_type NULL:
 * SP_KV_TYPE. */
SP_API sp_err sp_store_space(const char *model, const char *kv_type, char hex[65]);

#ifdef __cplusplus
}
#endif

#include "spolia_graph.h"

#endif
