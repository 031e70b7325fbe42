#include "store/remote/redis/address.h"

#include <stdlib.h>
#include <string.h>

#include "base/digits.h"

enum { PORT = 6379 };

/* decode -- n bytes with %XX into out[size]; false: too long, or no such escape. */
static bool decode(const char *from, size_t n, char *out, size_t size)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        int c = (unsigned char)from[i];
        if (c == '%') {
            if (i + 2 >= n || sp_digit16(from[i + 1]) < 0 || sp_digit16(from[i + 2]) < 0) return false;
            c = sp_digit16(from[i + 1]) * 16 + sp_digit16(from[i + 2]);
            i += 2;
        }
        if (k + 1 >= size || c == 0) return false;
        out[k++] = (char)c;
    }
    out[k] = '\0';
    return true;
}

/* take_number -- parses all of the text; false: it is not a number within the limits. */
static bool take_number(const char *text, size_t n, int least, int most, int *out)
{
    char *end, digits[12];
    if (n == 0 || n >= sizeof digits || text[0] < '0' || text[0] > '9') return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    long v = strtol(digits, &end, 10);
    *out = (int)v;
    return *end == '\0' && v >= least && v <= most;
}

/* take_login -- "user:password", ":password" or "password" before the @. */
static bool take_login(const char *text, size_t n, sp_redis_address *out)
{
    const char *colon = memchr(text, ':', n);
    const size_t n_user = colon ? (size_t)(colon - text) : 0;
    const char *password = colon ? colon + 1 : text;
    return decode(text, n_user, out->user, sizeof out->user) &&
           decode(password, n - (size_t)(password - text), out->password, sizeof out->password);
}

/* take_server -- HOST[:PORT] or [HOST][:PORT] at *at, up to a comma, a slash or the end: *at is there then. */
static sp_err take_server(const char **at, sp_redis_address *out)
{
    const char *text = *at, *end = text + strcspn(text, ",/");
    const char *close = *text == '[' ? memchr(text, ']', (size_t)(end - text)) : NULL;
    const char *host = close ? text + 1 : text, *rest = close ? close + 1 : text;
    const char *colon = memchr(rest, ':', (size_t)(end - rest)), *stop = close ? close : colon ? colon : end;
    out->port = PORT;
    *at = end;
    if (!decode(host, (size_t)(stop - host), out->host, sizeof out->host) || !*out->host)
        return sp_fail(SP_E_ARG, "redis://: there is no host");
    if (close && rest != (colon ? colon : end))
        return sp_fail(SP_E_ARG, "redis://[%s]: no port after the bracket", out->host);
    if (colon && !take_number(colon + 1, (size_t)(end - colon - 1), 1, 65535, &out->port))
        return sp_fail(SP_E_ARG, "redis://%s: the port is not a number from 1 to 65535", out->host);
    return SP_OK;
}

bool sp_redis_next(sp_redis_address *a)
{
    if (!a->more) return false;
    const char *at = a->more;
    sp_err err = take_server(&at, a); /* sp_redis_parse has found it good */
    a->more = *at == ',' ? at + 1 : NULL;
    return err == SP_OK;
}

sp_err sp_redis_parse(const char *url, sp_redis_address *out)
{
    const bool tls = strncmp(url, "rediss://", 9) == 0;
    *out = (sp_redis_address){.port = PORT, .tls = tls};
    if (!tls && strncmp(url, "redis://", 8) != 0)
        return sp_fail(SP_E_ARG, "a remote tier is redis://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE], "
                                 "or rediss:// with TLS");
    const char *rest = url + 8 + tls, *slash = strchr(rest, '/');
    const char *end = slash ? slash : rest + strlen(rest), *at = end;
    while (at > rest && *at != '@') at--;
    if (*at == '@' && !take_login(rest, (size_t)(at - rest), out))
        return sp_fail(SP_E_ARG, "redis://: the user or the password is too long, or has a wrong %%XX");
    at = *at == '@' ? at + 1 : rest;
    SP_TRY(take_server(&at, out));
    out->more = *at == ',' ? at + 1 : NULL;
    for (sp_redis_address other = *out; *at == ',';) {
        at++;
        SP_TRY(take_server(&at, &other));
    }
    if (slash && slash[1] && !take_number(slash + 1, strlen(slash + 1), 0, 1 << 20, &out->database))
        return sp_fail(SP_E_ARG, "redis://%s: the database is not a number", out->host);
    return SP_OK;
}
