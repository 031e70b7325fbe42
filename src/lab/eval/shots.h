/* shots.h -- solved examples (few-shot prompts), in the system text. */
#ifndef SP_LAB_EVAL_SHOTS_H
#define SP_LAB_EVAL_SHOTS_H

#include "lab/eval/dataset.h"

#define EVAL_CUE "\nAnswer:" /* ends the questions of examples, and with examples those that are asked */

/* eval_shots_add -- the system text with the first n questions of `path` and their first answers, as a prompt without
 * template has them; the caller frees it. n 0: a copy of `system`. NULL after an error message: the file cannot be
 * read, has fewer, or one of the n is among `asked` (by its text). */
char *eval_shots_add(const char *system, const char *path, int n, const eval_questions *asked);

#endif
