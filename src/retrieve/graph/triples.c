/* triples.c -- what the readers share, and the two formats of one triple a line. */
#include "retrieve/graph/triples.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "retrieve/graph/db_int.h"
#include "retrieve/text/text.h"

/* -- texts ---------------------------------------------------------------------------------- */

sp_text sp_text_of(const char *s)
{
    return s ? (sp_text){s, strlen(s)} : (sp_text){"", 0};
}

bool sp_text_is(sp_text t, const char *s)
{
    return t.n == strlen(s) && strncasecmp(t.s, s, t.n) == 0;
}

static sp_text trim(sp_text t)
{
    size_t from = t.n ? sp_skip_blanks(t.s, 0, t.n) : 0;
    size_t to = t.n ? sp_trim_end(t.s, from, t.n) : 0;
    return (sp_text){t.n ? t.s + from : "", to - from};
}

static bool breaks(char c)
{
    return c == '\n' || c == '\r' || c == '\t';
}

/* one_line -- a trimmed text whose line breaks and tabs are blanks, one for several with the blanks around them; in
 * `room` if it has any. */
static sp_text one_line(sp_text t, char room[SP_GRAPH_NAME_BYTES])
{
    size_t n = 0, broken = 0;
    while (broken < t.n && !breaks(t.s[broken])) broken++;
    if (broken == t.n || t.n > SP_GRAPH_NAME_BYTES) return t;
    for (size_t i = 0; i < t.n; i++) {
        const char c = breaks(t.s[i]) ? ' ' : t.s[i];
        if (c != ' ' || (n && room[n - 1] != ' ')) room[n++] = c;
    }
    return (sp_text){room, n};
}

/* fault -- what is wrong with a trimmed name, in `why`; false when nothing is. */
static bool fault(sp_text t, const char *what, char *why, size_t n_why)
{
    if (t.n == 0) return snprintf(why, n_why, "the %s is empty", what), true;
    if (t.n > SP_GRAPH_NAME_BYTES) {
        snprintf(why, n_why, "the %s has %zu bytes; at most %d are allowed", what, t.n,
                 SP_GRAPH_NAME_BYTES);
        return true;
    }
    if (!sp_utf8_valid(t.s, t.n)) return snprintf(why, n_why, "the %s is not UTF-8", what), true;
    for (size_t i = 0; i < t.n; i++)
        if ((unsigned char)t.s[i] < 0x20 || t.s[i] == 0x7F) {
            snprintf(why, n_why, "the %s has a control character", what);
            return true;
        }
    return false;
}

/* first -- the first of several values that LightRAG joins. */
static sp_text first(sp_text t)
{
    const char *cut = t.n ? memmem(t.s, t.n, "<SEP>", 5) : NULL;
    return cut ? (sp_text){t.s, (size_t)(cut - t.s)} : t;
}

sp_err sp_triples_give(const sp_triple *t, int64_t line, const sp_triple_sink *sink)
{
    char why[96], room[4][SP_GRAPH_NAME_BYTES];
    sp_triple c = {one_line(trim(t->subject), room[0]), one_line(trim(t->relation), room[1]),
                   one_line(trim(t->object), room[2]), one_line(trim(first(t->source)), room[3])};
    if (fault(c.subject, "subject", why, sizeof why) ||
        fault(c.relation, "relation", why, sizeof why) ||
        fault(c.object, "object", why, sizeof why) ||
        (c.source.n && fault(c.source, "source", why, sizeof why)))
        return sink->bad(line, why, sink->user);
    return sink->triple(&c, sink->user);
}

sp_err sp_triples_give_name(sp_text ident, sp_text name, sp_name_kind kind, int64_t line,
                            const sp_triple_sink *sink)
{
    char why[96], room[2][SP_GRAPH_NAME_BYTES];
    ident = one_line(trim(ident), room[0]);
    name = one_line(trim(name), room[1]);
    if (fault(ident, "entity", why, sizeof why) ||
        fault(name, kind == SP_NAME_ALIAS ? "alias" : "name", why, sizeof why))
        return sink->bad(line, why, sink->user);
    return sink->name(ident, name, kind, sink->user);
}

/* -- formats -------------------------------------------------------------------------------- */

static const struct format {
    const char *name, *suffixes[3];
    sp_err (*read)(const sp_triples_input *in, const sp_triple_sink *sink);
} formats[SP_GRAPH_N_FORMATS] = {
    [SP_GRAPH_TSV] = {"tsv", {".tsv", ".txt"}, sp_triples_read_tsv},
    [SP_GRAPH_CSV] = {"csv", {".csv"}, sp_triples_read_csv},
    [SP_GRAPH_JSONL] = {"jsonl", {".jsonl", ".ndjson"}, sp_triples_read_jsonl},
    [SP_GRAPH_GRAPHML] = {"graphml", {".graphml"}, sp_triples_read_graphml},
    [SP_GRAPH_LIGHTRAG] = {"lightrag", {".json"}, sp_triples_read_lightrag},
    [SP_GRAPH_NTRIPLES] = {"ntriples", {".nt"}, sp_triples_read_rdf},
    [SP_GRAPH_TURTLE] = {"turtle", {".ttl"}, sp_triples_read_rdf},
};

