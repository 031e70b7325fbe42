/* config.h -- hyper-parameters of a model from GGUF metadata or a config.json: one table of names,
 * one set of checks. */
#ifndef SP_MODEL_CONFIG_H
#define SP_MODEL_CONFIG_H

#include "model/arch.h"
#include "model/gguf.h"
#include "model/json_file.h"
#include "model/model.h"

typedef enum sp_rope_scaling {
    SP_ROPE_PLAIN,
    SP_ROPE_LINEAR, /* positions divided by `factor` */
    SP_ROPE_LLAMA3, /* long wavelengths divided by `factor`, short ones kept, a ramp between */
    SP_ROPE_YARN,   /* the same idea with a ramp over pairs, and a factor on the magnitude */
} sp_rope_scaling;

/* What a file says about rotary positions; unset numbers are 0 until the defaults are filled in. */
typedef struct sp_rope_config {
    sp_rope_scaling scaling;
    int n_rot;   /* elements of a head that are rotated */
    double base; /* freq[i] = base ^ (-2 i / n_rot) before scaling */
    double part; /* Hugging Face: n_rot / D */
    double factor;
    int trained_ctx;                        /* context before scaling, tokens */
    double low, high;                       /* llama3: the ramp, in turns within trained_ctx */
    double beta_fast, beta_slow, attention; /* yarn */
} sp_rope_config;

typedef struct sp_config {
    const sp_arch *arch;
    sp_hparams hp; /* n_vocab is what the file claims, or 0: weights.c sets it from the embedding */
    sp_rope_config rope;
    bool adjacent; /* rotary pairs (2i, 2i+1) */
    bool tied;     /* config.json says so; otherwise tied when there is no output matrix */
    bool untied;   /* config.json says that there must be one */
} sp_config;

/* Errors: SP_E_FORMAT names file and field; SP_E_UNSUPPORTED: an architecture, a rotary scaling or
 * a feature by name. */
sp_err sp_config_of_gguf(const sp_gguf *g, sp_config *out) SP_MUST_CHECK;
/* `root` is the parsed config.json that lies at `path`. */
sp_err sp_config_of_json(const json_t *root, const char *path, sp_config *out) SP_MUST_CHECK;

/* sp_rope_fill -- the frequencies of a configuration into out->freq[n_rot / 2] (the caller's).
 * factors: what each frequency is divided by on top, [n_rot / 2] as in GGUF's rope_freqs.weight, or
 * NULL. Source: YaRN (Peng et al. 2023), section 3; Llama 3.1's model card for llama3. */
void sp_rope_fill(const sp_rope_config *c, const float *factors, bool adjacent, sp_rope_spec *out);

#endif
