/* calibration.h -- what `spolia calibrate` found for a model, in MODEL.reuse.json beside it:
 *
 *   {"version": 1, "policies": {"fusion": {"recompute": 0.15, "alpha": 0, "quality": 0.97,
 *                                          "wanted": 0.95, "questions": 40, ...}, ...}}
 */
#ifndef SP_CMD_CALIBRATION_H
#define SP_CMD_CALIBRATION_H

#include <stdbool.h>

#define DEFAULT_SHARE 0.15 /* of a policy that nothing was found for */

typedef struct calibration {
    double recompute, alpha; /* alpha > 0: instead of recompute */
    double quality, wanted;  /* share of off's F1: measured, and asked for */
    double recomputed;       /* mean share of chunk tokens computed again */
    int n_questions;
} calibration;

/* calibration_path -- Owns: free. */
char *calibration_path(const char *model);

/* calibration_read -- *found: there is an entry, and it is in *out. False after naming file and
 * field. */
bool calibration_read(const char *path, const char *policy, calibration *out, bool *found);

/* calibration_write -- adds or replaces the policy's entry; the file is whole at any time. False
 * after explaining. */
bool calibration_write(const char *path, const char *policy, const calibration *c);

#endif
