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
    float recompute;    /* share of the chunks' tokens to recompute, 0 .. 1, by policies that do */
    bool exact_first;   /* chunks at any position: where a prefix of the prompt is known, take that
                           (exact), and copies of chunks only after it */
    bool unfused;       /* plain copies, even where copies fused with similar chunks are known */
} sp_reuse_opts;

/* A parameter of a reuse policy: "NAME:key=value" sets it. */
typedef struct sp_reuse_param {
    const char *name, *unit, *help; /* unit: "layers"; "" for a plain number */
    double least, most, normal;     /* its range, and its value where none is given */
    bool whole;                     /* integers only */
    bool replaces_share;            /* above 0 it, not sp_reuse_opts.recompute, decides how much is recomputed */
    double usual;                   /* then: what sp_calibration_of_policy says of a model that is not calibrated */
} sp_reuse_param;

enum { SP_REUSE_PARAMS = 4 }; /* parameters of one policy, at most */

/* A reuse policy that sp_reuse_opts can name. */
typedef struct sp_reuse_info {
    const char *name, *help;
    bool exact;          /* answers equal those of "off" */
    bool recomputes;     /* sp_reuse_opts.recompute has a meaning for it */
    bool anywhere;       /* takes chunks at any position, fused copies too */
    bool own_statistics; /* reads statistics of copies that only its own requests record */
    bool keeps_placed;   /* keeps copies conditioned on the chunks that preceded them in a prompt */
    const sp_reuse_param *params; /* [n_params] */
    int n_params;
} sp_reuse_info;

/* sp_reuse_policies -- all of them, [*n]. Thread: any. */
SP_API const sp_reuse_info *sp_reuse_policies(int *n);
/* sp_reuse_parse -- checks a value of sp_reuse_opts.policy. *out: the policy; values [SP_REUSE_PARAMS]: those of its
 * parameters, in the order of its list. Either may be NULL. Errors: SP_E_ARG names what is wrong, and what there is.
 * Thread: any. */
SP_API sp_err sp_reuse_parse(const char *spec, const sp_reuse_info **out, double *values);

/* A replacement policy, which sp_cache_opts.evict and its like can name. */
typedef struct sp_evict_info {
    const char *name, *help;
} sp_evict_info;

/* sp_evict_policies -- all of them, [*n]; the first is the default. Thread: any. */
SP_API const sp_evict_info *sp_evict_policies(int *n);

/* Type of cached keys and values where none is named: integers of 16 bits with a scale for each head
 * of a token. 3 % larger than f16 at heads of 64, more exact, and faster where it was measured. */
#define SP_KV_TYPE "q16"

/* When copies that are not in the memory of keys and values are loaded. */
typedef enum sp_preload {
    SP_PRELOAD_LAYERS, /* while requests wait; a request begins once the first layers are there, if the
                           others will be in time (Cache-Craft section 3.4.2) */
    SP_PRELOAD_REQUEST, /* while requests wait; a request begins when all is there */
    SP_PRELOAD_NONE,    /* when the request is the oldest that waits */
    SP_PRELOAD_FIRST,   /* as SP_PRELOAD_LAYERS, but the first layer is always enough; for comparison */
} sp_preload;

/* Keys and values in memory, and the copies of them that are kept. */
typedef struct sp_cache_opts {
    size_t kv_bytes;     /* memory for keys and values, cached ones included; 0: 1 GiB */
    const char *kv_type; /* "f32", "f16", "bf16", "q16", "q8_0"; NULL: SP_KV_TYPE */
    int max_placed;      /* copies of chunks computed after other chunks (craft) in memory; 0: 1,024 */
    int max_variants;    /* of one chunk, in all tiers; the least useful one is dropped. 0: 5 */
    const char *evict;   /* replacement policy of cached copies: a name of sp_evict_policies; with "+ghosts" it
                            remembers uses of copies that are gone; NULL: "hazard" */
    int keep_chunks;     /* cache only the first N chunks of each prompt, and nothing after them by path: for long
                            prompts whose last chunks seldom recur; 0: all */
    const char *profile; /* file of `spolia profile`: what computing tokens costs, for "pgdsf"; NULL: in proportion to
                            the tokens that are attended to */
} sp_cache_opts;

/* Where copies are kept that do not fit in the memory of keys and values. */
typedef struct sp_tier_opts {
    int64_t host_bytes;  /* memory of the host tier: evicted copies are kept there, and loaded when a prompt
                            contains their text; 0: none */
    const char *host_kv; /* type of keys and values there, such as "q8_0": smaller, and rounded; copies of exact
                            prefixes are never rounded. NULL: kv_type */
    const char *host_evict;  /* which copy leaves the host tier: a name of `evict`; NULL: the first */
    sp_preload preload;      /* when requests wait for copies that are being loaded */
    bool admit_cheaper;      /* the host tier and the store accept a copy only if loading it is expected to take less
                                time than computing it took, judged by past loads; before the first load: all */
    const char *store;       /* folder of copies of chunks, created if need be: they are loaded from there, and those
                                that requests compute are written there in the background; NULL: none */
    int64_t store_bytes;     /* size limit of the folder: copies leave it as `store_evict` says; 0: what it holds
                                when the context opens, and half of what its disk has free. 1 GiB of the disk (5 % of
                                a small one) stays free in any case */
    const char *store_evict; /* which copy leaves it when it is full: a name of `evict`; NULL: the first */
    const char *remote;      /* URL of a server that keeps copies for several processes: each loads copies of chunks
                                that another has computed. redis://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...]
                                [/DATABASE], or rediss:// with TLS: of several hosts, servers of one cluster or
                                addresses of one server, any may be down; s3://BUCKET[/PREFIX] with the key and
                                endpoint of AWS's variables and files; NULL: none */
    const char *remote_key_file; /* file of 16 to 64 bytes, the same for all: copies without this key are not used.
                                    NULL: none */
    const char *remote_ca_file; /* certificates of authorities that rediss:// and s3:// trust; NULL: the system's */
    bool remote_must;        /* opening waits for that server, and fails if it does not answer: for processes that only
                                fill it. Otherwise copies are computed while it does not answer */
    int remote_ttl_s;        /* seconds that a copy is used there; 0: until the server drops it */
    const char *remote_kv;   /* type of keys and values there: "q8_0", smaller, and rounded; NULL: kv_type. Copies are
                                read in either type */
    int remote_compress;     /* zstd level of the copies there, 1 to 19; 0: not compressed */
    int load_timeout_ms;     /* if loading a copy makes no progress for this long, it is computed instead; a write
                                without progress holds up all others until it ends; 0: 5000 */
} sp_tier_opts;

