/* choose.c -- which files of a repository are the model: a GGUF file, the parts of a split one, or safetensors with
 * what describes them. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "cli/fail.h"
#include "cli/hub/hub_int.h"

/* Taken where none is named: small and still good first. */
static const char *const preferred[] = {"Q4_K_M", "Q4_0", "Q5_K_M", "Q6_K", "Q8_0", "F16", "BF16"};

enum { SPLIT_END = sizeof "-00001-of-00003.gguf" - 1 };

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

/* split_of -- the number of files of the model of which this is a part, "...-00001-of-00003.gguf"; 0: a whole model.
 * *part: from 1. */
static int split_of(const char *path, int *part)
{
    int n, end = 0;
    const size_t length = strlen(path);
    if (length <= SPLIT_END) return 0;
    const char *at = path + length - SPLIT_END;
    return sscanf(at, "-%5d-of-%5d.gguf%n", part, &n, &end) == 2 && end == SPLIT_END && n > 1 ? n : 0;
}

bool hub_is_gguf(const char *path)
{
    int part;
    return ends_with(path, ".gguf") && !strcasestr(path, "mmproj") && (!split_of(path, &part) || part == 1);
}

/* is_word -- whether a name has the type as a word of its own: Q4_K is none in Q4_K_M. */
static bool is_word(const char *path, const char *type)
{
    size_t n = strlen(type);
    for (const char *at = path; (at = strcasestr(at, type)); at++) {
        bool begins = at == path || !isalnum((unsigned char)at[-1]);
        bool ends = !isalnum((unsigned char)at[n]) && at[n] != '_';
        if (begins && ends) return true;
    }
    return false;
}

static void list_types(const hub_list *l, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n && n < size; i++)
        if (hub_is_gguf(l->v[i].path))
            n += (size_t)snprintf(out + n, size - n, "%s%s", n ? ", " : "", l->v[i].path);
}

static hub_file *find_type(const hub_list *l, const char *type)
{
    for (size_t i = 0; i < l->n; i++)
        if (hub_is_gguf(l->v[i].path) && is_word(l->v[i].path, type)) return &l->v[i];
    return NULL;
}

/* want_parts -- marks a file and the other parts of its model; false: the hub lacks some. */
static bool want_parts(hub_list *l, hub_file *first)
{
    int part, n_found = 0;
    const int n = split_of(first->path, &part);
    const size_t stem = strlen(first->path) - SPLIT_END;
    first->wanted = true;
    for (size_t i = 0; n && i < l->n; i++) {
        hub_file *f = &l->v[i];
        if (strlen(f->path) != stem + SPLIT_END || strncmp(f->path, first->path, stem) != 0) continue;
        if (split_of(f->path, &part) != n) continue;
        f->wanted = true;
        n_found++;
    }
    return n_found == n;
}

static bool choose_gguf(const hub_name *name, hub_list *l, int n_ggufs, const hub_file **out)
{
    hub_file *f = *name->quant ? find_type(l, name->quant) : NULL;
    for (size_t i = 0; !*name->quant && !f && i < sizeof preferred / sizeof *preferred; i++)
        f = find_type(l, preferred[i]);
    for (size_t i = 0; !*name->quant && !f && n_ggufs == 1 && i < l->n; i++)
        if (hub_is_gguf(l->v[i].path)) f = &l->v[i];
    char types[700] = "";
    list_types(l, types, sizeof types);
    if (!f && *name->quant)
        cli_fail_with("%s has no file of type %s: %s", name->repo, name->quant, types);
    else if (!f)
        cli_fail_with("%s: choose one of its types, as in " HUB_PREFIX "%s:Q8_0: %s", name->repo,
                      name->repo, types);
    else if (!want_parts(l, f))
        cli_fail_with("%s: %s is part of a model in several files, and the hub lacks some of them", name->repo,
                      f->path);
    else
        *out = f;
    return *out != NULL;
}

/* is_part -- of a folder that describes its weights in config.json. */
static bool is_part(const hub_file *f, bool has_model)
{
    static const char *const names[] = {"tokenizer.model", "merges.txt", "vocab.txt"};
    if (strchr(f->path, '/')) return false;
    if (ends_with(f->path, ".safetensors"))
        return !has_model || strncmp(f->path, "consolidated", 12) != 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(f->path, names[i]) == 0) return true;
    return ends_with(f->path, ".json") || ends_with(f->path, ".jinja");
}

static bool choose_folder(const hub_name *name, hub_list *l)
{
    bool config = false, weights = false, has_model = false;
    for (size_t i = 0; i < l->n; i++) {
        const char *path = l->v[i].path;
        config |= strcmp(path, "config.json") == 0;
        weights |= ends_with(path, ".safetensors") && !strchr(path, '/');
        has_model |= strncmp(path, "model", 5) == 0 && ends_with(path, ".safetensors");
    }
    if (!config || !weights)
        cli_fail_with("%s has neither a GGUF file nor config.json with safetensors: its format is "
                      "not supported",
                      name->repo);
    else if (*name->quant)
        cli_fail_with("%s has no GGUF files, so no type %s: omit \":%s\"", name->repo,
                      name->quant, name->quant);
    else
        for (size_t i = 0; i < l->n; i++) l->v[i].wanted = is_part(&l->v[i], has_model);
    return config && weights && !*name->quant;
}

bool hub_choose(const hub_name *name, hub_list *l, const hub_file **file)
{
    int n_ggufs = 0;
    *file = NULL;
    for (size_t i = 0; i < l->n; i++) n_ggufs += hub_is_gguf(l->v[i].path);
    return n_ggufs ? choose_gguf(name, l, n_ggufs, file) : choose_folder(name, l);
}
