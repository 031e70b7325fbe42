/* spolia_context.h -- a context: a model, its KV memory and what is cached. spolia.h includes it. */
#ifndef SPOLIA_CONTEXT_H
#define SPOLIA_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spolia_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_context sp_context;

/* How cached keys and values are used. */
typedef struct sp_reuse_opts {
    const char *policy; /* "NAME" or "NAME:key=value[,key=value]": a name of sp_reuse_policies and its parameters,
                           such as "craft:focus=0"; NULL: "prefix", which is exact */
    float recompute;    /* share of the chunks' tokens to recompute, 0 .. 1; ignored by policies that recompute none */
    bool exact_first;   /* policies that take chunks at any position: use the longest known prefix (exact), and copies
                           of chunks only after it */
    bool unfused;       /* use plain copies, even where fused copies are known */
} sp_reuse_opts;

/* A parameter of a reuse policy: "NAME:key=value" sets it. */
typedef struct sp_reuse_param {
    const char *name, *unit, *help; /* unit: "layers"; "" for a plain number */
    double least, most, normal;     /* its range and its default */
    bool whole;                     /* integers only */
    bool replaces_share;            /* if above 0, it replaces sp_reuse_opts.recompute */
    double usual;                   /* with replaces_share: its value for a model without a calibration */
} sp_reuse_param;

enum { SP_REUSE_PARAMS = 4 }; /* parameters of one policy, at most */

/* A reuse policy that sp_reuse_opts can name. */
typedef struct sp_reuse_info {
    const char *name, *help;
    bool exact;          /* answers equal those of "off" */
    bool recomputes;     /* it uses sp_reuse_opts.recompute */
    bool anywhere;       /* takes chunks at any position, fused copies too */
    bool own_statistics; /* needs statistics of copies that only its own requests record */
    bool keeps_placed;   /* keeps copies conditioned on the chunks that preceded them in a prompt */
    const sp_reuse_param *params; /* [n_params] */
    int n_params;
} sp_reuse_info;

/* sp_reuse_policies -- all of them, [*n]. Thread: any. */
SP_API const sp_reuse_info *sp_reuse_policies(int *n);
/* sp_reuse_parse -- checks a value of sp_reuse_opts.policy. *out: the policy; values [SP_REUSE_PARAMS]: its
 * parameters, in the order of sp_reuse_info.params. Either may be NULL. Errors: SP_E_ARG names the mistake and lists
 * the known names. Thread: any. */
SP_API sp_err sp_reuse_parse(const char *spec, const sp_reuse_info **out, double *values);

/* A replacement policy that sp_cache_opts.evict, host_evict and store_evict can name. */
typedef struct sp_evict_info {
    const char *name, *help;
} sp_evict_info;

/* sp_evict_policies -- all of them, [*n]. Thread: any. */
SP_API const sp_evict_info *sp_evict_policies(int *n);

/* Default type of cached keys and values: 16-bit integers with a scale for each head of a token. For heads of 64 it is
 * 3 % larger than f16; it is more exact, and faster on the machines that were measured. */
#define SP_KV_TYPE "q16"

/* When copies that are not in the memory of keys and values are loaded. */
typedef enum sp_preload {
    SP_PRELOAD_LAYERS, /* while requests wait; a request begins once the first layers are there, if the
                           others will be in time (Cache-Craft section 3.4.2) */
    SP_PRELOAD_REQUEST, /* while requests wait; a request begins when all of its copies are loaded */
    SP_PRELOAD_NONE,    /* when the request is the oldest waiting one */
    SP_PRELOAD_FIRST,   /* as SP_PRELOAD_LAYERS, but the first layer is always enough; for comparison */
} sp_preload;

/* Keys and values in memory, and the copies of them that are kept. */
typedef struct sp_cache_opts {
    size_t kv_bytes;     /* memory for keys and values, cached ones included; 0: 1 GiB */
    const char *kv_type; /* "f32", "f16", "bf16", "q16", "q8_0"; NULL: SP_KV_TYPE */
    int max_placed;      /* limit on placed copies in memory (craft: chunks computed after other chunks); 0: 1,024 */
    int max_variants;    /* limit on placed copies of one chunk, in all tiers; the least useful is dropped. 0: 5 */
    const char *evict;   /* replacement policy: a name of sp_evict_policies; with "+ghosts" it remembers uses of
                            dropped copies; NULL: "hazard" */
    int keep_chunks;     /* cache only the first N chunks of each prompt and no path copies after them: for long
                            prompts whose last chunks rarely recur; 0: all */
    const char *profile; /* file of `spolia profile`, the cost of computing tokens, for "pgdsf"; NULL: cost is
                            proportional to the tokens attended to */
} sp_cache_opts;

