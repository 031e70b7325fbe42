/* options.h -- options of a command as tables: parsing, help, environment and config file from one
 * place.
 *
 * The command line wins over SPOLIA_ARG_<NAME> in the environment (upper case, '_' for '-'), which
 * wins over the config file (config.h). A flag reads 0, 1, true, false, yes, no, on or off in both; a
 * name that no command knows is refused. Single-letter and llama.cpp's short multi-letter spellings
 * (-ctk) work, and so do unique beginnings of long names. */
#ifndef SP_CLI_OPTIONS_H
#define SP_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum opt_kind {
    OPT_END,
    OPT_GROUP,  /* no option: `name` is a heading for those that follow */
    OPT_FLAG,   /* bool: set to true */
    OPT_INT,    /* int */
    OPT_U64,    /* uint64_t */
    OPT_FLOAT,  /* float */
    OPT_MIB,    /* size_t bytes, given in MiB */
    OPT_SIZE,   /* int64_t bytes, at least 1: a number and K, M, G or T; of MiB without a letter */
    OPT_STRING, /* const char * */
    OPT_LIST,   /* opt_list: may be given several times */
} opt_kind;

typedef struct opt_list {
    const char *v[16];
    int n;
} opt_list;

/* A value of an option. */
typedef struct opt_choice {
    const char *name, *help;
} opt_choice;

/* What a number may be, in the unit of its argument. most 0: anything. */
typedef struct opt_limits {
    double least, most;
    bool above; /* `least` itself is not allowed */
} opt_limits;

typedef struct opt {
    opt_kind kind;
    const char *name; /* long name without dashes */
    char letter;      /* or 0 */
    const char *arg;  /* name of the argument in --help; NULL for flags */
    void *dest;
    const char *help;
    bool common;   /* --help shows the common and required options of a table, or all where none is
                      common; --help-all shows all */
    bool required; /* of OPT_STRING: leaving it out is wrong usage */
    const opt_choice *choices; /* its values, explained below it in help; the last has no name.
                                  NULL: none */
    bool is_model; /* of OPT_STRING and OPT_LIST: opt_parse makes hf:ORG/REPO a path (hub/hub.h) */
    opt_limits limits; /* of OPT_INT, OPT_FLOAT and OPT_MIB */
} opt;

/* A table whose options have effect only beside a flag. On the command line they are refused without it; from the
 * environment and the config file, which are for several commands, they are not. */
typedef struct opt_needs {
    const opt *table; /* NULL ends a list */
    const bool *flag;
    const char *name; /* of the flag */
} opt_needs;

typedef struct opt_usage {
    const char *synopsis; /* after "usage: spolia "; it begins with the command's words */
    const char *about;    /* a paragraph or more */
    const opt_needs *needs; /* NULL: none */
} opt_usage;

/* opt_parse -- fills the destinations. Returns the index of the first operand in argv, or
 * -1 - exit code: -1 after --help and, after an error message, -3 for wrong usage and
 * -2 if a model cannot be found or downloaded. tables: NULL-terminated list; at most
 * OPT_MAX options, which is asserted. With --json, later errors are printed as JSON too (cli_fail_as_json). */
int opt_parse(int argc, char **argv, const opt_usage *usage, const opt *const *tables);

#define OPT_MAX 96

/* A visitor sees the options of a command instead of having them parsed: while one is set,
 * opt_parse calls it and returns -1, and the command ends at once. NULL: none. */
typedef void opt_visitor(const opt_usage *usage, const opt *const *tables, void *user);
void opt_visit(opt_visitor *visitor, void *user);

/* opt_command_of -- the words of the command, such as "bench reuse": the synopsis up to the first
 * word that is not in lower case. */
void opt_command_of(const opt_usage *usage, char *out, size_t size);

/* Options of all commands, for the check of SPOLIA_ARG_ names and of the config file. */
typedef struct opt_names {
    const char *v[1024];
    const char *of[1024]; /* synopsis of the command */
    size_t n;
} opt_names;

void opt_names_add(opt_names *names, const opt_usage *usage, const opt *const *tables);

/* opt_check_environment -- false after an error message that names a SPOLIA_ARG_ variable which is
 * no option of any command. */
bool opt_check_environment(const opt_names *known);
/* opt_check_config -- false after an error message that names the line of the config file with a
 * command or an option that does not exist. */
bool opt_check_config(const opt_names *known);

/* Where the value of an option is from. */
typedef enum opt_from { OPT_DEFAULT, OPT_FILE, OPT_ENVIRONMENT, OPT_LINE } opt_from;

typedef struct opt_origin {
    opt_from from;
    const char *text;    /* as it was given; of a list the last one */
    const char *section; /* OPT_FILE: section and line of the config file */
    int line;
} opt_origin;

/* opt_resolve -- fills the destinations from the config file and the environment. all [n]: the
 * options as opt_flatten lists them. False after an error message. */
bool opt_resolve(const opt_usage *usage, const opt *const *all, int n, opt_origin *origins);
/* opt_flatten -- the options of the tables without headings. all [OPT_MAX]. Returns how many. */
int opt_flatten(const opt *const *tables, const opt **all);
/* opt_is_short -- llama.cpp's spellings with one dash, such as -ctk. */
bool opt_is_short(const opt *o);
/* opt_variable_of -- "SPOLIA_ARG_KV_MEMORY" of "kv-memory". */
void opt_variable_of(const char *option, char *out, size_t size);

#endif
