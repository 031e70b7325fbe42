#include "server/api/citations.h"

#include <stdlib.h>
#include <string.h>

#include "server/http/memory.h"

enum { MOST_SOURCES = 5 };

/* -- sentences --------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* mark_at -- bytes of a sign that ends a sentence; 0: none. */
static size_t mark_at(const char *s)
{
    static const char *const wide[] = {"。", "！", "？"};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strncmp(s, wide[i], strlen(wide[i])) == 0) return strlen(wide[i]);
    return (*s == '.' || *s == '!' || *s == '?') && (is_blank(s[1]) || !s[1]) ? 1 : 0;
}

/* sentence_end -- of the sentence that begins at `from`, with its blanks: after ". ", "! ", "? ", a line end, or one
 * of the full-width signs. */
static size_t sentence_end(const char *text, size_t from)
{
    size_t i = from;
    for (; text[i]; i++) {
        const size_t n = mark_at(text + i);
        if (n == 0 && text[i] != '\n') continue;
        i += n;
        break;
    }
    while (is_blank(text[i])) i++;
    return i;
}

/* -- sources ----------------------------------------------------------------------------------- */

typedef struct source {
    size_t document;
    double mass;
} source;

static int by_mass(const void *a, const void *b)
{
    const source *x = a, *y = b;
    if (x->mass != y->mass) return x->mass < y->mass ? 1 : -1;
    return x->document < y->document ? -1 : 1;
}

/* A document's segments. */
typedef struct place {
    int from, to;
} place;

static place place_of(const sp_result *r, const srv_document *d)
{
    const int to = d->segment + (d->n_segments ? d->n_segments : 1);
    return d->segment < 0 || to > r->n_segments ? (place){0} : (place){d->segment, to};
}

static double sum_of(const float *looks, place p)
{
    double sum = 0;
    for (int s = p.from; looks && s < p.to; s++) sum += (double)looks[s];
    return sum;
}

/* expected -- the attention that a document gets for its position: that of the beginning of the question, or, if that
 * was not measured, its number of tokens. */
static double expected(const sp_result *r, place p)
{
    double sum = sum_of(r->looks_before, p);
    for (int s = p.from; !r->looks_before && s < p.to; s++) sum += r->segments[s].n_tokens;
    return sum;
}

/* is_in -- token t belongs to text[from .. to): a word to the sentence that it begins, not to that of the blank before
 * it, which many tokenizers put into the same token. */
static bool is_in(const sp_result *r, int t, size_t from, size_t to)
{
    const size_t at = (size_t)r->text_at[t], end = (size_t)r->text_at[t + 1];
    size_t word = at;
    if (at >= to) return false; /* a token after a stop string is not in the text */
    while (word < end && is_blank(r->text[word])) word++;
    if (word == end) word = at;
    return word >= from && word < to;
}

/* lift_of -- the attention of the tokens of text[from .. to) to a document, divided by the expected one. */
static double lift_of(const sp_result *r, const srv_document *d, size_t from, size_t to)
{
    const place p = place_of(r, d);
    double sum = 0;
    for (int t = 0; t < r->n_looks; t++)
        if (is_in(r, t, from, to)) sum += sum_of(r->looks + (size_t)t * (size_t)r->n_segments, p);
    return expected(r, p) > 0 ? sum / expected(r, p) : 0;
}

/* chunk_of -- its number among the documents with its id. */
static int chunk_of(const srv_documents *d, size_t i)
{
    int n = 0;
    for (size_t k = 0; k < i && d->v[i].id; k++) n += d->v[k].id && strcmp(d->v[k].id, d->v[i].id) == 0;
    return n;
}

static json_t *source_json(const srv_documents *d, const source *s, double all)
{
    const srv_document *one = &d->v[s->document];
    json_t *o = json_pack("{s:I, s:i, s:f}", "document", (json_int_t)s->document, "chunk", chunk_of(d, s->document),
                          "mass", s->mass / all);
    if (one->id) json_object_set_new(o, "id", json_string(one->id));
    if (one->title) json_object_set_new(o, "title", json_string(one->title));
    return o;
}

/* sources_json -- the documents that a sentence attends to more than to others; v: scratch [d->n]. */
static json_t *sources_json(const sp_result *r, const srv_documents *d, size_t from, size_t to, source *v)
{
    json_t *list = json_array();
    double all = 0;
    for (size_t i = 0; i < d->n; i++) all += (v[i] = (source){i, lift_of(r, &d->v[i], from, to)}).mass;
    qsort(v, d->n, sizeof *v, by_mass);
    for (size_t i = 0; i < d->n && i < MOST_SOURCES && all > 0; i++)
        if (v[i].mass * (double)d->n >= all) json_array_append_new(list, source_json(d, &v[i], all));
    return list;
}

static double asked_of(const sp_result *r, const srv_document *d)
{
    const place p = place_of(r, d);
    return expected(r, p) > 0 ? sum_of(r->looks_asking, p) / expected(r, p) : 0;
}

void srv_citations_rate(const srv_job *j, json_t *documents)
{
    const sp_result *r = srv_job_result(j, 0);
    double all = 0;
    if (!j->task.reply.citations || !r->looks_asking) return;
    for (size_t i = 0; i < j->documents.n; i++) all += asked_of(r, &j->documents.v[i]);
    for (size_t i = 0; i < j->documents.n && all > 0; i++)
        json_object_set_new(json_array_get(documents, i), "attention",
                            json_real(asked_of(r, &j->documents.v[i]) / all));
}

void srv_citations_add(const srv_job *j, int choice, json_t *to)
{
    const sp_result *r = srv_job_result(j, choice);
    const srv_documents *d = &j->documents;
    source *v = j->task.reply.citations ? calloc(d->n + 1, sizeof *v) : NULL;
    if (j->task.reply.citations && !v) srv_memory_lost(); /* the reply is an error */
    if (!v) return;
    json_t *list = json_array();
    const char *echo = srv_job_echo(j, choice);
    const size_t at = echo ? strlen(echo) : 0; /* where the text begins */
    for (size_t from = 0, end; r->looks && r->text[from]; from = end) {
        end = sentence_end(r->text, from);
        json_array_append_new(list, json_pack("{s:I, s:I, s:o}", "start", (json_int_t)(at + from), "end",
                                              (json_int_t)(at + end), "sources", sources_json(r, d, from, end, v)));
    }
    json_object_set_new(to, "citations", list);
    free(v);
}
