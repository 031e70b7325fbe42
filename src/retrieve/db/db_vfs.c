/* db_vfs.c -- how SQLite looks at files. A commit that fails may leave its journal; the next transaction finds it and
 * takes back what the commit wrote. If the journal cannot be looked at, SQLite assumes that there is none: it shows
 * what the commit wrote, until a look finds the journal. Here a file that cannot be looked at is an error of the call
 * that needs to know. */
#include "retrieve/db/db_vfs.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

#define NAME "spolia"

static int (*usual_access)(sqlite3_vfs *v, const char *path, int flags, int *out);

static int look(sqlite3_vfs *v, const char *path, int flags, int *out)
{
    struct stat st;
    if (flags != SQLITE_ACCESS_EXISTS) return usual_access(v, path, flags, out);
    const bool found = stat(path, &st) == 0;
    *out = found && (!S_ISREG(st.st_mode) || st.st_size > 0); /* SQLite takes an empty file for none */
    const bool known = found || errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG;
    return known ? SQLITE_OK : SQLITE_IOERR_ACCESS;
}

static sqlite3_vfs vfs;

static void add(void)
{
    sqlite3_vfs *usual = sqlite3_vfs_find(NULL);
    if (!usual) return;
    vfs = *usual;
    vfs.zName = NAME;
    usual_access = usual->xAccess;
    vfs.xAccess = look;
    if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK) vfs.zName = NULL;
}

const char *sp_db_vfs(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, add);
    return vfs.zName;
}
