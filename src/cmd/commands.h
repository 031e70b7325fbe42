/* commands.h -- the commands of the `spolia` program, one file each: options, then calls of the
 * library. Those that measure reuse are in lab/lab.h. */
#ifndef SP_CMD_COMMANDS_H
#define SP_CMD_COMMANDS_H

#include "cli/cli.h"

int cmd_ask(int argc, char **argv);
int cmd_chat(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_index(int argc, char **argv);
int cmd_precompute(int argc, char **argv);
int cmd_embed(int argc, char **argv);
int cmd_search(int argc, char **argv);
int cmd_apply_template(int argc, char **argv);
int cmd_tokenize(int argc, char **argv);
int cmd_logits(int argc, char **argv);
int cmd_perplexity(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_config(int argc, char **argv);
int cmd_pull(int argc, char **argv);

extern const cli_command cmd_caches[]; /* `spolia cache NAME` */
extern const cli_command cmd_documents[]; /* `spolia documents NAME` */
extern const cli_command cmd_graphs[]; /* `spolia graph NAME`; the last has no name */

#endif
