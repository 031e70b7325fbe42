/* citations.h -- which documents each sentence of an answer looks at: "citations": true in a chat. */
#ifndef SP_SERVER_API_CITATIONS_H
#define SP_SERVER_API_CITATIONS_H

#include "server/api/job.h"

/* srv_citations_add -- to a choice that is done, "citations": a list of {start, end, sources}, bytes of its text; each
 * source has `document` (its place in spolia.documents), id and title if it has them, `chunk` (its number among those
 * of its id) and `mass`, its share of the attention that all documents get. Does nothing unless the task asks. */
void srv_citations_add(const srv_job *j, int choice, json_t *to);

#endif
