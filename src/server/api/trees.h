/* trees.h -- dependency trees in a chat: given as documents, or found in the server's graph.
 *
 *   {"type": "tree", "paths": [["Anna Berg", "keeps", "lighthouse", "stands in", "Velm"], ...]}
 *       entity, relation, entity, ...; paths with a common beginning share it; "^keeps": the inverse
 *       relation; "^^keeps": the relation ^keeps
 *   {"type": "tree", "nodes": [{"text": "...", "parent": -1}, {"text": "...", "parent": 0}]}
 *       nodes as sp_prompt_tree takes them
 *   {"type": "list", "items": ["...", ...]}                  items that do not see each other
 *   {"type": "table", "header": "...", "rows": ["...", ...]} rows that see the header alone
 *   "tree": "exact" or "shifted"                             positions (sp_tree_mode)
 *   "graph": true    the paths of the entities that the last message of the user names (serve --graph)
 */
#ifndef SP_SERVER_API_TREES_H
#define SP_SERVER_API_TREES_H

#include "server/api/messages.h"

#define SRV_MAX_NODES 16384 /* of a tree */

/* srv_graph_open -- the graph of the options, or none. False after an error message. */
bool srv_graph_open(srv_server *s);
/* srv_graph -- POST /v1/graph: the paths of the entities that a query names, and the nodes of their tree. */
srv_sent srv_graph(srv_call *call);
void srv_graph_close(srv_server *s);

/* srv_tree_is -- whether documents of this type are trees. */
bool srv_tree_is(const char *type);
/* srv_tree_check -- whether such a document can be read; else the error is in *f. */
bool srv_tree_check(srv_fields *f, const json_t *o, const char *name);

/* srv_trees_add -- the trees among the documents, and those that the graph has for a question if the call
 * wants them; the latter become one more document. */
sp_err srv_trees_add(const srv_call *call, sp_prompt *p, srv_documents *d, const char *question);

#endif
