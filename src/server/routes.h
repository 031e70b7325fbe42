/* routes.h -- which handler answers which path. */
#ifndef SP_SERVER_ROUTES_H
#define SP_SERVER_ROUTES_H

#include "server/http/call.h"
#include "server/http/reply.h"

extern const srv_route srv_routes[];

/* srv_form_of_path -- how errors at a path are written, e.g. that its key is wrong; NULL: in OpenAI's form. */
srv_error_form *srv_form_of_path(const char *path);

/* srv_health_of -- "ok", "draining", or "stalled": the current step has taken step_us, longer than any normal step. */
const char *srv_health_of(bool draining, int64_t step_us);

#endif
