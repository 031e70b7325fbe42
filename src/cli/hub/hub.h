/* hub.h -- models of a Hugging Face hub in the user's cache.
 *
 *   ~/.cache/spolia/models/ORG/REPO/pulled.json       which file or folder a name means: models.c
 *                                  /0123456789ab/     files of a revision
 *                                  /.../FILE.part     an unfinished download, which the next one resumes
 *
 * HF_ENDPOINT: a hub other than https://huggingface.co. HF_TOKEN: a user's access token.
 * Functions return false after an error message. */
#ifndef SP_CLI_HUB_HUB_H
#define SP_CLI_HUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUB_PREFIX "hf:"

/* hf:ORG/REPO[:QUANT]; the prefix may be left out. */
typedef struct hub_name {
    char repo[200], quant[40]; /* quant "": none given */
} hub_name;

/* hub_name_of -- false, without a message: the text has another form. */
bool hub_name_of(const char *text, hub_name *out);

typedef struct hub_pull {
    hub_name name;
    const char *revision; /* branch, tag or commit */
    bool quiet;
    bool offline_first; /* use what was pulled before without asking the hub */
} hub_pull;

/* hub_pull_model -- downloads what the cache lacks. path: of a GGUF file, or of a folder. */
bool hub_pull_model(const hub_pull *p, char *path, size_t size);

/* hub_find_model -- the argument of -m as a path: a name of the hub is downloaded. What cannot be a model (a URL, a
 * Git LFS pointer, a name without a file) is an error that says what to do. *path: replaced by memory of the program,
 * which is never freed. */
bool hub_find_model(const char **path);

#endif
