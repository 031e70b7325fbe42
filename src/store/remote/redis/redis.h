/* redis.h -- a Redis or Valkey server, or a cluster of them: commands that wait for their replies together.
 *
 * CLUSTER SLOTS tells whether a server belongs to a cluster. Then a command goes to the server that has the slot of
 * its key; MOVED and ASK are followed. Commands to several servers run in parallel.
 *
 * In a cluster, keys that belong together share a tag, which keeps them in one slot:
 *     sp_redis_tag: "{123}", one of SP_SLOT_PARTS; "" without a cluster
 *
 * Invariants
 *  I1  each sent command is answered once: by a reply, or by an error when its server fails.
 *  I2  no call waits longer than timeout_us for a byte.
 *  I3  a failed server of a cluster gets no commands until it has answered a PING, for which no command waits.
 *      Commands that need it fail at once; the other servers continue to serve.
 * Thread: one at a time. */
#ifndef SP_STORE_REMOTE_REDIS_REDIS_H
#define SP_STORE_REMOTE_REDIS_REDIS_H

#include <hiredis/hiredis.h>

#include "store/remote/redis/known.h"

typedef struct sp_redis sp_redis;

enum { SP_REDIS_TAG = 8 }; /* bytes of a tag, terminated */

/* sp_redis_new -- connects on first use. known: other known servers of the cluster, borrowed; NULL: none. Errors:
 * SP_E_NOMEM. */
sp_err sp_redis_new(const sp_redis_address *a, int64_t timeout_us, sp_redis_known *known,
                    sp_redis **out) SP_MUST_CHECK;
void sp_redis_free(sp_redis *r);

/* sp_redis_connect -- finds the servers; every command does this first. Errors: SP_E_IO names the server. */
sp_err sp_redis_connect(sp_redis *r) SP_MUST_CHECK;
/* sp_redis_is_lost -- whether the server, or every server of the cluster, has failed and not answered since. */
bool sp_redis_is_lost(const sp_redis *r);
/* sp_redis_n_parts -- 1, or SP_SLOT_PARTS. Pre: connected once. */
int sp_redis_n_parts(const sp_redis *r);
/* sp_redis_tag -- of part `hash` modulo the parts. Pre: connected once. */
void sp_redis_tag(const sp_redis *r, unsigned hash, char out[SP_REDIS_TAG]);

/* A command: its words. */
typedef struct sp_redis_command {
    const char *words[8];
    size_t sizes[8]; /* 0: the word is NUL-terminated */
    int n;
    bool anywhere; /* any server will do; else words[1] is the key */
} sp_redis_command;

/* sp_redis_send -- queues a command, which the next sp_redis_receive sends. Errors: SP_E_IO, SP_E_NOMEM: there will be
 * no answer. */
sp_err sp_redis_send(sp_redis *r, const sp_redis_command *command, uint32_t id) SP_MUST_CHECK;

typedef struct sp_redis_answer {
    uint32_t id;
    redisReply *reply; /* owned: freeReplyObject; NULL after an error */
    sp_err err;        /* SP_E_IO: the server failed or refuses; SP_E_LIMIT: it is out of memory. The detail is
                          recorded for this thread */
} sp_redis_answer;

/* sp_redis_receive -- waits for the next answer; those of one server come in order. false: none is outstanding. */
bool sp_redis_receive(sp_redis *r, sp_redis_answer *out);

/* sp_redis_call -- one command and its reply. Pre: none is outstanding. Errors: those of sp_redis_answer. */
sp_err sp_redis_call(sp_redis *r, const sp_redis_command *command, redisReply **out) SP_MUST_CHECK;
/* sp_redis_run -- as sp_redis_call, but ignores the reply unless it is an error. */
sp_err sp_redis_run(sp_redis *r, const sp_redis_command *command) SP_MUST_CHECK;
/* sp_redis_run_both -- two short commands for one key, which are sent in one piece: when the connection or this
 * process ends, the server has read both or none. Errors: of either. */
sp_err sp_redis_run_both(sp_redis *r, const sp_redis_command *first, const sp_redis_command *second) SP_MUST_CHECK;

typedef sp_err (*sp_redis_each)(void *user, const char *word, const char *value);

/* sp_redis_scan_hash -- the fields and values of the hash `key`. Concurrent changes may be missed or seen twice.
 * Errors: SP_E_IO, and those of each. */
sp_err sp_redis_scan_hash(sp_redis *r, const char *key, sp_redis_each each, void *user) SP_MUST_CHECK;
/* sp_redis_scan_keys -- the keys of all servers that match the pattern; value is NULL. Errors: as above. */
sp_err sp_redis_scan_keys(sp_redis *r, const char *pattern, sp_redis_each each, void *user) SP_MUST_CHECK;

/* sp_redis_subscribe -- to a channel, at any server; from then on only sp_redis_hear may be called. Errors:
 * SP_E_IO. */
sp_err sp_redis_subscribe(sp_redis *r, const char *channel) SP_MUST_CHECK;
/* sp_redis_hear -- receives messages for at most ms. Errors: SP_E_IO: the server failed or left the cluster, and
 * messages are no longer received; those of each. */
sp_err sp_redis_hear(sp_redis *r, int ms, sp_err (*each)(void *user, char *text), void *user) SP_MUST_CHECK;

#endif
