/* rank.c -- the paths most similar to a question.
 *
 * Paths with the same sequence of relations (a pattern) differ in their nodes only, and there are
 * far fewer patterns than paths. So the words of relations are compared with the question once for
 * each pattern, with BM25 over patterns as documents:
 *
 *     terms   words of the question that are no function words and name no entity
 *     tf      sum over the pattern's relations of the likeness of term and relation (letter
 *             trigrams: "directors" is like "directed_by"); SP_NAME_LIKE_LEAST at least, or else 0
 *     idf     of the term over the patterns of this walk
 *     length  hops
 *
 * and the nodes of a path add to it: other entities of the question, and words of the question in
 * their names. Then paths are taken one by one, from the pattern whose next path is best; each that
 * is taken lowers the pattern by DECAY, so that the answer has several patterns where the question
 * does not decide, and many paths of one where it does.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "retrieve/graph/walk_int.h"

#define MAX_TERMS   24
#define K1          1.2
#define B           0.5
#define PRIOR       0.05 /* of a pattern without a common word, so that short ones come first */
#define DECAY       0.9
#define ENTITY_GAIN 3.0
#define WORD_GAIN   1.0
#define MAX_NAMES   512 /* names of nodes that are read for one walk */

typedef struct term {
    const char *s; /* folded */
    size_t n;
    double idf;
} term;

/* A relation that occurs in the walk, and its likeness to each term. */
typedef struct relation {
    int64_t id;
    const char *name;
    float like[MAX_TERMS];
} relation;

typedef struct path {
    int step;
    float gain; /* of its nodes */
} path;

typedef struct pattern {
    double score;
    size_t begin, next, end; /* its paths, the best first; next is the best that is left */
    int n_taken;
} pattern;

typedef struct ranking {
    sp_graph *g;
    const sp_graph_walk *w;
    const sp_graph_rank_opts *o;
    sp_arena *strings;
    term terms[MAX_TERMS];
    int n_terms;
    SP_VEC(relation) relations;
    float (*tf)[MAX_TERMS]; /* [patterns] */
    pattern *patterns;
    path *paths;      /* [steps], grouped by pattern */
    float *gain;      /* [steps] */
    uint8_t *covered; /* [steps]: a chosen path ends here or goes through it */
} ranking;

/* -- terms and relations -------------------------------------------------------------------- */

static bool in_a_name(const sp_graph_named_list *named, uint32_t word)
{
    for (size_t i = 0; i < named->n; i++)
        if (named->v[i].match != SP_GRAPH_FUZZY && word >= named->v[i].from &&
            word < named->v[i].to)
            return true;
    return false;
}

static void find_terms(ranking *r)
{
    const sp_graph_question *q = r->o->question;
    for (uint32_t i = 0; i < q->words.n && r->n_terms < MAX_TERMS; i++) {
        const sp_name_word *w = &q->words.v[i];
        term t = {q->key.v + w->key_from, w->key_to - w->key_from};
        if (sp_name_is_common(t.s, t.n) || in_a_name(r->o->named, i)) continue;
        bool known = false;
        for (int j = 0; j < r->n_terms; j++)
            known |= r->terms[j].n == t.n && memcmp(r->terms[j].s, t.s, t.n) == 0;
        if (!known) r->terms[r->n_terms++] = t;
    }
}

/* measure -- the likeness of a relation to each term: that of its most similar word. */
static sp_err measure(ranking *r, relation *rel)
{
    sp_bytes key = {0};
    sp_name_words words = {0};
    sp_err err = r->g->ops->relation(r->g, rel->id, r->strings, &rel->name);
    if (err == SP_OK) err = sp_name_relation_key(rel->name, &key, &words);
    for (size_t i = 0; err == SP_OK && i < words.n; i++) {
        const char *s = key.v + words.v[i].key_from;
        size_t n = words.v[i].key_to - words.v[i].key_from;
        for (int t = 0; t < r->n_terms; t++) {
            double like = sp_name_likeness(r->terms[t].s, r->terms[t].n, s, n);
            if (like >= SP_NAME_LIKE_LEAST && like > rel->like[t]) rel->like[t] = (float)like;
        }
    }
    sp_vec_fini(&words);
    sp_vec_fini(&key);
    return err;
}

static sp_err find_relation(ranking *r, int64_t id, const relation **out)
{
    for (size_t i = 0; i < r->relations.n; i++)
        if (r->relations.v[i].id == id) return *out = &r->relations.v[i], SP_OK;
    relation rel = {.id = id};
    SP_TRY(measure(r, &rel));
    SP_TRY(sp_vec_reserve(&r->relations, 1));
    r->relations.v[r->relations.n] = rel;
    *out = &r->relations.v[r->relations.n++];
    return SP_OK;
}

/* -- patterns ------------------------------------------------------------------------------- */

