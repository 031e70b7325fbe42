/* path.h -- names that are taken from paths. */
#ifndef SP_CLI_PATH_H
#define SP_CLI_PATH_H

/* cli_last_part -- the last part of a path, without the slashes at its end. Where that is "." or "..", the name of the
 * folder it means. Owns: free. */
char *cli_last_part(const char *path);

#endif
