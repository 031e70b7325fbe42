/* store.c -- the stores that `spolia ask` uses by itself.
 *
 *   --store DIR                 that one
 *   FILE.kv beside the index    what spolia index --precompute made
 *   ~/.cache/spolia/asked       whole prompts, so that the same question is fast in the next process, too; only with
 *                               a policy that is exact and finds by path: answers do not depend on what is there
 */
#include "cmd/ask/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cache_dir.h"
#include "cli/cli.h"
#include "cli/options/policies.h"
#include "cli/show.h"

#define CACHE_BYTES ((int64_t)2 << 30)

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* may_read -- whether this user may read the folder and those in it; else errno says why not. */
static bool may_read(const char *path)
{
    DIR *all = opendir(path);
    if (!all) return false;
    bool good = true;
    for (const struct dirent *e; good && (e = readdir(all));) {
        struct stat st;
        if (e->d_name[0] == '.' || fstatat(dirfd(all), e->d_name, &st, 0) != 0 || !S_ISDIR(st.st_mode)) continue;
        good = faccessat(dirfd(all), e->d_name, R_OK | X_OK, AT_EACCESS) == 0;
    }
    const int number = errno;
    closedir(all);
    errno = number;
    return good;
}

/* beside -- another user's store that cannot even be read is no reason not to answer. */
static bool beside(ask_store *s, const char *index)
{
    int n = index ? snprintf(s->path, sizeof s->path, "%s.kv", index) : -1;
    const bool there = n > 0 && (size_t)n < sizeof s->path && is_folder(s->path);
    if (there && may_read(s->path)) return true;
    if (there) cli_warn("%s: %s; its copies are not used", s->path, strerror(errno));
    s->path[0] = '\0';
    return false;
}

static bool is_exact(const cli_policy *p)
{
    return p && p->exact && !p->anywhere && strcmp(p->name, "off") != 0;
}

void ask_store_choose(ask_store *s, model_options *m, const char *index)
{
    const cli_policy *p = cli_policy_find(m->reuse, NULL);
    *s = (ask_store){.said = true};
    if (m->ctx.tiers.store || !p || strcmp(p->name, "off") == 0) return;
    if (!beside(s, index)) {
        if (!is_exact(p) || !cache_dir("asked", s->path, sizeof s->path)) return;
        s->said = is_folder(s->path);
        if (!s->said &&
            !cache_dir_make(s->path)) { /* a read-only home is no reason not to answer */
            *s = (ask_store){.said = true};
            return;
        }
        if (!m->ctx.tiers.store_bytes) m->ctx.tiers.store_bytes = CACHE_BYTES;
    }
    m->ctx.tiers.store = s->path;
}

void ask_store_say(const ask_store *s, const model_options *m)
{
    char size[SHOW_SIZE];
    if (s->said) return;
    cli_warn("prompts are kept in %s (at most %s), so that they are read faster when asked again; "
             "--no-store keeps none",
             s->path, show_size(size, m->ctx.tiers.store_bytes));
}
