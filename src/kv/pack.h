/* pack.h -- moves scattered joined spans into consecutive slots, for the rest of a plan's life.
 *
 *   stored   | A . . . | . B B . | C . . . |    nodes of a lower tier, or of other questions
 *   packed   | A B B C |                        attention reads such a block in place (compute/ops.h: joined)
 *
 * Keys keep the positions that they are rotated for, and spans their shifts: only bytes are copied, so results
 * are the same to the bit. Spans of one shift that follow each other are a run; a run begins a block. */
#ifndef SP_KV_PACK_H
#define SP_KV_PACK_H

#include "kv/plan.h"

/* What packing a plan would move: runs of which attention gathers at least a quarter in each step. */
typedef struct sp_packing {
    int32_t n_tokens;
    int64_t n_blocks; /* that they take */
} sp_packing;

/* Copies the KV of n tokens in all layers; returns when the copy is complete. */
typedef sp_err sp_pack_copy(void *user, const sp_kv_slot *from, const sp_kv_slot *to, int64_t n);

/* sp_plan_packing -- Pre: a bound plan, each span of which a sight without a list shows in this order.
 * Cost: O(tokens). */
sp_packing sp_plan_packing(const sp_plan *p);
/* sp_plan_pack -- moves them; the plan then holds the new blocks instead of the old ones. Pre: the KV of all
 * joined spans is computed, and in the pool's memory. Errors: SP_E_NOKV, SP_E_NOMEM, those of `copy`; the plan
 * is then unchanged. */
sp_err sp_plan_pack(sp_plan *p, const sp_packing *what, sp_pack_copy *copy,
                    void *user) SP_MUST_CHECK;

#endif
