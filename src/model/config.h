/* config.h -- reads the hyper-parameters of a model from GGUF metadata or config.json, with one
 * table of names and one set of checks. */
#ifndef SP_MODEL_CONFIG_H
#define SP_MODEL_CONFIG_H

#include "model/arch.h"
#include "model/gguf.h"
#include "model/json_file.h"
#include "model/model.h"

typedef enum sp_rope_scaling {
    SP_ROPE_PLAIN, /* dynamic NTK, too: it changes nothing within the trained context */
    SP_ROPE_LINEAR, /* positions divided by `factor` */
    SP_ROPE_LLAMA3, /* low frequencies divided by `factor`, high ones kept, a ramp between */
    SP_ROPE_YARN,   /* the same with a ramp over pairs, and a factor on the magnitude */
    SP_ROPE_LONG,   /* longrope: a factor for each pair, the short ones of two lists */
} sp_rope_scaling;

/* The rotary parameters of a file; missing numbers are 0 until defaults are filled in. */
typedef struct sp_rope_config {
    sp_rope_scaling scaling;
    int n_rot;   /* rotated elements of a head */
    double base; /* freq[i] = base ^ (-2 i / n_rot) before scaling */
    double part; /* n_rot / D (Hugging Face) */
    double factor;
    int trained_ctx;                        /* context before scaling, tokens */
    double low, high;                       /* llama3: the ramp, in turns within trained_ctx */
    double beta_fast, beta_slow; /* yarn */
    double attention;            /* factor on cos and sin */
    double mscale, mscale_all;   /* yarn: that factor is computed from these; 0: none */
    bool exact_ramp;             /* yarn: the ends of the ramp are not rounded to whole pairs */
    float short_factor[SP_HEAD_MAX / 2]; /* longrope, config.json; 0: none */
} sp_rope_config;

enum { SP_LAYERS_MAX = 1024 };
/* Flags of a layer. */
enum { SP_LAYER_LOCAL = 1, SP_LAYER_NO_ROPE = 2 };

/* Which matrices have biases, as config.json says. */
enum { SP_BIAS_QKV = 1, SP_BIAS_OUT = 2, SP_BIAS_FFN = 4 };

/* Weights of 8-bit floats (fp8.h): the part of a matrix that has one scale; 0 x 0: all of it. */
typedef struct sp_fp8_blocks {
    bool used; /* config.json says that weights may be such */
    int rows, columns;
} sp_fp8_blocks;

typedef struct sp_config {
    const sp_arch *arch;
    sp_hparams hp; /* n_vocab: the file's number or 0; weights.c sets it */
    sp_rope_config rope, rope_local; /* rope_local: of layers with a window; n_rot 0: not used */
    uint8_t layers[SP_LAYERS_MAX];   /* [n_layers] */
    int n_shared;                    /* experts that every token uses */
    int n_extra;                     /* layers after the last, which guess later tokens and are not read */
    int last_mixture;                /* the last layer with experts; -1: the last one */
    int gating;                      /* GGUF: 1 softmax, 2 sigmoid; 0: not said */
    int window_from;                 /* the first layer with a window, by max_window_layers */
    bool adjacent; /* rotary pairs (2i, 2i+1) */
    bool tied;     /* config.json says so; otherwise tied if there is no output matrix */
    bool untied;   /* config.json requires an output matrix */
    sp_fp8_blocks fp8;
    bool media;    /* a folder with parts for other media, which are not read */
    bool head_norms; /* config.json says that heads have norms; SP_QK_NORM_MAYBE */
    uint8_t biases;         /* SP_BIAS_*: what config.json says the matrices have */
    const char *bias_field; /* the field that says so, or NULL */
} sp_config;

/* sp_config_of_gguf, sp_config_of_json -- Errors: SP_E_FORMAT names file and field;
 * SP_E_UNSUPPORTED names the architecture, the rotary scaling or the feature. */
sp_err sp_config_of_gguf(const sp_gguf *g, sp_config *out) SP_MUST_CHECK;
sp_err sp_config_of_json(const json_t *root, const char *path, sp_config *out) SP_MUST_CHECK;

/* sp_config_is_of_media -- whether a tensor belongs to a part for other media. */
bool sp_config_is_of_media(const char *name, size_t n);

/* sp_rope_fill -- computes the frequencies of a configuration in out->freq[n_rot / 2], which the
 * caller owns. factors: an additional divisor for each frequency, [n_rot / 2] as in GGUF's
 * rope_freqs.weight, or NULL. Source: YaRN (Peng et al. 2023), section 3; Llama 3.1's model card
 * for llama3. */
void sp_rope_fill(const sp_rope_config *c, const float *factors, bool adjacent, sp_rope_spec *out);

#endif
