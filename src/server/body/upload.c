#include "server/body/upload.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/http/memory.h"

#define FORM_BYTES 4096

/* -- base64 ------------------------------------------------------------------------------------ */

/* decode -- false: not base64, or out of memory. White space is skipped. */
static bool decode(srv_upload *u, const char *text)
{
    size_t n = strlen(text), k = 0;
    char *clean = malloc(n + 1);
    u->data = malloc(n + 4);
    if (!clean || !u->data || n > INT32_MAX) {
        if (!clean || !u->data) srv_memory_lost();
        free(clean);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\n", text[i])) clean[k++] = text[i];
    clean[k] = '\0';
    int got = EVP_DecodeBlock((unsigned char *)u->data, (const unsigned char *)clean, (int)k);
    for (size_t i = k; got > 0 && i > 0 && clean[i - 1] == '=' && k - i < 2; i--) got--;
    free(clean);
    u->n = got > 0 ? (size_t)got : 0;
    return got >= 0;
}

static void read_json_file(srv_upload *u, srv_fields *f)
{
    const json_t *file = srv_field(f, "file");
    if (!file) return;
    const char *name = json_string_value(json_object_get(file, "name"));
    const char *data = json_string_value(json_object_get(file, "data"));
    if (!name) name = json_string_value(json_object_get(file, "filename"));
    srv_fields_only(f, file, "file", "name data filename");
    if (!name || !data)
        srv_fields_refuse(f, "file", "file must be an object {\"name\", \"data\"}");
    else if (!decode(u, data))
        srv_fields_refuse(f, "file.data", "file.data is not base64");
    else if (!(u->name = strdup(name)))
        srv_fields_refuse(f, "file", "out of memory");
}

/* -- forms ------------------------------------------------------------------------------------- */

static bool append(char **to, size_t *n, const char *data, size_t more)
{
    char *grown = realloc(*to, *n + more + 1);
    if (!grown) return false;
    if (more) memcpy(grown + *n, data, more);
    *to = grown;
    *n += more;
    grown[*n] = '\0';
    return true;
}

/* end_field -- the field whose pieces have arrived becomes a member of the body. */
static bool end_field(srv_upload *u)
{
    const char *value = u->value ? u->value : "";
    const bool good = !u->field || json_object_set_new(u->body, u->field, json_stringn(value, u->n_value)) == 0;
    free(u->field);
    free(u->value);
    u->field = u->value = NULL;
    u->n_value = 0;
    return good;
}

/* add_field -- pieces of one value arrive one after another. */
static bool add_field(srv_upload *u, const char *key, const char *data, size_t n, uint64_t offset)
{
    if (offset == 0 && (!end_field(u) || !(u->field = strdup(key)))) return false;
    return u->field && append(&u->value, &u->n_value, data, n);
}

/* A callback of libmicrohttpd. */
static enum MHD_Result take_part(void *user, enum MHD_ValueKind kind, const char *key,
                                 const char *file_name, const char *type, const char *encoding,
                                 const char *data, uint64_t offset, size_t n)
{
    srv_upload *u = user;
    (void)kind;
    (void)type;
    (void)encoding;
    if (strcmp(key, "file") != 0) return add_field(u, key, data, n, offset) ? MHD_YES : MHD_NO;
    if (!u->name && file_name) u->name = strdup(file_name);
    u->n_files += offset == 0 && n; /* an empty piece may come before the first */
    return append(&u->data, &u->n, data, n) ? MHD_YES : MHD_NO;
}

static void read_form(srv_upload *u, srv_fields *f, const srv_call *call)
{
    *f = (srv_fields){0};
    u->body = json_object();
    struct MHD_PostProcessor *pp =
        MHD_create_post_processor(call->connection, FORM_BYTES, take_part, u);
    bool good = pp && MHD_post_process(pp, call->body, call->n) == MHD_YES;
    if (pp && MHD_destroy_post_processor(pp) != MHD_YES) good = false;
    good = end_field(u) && good;
    f->object = u->body;
    if (!good || !u->body)
        srv_fields_refuse(f, "", "the body is no multipart/form-data");
    else if (u->n_files > 1)
        srv_fields_refuse(f, "file", "the form has %d parts \"file\": send one document at a time", u->n_files);
    else if (u->data && !u->name)
        srv_fields_refuse(f, "file", "the part \"file\" has no file name, which says the format");
}

/* -- both -------------------------------------------------------------------------------------- */

static bool is_form(const srv_call *call)
{
    static const char form[] = "multipart/form-data";
    const char *type = MHD_lookup_connection_value(call->connection, MHD_HEADER_KIND,
                                                   MHD_HTTP_HEADER_CONTENT_TYPE);
    return type && strncasecmp(type, form, strlen(form)) == 0;
}

bool srv_upload_flag(srv_fields *f, const char *name)
{
    const char *text = json_string_value(srv_field(f, name));
    if (!text) return srv_field_bool(f, name, false);
    bool is_true = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
    if (!is_true && strcmp(text, "false") != 0 && strcmp(text, "0") != 0)
        srv_fields_refuse(f, name, "%s must be true or false", name);
    return is_true;
}

/* seconds -- of JSON, or the text of a part. */
static int64_t seconds(srv_fields *f, const char *name)
{
    const char *text = json_string_value(srv_field(f, name));
    const long long most = 100LL * 366 * 86400;
    if (!text) return srv_field_int(f, name, 0, 0, most);
    char *end;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || n < 0 || n > most)
        srv_fields_refuse(f, name, "%s must be a number of seconds", name);
    return n;
}

