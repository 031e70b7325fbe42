/* graph.h -- the parts of `spolia graph`, one file each. */
#ifndef SP_CMD_GRAPH_H
#define SP_CMD_GRAPH_H

#include <jansson.h>

#include "cli/json.h"
#include "cmd/commands.h"

/* Options of the commands that open a graph. */
typedef struct graph_options {
    sp_graph_open_opts open;
    opt table[8];
} graph_options;

void graph_options_init(graph_options *g);

/* Options of how paths are found. */
typedef struct graph_path_options {
    sp_graph_paths_opts paths;
    const char *style;
    opt table[8];
} graph_path_options;

void graph_path_options_init(graph_path_options *p);
/* graph_path_options_check -- false after an error message. */
bool graph_path_options_check(graph_path_options *p);

/* The default gave better answers over two graphs and two models: docs/lab/graphs.md. */
#define GRAPH_STYLE  "sentences"
#define GRAPH_STYLES "sentences (A rel B.), arrows (A -rel-> B) or triplets ((A, rel, B)) (" GRAPH_STYLE ")"
/* graph_style_parse -- false after an error message of the command. */
bool graph_style_parse(const char *command, const char *name, sp_graph_style *out);

int cmd_graph_import(int argc, char **argv);
int cmd_graph_show(int argc, char **argv);
int cmd_graph_search(int argc, char **argv);
int cmd_graph_paths(int argc, char **argv);
int cmd_graph_eval(int argc, char **argv);
int cmd_graph_extract(int argc, char **argv);

/* graph_entity_json -- an entity as `search` and `paths` print it. */
json_t *graph_entity_json(const sp_graph_entity *e);
const char *graph_match_name(sp_graph_match m);

#endif
