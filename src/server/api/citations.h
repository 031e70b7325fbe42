/* citations.h -- which documents each sentence of an answer looks at: "citations": true in a chat. */
#ifndef SP_SERVER_API_CITATIONS_H
#define SP_SERVER_API_CITATIONS_H

#include "server/api/job.h"

/* srv_citations_add -- adds "citations" to a finished choice: a list of {start, end, sources}, in bytes of its text.
 * Each source has `document` (its index in spolia.documents), id and title if it has them, `chunk` (its number among
 * those of its id) and `mass`. The lift of a document is the sentence's attention to it, divided by that of the
 * beginning of the question, which depends only on the document's place in the prompt; `mass` is its share of all
 * lifts. Sources are the documents above the mean. Does nothing unless the task asks for citations. */
void srv_citations_add(const srv_job *j, int choice, json_t *to);
/* srv_citations_rate -- adds "attention" to each document of an account: its share of the lifts by the question. */
void srv_citations_rate(const srv_job *j, json_t *documents);

#endif
