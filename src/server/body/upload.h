/* upload.h -- the body that registers a document: JSON, or multipart/form-data with a file.
 *
 *   {"id", "title", "text", "ttl_seconds", "pinned", "replace", "cache_salt", "precompute", "tags"}
 *   {"file": {"name": "a.pdf", "data": BASE64}, ...}                 instead of "text"
 *   multipart: one part "file" with its file name; the other fields as parts of text
 */
#ifndef SP_SERVER_BODY_UPLOAD_H
#define SP_SERVER_BODY_UPLOAD_H

#include "server/body/fields.h"
#include "server/http/call.h"
#include "spolia_documents.h"

#define SRV_MAX_TAGS 16

typedef struct srv_upload {
    json_t *body; /* the fields; of multipart too */
    char *data;   /* [n] the file */
    size_t n;
    char *name;               /* of the file */
    int n_files;              /* of a form */
    char *field, *value;      /* of a form: whose pieces arrive, [n_value]; or NULL */
    size_t n_value;
    const char *tags[SRV_MAX_TAGS];
    sp_document_new document; /* points into the above */
} srv_upload;

/* srv_upload_flag -- of JSON, or the text of a part. */
bool srv_upload_flag(srv_fields *f, const char *name);
/* srv_upload_read -- errors are in *f. Owns: srv_upload_fini, also after an error. */
void srv_upload_read(srv_upload *u, srv_fields *f, const srv_call *call);
void srv_upload_fini(srv_upload *u);

#endif
