/* studied.h -- studies as the engine runs them. */
#ifndef SP_ENGINE_SPARSE_STUDY_INT_H
#define SP_ENGINE_SPARSE_STUDY_INT_H

#include "engine/sparse/sparse_int.h"
#include "engine/sparse/study.h"

/* sp_study_spans -- spans of a slice that is studied in this step; 0: it is not. */
int sp_study_spans(const sp_slice *slice);
/* sp_study_layer -- after a layer's attention, whose requests are in e->reqs. Errors:
 * SP_E_UNSUPPORTED on a device whose memory the host does not reach, SP_E_NOMEM. */
sp_err sp_study_layer(sp_engine *e, const sp_kv_view *kv, const sp_slice *slices, int n_slices,
                      int layer) SP_MUST_CHECK;

#endif
