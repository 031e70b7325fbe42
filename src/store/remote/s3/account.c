#include "store/remote/s3/account.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* -- URLs ------------------------------------------------------------------------------------------ */

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

sp_err sp_s3_parse(const char *url, sp_s3_address *out)
{
    static const char in_bucket[] = LETTERS DIGITS "-.";
    static const char in_prefix[] = LETTERS DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ-._~/";
    if (strncmp(url, "s3://", 5) != 0) return sp_fail(SP_E_ARG, "an object store is s3://BUCKET[/PREFIX]");
    const char *bucket = url + 5, *rest = bucket + strcspn(bucket, "/");
    const size_t n = (size_t)(rest - bucket);
    if (n < 3 || n >= sizeof out->bucket || strspn(bucket, in_bucket) < n)
        return sp_fail(SP_E_ARG, "%s: the name of a bucket has 3 to 63 small letters, digits, - and .", url);
    rest += strspn(rest, "/");
    size_t n_prefix = strlen(rest);
    while (n_prefix && rest[n_prefix - 1] == '/') n_prefix--;
    if (n_prefix + 2 > sizeof out->prefix || strspn(rest, in_prefix) < n_prefix || strstr(rest, "//") ||
        strstr(url + 5, "/./") || strstr(url + 5, "/../"))
        return sp_fail(SP_E_ARG, "%s: a prefix has up to %zu letters, digits, - . _ ~ and single /", url,
                       sizeof out->prefix - 2);
    *out = (sp_s3_address){0};
    memcpy(out->bucket, bucket, n);
    snprintf(out->prefix, sizeof out->prefix, "%.*s%s", (int)n_prefix, rest, n_prefix ? "/" : "");
    return SP_OK;
}

/* -- files ----------------------------------------------------------------------------------------- */

/* trim -- without blanks at both ends. */
static char *trim(char *s)
{
    while (isspace((unsigned char)*s)) s++;
    for (size_t n = strlen(s); n && isspace((unsigned char)s[n - 1]); n--) s[n - 1] = '\0';
    return s;
}

/* cut_comment -- from " #" or " ;" on. */
static void cut_comment(char *s)
{
    for (size_t i = 1; s[0] && s[i]; i++)
        if ((s[i] == '#' || s[i] == ';') && isspace((unsigned char)s[i - 1])) s[i] = '\0';
}

/* is_section -- the line is [NAME]; blanks count once. */
static bool is_section(char *line, const char *name)
{
    char *end = strchr(line, ']');
    if (!end) return false;
    *end = '\0';
    const char *s = trim(line + 1);
    for (; *s && *name; s++, name++) {
        if (*s != *name && !(isspace((unsigned char)*s) && *name == ' ')) return false;
        while (isspace((unsigned char)*s) && isspace((unsigned char)s[1])) s++;
    }
    return !*s && !*name;
}

sp_err sp_s3_read_settings(FILE *f, const char *section,
                           sp_err (*each)(void *user, const char *name, const char *value), void *user, bool *found)
{
    char *text = NULL;
    size_t size = 0;
    bool inside = false;
    sp_err err = SP_OK;
    *found = false;
    for (int number = 1; err == SP_OK && getline(&text, &size, f) >= 0; number++) {
        const bool indented = isspace((unsigned char)*text);
        char *line = trim(text), *equals = strchr(line, '=');
        if (!*line || indented || *line == '#' || *line == ';') continue;
        if (*line == '[') {
            inside = is_section(line, section);
            *found |= inside;
        } else if (!equals) {
            err = sp_fail(SP_E_FORMAT, "line %d is neither [SECTION] nor NAME = VALUE", number);
        } else if (inside) {
            *equals = '\0';
            char *value = trim(equals + 1);
            cut_comment(value);
            err = each(user, trim(line), trim(value));
        }
    }
    if (err == SP_OK && !feof(f)) err = sp_fail(errno == ENOMEM ? SP_E_NOMEM : SP_E_IO, "%s", strerror(errno));
    if (text) explicit_bzero(text, size);
    free(text); /* getline's */
    return err;
}

/* -- the account ------------------------------------------------------------------------------------- */

