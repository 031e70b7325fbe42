/* shelf_int.h -- the file of registered documents, shared by the parts of the shelf: shelf.c (opening,
 * registering, changing), read.c, forms.c, order.c, end.c (doomed documents).
 *
 * Work whose length depends on a document is done in slices of SP_SHELF_SLICE chunks. The lock is released between
 * them and granted in the order of arrival, so that no call waits for another's whole document. */
#ifndef SP_RETRIEVE_SHELF_SHELF_INT_H
#define SP_RETRIEVE_SHELF_SHELF_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "retrieve/db/gaps.h"
#include "retrieve/index/open.h"
#include "retrieve/shelf/shelf.h"

enum { SP_SHELF_SLICE = 2048, SP_SHELF_PLACES = 256 };

/* Values of documents.doomed. */
enum { SP_SHELF_LIVE, SP_SHELF_DOOMED, SP_SHELF_PARTIAL /* chunks are being added; hidden */ };

/* A document was deleted or registered, or a collection was deleted, whose id here is "NAME/". */
typedef struct sp_shelf_event {
    uint64_t number, tenant, id; /* tenant, id: hashes */
    bool registered;
} sp_shelf_event;

/* What arrives is numbered (order.c). */
typedef struct sp_shelf_order {
    pthread_mutex_t lock;
    uint64_t n;                          /* arrivals and deletions so far */
    sp_documents_arrival *first, **last; /* that have not departed, oldest first */
    SP_VEC(sp_shelf_event) events;
} sp_shelf_order;

struct sp_shelf {
    pthread_mutex_t lock; /* guards the tickets */
    pthread_cond_t turn;
    uint64_t n_tickets, n_served;
    sqlite3 *db; /* used by the thread whose ticket is n_served */
    sqlite3_stmt *roll_back; /* compiled in advance: it is needed when there is no memory */
    sp_gaps gaps;
    sp_shelf_order order;
    char *path;
    bool read_only; /* the file system is */
    atomic_ullong changes[SP_SHELF_PLACES]; /* changes of the collections that hash to it, of all tenants */
};

#define SP_SHELF_CHUNK_COLUMNS "c.document, c.at, d.id, c.title, c.text, d.tenant"

/* sp_shelf_enter -- waits for the connection, first come first served; sp_shelf_leave gives it back. */
void sp_shelf_enter(sp_shelf *s);
void sp_shelf_leave(sp_shelf *s);
/* sp_shelf_begin -- enters and begins a transaction; SP_E_UNSUPPORTED on a read-only file system. sp_shelf_end
 * commits it, or rolls it back after an error, and leaves. sp_shelf_end_noted: and notes the event, also of a deletion
 * that found nothing. */
sp_err sp_shelf_begin(sp_shelf *s) SP_MUST_CHECK;
sp_err sp_shelf_end(sp_shelf *s, sp_err err) SP_MUST_CHECK;
sp_err sp_shelf_end_noted(sp_shelf *s, sp_err err, const sp_shelf_event *e) SP_MUST_CHECK;

sp_err sp_shelf_prepare(sp_shelf *s, const char *sql, sqlite3_stmt **q) SP_MUST_CHECK;
/* sp_shelf_finish -- runs a statement without rows and ends it; *n_changed may be NULL. */
sp_err sp_shelf_finish(sp_shelf *s, sqlite3_stmt *q, int *n_changed) SP_MUST_CHECK;
/* sp_shelf_find -- steps to the next row; *found: there is one. */
sp_err sp_shelf_find(sp_shelf *s, sqlite3_stmt *q, bool *found) SP_MUST_CHECK;
void sp_shelf_bind_text(sqlite3_stmt *q, int at, const char *text); /* NULL: "" */
sp_err sp_shelf_not_found(const char *id);
/* sp_shelf_changed -- a document with this id has changed; id NULL: any document may have. */
void sp_shelf_changed(sp_shelf *s, const char *tenant, const char *id);
/* sp_shelf_copy_text -- a column, NUL-terminated. NULL: out of memory, also when SQLite gives no text. */
const char *sp_shelf_copy_text(sqlite3_stmt *q, int column, sp_arena *arena);
/* sp_shelf_damage -- the error; for a damaged file it says what to do. */
sp_err sp_shelf_damage(const sp_shelf *s, sp_err err);
/* sp_shelf_failed -- the connection's last error, as an error of reading. */
sp_err sp_shelf_failed(sp_shelf *s);

