/* change.h -- a copy is put or dropped in several requests. Meanwhile an empty object names it, so that what a server
 * which was lost amid them has left can be found and dropped (link.c lists the keys). */
#ifndef SP_STORE_REMOTE_S3_CHANGE_H
#define SP_STORE_REMOTE_S3_CHANGE_H

#include "store/remote/s3/http.h"
#include "store/remote/s3/names.h"

/* sp_s3_change_begin -- before the first request that changes something. note: of the copy. */
sp_err sp_s3_change_begin(sp_s3_http *h, const sp_s3_names *n, const char *name, const char *note) SP_MUST_CHECK;
/* sp_s3_change_end -- after the last one: the copy and its notice are both there, or neither is. */
sp_err sp_s3_change_end(sp_s3_http *h, const sp_s3_names *n, const char *name, const char *note) SP_MUST_CHECK;

/* sp_s3_each_change -- those under way, and those that did not end. Errors: those of sp_s3_list. */
sp_err sp_s3_each_change(sp_s3_http *h, const sp_s3_names *n, sp_err (*each)(void *user, const sp_s3_entry *e),
                         void *user) SP_MUST_CHECK;

/* sp_s3_drop -- a copy, its notices, and what changes of it that did not end have left. A missing copy is no error. */
sp_err sp_s3_drop(sp_s3_http *h, const sp_s3_names *n, const char *name) SP_MUST_CHECK;

#endif
