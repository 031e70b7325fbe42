/* triples.h -- readers of graph files: each passes triples, names of nodes, and bad lines to a sink.
 * They work on memory, keep no state between calls, and accept any bytes. */
#ifndef SP_RETRIEVE_GRAPH_TRIPLES_H
#define SP_RETRIEVE_GRAPH_TRIPLES_H

#include "base/mem.h"
#include "spolia_graph.h"

typedef struct sp_text {
    const char *s; /* valid during the call; not NUL-terminated */
    size_t n;
} sp_text;

typedef struct sp_triple {
    sp_text subject, relation, object;
    sp_text source; /* empty: unknown */
} sp_triple;

typedef enum sp_name_kind {
    SP_NAME_MAIN,
    SP_NAME_ALIAS,    /* the node has another main name */
    SP_NAME_FALLBACK, /* its main name if it has no other */
} sp_name_kind;

/* Functions return SP_OK, or an error, which ends the reading and is returned. */
typedef struct sp_triple_sink {
    sp_err (*triple)(const sp_triple *t, void *user);
    sp_err (*name)(sp_text ident, sp_text name, sp_name_kind kind, void *user);
    /* A line that cannot be used. */
    sp_err (*bad)(int64_t line, const char *why, void *user);
    /* All lines before byte `at` are read, `line` of them; where to continue after an interruption.
     * Only line-based formats call it. */
    sp_err (*mark)(size_t at, int64_t line, void *user);
    void *user;
} sp_triple_sink;

typedef enum sp_graph_format {
    SP_GRAPH_TSV,
    SP_GRAPH_CSV,
    SP_GRAPH_JSONL,
    SP_GRAPH_GRAPHML,
    SP_GRAPH_LIGHTRAG,
    SP_GRAPH_NTRIPLES,
    SP_GRAPH_TURTLE,
    SP_GRAPH_N_FORMATS,
} sp_graph_format;

/* sp_graph_format_has_lines -- whether the format is line-based, so that reading can be resumed at a line. */
bool sp_graph_format_has_lines(sp_graph_format f);

/* sp_graph_format_find -- by name, or with NULL by the suffix of a file name. SP_E_ARG. */
sp_err sp_graph_format_find(const char *name, const char *path, sp_graph_format *out) SP_MUST_CHECK;

typedef struct sp_triples_input {
    sp_graph_format format;
    const char *path; /* for errors */
    const char *data;
    size_t n;
    size_t at; /* line-based formats: where to begin, and the lines before it */
    int64_t line;
    sp_graph_columns columns; /* of CSV */
} sp_triples_input;

/* sp_triples_read -- reads all of it. Names are trimmed, well-formed UTF-8 without control
 * characters, 1 to SP_GRAPH_NAME_BYTES long, and on one line, as line breaks and tabs become blanks; others go to
 * `bad`.
 * Errors: SP_E_FORMAT when the file as a whole is malformed, SP_E_NOMEM, and what the sink returns. */
sp_err sp_triples_read(const sp_triples_input *in, const sp_triple_sink *sink) SP_MUST_CHECK;

/* The readers, one per format. */
sp_err sp_triples_read_tsv(const sp_triples_input *in, const sp_triple_sink *sink) SP_MUST_CHECK;
sp_err sp_triples_read_csv(const sp_triples_input *in, const sp_triple_sink *sink) SP_MUST_CHECK;
sp_err sp_triples_read_jsonl(const sp_triples_input *in, const sp_triple_sink *sink) SP_MUST_CHECK;
sp_err sp_triples_read_graphml(const sp_triples_input *in,
                               const sp_triple_sink *sink) SP_MUST_CHECK;
sp_err sp_triples_read_lightrag(const sp_triples_input *in,
                                const sp_triple_sink *sink) SP_MUST_CHECK;

/* sp_triples_read_rdf -- N-Triples and Turtle. */
sp_err sp_triples_read_rdf(const sp_triples_input *in, const sp_triple_sink *sink) SP_MUST_CHECK;

/* sp_triples_give -- checks a triple of line `line` and passes it to the sink, or says why it is bad. */
sp_err sp_triples_give(const sp_triple *t, int64_t line, const sp_triple_sink *sink) SP_MUST_CHECK;
sp_err sp_triples_give_name(sp_text ident, sp_text name, sp_name_kind kind, int64_t line,
                            const sp_triple_sink *sink) SP_MUST_CHECK;

/* sp_text_of -- a C string, or an empty text for NULL. */
sp_text sp_text_of(const char *s);
bool sp_text_is(sp_text t, const char *s);

#endif
