#include "lab/eval/dataset.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/cli.h"
#include "lab/files.h"
#include "lab/numbers.h"

#define N_RETRIEVED 8

/* -- questions ------------------------------------------------------------------------------ */

/* text_of -- a text field; "" when it is absent and not needed; NULL after an error message. */
static const char *text_of(const char *path, int line, const json_t *object, const char *field,
                           bool needed)
{
    const json_t *value = json_object_get(object, field);
    const char *text = json_string_value(value);
    if (!value && !needed) return "";
    if (!value)
        cli_fail_with("%s: line %d: field %s is missing", path, line, field);
    else if (!text)
        cli_fail_with("%s: line %d: field %s is not a text", path, line, field);
    else if (needed && !*text)
        cli_fail_with("%s: line %d: field %s is empty", path, line, field);
    return needed && text && !*text ? NULL : text;
}

/* are_texts -- whether the field is a list of texts; if not, after an error message. */
static bool are_texts(const char *path, int line, const json_t *list, const char *field)
{
    if (!json_is_array(list)) {
        cli_fail_with("%s: line %d: field %s is %s", path, line, field,
                      list ? "not a list of texts" : "missing");
        return false;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i))) {
            cli_fail_with("%s: line %d: field %s: entry %zu is not a text", path, line, field,
                          i + 1);
            return false;
        }
    return true;
}

static bool find_names(const char *path, eval_question *q)
{
    static const char *const fields[] = {"context_doc_ids", "docs", "doc_ids"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields && !q->names; i++) {
        q->names = json_object_get(q->object, fields[i]);
        q->names_field = fields[i];
    }
    return !q->names || are_texts(path, q->line, q->names, q->names_field);
}

typedef struct reading {
    eval_questions *all;
    const char *kind_field;
    size_t cap;
    json_t *ids; /* id -> line */
} reading;

/* remember_id -- registers a question's id, made from its line if it has none. False after an error
 * message when the id is not unique. */
static bool remember_id(reading *r, eval_question *q)
{
    if (!*q->id) {
        char made[24];
        snprintf(made, sizeof made, "q%d", q->line);
        json_object_set_new(q->object, "id", json_string(made));
        q->id = json_string_value(json_object_get(q->object, "id"));
    }
    for (const char *s = q->id; *s; s++)
        if ((unsigned char)*s < ' ') {
            cli_fail_with("%s: line %d: field id contains a control character", r->all->path,
                          q->line);
            return false;
        }
    const json_t *before = json_object_get(r->ids, q->id);
    if (before) {
        cli_fail_with("%s: line %d: field id: \"%s\" is also the id of line %d", r->all->path,
                      q->line, q->id, (int)json_integer_value(before));
        return false;
    }
    json_object_set_new(r->ids, q->id, json_integer(q->line));
    return true;
}

static bool add_question(const char *path, int line, json_t *object, void *user)
{
    reading *r = user;
    const json_t *answers = json_object_get(object, "answers");
    eval_question q = {.line = line, .object = object};
    if (!(q.text = text_of(path, line, object, "question", true)) ||
        !(q.id = text_of(path, line, object, "id", false)) || !remember_id(r, &q) ||
        !(q.kind = text_of(path, line, object, r->kind_field, false)) || /* may be the id made now */
        !are_texts(path, line, answers, "answers") || !find_names(path, &q))
        return false;
    q.n_answers = (int)json_array_size(answers);
    if (q.n_answers == 0) {
        cli_fail_with("%s: line %d: field answers is empty", path, line);
        return false;
    }
    q.answers = cli_alloc((size_t)q.n_answers, sizeof *q.answers);
    for (int i = 0; i < q.n_answers; i++)
        q.answers[i] = json_string_value(json_array_get(answers, (size_t)i));
    json_incref(object);
    r->all->v = cli_grow(r->all->v, (size_t)r->all->n, &r->cap, sizeof q);
    r->all->v[r->all->n++] = q;
    return true;
}

bool eval_questions_read(const char *path, const char *kind_field, eval_questions *out)
{
    eval_questions all = {.path = path};
    reading r = {.all = &all, .kind_field = kind_field, .ids = json_object()};
    bool good = lab_json_lines(path, JSON_DECODE_INT_AS_REAL, add_question, &r, &all.hash);
    json_decref(r.ids);
    if (good && all.n == 0) {
        cli_fail_with("%s: contains no questions", path);
        good = false;
    }
    if (good)
        *out = all;
    else
        eval_questions_drop(&all);
    return good;
}

