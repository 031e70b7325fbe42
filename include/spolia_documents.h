/* spolia_documents.h -- documents with a life cycle: registered, computed ahead, pinned, replaced, deleted.
 *
 *   sp_documents_put ----> chunks, known by their id ----> sp_documents_chunks, for a prompt
 *        |                      |
 *        |                      +-- sp_documents_precompute: plain and fused copies, before a question comes
 *        |                      +-- sp_documents_pin: its copies stay on the device
 *        +-- replace, sp_documents_remove, the end of its time: all copies are erased, in all tiers
 *
 * Each document belongs to a tenant, named by its salt (sp_prompt_create_for); nothing of it is found or
 * told to another. Thread: any, with an engine thread; else that of the context. */
#ifndef SPOLIA_DOCUMENTS_H
#define SPOLIA_DOCUMENTS_H

#include "spolia_search.h"
#include "spolia_prompt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_documents sp_documents;

typedef struct sp_documents_opts {
    const char
        *path;      /* SQLite file of the registered texts, created if need be; NULL: memory only */
    int size_words; /* of a chunk; 0: 150 */
    int overlap_words; /* repeated at the beginning of the next chunk; 0 .. size_words - 1 */
    sp_embedder *embedder; /* for the vectors of collections, must outlive it; NULL: they are searched by words */
} sp_documents_opts;

/* sp_documents_open -- o NULL: defaults. The context must outlive it. Deletions that a crash interrupted
 * are finished by sp_documents_tick. Errors: SP_E_IO, SP_E_FORMAT (damaged),
 * SP_E_UNSUPPORTED (not such a file, or of another version), SP_E_NOMEM. */
SP_API sp_err sp_documents_open(sp_context *c, const sp_documents_opts *o, sp_documents **out);
/* sp_documents_close -- before sp_context_stop. Texts in memory are gone, copies of them stay. */
SP_API void sp_documents_close(sp_documents *d);
/* sp_documents_writes -- false: the file is on a file system that is mounted read-only. Documents are found and read;
 * put, pin, expire and remove return SP_E_UNSUPPORTED, and documents whose time is over are hidden, not erased. */
SP_API bool sp_documents_writes(const sp_documents *d);

typedef struct sp_document_new {
    const char *id;    /* of the caller, at most 256 bytes; NULL: made from the content */
    const char *collection; /* that it joins (spolia_collections.h): other functions know it as "COLLECTION/ID"; NULL:
                               none */
    const char *title; /* NULL: the file's own, or none */
    const char *text;  /* plain text; or NULL and: */
    const char *file;  /* a file's name: its suffix names the format (sp_index_build), and */
    const void *data;  /* [n_data] its content */
    size_t n_data;
    int64_t ttl_s; /* seconds until it is deleted; 0: never */
    bool pinned;
    bool replace; /* a document with this id is replaced; otherwise that is an error */
    const char *const *tags; /* [n_tags] of a document in a collection, at most 16, of 64 bytes */
    int n_tags;
} sp_document_new;

typedef struct sp_document_info {
    const char *id, *title;
    int64_t created_s, expires_s; /* since 1970; expires_s 0: never */
    int64_t n_bytes, n_chunks;    /* n_bytes: of the chunks' texts */
    int64_t n_tokens;             /* of the chunks in a prompt */
    const char *file, *tags;      /* of a document in a collection: its file's name, and its tags, a line each */
    bool pinned;
    int64_t n_device, n_store; /* chunks with a copy there; of sp_documents_get only */
} sp_document_info;

typedef struct sp_document_list {
    sp_document_info *v;
    int n;
    void *strings; /* what v points into */
} sp_document_list;

SP_API void sp_document_list_fini(sp_document_list *l);

/* sp_documents_put -- registers a document for the tenant `salt` (NULL: none). *out: a list of one. Copies
 * of chunks that a replaced document had and the new one has not are erased, as by sp_documents_remove.
 * Errors: SP_E_ARG (an id that is taken or cannot be, no text), SP_E_UNSUPPORTED (a format without reader,
 * a damaged file), SP_E_LIMIT, SP_E_IO, SP_E_NOMEM. */
SP_API sp_err sp_documents_put(sp_documents *d, const char *salt, const sp_document_new *n,
                               sp_document_list *out);
/* sp_documents_get -- a list of one. Errors: SP_E_NOTFOUND. */
SP_API sp_err sp_documents_get(sp_documents *d, const char *salt, const char *id,
                               sp_document_list *out);
/* sp_documents_list -- at most `limit` documents in the order of their ids, after the id `after` (NULL:
 * from the first). */
SP_API sp_err sp_documents_list(sp_documents *d, const char *salt, const char *after, int limit,
                                sp_document_list *out);
/* sp_documents_chunks -- title and text of its chunks, in order, as sp_prompt_chunk takes them. Errors:
 * SP_E_NOTFOUND. Owns: sp_hits_fini. */
SP_API sp_err sp_documents_chunks(sp_documents *d, const char *salt, const char *id, sp_hits *out);

