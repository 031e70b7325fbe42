/* policies.h -- the library's list of reuse policies (sp_reuse_policies) as help texts, eval, calibrate
 * and bench show it. */
#ifndef SP_CLI_POLICIES_H
#define SP_CLI_POLICIES_H

#include <stdbool.h>

#include "cli/options.h"
#include "spolia.h"

typedef sp_reuse_info cli_policy;

#define CLI_FUSED "+fused" /* after a name, in eval and calibrate: with fused copies */

/* cli_policies -- all, [*n]; the first is "off". */
const cli_policy *cli_policies(int *n);

/* cli_policy_find -- by name; NULL: unknown. *fused (may be NULL): the name ends in "+fused", which
 * is known of policies that reuse chunks at any position. */
const cli_policy *cli_policy_find(const char *name, bool *fused);

typedef enum cli_policy_set {
    CLI_ALL,
    CLI_ANYWHERE,
    CLI_RECOMPUTING,
    CLI_BUT_OFF,
    CLI_N_SETS
} cli_policy_set;

/* cli_policy_names -- "off, prefix, ..." of a set; cli_policy_list -- the same as a value for
 * options, "off,prefix,...". */
const char *cli_policy_names(cli_policy_set which);
const char *cli_policy_list(cli_policy_set which);

/* cli_policy_choices, cli_evict_choices -- reuse and replacement policies with their help texts, for --help. */
const opt_choice *cli_policy_choices(void);
const opt_choice *cli_evict_choices(void);

#endif
