/* cite.h -- what an answer looks at: the share of attention that each token of the answer gives to each segment.
 *
 * Span attention yields the probability mass of each span. While a request with citations decodes, the gate of its
 * plan sums it up: the mean over layers and heads of the mass of a segment's span, and of the span of its recomputed
 * tokens. The row of a token is recorded when the token itself is computed, so the last token has none.
 *
 * The attention to a span depends mostly on its place: the last document of a prompt gets most, whatever its text. So
 * the gate also records what the first tokens of the last segment ("Question:") look at, which see all documents but
 * not the question yet. Citations are what the answer looks at beyond that. */
#ifndef SP_SERVE_CITE_H
#define SP_SERVE_CITE_H

#include <stdint.h>

#define SP_CITE_BEFORE 4

typedef struct sp_request sp_request;

typedef struct sp_request_citing {
    float *looks;          /* [n_rows, n_segs]; in `arena`; or NULL */
    int *text_at;          /* [n_rows + 1] bytes of text before each token; in `arena` */
    int n_rows;            /* most tokens to record */
    const int32_t *seg_of; /* [spans of the answer's plan] segment of a span; -1: none */
    int n_spans;
    int n_looks;           /* tokens whose row is complete */
    float *before, *asking; /* [n_segs] sums over the first SP_CITE_BEFORE tokens of the last segment; over the rest */
    int n_before, n_asking; /* numbers of these tokens */
} sp_request_citing;

/* sp_request_cite_prompt -- the answer's plan is made: what its last segment looks at is noted, if citations are
 * wanted and the plan has no gate of its own. */
void sp_request_cite_prompt(sp_request *r);
/* sp_request_cite -- decoding begins: its steps are watched, if citations are wanted. */
void sp_request_cite(sp_request *r);
/* sp_request_cite_token -- the text of the answer's token n begins. */
void sp_request_cite_token(sp_request *r, int n);
/* sp_request_report_citing -- into the result. */
void sp_request_report_citing(sp_request *r);

#endif