/* sp_documents_search -- the chunks that answer best, as by sp_retriever_search, of a collection of the tenant, or
 * of its documents outside all collections (NULL); `file` is the id of their document. q->files are ids of documents
 * or, in a collection, also names of files, and folders in them. Vectors are searched exhaustively; outside
 * collections there are none. The index is in memory and is rebuilt by the first search after a change. Owns:
 * sp_hits_fini. Errors: those of sp_retriever_search; SP_E_NOTFOUND: there is no such collection. */
SP_API sp_err sp_documents_search(sp_documents *d, const char *salt, const char *collection,
                                  const sp_retrieve_query *q, sp_hits *out);

/* sp_documents_pin -- its copies that are on the device, or will be, are not evicted; all pinned copies take
 * at most half of the KV memory; beyond that nothing is pinned. Errors: SP_E_NOTFOUND. */
SP_API sp_err sp_documents_pin(sp_documents *d, const char *salt, const char *id, bool pinned);
/* sp_documents_expire -- it is deleted in ttl_s seconds from now; 0: never. Errors: SP_E_NOTFOUND. */
SP_API sp_err sp_documents_expire(sp_documents *d, const char *salt, const char *id, int64_t ttl_s);

/* Called after each chunk. Return false to cancel. */
typedef bool sp_documents_progress(int64_t done, int64_t total, void *user);

typedef struct sp_documents_compute {
    const char
        *system; /* system text of the prompts to come: a copy serves prompts with this one */
    int n_fuse;  /* chunks of the tenant that a fused copy is conditioned on; 0: plain copies */
    bool bare;   /* also without the title, as text in a message has it */
    sp_documents_progress *progress;
    void *user;
} sp_documents_compute;

typedef struct sp_documents_computed {
    int64_t n_chunks;   /* all */
    int64_t n_computed; /* copies that were not there, plain or fused */
    int64_t n_known;    /* copies that were */
} sp_documents_computed;

/* sp_documents_precompute -- computes the copies of a document's chunks, one request after another.
 * *out may be NULL. Errors: SP_E_NOTFOUND, SP_E_CANCELED, and those of requests and sp_chunk_fuse.
 * Source: FusionRAG section 3.1. */
SP_API sp_err sp_documents_precompute(sp_documents *d, const char *salt, const char *id,
                                      const sp_documents_compute *o, sp_documents_computed *out);

typedef struct sp_documents_removed {
    int64_t n_device;  /* copies that were on the device */
    int64_t n_store;   /* copies that were in lower tiers */
    int64_t n_pending; /* of the tenant: copies that requests still read: the next tick removes them */
} sp_documents_removed;

/* sp_documents_remove -- deletes a document: its text, every copy of its chunks (but of chunks that another
 * document of the tenant has too), and every copy that was conditioned on one of them. The KV blocks on the
 * device are zeroed and the bytes in the store's files overwritten before it returns; afterwards a look-up
 * is a miss, "never seen". Waits for requests that read those copies, timeout_us at most (n_pending).
 * *out may be NULL.
 * Not reached: copies that another model made in the same store, answers, and text that somebody sent as a
 * message of their own. Errors: SP_E_NOTFOUND; SP_E_UNSUPPORTED when another process writes the store; SP_E_IO when
 * the store cannot be written: the document is hidden then, and the next tick tries again. */
SP_API sp_err sp_documents_remove(sp_documents *d, const char *salt, const char *id,
                                  int64_t timeout_us, sp_documents_removed *out);

/* Called for every document that is lost; id NULL: not even its name could be read. Borrowed. */
typedef void sp_documents_lost(const char *id, const char *title, void *user);

typedef struct sp_documents_repaired {
    bool was_whole; /* nothing was changed */
    int64_t n_saved, n_lost;
} sp_documents_repaired;

/* sp_documents_repair -- of a damaged file of registered documents (sp_documents_opts.path), which no process has
 * open: documents that can be read whole move to a new file of this name, and the damaged one is kept as
 * "<path>.damaged". Copies of the others are erased by the first sp_documents_tick, as far as their chunks can be
 * read. sp_documents_rebuild: the new file has no documents, whatever can be read. `lost` may be NULL.
 * Errors: SP_E_NOTFOUND, SP_E_IO, SP_E_NOMEM; SP_E_FORMAT: nothing can be read (repair). */
SP_API sp_err sp_documents_repair(const char *path, sp_documents_lost *lost, void *user, sp_documents_repaired *out);
SP_API sp_err sp_documents_rebuild(const char *path, sp_documents_lost *lost, void *user, sp_documents_repaired *out);

/* sp_documents_tick -- removes documents whose time is over, finishes interrupted deletions, and pins new
 * copies of pinned documents. now_s: since 1970; 0: the wall clock when it was opened and the time since, which a wall
 * clock that is set meanwhile does not change. If the file was last written over a year before it was opened, nothing
 * ends by that clock for 24 hours. To be called about once a second. */
SP_API sp_err sp_documents_tick(sp_documents *d, int64_t now_s);

#ifdef __cplusplus
}
#endif
#endif
