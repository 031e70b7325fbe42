/* tier.h -- the remote tier: copies in a store that several processes share. link.h is the interface of a store;
 * redis/link.c and s3/link.c describe the keys that they use.
 *
 *   put    groups of layers, then the header, with their checksums: a copy exists once it has a header. One process
 *          writes a copy for all: the first one that begins, or ends
 *   get    asks at once for the headers and all groups of all waiting gets; each part is used as it arrives
 *   news   each process is told what others put, so that it knows what exists without asking
 *
 * A store that does not answer is not asked again: operations end at once with SP_E_IO until the listener, which
 * reconnects in the background, has read the index again.
 * With a key (mac_key), header and groups carry a code (seal.h) over namespace, name, part and bytes; without a key,
 * checksums detect damage but not tampering.
 *
 * Invariants
 *  I1  what a sink gets was verified as in every tier (store/tier.h I2), and, with a key, was written by a process
 *      that has the key.
 *  I2  no operation waits longer than timeout_us for a byte.
 *  I3  after a failure no operation contacts the store before the listener has: no request waits to find out that it
 *      is still lost (sp_tier_answers).
 *  I4  an expired copy is not found, whatever the store does.
 *  I5  a get that is cancelled while it runs ends when all of it has arrived, so that its time measures the store; a
 *      withdrawn get may end earlier. */
#ifndef SP_STORE_REMOTE_TIER_H
#define SP_STORE_REMOTE_TIER_H

#include "store/packing.h"
#include "store/tier.h"

typedef struct sp_remote_tier_opts {
    const char *url;        /* store/remote/link.h: its scheme is the kind of store */
    const char *ca_file;    /* certificates of authorities that are trusted; NULL: the system's */
    const sp_digest *space; /* a hash of everything that separates copies: model, KV type, layout ... */
    const void *mac_key;    /* [n_mac_key]; n_mac_key 0: none */
    size_t n_mac_key;
    int64_t ttl_s;      /* lifetime of copies; 0: until the server drops them */
    int64_t timeout_us; /* I2 */
    const sp_kv_packing *packing; /* copied: the smaller type that copies may have; NULL: such copies cannot be read */
    bool packs;         /* puts use it */
    int compress;       /* level of zstd for puts; 0: none */
    bool only_checks;   /* gets verify layers without unpacking them: sinks of packed ones are not called */
    bool must;          /* the caller waits for the server (sp_remote_tier_await) and reports errors: no warnings */
} sp_remote_tier_opts;

/* sp_remote_tier_open -- does not wait for the server; its copies become known once it answers. Errors: SP_E_ARG (the
 * URL), SP_E_UNSUPPORTED, SP_E_NOMEM. */
sp_err sp_remote_tier_open(const sp_remote_tier_opts *o, sp_tier **out) SP_MUST_CHECK;

/* sp_remote_tier_await -- waits, at most us, until the tier knows the server's copies. Errors: SP_E_IO and those of
 * the server: it does not answer, or refuses. */
sp_err sp_remote_tier_await(sp_tier *t, int64_t us) SP_MUST_CHECK;

#endif
