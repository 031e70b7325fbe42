/* documents_int.h -- what the files of sp_documents share. */
#ifndef SP_SERVE_DOCUMENTS_INT_H
#define SP_SERVE_DOCUMENTS_INT_H

#include <pthread.h>

#include "retrieve/shelf/collections.h"
#include "serve/documents/erase.h"
#include "serve/documents/search.h"
#include "serve/request/context.h"

enum { SP_TENANT_BYTES = 2 * sizeof(sp_digest) + 1 };

/* Readings that have not ended, oldest first. */
typedef struct sp_readings {
    pthread_mutex_t lock;
    sp_documents_reading *first, **last;
    uint64_t n_begun;
} sp_readings;

/* Readings that had begun when a list of documents was first found to be doomed. */
typedef struct sp_awaited {
    uint64_t list; /* its hash; 0: none */
    uint64_t n;
} sp_awaited;

/* Which texts are registered, and which forms of them the shelf knows (forms.c): in memory, so that a request with
 * other texts never waits for the file. */
typedef struct sp_forms {
    pthread_mutex_t lock;
    struct sp_key_set {
        uint64_t *v; /* 0: free */
        size_t n, cap;
    } texts, checked; /* checked: since a document was published */
    uint64_t n_published;
} sp_forms;

struct sp_documents {
    sp_context *ctx;
    sp_shelf *shelf;
    sp_searches *searches;
    sp_embedder *embedder; /* borrowed; NULL: none */
    int size_words, overlap_words;
    char *path;        /* NULL: in memory */
    int64_t opened_s;  /* since 1970 by the wall clock, when it was opened ... */
    int64_t opened_us; /* ... and by sp_clock_us */
    int64_t doubt_s;   /* possible error of opened_s */
    sp_readings readings;
    sp_forms forms;
    pthread_mutex_t lock; /* guards the following; held while a thread erases */
    sp_held held;         /* pinned copies */
    sp_shelf_counts counts;    /* of retrieved passages, not on the shelf yet; guarded by counting */
    pthread_mutex_t counting;
    uint64_t swept;       /* under lock: a hash of the ids erased from the tiers, not yet from the device; 0: none */
    sp_awaited awaited;   /* under lock: by sp_documents_tick */
};

void sp_readings_init(sp_readings *r);
void sp_readings_fini(sp_readings *r);
/* sp_readings_begun -- how many have begun so far. */
uint64_t sp_readings_begun(sp_readings *r);
/* sp_readings_among -- how many of the first n that began have not ended and may have one of the texts; of a tenant
 * (sp_tenant_name), or of all (NULL). */
int64_t sp_readings_among(sp_readings *r, const char *tenant, uint64_t n, const sp_hits *texts);

void sp_forms_init(sp_forms *f);
void sp_forms_fini(sp_forms *f);
/* sp_forms_add -- this text of a tenant (sp_known_tenant) is registered, or is about to be. */
sp_err sp_forms_add(sp_forms *f, uint64_t tenant, const char *text) SP_MUST_CHECK;
/* sp_forms_published -- a document was published: forms are checked again. sp_forms_n_published -- how many were. */
void sp_forms_published(sp_forms *f);
uint64_t sp_forms_n_published(sp_forms *f);
/* sp_forms_drop -- no document had the text when n were published; does nothing if more are now. */
void sp_forms_drop(sp_forms *f, uint64_t n_published, uint64_t tenant, const char *text);
/* sp_forms_watch -- an sp_chunk_watch; user: sp_documents. Adds to the shelf under which form a request has a
 * registered text. */
sp_err sp_forms_watch(void *user, const sp_prompt *p, const char *title, const char *text) SP_MUST_CHECK;

/* sp_documents_due_s -- documents that expire before this have expired. */
int64_t sp_documents_due_s(const sp_documents *d);
/* sp_tenant_name -- a hash of a salt, in hex; "" for NULL. Errors: SP_E_NOMEM. */
sp_err sp_tenant_name(const char *salt, char out[SP_TENANT_BYTES]) SP_MUST_CHECK;
/* sp_collection_check_name -- Errors: SP_E_ARG. */
sp_err sp_collection_check_name(const char *name) SP_MUST_CHECK;
/* sp_counts_flush -- writes d->counts to the shelf. */
sp_err sp_counts_flush(sp_documents *d) SP_MUST_CHECK;
/* sp_counts_try -- the same, if the disk takes them; a full one does not, and can be read. */
void sp_counts_try(sp_documents *d);

#endif
