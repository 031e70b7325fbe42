#include "server/keys.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

#define DIGEST SHA256_DIGEST_LENGTH
#define NAME   "# name: "

typedef struct key {
    unsigned char digest[DIGEST];
    char name[SRV_KEY_NAME_SIZE];
} key;

typedef struct key_list {
    key *v;
    size_t n;
} key_list;

struct srv_keys {
    char *path;
    pthread_mutex_t lock; /* guards list */
    key_list list;
};

/* cut_line -- ends the line at *text, without the blanks around it; moves *text to the next. */
static char *cut_line(char **text)
{
    char *line = *text, *end = line + strcspn(line, "\n");
    *text = *end ? end + 1 : end;
    while (end > line && isspace((unsigned char)end[-1])) end--;
    *end = '\0';
    while (isspace((unsigned char)*line)) line++;
    return line;
}

/* write_name -- letters, digits and "-_.@" of a name; the rest becomes '_'. */
static void write_name(const char *name, size_t i, char out[SRV_KEY_NAME_SIZE])
{
    snprintf(out, SRV_KEY_NAME_SIZE, "key-%zu", i + 1);
    if (!*name) return;
    snprintf(out, SRV_KEY_NAME_SIZE, "%s", name);
    for (char *c = out; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.@", *c)) *c = '_';
}

static bool add_key(key_list *list, const char *text, const char *name)
{
    key *more = realloc(list->v, (list->n + 1) * sizeof *list->v);
    if (!more) return cli_fail_with("out of memory for API keys"), false;
    list->v = more;
    SHA256((const unsigned char *)text, strlen(text), more[list->n].digest);
    write_name(name, list->n, more[list->n].name);
    list->n++;
    return true;
}

static bool read_keys(const char *path, key_list *out)
{
    size_t n;
    char *text = cli_read_file(path, &n);
    if (!text) return false;
    key_list list = {0};
    bool good = true;
    const char *name = "";
    for (char *at = text; good && *at;) {
        char *line = cut_line(&at);
        if (strncmp(line, NAME, strlen(NAME)) == 0) name = line + strlen(NAME);
        if (!*line || *line == '#') continue;
        good = add_key(&list, line, name);
        name = "";
    }
    if (good && list.n == 0) good = (cli_fail_with("%s: holds no API key", path), false);
    OPENSSL_cleanse(text, n);
    free(text);
    if (good)
        *out = list;
    else
        free(list.v);
    return good;
}

bool srv_keys_open(const char *path, srv_keys **out)
{
    key_list list;
    if (!read_keys(path, &list)) return false;
    srv_keys *k = calloc(1, sizeof *k);
    char *copy = strdup(path);
    if (!k || !copy) {
        free(k);
        free(copy);
        free(list.v);
        return cli_fail_with("out of memory for API keys"), false;
    }
    *k = (srv_keys){.path = copy, .list = list};
    pthread_mutex_init(&k->lock, NULL);
    *out = k;
    return true;
}

void srv_keys_close(srv_keys *k)
{
    if (!k) return;
    pthread_mutex_destroy(&k->lock);
    free(k->list.v);
    free(k->path);
    free(k);
}

bool srv_keys_reload(srv_keys *k)
{
    key_list list;
    if (!read_keys(k->path, &list)) return false;
    pthread_mutex_lock(&k->lock);
    key_list old = k->list;
    k->list = list;
    pthread_mutex_unlock(&k->lock);
    free(old.v);
    return true;
}

/* write_salt -- a hash of the key's hash under a name of its own, so a salt reveals no key. */
static void write_salt(const unsigned char digest[DIGEST], char out[SRV_SALT_SIZE])
{
    static const char name[] = "spolia tenant";
    unsigned char text[sizeof name + DIGEST], salt[DIGEST];
    memcpy(text, name, sizeof name);
    memcpy(text + sizeof name, digest, DIGEST);
    SHA256(text, sizeof text, salt);
    for (int i = 0; i < DIGEST; i++) snprintf(out + 2 * i, 3, "%02x", salt[i]);
}

bool srv_keys_check(srv_keys *k, const char *authorization, char salt[SRV_SALT_SIZE],
                    char name[SRV_KEY_NAME_SIZE])
{
    static const char scheme[] = "Bearer ";
    if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0) return false;
    const char *text = authorization + strlen(scheme);
    unsigned char digest[DIGEST];
    SHA256((const unsigned char *)text, strlen(text), digest);
    bool known = false;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < k->list.n; i++)
        if (CRYPTO_memcmp(k->list.v[i].digest, digest, DIGEST) == 0) {
            known = true;
            memcpy(name, k->list.v[i].name, SRV_KEY_NAME_SIZE);
        }
    pthread_mutex_unlock(&k->lock);
    if (known) write_salt(digest, salt);
    return known;
}
