/* ask.h -- the two ways of `spolia ask`: over documents, and over a knowledge graph. */
#ifndef SP_CMD_ASK_H
#define SP_CMD_ASK_H

#include "cli/model_options.h"
#include "cmd/commands.h"

typedef struct asking {
    sp_context *ctx;
    sp_index *index; /* or: */
    sp_graph *graph;
    sp_graph_paths_opts paths;
    const sampling_options *sampling;
    const char *system;
    int top_k;
    bool as_json, stable_order, allow_empty;
} asking;

/* ask_generate -- the answer to a prompt; with `stream`, printed as it comes. */
sp_err ask_generate(const asking *a, const sp_prompt *p, bool stream, sp_request **out);
/* ask_no_hit -- nothing to answer from: a line in place of the answer, and an exit code of its own.
 * list: the name that JSON gives to what is empty. */
int ask_no_hit(const asking *a, const char *question, const char *list, const char *why);

/* ask_graph -- answers from the relation paths of the question's entities. Returns the exit code. */
int ask_graph(const asking *a, const char *question);

#endif
