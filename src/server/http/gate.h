/* gate.h -- what is checked when the headers of a request are here, before its body is read.
 *
 *   framing   one length, or chunks; one Host: a proxy must not read another request (400)
 *   Host      a name of this machine, an address, or one of --allowed-hosts: DNS rebinding has another one (403)
 *   Origin    none, the server's own, or one of --cors-origins: other web pages may not ask (403)
 *   path      known, with this method (404, 405); OPTIONS is answered here
 *   key       where keys are required: Authorization: Bearer, or X-Api-Key (401)
 *   type      a body is JSON, or where a route takes them a form (415): a page can send neither without asking first
 *   length    within the limit (413)
 */
#ifndef SP_SERVER_HTTP_GATE_H
#define SP_SERVER_HTTP_GATE_H

#include "server/http/call.h"

/* srv_gate_check -- sets the call's route and tenant. False: it has been replied, *sent. */
bool srv_gate_check(srv_call *call, srv_tenant *tenant, srv_sent *sent);
/* srv_gate_add_headers -- what a web page needs to read a reply. */
void srv_gate_add_headers(const srv_server *s, struct MHD_Connection *c, struct MHD_Response *r);

#endif
