/* anthropic.h -- POST /v1/messages: a chat in the form of Anthropic's Messages API. */
#ifndef SP_SERVER_DIALECTS_ANTHROPIC_H
#define SP_SERVER_DIALECTS_ANTHROPIC_H

#include "server/api/dialect.h"

json_t *srv_anthropic_body(srv_fields *f, bool *chat); /* anthropic_body.c */

/* Handlers. */
srv_sent srv_anthropic_messages(srv_call *call);
srv_sent srv_anthropic_count(srv_call *call); /* /v1/messages/count_tokens */

#endif
