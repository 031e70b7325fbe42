#include "server/api/retain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MS (5 * 60 * 1000)
#define MOST_MS    (24 * 60 * 60 * 1000)

/* time_of -- "90s", "5m", "1h", or NULL: the default; -1: none of these. */
static int64_t time_of(const char *text)
{
    static const struct {
        char unit;
        int ms;
    } units[] = {{'s', 1000}, {'m', 60 * 1000}, {'h', 60 * 60 * 1000}};
    char *end;
    if (!text) return DEFAULT_MS;
    long long n = strtoll(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (end != text && *end == units[i].unit && !end[1] && n > 0 && n <= MOST_MS / units[i].ms)
            return n * units[i].ms;
    return -1;
}

/* read_mark -- one cache_control; whole: it keeps the whole prompt. */
static void read_mark(srv_task *t, srv_fields *f, const char *where, const json_t *mark, bool whole)
{
    const char *type = json_string_value(json_object_get(mark, "type"));
    const json_t *ttl = json_object_get(mark, "ttl");
    if (!mark || json_is_null(mark)) return;
    if (!json_is_object(mark) || (type && strcmp(type, "ephemeral") != 0)) {
        srv_fields_refuse(f, where, "%s must be an object of type ephemeral", where);
        return;
    }
    int64_t ms =
        ttl && !json_is_string(ttl) && !json_is_null(ttl) ? -1 : time_of(json_string_value(ttl));
    if (ms < 0)
        srv_fields_refuse(f, where, "%s.ttl must be a time such as 90s, 5m or 1h, at most 24h",
                          where);
    t->retain.n = whole || (t->retain.ms && !t->retain.n) ? 0 : 1;
    if (ms > t->retain.ms) t->retain.ms = ms;
}

void srv_retain_read(srv_task *t, srv_fields *f)
{
    const json_t *message, *part;
    size_t i, k;
    char where[80];
    read_mark(t, f, "cache_control", srv_field(f, "cache_control"), true);
    json_array_foreach(srv_field(f, "messages"), i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        bool system = role && (strcmp(role, "system") == 0 || strcmp(role, "developer") == 0);
        json_array_foreach(json_object_get(message, "content"), k, part)
        {
            snprintf(where, sizeof where, "messages[%zu].content[%zu].cache_control", i, k);
            read_mark(t, f, where, json_object_get(part, "cache_control"), !system);
        }
    }
}
