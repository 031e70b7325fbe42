/* reply.h -- reads the XML answers of an object store. */
#ifndef SP_STORE_REMOTE_S3_REPLY_H
#define SP_STORE_REMOTE_S3_REPLY_H

#include "base/err.h"

typedef struct sp_s3_error {
    char code[64], message[200]; /* "": none */
} sp_s3_error;

/* sp_s3_read_error -- reads an error answer; both fields are empty if the text is not such XML. */
void sp_s3_read_error(const char *xml, size_t n, sp_s3_error *out);

/* A row of a list: an object, a common prefix, an upload that is under way. Other fields are "". */
typedef struct sp_s3_row {
    char key[1025], upload[1025], began[32]; /* began: of an upload, ISO 8601 */
} sp_s3_row;

/* sp_s3_read_list -- each row of a page; next: where the next page begins, "" if there is none. Errors: SP_E_FORMAT,
 * those of `each`. */
sp_err sp_s3_read_list(const char *xml, size_t n, sp_err (*each)(void *user, const sp_s3_row *row), void *user,
                       char next[1025]) SP_MUST_CHECK;
/* sp_s3_read_upload -- the id of an upload that was begun. Errors: SP_E_FORMAT. */
sp_err sp_s3_read_upload(const char *xml, size_t n, char id[1025]) SP_MUST_CHECK;

#endif
