/* graph.c -- `spolia ask --graph`: relation paths of the question's entities, merged into trees,
 * one node a segment; the KV of a node serves every question over its path. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/answer/account.h"
#include "cli/cli.h"
#include "cli/show.h"
#include "cmd/ask/ask.h"

enum { SHOWN_PATHS = 5 }; /* of a tree */

/* What a question has found, and what became of it. */
typedef struct graph_question {
    sp_graph_answer found;
    sp_graph_tree tree;
    const sp_result *result;
    const sp_segment_report **reports; /* [tree.n] of nodes; NULL: a node without tokens */
} graph_question;

static void question_fini(graph_question *q)
{
    free(q->reports);
    sp_graph_tree_fini(&q->tree);
    sp_graph_answer_fini(&q->found);
}

static sp_err build_prompt(const asking *a, const sp_graph_tree *t, const char *question,
                           sp_prompt **out)
{
    sp_prompt *p;
    sp_err err = sp_prompt_create(a->ctx, &p);
    if (err != SP_OK) return err;
    err = sp_prompt_system(p, a->system);
    if (err == SP_OK) err = sp_prompt_tree_mode(p, a->trees);
    if (err == SP_OK) err = sp_prompt_graph(p, t);
    if (err == SP_OK) err = sp_prompt_question(p, question);
    if (err == SP_OK)
        *out = p;
    else
        sp_prompt_destroy(p);
    return err;
}

/* -- what became of the nodes ----------------------------------------------------------------- */

/* match_reports -- the reports of kind "node" are those of the nodes that have a text, in order. */
static sp_err match_reports(graph_question *q)
{
    q->reports = calloc((size_t)q->tree.n + 1, sizeof *q->reports);
    if (!q->reports) return SP_E_NOMEM;
    int at = 0;
    for (int i = 0; i < q->tree.n; i++) {
        if (!*q->tree.v[i].text) continue;
        while (at < q->result->n_segments && strcmp(q->result->segments[at].kind, "node") != 0)
            at++;
        if (at < q->result->n_segments) q->reports[i] = &q->result->segments[at++];
    }
    return SP_OK;
}

typedef struct sum {
    int n_nodes, n_paths, n_tokens, n_reused;
} sum;

static void add_node(const graph_question *q, int i, sum *s)
{
    const sp_segment_report *r = q->reports[i];
    s->n_nodes++;
    s->n_tokens += r ? r->n_tokens : 0;
    s->n_reused += r ? r->n_reused : 0;
}

/* In pre-order a node is a leaf when the next one is not its child. */
static bool is_leaf(const sp_graph_tree *t, int i)
{
    return i + 1 == t->n || t->v[i + 1].parent != i;
}

/* tree_sum -- the tree whose root is `at`; *next: the root after it. */
static sum tree_sum(const graph_question *q, int at, int *next)
{
    sum s = {0};
    int i = at;
    do {
        add_node(q, i, &s);
        s.n_paths += is_leaf(&q->tree, i);
    } while (++i < q->tree.n && q->tree.v[i].parent >= 0);
    *next = i;
    return s;
}

static sum path_sum(const graph_question *q, int leaf)
{
    sum s = {.n_paths = 1};
    for (int i = leaf; i >= 0; i = q->tree.v[i].parent) add_node(q, i, &s);
    return s;
}

/* path_text -- the texts of a node and those above it, as one; the caller frees it; or NULL. */
static char *path_text(const sp_graph_tree *t, int leaf)
{
    size_t n = 0;
    for (int i = leaf; i >= 0; i = t->v[i].parent) n += strlen(t->v[i].text);
    char *text = malloc(n + 1);
    if (!text) return NULL;
    text[n] = '\0';
    for (int i = leaf; i >= 0; i = t->v[i].parent) {
        size_t len = strlen(t->v[i].text);
        n -= len;
        memcpy(text + n, t->v[i].text, len);
    }
    return text;
}

