/* roles.c -- words that mean a relation although the graph has an entity of that name: "director" in "the director
 * of Heat", where Director is a film.
 *
 * A name means a relation if it is written in lower case and each of its words is like a relation within two hops of
 * another name of the question (unless that name is, in turn, like a relation near this one). It gets no paths of its
 * own; its words choose among the paths of the others. */
#include "retrieve/graph/walk_int.h"

enum { NEAR_HOPS = 2, NEAR_DEGREE = 16, NEAR_STEPS = 2000 };

/* is_small -- a name as written, each word with a small letter. */
static bool is_small(const sp_graph_question *q, const sp_graph_named *m)
{
    for (uint32_t i = m->from; i < m->to; i++) {
        const char c = q->text[q->words.v[i].from];
        if (c < 'a' || c > 'z') return false;
    }
    return m->match != SP_GRAPH_FUZZY && m->to > m->from;
}

/* note_words -- which words of the question are like a relation. */
static sp_err note_words(const sp_graph_question *q, const char *relation, bool *like)
{
    sp_bytes key = {0};
    sp_name_words words = {0};
    sp_err err = sp_name_relation_key(relation, &key, &words);
    for (size_t i = 0; err == SP_OK && i < words.n; i++)
        for (size_t k = 0; k < q->words.n; k++) {
            const sp_name_word *a = &q->words.v[k], *b = &words.v[i];
            like[k] |= sp_name_likeness(q->key.v + a->key_from, a->key_to - a->key_from,
                                        key.v + b->key_from,
                                        b->key_to - b->key_from) >= SP_NAME_LIKE_LEAST;
        }
    sp_vec_fini(&words);
    sp_vec_fini(&key);
    return err;
}

/* look_around -- the words of the question that are like a relation near a node. */
static sp_err look_around(sp_graph *g, const sp_graph_question *q, int64_t node, bool *like)
{
    const sp_graph_walk_opts near = {NEAR_HOPS, NEAR_DEGREE, NEAR_STEPS};
    sp_graph_walk w;
    sp_arena strings;
    SP_TRY(sp_graph_walk_from(g, node, &near, &w));
    sp_arena_init(&strings);
    sp_err err = SP_OK;
    for (size_t i = 1; err == SP_OK && i < w.patterns.n; i++) {
        const char *name;
        bool known = false;
        for (size_t k = 1; k < i; k++)
            known |= w.patterns.v[k].relation == w.patterns.v[i].relation;
        if (known) continue;
        err = g->ops->relation(g, w.patterns.v[i].relation, &strings, &name);
        if (err == SP_OK) err = note_words(q, name, like);
    }
    sp_arena_fini(&strings);
    sp_graph_walk_fini(&w);
    return err;
}

/* means_relation -- whether name i is like a relation near name j. like: [names][words] */
static bool means_relation(const sp_graph_question *q, const sp_graph_named_list *named, size_t i,
                           size_t j, const bool *like)
{
    const sp_graph_named *m = &named->v[i];
    for (uint32_t w = m->from; w < m->to; w++)
        if (!like[j * q->words.n + w]) return false;
    return is_small(q, m);
}

static bool is_role(const sp_graph_question *q, const sp_graph_named_list *named, size_t i,
                    const bool *like)
{
    for (size_t j = 0; j < named->n; j++)
        if (means_relation(q, named, i, j, like) && !means_relation(q, named, j, i, like))
            return true;
    return false;
}

/* drop_roles -- like: as above, filled here. */
static sp_err drop_roles(sp_graph *g, const sp_graph_question *q, bool *like,
                         sp_graph_named_list *named)
{
    bool *is_none = like + named->n * q->words.n;
    size_t n = 0;
    for (size_t i = 0; i < named->n; i++)
        SP_TRY(look_around(g, q, named->v[i].node, like + i * q->words.n));
    for (size_t i = 0; i < named->n; i++) is_none[i] = is_role(q, named, i, like);
    for (size_t i = 0; i < named->n; i++)
        if (!is_none[i]) named->v[n++] = named->v[i];
    named->n = n;
    return SP_OK;
}

sp_err sp_graph_drop_roles(sp_graph *g, const sp_graph_question *q, sp_graph_named_list *named)
{
    bool any = false;
    for (size_t i = 0; i < named->n; i++) any |= is_small(q, &named->v[i]);
    if (!any || named->n < 2) return SP_OK;
    bool *like = sp_alloc_zero(named->n * (q->words.n + 1), sizeof *like);
    if (!like) return sp_fail_nomem("the words of a question");
    sp_err err = drop_roles(g, q, like, named);
    sp_free(like);
    return err;
}
