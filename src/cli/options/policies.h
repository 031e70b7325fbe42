/* policies.h -- the library's list of reuse policies (sp_reuse_policies) as help texts, eval, calibrate
 * and bench show it. */
#ifndef SP_CLI_POLICIES_H
#define SP_CLI_POLICIES_H

#include <stdbool.h>

#include "cli/options/options.h"
#include "spolia.h"

typedef sp_reuse_info cli_policy;

#define CLI_FUSED "+fused" /* after a name, in eval and calibrate: with fused copies */

/* cli_policies -- all, [*n]; the first is "off". */
const cli_policy *cli_policies(int *n);

/* cli_policy_find -- of "NAME" or "NAME+fused", with or without parameters after them (":key=value,..."), which are
 * not read; NULL: the default. Returns NULL if the name is unknown. *fused (may be NULL): the name ends in
 * "+fused", which only policies that reuse chunks at any position have. */
const cli_policy *cli_policy_find(const char *spec, bool *fused);

#define CLI_SPEC 160 /* bytes of a policy with its parameters */

/* cli_policy_read -- copies "NAME[+fused][:key=value,...]" without "+fused" to out [CLI_SPEC]. False after an error
 * message that begins with `option`. */
bool cli_policy_read(const char *option, const char *spec, char *out);
/* cli_policy_add -- adds key=value to a spec [CLI_SPEC] whose policy has that parameter and which does not set it. */
void cli_policy_add(char *spec, const char *key, double value);
/* cli_policy_has -- whether the policy has this parameter. */
bool cli_policy_has(const cli_policy *p, const char *key);
/* cli_policy_sets -- whether the spec sets it. */
bool cli_policy_sets(const char *spec, const char *key);
/* cli_policy_amount -- the value of the parameter that decides how much is recomputed in place of the share, or 0.
 * spec: one that cli_policy_read has accepted. */
double cli_policy_amount(const char *spec);
/* cli_policy_amount_param -- that parameter, or NULL. */
const sp_reuse_param *cli_policy_amount_param(const cli_policy *p);
/* cli_policy_next -- like strsep, cuts the first of a list of policies with commas between them; an item key=value
 * belongs to the policy before it. */
char *cli_policy_next(char **list);

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

/* cli_policy_choices, cli_evict_choices, cli_queue_choices -- reuse policies with their parameters, replacement
 * policies, and orders of the queue with their help texts, for --help. */
const opt_choice *cli_policy_choices(void);
const opt_choice *cli_evict_choices(void);
const opt_choice *cli_queue_choices(void);

#endif
