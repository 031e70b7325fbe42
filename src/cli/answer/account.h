/* account.h -- the account of a request, as JSON or as one line. */
#ifndef SP_CLI_ACCOUNT_H
#define SP_CLI_ACCOUNT_H

#include <jansson.h>

#include "spolia.h"

/* account_json -- prints the result as one JSON object; `extra` (may be NULL) is merged and
 * consumed. Where it has "chunks", these are left out of "segments". docs/json.md is its schema. */
void account_json(const sp_result *r, json_t *extra);
/* account_line -- tokens reused and computed, time to first token, tokens per second, on standard
 * error. */
void account_line(const sp_result *r);
/* account_share -- a share as it was given: 0.15, not the nearest float's 0.150000006. */
double account_share(float share);

/* account_summary -- one line on standard error: chunks and tokens reused, time to first token, and an
 * estimate of that time without reuse (cold_us), unless the process has computed too few tokens
 * (n_computed) for one, or little was reused. */
void account_summary(const sp_result *r, int64_t n_computed);
/* account_error -- prints {"error": {"code", "message"}} with `extra`, which is consumed. */
void account_error(const char *code, const char *message, json_t *extra);
const char *finish_name(sp_finish f);

/* account_decode_json -- what sparse decoding saved and cost, or what was moved for the answer; NULL: neither. */
json_t *account_decode_json(const sp_decode_report *d);

#endif
