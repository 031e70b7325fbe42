#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli/alloc.h"
#include "cli/path.h"

char *cli_last_part(const char *path)
{
    char whole[PATH_MAX];
    char *copy = cli_copy(path);
    size_t n = strlen(copy);
    while (n > 1 && copy[n - 1] == '/') copy[--n] = '\0';
    const char *slash = strrchr(copy, '/'), *last = slash && slash[1] ? slash + 1 : copy;
    if ((strcmp(last, ".") == 0 || strcmp(last, "..") == 0) && realpath(copy, whole)) {
        slash = strrchr(whole, '/');
        last = slash[1] ? slash + 1 : whole;
    }
    char *name = cli_copy(last);
    free(copy);
    return name;
}
