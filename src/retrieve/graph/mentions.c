/* mentions.c -- the entities that a question names.
 *
 * Exact names and aliases come first: the store finds every run of words that is one, and longer
 * runs win over those that overlap them. A run of function words only ("it", "the who") counts where
 * it is written with capitals after the first word, or is the whole question. Then come misspelt
 * names: for each run of the other words that has a capital (any run when no name was found) the
 * store finds names with common letters, and each is compared with the words of the question at
 * every place, by edit distance.
 */
#include <stdlib.h>
#include <string.h>

#include "retrieve/graph/walk_int.h"

#define MOST_OF_A_RUN    8  /* entities with one name in the answer */
#define FUZZY_CANDIDATES 64 /* of one run of words */
#define FUZZY_RUNS       6

sp_err sp_graph_question_init(sp_graph_question *q, const char *text)
{
    *q = (sp_graph_question){.text = text};
    sp_err err = sp_name_key(text, strlen(text), &q->key, &q->words);
    if (err != SP_OK) sp_graph_question_fini(q);
    return err;
}

void sp_graph_question_fini(sp_graph_question *q)
{
    sp_vec_fini(&q->key);
    sp_vec_fini(&q->words);
}

static bool is_common(const sp_graph_question *q, uint32_t word)
{
    const sp_name_word *w = &q->words.v[word];
    return sp_name_is_common(q->key.v + w->key_from, w->key_to - w->key_from);
}

/* -- exact names ---------------------------------------------------------------------------- */

/* counts -- whether a run can be intended as a name. */
static bool counts(const sp_graph_question *q, uint32_t from, uint32_t to)
{
    bool capitals = true;
    for (uint32_t i = from; i < to; i++) {
        char c = q->text[q->words.v[i].from];
        capitals &= !(c >= 'a' && c <= 'z');
        if (!is_common(q, i)) return true;
    }
    return (capitals && from > 0) || to - from == q->words.n;
}

static uint32_t length(const sp_graph_named *m)
{
    return m->to - m->from;
}

static bool is_fuzzy(const sp_graph_named *m)
{
    return m->match == SP_GRAPH_FUZZY;
}

/* better -- names as written before misspelt ones, longer runs first, names before aliases, near
 * before far; then a fixed order. */
static int better(const void *a, const void *b)
{
    const sp_graph_named *x = a, *y = b;
    if (is_fuzzy(x) != is_fuzzy(y)) return is_fuzzy(x) ? 1 : -1;
    if (length(x) != length(y)) return length(x) > length(y) ? -1 : 1;
    if (x->distance != y->distance) return x->distance < y->distance ? -1 : 1;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->match != y->match) return x->match < y->match ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

static int by_place(const void *a, const void *b)
{
    const sp_graph_named *x = a, *y = b;
    return x->from != y->from ? (x->from < y->from ? -1 : 1) : better(a, b);
}

/* clashes -- whether m overlaps another chosen run, is already chosen, or exceeds the limit of its
 * run. */
static bool clashes(const sp_graph_named *chosen, size_t n, const sp_graph_named *m)
{
    int same = 0;
    for (size_t i = 0; i < n; i++) {
        const sp_graph_named *c = &chosen[i];
        bool own = c->from == m->from && c->to == m->to;
        if (c->node == m->node) return true;
        if (!own && c->from < m->to && m->from < c->to) return true;
        if (own && c->distance != m->distance) return true;
        same += own;
    }
    return same >= MOST_OF_A_RUN;
}

/* choose -- keeps the best of a list, at most `most`, in the order of the question. */
static void choose(sp_graph_named_list *list, int most)
{
    size_t n = 0;
    if (list->n) qsort(list->v, list->n, sizeof *list->v, better);
    for (size_t i = 0; i < list->n && n < (size_t)most; i++)
        if (!clashes(list->v, n, &list->v[i])) list->v[n++] = list->v[i];
    list->n = n;
    if (n) qsort(list->v, n, sizeof *list->v, by_place);
}

static sp_err take_mentions(const sp_graph_mentions *found, const sp_graph_question *q, bool whole,
                            sp_graph_named_list *out)
{
    for (size_t i = 0; i < found->n; i++) {
        const sp_graph_mention *m = &found->v[i];
        bool all = m->from == 0 && m->to == q->words.n;
        if (whole ? !all : !counts(q, m->from, m->to)) continue;
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = (sp_graph_named){
            .node = m->node,
            .from = m->from,
            .to = m->to,
            .match = m->alias ? SP_GRAPH_ALIAS : SP_GRAPH_EXACT,
        };
    }
    return SP_OK;
}

/* -- misspelt names ------------------------------------------------------------------------- */

/* allowed -- how many bytes of a name may be wrong. */
static int allowed(size_t n)
{
    return n < 5 ? 0 : n < 10 ? 1 : n < 18 ? 2 : 3;
}

static uint32_t count_words(const char *key)
{
    uint32_t n = *key != '\0';
    for (; *key; key++) n += *key == ' ';
    return n;
}