/* A file that is read. */
typedef struct reading {
    sp_s3_account *account;
    const char *path, *section;
    bool roles; /* the profile wants what this program cannot do */
} reading;

/* set -- Errors: SP_E_ARG: too long. */
static sp_err set(const char *what, char *field, size_t size, const char *value)
{
    if (strlen(value) >= size) return sp_fail(SP_E_ARG, "%s has more than %zu characters", what, size - 1);
    snprintf(field, size, "%s", value);
    return SP_OK;
}

static sp_err take_setting(void *user, const char *name, const char *value)
{
    static const char *const others[] = {"role_arn", "sso_session", "sso_start_url", "credential_process",
                                         "credential_source"};
    reading *r = user;
    sp_s3_account *a = r->account;
    const struct {
        const char *name;
        char *field;
        size_t size;
    } fields[] = {{"aws_access_key_id", a->key, sizeof a->key},
                  {"aws_secret_access_key", a->secret, sizeof a->secret},
                  {"aws_session_token", a->token, sizeof a->token},
                  {"region", a->region, sizeof a->region},
                  {"endpoint_url", a->endpoint, sizeof a->endpoint}};
    for (size_t i = 0; i < SP_COUNT(fields); i++)
        if (strcmp(name, fields[i].name) == 0 && !*fields[i].field)
            return set(name, fields[i].field, fields[i].size, value);
    for (size_t i = 0; i < SP_COUNT(others); i++) r->roles |= strcmp(name, others[i]) == 0;
    return SP_OK;
}

/* read_file -- a missing file is none. *found: it has the section. */
static sp_err read_file(reading *r, bool *found)
{
    char why[256];
    FILE *f = fopen(r->path, "r");
    *found = false;
    if (!f) return SP_OK;
    sp_err err = sp_s3_read_settings(f, r->section, take_setting, r, found);
    fclose(f);
    if (err == SP_OK) return SP_OK;
    snprintf(why, sizeof why, "%s", sp_error_detail());
    return sp_fail(err == SP_E_FORMAT ? SP_E_ARG : err, "%s: [%s]: %s", r->path, r->section, why);
}

