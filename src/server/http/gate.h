/* gate.h -- checks of a request's headers, before its body is read.
 *
 *   framing   one length, or chunks; one Host: a proxy must not see a different request (400)
 *   Host      a name of this machine, an address, or one of --allowed-hosts: stops DNS rebinding (403)
 *   Origin    none, the server's own, or one of --cors-origins: stops other web pages (403)
 *   path      known, with this method (404, 405); OPTIONS is answered here
 *   key       if keys are required: Authorization: Bearer, or X-Api-Key (401)
 *   type      JSON, or a form if the route takes one (415): a web page can send neither without a preflight
 *   length    within the limit (413)
 */
#ifndef SP_SERVER_HTTP_GATE_H
#define SP_SERVER_HTTP_GATE_H

#include "server/http/call.h"

/* srv_gate_check -- sets the call's route and tenant. False: a reply was sent, *sent. */
bool srv_gate_check(srv_call *call, srv_tenant *tenant, srv_sent *sent);
/* srv_gate_add_headers -- what a web page needs to read a reply. */
void srv_gate_add_headers(const srv_server *s, struct MHD_Connection *c, struct MHD_Response *r);

#endif
