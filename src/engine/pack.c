#include "engine/pack.h"

#include <string.h>

#include "engine/state.h"

void sp_engine_copy_slots(sp_engine *e, int first_layer, int64_t m)
{
    const sp_kv_slot *slots = e->slots.dev;
    sp_mirror_push(&e->slots, e->slots.mem.n_bytes);
    for (int l = first_layer; l < e->o.model->hp.n_layers; l++) {
        const sp_kv_view kv = sp_kv_pool_layer(e->o.pool, l);
        sp_device_kv_copy(e->device,
                          &(sp_kv_copy_args){.kv = &kv, .from = slots, .to = slots + e->o.max_rows, .m = m});
    }
}

/* copy_piece -- at most max_rows tokens, in all layers. */
static sp_err copy_piece(sp_engine *e, const sp_kv_slot *from, const sp_kv_slot *to, int64_t m)
{
    sp_kv_slot *host = e->slots.host;
    SP_TRY(sp_mirror_settle(&e->slots));
    memcpy(host, from, (size_t)m * sizeof *host);
    memcpy(host + e->o.max_rows, to, (size_t)m * sizeof *host);
    sp_engine_copy_slots(e, 0, m);
    return SP_OK;
}

static sp_err copy_tokens(void *user, const sp_kv_slot *from, const sp_kv_slot *to, int64_t n)
{
    sp_engine *e = user;
    for (int64_t i = 0; i < n; i += e->o.max_rows)
        SP_TRY(copy_piece(e, from + i, to + i, SP_MIN(n - i, e->o.max_rows)));
    return sp_device_synchronise(e->device);
}

sp_err sp_engine_pack(sp_engine *e, sp_plan *p, const sp_packing *what)
{
    return sp_plan_pack(p, what, copy_tokens, e);
}
