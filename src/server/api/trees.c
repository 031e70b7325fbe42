#include "server/api/trees.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "server/http/reply.h"

/* -- the graph --------------------------------------------------------------------------------- */

bool srv_graph_open(srv_server *s)
{
    if (!s->o.graph.where) return true;
    sp_err err = sp_graph_open(&s->o.graph, &s->graph.of);
    return err == SP_OK || (cli_fail(err), false);
}

void srv_graph_close(srv_server *s)
{
    sp_graph_close(s->graph.of);
    pthread_mutex_destroy(&s->graph.lock);
}

/* -- checks ------------------------------------------------------------------------------------ */

static bool is_path(const json_t *path)
{
    size_t n = json_array_size(path);
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(path, i));
        if (!text || !*text) return false;
    }
    return n % 2 == 1;
}

/* member -- null: it is not there, as for the fields of a body. */
static const json_t *member(const json_t *o, const char *name)
{
    const json_t *v = json_object_get(o, name);
    return json_is_null(v) ? NULL : v;
}

static bool is_node(const json_t *node, size_t i)
{
    const json_t *parent = member(node, "parent");
    json_int_t p = parent ? json_integer_value(parent) : -1;
    return json_is_string(json_object_get(node, "text")) && (!parent || json_is_integer(parent)) &&
           p >= -1 && p < (json_int_t)i;
}

bool srv_tree_is(const char *type)
{
    return strcmp(type, "tree") == 0 || strcmp(type, "list") == 0 || strcmp(type, "table") == 0;
}

/* check_fields -- refuses fields that it does not have: they would have no effect. */
static bool check_fields(srv_fields *f, const json_t *o, const char *name)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const bool is_list = strcmp(type, "list") == 0, is_table = strcmp(type, "table") == 0;
    char where[80];
    srv_fields_only(f, o, name,
                    is_list    ? "type items id doc_id document_id title metadata"
                    : is_table ? "type header rows id doc_id document_id title metadata"
                               : "type paths nodes id doc_id document_id title metadata");
    const json_t *nodes = is_list || is_table ? NULL : json_object_get(o, "nodes"), *node;
    size_t i;
    json_array_foreach(nodes, i, node)
    {
        if (f->failed) break;
        snprintf(where, sizeof where, "%s.nodes[%zu]", name, i);
        srv_fields_only(f, node, where, "text parent");
    }
    return !f->failed;
}

/* check_texts -- of a list or a table. */
static bool check_texts(srv_fields *f, const json_t *texts, const char *name, const char *of)
{
    size_t n = json_array_size(texts), i = 0;
    while (i < n && json_is_string(json_array_get(texts, i))) i++;
    if (n == 0 || n > SRV_MAX_NODES)
        srv_fields_refuse(f, name, "%s: %s are a list of 1 to %d texts", name, of, SRV_MAX_NODES);
    else if (i < n)
        srv_fields_refuse(f, name, "%s: %s[%zu] is not a text", name, of, i);
    return n && n <= SRV_MAX_NODES && i == n;
}

static bool check_table(srv_fields *f, const json_t *o, const char *name)
{
    if (json_is_string(json_object_get(o, "header")))
        return check_texts(f, json_object_get(o, "rows"), name, "rows");
    srv_fields_refuse(f, name, "%s: the header of a table is a text", name);
    return false;
}

bool srv_tree_check(srv_fields *f, const json_t *o, const char *name)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    if (!check_fields(f, o, name)) return false;
    if (strcmp(type, "list") == 0)
        return check_texts(f, json_object_get(o, "items"), name, "items");
    if (strcmp(type, "table") == 0) return check_table(f, o, name);
    const json_t *paths = member(o, "paths"), *nodes = member(o, "nodes");
    size_t n = json_array_size(paths ? paths : nodes);
    if (n == 0 || n > SRV_MAX_NODES || (paths && nodes)) {
        srv_fields_refuse(f, name, "%s: a tree has either paths or nodes, 1 to %d", name,
                          SRV_MAX_NODES);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (paths ? !is_path(json_array_get(paths, i)) : !is_node(json_array_get(nodes, i), i)) {
            srv_fields_refuse(
                f, name,
                paths ? "%s: path %zu is not a list of texts: entity, relation, entity, ..."
                      : "%s: node %zu is not {\"text\", \"parent\": an earlier node or -1}",
                name, i);
            return false;
        }
    return true;
}

/* -- nodes of a prompt ------------------------------------------------------------------------- */

