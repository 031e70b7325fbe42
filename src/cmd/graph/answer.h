/* answer.h -- triples in the answer of a model that was asked for them. */
#ifndef SP_CMD_GRAPH_ANSWER_H
#define SP_CMD_GRAPH_ANSWER_H

#include <stdbool.h>

/* What the model is told, and what it is asked about a chunk. */
#define GRAPH_EXTRACT_SYSTEM                                                                       \
    "You turn documents into knowledge graphs. You write triples and nothing else."
#define GRAPH_EXTRACT_QUESTION                                                                     \
    "List the facts of the document, one a line, as: subject | relation | object\n"                \
    "For \"Bo lives in Oslo. Bo is a nurse.\" that is:\nBo | lives in | Oslo\nBo | is a | nurse\n"   \
    "Write names as the document does. A relation is one to four words. Write only what the "      \
    "document says."

/* Three fields of one line; they point into the line, which is cut in place. */
typedef struct graph_answer {
    char *subject, *relation, *object;
} graph_answer;

/* graph_answer_parse -- reads a line in the forms that models write: "a | r | b", "(a, r, b)",
 * "a -r-> b", tabs; after a bullet or a number, fields in quotes or asterisks. Changes the line.
 * False when it is no triple: another number of fields, or an empty one. */
bool graph_answer_parse(char *line, graph_answer *out);

/* graph_answer_grounded -- whether subject and object occur in the text, ignoring the case of
 * ASCII letters: a triple that the document does not name was made up. */
bool graph_answer_grounded(const graph_answer *t, const char *text);

#endif
