/* The readers of graph files on any bytes. The first byte chooses the format, the second where a
 * reader of lines begins; the rest is the file. Aborts when a name is not what the sink is promised,
 * or when reading in two parts differs from reading at once.
 *
 * raptor2 keeps the terms that it has read of a malformed line of N-Triples (about 90 bytes a line until the process
 * ends): leaks from inside it are not reported here, all others are. */
#include <stdlib.h>
#include <string.h>

#include "retrieve/graph/db_int.h"
#include "retrieve/graph/triples.h"
#include "retrieve/text/text.h"

/* A reading, summed up: how much was given, and a hash of it in order. */
typedef struct reading {
    uint64_t hash;
    size_t cut; /* stop at the first mark at or after this many marks */
    size_t n_marks, at;
    int64_t line;
} reading;

const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void)
{
    return "leak:libraptor2.so\n";
}

static void require(bool holds)
{
    if (!holds) abort();
}

static void take(reading *r, sp_text t, bool may_be_empty)
{
    require(t.n <= SP_GRAPH_NAME_BYTES && (t.n || may_be_empty));
    require(!t.n || sp_utf8_valid(t.s, t.n));
    for (size_t i = 0; i < t.n; i++) {
        require((unsigned char)t.s[i] >= 0x20);
        r->hash = (r->hash ^ (unsigned char)t.s[i]) * 0x100000001b3u;
    }
    r->hash = (r->hash ^ 0xff) * 0x100000001b3u;
}

static sp_err on_triple(const sp_triple *t, void *user)
{
    take(user, t->subject, false);
    take(user, t->relation, false);
    take(user, t->object, false);
    take(user, t->source, true);
    return SP_OK;
}

static sp_err on_name(sp_text ident, sp_text name, sp_name_kind kind, void *user)
{
    take(user, ident, false);
    take(user, name, false);
    return SP_OK;
}

static sp_err on_bad(int64_t line, const char *why, void *user)
{
    reading *r = user;
    require(line >= 0 && *why);
    r->hash = (r->hash ^ (uint64_t)line) * 0x100000001b3u;
    return SP_OK;
}

static sp_err on_mark(size_t at, int64_t line, void *user)
{
    reading *r = user;
    require(at >= r->at && line >= r->line);
    r->at = at;
    r->line = line;
    return ++r->n_marks == r->cut ? SP_E_CANCELED : SP_OK;
}

static sp_err run(sp_triples_input in, reading *r)
{
    const sp_triple_sink sink = {on_triple, on_name, on_bad, on_mark, r};
    in.at = r->at;
    in.line = r->line;
    return sp_triples_read(&in, &sink);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2) return 0;
    sp_triples_input in = {.format = data[0] % SP_GRAPH_N_FORMATS, .path = "f"};
    in.data = (const char *)data + 2;
    in.n = n - 2;
    reading whole = {0}, parts = {.cut = 1 + data[1] % 8};
    sp_err err = run(in, &whole);
    bool fails = in.format != SP_GRAPH_TSV && in.format != SP_GRAPH_JSONL &&
                 in.format != SP_GRAPH_NTRIPLES; /* as a whole */
    require(err == SP_OK || (err == SP_E_FORMAT && fails));
    if (sp_graph_format_has_lines(in.format) && err == SP_OK) {
        err = run(in, &parts);
        if (err == SP_E_CANCELED && parts.at < in.n) err = run(in, &parts);
        require(err == SP_OK || err == SP_E_CANCELED);
        require(whole.hash == parts.hash);
    }
    return 0;
}
