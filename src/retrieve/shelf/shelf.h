/* shelf.h -- the registered documents of all tenants: their texts and the content ids of their chunks, in a
 * SQLite file or in memory.
 *
 *   put -----> live -----> doomed -----> forgotten        doomed: hidden from everyone; its copies are
 *               |   remove,   ^   erased                  being erased, also after a crash
 *               |   replace   |
 *               +-------------+
 *
 * Forgotten data are overwritten in the file (SQLite's secure_delete). Thread: any; no call blocks others for
 * the length of a document. */
#ifndef SP_RETRIEVE_SHELF_SHELF_H
#define SP_RETRIEVE_SHELF_SHELF_H

#include "base/hash.h"
#include "base/mem.h"
#include "spolia_documents.h"

enum { SP_SHELF_IDS = 2 }; /* of a chunk: as sp_prompt_chunk writes it, and its text alone */

typedef struct sp_shelf sp_shelf;

typedef struct sp_shelf_chunk {
    const char *title, *text;
    sp_digest ids[SP_SHELF_IDS];
    sp_digest untitled; /* as sp_prompt_chunk writes it without a title */
    bool has_untitled;  /* it has a title, so this differs from ids[0] */
    int32_t n_tokens;
} sp_shelf_chunk;

/* sp_shelf_open -- path NULL: in memory. On a read-only file system documents can be read, and every change is
 * SP_E_UNSUPPORTED. Errors: SP_E_IO, SP_E_FORMAT, SP_E_NOMEM. */
sp_err sp_shelf_open(const char *path, sp_shelf **out) SP_MUST_CHECK;
bool sp_shelf_writes(const sp_shelf *s);
void sp_shelf_close(sp_shelf *s);
/* sp_shelf_version -- differs after each change that this process makes to a tenant's documents in one collection
 * (collections.h), or outside all (""); sometimes also after other changes. */
uint64_t sp_shelf_version(sp_shelf *s, const char *tenant, const char *collection);

/* sp_shelf_is_whole -- whether all of a file can be read. Errors: SP_E_NOTFOUND, SP_E_IO, SP_E_NOMEM.
 * sp_shelf_repair -- replaces the file by one with what can be read, or, without `save`, by one without live
 * documents; the old file is kept as "<path>.damaged". Lost documents are doomed. No other process may have it open.
 * Errors: as open; SP_E_FORMAT: with `save`, not even its tables can be read. */
typedef struct sp_shelf_repair_opts {
    bool save;
    sp_documents_lost *lost; /* may be NULL */
    void *user;
} sp_shelf_repair_opts;
sp_err sp_shelf_is_whole(const char *path, bool *whole) SP_MUST_CHECK;
sp_err sp_shelf_repair(const char *path, const sp_shelf_repair_opts *o, sp_documents_repaired *out) SP_MUST_CHECK;

typedef struct sp_shelf_row {
    const char *tenant, *id, *title;
    int64_t created_s, expires_s;
    bool pinned, replace;
    const char *file, *tags; /* of a document in a collection: its file's name, sp_tags; NULL: "" */
    sp_documents_arrival *arrival; /* NULL: nothing is later */
} sp_shelf_row;

/* sp_shelf_arrive -- a registration has arrived. *a is the caller's, and stays where it is until sp_shelf_depart. */
void sp_shelf_arrive(sp_shelf *s, sp_documents_arrival *a);
void sp_shelf_depart(sp_shelf *s, sp_documents_arrival *a);
/* sp_shelf_deleted_meanwhile -- the error of a registration. */
sp_err sp_shelf_deleted_meanwhile(const char *id);

/* sp_shelf_put -- found once it is complete; one with the same id becomes doomed. "NAME/ID" is in a collection. With
 * `replace` it changes nothing if a call that arrived later has registered the id: arrival->replaced.
 * Errors: SP_E_ARG (the id exists, without `replace`), SP_E_NOTFOUND (no such collection), SP_E_CANCELED (a call that
 * arrived later has deleted it). */
