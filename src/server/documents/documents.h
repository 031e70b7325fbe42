/* documents.h -- /v1/documents: documents that are registered, computed ahead, pinned, replaced, deleted.
 *
 *   POST   /v1/documents                      registers (upload.h)
 *   GET    /v1/documents                      list: ?after=ID&limit=N
 *   GET    /v1/documents/ID                   one, with where its copies are
 *   PUT    /v1/documents/ID                   registers, or replaces
 *   PATCH  /v1/documents/ID                   {"pinned", "ttl_seconds"}
 *   DELETE /v1/documents/ID                   erases it from all tiers
 *   POST   /v1/documents/ID/precompute        {"system", "fuse", "bare"}; then GET, or GET ?stream=true; DELETE
 */
#ifndef SP_SERVER_DOCUMENTS_DOCUMENTS_H
#define SP_SERVER_DOCUMENTS_DOCUMENTS_H

#include "server/http/call.h"

/* srv_documents_open -- the object, its file and its thread. False after an error message. */
bool srv_documents_open(srv_server *s);
void srv_documents_close(srv_server *s);

/* Handlers. srv_documents_one: every path below /v1/documents/. */
srv_sent srv_documents_all(srv_call *call);
srv_sent srv_documents_one(srv_call *call);
srv_sent srv_search(srv_call *call); /* /v1/search (search.c) */
srv_sent srv_copies(srv_call *call); /* /v1/copies (copies.c) */

/* srv_tags_json -- a list of lines, each with a newline, as a list of texts. */
json_t *srv_tags_json(const char *lines);

#endif