static sp_err count_terms(ranking *r)
{
    for (size_t p = 1; p < r->w->patterns.n; p++) {
        const sp_graph_pattern *from = &r->w->patterns.v[p];
        const relation *rel;
        SP_TRY(find_relation(r, from->relation, &rel));
        for (int t = 0; t < r->n_terms; t++) r->tf[p][t] = r->tf[from->parent][t] + rel->like[t];
    }
    return SP_OK;
}

static void score_patterns(ranking *r)
{
    size_t n = r->w->patterns.n;
    double hops = 0;
    for (size_t p = 1; p < n; p++) hops += r->w->patterns.v[p].depth;
    double mean = n > 1 ? hops / (double)(n - 1) : 1;
    for (int t = 0; t < r->n_terms; t++) {
        double df = 0;
        for (size_t p = 1; p < n; p++) df += r->tf[p][t] > 0;
        r->terms[t].idf = log(1 + ((double)n - 0.5 - df) / (df + 0.5));
    }
    for (size_t p = 1; p < n; p++) {
        double depth = r->w->patterns.v[p].depth, norm = K1 * (1 - B + B * depth / mean);
        r->patterns[p].score = PRIOR / depth;
        for (int t = 0; t < r->n_terms; t++) {
            double tf = r->tf[p][t];
            r->patterns[p].score += r->terms[t].idf * tf * (K1 + 1) / (tf + norm);
        }
    }
}

/* -- nodes ---------------------------------------------------------------------------------- */

/* name_gain -- for the words of the question in a node's name. */
static sp_err name_gain(ranking *r, int64_t node, float *out)
{
    const char *name;
    sp_bytes key = {0};
    sp_name_words words = {0};
    sp_arena strings;
    sp_arena_init(&strings);
    sp_err err = r->g->ops->node(r->g, node, &strings, &name, NULL);
    if (err == SP_OK) err = sp_name_key(name, strlen(name), &key, &words);
    for (size_t i = 0; err == SP_OK && i < words.n; i++)
        for (int t = 0; t < r->n_terms; t++) {
            size_t n = words.v[i].key_to - words.v[i].key_from;
            if (n == r->terms[t].n && memcmp(key.v + words.v[i].key_from, r->terms[t].s, n) == 0)
                *out += (float)WORD_GAIN;
        }
    sp_vec_fini(&words);
    sp_vec_fini(&key);
    sp_arena_fini(&strings);
    return err;
}

/* gain_of_entities -- paths through other entities of the question; steps come after parents. */
static void gain_of_entities(ranking *r)
{
    for (size_t i = 1; i < r->w->steps.n; i++) {
        const sp_graph_step *s = &r->w->steps.v[i];
        r->gain[i] = r->gain[s->parent];
        for (size_t j = 0; j < r->o->named->n; j++)
            if (r->o->named->v[j].node == s->node) {
                r->gain[i] += (float)ENTITY_GAIN;
                break;
            }
    }
}

static int by_gain(const void *a, const void *b)
{
    const path *x = a, *y = b;
    return x->gain > y->gain ? -1 : x->gain < y->gain ? 1 : x->step - y->step;
}

/* group_paths -- sorts the steps by pattern, and each group by gain. */
static void group_paths(ranking *r)
{
    size_t at = 0;
    for (size_t p = 0; p < r->w->patterns.n; p++) {
        r->patterns[p].begin = r->patterns[p].next = r->patterns[p].end = at;
        at += (size_t)r->w->patterns.v[p].n_steps;
    }
    for (size_t i = 0; i < r->w->steps.n; i++)
        r->paths[r->patterns[r->w->steps.v[i].pattern].end++] = (path){(int)i, r->gain[i]};
}

static int by_score(const void *a, const void *b, void *user)
{
    const int *x = a, *y = b;
    const pattern *patterns = user;
    double d = patterns[*y].score - patterns[*x].score;
    return d > 0 ? 1 : d < 0 ? -1 : *x - *y;
}

/* read_names -- gains of names for the paths of the best patterns. */
static sp_err read_names(ranking *r)
{
    int n = (int)r->w->patterns.n, left = r->n_terms ? MAX_NAMES : 0;
    int *order = SP_NEW_N(int, n);
    if (!order) return sp_fail_nomem("paths");
    for (int p = 0; p < n; p++) order[p] = p;
    qsort_r(order + 1, (size_t)n - 1, sizeof *order, by_score, r->patterns);
    sp_err err = SP_OK;
    for (int i = 1; err == SP_OK && i < n && left > 0; i++) {
        const pattern *p = &r->patterns[order[i]];
        for (size_t j = p->begin; err == SP_OK && j < p->end && left-- > 0; j++) {
            path *q = &r->paths[j];
            err = name_gain(r, r->w->steps.v[q->step].node, &q->gain);
            r->gain[q->step] = q->gain; /* for the explanation */
        }
    }
    for (int p = 1; p < n; p++) {
        pattern *q = &r->patterns[p];
        qsort(r->paths + q->begin, q->end - q->begin, sizeof *r->paths, by_gain);
    }
    sp_free(order);
    return err;
}

