/* tls.h -- a connection with TLS for a library that speaks over a plain socket. */
#ifndef SP_STORE_REMOTE_REDIS_TLS_H
#define SP_STORE_REMOTE_REDIS_TLS_H

#include "base/err.h"

/* sp_tls_connect -- *fd is a local socket; a thread relays between its other end and the server. Closing it ends the
 * connection and the thread. The server's certificate must be valid for `host`. ca_file: certificates of trusted
 * authorities; NULL: the system's, or those of the environment (SSL_CERT_FILE). No step waits longer than timeout_us.
 * Errors: SP_E_IO names the server and the problem; SP_E_NOMEM. */
sp_err sp_tls_connect(const char *host, int port, const char *ca_file, int64_t timeout_us, int *fd) SP_MUST_CHECK;

#endif
