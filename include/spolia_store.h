/* spolia_store.h -- copies on disk: the store of a context, and stores without a model. spolia.h includes it. */
#ifndef SPOLIA_STORE_H
#define SPOLIA_STORE_H

#include "spolia_context.h"
#include "spolia_index.h"

#ifdef __cplusplus
extern "C" {
#endif

/* sp_store_retain -- deletes copies of chunks that the index does not have from the context's store, whatever their
 * salt. Copies of other models or KV types in the same folder stay. *n_removed may be NULL.
 * Errors: SP_E_ARG without a store, SP_E_IO. Cost: tokenizes the index. */
SP_API sp_err sp_store_retain(sp_context *c, sp_index *ix, int64_t *n_removed);

/* The store of a context, in bytes. */
typedef struct sp_store_info {
    const char *dir;
    int64_t n_copies, bytes; /* of this model and KV type */
    int64_t max_bytes;       /* limit for these copies */
    int64_t disk_free;       /* free bytes of the file system */
    int64_t disk_reserve;    /* the part of disk_free that stays free */
    int64_t token_bytes;     /* keys and values of one token */
    bool writes;             /* false: another process writes the store, this one only reads it */
} sp_store_info;

/* sp_store_describe -- Errors: SP_E_ARG without a store, SP_E_IO. */
SP_API sp_err sp_store_describe(sp_context *c, sp_store_info *out);

/* What the store needs for copies of all chunks of an index: a fused copy of each, and the plain copies that they are
 * fused with. */
typedef struct sp_store_need {
    int64_t n_chunks, n_tokens; /* chunks with equal texts count once */
    int64_t bytes;              /* most bytes of their copies */
    int64_t new_bytes;          /* the part that the store does not have for this system text */
    int64_t plain_bytes, new_plain_bytes; /* the same without the fused copies */
} sp_store_need;

/* sp_store_estimate -- what sp_chunk_fuse of all chunks will need; tokenizes the index, computes nothing.
 * Errors: SP_E_ARG without a store, SP_E_IO, SP_E_NOMEM. */
SP_API sp_err sp_store_estimate(sp_context *c, sp_index *ix, const char *system,
                                sp_store_need *out);

/* -- stores, without a model --------------------------------------------------------------- */

typedef struct sp_store sp_store; /* all copies in a folder or a remote tier, of any model */

typedef enum sp_store_mode {
    SP_STORE_READ,  /* other processes may write at the same time */
    SP_STORE_WRITE, /* SP_E_IO if another process has it open for writing */
    SP_STORE_CREATE /* as SP_STORE_WRITE; a missing or empty folder becomes a store */
} sp_store_mode;

/* A copy of a chunk. Borrowed during the call. */
typedef struct sp_store_copy {
    const char *id;    /* of the chunk: 64 hex digits; it may have several copies */
    const char *space; /* 64 hex digits, a hash of model, KV type and layout */
    const char *kind;  /* "plain", "fused", "path" */
    int n_tokens;
    int64_t bytes;
    double cost_us; /* time to compute it; 0: unknown */
    int64_t n_uses; /* by requests, since it was stored */
    bool exact;     /* equals a plain forward pass after what it was computed after */
    bool measured;  /* it has attention statistics */
    /* From its header, which sp_store_list does not read: */
    const char *const *before; /* [n_before] ids of the segments it was computed after; NULL: not
                                  read */
    int n_before, n_head; /* the first n_head of them precede the first chunk */
    int position, n_layers; /* of the first key; of the model */
    int64_t layer_bytes;
} sp_store_copy;

typedef sp_err sp_store_fn(const sp_store_copy *copy, void *user);

/* sp_store_open -- Errors: SP_E_NOTFOUND (the folder holds no store), SP_E_IO, SP_E_FORMAT,
 * SP_E_NOMEM. Thread: one at a time for one store. */
SP_API sp_err sp_store_open(const char *dir, sp_store_mode mode, sp_store **out);
/* sp_store_open_remote -- the copies of a remote tier; key_file, ca_file: as in sp_tier_opts, or NULL. Archives and
 * sp_store_trim are for folders alone. Errors: those of sp_store_check_url, SP_E_IO (the server, or a file). */
SP_API sp_err sp_store_open_remote(const char *url, const char *key_file, const char *ca_file, sp_store **out);
/* sp_store_check_url -- asks no server. Errors: SP_E_ARG, with what is wrong: no remote tier has such a URL. */
SP_API sp_err sp_store_check_url(const char *url);
SP_API void sp_store_close(sp_store *s);
/* sp_store_list -- every copy; those used longest ago first. Errors: fn's. */
SP_API sp_err sp_store_list(sp_store *s, sp_store_fn *fn, void *user);
/* sp_store_show -- the copies of the chunk whose id begins with `prefix`, with the fields of their headers. Errors:
 * SP_E_NOTFOUND (no such id), SP_E_ARG (several ids begin with it), or fn's. */
SP_API sp_err sp_store_show(sp_store *s, const char *prefix, sp_store_fn *fn, void *user);
/* sp_store_drop -- deletes these copies, and the path copies that continue them. *n_dropped may be NULL. Errors: those
 * of sp_store_show; SP_E_IO. */
SP_API sp_err sp_store_drop(sp_store *s, const char *prefix, int64_t *n_dropped);

typedef struct sp_store_stats {
    int64_t n_copies, bytes; /* in the store; of an archive: written or read */
    int64_t file_bytes;      /* of its files, unused space included */
    int64_t n_damaged;       /* copies and indices found damaged since (and while) it was opened */
    bool writes;             /* damaged copies are removed; false: only ignored */
} sp_store_stats;

SP_API sp_err sp_store_stats_of(sp_store *s, sp_store_stats *out);
/* sp_store_verify -- reads all copies and compares checksums; *out counts the damaged ones. on_copy (may be NULL) is
 * called for each; return false to cancel. Errors: SP_E_IO, SP_E_CANCELED; SP_E_UNSUPPORTED: some are of another
 * version (in a folder the others are checked), or have a key. */
SP_API sp_err sp_store_verify(sp_store *s, bool (*on_copy)(int64_t done, int64_t total, void *user),
                              void *user, sp_store_stats *out);
/* sp_store_clean -- for remote tiers: deletes copies that no index names, and removes copies that the server has
 * dropped from the indices. Errors: SP_E_ARG (a folder), SP_E_IO. */
SP_API sp_err sp_store_clean(sp_store *s, int64_t *n_orphans, int64_t *n_gone);
/* sp_store_trim -- drops the least recently used copies until the folder's files take at most `bytes`. Each model
 * loses its share. */
SP_API sp_err sp_store_trim(sp_store *s, int64_t bytes);
/* sp_store_export -- writes the copies of one namespace to a file, which appears when it is complete. space: a prefix
 * of the namespace's digits; NULL: the only one. Errors: SP_E_ARG (several), SP_E_NOTFOUND, SP_E_IO. */
SP_API sp_err sp_store_export(sp_store *s, const char *space, const char *path,
                              sp_store_stats *out);
/* sp_store_import -- adds the copies of an exported file to the store. space: accept this namespace only
 * (sp_store_space); NULL: one that the store has, or any if the store is empty. Each copy is verified. Errors:
 * SP_E_UNSUPPORTED (copies of another model or KV type), SP_E_FORMAT, SP_E_IO. */
SP_API sp_err sp_store_import(sp_store *s, const char *space, const char *path,
                              sp_store_stats *out);
/* sp_store_space -- the namespace of a model's copies, without loading its weights; kv_type NULL:
 * SP_KV_TYPE. */
SP_API sp_err sp_store_space(const char *model, const char *kv_type, char hex[65]);

#ifdef __cplusplus
}
#endif

#endif
