/* options.h -- options of a command as a table: parsing, --help and environment from one place.
 *
 * Every option with a long name can also be given as SPOLIA_ARG_<NAME> in the environment (upper
 * case, '_' for '-'); the command line wins. Single-letter and llama.cpp's short multi-letter
 * spellings (-ctk) work. */
#ifndef SP_CMD_OPTIONS_H
#define SP_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spolia.h"

typedef enum opt_kind {
    OPT_END,
    OPT_FLAG,   /* bool: set to true */
    OPT_INT,    /* int */
    OPT_U64,    /* uint64_t */
    OPT_FLOAT,  /* float */
    OPT_MIB,    /* size_t bytes, given in MiB */
    OPT_STRING, /* const char * */
    OPT_LIST,   /* opt_list: may be given several times */
} opt_kind;

typedef struct opt_list {
    const char *v[16];
    int n;
} opt_list;

typedef struct opt {
    opt_kind kind;
    const char *name; /* long name without dashes */
    char letter;      /* or 0 */
    const char *arg;  /* what the argument is called in --help; NULL for flags */
    void *dest;
    const char *help;
    bool required; /* of OPT_STRING: leaving it out is wrong usage */
} opt;

typedef struct opt_usage {
    const char *synopsis; /* after "usage: " */
    const char *about;    /* a sentence or two */
} opt_usage;

/* opt_parse -- fills the destinations. Returns the index of the first operand in argv, or -1 -
 * exit code: -1 after --help, -3 after a usage error (already explained). tables: NULL-terminated
 * list. */
int opt_parse(int argc, char **argv, const opt_usage *usage, const opt *const *tables);

/* Options that every command with a model shares, with their destinations. */
typedef struct model_options {
    sp_context_opts ctx;
    const char *type_k, *type_v; /* -ctk, -ctv: one pool holds both, so they must agree */
    bool verbose;
    opt table[24];
} model_options;

/* model_options_init -- defaults, and the table for opt_parse. */
void model_options_init(model_options *m);
/* model_options_open -- checks and opens the context. Returns NULL after explaining why not. */
sp_context *model_options_open(model_options *m);

/* The same for how an answer is sampled. */
typedef struct sampling_options {
    sp_sampling s;
    int max_tokens;
    opt_list stop;
    opt table[16];
} sampling_options;

void sampling_options_init(sampling_options *s, int max_tokens);

#endif
