/* model_options.h -- the options that commands share: the model and its memory, reuse, sampling. */
#ifndef SP_CLI_MODEL_OPTIONS_H
#define SP_CLI_MODEL_OPTIONS_H

#include "cli/options/options.h"
#include "cli/options/policies.h"
#include "spolia.h"

typedef struct model_options {
    sp_context_opts ctx;
    const char *type_k, *type_v; /* -ctk, -ctv: one pool holds both, so they must agree */
    const char *preload, *admit, *resident, *quality;
    const char *reuse;           /* as given: a policy and its parameters */
    float alpha;                 /* --alpha, --focus: other spellings of parameters of craft; NAN, 0: not given */
    int focus;
    char policy[CLI_SPEC];       /* of ctx.reuse, once opened */
    bool verbose, no_pack_cache;
    char packs[1024]; /* the default of ctx.packs */
    char recompute_help[128];
    opt table[54];
} model_options;

/* Rows of a table: the kernels. */
#define OPT_CPU(to)                                                                                                   \
    {OPT_STRING, "cpu", 0, "NAME", to,                                                                                \
     "kernels: ref, avx2, avxvnni, avx512, vnni, amx, neon, i8mm (the best for this CPU)"}
#define OPT_EXACT_PRODUCTS(to)                                                                                        \
    {OPT_FLAG, "exact-products", 0, NULL, to,                                                                         \
     "where these kernels round a product's inputs to 8 bits, give them 15: slower"}
#define OPT_AMX_F16(to)                                                                                               \
    {OPT_FLAG, "amx-f16", 0, NULL, to,                                                                                \
     "kernels of amx, with F16 weights rounded to bf16; without it they are multiplied as floats"}
#define OPT_AMX_ATTEND(to)                                                                                            \
    {OPT_FLAG, "amx-attend", 0, NULL, to,                                                                             \
     "kernels of amx, with attention over keys and values in q16 rounded to bf16; without it in 16-bit integers"}

/* model_options_init -- defaults, and the table for opt_parse. */
void model_options_init(model_options *m);
/* model_options_compares -- for commands that compare policies: --help does not show --reuse, and --quality is
 * none of their options. */
void model_options_compares(model_options *m);
/* model_options_policy -- adds what --alpha and --focus say to a spec [CLI_SPEC]. */
void model_options_policy(const model_options *m, char *spec);
/* model_options_check -- Returns the exit code after an error message, 2 for values that no model could have, or 0. */
int model_options_check(const model_options *m);
/* model_options_open -- checks and opens the context. NULL after an error message. */
sp_context *model_options_open(model_options *m);

typedef struct sampling_options {
    sp_sampling s;
    int max_tokens;
    opt_list stop;
    char predict_help[64];
    opt table[16];
} sampling_options;

void sampling_options_init(sampling_options *s, int max_tokens);

#define SCHEMA_HELP "the answer is JSON that this JSON Schema accepts"

/* schema_open -- the grammar of a file with a JSON Schema. NULL: none, and *out is NULL. False after
 * an error message. Owns: sp_grammar_destroy. */
bool schema_open(const char *path, sp_grammar **out);

#endif
