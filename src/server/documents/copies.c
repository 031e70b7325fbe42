/* copies.c -- GET /v1/copies: what is cached, as a tree to walk. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/documents/documents.h"
#include "server/http/reply.h"
#include "spolia_copies.h"

enum { MOST_LISTED = 1000 };

static const char *argument(const srv_call *call, const char *name)
{
    return MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* take_number -- all of a string, or false. */
static bool take_number(const char *s, int base, unsigned long long *out)
{
    char *end;
    errno = 0;
    *out = strtoull(s, &end, base);
    return *s != '-' && end != s && !*end && !errno;
}

/* take_place -- "USES-NAME", as in "next" of the page before. */
static bool take_place(const char *s, sp_copies_query *q)
{
    unsigned long long uses, name;
    char *end;
    errno = 0;
    uses = strtoull(s, &end, 10);
    if (*s == '-' || end == s || *end != '-' || errno || !take_number(end + 1, 16, &name)) return false;
    q->after_uses = (int64_t)uses;
    q->after_name = name;
    return true;
}

/* An invalid argument. */
typedef struct refusal {
    const char *param, *why;
} refusal;

/* take_query -- {NULL}: all arguments are valid. */
static refusal take_query(const srv_call *call, sp_copies_query *q)
{
    const char *parent = argument(call, "parent"), *after = argument(call, "after"), *limit = argument(call, "limit");
    unsigned long long name = 0, n = 0;
    if (parent && (!take_number(parent, 16, &name) || !name))
        return (refusal){"parent", "parent must be the name of a copy"};
    if (after && !take_place(after, q)) return (refusal){"after", "after must be \"next\" of the page before"};
    if (limit && (!take_number(limit, 10, &n) || n < 1 || n > MOST_LISTED))
        return (refusal){"limit", "limit must be between 1 and 1000"};
    q->parent = name;
    q->limit = (int)n;
    return (refusal){NULL, NULL};
}

static json_t *tiers_json(unsigned tiers)
{
    static const char *const names[] = {"memory", "host", "disk", "remote"};
    json_t *list = json_array();
    for (int i = 0; i < 4; i++)
        if (tiers & 1u << i) json_array_append_new(list, json_string(names[i]));
    return list;
}

static json_t *copy_json(const sp_copy_info *c)
{
    char name[17];
    snprintf(name, sizeof name, "%016llx", (unsigned long long)c->name);
    json_t *tokens = c->n_tokens ? json_integer(c->n_tokens) : json_null();
    json_t *cost = c->cost_us > 0 ? json_real(c->cost_us / 1000) : json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:i, s:b, s:I, s:o, s:I}", "name", name, "object", "copy",
                     "id", c->id, "kind", c->kind, "text", srv_text_json(c->text, c->n_text), "tiers",
                     tiers_json(c->tiers), "tokens", tokens, "recomputed", c->n_recomputed, "exact", (int)c->exact,
                     "uses", (json_int_t)c->n_uses, "cost_ms", cost, "below", (json_int_t)c->n_below);
}

static json_t *list_json(const sp_copies *l)
{
    char next[48];
    json_t *data = json_array();
    for (int i = 0; i < l->n; i++) json_array_append_new(data, copy_json(&l->v[i]));
    json_t *o = json_pack("{s:s, s:o, s:b}", "object", "list", "data", data, "has_more", (int)l->more);
    if (!o || !l->more) return o;
    const sp_copy_info *last = &l->v[l->n - 1];
    snprintf(next, sizeof next, "%lld-%016llx", (long long)last->n_uses, (unsigned long long)last->name);
    json_object_set_new(o, "next", json_string(next));
    return o;
}

static srv_sent fail(const srv_call *call, sp_err err)
{
    const char *code;
    const int status = srv_error_status(err, &code);
    if (err == SP_E_NOTFOUND)
        return srv_reply_error(call->connection, 404, "parent", "copy_not_found", sp_error_detail());
    return srv_reply_error(call->connection, status, NULL, code, sp_error_detail());
}

srv_sent srv_copies(srv_call *call)
{
    char *salt = NULL;
    sp_copies l;
    sp_copies_query q = {0};
    const refusal wrong = take_query(call, &q);
    if (wrong.param) return srv_reply_error(call->connection, 400, wrong.param, NULL, wrong.why);
    if (!call->cache_salt) call->cache_salt = argument(call, "cache_salt");
    if (!srv_salt_of(call, &salt))
        return srv_reply_error(call->connection, 503, NULL, "out_of_memory", "out of memory");
    sp_err err = sp_copies_list(call->s->ctx, salt, &q, &l);
    free(salt);
    if (err != SP_OK) return fail(call, err);
    json_t *o = list_json(&l);
    sp_copies_fini(&l);
    return srv_reply_json(call->connection, 200, o);
}