/* How answers are decoded, and where keys and values are read from. */
typedef struct sp_decode_opts {
    const char *how;        /* default of requests; see sp_request_opts.decode */
    int64_t context_bytes;  /* memory for keys and values; cached ones that do not fit are kept in a file and read
                               from there, up to kv_bytes together. 0: kv_bytes, no file */
    int64_t resident_bytes; /* of context_bytes: for the KV heads whose choices are reused least; what is in a file
                               of theirs is in memory too. 0: none */
    const char *context_dir; /* the folder of that file; NULL: `store`, else /var/tmp */
} sp_decode_opts;

typedef struct sp_guard_opts {
    float share; /* of requests whose reuse is checked against full attention in idle time, 0 .. 1; 0: none; see
                    sp_context_guard */
    float bound; /* mean divergence that is acceptable, nats; 0: 0.5 */
} sp_guard_opts;

typedef struct sp_machine_opts {
    int n_threads;          /* 0: one for each core */
    const char *device;     /* what computes and holds weights, keys and values; NULL: "cpu" */
    const char *cpu;        /* its kernels: "ref", "avx2", "avxvnni", "avx512", "vnni", "amx", "neon", "i8mm"; NULL:
                               SPOLIA_CPU or the best */
    bool exact_products;    /* where kernels round the inputs of a product to 8 bits, give them 15: twice the
                               products. Not with "amx", which rounds weights, too: SP_E_UNSUPPORTED if it is named,
                               else VNNI's kernels */
    const char *packs;      /* folder that keeps packed weights, created if need be: the next context maps them
                               instead of packing again; NULL: none */
    size_t packs_max_bytes; /* of that folder; the least recently used are removed; 0: 20 GiB */
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
    int window;        /* later requests of its tenant that may start before one; 0: 32 */
    int wait_ms;       /* a request that has waited this long is no longer overtaken; 0: only `window` counts */
    int gap_ms;        /* while requests decode, a step computes so much of prompts that tokens of an answer come at
                          most this far apart; prompts get half of the answers' time at least; 0: no limit */
} sp_queue_opts;

typedef struct sp_context_opts {
    const char *model; /* GGUF file or Hugging Face folder */
    const char *salt;  /* tenant: entries of one are never found by another; NULL: none */
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
    size_t packed_bytes,
        mapped_bytes; /* weights packed for the kernels when the context was opened,
                                          and those mapped from sp_context_opts.packs instead */
    int64_t n_lookups, n_hits,
        n_evicted; /* segments looked up, and found; copies dropped for room */
    int64_t n_computed; /* tokens that its steps have computed, of all requests */
    int64_t step_us, compute_us; /* time of all steps, and the part of it that the model took */
    double token_us;     /* what a token of a short prompt takes: by the last steps, or as guessed; 0: unknown */
    bool token_measured; /* steps have shown it */
    bool has_remote, remote_answers; /* a remote tier is set; its server answered the last time */
    int64_t remote_copies;           /* that this process knows of there, its own and others' */
} sp_context_info;

/* sp_context_open -- Errors: SP_E_IO, SP_E_FORMAT, SP_E_UNSUPPORTED, SP_E_ARG, SP_E_NOMEM.
 * Thread: a context and its requests belong to one thread at a time, until sp_context_start. */
SP_API sp_err sp_context_open(const sp_context_opts *o, sp_context **out);
/* sp_context_close -- destroys the context; its requests and prompts must be gone. NULL is
 * allowed. When a read or a write of a tier hangs for load_timeout_ms, the context is closed without it: the
 * process keeps the memory that it may still use, and may end. */
SP_API void sp_context_close(sp_context *c);
/* sp_context_hand_over -- puts all copies in memory into the remote tier that it lacks: before a process ends whose
 * documents others will be asked about. Waits timeout_us at most. *n_left (may be NULL): how many the tier lacks then.
 * Errors: SP_E_IO (the tier's server does not take them), SP_E_NOMEM. Does nothing without a remote tier. */
SP_API sp_err sp_context_hand_over(sp_context *c, int64_t timeout_us, int64_t *n_left);
SP_API sp_context_info sp_context_describe(sp_context *c);
/* sp_context_guess -- computes a few layers of a prompt, so that sp_context_info.token_us is known before the first
 * request; does nothing when it is. Cost: 40 ms, or four layers of 64 tokens. Errors: SP_E_NOKV, and those of steps.
 * Thread: as sp_context_describe. */
SP_API sp_err sp_context_guess(sp_context *c);
/* sp_context_forget -- drops all cached keys and values that no running request uses. */
SP_API void sp_context_forget(sp_context *c);

#ifdef __cplusplus
}
#endif

#endif