/* read_tags -- "tags": a list, or "a, b" as a part of a form has it; the commas are cut out of it. */
static void read_tags(srv_upload *u, srv_fields *f)
{
    json_t *given = srv_field(f, "tags"), *list = given;
    if (json_is_string(given)) {
        char *text = strdup(json_string_value(given)), *rest = NULL;
        list = json_array();
        for (char *tag = text ? strtok_r(text, ",", &rest) : NULL; tag; tag = strtok_r(NULL, ",", &rest)) {
            tag += strspn(tag, " ");
            size_t n = strlen(tag);
            while (n && tag[n - 1] == ' ') n--;
            if (n) json_array_append_new(list, json_stringn(tag, n));
        }
        free(text);
        json_object_set_new(u->body, "tags", list); /* of the body from here on */
    }
    if (given && (!json_is_array(list) || json_array_size(list) > SRV_MAX_TAGS)) {
        srv_fields_refuse(f, "tags", "tags must be a list of at most %d texts", SRV_MAX_TAGS);
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        u->tags[i] = json_string_value(json_array_get(list, i));
        if (!u->tags[i]) srv_fields_refuse(f, "tags", "tags[%zu] must be a text", i);
    }
    u->document.tags = u->tags;
    u->document.n_tags = (int)json_array_size(list);
}

void srv_upload_read(srv_upload *u, srv_fields *f, const srv_call *call)
{
    *u = (srv_upload){0};
    if (is_form(call)) {
        read_form(u, f, call);
    } else {
        u->body = srv_fields_parse(f, call->body, call->n);
        if (u->body) read_json_file(u, f);
    }
    if (f->failed) return;
    u->document = (sp_document_new){.id = srv_field_string(f, "id"),
                                    .title = srv_field_string(f, "title"),
                                    .text = srv_field_string(f, "text"),
                                    .file = u->name,
                                    .data = u->data,
                                    .n_data = u->n,
                                    .ttl_s = seconds(f, "ttl_seconds"),
                                    .pinned = srv_upload_flag(f, "pinned"),
                                    .replace = srv_upload_flag(f, "replace")};
    read_tags(u, f);
    srv_fields_only(f, u->body, "", "id title text file ttl_seconds pinned replace precompute cache_salt tags");
    if (!u->document.text == !u->name)
        srv_fields_refuse(f, "text", "either text or file is needed");
}

void srv_upload_fini(srv_upload *u)
{
    json_decref(u->body);
    free(u->data);
    free(u->name);
    free(u->field);
    free(u->value);
}
