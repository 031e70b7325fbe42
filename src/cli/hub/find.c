/* find.c -- what -m names: a path, or a name of the hub; and what to do when it is neither. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/alloc.h"
#include "cli/fail.h"
#include "cli/hub/hub_int.h"

#define POINTER "version https://git-lfs.github.com/spec/"

/* is_pointer -- the file is a note of Git LFS that says where the file is. */
static bool is_pointer(const char *path)
{
    char head[sizeof POINTER] = "";
    FILE *f = fopen(path, "rb");
    bool is =
        f && fread(head, 1, sizeof head - 1, f) == sizeof head - 1 && strcmp(head, POINTER) == 0;
    if (f) fclose(f);
    return is;
}

static bool fail_pointer(const char *path)
{
    cli_fail_with("%s: a Git LFS pointer, not the weights: run \"git lfs pull\" there, or use "
                  "spolia pull ORG/REPO",
                  path);
    return false;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

/* check_folder -- a folder with GGUF files but without config.json is not itself a model. */
static bool check_folder(const char *path)
{
    char gguf[1024] = "";
    bool config = false, good = true;
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && good && (e = readdir(dir));) {
        char *inside = cli_join(path, "/"), *file = cli_join(inside, e->d_name);
        config |= strcmp(e->d_name, "config.json") == 0;
        if (hub_is_gguf(e->d_name) && (!*gguf || strcmp(file, gguf) < 0)) snprintf(gguf, sizeof gguf, "%s", file);
        if (ends_with(e->d_name, ".safetensors") && is_pointer(file)) good = fail_pointer(file);
        free(file);
        free(inside);
    }
    if (dir) closedir(dir);
    if (!good || config || !*gguf) return good;
    cli_fail_with("%s: a folder without config.json; name a file in it: -m %s", path, gguf);
    return false;
}

static bool is_url(const char *given)
{
    return strncmp(given, "http://", 7) == 0 || strncmp(given, "https://", 8) == 0;
}

/* fail_url -- a page of the hub has the name in its path. */
static bool fail_url(const char *given)
{
    char name[200] = "";
    hub_name hub;
    const char *path = strstr(given, "://") + 3;
    path += strcspn(path, "/");
    if (*path == '/') path++;
    size_t n = strcspn(path, "/");
    if (path[n] == '/') n += 1 + strcspn(path + n + 1, "/?#");
    snprintf(name, sizeof name, "%.*s", (int)n, path);
    bool is_name = hub_name_of(name, &hub);
    cli_fail_with("%s: -m takes a path or " HUB_PREFIX "ORG/REPO, not a URL: try -m " HUB_PREFIX
                  "%s",
                  given, is_name ? name : "ORG/REPO, or download the file");
    return false;
}

static bool fail_missing(const char *given)
{
    hub_name hub;
    bool is_name = hub_name_of(given, &hub) && *given != '.' && !ends_with(given, ".gguf");
    if (is_name)
        cli_fail_with(
            "%s: there is no such file or folder; if it is a model of the hub: -m " HUB_PREFIX "%s",
            given, given);
    else
        cli_fail_with("%s: there is no such file or folder; spolia pull ORG/REPO downloads a model",
                      given);
    return false;
}

/* replace -- by the text, which then lives as long as the program. */
static bool replace(const char **given, const char *text)
{
    static char *kept[64]; /* more than any command takes */
    static size_t n_kept;
    if (n_kept == sizeof kept / sizeof *kept) return cli_fail_with("%s: too many models", *given), false;
    *given = kept[n_kept++] = cli_copy(text);
    return true;
}

/* name_folder -- without slashes at the end, and with a name for "." and "..": whatever a folder is called, it has the
 * same files beside it. */
static bool name_folder(const char **given)
{
    char whole[PATH_MAX];
    char *text = cli_copy(*given);
    size_t n = strlen(text);
    while (n > 1 && text[n - 1] == '/') text[--n] = '\0';
    const char *slash = strrchr(text, '/'), *last = slash ? slash + 1 : text;
    const bool dots = (strcmp(last, ".") == 0 || strcmp(last, "..") == 0) && realpath(text, whole);
    const bool good = dots ? replace(given, whole) : !(*given)[n] || replace(given, text);
    free(text);
    return good;
}

/* pull -- of a name with the prefix. */
static bool pull(const char **given)
{
    char path[4400];
    hub_pull p = {.revision = "main", .offline_first = true};
    if (!hub_name_of(*given, &p.name))
        return cli_fail_with("%s: the form is " HUB_PREFIX "ORG/REPO or " HUB_PREFIX
                             "ORG/REPO:QUANT",
                             *given),
               false;
    if (!hub_pull_model(&p, path, sizeof path)) return false;
    return replace(given, path);
}

bool hub_find_model(const char **given)
{
    struct stat st;
    if (strncmp(*given, HUB_PREFIX, strlen(HUB_PREFIX)) == 0) return pull(given);
    if (is_url(*given)) return fail_url(*given);
    if (stat(*given, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR
                   ? fail_missing(*given)
                   : (cli_fail_with("%s: %s", *given, strerror(errno)), false);
    if (S_ISDIR(st.st_mode)) return check_folder(*given) && name_folder(given);
    return !is_pointer(*given) || fail_pointer(*given);
}
