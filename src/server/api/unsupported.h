/* unsupported.h -- fields of a request that would change its answer, and cannot be honoured. */
#ifndef SP_SERVER_API_UNSUPPORTED_H
#define SP_SERVER_API_UNSUPPORTED_H

#include "server/api/fields.h"

/* srv_fields_refuse_unsupported -- the first such field, unless its value asks for nothing. */
void srv_fields_refuse_unsupported(srv_fields *f);

#endif
