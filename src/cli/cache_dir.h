/* cache_dir.h -- the program's folders in the user's cache. */
#ifndef SP_CLI_CACHE_DIR_H
#define SP_CLI_CACHE_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* cache_dir -- $XDG_CACHE_HOME/spolia/NAME, or ~/.cache/spolia/NAME. False, and "": the environment names no such
 * place, or it does not fit. Creates nothing. */
bool cache_dir(const char *name, char *out, size_t size);

/* cache_dir_make -- makes a folder and those above it, for the user alone. False: errno says why. */
bool cache_dir_make(const char *path);

#endif
