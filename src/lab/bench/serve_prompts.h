/* serve_prompts.h -- prompts of a load test: documents and a question each.
 *
 * From a trace: JSON lines with doc_ids (or context_doc_ids, docs) and perhaps a question; the texts
 * are of a JSONL file with id, title, text, or an index finds them for the question. Without a trace,
 * documents are random words, drawn from a Zipf distribution. */
#ifndef SP_LAB_BENCH_SERVE_PROMPTS_H
#define SP_LAB_BENCH_SERVE_PROMPTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct load_source_opts {
    const char *trace, *docs, *index;
    int n_chunks;    /* most documents of a prompt; 0: all of a trace, 4 otherwise */
    int n_documents; /* random ones */
    int n_words;     /* in each */
    double zipf;     /* document i is drawn in proportion to i^-zipf */
    uint64_t seed;
} load_source_opts;

typedef struct load_source load_source;

/* load_source_open -- NULL after an error message. */
load_source *load_source_open(const load_source_opts *o);
void load_source_close(load_source *s);

/* load_source_size -- prompts of the trace, which then begins anew; 0: without end. */
int load_source_size(const load_source *s);

typedef struct load_prompt {
    json_t *documents; /* array of {"id", "title", "text"}; owned */
    char *question;    /* owned */
} load_prompt;

/* load_source_prompt -- prompt i of the run; always the same one for the same seed. */
void load_source_prompt(const load_source *s, int i, load_prompt *out);
void load_prompt_fini(load_prompt *p);

/* load_prompt_messages -- messages of a chat, with the documents' text before the question when
 * `in_text`; a new reference. */
json_t *load_prompt_messages(const load_prompt *p, bool in_text);

#endif
