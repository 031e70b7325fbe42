/* spolia_quality.h -- quality: the one knob for how near to full attention answers are, and what `spolia calibrate`
 * found for a model. spolia.h includes it. */
#ifndef SPOLIA_QUALITY_H
#define SPOLIA_QUALITY_H

#include "spolia_context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Share of the chunks' tokens that a policy recomputes where nothing was calibrated. */
#define SP_DEFAULT_SHARE 0.15f

typedef struct sp_quality_info {
    const char *name, *policy; /* "balanced", and the reuse policy that it is unless calibrated otherwise ... */
    float recompute;           /* ... with its share */
    const char *help;
} sp_quality_info;

/* sp_qualities -- exact, balanced, fast: [*n]. Thread: any. */
SP_API const sp_quality_info *sp_qualities(int *n);

#define SP_POLICY_BYTES 160 /* of a policy with its parameters */

/* What a quality or a policy means for a model: fields of sp_reuse_opts. */
typedef struct sp_calibration {
    char policy[SP_POLICY_BYTES];
    float recompute;
    bool calibrated; /* MODEL.reuse.json, beside the model, says so; else the default */
} sp_calibration;

/* sp_calibration_of_quality -- model: its path; NULL: defaults. Errors: SP_E_ARG names the qualities; SP_E_FORMAT,
 * SP_E_IO name file and field. Thread: any. */
SP_API sp_err sp_calibration_of_quality(const char *quality, const char *model, sp_calibration *out);
/* sp_calibration_of_policy -- of a policy with or without parameters: the share, or the parameter that replaces it,
 * unless it sets that. Errors: as above; SP_E_ARG of sp_reuse_parse. */
SP_API sp_err sp_calibration_of_policy(const char *policy, const char *model, sp_calibration *out);

#ifdef __cplusplus
}
#endif
#endif
