/* given.h -- the documents of a chat: texts, trees, and registered documents, which are named by their ids. */
#ifndef SP_SERVER_DOCUMENTS_GIVEN_H
#define SP_SERVER_DOCUMENTS_GIVEN_H

#include "server/body/fields.h"
#include "server/http/call.h"

#define SRV_MAX_DOCUMENTS 4096

typedef struct srv_document {
    const char *id, *title,
        *text;          /* into the body, or into `owned`; text NULL: a registered one, by id */
    const json_t *tree; /* a dependency tree instead of a text (api/trees.h) */
    int segment;        /* of the prompt; -1: none */
    int n_segments;     /* of a tree; else 0, for one */
} srv_document;

typedef struct srv_documents {
    srv_document *v;
    size_t n;
    sp_hits *owned; /* texts of registered documents */
    size_t n_owned;
} srv_documents; /* srv_documents_fini */

/* srv_documents_expand -- a document that names a registered one becomes its chunks. Errors are in *f. */
bool srv_documents_expand(const srv_call *call, srv_fields *f, srv_documents *d);
void srv_documents_fini(srv_documents *d);

#endif