bool sp_graph_format_has_lines(sp_graph_format f)
{
    return f == SP_GRAPH_TSV || f == SP_GRAPH_CSV || f == SP_GRAPH_JSONL || f == SP_GRAPH_NTRIPLES;
}

sp_err sp_graph_format_find(const char *name, const char *path, sp_graph_format *out)
{
    const char *dot = strrchr(path, '.');
    for (int f = 0; f < SP_GRAPH_N_FORMATS; f++) {
        bool same = name && strcasecmp(formats[f].name, name) == 0;
        for (int i = 0; !name && dot && i < 3 && formats[f].suffixes[i]; i++)
            same |= strcasecmp(dot, formats[f].suffixes[i]) == 0;
        if (same) return *out = (sp_graph_format)f, SP_OK;
    }
    static const char all[] = "tsv, csv, jsonl, graphml, lightrag, ntriples, turtle";
    if (name) return sp_fail(SP_E_ARG, "graph format \"%s\" is unknown: %s", name, all);
    return sp_fail(SP_E_ARG, "%s: the suffix is not of a graph format; name the format: %s", path, all);
}

sp_err sp_triples_read(const sp_triples_input *in, const sp_triple_sink *sink)
{
    sp_triples_input rest = *in;
    if (rest.at == 0 && rest.n >= 3 && memcmp(rest.data, "\xEF\xBB\xBF", 3) == 0 &&
        in->format != SP_GRAPH_CSV)
        rest.at = 3; /* byte order mark */
    return formats[in->format].read(&rest, sink);
}

/* -- lines ---------------------------------------------------------------------------------- */

#define MAX_LINE (1 << 20)

typedef sp_err line_fn(const char *path, sp_text line, int64_t number, const sp_triple_sink *sink);

static sp_err each_line(const sp_triples_input *in, const sp_triple_sink *sink, line_fn *fn)
{
    int64_t number = in->line;
    for (size_t at = in->at; at < in->n;) {
        const char *newline = memchr(in->data + at, '\n', in->n - at);
        size_t end = newline ? (size_t)(newline - in->data) : in->n;
        sp_text line = {in->data + at, end - at};
        number++;
        if (line.n > MAX_LINE)
            SP_TRY(sink->bad(number, "the line has more than a mebibyte", sink->user));
        else if (sp_skip_blanks(line.s, 0, line.n) < line.n)
            SP_TRY(fn(in->path, line, number, sink));
        at = newline ? end + 1 : end;
        SP_TRY(sink->mark(at, number, sink->user));
    }
    return SP_OK;
}

static sp_err tsv_line(const char *path, sp_text line, int64_t number, const sp_triple_sink *sink)
{
    sp_text column[4] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}};
    int n = 0;
    for (size_t at = 0; at <= line.n; n++) {
        const char *tab = memchr(line.s + at, '\t', line.n - at);
        size_t end = tab ? (size_t)(tab - line.s) : line.n;
        if (n < 4) column[n] = (sp_text){line.s + at, end - at};
        at = end + 1;
    }
    if (n == 3 || n == 4)
        return sp_triples_give(&(sp_triple){column[0], column[1], column[2], column[3]}, number,
                               sink);
    char why[64];
    snprintf(why, sizeof why, "%d column%s; a triple has 3, or 4 with its source", n,
             n == 1 ? "" : "s");
    return sink->bad(number, why, sink->user);
}

sp_err sp_triples_read_tsv(const sp_triples_input *in, const sp_triple_sink *sink)
{
    return each_line(in, sink, tsv_line);
}

/* -- JSON lines ----------------------------------------------------------------------------- */

/* text_of -- a string, or an integer that `room` then holds; empty for anything else. */
static sp_text text_of(const json_t *v, char room[24])
{
    if (json_is_string(v)) return (sp_text){json_string_value(v), json_string_length(v)};
    if (!json_is_integer(v)) return (sp_text){"", 0};
    int n = snprintf(room, 24, "%lld", (long long)json_integer_value(v));
    return (sp_text){room, (size_t)n};
}

static const json_t *field(const json_t *object, const char *const *names)
{
    for (; *names; names++) {
        const json_t *v = json_object_get(object, *names);
        if (v) return v;
    }
    return NULL;
}

static sp_err json_names(const json_t *object, int64_t number, const sp_triple_sink *sink)
{
    char room[2][24];
    sp_text ident = text_of(json_object_get(object, "entity"), room[0]);
    const json_t *name = json_object_get(object, "name"), *alias;
    size_t i;
    if (name)
        SP_TRY(sp_triples_give_name(ident, text_of(name, room[1]), SP_NAME_MAIN, number, sink));
    json_array_foreach(json_object_get(object, "aliases"), i, alias)
        SP_TRY(sp_triples_give_name(ident, text_of(alias, room[1]), SP_NAME_ALIAS, number, sink));
    return SP_OK;
}