/* compare -- a candidate with every run of as many words. */
static sp_err compare(const sp_graph_question *q, const sp_graph_candidate *c,
                      sp_graph_named_list *out)
{
    uint32_t n_words = count_words(c->key);
    size_t n = strlen(c->key);
    for (uint32_t from = 0; n_words && from + n_words <= q->words.n; from++) {
        const char *run = q->key.v + q->words.v[from].key_from;
        size_t n_run = q->words.v[from + n_words - 1].key_to - q->words.v[from].key_from;
        int most = allowed(SP_MIN(n, n_run)), d = sp_name_distance(run, n_run, c->key, n, most);
        if (d > most || !counts(q, from, from + n_words)) continue;
        SP_TRY(sp_vec_reserve(out, 1));
        out->v[out->n++] = (sp_graph_named){.node = c->node,
                                            .from = from,
                                            .to = from + n_words,
                                            .match = SP_GRAPH_FUZZY,
                                            .distance = d};
    }
    return SP_OK;
}

/* search_run -- names with letters in common with words [from, to). */
static sp_err search_run(sp_graph *g, const sp_graph_question *q, uint32_t from, uint32_t to,
                         sp_graph_named_list *out)
{
    sp_arena strings;
    sp_arena_init(&strings);
    sp_graph_candidates found = {0};
    const sp_name_word *w = q->words.v;
    sp_bytes key = {.v = q->key.v + w[from].key_from, .n = w[to - 1].key_to - w[from].key_from};
    sp_err err = g->ops->candidates(g, &key, FUZZY_CANDIDATES, &strings, &found);
    for (size_t i = 0; err == SP_OK && i < found.n; i++) err = compare(q, &found.v[i], out);
    sp_vec_fini(&found);
    sp_arena_fini(&strings);
    return err;
}

/* named -- whether a word is in a run that is known. */
static bool named(const sp_graph_named_list *known, uint32_t word)
{
    for (size_t i = 0; i < known->n; i++)
        if (word >= known->v[i].from && word < known->v[i].to) return true;
    return false;
}

/* next_run -- the next run of words that no known name has and that are no function words, at or
 * after *to. With `capitals`, one that is written with a capital inside the question. */
static bool next_run(const sp_graph_question *q, const sp_graph_named_list *known, bool capitals,
                     uint32_t *from, uint32_t *to)
{
    while (*to < q->words.n) {
        bool has_capital = false;
        for (*from = *to; *to < q->words.n && !is_common(q, *to) && !named(known, *to); ++*to) {
            char c = q->text[q->words.v[*to].from];
            has_capital |= *to > 0 && c >= 'A' && c <= 'Z';
        }
        if (*to > *from && (has_capital || !capitals)) return true;
        if (*to == *from) ++*to;
    }
    return false;
}

/* find_fuzzy -- adds misspelt names: of all words when no name is known, else of capitals only. */
static sp_err find_fuzzy(sp_graph *g, const sp_graph_question *q, sp_graph_named_list *out)
{
    sp_graph_named_list found = {0};
    sp_err err = SP_OK;
    uint32_t from = 0, to = 0;
    for (int n = 0; err == SP_OK && n < FUZZY_RUNS; n++) {
        if (!next_run(q, out, out->n > 0, &from, &to)) break;
        err = search_run(g, q, from, to, &found);
    }
    if (err == SP_OK) err = sp_vec_reserve(out, found.n);
    for (size_t i = 0; err == SP_OK && i < found.n; i++) out->v[out->n++] = found.v[i];
    sp_vec_fini(&found);
    return err;
}

/* -- both ----------------------------------------------------------------------------------- */

sp_err sp_graph_find_named(sp_graph *g, const sp_graph_question *q, int most,
                           sp_graph_named_list *out)
{
    sp_graph_mentions found = {0};
    sp_err err = g->ops->mentions(g, q, &found);
    if (err == SP_OK) err = take_mentions(&found, q, false, out);
    if (err == SP_OK) choose(out, most);
    size_t n = out->n;
    if (err == SP_OK) err = find_fuzzy(g, q, out);
    if (err == SP_OK && out->n > n) choose(out, most);
    sp_vec_fini(&found);
    return err;
}

static sp_err find_like(sp_graph *g, const sp_graph_question *q, int most, sp_graph_named_list *out)
{
    sp_arena strings;
    sp_arena_init(&strings);
    sp_graph_candidates found = {0};
    sp_err err = g->ops->candidates(g, &q->key, most, &strings, &found);
    if (err == SP_OK) err = sp_vec_reserve(out, found.n);
    for (size_t i = 0; err == SP_OK && i < found.n; i++) {
        const char *key = found.v[i].key;
        out->v[out->n++] = (sp_graph_named){
            .node = found.v[i].node,
            .to = (uint32_t)q->words.n,
            .match = SP_GRAPH_FUZZY,
            .distance =
                sp_name_distance(q->key.v, q->key.n, key, strlen(key), SP_NAME_DISTANCE_BYTES),
        };
    }
    sp_vec_fini(&found);
    sp_arena_fini(&strings);
    return err;
}

sp_err sp_graph_find_name(sp_graph *g, const sp_graph_question *q, int most,
                          sp_graph_named_list *out)
{
    sp_graph_mentions found = {0};
    sp_err err = g->ops->mentions(g, q, &found);
    if (err == SP_OK) err = take_mentions(&found, q, true, out);
    if (err == SP_OK && out->n == 0) err = find_like(g, q, most, out);
    if (err == SP_OK && out->n) qsort(out->v, out->n, sizeof *out->v, better);
    size_t n = 0;
    for (size_t i = 0; err == SP_OK && i < out->n && n < (size_t)most; i++) {
        bool known = false;
        for (size_t j = 0; j < n; j++) known |= out->v[j].node == out->v[i].node;
        if (!known) out->v[n++] = out->v[i];
    }
    out->n = n;
    sp_vec_fini(&found);
    return err;
}