/* The tiers below the KV memory. */
typedef struct sp_tier_opts {
    int64_t host_bytes;  /* memory of the host tier: evicted copies are kept there, and loaded when a prompt
                            contains their text; 0: none */
    const char *host_kv; /* KV type of the host tier, such as "q8_0": smaller, but rounded; path copies are never
                            rounded. NULL: kv_type */
    const char *host_evict;  /* replacement policy of the host tier, as `evict`; NULL: the first of the list */
    sp_preload preload;      /* when requests wait for copies that are being loaded */
    bool admit_cheaper;      /* the host tier and the store accept a copy only if loading it is expected to take less
                                time than computing it took, judging by past loads; before the first load: all */
    const char *store;       /* folder that keeps copies of chunks, created if missing. Copies are loaded from it, and
                                computed ones are written to it in the background. NULL: none */
    int64_t store_bytes;     /* size limit of the folder, kept by `store_evict`; 0: its size when the context opens
                                plus half of the free disk space. 1 GiB of the disk (5 % of a small one) always stays
                                free */
    const char *store_evict; /* replacement policy of the store, as `evict`; NULL: the first of the list */
    const char *remote;      /* URL of a server through which several processes share copies of chunks:
                                redis://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE], or rediss:// for TLS;
                                several hosts are servers of one cluster or addresses of one server, and any may be
                                down. s3://BUCKET[/PREFIX] takes key and endpoint from AWS's environment variables
                                and files. NULL: none */
    const char *remote_key_file; /* file with a key of 16 to 64 bytes that all processes share; copies without it are
                                    not used. NULL: none */
    const char *remote_ca_file; /* certificates of authorities that rediss:// and s3:// trust; NULL: the system's */
    bool remote_must;        /* opening waits for the server and fails if it does not answer: for processes that only
                                fill it. Otherwise copies are computed while the server does not answer */
    int remote_ttl_s;        /* lifetime of a remote copy in seconds; 0: until the server drops it */
    const char *remote_kv;   /* KV type of remote copies: "q8_0" is smaller, but rounded; NULL: kv_type. Both types can
                                be read */
    int remote_compress;     /* zstd level of remote copies, 1 to 19; 0: not compressed */
    int load_timeout_ms;     /* if loading a copy makes no progress for this long, it is computed instead; a write
                                without progress blocks all others until it ends; 0: 5000 */
} sp_tier_opts;

/* How answers are decoded, and where their keys and values are kept. */
typedef struct sp_decode_opts {
    const char *how;        /* default of requests; see sp_request_opts.decode */
    int64_t context_bytes;  /* memory for keys and values; cached ones that do not fit are kept in a file and read
                               from it, up to kv_bytes in all. 0: kv_bytes, no file */
    int64_t resident_bytes; /* part of context_bytes that keeps the KV heads whose choices are reused least fully in
                               memory. 0: none */
    const char *context_dir; /* folder of the file; NULL: `store`, else /var/tmp */
} sp_decode_opts;

typedef struct sp_guard_opts {
    float share; /* share of requests whose reuse is checked against full attention in idle time, 0 .. 1; 0: none; see
                    sp_context_guard */
    float bound; /* acceptable mean divergence, nats; 0: 0.5 */
} sp_guard_opts;

typedef struct sp_machine_opts {
    int n_threads;          /* 0: one for each core */
    const char *device;     /* the device that computes and holds weights, keys and values; NULL: "cpu" */
    const char *cpu;        /* its kernels: "ref", "avx2", "avxvnni", "avx512", "vnni", "amx", "neon", "i8mm"; NULL:
                               SPOLIA_CPU or the best */
    bool exact_products;    /* kernels that round the inputs of a product to 8 bits give them 15: twice the products.
                               Not for "amx", which rounds weights, too: naming both is SP_E_UNSUPPORTED; otherwise
                               VNNI's kernels replace it */
    bool amx_f16;           /* "amx" also rounds F16 weights to bf16 and multiplies them in tiles; otherwise they are
                               multiplied as floats. SP_E_UNSUPPORTED on a CPU without AMX and with other kernels */
    bool amx_attend;        /* "amx" also rounds queries, keys, values and probabilities to bf16 while it multiplies
                               them, where keys and values are in q16; they are stored as without. Otherwise as
                               amx_f16 */
    const char *packs;      /* folder that keeps packed weights, created if missing: the next context maps them
                               instead of packing again; NULL: none */
    size_t packs_max_bytes; /* size limit of that folder; the least recently used files are removed; 0: 20 GiB */
} sp_machine_opts;

