/* spolia_documents.h -- documents with a life cycle: registered, computed ahead, pinned, replaced, deleted.
 *
 *   sp_documents_put ----> chunks, known by their id ----> sp_documents_chunks, for a prompt
 *        |                      |
 *        |                      +-- sp_documents_precompute: plain and fused copies, before a question comes
 *        |                      +-- sp_documents_pin: its copies stay on the device
 *        +-- replaced, sp_documents_remove, expired: all copies are erased, in all tiers
 *
 * Each document belongs to a tenant, named by its salt (sp_prompt_create_for); other tenants can neither find it nor
 * learn of it. Thread: any, with an engine thread; else that of the context. */
#ifndef SPOLIA_DOCUMENTS_H
#define SPOLIA_DOCUMENTS_H

#include "spolia_search.h"
#include "spolia_prompt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sp_documents sp_documents;

typedef struct sp_documents_opts {
    const char *path; /* SQLite file of the registered texts, created if missing; NULL: memory
                         only */
    int size_words; /* of a chunk; 0: 150 */
    int overlap_words; /* repeated at the beginning of the next chunk; 0 .. size_words - 1 */
    sp_embedder *embedder; /* for the vectors of collections, must outlive it; NULL: they are searched by words */
} sp_documents_opts;

/* sp_documents_open -- o NULL: defaults. The context must outlive it. Deletions that a crash interrupted
 * are finished by sp_documents_tick. Errors: SP_E_IO, SP_E_FORMAT (damaged),
 * SP_E_UNSUPPORTED (not such a file, or of another version), SP_E_NOMEM. */
SP_API sp_err sp_documents_open(sp_context *c, const sp_documents_opts *o, sp_documents **out);
/* sp_documents_close -- to be called before sp_context_stop. Texts kept in memory are dropped; their copies stay. */
SP_API void sp_documents_close(sp_documents *d);
/* sp_documents_writes -- false: the file is on a file system that is mounted read-only. Documents are found and read;
 * put, pin, expire and remove return SP_E_UNSUPPORTED, and documents whose time is over are hidden, not erased. */
SP_API bool sp_documents_writes(const sp_documents *d);

/* An arrival: from when it is known that a document is to be registered until that has ended. */
typedef struct sp_documents_arrival {
    sp_documents *of; /* NULL: it has departed */
    struct sp_documents_arrival *next;
    uint64_t number;
    bool replaced; /* after sp_documents_put: a later arrival has registered the id, and *out is of that document */
} sp_documents_arrival;

/* sp_documents_arrive -- *a is the caller's, and stays where it is until it departs. */
SP_API void sp_documents_arrive(sp_documents *d, sp_documents_arrival *a);
/* sp_documents_depart -- does nothing if it has departed. */
SP_API void sp_documents_depart(sp_documents_arrival *a);

typedef struct sp_document_new {
    const char *id;    /* chosen by the caller, at most 256 bytes; NULL: derived from the content */
    const char *collection; /* the collection to add it to (spolia_collections.h); other functions take
                               "COLLECTION/ID". NULL: none */
    const char *title; /* NULL: the file's own, or none */
    const char *text;  /* plain text; or NULL and: */
    const char *file;  /* a file's name: its suffix names the format (sp_index_build), and */
    const void *data;  /* [n_data] its content */
    size_t n_data;
    int64_t ttl_s; /* seconds until it is deleted; 0: never */
    bool pinned;
    bool replace; /* replace a document with this id; otherwise an existing id is an error */
    const char *const *tags; /* [n_tags] for a document in a collection: at most 16, of up to 64 bytes */
    int n_tags;
    sp_documents_arrival *arrival; /* NULL, or departed: it arrives with the call */
} sp_document_new;

typedef struct sp_document_info {
    const char *id, *title;
    int64_t created_s, expires_s; /* since 1970; expires_s 0: never */
    int64_t n_bytes, n_chunks;    /* n_bytes: of the chunks' texts */
    int64_t n_tokens;             /* of its chunks as a prompt has them */
    const char *file, *tags;      /* of a document in a collection: its file name, and its tags, one a line */
    bool pinned;
    int64_t n_device, n_store; /* chunks with a copy there, twice if one with the title and one of the text alone are
                                  there; set by sp_documents_get only */
} sp_document_info;

typedef struct sp_document_list {
    sp_document_info *v;
    int n;
    void *strings; /* what v points into */
} sp_document_list;

SP_API void sp_document_list_fini(sp_document_list *l);

/* sp_documents_put -- registers a document for the tenant `salt` (NULL: none). *out: a list of one. Copies of chunks
 * that only the replaced document had are erased, as by sp_documents_remove. If it is deleted by a call that arrives
 * later and ends earlier, even by one that finds nothing, it is not registered: SP_E_CANCELED, as when it is deleted
 * before this call ends. If a call that arrives later registers the id and ends earlier, `replace` changes nothing:
 * SP_OK, arrival->replaced.
 * Errors: SP_E_ARG (an id that exists or is invalid, no text), SP_E_UNSUPPORTED (a format without a reader, a damaged
 * file), SP_E_LIMIT, SP_E_IO, SP_E_NOMEM. */
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

/* A reading: from before sp_documents_chunks or sp_documents_search until the requests with what they returned are
 * submitted, or there are none. A deletion waits for readings of its tenant that began before it, so that no request
 * enters that has a deleted text. */
typedef struct sp_documents_reading {
    sp_documents *of; /* NULL: it has ended */
    struct sp_documents_reading *next;
    uint64_t number, tenant;
    uint64_t *texts; /* [n_texts] hashes, sorted; NULL: of any text */
    size_t n_texts;
} sp_documents_reading;

