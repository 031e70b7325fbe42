/* slow_search.c -- loaded before the program by bench/ahead.py: each stage of a search takes SLOW_SEARCH_MS longer, as with
 * a database of passages that is large or far away. A stage that has new passages reads them with one statement. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int prepare_fn(void *db, const char *sql, int n, void **out, const char **tail);

int sqlite3_prepare_v2(void *db, const char *sql, int n, void **out, const char **tail)
{
    static prepare_fn *next;
    const char *ms = getenv("SLOW_SEARCH_MS");
    if (!next) next = (prepare_fn *)dlsym(RTLD_NEXT, "sqlite3_prepare_v2");
    if (ms && strstr(sql, "h.id IN (")) {
        const long wait = atol(ms);
        nanosleep(&(struct timespec){wait / 1000, wait % 1000 * 1000000}, NULL);
    }
    return next(db, sql, n, out, tail);
}