/* An order of waiting requests, which sp_queue_opts.order can name. */
typedef struct sp_queue_info {
    const char *name, *help;
} sp_queue_info;

/* sp_queue_orders -- all of them, [*n]; the first is the default. Thread: any. */
SP_API const sp_queue_info *sp_queue_orders(int *n);

typedef struct sp_queue_opts {
    const char *order; /* which waiting request starts next: a name of sp_queue_orders; NULL: the first. Priorities
                          and tenants come first */
    int window;        /* how many later requests of its tenant may start before a request; 0: 32 */
    int wait_ms;       /* a request that has waited this long is no longer overtaken; 0: only `window` counts */
    int gap_ms;        /* longest time between two tokens of an answer: limits the prompt tokens of a step while
                          requests decode; prompts get at least half of the answers' time; 0: no limit */
} sp_queue_opts;

typedef struct sp_context_opts {
    const char *model; /* GGUF file or Hugging Face folder */
    const char *salt;  /* tenant: copies of one tenant are never found by another; NULL: none */
    int n_ctx;         /* prompt and answer together, tokens; 0: as trained, at most 8,192 */
    int n_batch;       /* tokens computed in one step; 0: 256 */
    int max_requests;  /* running at the same time; 0: 8 */
    sp_reuse_opts reuse; /* default of requests */
    sp_queue_opts queue;
    sp_cache_opts cache;
    sp_tier_opts tiers;
    sp_decode_opts decode;
    sp_guard_opts guard;
    sp_machine_opts machine;
} sp_context_opts;

typedef struct sp_context_info {
    const char *arch, *tokenizer, *chat, *kernels; /* names; borrowed from the context */
    int n_layers, n_embd, n_heads, n_kv_heads, head, n_vocab, n_ctx, n_threads;
    int64_t n_params;
    int64_t kv_blocks, kv_blocks_free, cached_blocks, cached_segments; /* blocks of 16 tokens */
    size_t kv_block_bytes;
    size_t packed_bytes, mapped_bytes; /* weights packed when the context was opened, and weights mapped from
                                          sp_machine_opts.packs */
    int64_t n_lookups, n_hits, n_evicted; /* segments looked up, segments found, copies dropped to make
                                             room */
    int64_t n_computed; /* tokens computed for all requests */
    int64_t step_us, compute_us; /* time of all steps, and the model's part of it */
    double token_us;     /* time of a token of a short prompt: measured in recent steps, or a guess; 0: unknown */
    bool token_measured; /* token_us is measured */
    bool has_remote, remote_answers; /* a remote tier is set; its server answered the last call */
    int64_t remote_copies;           /* copies in the remote tier that this process knows of */
} sp_context_info;

/* sp_context_check -- SP_E_ARG, with what is wrong, for options that no model and no machine could have: unknown
 * names, numbers out of range. Opens nothing; sp_context_open checks the same. Thread: any. */
SP_API sp_err sp_context_check(const sp_context_opts *o);
/* sp_context_open -- Errors: SP_E_IO, SP_E_FORMAT, SP_E_UNSUPPORTED, SP_E_ARG, SP_E_NOMEM.
 * Thread: a context and its requests belong to one thread at a time, until sp_context_start. */
SP_API sp_err sp_context_open(const sp_context_opts *o, sp_context **out);
/* sp_context_close -- destroys the context; its requests and prompts must have been destroyed. If a read or write of a
 * tier hangs for load_timeout_ms, the context is closed without waiting for it: memory that the operation may still
 * use is not freed, and the process may exit. */
SP_API void sp_context_close(sp_context *c);
/* sp_context_hand_over -- writes all copies in memory that the remote tier lacks to it: for a process that ends while
 * others will be asked about its documents. Waits at most timeout_us. *n_left (may be NULL): copies not written.
 * Errors: SP_E_IO (the server does not take them), SP_E_NOMEM. Does nothing without a remote tier. */
SP_API sp_err sp_context_hand_over(sp_context *c, int64_t timeout_us, int64_t *n_left);
SP_API sp_context_info sp_context_describe(sp_context *c);
/* sp_context_guess -- estimates sp_context_info.token_us before the first request by computing a few layers of a
 * prompt; does nothing if it is known. Cost: 40 ms, or four layers of 64 tokens. Errors: SP_E_NOKV, those of steps.
 * Thread: as sp_context_describe. */
SP_API sp_err sp_context_guess(sp_context *c);
/* sp_context_forget -- drops all cached keys and values that no running request uses. */
SP_API void sp_context_forget(sp_context *c);

#ifdef __cplusplus
}
#endif

#endif
