/* unsupported.h -- refuses fields of a request that would change its answer but are not supported. */
#ifndef SP_SERVER_BODY_UNSUPPORTED_H
#define SP_SERVER_BODY_UNSUPPORTED_H

#include "server/body/fields.h"

/* srv_fields_refuse_unsupported -- refuses the first such field, unless its value has no effect. */
void srv_fields_refuse_unsupported(srv_fields *f);

#endif
