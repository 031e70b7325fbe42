/* tier.h -- the remote tier: copies in a Redis or Valkey server that several processes share.
 *
 *   SPOLIA:<space>:copy:<name>    a hash: "head", the header (store/record.h); "0", "1" ..., some layers each with
 *                                 their notes, 1 MiB at most if a layer is not larger
 *   SPOLIA:<space>:index          a hash: name -> what a look-up must know
 *   SPOLIA:<space>:news           a channel: each put and drop, so that all processes know what is there and need not
 *                                 ask
 *
 *   put    "0", "1" ... then "head": a copy without a head is not there yet, and expires. Once for all processes: the
 *          first one that begins writes it
 *   get    the header and all groups of layers of all waiting gets are asked for at once; each is used as it comes
 *
 * A server that does not answer is left alone: operations end at once, with SP_E_IO, until the listener, which tries
 * to connect in the background, has read the index again.
 * With a key (mac_key), header and groups carry an HMAC over namespace, name, field and bytes; without a key,
 * checksums find damage but not tampering.
 *
 * Invariants
 *  I1  what a sink gets was verified as in every tier (store/tier.h I2), and with a key it was written by one who has
 *      it.
 *  I2  no operation waits longer than timeout_us for a byte.
 *  I3  after a failure no operation reaches for the server before the listener has: no request pays for finding out
 *      that it is still lost (sp_tier_answers). */
#ifndef SP_STORE_REMOTE_TIER_H
#define SP_STORE_REMOTE_TIER_H

#include "store/tier.h"

typedef struct sp_remote_tier_opts {
    const char *url;        /* store/remote/redis.h */
    const char *ca_file;    /* sp_tls_connect */
    const sp_digest *space; /* model, KV type, layout, and whatever else must keep copies apart */
    const void *mac_key;    /* [n_mac_key]; n_mac_key 0: none */
    size_t n_mac_key;
    int64_t ttl_s;      /* that copies are kept after they were put; 0: until the server drops them */
    int64_t timeout_us; /* I2 */
    bool must;          /* the caller waits for the server and reports it (sp_remote_tier_await): no warnings */
} sp_remote_tier_opts;

/* sp_remote_tier_open -- does not wait for the server: what is there becomes known once it answers. Errors: SP_E_ARG
 * (the URL), SP_E_UNSUPPORTED, SP_E_NOMEM. */
sp_err sp_remote_tier_open(const sp_remote_tier_opts *o, sp_tier **out) SP_MUST_CHECK;

/* sp_remote_tier_await -- waits until the tier knows what the server has, us at most; no step takes longer than I2
 * says. Errors: SP_E_IO and those of the server: it does not answer, or refuses. */
sp_err sp_remote_tier_await(sp_tier *t, int64_t us) SP_MUST_CHECK;

/* sp_remote_tier_news -- copies that others have put since the last call, one after another: `each` of the job of a
 * list. Cost: one look at a flag when there are none. Errors: those of each. */
sp_err sp_remote_tier_news(sp_tier *t, sp_err (*each)(void *user, const sp_tier_info *info), void *user) SP_MUST_CHECK;

#endif
