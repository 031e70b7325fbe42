/* moves.h -- transfers of copies between any tier and blocks of a pool.
 *
 *   get   head   checks that the copy matches its name and the pool's shape, and keeps the header;
 *                `n_there` becomes 0
 *         layer  goes into the blocks; n_there counts the readable layers: a request may begin with
 *                the first ones while the others arrive
 *   put   layers are read from sealed blocks; n_there counts those that the tier has taken
 *
 * Thread: the callbacks run on a thread of the tier; n_there is read by any. */
#ifndef SP_STORE_MOVES_H
#define SP_STORE_MOVES_H

#include <stdatomic.h>

#include "kv/pool.h"
#include "kv/segment.h"
#include "kv/unpack.h"
#include "store/notes.h"
#include "store/tier.h"

/* A copy and its blocks. A submitted put or get copies tokens, head, blocks and patch; the other pointers are borrowed
 * until the move has ended. */
typedef struct sp_move {
    sp_kv_pool *pool;
    const sp_digest *space;
    sp_copy_kind kind;
    sp_segment seg;
    const sp_digest *head; /* [n_head] the segments of the key's head; for a placed copy, all that precede it */
    int n_head;
    const uint32_t *blocks; /* [ceil((slot + n) / B)] */
    int32_t slot;           /* put: of the first token in blocks[0] */
    sp_kv_patch patch;      /* put: replaces these tokens; the tier gets one whole copy */

    int first, n; /* get: these layers; n 0: all. A get of later ones follows that of the
                                   first ones, in the same move */
    bool is_ahead; /* get: nobody waits for it yet, so awaited ones go first */
    void (*there)(void *user); /* n_there has risen; on the tier's thread. NULL: none */
    void *user;                /* of `there` */

    sp_record said; /* put: the header to write; get: the header read. Its arrays are in `memory`, without
                       layers and sums */
    uint64_t sums;  /* get: a hash of the checksums */
    sp_notes_load notes;
    void *own, *memory;
    sp_tier_op *op; /* of the put or the first get */
    sp_tier_key *after;  /* [n_after] put: sp_tier_job */
    int n_after;
    _Atomic int access;  /* moves.c: state of the blocks: free, a layer is being transferred, or cut */
    _Atomic int n_there; /* layers in the blocks, or taken; get: -1: the header has not arrived */
} sp_move;

sp_tier_key sp_move_key(const sp_move *m);
/* sp_move_record -- completes a record that has before, at, exact and statistics: the rest follows from the move and
 * the notes of its blocks. */
void sp_move_record(const sp_move *m, sp_record *r);
/* sp_move_bytes -- what a copy of n tokens with n_before segments before it takes on disk, with its statistics. */
int64_t sp_move_bytes(const sp_kv_pool *pool, int32_t n, int n_before);

/* `done` is called on the tier's thread, or on the one that withdraws, with the move as its user. */
typedef void sp_move_done(void *move, sp_tier_op *op);

/* sp_move_put -- submits a put of this record, whose arrays are copied. A path copy (`by_path`) is written after the
 * copies that it continues: its head. Errors: those of sp_tier_submit. Owns: sp_move_fini when it is done, and after
 * an error. */
sp_err sp_move_put(sp_move *m, sp_tier *t, const sp_record *r, bool by_path, sp_move_done *done) SP_MUST_CHECK;
/* sp_move_put_here -- as sp_move_put, for a tier that runs puts on the caller's thread. Errors: those of
 * sp_tier_op_result. */
sp_err sp_move_put_here(sp_move *m, sp_tier *t, const sp_record *r) SP_MUST_CHECK;
/* sp_move_get -- submits a get, urgent unless is_ahead. It ends with SP_E_NOTFOUND if the copy was replaced since its
 * first layers were read. A get of layer 0 starts over, also after a failed one. Errors, Owns: as sp_move_put. */
sp_err sp_move_get(sp_move *m, sp_tier *t, sp_move_done *done) SP_MUST_CHECK;
/* sp_move_cut -- from now on the tier neither reads nor writes the blocks, though its operation may continue; it ends
 * with SP_E_CANCELED. false: the transfer of a layer does not end within milliseconds; the blocks stay in use.
 * Thread: the owner's. */
bool sp_move_cut(sp_move *m);
/* sp_move_fini -- frees the move's memory and releases its operation. */
void sp_move_fini(sp_move *m);

#endif
