/* csv.h -- rows of `spolia eval`: a CSV file that grows question by question.
 *
 *   # spolia eval {"version":1,"model":...}       the settings; others cannot continue it
 *   id,kind,policy,recompute,...                  column names
 *   q01,single,off,0,...                          one row per setting; the rows of a question
 *   q01,single,full,0,...                         are adjacent and are written at once
 *
 * The rows in memory are parsed from the written lines, so a run that was interrupted and resumed has the
 * same rows as an uninterrupted one. A number that does not apply is an empty field. */
#ifndef SP_LAB_EVAL_CSV_H
#define SP_LAB_EVAL_CSV_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { ROW_ID, ROW_KIND, ROW_POLICY, ROW_KV_LAYERS, ROW_ANSWER, N_ROW_TEXTS };

#define ROW_NUMBERS(X)                                                                             \
    X(RECOMPUTE, "recompute")                                                                      \
    X(ALPHA, "alpha")                                                                              \
    X(EM, "em")                                                                                    \
    X(F1, "f1")                                                                                    \
    X(ROUGE, "rouge_l")                                                                            \
    X(NLL, "nll")           /* nats a token of the reference answer */                             \
    X(KL_FIRST, "kl_first") /* nats, of the first answer token */                                  \
    X(KL_ALL, "kl_all")     /* mean over the tokens of off's answer, or of the reference answer */ \
    X(AGREES, "first_agrees")                                                                      \
    X(N_PROMPT, "n_prompt")                                                                        \
    X(N_CHUNK, "n_chunk") /* tokens of chunks */                                                   \
    X(N_REUSED, "n_reused")                                                                        \
    X(N_AGAIN, "n_recomputed")                                                                     \
    X(N_ANSWER, "n_answer")                                                                        \
    X(TTFT, "ttft_ms")                                                                             \
    X(SPEEDUP, "speedup") /* off's time to the first token over this one */                        \
    X(PLAN, "plan_ms")                                                                             \
    X(KV, "kv_deviation") /* mean over layers */                                                  \
    X(N_HAD, "n_had")     /* chunks that had a copy when the question came */                     \
    X(N_SAW, "n_saw")     /* of these, computed after another chunk of this prompt */             \
    X(KV_BYTES, "kv_bytes") /* of KV memory, in use or cached after the question */               \
    X(COPIES, "copies")   /* on the device after it */                                            \
    X(EVICTED, "evicted") /* copies that have left the device since the setting's first question */

enum {
#define X(name, text) ROW_##name,
    ROW_NUMBERS(X)
#undef X
        N_ROW_NUMBERS
};

typedef struct eval_row {
    char *text[N_ROW_TEXTS];      /* owned */
    double number[N_ROW_NUMBERS]; /* NAN: does not apply */
} eval_row;

void eval_row_drop(eval_row *r);

typedef struct eval_csv {
    FILE *file;
    char *path;  /* NULL: a temporary file */
    int n_block; /* rows of a question */
    eval_row *v; /* of complete questions */
    size_t n, cap;
} eval_csv;

/* eval_csv_open -- path NULL: a temporary file. An existing file is continued after its last complete
 * question, or overwritten with `restart`. False after an error message: other settings, bad rows. */
bool eval_csv_open(const char *path, json_t *settings, int n_block, bool restart, eval_csv *out);
void eval_csv_close(eval_csv *c);
/* eval_csv_has -- the rows of a question, or NULL. */
const eval_row *eval_csv_has(const eval_csv *c, const char *id);
/* eval_csv_add -- appends n_block rows and flushes the file. False after an error message. */
bool eval_csv_add(eval_csv *c, const eval_row *rows);

#endif