static sp_err json_triple(const json_t *v, int64_t number, const sp_triple_sink *sink)
{
    static const char *const names[4][5] = {{"subject", "head", "src", "from"},
                                            {"relation", "predicate", "rel", "type"},
                                            {"object", "tail", "target", "to"},
                                            {"source", "chunk", "source_id"}};
    char room[4][24];
    sp_text t[4];
    for (size_t i = 0; i < 4; i++)
        t[i] = text_of(json_is_array(v) ? json_array_get(v, i) : field(v, names[i]), room[i]);
    return sp_triples_give(&(sp_triple){t[0], t[1], t[2], t[3]}, number, sink);
}

static sp_err json_line(const char *path, sp_text line, int64_t number, const sp_triple_sink *sink)
{
    json_error_t why;
    json_t *v = sp_json_load(line.s, line.n, JSON_ALLOW_NUL, &why);
    sp_err err;
    if (!v && sp_json_code(&why, SP_OK) != SP_OK)
        err = sp_fail(SP_E_NOMEM, "%s:%lld: %s", path, (long long)number, why.text);
    else if (!v)
        err = sink->bad(number, why.text, sink->user);
    else if (json_is_object(v) && json_object_get(v, "entity"))
        err = json_names(v, number, sink);
    else if (json_is_object(v) || json_is_array(v))
        err = json_triple(v, number, sink);
    else
        err = sink->bad(number, "neither a JSON object nor an array", sink->user);
    json_decref(v);
    return err;
}

sp_err sp_triples_read_jsonl(const sp_triples_input *in, const sp_triple_sink *sink)
{
    return each_line(in, sink, json_line);
}

/* -- JSON of LightRAG ----------------------------------------------------------------------- */

/* relation_of -- what an edge says: keywords, or a description, or that there is one. */
static sp_text relation_of(const json_t *edge, char room[24])
{
    static const char *const names[] = {"keywords", "relation",    "type",
                                        "label",    "description", NULL};
    const json_t *more = json_object_get(edge, "properties");
    sp_text t = text_of(field(edge, names), room);
    if (t.n == 0 && more) t = text_of(field(more, names), room);
    return t.n ? first(t) : sp_text_of("related to");
}

static sp_err lightrag_edges(const json_t *edges, const sp_triple_sink *sink)
{
    static const char *const from[] = {"src_id", "source", NULL}, *const to[] = {"tgt_id", "target",
                                                                                 NULL};
    const json_t *e;
    size_t i;
    json_array_foreach(edges, i, e)
    {
        char room[4][24];
        const json_t *more = json_object_get(e, "properties");
        const json_t *source =
            json_object_get(more && !json_object_get(e, "source_id") ? more : e, "source_id");
        sp_triple t = {text_of(field(e, from), room[0]), relation_of(e, room[1]),
                       text_of(field(e, to), room[2]), text_of(source, room[3])};
        SP_TRY(sp_triples_give(&t, (int64_t)i + 1, sink));
    }
    return SP_OK;
}

static sp_err lightrag_nodes(const json_t *nodes, const sp_triple_sink *sink)
{
    static const char *const ids[] = {"entity_name", "id", NULL}, *const labels[] = {"entity_id",
                                                                                     "name", NULL};
    const json_t *node;
    size_t i;
    json_array_foreach(nodes, i, node)
    {
        char room[2][24];
        const json_t *name = field(json_object_get(node, "properties"), labels);
        sp_text ident = text_of(field(node, ids), room[0]);
        SP_TRY(sp_triples_give_name(ident, name ? text_of(name, room[1]) : ident, SP_NAME_MAIN,
                                    (int64_t)i + 1, sink));
    }
    return SP_OK;
}

sp_err sp_triples_read_lightrag(const sp_triples_input *in, const sp_triple_sink *sink)
{
    json_error_t why;
    json_t *all = sp_json_load(in->data + in->at, in->n - in->at, JSON_ALLOW_NUL, &why);
    if (!all) return sp_fail(sp_json_code(&why, SP_E_FORMAT), "%s:%d: %s", in->path, why.line, why.text);
    const json_t *edges = json_object_get(all, "relationships"), *nodes;
    nodes = json_object_get(all, edges ? "entities" : "nodes");
    if (!edges) edges = json_object_get(all, "edges");
    sp_err err = SP_OK;
    if (!json_is_array(edges))
        err = sp_fail(SP_E_FORMAT, "%s: no array \"relationships\" or \"edges\"", in->path);
    if (err == SP_OK) err = lightrag_nodes(nodes, sink);
    if (err == SP_OK) err = lightrag_edges(edges, sink);
    json_decref(all);
    return err;
}
