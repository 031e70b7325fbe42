/* tier.h -- the remote tier: copies in a store that several processes share. What it needs of a store is in
 * store/remote/link.h; redis/link.c and s3/link.c have the names that they use there.
 *
 *   put    groups of layers, then the header, with their checksums: a copy without a header is not there yet. Once for
 *          all processes: the first one that begins, or ends, writes it
 *   get    the headers and all groups of layers of all waiting gets are asked for at once; each is used as it comes
 *   news   each process hears what others put, so that it knows what is there and need not ask
 *
 * A store that does not answer is left alone: operations end at once, with SP_E_IO, until the listener, which tries to
 * connect in the background, has read the index again.
 * With a key (mac_key), header and groups carry a code (seal.h) over namespace, name, part and bytes; without a key,
 * checksums find damage but not tampering.
 *
 * Invariants
 *  I1  what a sink gets was verified as in every tier (store/tier.h I2), and with a key it was written by one who has
 *      it.
 *  I2  no operation waits longer than timeout_us for a byte.
 *  I3  after a failure no operation reaches for the store before the listener has: no request pays for finding out
 *      that it is still lost (sp_tier_answers).
 *  I4  a copy whose time is over is not found, whatever the store does.
 *  I5  a get that is cancelled while it is under way ends when all of it has come, so that its time is the store's;
 *      one that is withdrawn may end before. */
#ifndef SP_STORE_REMOTE_TIER_H
#define SP_STORE_REMOTE_TIER_H

#include "store/packing.h"
#include "store/tier.h"

typedef struct sp_remote_tier_opts {
    const char *url;        /* store/remote/link.h: its scheme is the kind of store */
    const char *ca_file;    /* certificates of authorities that are trusted; NULL: the system's */
    const sp_digest *space; /* model, KV type, layout, and whatever else must keep copies apart */
    const void *mac_key;    /* [n_mac_key]; n_mac_key 0: none */
    size_t n_mac_key;
    int64_t ttl_s;      /* that copies are kept after they were put; 0: until the server drops them */
    int64_t timeout_us; /* I2 */
    const sp_kv_packing *packing; /* copied: the smaller type that copies may be in; NULL: none can be read */
    bool packs;         /* puts are in it */
    int compress;       /* level of zstd for puts; 0: none */
    bool only_checks;   /* gets verify layers without unpacking them: sinks of packed ones are not called */
    bool must;          /* the caller waits for the server and reports it (sp_remote_tier_await): no warnings */
} sp_remote_tier_opts;

/* sp_remote_tier_open -- does not wait for the server: what is there becomes known once it answers. Errors: SP_E_ARG
 * (the URL), SP_E_UNSUPPORTED, SP_E_NOMEM. */
sp_err sp_remote_tier_open(const sp_remote_tier_opts *o, sp_tier **out) SP_MUST_CHECK;

/* sp_remote_tier_await -- waits until the tier knows what the server has, us at most; no step takes longer than I2
 * says. Errors: SP_E_IO and those of the server: it does not answer, or refuses. */
sp_err sp_remote_tier_await(sp_tier *t, int64_t us) SP_MUST_CHECK;

#endif
