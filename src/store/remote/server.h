/* server.h -- a remote store as a whole: the models that have copies there, and leftovers. */
#ifndef SP_STORE_REMOTE_SERVER_H
#define SP_STORE_REMOTE_SERVER_H

#include "base/hash.h"
#include "base/err.h"

enum { SP_REMOTE_KEY_BYTES = 64 }; /* of a key file, at most */

/* sp_remote_read_key -- the bytes of the file, without a line feed at its end; path NULL: *n is 0. Errors: SP_E_IO,
 * SP_E_ARG name the file. */
sp_err sp_remote_read_key(const char *path, uint8_t out[SP_REMOTE_KEY_BYTES], size_t *n) SP_MUST_CHECK;

/* How a server is reached. */
typedef struct sp_remote_server {
    const char *url;
    const char *ca_file; /* certificates of authorities that are trusted; NULL: the system's */
    int64_t timeout_us;
} sp_remote_server;

/* sp_remote_each_space -- the namespaces with copies, truncated to 16 bytes; the other bytes are 0. Errors: those of
 * the store, and of `each`. */
sp_err sp_remote_each_space(const sp_remote_server *s, sp_err (*each)(void *user, const sp_digest *space),
                            void *user) SP_MUST_CHECK;

/* sp_remote_clean -- deletes what nobody can find: copies of all namespaces that no index names, now and a moment
 * later (*n_orphans), and index entries whose copy the server has dropped (*n_gone). Errors: those of the store. */
sp_err sp_remote_clean(const sp_remote_server *s, int64_t *n_orphans, int64_t *n_gone) SP_MUST_CHECK;

#endif
