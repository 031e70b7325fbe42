/* account.h -- reports what happened to each segment, and when. */
#ifndef SP_SERVE_ACCOUNT_H
#define SP_SERVE_ACCOUNT_H

#include "spolia.h"

typedef struct sp_request_account {
    int64_t submit_us, start_us, first_us;
    double compute_us; /* the current plan's share of the steps */
    char detail[256];
    sp_result result;
    int n_had, n_saw; /* chunks with a copy, and those whose copy was computed after a chunk of this prompt */
} sp_request_account;

/* sp_request_report -- fills in the segments of the result. */
void sp_request_report(sp_request *r);
/* sp_request_report_decode -- fills in the report of sparse decoding. */
void sp_request_report_decode(sp_request *r);

#endif