void eval_questions_drop(eval_questions *q)
{
    for (int i = 0; i < q->n; i++) {
        free(q->v[i].answers);
        json_decref(q->v[i].object);
    }
    free(q->v);
    *q = (eval_questions){0};
}

/* -- documents ------------------------------------------------------------------------------ */

static bool add_document(const char *path, int line, json_t *object, void *user)
{
    eval_docs *d = user;
    const char *field = json_object_get(object, "contents")  ? "contents"
                        : json_object_get(object, "content") ? "content"
                                                             : "text";
    if (json_object_get(object, "text")) field = "text";
    const char *id = text_of(path, line, object, "id", true);
    const char *title = id ? text_of(path, line, object, "title", false) : NULL;
    const char *text = title ? text_of(path, line, object, field, true) : NULL;
    if (!text) return false;
    if (json_object_get(d->by_id, id)) {
        cli_fail_with("%s: line %d: field id: \"%s\" is also the id of an earlier line", path, line,
                      id);
        return false;
    }
    json_object_set_new(object, "text", json_string(text));
    json_object_set(d->by_id, id, object);
    return true;
}

char *eval_temporary(int *fd)
{
    const char *home = getenv("TMPDIR");
    char *path = cli_join(home && *home ? home : "/tmp", "/spolia-eval-XXXXXX");
    *fd = mkstemp(path);
    if (*fd >= 0) return path;
    cli_fail_with("%s: %s", path, strerror(errno));
    free(path);
    return NULL;
}

/* index_folder -- builds an index of the folder in a temporary file. */
static bool index_folder(eval_docs *d)
{
    int fd;
    char *path = eval_temporary(&fd);
    if (!path) return false;
    close(fd);
    d->temporary = path;
    sp_index_stats stats;
    sp_err err = sp_index_build(&d->o.docs, 1, path, NULL, &stats);
    if (err == SP_OK) err = sp_index_open(path, &d->index);
    if (err != SP_OK) cli_fail(err);
    return err == SP_OK;
}

static bool open_documents(eval_docs *d)
{
    struct stat s;
    if (d->o.index) {
        sp_err err = sp_index_open(d->o.index, &d->index);
        if (err != SP_OK) cli_fail(err);
        if (err != SP_OK || !d->o.docs) return err == SP_OK;
    }
    if (stat(d->o.docs, &s) != 0) {
        cli_fail_with("%s: %s", d->o.docs, strerror(errno));
        return false;
    }
    if (S_ISDIR(s.st_mode) && d->index) {
        cli_fail_with("%s: give either a folder or an index of the documents", d->o.docs);
        return false;
    }
    if (S_ISDIR(s.st_mode)) return index_folder(d);
    d->by_id = json_object();
    return lab_json_lines(d->o.docs, JSON_DECODE_INT_AS_REAL, add_document, d, NULL);
}

bool eval_docs_open(const eval_docs_opts *o, eval_docs *out)
{
    eval_docs d = {.o = *o};
    bool good = open_documents(&d);
    d.given = o->context ? strcmp(o->context, "given") == 0 : d.by_id != NULL;
    if (good && !d.given && !d.index) {
        cli_fail_with("--context retrieved: %s has no index; build one of its folder with "
                      "spolia index, and pass it with --index",
                      o->docs);
        good = false;
    }
    if (good)
        *out = d;
    else
        eval_docs_close(&d);
    return good;
}

void eval_docs_close(eval_docs *d)
{
    sp_index_close(d->index);
    if (d->temporary) unlink(d->temporary);
    free(d->temporary);
    json_decref(d->by_id);
    *d = (eval_docs){0};
}

/* -- the context of a question -------------------------------------------------------------- */

static void add_chunk(eval_context *c, eval_chunk chunk)
{
    c->v = cli_grow(c->v, c->n, &c->cap, sizeof *c->v);
    c->v[c->n++] = chunk;
}