static sp_err add_nodes(sp_prompt *p, const json_t *list)
{
    size_t n = json_array_size(list);
    sp_prompt_node *nodes = calloc(n, sizeof *nodes);
    if (!nodes) return SP_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i), *parent = member(o, "parent");
        nodes[i] = (sp_prompt_node){.text = json_string_value(json_object_get(o, "text")),
                                    .parent = parent ? (int)json_integer_value(parent) : -1};
    }
    sp_err err = sp_prompt_tree(p, nodes, (int)n);
    free(nodes);
    return err;
}

/* add_texts -- a list, or the rows of a table. */
static sp_err add_texts(sp_prompt *p, const char *header, const json_t *list)
{
    size_t n = json_array_size(list);
    const char **texts = calloc(n, sizeof *texts);
    if (!texts) return SP_E_NOMEM;
    for (size_t i = 0; i < n; i++) texts[i] = json_string_value(json_array_get(list, i));
    sp_err err =
        header ? sp_prompt_table(p, header, texts, (int)n) : sp_prompt_list(p, texts, (int)n);
    free(texts);
    return err;
}

/* Memory of one path: its names and directions. */
typedef struct path_names {
    const char **nodes, **relations;
    bool *inverse;
} path_names;

static void free_names(path_names *v, size_t n)
{
    for (size_t i = 0; v && i < n; i++) {
        free(v[i].nodes);
        free(v[i].relations);
        free(v[i].inverse);
    }
    free(v);
}

/* read_relation -- "^keeps": the inverse of keeps; "^^keeps": ^keeps; "^^^keeps": the inverse of ^keeps. */
static const char *read_relation(const char *text, bool *inverse)
{
    const size_t n = strspn(text, "^");
    *inverse = n % 2 && text[1];
    return n == 1 && !text[1] ? text : text + (n + 1) / 2;
}

static bool read_path(const json_t *list, path_names *names, sp_graph_path *out)
{
    size_t n_hops = json_array_size(list) / 2;
    names->nodes = calloc(n_hops + 1, sizeof *names->nodes);
    names->relations = calloc(n_hops + 1, sizeof *names->relations);
    names->inverse = calloc(n_hops + 1, sizeof *names->inverse);
    if (!names->nodes || !names->relations || !names->inverse) return false;
    for (size_t i = 0; i <= n_hops; i++) {
        names->nodes[i] = json_string_value(json_array_get(list, 2 * i));
        if (i == n_hops) break;
        names->relations[i] =
            read_relation(json_string_value(json_array_get(list, 2 * i + 1)), &names->inverse[i]);
    }
    *out = (sp_graph_path){.n_hops = (int)n_hops,
                           .nodes = names->nodes,
                           .relations = names->relations,
                           .inverse = names->inverse};
    return true;
}

static sp_err add_paths(sp_prompt *p, const json_t *list)
{
    size_t n = json_array_size(list);
    path_names *names = calloc(n, sizeof *names);
    sp_graph_path *paths = calloc(n, sizeof *paths);
    sp_graph_tree tree = {0};
    sp_err err = names && paths ? SP_OK : SP_E_NOMEM;
    for (size_t i = 0; i < n && err == SP_OK; i++)
        if (!read_path(json_array_get(list, i), &names[i], &paths[i])) err = SP_E_NOMEM;
    if (err == SP_OK) err = sp_graph_tree_build(paths, (int)n, SP_GRAPH_SENTENCES, &tree);
    if (err == SP_OK) err = sp_prompt_graph(p, &tree);
    sp_graph_tree_fini(&tree);
    free_names(names, n);
    free(paths);
    return err;
}

/* -- the graph's answer ------------------------------------------------------------------------ */

/* find -- the paths of the entities that a question names, and their tree; the caller gives both back, after an
 * error, too. */
static sp_err find(const srv_call *call, const char *question, const sp_graph_paths_opts *o, sp_graph_answer *found,
                   sp_graph_tree *tree)
{
    pthread_mutex_lock(&call->s->graph.lock);
    sp_err err = sp_graph_find_paths(call->s->graph.of, question, o, found);
    pthread_mutex_unlock(&call->s->graph.lock);
    return err == SP_OK ? sp_graph_tree_build(found->paths, found->n_paths, o->style, tree) : err;
}

static sp_err add_found(const srv_call *call, sp_prompt *p, const char *question)
{
    sp_graph_answer found = {0};
    sp_graph_tree tree = {0};
    sp_err err = find(call, question, &(sp_graph_paths_opts){.style = SP_GRAPH_SENTENCES}, &found, &tree);
    if (err == SP_OK) err = sp_prompt_graph(p, &tree);
    sp_graph_tree_fini(&tree);
    sp_graph_answer_fini(&found);
    return err;
}

