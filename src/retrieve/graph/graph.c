/* graph.c -- opens graphs of either store, and builds answers: entities, paths, texts. */
#include <string.h>
#include <strings.h>

#include "base/need.h"
#include "retrieve/graph/tree.h"
#include "retrieve/graph/walk_int.h"

#define MAX_HOPS 8

sp_err sp_graph_copy(sp_arena *strings, const char *s, size_t n, const char **out)
{
    char *copy = sp_arena_take(strings, n + 1, 1); /* zeroed, so terminated */
    if (!copy) return sp_fail_nomem("a text");
    if (n) memcpy(copy, s, n);
    *out = copy;
    return SP_OK;
}

/* -- open and describe ---------------------------------------------------------------------- */

bool sp_graph_is_url(const char *where)
{
    return strncasecmp(where, "http://", 7) == 0 || strncasecmp(where, "https://", 8) == 0;
}

sp_err sp_graph_open(const sp_graph_open_opts *o, sp_graph **out)
{
    SP_NEED(o);
    SP_NEED(out);
    if (!o->where) return sp_fail(SP_E_ARG, "where: give a file or the URL of a SPARQL endpoint");
    return sp_graph_is_url(o->where) ? sp_graph_sparql_open(o, out) : sp_graph_sqlite_open(o, out);
}

void sp_graph_close(sp_graph *g)
{
    if (g) g->ops->close(g);
}

sp_err sp_graph_begin(sp_graph *g)
{
    return g->ops->begin ? g->ops->begin(g) : SP_OK;
}

void sp_graph_end(sp_graph *g)
{
    if (g->ops->end) g->ops->end(g);
}

sp_err sp_graph_describe(sp_graph *g, sp_graph_info *out)
{
    SP_NEED(g);
    SP_NEED(out);
    sp_graph_info info = {.backend = g->ops->name, .strings = SP_NEW(sp_arena)};
    if (!info.strings) return sp_fail_nomem("a description");
    sp_err err = sp_graph_begin(g);
    if (err == SP_OK) err = g->ops->describe(g, &info, info.strings);
    sp_graph_end(g);
    if (err == SP_OK)
        *out = info;
    else
        sp_graph_info_fini(&info);
    return err;
}

void sp_graph_info_fini(sp_graph_info *i)
{
    if (!i) return;
    if (i->strings) sp_arena_fini(i->strings);
    sp_free(i->strings);
    sp_free(i->relations);
    *i = (sp_graph_info){0};
}

/* -- answers -------------------------------------------------------------------------------- */

typedef struct answer {
    sp_graph *g;
    sp_graph_paths_opts o;
    sp_graph_question q;
    sp_graph_named_list named;
    sp_arena *strings;
    SP_VEC(sp_graph_entity) entities;
    SP_VEC(sp_graph_path) paths;
    sp_graph_answer counts;
    sp_bytes text;
} answer;

void sp_graph_answer_fini(sp_graph_answer *a)
{
    if (!a) return;
    if (a->strings) sp_arena_fini(a->strings);
    sp_free(a->strings);
    sp_free(a->entities);
    sp_free(a->paths);
    *a = (sp_graph_answer){0};
}

static sp_err answer_init(answer *a, sp_graph *g, const char *question)
{
    *a = (answer){.g = g, .strings = SP_NEW(sp_arena)};
    if (!a->strings) return sp_fail_nomem("an answer");
    sp_err err = sp_graph_question_init(&a->q, question);
    if (err != SP_OK) sp_free(a->strings);
    return err;
}

/* answer_end -- hands the answer over, or frees it. */
static sp_err answer_end(answer *a, sp_err err, sp_graph_answer *out)
{
    sp_graph_answer result = a->counts;
    result.entities = a->entities.v;
    result.n_entities = (int)a->entities.n;
    result.paths = a->paths.v;
    result.n_paths = (int)a->paths.n;
    result.strings = a->strings;
    sp_graph_question_fini(&a->q);
    sp_vec_fini(&a->named);
    sp_vec_fini(&a->text);
    if (err == SP_OK)
        *out = result;
    else
        sp_graph_answer_fini(&result);
    return err;
}

static sp_err add_entities(answer *a)
{
    SP_TRY(sp_vec_reserve(&a->entities, a->named.n));
    for (size_t i = 0; i < a->named.n; i++) {
        const sp_graph_named *m = &a->named.v[i];
        sp_graph_entity e = {.id = m->node, .match = m->match, .distance = m->distance};
        size_t from = m->to > m->from ? a->q.words.v[m->from].from : 0;
        size_t to = m->to > m->from ? a->q.words.v[m->to - 1].to : 0;
        SP_TRY(a->g->ops->node(a->g, m->node, a->strings, &e.name, &e.ident));
        SP_TRY(sp_graph_copy(a->strings, a->q.text + from, to - from, &e.mention));
        a->entities.v[a->entities.n++] = e;
    }
    return SP_OK;
}

sp_err sp_graph_search(sp_graph *g, const char *name, int k, sp_graph_answer *out)
{
    SP_NEED(g);
    SP_NEED(name);
    SP_NEED(out);
    answer a;
    if (k < 1) return sp_fail(SP_E_ARG, "k: %d is below 1", k);
    SP_TRY(answer_init(&a, g, name));
    sp_err err = sp_graph_begin(g);
    if (err == SP_OK && a.q.key.n) err = sp_graph_find_name(g, &a.q, k, &a.named);
    if (err == SP_OK) err = add_entities(&a);
    sp_graph_end(g);
    return answer_end(&a, err, out);
}

