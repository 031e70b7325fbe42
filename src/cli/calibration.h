/* calibration.h -- the results of `spolia calibrate` for a model, in MODEL.reuse.json beside it:
 *
 *   {"version": 1, "policies": {"fusion": {"recompute": 0.15, "alpha": 0, "quality": 0.97,
 *                                          "wanted": 0.95, "questions": 40, ...}, ...}}
 */
#ifndef SP_CLI_CALIBRATION_H
#define SP_CLI_CALIBRATION_H

#include <stdbool.h>

#define CALIBRATION_DEFAULT_SHARE 0.15 /* of a policy without a result */

typedef struct calibration {
    double recompute, alpha; /* alpha > 0: instead of recompute */
    double quality, wanted;  /* share of off's F1: measured, and required */
    double recomputed;       /* mean share of chunk tokens recomputed */
    int n_questions;
} calibration;

/* calibration_path -- Owns: free. */
char *calibration_path(const char *model);

/* calibration_read -- *found: whether the policy has a result; it is then in *out. False after an
 * error message that names file and field. */
bool calibration_read(const char *path, const char *policy, calibration *out, bool *found);

/* calibration_write -- adds or replaces the policy's result, atomically. False after an error
 * message. */
bool calibration_write(const char *path, const char *policy, const calibration *c);

#endif