sp_err sp_shelf_put(sp_shelf *s, const sp_shelf_row *row, const sp_shelf_chunk *chunks,
                    int n) SP_MUST_CHECK;
/* sp_shelf_list -- documents of a collection, or outside all: those with ids > after, or only `id`. Expired ones are
 * left out. */
typedef struct sp_shelf_query {
    const char *tenant, *id;
    const char *collection, *after; /* "", or NULL: outside all; `after` is without the collection's name */
    int limit;
    int64_t now_s;
} sp_shelf_query;
sp_err sp_shelf_list(sp_shelf *s, const sp_shelf_query *q, sp_document_list *out) SP_MUST_CHECK;
/* sp_shelf_chunks -- id NULL: of all documents of the tenant outside collections. Expired ones are left out. Owns:
 * sp_hits_fini. */
sp_err sp_shelf_chunks(sp_shelf *s, const char *tenant, const char *id, int64_t now_s, sp_hits *out) SP_MUST_CHECK;

/* sp_shelf_live -- the chunks of all live documents, with the tenant in `root`. Owns: sp_hits_fini. */
sp_err sp_shelf_live(sp_shelf *s, sp_hits *out) SP_MUST_CHECK;

/* sp_shelf_set -- Errors: SP_E_NOTFOUND. */
typedef enum sp_shelf_field { SP_SHELF_PINNED, SP_SHELF_EXPIRES } sp_shelf_field;
sp_err sp_shelf_set(sp_shelf *s, const char *tenant, const char *id, sp_shelf_field field,
                    int64_t value) SP_MUST_CHECK;

typedef SP_VEC(sp_digest) sp_digests;

/* sp_shelf_ids -- content ids of a document's chunks. Errors: SP_E_NOTFOUND. */
sp_err sp_shelf_ids(sp_shelf *s, const char *tenant, const char *id, sp_digests *out) SP_MUST_CHECK;
/* sp_shelf_pinned_ids -- of all pinned documents. */
sp_err sp_shelf_pinned_ids(sp_shelf *s, sp_digests *out) SP_MUST_CHECK;

/* sp_shelf_doom -- Errors: SP_E_NOTFOUND. sp_shelf_doom_expired: all documents whose second of expiry is over, so
 * that none lives shorter than requested. */
sp_err sp_shelf_doom(sp_shelf *s, const char *tenant, const char *id) SP_MUST_CHECK;
sp_err sp_shelf_doom_expired(sp_shelf *s, int64_t now_s) SP_MUST_CHECK;
/* sp_shelf_doomed -- the doomed documents of a tenant (NULL: of all): their rows, the content ids that no other
 * document has, and title and text of those chunks, each once, with the tenant in `root`. Owns: sp_doomed_fini. */
typedef struct sp_doomed {
    SP_VEC(int64_t) rows; /* empty: nothing is doomed */
    sp_digests ids;       /* sorted; with the other forms of texts that no other document has */
    sp_hits texts;        /* of chunks that no other document has with this title */
    SP_VEC(bool) shared;  /* [texts.n] whether one has the text with another title */
} sp_doomed;
sp_err sp_shelf_doomed(sp_shelf *s, const char *tenant, sp_doomed *out) SP_MUST_CHECK;
void sp_doomed_fini(sp_doomed *d);
/* sp_shelf_add_form -- a request has the text of this content id (the text alone) in another form, e.g. with another
 * title; deleting the last document with the text also erases what has this id. Does nothing when no document has the
 * text. Only reads when the form is known. */
sp_err sp_shelf_add_form(sp_shelf *s, const sp_digest *bare, const sp_digest *id) SP_MUST_CHECK;
/* sp_shelf_has -- whether this content id is of a document that is not doomed. */
sp_err sp_shelf_has(sp_shelf *s, const sp_digest *id, bool *has) SP_MUST_CHECK;
/* sp_shelf_forget -- removes exactly these documents from the file. */
sp_err sp_shelf_forget(sp_shelf *s, const sp_doomed *d) SP_MUST_CHECK;

#endif
