/* config.h -- the config file: values of options that neither the command line nor the environment
 * gives. An INI file, read by libinih:
 *
 *     [spolia]                     every command that has the option
 *     model = ~/models/qwen.gguf   ~/ is the home folder; a comment begins with ; or #
 *     [bench reuse]                this command only; stronger than [spolia]
 *     recompute = 0.2
 *
 * A key is an option's long name. An option that may be repeated may be repeated here. An indented line
 * continues the value above, after a line end. libinih's lines have at most CONFIG_LINE bytes. */
#ifndef SP_CLI_CONFIG_H
#define SP_CLI_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#define CONFIG_ALL  "spolia" /* section of all commands */
#define CONFIG_LINE 198

typedef struct config_setting {
    char section[56], key[56];
    char *value;
    int line;
} config_setting;

typedef struct config_file {
    char *path; /* NULL: there is no home folder, or SPOLIA_CONFIG is empty */
    bool is_there;
    config_setting *v; /* [n] in the order of the file */
    size_t n;
} config_file;

/* config_open -- reads the file: `given` (of --config), else SPOLIA_CONFIG, else
 * $XDG_CONFIG_HOME/spolia/config, by default ~/.config/spolia/config. Only the last may be missing.
 * False after an error message that names the file and the line. */
bool config_open(const char *given);
/* config_get -- what config_open has read; empty before. */
const config_file *config_get(void);
/* config_close -- values that were taken from the file are invalid afterwards. */
void config_close(void);

#endif
