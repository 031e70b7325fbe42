#include "store/remote/s3/names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TIME_DIGITS = 12 };

void sp_s3_names_init(sp_s3_names *n, const char *prefix, const char *space)
{
    snprintf(n->copy, sizeof n->copy, "%s%s/copy/", prefix, space);
    snprintf(n->index, sizeof n->index, "%s%s/index/", prefix, space);
    snprintf(n->change, sizeof n->change, "%s%s/change/", prefix, space);
}

void sp_s3_copy_key(const sp_s3_names *n, const char *name, char out[SP_S3_KEY])
{
    snprintf(out, SP_S3_KEY, "%s%s", n->copy, name);
}

/* exchange -- blanks separate the fields of a notice, and would have to be escaped in a key. */
static void exchange(char *s, char from, char to)
{
    for (; *s; s++)
        if (*s == from) *s = to;
}

void sp_s3_note(uint64_t time_ms, const char *says, char out[SP_S3_NOTE])
{
    snprintf(out, SP_S3_NOTE, "%0*" PRIx64 ".%s", TIME_DIGITS, time_ms, says);
    exchange(out, ' ', '_');
}

bool sp_s3_index_key(const sp_s3_names *n, const char *name, const char *note, char out[SP_S3_KEY])
{
    if (strlen(note) <= TIME_DIGITS || note[TIME_DIGITS] != '.') return false;
    snprintf(out, SP_S3_KEY, "%s%.*s.%s%s", n->index, TIME_DIGITS, note, name, note + TIME_DIGITS);
    return true;
}

void sp_s3_index_from(const sp_s3_names *n, uint64_t time_ms, char out[SP_S3_KEY])
{
    snprintf(out, SP_S3_KEY, "%s%0*" PRIx64, n->index, TIME_DIGITS, time_ms);
}

/* read_fields -- of a text like "time.name.notice"; name: where it begins, with a dot after it. */
static bool read_fields(const char *time, const char *name, const char *says, sp_s3_entry *out)
{
    const size_t n = strcspn(name, ".");
    if (strspn(time, "0123456789abcdef") != TIME_DIGITS || time[TIME_DIGITS] != '.' || n >= sizeof out->name ||
        strlen(says) >= sizeof out->says || strchr(says, ' '))
        return false;
    out->time_ms = strtoull(time, NULL, 16);
    snprintf(out->name, sizeof out->name, "%.*s", (int)n, name);
    snprintf(out->says, sizeof out->says, "%s", says);
    exchange(out->says, '_', ' ');
    return true;
}

bool sp_s3_read_index_key(const sp_s3_names *n, const char *key, sp_s3_entry *out)
{
    const size_t k = strlen(n->index);
    if (strncmp(key, n->index, k) != 0) return false;
    const char *time = key + k, *name = strchr(time, '.'), *says = name ? strchr(name + 1, '.') : NULL;
    return says && read_fields(time, name + 1, says + 1, out);
}

void sp_s3_change_key(const sp_s3_names *n, const char *name, const char *note, char out[SP_S3_KEY])
{
    snprintf(out, SP_S3_KEY, "%s%s.%s", n->change, name, note);
}

bool sp_s3_read_change_key(const sp_s3_names *n, const char *key, sp_s3_entry *out)
{
    const size_t k = strlen(n->change);
    if (strncmp(key, n->change, k) != 0) return false;
    const char *name = key + k, *time = strchr(name, '.'), *says = time ? strchr(time + 1, '.') : NULL;
    return says && read_fields(time + 1, name, says + 1, out);
}

bool sp_s3_is_over(const sp_s3_entry *e)
{
    sp_remote_notice n;
    return sp_remote_read_notice(e->name, e->says, &n) && n.expires_s && n.expires_s <= (int64_t)time(NULL);
}

void sp_s3_query_add(sp_s3_query *q, const char *name, const char *value)
{
    static const char hex[] = "0123456789ABCDEF";
    const size_t most = strlen(name) + 3 * strlen(value) + 3;
    if (q->n + most > sizeof q->v) {
        q->is_full = true;
        return;
    }
    q->n += (size_t)sprintf(q->v + q->n, "%s%s=", q->n ? "&" : "", name);
    for (const unsigned char *c = (const unsigned char *)value; *c; c++) {
        if (isalnum(*c) || strchr("-._~", *c)) {
            q->v[q->n++] = (char)*c;
            continue;
        }
        q->v[q->n++] = '%';
        q->v[q->n++] = hex[*c >> 4];
        q->v[q->n++] = hex[*c & 15];
    }
    q->v[q->n] = '\0';
}
