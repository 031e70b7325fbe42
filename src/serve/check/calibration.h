/* calibration.h -- MODEL.reuse.json: the result of `spolia calibrate`, beside the model.
 *
 *   {"version": 1,
 *    "policies":  {"fusion": {"recompute": 0.15, "alpha": 0, "quality": 0.97, "wanted": 0.95, "questions": 40, ...}},
 *    "qualities": {"balanced": {"policy": "fusion", "recompute": 0.3, "alpha": 0, "loss": 0.012, "loss_low": 0.004,
 *                               "loss_high": 0.019, "questions": 400, ...}}}
 *
 * quality, wanted: share of full attention's F1, measured and required. loss: of the answers' mean negative
 * log-likelihood, relative to full attention's, with its 95 % interval. */
#ifndef SP_SERVE_CHECK_CALIBRATION_H
#define SP_SERVE_CHECK_CALIBRATION_H

#include <jansson.h>

#include "base/err.h"

#define SP_CALIBRATED_POLICIES  "policies"
#define SP_CALIBRATED_QUALITIES "qualities"

/* sp_calibration_path -- of a model. Owns: sp_free; NULL when memory is exhausted. */
char *sp_calibration_path(const char *model);

/* sp_calibration_check -- whether sp_calibration_write can add to the file that a model has; SP_OK if it has none.
 * Errors: SP_E_FORMAT, SP_E_IO name the file; SP_E_NOMEM. */
sp_err sp_calibration_check(const char *model) SP_MUST_CHECK;

/* sp_calibration_write -- adds or replaces an entry of a section, atomically. Takes ownership of `entry`, also on
 * failure. Errors: SP_E_FORMAT, SP_E_IO name the file; SP_E_NOMEM. */
sp_err sp_calibration_write(const char *model, const char *section, const char *name, json_t *entry) SP_MUST_CHECK;

#endif
