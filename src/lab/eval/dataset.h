/* dataset.h -- a question file, and the documents that provide the chunks of its prompts. */
#ifndef SP_LAB_EVAL_DATASET_H
#define SP_LAB_EVAL_DATASET_H

#include <jansson.h>

#include "spolia.h"

typedef struct eval_question {
    const char *id, *kind, *text; /* id: "q<line>" when the file has none; kind: "" likewise */
    const char **answers;
    int n_answers;
    json_t *names;           /* of its documents, an array of texts; NULL when it names none */
    const char *names_field; /* the field that held them */
    int line;
    json_t *object; /* owns the texts */
} eval_question;

typedef struct eval_questions {
    const char *path;
    eval_question *v;
    int n;
    uint64_t hash; /* of the whole file */
} eval_questions;

/* eval_questions_read -- JSON lines with question, answers (texts, at least one), and perhaps id (a
 * text, unique), the field that kind_field names (a text), and the question's documents: the first
 * of context_doc_ids, docs and doc_ids. False after an error message that names file, line and
 * field. */
bool eval_questions_read(const char *path, const char *kind_field, eval_questions *out);
void eval_questions_drop(eval_questions *q);

/* eval_temporary -- the path of a new file; the caller closes, unlinks and frees. NULL after an error message. */
char *eval_temporary(int *fd);

typedef struct eval_docs_opts {
    const char *index;   /* written by spolia index; with docs: for similar chunks only; or NULL */
    const char *docs;    /* a JSONL file with id, title, text; without an index: or a folder */
    const char *context; /* "retrieved", "given"; NULL: given with a JSONL file, else retrieved */
    const char *order;   /* "given" (as the index has them when retrieved), "ranked", "shuffled" */
    int n_chunks;        /* most chunks of a prompt; 0: 8 retrieved, all given ones */
    uint64_t seed;
} eval_docs_opts;

typedef struct eval_docs {
    eval_docs_opts o;
    bool given;
    sp_index *index;
    char *temporary; /* path of an index made for this run */
    json_t *by_id;   /* of a JSONL file: id -> object */
} eval_docs;

/* eval_docs_open -- false after an error message. */
bool eval_docs_open(const eval_docs_opts *o, eval_docs *out);
void eval_docs_close(eval_docs *d);

typedef struct eval_chunk {
    int64_t id; /* in the index; 0 without one */
    const char *title, *text;
    /* the chunk before it in its document (field `follows` of a JSONL file: an id); NULL: none */
    const char *prior_title, *prior_text;
} eval_chunk;

/* The chunks of one question in the order of its prompt. */
typedef struct eval_context {
    eval_chunk *v;
    size_t n, cap;
    sp_hits *hits; /* own the texts */
    size_t n_hits, cap_hits;
} eval_context;

/* eval_context_find -- false after an error message that names the question's line. */
bool eval_context_find(const eval_docs *d, const eval_questions *all, const eval_question *q,
                       eval_context *out);
void eval_context_drop(eval_context *c);

#endif