/* sp_documents_begin_reading -- of a tenant. *r is the caller's, and stays where it is until the end. Errors:
 * SP_E_NOMEM (none has begun). */
SP_API sp_err sp_documents_begin_reading(sp_documents *d, const char *salt, sp_documents_reading *r);
/* sp_documents_narrow_reading -- from now on the reading is of these texts alone: of what a search has found, for
 * instance, while it is being ranked. Without memory for that it stays as it is. */
SP_API void sp_documents_narrow_reading(sp_documents_reading *r, const sp_hits *texts);
/* sp_documents_end_reading -- does nothing if it has ended. */
SP_API void sp_documents_end_reading(sp_documents_reading *r);

/* sp_documents_search -- searches a collection of the tenant, or (NULL) its documents outside all collections, as
 * sp_retriever_search does; a hit's `file` is its document's id. q->files are ids of documents or, in a collection,
 * also names of files and folders. Vectors are searched exhaustively; documents outside collections have none. The
 * index is in memory; the first search after a change rebuilds it. Owns: sp_hits_fini. Errors: those of
 * sp_retriever_search; SP_E_NOTFOUND (the collection). */
SP_API sp_err sp_documents_search(sp_documents *d, const char *salt, const char *collection,
                                  const sp_retrieve_query *q, sp_hits *out);

/* sp_documents_pin -- its copies on the device, present and future, are not evicted. Pinned copies take at most half
 * of the KV memory; beyond that nothing is pinned. Errors: SP_E_NOTFOUND. */
SP_API sp_err sp_documents_pin(sp_documents *d, const char *salt, const char *id, bool pinned);
/* sp_documents_expire -- deletes it in ttl_s seconds from now; 0: never. Errors: SP_E_NOTFOUND. */
SP_API sp_err sp_documents_expire(sp_documents *d, const char *salt, const char *id, int64_t ttl_s);

/* Called after each chunk. Return false to cancel. */
typedef bool sp_documents_progress(int64_t done, int64_t total, void *user);

typedef struct sp_documents_compute {
    const char *system; /* system text of later prompts: a copy serves only prompts with this
                           system text */
    int n_fuse;  /* chunks of the tenant that a fused copy is conditioned on; 0: plain copies */
    bool bare;   /* also compute copies without the title, as in the text of a message */
    sp_documents_progress *progress;
    void *user;
} sp_documents_compute;

typedef struct sp_documents_computed {
    int64_t n_chunks;   /* all */
    int64_t n_computed; /* copies computed now, plain or fused */
    int64_t n_known;    /* copies that existed */
} sp_documents_computed;

/* sp_documents_precompute -- computes the copies of a document's chunks, one request after another.
 * *out may be NULL. Errors: SP_E_NOTFOUND, SP_E_CANCELED, and those of requests and sp_chunk_fuse.
 * Source: FusionRAG section 3.1. */
SP_API sp_err sp_documents_precompute(sp_documents *d, const char *salt, const char *id,
                                      const sp_documents_compute *o, sp_documents_computed *out);

typedef struct sp_documents_removed {
    int64_t n_device;  /* copies that were on the device */
    int64_t n_store;   /* copies that were in lower tiers */
    int64_t n_pending; /* of the tenant: copies that requests still read, requests that have one of the texts, readings
                          that began before; the next tick removes what is left */
} sp_documents_removed;

/* sp_documents_remove -- deletes a document: its text, every copy of its chunks (except chunks that another document
 * of the tenant also has), and every copy that was conditioned on one of them. Before it returns, the KV blocks on the
 * device are zeroed and the bytes in the store's files overwritten; later look-ups report "never seen". Waits at most
 * timeout_us for requests that read or compute those copies, and for readings (n_pending). *out may be NULL.
 * Not deleted: copies that another model wrote to the same store, answers, and text that was sent in a message.
 * Errors: SP_E_NOTFOUND; SP_E_UNSUPPORTED when another process writes the store; SP_E_IO when the store cannot be
 * written: the document is then hidden, and the next tick tries again. */
SP_API sp_err sp_documents_remove(sp_documents *d, const char *salt, const char *id,
                                  int64_t timeout_us, sp_documents_removed *out);

/* Called for every lost document; id NULL: its name could not be read either. Borrowed. */
typedef void sp_documents_lost(const char *id, const char *title, void *user);

typedef struct sp_documents_repaired {
    bool was_whole; /* nothing was changed */
    int64_t n_saved, n_lost;
} sp_documents_repaired;

/* sp_documents_repair -- repairs a damaged file of registered documents (sp_documents_opts.path) that no process has
 * open: documents that can be read completely move to a new file of this name, and the damaged file is kept as
 * "<path>.damaged". The first sp_documents_tick erases copies of the other documents, as far as their chunks can be
 * read. sp_documents_rebuild: the same, but the new file is empty. `lost` may be NULL.
 * Errors: SP_E_NOTFOUND, SP_E_IO, SP_E_NOMEM; SP_E_FORMAT: nothing can be read (repair). */
SP_API sp_err sp_documents_repair(const char *path, sp_documents_lost *lost, void *user, sp_documents_repaired *out);
SP_API sp_err sp_documents_rebuild(const char *path, sp_documents_lost *lost, void *user, sp_documents_repaired *out);

/* sp_documents_tick -- removes expired documents, finishes interrupted deletions, and pins new copies of pinned
 * documents. Call it about once a second. now_s: seconds since 1970; 0: the wall clock at opening plus the time since,
 * which setting the wall clock does not change. If the file was last written more than a year before it was opened, no
 * document expires by that clock for 24 hours. */
SP_API sp_err sp_documents_tick(sp_documents *d, int64_t now_s);

#ifdef __cplusplus
}
#endif
#endif
