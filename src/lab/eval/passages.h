/* passages.h -- questions without people to ask them: passages of an index, to be continued. */
#ifndef SP_LAB_EVAL_PASSAGES_H
#define SP_LAB_EVAL_PASSAGES_H

#include <stdbool.h>

/* eval_passages_write -- a question file (dataset.h) of at most n passages, evenly spaced in the index: the question
 * quotes words from the middle of a chunk, and the answer is the words that follow. Chunks under 24 words are left
 * out. *path: a temporary file; the caller unlinks and frees it. False after an error message. */
bool eval_passages_write(const char *index, int n, char **path);

#endif