static void add_hits(eval_context *c, sp_hits hits)
{
    c->hits = cli_grow(c->hits, c->n_hits, &c->cap_hits, sizeof *c->hits);
    c->hits[c->n_hits++] = hits;
    for (int i = 0; i < hits.n; i++)
        add_chunk(
            c, (eval_chunk){.id = hits.v[i].id, .title = hits.v[i].title, .text = hits.v[i].text});
}

static int by_id(const void *x, const void *y)
{
    int64_t i = ((const sp_hit *)x)->id, j = ((const sp_hit *)y)->id;
    return (i > j) - (i < j);
}

/* retrieve -- the prompts of `spolia ask`: in the order of the index, or ranked. */
static bool retrieve(const eval_docs *d, const eval_question *q, eval_context *c)
{
    sp_hits hits = {0};
    sp_err err =
        sp_index_search(d->index, q->text, d->o.n_chunks ? d->o.n_chunks : N_RETRIEVED, &hits);
    if (err != SP_OK) {
        cli_fail(err);
        return false;
    }
    if (strcmp(d->o.order, "ranked") != 0 && hits.n > 1)
        qsort(hits.v, (size_t)hits.n, sizeof *hits.v, by_id);
    add_hits(c, hits);
    return true;
}

static eval_chunk chunk_of(const eval_docs *d, const json_t *doc)
{
    const char *follows = json_string_value(json_object_get(doc, "follows"));
    const json_t *prior = follows ? json_object_get(d->by_id, follows) : NULL;
    return (eval_chunk){.title = json_string_value(json_object_get(doc, "title")),
                        .text = json_string_value(json_object_get(doc, "text")),
                        .prior_title = json_string_value(json_object_get(prior, "title")),
                        .prior_text = json_string_value(json_object_get(prior, "text"))};
}

/* add_named -- the chunks of the document with this name or id; false after an error message. */
static bool add_named(const eval_docs *d, const eval_questions *all, const eval_question *q,
                      const char *name, eval_context *c)
{
    sp_hits hits = {0};
    const json_t *doc = d->by_id ? json_object_get(d->by_id, name) : NULL;
    sp_err err = d->index && !d->by_id ? sp_index_document(d->index, name, &hits) : SP_OK;
    if (err != SP_OK) {
        cli_fail(err);
        return false;
    }
    if (!doc && hits.n == 0) {
        sp_hits_fini(&hits);
        cli_fail_with("%s: line %d: field %s: document \"%s\" is not in %s", all->path, q->line,
                      q->names_field, name, d->by_id || !d->o.index ? d->o.docs : d->o.index);
        return false;
    }
    if (doc)
        add_chunk(c, chunk_of(d, doc));
    else
        add_hits(c, hits);
    return true;
}

static bool take_given(const eval_docs *d, const eval_questions *all, const eval_question *q,
                       eval_context *c)
{
    if (!q->names) {
        cli_fail_with("%s: line %d: field context_doc_ids, docs or doc_ids is missing; "
                      "--context given needs one",
                      all->path, q->line);
        return false;
    }
    for (size_t i = 0; i < json_array_size(q->names); i++)
        if (!add_named(d, all, q, json_string_value(json_array_get(q->names, i)), c)) return false;
    if (d->o.n_chunks && c->n > (size_t)d->o.n_chunks) c->n = (size_t)d->o.n_chunks;
    return true;
}

/* shuffle -- depends on seed and question id only, not on the other questions. */
static void shuffle(eval_context *c, uint64_t seed)
{
    for (size_t i = c->n; i > 1; i--) {
        size_t j = (size_t)(lab_random(&seed) % i);
        eval_chunk moved = c->v[i - 1];
        c->v[i - 1] = c->v[j];
        c->v[j] = moved;
    }
}

bool eval_context_find(const eval_docs *d, const eval_questions *all, const eval_question *q,
                       eval_context *out)
{
    eval_context c = {0};
    if (!(d->given ? take_given(d, all, q, &c) : retrieve(d, q, &c))) {
        eval_context_drop(&c);
        return false;
    }
    if (strcmp(d->o.order, "shuffled") == 0)
        shuffle(&c, d->o.seed ^ lab_hash(q->id, strlen(q->id)));
    *out = c;
    return true;
}

void eval_context_drop(eval_context *c)
{
    for (size_t i = 0; i < c->n_hits; i++) sp_hits_fini(&c->hits[i]);
    free(c->hits);
    free(c->v);
    *c = (eval_context){0};
}
