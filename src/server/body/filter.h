/* filter.h -- which documents of a collection are searched.
 *
 *   "filter": {"file": "manual.pdf", "tag": ["2024", "draft"]}      both must match; of a list, any
 *   "filters": {"type": "and", "filters": [                         the same, as OpenAI's vector stores have it
 *       {"type": "eq", "key": "file", "value": "manual.pdf"},
 *       {"type": "in", "key": "tag", "value": ["2024", "draft"]}]}
 *
 * A file is the id of a document, the name of its file, or a folder of files. */
#ifndef SP_SERVER_BODY_FILTER_H
#define SP_SERVER_BODY_FILTER_H

#include "server/body/fields.h"

enum { SRV_MAX_FILTER = 64 /* files, and tags */ };

typedef struct srv_filter {
    const char *files[SRV_MAX_FILTER], *tags[SRV_MAX_FILTER]; /* strings of the body */
    int n_files, n_tags;
} srv_filter;

/* srv_filter_read -- the field "filter", or "filters", of an object. Errors are in *f. */
void srv_filter_read(srv_fields *f, srv_filter *out);

#endif
