/* triples_graphml.c -- GraphML as NetworkX, LightRAG and Gephi write it, read as a stream.
 *
 *   <key id="d0" for="node" attr.name="label" .../>     which data are names, relations, sources
 *   <node id="n0"><data key="d0">Alice</data></node>
 *   <edge source="n0" target="n1"><data key="d3">likes</data></edge>
 *
 * An edge without a relation is "related to".
 */
#include <libxml/xmlreader.h>
#include <string.h>

#include "retrieve/documents/libxml.h"
#include "retrieve/graph/triples.h"

enum { NAME, RELATION, SOURCE, N_ROLES };

/* Attribute names by role, the best first. */
static const struct {
    const char *of;
    int role;
    const char *name;
} attributes[] = {
    {"node", NAME, "label"},          {"node", NAME, "name"},
    {"node", NAME, "title"},          {"node", NAME, "entity_id"},
    {"edge", RELATION, "relation"},   {"edge", RELATION, "keywords"},
    {"edge", RELATION, "label"},      {"edge", RELATION, "type"},
    {"edge", RELATION, "Edge Label"}, {"edge", RELATION, "description"},
    {"edge", SOURCE, "source_id"},    {"edge", SOURCE, "source"},
};

typedef struct key {
    char *id; /* of libxml2 */
    int rank; /* in attributes */
} key;

typedef struct graphml {
    const sp_triples_input *in;
    const sp_triple_sink *sink;
    xmlTextReader *xml;
    SP_VEC(key) keys;
    /* the node or edge being read */
    bool in_node, in_edge;
    int64_t line;
    char *id, *target; /* of libxml2 */
    sp_bytes text[N_ROLES];
    int rank[N_ROLES]; /* of the best datum so far; -1: none */
} graphml;

static char *attribute(graphml *g, const char *name)
{
    return (char *)xmlTextReaderGetAttribute(g->xml, (const xmlChar *)name);
}

static bool is(graphml *g, const char *name)
{
    const char *here = (const char *)xmlTextReaderConstLocalName(g->xml);
    return here && strcmp(here, name) == 0;
}

static sp_err read_key(graphml *g)
{
    char *id = attribute(g, "id"), *of = attribute(g, "for"), *name = attribute(g, "attr.name");
    sp_err err = SP_OK;
    for (size_t i = 0; err == SP_OK && id && name && i < SP_COUNT(attributes); i++) {
        bool same = (!of || strcmp(of, attributes[i].of) == 0 || strcmp(of, "all") == 0) &&
                    strcasecmp(name, attributes[i].name) == 0;
        if (!same) continue;
        err = sp_vec_reserve(&g->keys, 1);
        if (err != SP_OK) break;
        g->keys.v[g->keys.n++] = (key){id, (int)i};
        id = NULL;
    }
    xmlFree(id);
    xmlFree(of);
    xmlFree(name);
    return err;
}

/* begin -- of a node or an edge. */
static void begin(graphml *g, bool node)
{
    xmlFree(g->id);
    xmlFree(g->target);
    g->in_node = node;
    g->in_edge = !node;
    g->id = attribute(g, node ? "id" : "source");
    g->target = node ? NULL : attribute(g, "target");
    g->line = sp_libxml_line(g->xml);
    for (int r = 0; r < N_ROLES; r++) {
        g->rank[r] = -1;
        g->text[r].n = 0;
    }
}

static sp_err end(graphml *g)
{
    bool node = g->in_node;
    sp_text text[N_ROLES], id = sp_text_of(g->id);
    for (int r = 0; r < N_ROLES; r++) text[r] = (sp_text){g->text[r].v, g->text[r].n};
    g->in_node = g->in_edge = false;
    if (node)
        return sp_triples_give_name(id, text[NAME].n ? text[NAME] : id, SP_NAME_MAIN, g->line,
                                    g->sink);
    sp_text relation = text[RELATION].n ? text[RELATION] : sp_text_of("related to");
    const char *cut = memmem(relation.s, relation.n, "<SEP>", 5);
    if (cut) relation.n = (size_t)(cut - relation.s);
    return sp_triples_give(&(sp_triple){id, relation, sp_text_of(g->target), text[SOURCE]}, g->line,
                           g->sink);
}

/* read_data -- keeps the datum of an element where it is the best of its role. */
static sp_err read_data(graphml *g)
{
    char *id = attribute(g, "key");
    int rank = -1;
    for (size_t i = 0; id && i < g->keys.n; i++)
        if (strcmp(g->keys.v[i].id, id) == 0) rank = g->keys.v[i].rank;
    xmlFree(id);
    if (rank < 0) return SP_OK;
    int role = attributes[rank].role;
    if (g->rank[role] >= 0 && g->rank[role] <= rank) return SP_OK;
    xmlChar *text = xmlTextReaderReadString(g->xml);
    sp_err err = SP_OK;
    if (text && *text) {
        g->rank[role] = rank;
        g->text[role].n = 0;
        err = sp_bytes_add(&g->text[role], text, strlen((const char *)text));
    }
    xmlFree(text);
    return err;
}

static sp_err read_element(graphml *g, bool *closed)
{
    *closed = false;
    if (is(g, "key")) return read_key(g);
    if (is(g, "node") || is(g, "edge")) {
        begin(g, is(g, "node"));
        *closed = xmlTextReaderIsEmptyElement(g->xml) == 1;
        return SP_OK;
    }
    return is(g, "data") && (g->in_node || g->in_edge) ? read_data(g) : SP_OK;
}

static sp_err read_all(graphml *g)
{
    int rc;
    while ((rc = xmlTextReaderRead(g->xml)) == 1) {
        int type = xmlTextReaderNodeType(g->xml);
        bool closed = false;
        if (type == XML_READER_TYPE_ELEMENT)
            SP_TRY(read_element(g, &closed));
        else if (type == XML_READER_TYPE_END_ELEMENT)
            closed = (g->in_node && is(g, "node")) || (g->in_edge && is(g, "edge"));
        if (closed) SP_TRY(end(g));
    }
    if (rc == 0) return SP_OK;
    const xmlError *why = xmlGetLastError();
    return sp_fail(SP_E_FORMAT, "%s:%d: %.200s", g->in->path, why ? why->line : 0,
                   why && why->message ? why->message : "not XML");
}

sp_err sp_triples_read_graphml(const sp_triples_input *in, const sp_triple_sink *sink)
{
    if (in->n > INT32_MAX) return sp_fail(SP_E_LIMIT, "%s: over 2 GiB of XML", in->path);
    SP_TRY(sp_libxml_enter());
    graphml g = {.in = in, .sink = sink};
    xmlResetLastError();
    g.xml = xmlReaderForMemory(in->data, (int)in->n, NULL, NULL,
                               XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
    if (!g.xml) return sp_fail_nomem("an XML reader");
    sp_err err = read_all(&g);
    xmlFreeTextReader(g.xml);
    xmlFree(g.id);
    xmlFree(g.target);
    for (int r = 0; r < N_ROLES; r++) sp_vec_fini(&g.text[r]);
    for (size_t i = 0; i < g.keys.n; i++) xmlFree(g.keys.v[i].id);
    sp_vec_fini(&g.keys);
    return err;
}