/* -- paths ---------------------------------------------------------------------------------- */

/* The arrays of a path, filled from its end to its beginning. */
typedef struct path_arrays {
    const char **nodes, **relations, **sources;
    bool *inverse;
} path_arrays;

static sp_err path_arrays_take(sp_arena *strings, int n_hops, path_arrays *out)
{
    size_t n = (size_t)n_hops;
    out->nodes = sp_arena_take(strings, n + 1, sizeof(char *));
    out->relations = sp_arena_take(strings, n, sizeof(char *));
    out->sources = sp_arena_take(strings, n, sizeof(char *));
    out->inverse = sp_arena_take(strings, n, sizeof(bool));
    return out->nodes && out->relations && out->sources && out->inverse
               ? SP_OK
               : sp_fail_nomem("a path");
}

static sp_err add_path(answer *a, int entity, const sp_graph_walk *w, const sp_graph_choice *c)
{
    const sp_graph_ops *ops = a->g->ops;
    const sp_graph_step *step = &w->steps.v[c->step];
    sp_graph_path p = {.entity = entity, .score = c->score, .why = c->why};
    p.n_hops = w->patterns.v[step->pattern].depth;
    path_arrays v;
    SP_TRY(path_arrays_take(a->strings, p.n_hops, &v));
    for (int i = p.n_hops; i > 0; i--, step = &w->steps.v[step->parent]) {
        const sp_graph_pattern *via = &w->patterns.v[step->pattern];
        int64_t before = w->steps.v[step->parent].node,
                subject = via->inverse ? step->node : before;
        v.inverse[i - 1] = via->inverse;
        SP_TRY(ops->node(a->g, step->node, a->strings, &v.nodes[i], NULL));
        SP_TRY(ops->relation(a->g, via->relation, a->strings, &v.relations[i - 1]));
        SP_TRY(ops->source(a->g, subject, via->relation, via->inverse ? before : step->node,
                           a->strings, &v.sources[i - 1]));
    }
    v.nodes[0] = a->entities.v[entity].name;
    p.nodes = v.nodes;
    p.relations = v.relations;
    p.sources = v.sources;
    p.inverse = v.inverse;
    a->text.n = 0;
    SP_TRY(sp_path_text(&p, a->o.style, &a->text));
    SP_TRY(sp_graph_copy(a->strings, a->text.v, a->text.n, &p.text));
    SP_TRY(sp_vec_reserve(&a->paths, 1));
    a->paths.v[a->paths.n++] = p;
    return SP_OK;
}

static sp_err add_paths(answer *a, int entity)
{
    sp_graph_walk w;
    sp_graph_choices chosen = {0};
    sp_graph_walk_opts limits = {a->o.hops, a->o.max_degree, a->o.max_steps};
    sp_graph_rank_opts rank = {&a->q, &a->named, a->o.k, a->o.explain};
    SP_TRY(sp_graph_walk_from(a->g, a->named.v[entity].node, &limits, &w));
    sp_err err = sp_graph_rank(a->g, &w, &rank, a->strings, &chosen);
    for (size_t i = 0; err == SP_OK && i < chosen.n; i++)
        err = add_path(a, entity, &w, &chosen.v[i]);
    a->counts.n_steps += (int64_t)w.steps.n - 1;
    a->counts.n_patterns += (int64_t)w.patterns.n - 1;
    a->counts.n_hubs += w.n_hubs;
    a->counts.cut |= w.cut;
    sp_vec_fini(&chosen);
    sp_graph_walk_fini(&w);
    return err;
}

/* complete -- defaults, and bounds. */
static sp_err complete(const sp_graph_paths_opts *o, sp_graph_paths_opts *out)
{
    *out = o ? *o : (sp_graph_paths_opts){0};
    if (!out->k) out->k = 30;
    if (!out->hops) out->hops = 2;
    if (!out->max_entities) out->max_entities = 8;
    if (!out->max_degree) out->max_degree = 128;
    if (!out->max_steps) out->max_steps = 20000;
    if (out->k < 0 || out->max_entities < 0 || out->max_degree < 0 || out->max_steps < 0)
        return sp_fail(SP_E_ARG, "k, max_entities, max_degree or max_steps is negative");
    if (out->hops < 0 || out->hops > MAX_HOPS)
        return sp_fail(SP_E_ARG, "hops: %d is not in 1..%d", out->hops, MAX_HOPS);
    if (out->max_degree > 1 << 20 || out->max_steps > 1 << 24)
        return sp_fail(SP_E_ARG, "max_degree is over %d or max_steps over %d",
                       1 << 20, 1 << 24);
    return SP_OK;
}

sp_err sp_graph_find_paths(sp_graph *g, const char *question, const sp_graph_paths_opts *o,
                           sp_graph_answer *out)
{
    SP_NEED(g);
    SP_NEED(question);
    SP_NEED(out);
    answer a;
    sp_graph_paths_opts full;
    SP_TRY(complete(o, &full));
    SP_TRY(answer_init(&a, g, question));
    a.o = full;
    sp_err err = sp_graph_begin(g);
    if (err == SP_OK && a.q.words.n)
        err = sp_graph_find_named(g, &a.q, full.max_entities, &a.named);
    if (err == SP_OK) err = sp_graph_drop_roles(g, &a.q, &a.named);
    if (err == SP_OK) err = add_entities(&a);
    for (size_t i = 0; err == SP_OK && i < a.named.n; i++) err = add_paths(&a, (int)i);
    sp_graph_end(g);
    return answer_end(&a, err, out);
}
