/* list.h -- lists a bucket page by page; deletes an object. */
#ifndef SP_STORE_REMOTE_S3_LIST_H
#define SP_STORE_REMOTE_S3_LIST_H

#include "store/remote/s3/http.h"
#include "store/remote/s3/reply.h"

/* Which keys; pointers are NULL where nothing is wanted. */
typedef struct sp_s3_which {
    const char *prefix;
    const char *after; /* keys after this one */
    bool folders;      /* list common prefixes up to the next slash, once each */
    bool uploads;      /* list unfinished uploads; only the first page */
} sp_s3_which;

/* sp_s3_list -- in order of their keys. Errors: those of sp_s3_run, of reply.h and of `each`. */
sp_err sp_s3_list(sp_s3_http *h, const sp_s3_which *which, sp_err (*each)(void *user, const sp_s3_row *row),
                  void *user) SP_MUST_CHECK;

/* sp_s3_delete -- an object; a missing one is no error. */
sp_err sp_s3_delete(sp_s3_http *h, const char *key, const char *query) SP_MUST_CHECK;

#endif
