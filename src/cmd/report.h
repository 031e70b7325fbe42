/* report.h -- the account of a request, as JSON or as one line. */
#ifndef SP_CMD_REPORT_H
#define SP_CMD_REPORT_H

#include <jansson.h>

#include "spolia.h"

/* report_json -- prints the result as one JSON object; `extra` (may be NULL) is merged and
 * consumed. */
void report_json(const sp_result *r, json_t *extra);
/* report_line -- tokens reused and computed, time to first token, tokens per second; to standard
 * error. */
void report_line(const sp_result *r);
const char *finish_name(sp_finish f);

#endif
