/* config_int.h -- a configuration being read: where numbers come from, and their names in messages. For config*.c
 * alone. */
#ifndef SP_MODEL_CONFIG_INT_H
#define SP_MODEL_CONFIG_INT_H

#include <stddef.h>

#include "model/config.h"

typedef struct sp_source {
    const char *path;
    const sp_arch *arch;
    const char *prefix;       /* of GGUF keys: general.architecture */
    const sp_gguf *gguf;      /* NULL: a config.json */
    const json_t *root;       /* config.json, or its text_config */
    json_t *rope;             /* its rope_scaling or rope_parameters, or NULL */
    json_t *rope_local;       /* that of local layers, if it is separate */
    const char *rope_section; /* the name of that section */
    bool media;               /* the text part of a model of several media */
} sp_source;

typedef enum sp_param_kind { SP_PARAM_INT, SP_PARAM_FLOAT, SP_PARAM_DOUBLE } sp_param_kind;

/* A number and its names. GGUF keys follow "<architecture>."; "rope." in config.json means inside
 * rope_scaling or rope_parameters. If a file has both names, the later row wins. */
typedef struct sp_param {
    size_t field; /* offset in sp_config */
    sp_param_kind kind;
    const char *gguf, *hf;
    double min, max;
    bool required;
    uint64_t when; /* traits that read it; 0: every architecture does */
} sp_param;

#define SP_CONFIG_AT(field)  offsetof(sp_config, field)
#define SP_CONFIG_NAME_BYTES 128

/* The tables of numbers: config.c, config_rope.c. */
typedef struct sp_params {
    const sp_param *v;
    size_t n;
} sp_params;
sp_params sp_config_numbers(void);
sp_params sp_config_rope_numbers(void);

/* sp_config_reads -- whether the architecture uses the parameter. */
static inline bool sp_config_reads(const sp_source *s, const sp_param *p)
{
    return (p->when == 0 || (p->when & s->arch->traits)) && (s->gguf ? p->gguf : p->hf);
}

/* sp_config_full_name -- the full name of a parameter in this kind of file. */
const char *sp_config_full_name(const sp_source *s, const sp_param *p, char *buf);
/* sp_config_name -- the name of a field in this file. */
const char *sp_config_name(const sp_source *s, size_t field, char *buf);
/* sp_config_number -- the number that p names in this file; *found is false if it is missing or null.
 * Errors: SP_E_FORMAT if it is no number. */
sp_err sp_config_number(const sp_source *s, const sp_param *p, double *out,
                        bool *found) SP_MUST_CHECK;
/* sp_config_read -- reads the numbers of a table into their fields. */
sp_err sp_config_read(const sp_source *s, sp_params params, sp_config *c) SP_MUST_CHECK;

/* -- config_rope.c -------------------------------------------------------------------------- */

/* sp_config_find_rope -- finds the rotary sections of a config.json. */
sp_err sp_config_find_rope(sp_source *s) SP_MUST_CHECK;
/* sp_config_rope -- reads type and numbers of both rotary embeddings and fills in defaults. Pre: heads are known. */
sp_err sp_config_rope(const sp_source *s, sp_config *c) SP_MUST_CHECK;

/* -- config_media.c ------------------------------------------------------------------------- */

/* sp_config_find_text -- *type: the model_type of s->root, or NULL. If it is that of a model of several media, the
 * type is that of its text part, to which root and path of s go; *path is then to be freed, or NULL. */
sp_err sp_config_find_text(sp_source *s, const char **type, char **path) SP_MUST_CHECK;

/* -- config_layers.c ------------------------------------------------------------------------ */

/* sp_config_layers -- reads which layers have a window, and which do not rotate. */
sp_err sp_config_layers(const sp_source *s, sp_config *c) SP_MUST_CHECK;

/* -- config_claims.c ------------------------------------------------------------------------ */

/* sp_config_claims -- Errors: SP_E_UNSUPPORTED names the first parameter that nothing reads, unless it
 * is known to change no result, or has a neutral value. */
sp_err sp_config_claims(const sp_source *s) SP_MUST_CHECK;

#endif
