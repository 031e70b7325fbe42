/* watch.h -- progress of computing a document ahead, as server-sent events: one for each change, the last
 * when it is over, then "data: [DONE]". */
#ifndef SP_SERVER_DOCUMENTS_WATCH_H
#define SP_SERVER_DOCUMENTS_WATCH_H

#include "server/http/call.h"

srv_sent srv_watch_reply(srv_call *call, const char *salt, const char *id);

#endif
