#include "server/body/filter.h"

#include <string.h>

/* add -- a text, or a list of texts, for a key that has none yet. */
static void add(srv_fields *f, const char *key, const json_t *value, srv_filter *out)
{
    const bool file = strcmp(key, "file") == 0;
    const char **to = file ? out->files : out->tags;
    int *n = file ? &out->n_files : &out->n_tags;
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    if (*n) srv_fields_refuse(f, "filter", "filter: %s is given twice", key);
    if (count == 0 || count > SRV_MAX_FILTER)
        srv_fields_refuse(f, "filter", "filter: %s must be a text, or a list of 1 to %d", key, SRV_MAX_FILTER);
    for (size_t i = 0; i < count && !f->failed; i++) {
        to[*n] = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);
        if (to[*n] && *to[*n])
            ++*n;
        else
            srv_fields_refuse(f, "filter", "filter: %s must be a text, or a list of texts", key);
    }
}

static bool is_key(const char *key)
{
    return key && (strcmp(key, "file") == 0 || strcmp(key, "tag") == 0);
}

/* read_comparison -- {"type": "eq", "key", "value"}, or "in". */
static void read_comparison(srv_fields *f, const json_t *o, srv_filter *out)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const char *key = json_string_value(json_object_get(o, "key"));
    if (!type || (strcmp(type, "eq") != 0 && strcmp(type, "in") != 0))
        srv_fields_refuse(f, "filter", "filter: type must be eq, in, or and");
    else if (!is_key(key))
        srv_fields_refuse(f, "filter", "filter: key must be file or tag");
    else
        add(f, key, json_object_get(o, "value"), out);
}

void srv_filter_read(srv_fields *f, srv_filter *out)
{
    const json_t *o = srv_field(f, "filter") ? srv_field(f, "filter") : srv_field(f, "filters");
    const char *type = json_string_value(json_object_get(o, "type")), *key;
    json_t *value;
    const json_t *all = json_object_get(o, "filters");
    *out = (srv_filter){0};
    if (!o) return;
    if (srv_field(f, "filter") && srv_field(f, "filters"))
        srv_fields_refuse(f, "filter", "filter and filters are names of one field: give one");
    if (!json_is_object(o)) {
        srv_fields_refuse(f, "filter", "filter must be an object with file or tag");
    } else if (type && strcmp(type, "and") == 0) {
        if (!json_is_array(all)) srv_fields_refuse(f, "filter", "filter: and must have a list of filters");
        for (size_t i = 0; i < json_array_size(all) && !f->failed; i++)
            read_comparison(f, json_array_get(all, i), out);
    } else if (type) {
        read_comparison(f, o, out);
    } else {
        json_object_foreach((json_t *)o, key, value)
        {
            if (is_key(key))
                add(f, key, value, out);
            else
                srv_fields_refuse(f, "filter", "filter: \"%.40s\" is unknown; the fields are: file tag", key);
        }
    }
}
