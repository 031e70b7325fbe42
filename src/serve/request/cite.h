/* cite.h -- what an answer looks at: for each of its tokens the share of attention that each segment gets.
 *
 * Span attention has the probability mass of each span. While a request that asks for citations decodes, the gate of
 * its plan adds it up: the mean over the layers and heads of the mass of a segment's span, and of the span of its
 * recomputed tokens. The row of a token is that in which the token itself is computed, so the last token has none. */
#ifndef SP_SERVE_CITE_H
#define SP_SERVE_CITE_H

#include <stdint.h>

typedef struct sp_request sp_request;

typedef struct sp_request_citing {
    float *looks;          /* [n_rows, n_segs]; in `arena`; or NULL */
    int *text_at;          /* [n_rows + 1] bytes of text before each token; in `arena` */
    int n_rows;            /* tokens that are noted, at most */
    const int32_t *seg_of; /* [spans of the answer's plan] segment of a span; -1: none */
    int n_spans;
    int n_looks;           /* tokens whose row is complete */
} sp_request_citing;

/* sp_request_cite -- decoding begins: its steps are watched, if citations are wanted. */
void sp_request_cite(sp_request *r);
/* sp_request_cite_token -- the text of the answer's token n begins. */
void sp_request_cite_token(sp_request *r, int n);
/* sp_request_report_citing -- into the result. */
void sp_request_report_citing(sp_request *r);

#endif
