/* pack_cache.h -- a folder of packs, one per model and layout, within a budget. For model/ alone. */
#ifndef SP_MODEL_PACK_CACHE_H
#define SP_MODEL_PACK_CACHE_H

#include "model/model.h"
#include "model/pack_file.h"

/* sp_pack_cache_find -- maps the pack of this name. A pack that
 * is damaged, or that another user wrote, is removed and logged.
 * Errors: SP_E_NOTFOUND (no usable pack), SP_E_NOMEM. */
sp_err sp_pack_cache_find(const char *dir, const sp_pack_name *name, int n_threads,
                          sp_pack_map *out) SP_MUST_CHECK;

/* Writes one pack in its own thread. */
typedef struct sp_pack_writer sp_pack_writer;

/* sp_pack_writer_start -- `weights` must not change until finish; `o` is copied. NULL if the thread cannot be
 * created; nothing is written then. */
sp_pack_writer *sp_pack_writer_start(const sp_pack_opts *o, const sp_pack_name *name,
                                     const uint8_t *weights);
/* sp_pack_writer_finish -- waits until the pack is written. NULL is allowed. */
void sp_pack_writer_finish(sp_pack_writer *w);

#endif
