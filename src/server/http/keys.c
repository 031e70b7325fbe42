#include "server/http/keys.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"

#define DIGEST SHA256_DIGEST_LENGTH

typedef struct key {
    unsigned char digest[DIGEST];
    srv_tenant tenant;
} key;

/* Where a file is being read. */
typedef struct reading {
    const char *path;
    int line;
    const char *name;
    srv_tenant next; /* of the next key */
} reading;

typedef struct key_list {
    key *v;
    size_t n;
} key_list;

struct srv_keys {
    char *path;
    pthread_mutex_t lock; /* guards list */
    key_list list;
};

/* cut_line -- ends the line at *text, without the blanks around it; moves *text to the next. `end`: of the file. *n:
 * bytes of the line; it may have a NUL. */
static char *cut_line(char **text, char *end, size_t *n)
{
    char *line = *text, *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop) stop = end;
    *text = stop < end ? stop + 1 : end;
    while (stop > line && isspace((unsigned char)stop[-1])) stop--;
    *stop = '\0';
    while (line < stop && isspace((unsigned char)*line)) line++;
    *n = (size_t)(stop - line);
    return line;
}

/* check_key -- whether a header can carry it. */
static bool check_key(const reading *r, const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && text[i] >= 0x20 && text[i] < 0x7f) i++;
    if (i == n) return true;
    cli_fail_with("%s, line %d: byte %zu of the key is 0x%02x, which no header can carry; keys are printable ASCII",
                  r->path, r->line, i + 1, (unsigned char)text[i]);
    return false;
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

/* hash -- false: libcrypto has no memory, and out is as it was. */
static bool hash(const void *data, size_t n, unsigned char out[DIGEST])
{
    return SHA256(data, n, out) != NULL;
}

/* write_salt -- a hash of the key's hash under a name of its own, so a salt reveals no key. False: out of memory. */
static bool write_salt(const unsigned char digest[DIGEST], char out[SRV_SALT_SIZE])
{
    static const char name[] = "spolia tenant";
    unsigned char text[sizeof name + DIGEST], salt[DIGEST];
    memcpy(text, name, sizeof name);
    memcpy(text + sizeof name, digest, DIGEST);
    if (!hash(text, sizeof text, salt)) return false;
    for (int i = 0; i < DIGEST; i++) snprintf(out + 2 * i, 3, "%02x", salt[i]);
    return true;
}

static bool add_key(key_list *list, const char *text, reading *r)
{
    key *more = realloc(list->v, (list->n + 1) * sizeof *list->v);
    if (more) list->v = more;
    key *new = more ? &more[list->n] : NULL;
    if (new) *new = (key){.tenant = r->next};
    if (!new || !hash(text, strlen(text), new->digest) || !write_salt(new->digest, new->tenant.salt))
        return cli_fail_with("out of memory for API keys"), false;
    write_name(r->name, list->n, new->tenant.name);
    list->n++;
    r->next = (srv_tenant){0};
    r->name = "";
    return true;
}

/* -- what is said about the next key ----------------------------------------------------------- */

/* read_number -- with K, M or G after it: powers of 1024. */
static bool read_number(const char *text, int64_t *out)
{
    static const char units[] = "KMG";
    char *end;
    if (!isdigit((unsigned char)*text)) return false;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    const char *unit = *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    const int64_t most = INT64_C(1000000000000) < INT64_MAX >> shift ? INT64_C(1000000000000) : INT64_MAX >> shift;
    if (errno || (*end && (!unit || end[1])) || n < 1 || n > most) return false;
    *out = n << shift;
    return true;
}

static bool set_limit(srv_limits *l, const char *name, const char *value)
{
    const struct {
        const char *name;
        int64_t *to;
    } known[] = {{"requests", &l->requests},
                 {"tokens", &l->tokens},
                 {"documents", &l->documents},
                 {"bytes", &l->bytes}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return read_number(value, known[i].to);
    return false;
}

static bool read_limits(reading *r, char *text)
{
    char *rest;
    for (char *word = strtok_r(text, " \t,", &rest); word; word = strtok_r(NULL, " \t,", &rest)) {
        char *value = strchr(word, '=');
        if (value) *value++ = '\0';
        if (value && set_limit(&r->next.limits, word, value)) continue;
        cli_fail_with("%s, line %d: \"%s%s%s\" is not a limit; limits are requests=N, tokens=N (a minute), "
                      "documents=N, bytes=N, at least 1",
                      r->path, r->line, word, value ? "=" : "", value ? value : "");
        return false;
    }
    return true;
}

static bool read_rights(reading *r, const char *text)
{
    r->next.may_priority = strcmp(text, "priority") == 0;
    if (r->next.may_priority) return true;
    cli_fail_with("%s, line %d: \"%s\" is not a right; a key may: priority", r->path, r->line, text);
    return false;
}

/* after -- what follows the given beginning of a line; NULL: the line begins differently. */
static char *after(char *line, const char *begin)
{
    size_t n = strlen(begin);
    if (strncmp(line, begin, n) != 0) return NULL;
    return line + n + strspn(line + n, " \t");
}

/* read_comment -- false after an error message. */
static bool read_comment(reading *r, char *line)
{
    char *name = after(line, "# name:"), *limits = after(line, "# limits:"), *may = after(line, "# may:");
    if (name) r->name = name;
    if (limits) return read_limits(r, limits);
    return !may || read_rights(r, may);
}

static bool read_keys(const char *path, key_list *out)
{
    size_t n;
    char *text = cli_read_text(path, &n);
    if (!text) return false;
    key_list list = {0};
    reading r = {.path = path, .name = ""};
    bool good = true;
    for (char *at = text, *end = text + n; good && at < end;) {
        size_t n_line;
        char *line = cut_line(&at, end, &n_line);
        r.line++;
        if (*line == '#')
            good = read_comment(&r, line);
        else if (n_line)
            good = check_key(&r, line, n_line) && add_key(&list, line, &r);
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

/* key_in -- the key of the header "Authorization: Bearer KEY"; NULL: none. */
static const char *key_in(const char *authorization)
{
    static const char scheme[] = "Bearer ";
    if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0) return NULL;
    return authorization + strlen(scheme);
}

srv_key_state srv_keys_check(srv_keys *k, const char *authorization, const char *plain, srv_tenant *out)
{
    const char *text = authorization ? key_in(authorization) : plain;
    if (!text) return SRV_KEY_UNKNOWN;
    unsigned char digest[DIGEST];
    if (!hash(text, strlen(text), digest)) return SRV_KEY_NO_MEMORY;
    srv_key_state state = SRV_KEY_UNKNOWN;
    pthread_mutex_lock(&k->lock);
    for (size_t i = 0; i < k->list.n; i++)
        if (CRYPTO_memcmp(k->list.v[i].digest, digest, DIGEST) == 0) {
            state = SRV_KEY_KNOWN;
            *out = k->list.v[i].tenant;
        }
    pthread_mutex_unlock(&k->lock);
    return state;
}

size_t srv_keys_count(srv_keys *k)
{
    pthread_mutex_lock(&k->lock);
    size_t n = k->list.n;
    pthread_mutex_unlock(&k->lock);
    return n;
}
