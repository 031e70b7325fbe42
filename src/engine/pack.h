/* pack.h -- packs a plan (kv/pack.h) whose blocks are on the engine's device. */
#ifndef SP_ENGINE_PACK_H
#define SP_ENGINE_PACK_H

#include "engine/engine.h"
#include "kv/pack.h"

/* sp_engine_pack -- Errors: those of sp_plan_pack and of the device. Thread: as sp_engine_step. Cost: reads and
 * writes the tokens once in each layer. */
sp_err sp_engine_pack(sp_engine *e, sp_plan *p, const sp_packing *what) SP_MUST_CHECK;

#endif