static json_t *sum_json(const char *name, const char *text, sum s)
{
    return json_pack("{s:s?, s:i, s:i, s:i, s:i}", name, text, "paths", s.n_paths, "nodes",
                     s.n_nodes, "tokens", s.n_tokens, "reused", s.n_reused);
}

static json_t *trees_json(const graph_question *q)
{
    json_t *all = json_array();
    for (int at = 0, next; at < q->tree.n; at = next) {
        sum s = tree_sum(q, at, &next);
        json_array_append_new(all, sum_json("entity", q->tree.v[at].text, s));
    }
    return all;
}

static json_t *paths_json(const graph_question *q)
{
    json_t *all = json_array();
    for (int i = 0; i < q->tree.n; i++) {
        if (!is_leaf(&q->tree, i)) continue;
        char *text = path_text(&q->tree, i);
        json_t *o = sum_json("text", text, path_sum(q, i));
        json_object_del(o, "paths");
        json_array_append_new(all, o);
        free(text);
    }
    return all;
}

static void print_trees(const graph_question *q)
{
    for (int at = 0, next; at < q->tree.n; at = next) {
        sum s = tree_sum(q, at, &next);
        fputs("  ", stderr);
        show_line(stderr, q->tree.v[at].text, 40);
        fprintf(stderr, ": %d path%s, %d tokens, %d reused\n", s.n_paths, s.n_paths == 1 ? "" : "s",
                s.n_tokens, s.n_reused);
        int n_shown = 0;
        for (int i = at; i < next && n_shown < SHOWN_PATHS; i++) {
            if (!is_leaf(&q->tree, i)) continue;
            char *text = path_text(&q->tree, i);
            sum path = path_sum(q, i);
            fprintf(stderr, "    %3d of %3d  ", path.n_reused, path.n_tokens);
            show_line(stderr, text ? text : "", 90);
            fputc('\n', stderr);
            free(text);
            n_shown++;
        }
        if (s.n_paths > n_shown) fprintf(stderr, "    ... %d more\n", s.n_paths - n_shown);
    }
}

static void report(const asking *a, const char *question, const graph_question *q)
{
    if (a->as_json) {
        json_t *account = json_pack("{s:o, s:o, s:o}", "question", cli_json_string(question), "trees", trees_json(q),
                                    "paths", paths_json(q));
        account_json(q->result, saying_json(&a->said, q->result->text, account));
        return;
    }
    putchar('\n');
    fflush(stdout);
    print_trees(q);
    account_line(q->result);
}

int ask_graph(asking *a, const char *question)
{
    graph_question q = {0};
    sp_prompt *p = NULL;
    sp_request *r = NULL;
    sp_err err = sp_graph_find_paths(a->graph, question, &a->paths, &q.found);
    if (err == SP_OK)
        err = sp_graph_tree_build(q.found.paths, q.found.n_paths, a->paths.style, &q.tree);
    if (err == SP_OK && q.tree.n == 0 && !a->allow_empty) {
        const bool named = q.found.n_entities > 0;
        question_fini(&q);
        return ask_failed(a,
                          &(ask_failure){.question = question,
                                         .code = "E_NO_HIT",
                                         .why = named ? "no path from what the question names "
                                                        "(--allow-empty answers without paths)"
                                                      : "the question names no entity of the graph "
                                                        "(--allow-empty answers without paths)",
                                         .list = "paths"},
                          CLI_NO_HIT);
    }
    if (err == SP_OK) err = build_prompt(a, &q.tree, question, &p);
    if (err == SP_OK) err = ask_generate(a, p, &r);
    if (err == SP_OK) {
        q.result = sp_request_result(r);
        err = match_reports(&q);
    }
    if (err == SP_OK) report(a, question, &q);
    int code = err == SP_OK ? 0 : ask_failed_with(a, question, "paths", err);
    sp_request_destroy(r);
    sp_prompt_destroy(p);
    question_fini(&q);
    return code;
}
