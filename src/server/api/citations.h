/* citations.h -- which documents each sentence of an answer looks at: "citations": true in a chat. */
#ifndef SP_SERVER_API_CITATIONS_H
#define SP_SERVER_API_CITATIONS_H

#include "server/api/job.h"

/* srv_citations_add -- to a choice that is done, "citations": a list of {start, end, sources}, bytes of its text. Each
 * source has `document` (its place in spolia.documents), id and title if it has them, `chunk` (its number among those
 * of its id) and `mass`. A document's lift is what the sentence looks at, over what the beginning of the question
 * looks at, which is what the document gets for its place in the prompt; `mass` is its share of all lifts. Sources are
 * those above the mean. Does nothing unless the task asks. */
void srv_citations_add(const srv_job *j, int choice, json_t *to);
/* srv_citations_rate -- to each document of an account, "attention": its share of the lifts by the question. */
void srv_citations_rate(const srv_job *j, json_t *documents);

#endif