static const char *env(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static void path_of(const char *variable, const char *name, char out[512])
{
    const char *home = env("HOME");
    if (env(variable))
        snprintf(out, 512, "%s", env(variable));
    else
        snprintf(out, 512, "%s/.aws/%s", home ? home : "", name);
}

/* read_environment -- of the variables that are set. */
static sp_err read_environment(sp_s3_account *a)
{
    const struct {
        const char *name;
        char *field;
        size_t size;
    } all[] = {{"AWS_REGION", a->region, sizeof a->region},
               {"AWS_DEFAULT_REGION", a->region, sizeof a->region},
               {"AWS_ENDPOINT_URL_S3", a->endpoint, sizeof a->endpoint},
               {"AWS_ENDPOINT_URL", a->endpoint, sizeof a->endpoint},
               {"AWS_ACCESS_KEY_ID", a->key, sizeof a->key},
               {"AWS_SECRET_ACCESS_KEY", a->secret, sizeof a->secret}};
    for (size_t i = 0; i < SP_COUNT(all); i++)
        if (env(all[i].name) && !*all[i].field) SP_TRY(set(all[i].name, all[i].field, all[i].size, env(all[i].name)));
    if (!*a->key && !*a->secret) return SP_OK;
    if (!*a->key || !*a->secret)
        return sp_fail(SP_E_ARG, "%s is set, but not %s", *a->key ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
                       *a->key ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    const char *token = env("AWS_SESSION_TOKEN");
    if (token) SP_TRY(set("AWS_SESSION_TOKEN", a->token, sizeof a->token, token));
    return set("AWS_ACCESS_KEY_ID", a->from, sizeof a->from, "AWS_ACCESS_KEY_ID");
}

/* settle -- after the files: key and secret belong together, and there are some. */
static sp_err settle(sp_s3_account *a, const char *profile, const char *credentials, const char *config, bool roles)
{
    if (*a->key && *a->secret) return SP_OK;
    if (*a->key || *a->secret)
        return sp_fail(SP_E_ARG, "the profile %s of %s has %s, but not %s", profile, credentials,
                       *a->key ? "aws_access_key_id" : "aws_secret_access_key",
                       *a->key ? "aws_secret_access_key" : "aws_access_key_id");
    if (roles)
        return sp_fail(SP_E_ARG,
                       "the profile %s wants a role, SSO or a process for its key, which are not supported: set "
                       "AWS_ACCESS_KEY_ID (aws configure export-credentials --format env)",
                       profile);
    return sp_fail(SP_E_ARG,
                   "no key for s3://: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write a profile %s with "
                   "aws_access_key_id into %s (or %s)",
                   profile, credentials, config);
}

/* read_files -- what the environment has not set. A key of the environment keeps those of the files out. */
static sp_err read_files(sp_s3_account *a)
{
    sp_s3_account files = {0};
    char paths[2][512], section[160];
    const char *profile = env("AWS_PROFILE") ? env("AWS_PROFILE") : "default";
    bool found[2];
    path_of("AWS_SHARED_CREDENTIALS_FILE", "credentials", paths[0]);
    path_of("AWS_CONFIG_FILE", "config", paths[1]);
    snprintf(section, sizeof section, "%s%.128s", strcmp(profile, "default") == 0 ? "" : "profile ", profile);
    reading r = {.account = &files, .path = paths[0], .section = profile};
    sp_err err = read_file(&r, &found[0]);
    snprintf(files.from, sizeof files.from, "the profile %.100s of %.380s", profile, paths[*files.key == '\0']);
    r.path = paths[1];
    r.section = section;
    if (err == SP_OK) err = read_file(&r, &found[1]);
    if (err == SP_OK && !found[0] && !found[1] && env("AWS_PROFILE"))
        err = sp_fail(SP_E_ARG, "AWS_PROFILE: neither %s nor %s has a profile %s", paths[0], paths[1], profile);
    if (err == SP_OK && !*a->key && (err = settle(&files, profile, paths[0], paths[1], r.roles)) == SP_OK) {
        memcpy(a->key, files.key, sizeof a->key);
        memcpy(a->secret, files.secret, sizeof a->secret);
        memcpy(a->token, files.token, sizeof a->token);
        memcpy(a->from, files.from, sizeof a->from);
    }
    if (!*a->region) memcpy(a->region, files.region, sizeof a->region);
    if (!*a->endpoint) memcpy(a->endpoint, files.endpoint, sizeof a->endpoint);
    sp_s3_account_fini(&files);
    return err;
}

/* check -- what goes into URLs and headers. */
static sp_err check(sp_s3_account *a)
{
    const bool tls = strncmp(a->endpoint, "https://", 8) == 0;
    for (size_t n = strlen(a->endpoint); n && a->endpoint[n - 1] == '/'; n--) a->endpoint[n - 1] = '\0';
    if (*a->endpoint && ((!tls && strncmp(a->endpoint, "http://", 7) != 0) || strpbrk(a->endpoint, " ?#@\r\n") ||
                         !a->endpoint[7 + tls]))
        return sp_fail(SP_E_ARG, "AWS_ENDPOINT_URL: %s is not http://HOST[:PORT] or https://HOST[:PORT]", a->endpoint);
    if (strspn(a->region, LETTERS DIGITS "-") < strlen(a->region))
        return sp_fail(SP_E_ARG, "AWS_REGION: %s is not a region", a->region);
    if (strpbrk(a->key, " \r\n:/") || strpbrk(a->token, " \r\n"))
        return sp_fail(SP_E_ARG, "%s: a key or token with blanks, : or /", a->from);
    return SP_OK;
}

sp_err sp_s3_account_find(sp_s3_account *out)
{
    sp_s3_account a = {0};
    sp_err err = read_environment(&a);
    if (err == SP_OK) err = read_files(&a);
    if (err == SP_OK && !*a.region) snprintf(a.region, sizeof a.region, "us-east-1");
    if (err == SP_OK) err = check(&a);
    if (err == SP_OK) *out = a;
    sp_s3_account_fini(&a);
    return err;
}

void sp_s3_account_fini(sp_s3_account *a)
{
    explicit_bzero(a, sizeof *a);
}
