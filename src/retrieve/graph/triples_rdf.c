/* triples_rdf.c -- RDF as N-Triples and Turtle, parsed by raptor2.
 *
 *   <s> <p> <o>             a triple; the relation is the readable part of <p>
 *   <s> <p> "text"@en       a triple whose object is the text
 *   <s> rdfs:label "text"   a name of <s>: without a language or in English its main name, else an alias
 *   _:b                     a node of this file alone
 *
 * An IRI that no label names is called by its readable part, what follows the last / or #, decoded. A statement that
 * raptor2 refuses ends Turtle, where the rest may depend on it; in N-Triples it is a bad line.
 *
 * Without memory raptor2 calls some lines malformed and loses others without a word. So errno is looked at: malloc
 * sets it, and parsing what is in memory does not change it again. */
#include <errno.h>
#include <raptor2.h>
#include <string.h>

#include "retrieve/graph/db_int.h"
#include "retrieve/graph/names_int.h"
#include "retrieve/graph/triples.h"

#define PIECE (1 << 16)

static const struct {
    const char *iri;
    sp_name_kind kind;
} labels[] = {
    {"http://www.w3.org/2000/01/rdf-schema#label", SP_NAME_MAIN},
    {"http://www.w3.org/2004/02/skos/core#prefLabel", SP_NAME_MAIN},
    {"http://www.w3.org/2004/02/skos/core#altLabel", SP_NAME_ALIAS},
    {"http://schema.org/name", SP_NAME_MAIN},
    {"https://schema.org/name", SP_NAME_MAIN},
    {"http://schema.org/alternateName", SP_NAME_ALIAS},
    {"https://schema.org/alternateName", SP_NAME_ALIAS},
    {"http://xmlns.com/foaf/0.1/name", SP_NAME_MAIN},
};

typedef struct rdf {
    const sp_triples_input *in;
    const sp_triple_sink *sink;
    raptor_parser *parser;
    sp_err err;       /* of the sink */
    bool lacks_memory;
    int64_t line;     /* that is being parsed */
    char why[160];    /* the parser's first complaint since it was emptied */
    sp_bytes node[2]; /* blank nodes, with their file */
    sp_bytes name;    /* the readable part of an IRI */
} rdf;

/* -- terms ------------------------------------------------------------------------------------ */

static sp_text text_of(const unsigned char *s, size_t n)
{
    return (sp_text){(const char *)s, n};
}

static sp_text iri_of(const raptor_term *t)
{
    size_t n;
    const unsigned char *s = raptor_uri_as_counted_string(t->value.uri, &n);
    return text_of(s, n);
}

/* readable -- what an IRI is called; in r->name. */
static sp_err readable(rdf *r, sp_text iri, sp_text *out)
{
    r->name.n = 0;
    SP_TRY(sp_name_of_iri(iri.s, iri.n, &r->name));
    *out = (sp_text){r->name.v, r->name.n};
    return SP_OK;
}

/* term -- a subject or object as a node; blank nodes of two files are never one. */
static sp_err term(rdf *r, const raptor_term *t, sp_bytes *room, sp_text *out)
{
    switch (t->type) {
    case RAPTOR_TERM_TYPE_URI:
        *out = iri_of(t);
        return SP_OK;
    case RAPTOR_TERM_TYPE_LITERAL:
        *out = text_of(t->value.literal.string, t->value.literal.string_len);
        return SP_OK;
    case RAPTOR_TERM_TYPE_BLANK:
        room->n = 0;
        SP_TRY(sp_bytes_addf(room, "_:%s#%s", r->in->path, (const char *)t->value.blank.string));
        *out = (sp_text){room->v, room->n};
        return SP_OK;
    default:
        *out = (sp_text){"", 0};
        return SP_OK;
    }
}

/* -- statements ------------------------------------------------------------------------------- */

/* is_name -- whether the statement names its subject, and how. */
static bool is_name(const raptor_statement *s, sp_text iri, sp_name_kind *kind)
{
    if (s->object->type != RAPTOR_TERM_TYPE_LITERAL) return false;
    const char *language = (const char *)s->object->value.literal.language;
    bool other = language && strncasecmp(language, "en", 2) != 0;
    for (size_t i = 0; i < SP_COUNT(labels); i++)
        if (iri.n == strlen(labels[i].iri) && memcmp(iri.s, labels[i].iri, iri.n) == 0) {
            *kind = other ? SP_NAME_ALIAS : labels[i].kind;
            return true;
        }
    return false;
}

static sp_err name_node(rdf *r, const raptor_term *t, sp_text ident)
{
    sp_text name;
    if (t->type != RAPTOR_TERM_TYPE_URI) return SP_OK;
    SP_TRY(readable(r, ident, &name));
    return sp_triples_give_name(ident, name, SP_NAME_FALLBACK, r->line, r->sink);
}

static sp_err give(rdf *r, const raptor_statement *s)
{
    sp_text subject, object, relation = iri_of(s->predicate);
    sp_name_kind kind;
    SP_TRY(term(r, s->subject, &r->node[0], &subject));
    SP_TRY(term(r, s->object, &r->node[1], &object));
    if (is_name(s, relation, &kind))
        return sp_triples_give_name(subject, object, kind, r->line, r->sink);
    sp_triple t = {.subject = subject, .object = object};
    SP_TRY(readable(r, relation, &t.relation));
    SP_TRY(sp_triples_give(&t, r->line, r->sink));
    if (subject.n > SP_GRAPH_NAME_BYTES || object.n > SP_GRAPH_NAME_BYTES) return SP_OK;
    SP_TRY(name_node(r, s->subject, subject));
    return name_node(r, s->object, object);
}