/* -- choice --------------------------------------------------------------------------------- */

/* best_pattern -- the one whose next path is best; 0 when no path is left. */
static size_t best_pattern(ranking *r, double *value)
{
    size_t best = 0;
    for (size_t p = 1; p < r->w->patterns.n; p++) {
        pattern *q = &r->patterns[p];
        while (q->next < q->end && r->covered[r->paths[q->next].step]) q->next++;
        if (q->next == q->end) continue;
        double v = (q->score + r->paths[q->next].gain) * pow(DECAY, q->n_taken);
        if (best && v <= *value) continue;
        best = p;
        *value = v;
    }
    return best;
}

/* take -- chooses a path. It replaces a chosen one that it extends. */
static sp_err take(ranking *r, size_t p, sp_graph_choices *out)
{
    pattern *q = &r->patterns[p];
    const path *next = &r->paths[q->next++];
    double score = q->score + next->gain;
    q->n_taken++;
    for (int s = next->step; s > 0 && !r->covered[s]; s = r->w->steps.v[s].parent)
        r->covered[s] = 1;
    for (size_t i = 0; i < out->n; i++) {
        int s = r->w->steps.v[next->step].parent;
        while (s > 0 && s != out->v[i].step) s = r->w->steps.v[s].parent;
        if (s <= 0) continue;
        score = fmax(score, out->v[i].score);
        memmove(out->v + i, out->v + i + 1, (out->n - i - 1) * sizeof *out->v);
        out->n--;
        break; /* no chosen path extends another */
    }
    SP_TRY(sp_vec_reserve(out, 1));
    out->v[out->n++] = (sp_graph_choice){next->step, score, ""};
    return SP_OK;
}

/* explain -- "director~directed_by 0.71 (idf 2.3), nodes +3.0". */
static sp_err explain(ranking *r, sp_graph_choice *c)
{
    sp_bytes text = {0};
    sp_err err = SP_OK;
    for (int t = 0; err == SP_OK && t < r->n_terms; t++) {
        const relation *best = NULL;
        for (int s = c->step; err == SP_OK && s > 0; s = r->w->steps.v[s].parent) {
            const relation *rel;
            err = find_relation(r, r->w->patterns.v[r->w->steps.v[s].pattern].relation, &rel);
            if (err == SP_OK && rel->like[t] > (best ? best->like[t] : 0)) best = rel;
        }
        if (err == SP_OK && best)
            err = sp_bytes_addf(&text, "%s%.*s~%s %.2f (idf %.1f)", text.n ? ", " : "",
                                (int)r->terms[t].n, r->terms[t].s, best->name, best->like[t],
                                r->terms[t].idf);
    }
    if (err == SP_OK && r->gain[c->step] > 0)
        err = sp_bytes_addf(&text, "%snodes +%.1f", text.n ? ", " : "", r->gain[c->step]);
    if (err == SP_OK) err = sp_graph_copy(r->strings, text.v, text.n, &c->why);
    sp_vec_fini(&text);
    return err;
}

static int by_choice(const void *a, const void *b)
{
    const sp_graph_choice *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score ? 1 : x->step - y->step;
}

static sp_err choose(ranking *r, sp_graph_choices *out)
{
    double value = 0;
    while (out->n < (size_t)r->o->k) {
        size_t p = best_pattern(r, &value);
        if (!p) break;
        SP_TRY(take(r, p, out));
    }
    if (out->n) qsort(out->v, out->n, sizeof *out->v, by_choice);
    for (size_t i = 0; r->o->explain && i < out->n; i++) SP_TRY(explain(r, &out->v[i]));
    return SP_OK;
}

sp_err sp_graph_rank(sp_graph *g, const sp_graph_walk *w, const sp_graph_rank_opts *o,
                     sp_arena *strings, sp_graph_choices *out)
{
    ranking r = {.g = g, .w = w, .o = o, .strings = strings};
    size_t n = w->steps.n;
    r.tf = sp_alloc_zero(w->patterns.n, sizeof *r.tf);
    r.patterns = SP_NEW_N(pattern, w->patterns.n);
    r.paths = SP_NEW_N(path, n);
    r.gain = SP_NEW_N(float, n);
    r.covered = SP_NEW_N(uint8_t, n);
    sp_err err = SP_OK;
    if (!r.tf || !r.patterns || !r.paths || !r.gain || !r.covered)
        err = sp_fail_nomem("paths");
    if (err == SP_OK) {
        find_terms(&r);
        err = count_terms(&r);
    }
    if (err == SP_OK) {
        score_patterns(&r);
        gain_of_entities(&r);
        group_paths(&r);
        err = read_names(&r);
    }
    if (err == SP_OK) err = choose(&r, out);
    sp_vec_fini(&r.relations);
    sp_free(r.tf);
    sp_free(r.patterns);
    sp_free(r.paths);
    sp_free(r.gain);
    sp_free(r.covered);
    return err;
}
