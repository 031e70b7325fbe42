/* spolia_store.h -- copies on disk: the store of a context, and stores without a model. spolia.h includes it. */
#ifndef SPOLIA_STORE_H
#define SPOLIA_STORE_H

#include "spolia_context.h"
#include "spolia_index.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    int64_t plain_bytes, new_plain_bytes; /* the same without the fused copies */
} sp_store_need;

/* sp_store_estimate -- before sp_chunk_fuse computes them: tokenizes the index, computes nothing.
 * Errors: SP_E_ARG without a store, SP_E_IO, SP_E_NOMEM. */
SP_API sp_err sp_store_estimate(sp_context *c, sp_index *ix, const char *system,
                                sp_store_need *out);

/* -- stores, without a model --------------------------------------------------------------- */

typedef struct sp_store sp_store; /* all copies in a folder or a remote tier, of any model */

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
/* sp_store_open_remote -- the copies of a remote tier; key_file, ca_file: as in sp_tier_opts, or NULL. Archives and
 * sp_store_trim are for folders alone. Errors: SP_E_ARG (the URL), SP_E_IO (the server, or a file). */
SP_API sp_err sp_store_open_remote(const char *url, const char *key_file, const char *ca_file, sp_store **out);
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
/* sp_store_clean -- of a remote tier: deletes copies that no index names, and strikes out of the indices what the
 * server has dropped. Errors: SP_E_ARG (a folder), SP_E_IO. */
SP_API sp_err sp_store_clean(sp_store *s, int64_t *n_orphans, int64_t *n_gone);
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

#endif
