/* cache.h -- `spolia cache`: what a store holds, and changes to it, without a model. */
#ifndef SP_CMD_CACHE_H
#define SP_CMD_CACHE_H

#include <jansson.h>

#include "cli/cli.h"
#include "cli/json.h"

/* What all its commands share. */
typedef struct cache_options {
    const char *store, *remote, *remote_key_file, *remote_ca; /* one of the first two */
    const char *name; /* of the store, without a password */
    bool as_json;
    opt table[6];
} cache_options;

/* cache_parse -- as opt_parse, for a command with n_operands operands; own: more options, or NULL. A
 * negative result is -1 - exit code. */
int cache_parse(int argc, char **argv, const opt_usage *usage, cache_options *o, const opt *own,
                int n_operands);
/* cache_open -- the folder or the server that the options name. Errors: as sp_store_open, sp_store_open_remote. */
sp_err cache_open(const cache_options *o, sp_store_mode mode, sp_store **out);

/* cache_copies -- "copy" or "copies". */
const char *cache_copies(int64_t n);

int cmd_cache_list(int argc, char **argv);
int cmd_cache_show(int argc, char **argv);
int cmd_cache_verify(int argc, char **argv);
int cmd_cache_export(int argc, char **argv);
int cmd_cache_import(int argc, char **argv);
int cmd_cache_drop(int argc, char **argv);
int cmd_cache_gc(int argc, char **argv);

#endif
