/* ask.h -- what the parts of `spolia ask` share: one question is answered the same way from the
 * command line, from a batch and in a conversation. */
#ifndef SP_CMD_ASK_H
#define SP_CMD_ASK_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/answer/account.h"
#include "cli/json.h"
#include "cli/options/model_options.h"
#include "cli/answer/saying.h"
#include "spolia.h"

#define ASK_MOST_CHUNKS 100000 /* that a search gives */

/* A question, the chunks that its prompt adds, and the answer. */
typedef struct ask_turn {
    char *question, *answer; /* answer NULL: not yet */
    sp_hits hits;
    int n_duplicates; /* that were left out */
} ask_turn;

typedef struct asking {
    sp_context *ctx;
    sp_retriever *index; /* or: */
    sp_graph *graph; /* or neither: a chat without documents */
    sp_graph_paths_opts paths;
    sp_tree_mode trees;
    const char *model; /* its path */
    const sampling_options *sampling;
    const char *system;
    int top_k;
    bool keep_duplicates; /* keep near-duplicates among the chunks */
    bool as_json, stable_order, allow_empty, verbose;
    const sp_reuse_opts *reuse;        /* NULL: the context's */
    const volatile sig_atomic_t *stop; /* nonzero: end the answer; NULL: Ctrl-C ends the program */
    ask_turn *turns;                   /* [n_turns] earlier questions of the conversation */
    int n_turns;
    sp_grammar *grammar; /* of answers; NULL: any text */
    saying said;
    bool hinted;         /* a line has named the policy that would use stored copies */
    bool drawn;          /* a line of progress is on the terminal */
} asking;

/* Why a question has no answer. */
typedef struct ask_failure {
    const char *question, *code, *why;
    const char *list; /* the name that JSON gives to what is empty */
} ask_failure;

/* ask_question -- retrieves, answers, prints answer and account. keep: the turn joins the
 * conversation. Returns the exit code; the error has been printed. */
int ask_question(asking *a, const char *question, bool keep);
/* ask_generate -- the answer to a prompt; printed as it comes, unless as JSON. */
sp_err ask_generate(asking *a, const sp_prompt *p, sp_request **out);
/* ask_failed -- prints why there is no answer; with --json, as an object with an empty list. Returns
 * `exit`. */
int ask_failed(const asking *a, const ask_failure *f, int exit);
/* ask_failed_with -- the same for an error, whose detail is the last. Returns 1. */
int ask_failed_with(const asking *a, const char *question, const char *list, sp_err err);
/* ask_graph -- answers from the relation paths of the question's entities (graph.c). Returns the
 * exit code. */
int ask_graph(asking *a, const char *question);
/* ask_idle -- lets the context do its background work, such as the guard's checks. */
void ask_idle(const asking *a);
/* ask_forget -- empties the conversation. */
void ask_forget(asking *a);

/* ask_batch -- answers questions from standard input, one per line. Returns the exit code. */
int ask_batch(asking *a);
/* ask_chat_prompt -- a chat without documents: the earlier turns and a question, by the model's own template. */
sp_err ask_chat_prompt(const asking *a, const ask_turn *t, sp_prompt *p);
/* ask_chat -- a conversation at the terminal. Returns the exit code. */
int ask_chat(asking *a);

/* ask_show_sources -- a line: the numbers, files and lines of a turn's chunks. first: the number of
 * the first one. */
void ask_show_sources(const ask_turn *t, int first);
/* ask_show_table -- a line a chunk, with title, tokens and the way of its copy. first_segment: of
 * the turn's chunks in the result; r NULL: without tokens. */
void ask_show_table(const ask_turn *t, int first, const sp_result *r, int first_segment);
/* ask_print_json -- the account of an answer. */
void ask_print_json(const asking *a, const ask_turn *t, const sp_result *r, int first_segment);
/* ask_print_place -- "file:line" or "file:pPAGE", without control characters. */
void ask_print_place(FILE *to, const sp_hit *h);

#endif