/* relation_json -- as read_relation reads it. */
static json_t *relation_json(const char *name, bool inverse)
{
    return json_sprintf("%s%.*s%s", inverse ? "^" : "", (int)strspn(name, "^"), name, name);
}

static json_t *paths_json(const sp_graph_answer *found)
{
    json_t *list = json_array();
    for (int i = 0; i < found->n_paths; i++) {
        const sp_graph_path *p = &found->paths[i];
        json_t *path = json_pack("[s]", p->nodes[0]);
        for (int k = 0; k < p->n_hops; k++) {
            json_array_append_new(path, relation_json(p->relations[k], p->inverse && p->inverse[k]));
            json_array_append_new(path, json_string(p->nodes[k + 1]));
        }
        json_array_append_new(list, path);
    }
    return list;
}

static json_t *nodes_json(const sp_graph_tree *t)
{
    json_t *list = json_array();
    for (int i = 0; i < t->n; i++)
        json_array_append_new(list, json_pack("{s:s, s:i}", "text", t->v[i].text, "parent", t->v[i].parent));
    return list;
}

/* look_up -- NULL after an error in *f. */
static json_t *look_up(const srv_call *call, srv_fields *f, const char *question, const sp_graph_paths_opts *o)
{
    sp_graph_answer found = {0};
    sp_graph_tree tree = {0};
    json_t *out = NULL;
    const sp_err err = find(call, question, o, &found, &tree);
    if (err == SP_OK)
        out = json_pack("{s:s, s:o, s:o}", "object", "graph.paths", "paths", paths_json(&found), "nodes",
                        nodes_json(&tree));
    else
        srv_fields_fail(f, "query", NULL, err);
    sp_graph_tree_fini(&tree);
    sp_graph_answer_fini(&found);
    return out;
}

srv_sent srv_graph(srv_call *call)
{
    srv_fields f;
    json_t *body = srv_fields_parse(&f, call->body, call->n), *out = NULL;
    if (!body) return srv_fields_reply(call, &f);
    const char *query = srv_field_string(&f, "query");
    const sp_graph_paths_opts o = {.style = SP_GRAPH_SENTENCES,
                                   .k = (int)srv_field_int(&f, "top_k", 30, 1, 1000),
                                   .hops = (int)srv_field_int(&f, "hops", 2, 1, 8)};
    if (!query) srv_fields_refuse(&f, "query", "query must be a string");
    srv_fields_only(&f, body, "", "query top_k hops cache_salt");
    if (!call->s->graph.of) srv_fields_refuse(&f, "", "the server has no graph (spolia serve --graph)");
    if (!f.failed) out = look_up(call, &f, query, &o);
    json_decref(body);
    return f.failed ? srv_fields_reply(call, &f) : srv_reply_json(call->connection, 200, out);
}

/* note -- records the segments added since as those of the document. */
static void note(const sp_prompt *p, srv_document *d, int before)
{
    d->n_segments = sp_prompt_n_segments(p) - before;
    d->segment = d->n_segments > 0 ? before : -1;
}

static sp_err add_graph(const srv_call *call, sp_prompt *p, srv_documents *d, const char *question)
{
    srv_document *more = realloc(d->v, (d->n + 1) * sizeof *more);
    if (!more) return SP_E_NOMEM;
    d->v = more;
    d->v[d->n] = (srv_document){.id = "graph", .tree = call->graph, .segment = -1};
    int before = sp_prompt_n_segments(p);
    sp_err err = add_found(call, p, question);
    if (err == SP_OK) note(p, &d->v[d->n++], before);
    return err;
}

static sp_err add_document(sp_prompt *p, const json_t *o)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    const json_t *paths = member(o, "paths");
    if (strcmp(type, "list") == 0) return add_texts(p, NULL, json_object_get(o, "items"));
    if (strcmp(type, "table") == 0)
        return add_texts(p, json_string_value(json_object_get(o, "header")),
                         json_object_get(o, "rows"));
    return paths ? add_paths(p, paths) : add_nodes(p, json_object_get(o, "nodes"));
}

sp_err srv_trees_add(const srv_call *call, sp_prompt *p, srv_documents *d, const char *question)
{
    sp_err err = sp_prompt_tree_mode(p, call->trees);
    for (size_t i = 0; i < d->n && err == SP_OK; i++) {
        const json_t *o = d->v[i].tree;
        if (!o) continue;
        int before = sp_prompt_n_segments(p);
        err = add_document(p, o);
        note(p, &d->v[i], before);
    }
    return err == SP_OK && call->graph ? add_graph(call, p, d, question) : err;
}
