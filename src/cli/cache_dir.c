#include "cli/cache_dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool cache_dir(const char *name, char *out, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = 0;
    if (cache && *cache == '/')
        n = snprintf(out, size, "%s/spolia/%s", cache, name);
    else if (home && *home == '/')
        n = snprintf(out, size, "%s/.cache/spolia/%s", home, name);
    bool fits = n > 0 && (size_t)n < size;
    if (!fits) *out = '\0';
    return fits;
}

bool cache_dir_make(const char *path)
{
    char part[4096];
    size_t n = strlen(path);
    if (n >= sizeof part) return errno = ENAMETOOLONG, false;
    memcpy(part, path, n + 1);
    for (char *c = part + 1;; c++) {
        char was = *c;
        if (was != '/' && was != '\0') continue;
        *c = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST) return false;
        if (!was) return true;
        *c = was;
    }
}