/* In collections.c. sp_shelf_members_open -- creates its tables. sp_shelf_members_check -- checks that the
 * collection named by an id exists. sp_shelf_members_add -- adds the facts of a new document; row: the document's. */
sp_err sp_shelf_members_open(sp_shelf *s) SP_MUST_CHECK;
sp_err sp_shelf_members_check(sp_shelf *s, const sp_shelf_row *r) SP_MUST_CHECK;
sp_err sp_shelf_members_add(sp_shelf *s, const sp_shelf_row *r, int64_t row, const sp_shelf_chunk *chunks,
                            int n) SP_MUST_CHECK;
/* sp_shelf_members_forget -- deletes the counts of these chunks. sp_shelf_members_repair -- restores the collections
 * of saved documents. */
sp_err sp_shelf_members_forget(sp_shelf *s, const sp_hits *chunks) SP_MUST_CHECK;
sp_err sp_shelf_members_repair(sp_shelf *s) SP_MUST_CHECK;

/* In forms.c. sp_shelf_forms_open -- creates the table. sp_shelf_forms_put -- chunks without their titles;
 * within a transaction. sp_shelf_forms_of -- appends the other forms of a text. sp_shelf_forms_forget -- those of the
 * chunks of a document that are deleted next, unless another document has the text. */
sp_err sp_shelf_forms_open(sp_shelf *s) SP_MUST_CHECK;
sp_err sp_shelf_forms_put(sp_shelf *s, const sp_shelf_chunk *chunks, int from, int to) SP_MUST_CHECK;
sp_err sp_shelf_forms_of(sp_shelf *s, const sp_digest *bare, sp_digests *out) SP_MUST_CHECK;
sp_err sp_shelf_forms_forget(sp_shelf *s, int64_t document) SP_MUST_CHECK;

/* In order.c. sp_shelf_number -- of a deletion that arrives. sp_shelf_make_room -- within the transaction of an
 * event, so that sp_shelf_note cannot fail at its end. sp_shelf_check_order -- SP_E_CANCELED if a deletion of the
 * document, or of its collection, arrived later and has ended; arrival->replaced: a registration has. Within a
 * transaction. */
void sp_shelf_order_init(sp_shelf_order *o);
void sp_shelf_order_fini(sp_shelf_order *o);
uint64_t sp_shelf_number(sp_shelf *s);
sp_shelf_event sp_shelf_event_of(uint64_t number, const char *tenant, const char *id);
sp_err sp_shelf_make_room(sp_shelf *s, const sp_shelf_event *e) SP_MUST_CHECK;
void sp_shelf_note(sp_shelf *s, const sp_shelf_event *e);
sp_err sp_shelf_check_order(sp_shelf *s, const sp_shelf_row *r) SP_MUST_CHECK;

/* Chunks being read from statements whose columns are SP_SHELF_CHUNK_COLUMNS. */
typedef struct sp_shelf_hits {
    SP_VEC(sp_hit) hits;
    sp_arena *arena;
} sp_shelf_hits;

sp_err sp_shelf_hits_init(sp_shelf_hits *h) SP_MUST_CHECK;
/* sp_shelf_hits_take_one -- the row that a statement is at. */
sp_err sp_shelf_hits_take_one(sqlite3_stmt *q, sp_shelf_hits *h) SP_MUST_CHECK;
/* sp_shelf_hits_take -- all rows of a statement, which it resets. */
sp_err sp_shelf_hits_take(sp_shelf *s, sqlite3_stmt *q, sp_shelf_hits *h) SP_MUST_CHECK;
/* sp_shelf_hits_end -- moves the hits to *out, or frees them after an error, which it returns. */
sp_err sp_shelf_hits_end(sp_shelf_hits *h, sp_err err, sp_hits *out) SP_MUST_CHECK;

#endif
