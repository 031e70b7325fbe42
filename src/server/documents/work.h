/* work.h -- background work, on one thread: computes copies of registered documents ahead, first come, first served,
 * and calls sp_documents_tick once a second.
 *
 *   queued ---> running ---> done, failed, canceled          the newest items are remembered
 */
#ifndef SP_SERVER_DOCUMENTS_WORK_H
#define SP_SERVER_DOCUMENTS_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "spolia_documents.h"

#define SRV_MAX_WORK 1024 /* items that wait or run, and items that are remembered */

typedef struct srv_work srv_work;

typedef enum srv_phase { SRV_QUEUED, SRV_RUNNING, SRV_DONE, SRV_FAILED, SRV_CANCELED } srv_phase;

typedef struct srv_progress {
    srv_phase phase;
    int64_t done, total; /* chunks */
    sp_documents_computed sum;
    char why[160]; /* of SRV_FAILED */
} srv_progress;

const char *srv_phase_name(srv_phase p);

/* What to compute; strings are copied. */
typedef struct srv_work_item {
    const char *salt, *id, *system; /* salt NULL: no tenant */
    int n_fuse;
    bool bare;
} srv_work_item;

/* srv_work_open -- d may be NULL: nothing to do, and no thread. False: out of memory. */
bool srv_work_open(sp_documents *d, srv_work **out);
/* srv_work_close -- cancels what is left. NULL is allowed. */
void srv_work_close(srv_work *w);
/* srv_work_add -- replaces a finished item for the same document; false: too many wait, or one for this document waits
 * or runs. */
bool srv_work_add(srv_work *w, const srv_work_item *o);
/* srv_work_get -- progress of the newest item for a document; false: there is none. */
bool srv_work_get(srv_work *w, const char *salt, const char *id, srv_progress *out);
bool srv_work_cancel(srv_work *w, const char *salt, const char *id);
/* srv_work_forget -- cancels and forgets it: the document was replaced or deleted. */
void srv_work_forget(srv_work *w, const char *salt, const char *id);

#endif