static void note_memory(rdf *r)
{
    r->lacks_memory |= errno == ENOMEM;
    errno = 0;
}

static void on_statement(void *user, raptor_statement *s)
{
    rdf *r = user;
    note_memory(r);
    raptor_locator *at = raptor_parser_get_locator(r->parser);
    if (r->err != SP_OK) return;
    if (at && r->in->format == SP_GRAPH_TURTLE) r->line = SP_MAX(at->line, 1);
    r->err = give(r, s);
    if (r->err != SP_OK) raptor_parser_parse_abort(r->parser);
    errno = 0;
}

static void on_message(void *user, raptor_log_message *m)
{
    rdf *r = user;
    if (m->level < RAPTOR_LOG_LEVEL_ERROR || *r->why) return;
    if (m->locator && m->locator->line > 0 && r->in->format == SP_GRAPH_TURTLE)
        r->line = m->locator->line;
    snprintf(r->why, sizeof r->why, "%.150s", m->text ? m->text : "malformed");
}

/* -- files ------------------------------------------------------------------------------------ */

static bool start(rdf *r, raptor_uri *base)
{
    *r->why = '\0';
    errno = 0;
    const bool good = raptor_parser_parse_start(r->parser, base) == 0;
    note_memory(r);
    return good;
}

static bool parse(rdf *r, const char *s, size_t n, bool is_last)
{
    errno = 0;
    const bool good = raptor_parser_parse_chunk(r->parser, (const unsigned char *)s, n, is_last) == 0;
    note_memory(r);
    return good;
}

/* check -- what the sink or memory is the reason of. */
static sp_err check(const rdf *r)
{
    SP_TRY(r->err);
    return r->lacks_memory ? sp_fail_nomem("RDF") : SP_OK;
}

static sp_err read_turtle(rdf *r, raptor_uri *base)
{
    bool good = start(r, base);
    for (size_t at = 0; at < r->in->n && good && !*r->why && r->err == SP_OK; at += PIECE)
        good = parse(r, r->in->data + at, SP_MIN(PIECE, r->in->n - at), false);
    if (good && r->err == SP_OK && !*r->why) good = parse(r, NULL, 0, true);
    SP_TRY(check(r));
    if (good && !*r->why) return SP_OK;
    return sp_fail(SP_E_FORMAT, "%s:%lld: %s", r->in->path, (long long)SP_MAX(r->line, 1),
                   *r->why ? r->why : "malformed Turtle");
}

/* read_line -- parses one line of N-Triples as a document of its own, so that a bad one affects no other. */
static sp_err read_line(rdf *r, raptor_uri *base, const char *s, size_t n)
{
    const char *end = memchr(s, '\r', n);
    if (memchr(s, '\0', n) || (end && end + 2 < s + n)) /* raptor2 would lose what it has of the line */
        return r->sink->bad(r->line, "a control character", r->sink->user);
    const bool good = start(r, base) && parse(r, s, n, true);
    SP_TRY(check(r));
    if (good && !*r->why) return SP_OK;
    return r->sink->bad(r->line, *r->why ? r->why : "malformed", r->sink->user);
}

static sp_err read_lines(rdf *r, raptor_uri *base)
{
    const char *s = r->in->data;
    for (size_t at = r->in->at; at < r->in->n;) {
        const char *newline = memchr(s + at, '\n', r->in->n - at);
        size_t end = newline ? (size_t)(newline - s) + 1 : r->in->n;
        r->line++;
        SP_TRY(read_line(r, base, s + at, end - at));
        at = end;
        SP_TRY(r->sink->mark(at, r->line, r->sink->user));
    }
    return SP_OK;
}

static sp_err read_all(rdf *r, raptor_world *world)
{
    bool turtle = r->in->format == SP_GRAPH_TURTLE;
    unsigned char *name = raptor_uri_filename_to_uri_string(r->in->path);
    raptor_uri *base = name ? raptor_new_uri(world, name) : NULL;
    r->parser = base ? raptor_new_parser(world, turtle ? "turtle" : "ntriples") : NULL;
    sp_err err = r->parser ? SP_OK : sp_fail_nomem("an RDF parser");
    if (err == SP_OK) {
        raptor_parser_set_option(r->parser, RAPTOR_OPTION_NO_NET, NULL, 1);
        raptor_parser_set_option(r->parser, RAPTOR_OPTION_NO_FILE, NULL, 1);
        raptor_parser_set_statement_handler(r->parser, r, on_statement);
        err = turtle ? read_turtle(r, base) : read_lines(r, base);
    }
    if (r->parser) raptor_free_parser(r->parser);
    if (base) raptor_free_uri(base);
    if (name) raptor_free_memory(name);
    return err;
}

sp_err sp_triples_read_rdf(const sp_triples_input *in, const sp_triple_sink *sink)
{
    rdf r = {.in = in, .sink = sink, .line = in->line};
    raptor_world *world = raptor_new_world();
    if (!world) return sp_fail_nomem("an RDF parser");
    raptor_world_set_flag(world, RAPTOR_WORLD_FLAG_WWW_SKIP_INIT_FINISH, 1);
    raptor_world_set_flag(world, RAPTOR_WORLD_FLAG_LIBXML_GENERIC_ERROR_SAVE, 0);
    raptor_world_set_flag(world, RAPTOR_WORLD_FLAG_LIBXML_STRUCTURED_ERROR_SAVE, 0);
    raptor_world_set_log_handler(world, &r, on_message);
    sp_err err = raptor_world_open(world) == 0 ? read_all(&r, world)
                                               : sp_fail_nomem("an RDF parser");
    raptor_free_world(world);
    sp_vec_fini(&r.node[0]);
    sp_vec_fini(&r.node[1]);
    sp_vec_fini(&r.name);
    return err;
}
