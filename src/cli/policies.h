/* policies.h -- the reuse policies as the program shows them: the one list that help texts, eval,
 * calibrate and bench derive theirs from. */
#ifndef SP_CLI_POLICIES_H
#define SP_CLI_POLICIES_H

#include <stdbool.h>

typedef struct cli_policy {
    const char *name;
    const char *help;    /* a phrase */
    bool exact;          /* answers are those of "off" */
    bool anywhere;       /* reuses chunks at any position, fused copies too */
    bool recomputes;     /* recomputes a share of the chunks' tokens: has a ratio */
    bool own_statistics; /* reads statistics of copies that only its own requests record */
    bool keeps_placed;   /* keeps copies conditioned on the chunks that preceded them in a prompt */
} cli_policy;

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

#endif
