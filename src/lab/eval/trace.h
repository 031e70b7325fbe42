/* trace.h -- a stream of questions, window by window: what reuse gives and costs as the cache lives. */
#ifndef SP_LAB_EVAL_TRACE_H
#define SP_LAB_EVAL_TRACE_H

#include "lab/eval/report.h"

typedef struct eval_trace {
    const eval_row *rows; /* [n_questions, settings->n] in the order of the stream */
    size_t n_questions;
    const eval_settings *settings;
    int window;      /* questions; the last one may be shorter */
    size_t kv_bytes; /* KV memory of each setting; 0: the default */
} eval_trace;

/* eval_trace_print -- a table to standard output. */
void eval_trace_print(const eval_trace *t);
/* eval_trace_ready -- whether the file can be written, asked before a run of hours. False after an error message. */
bool eval_trace_ready(const char *path);
/* eval_trace_write -- the same as JSON (docs/choosing-a-policy.md). False after an error message. */
bool eval_trace_write(const eval_trace *t, const char *path);

#endif
