/* lab.h -- the laboratory's commands: what measures quality and speed. The only header of lab/ that
 * cmd/ may include; the library and programs that embed it do not need it. */
#ifndef SP_LAB_LAB_H
#define SP_LAB_LAB_H

#include "cli/cli.h"

int lab_eval(int argc, char **argv);
int lab_calibrate(int argc, char **argv);
int lab_sim(int argc, char **argv);
int lab_profile(int argc, char **argv);

extern const cli_command lab_benches[]; /* `spolia bench NAME`; the last has no name */

#endif
