/* spolia_quality.h -- quality: one setting for how closely answers follow full attention, and what `spolia calibrate`
 * measured for a model. spolia.h includes it. */
#ifndef SPOLIA_QUALITY_H
#define SPOLIA_QUALITY_H

#include "spolia_context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Share of the chunks' tokens that a policy recomputes if the model is not calibrated. */
#define SP_DEFAULT_SHARE 0.15f

typedef struct sp_quality_info {
    const char *name, *policy; /* such as "balanced", and the reuse policy it uses if the model is not calibrated */
    float recompute;           /* the share of that policy */
    const char *help;
} sp_quality_info;

/* sp_qualities -- exact, balanced, fast: [*n]. Thread: any. */
SP_API const sp_quality_info *sp_qualities(int *n);

#define SP_POLICY_BYTES 160 /* of a policy with its parameters */

/* What a quality or a policy means for a model: fields of sp_reuse_opts. */
typedef struct sp_calibration {
    char policy[SP_POLICY_BYTES];
    float recompute;
    bool calibrated; /* read from MODEL.reuse.json beside the model; false: the default */
} sp_calibration;

/* sp_calibration_of_quality -- model: its path; NULL: defaults. Errors: SP_E_ARG names the qualities; SP_E_FORMAT,
 * SP_E_IO name file and field. Thread: any. */
SP_API sp_err sp_calibration_of_quality(const char *quality, const char *model, sp_calibration *out);
/* sp_calibration_of_policy -- the calibrated share of a policy, or the parameter that replaces the share. A parameter
 * that `policy` itself sets is kept. Errors: as above; SP_E_ARG of sp_reuse_parse. */
SP_API sp_err sp_calibration_of_policy(const char *policy, const char *model, sp_calibration *out);

#ifdef __cplusplus
}
#endif
#endif
