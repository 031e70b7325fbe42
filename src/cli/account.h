/* account.h -- the account of a request, as JSON or as one line. */
#ifndef SP_CLI_ACCOUNT_H
#define SP_CLI_ACCOUNT_H

#include <jansson.h>

#include "spolia.h"

/* account_json -- prints the result as one JSON object; `extra` (may be NULL) is merged and
 * consumed. */
void account_json(const sp_result *r, json_t *extra);
/* account_line -- tokens reused and computed, time to first token, tokens per second, on standard
 * error. */
void account_line(const sp_result *r);
const char *finish_name(sp_finish f);

#endif
