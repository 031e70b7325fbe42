/* saying.h -- prints an answer as it comes, the model's thoughts (thoughts.h) apart from its text.
 *
 *   --thoughts auto  at a terminal: dimmed, before the text; elsewhere: not at all
 *              show  the same at a terminal; elsewhere: on standard error
 *              hide  not at all
 *              text  as the model writes them, with their marks, in the text
 */
#ifndef SP_CLI_SAYING_H
#define SP_CLI_SAYING_H

#include <jansson.h>
#include <stdio.h>

#include "cli/options/options.h"
#include "cli/answer/thoughts.h"
#include "spolia.h"

typedef struct saying {
    const char *how;    /* of --thoughts; NULL: auto */
    thoughts_form form; /* of this answer */
    FILE *to;           /* where thoughts are printed; NULL: nowhere */
    char *answer;       /* [n] so far */
    size_t n, cap;
    size_t n_thought, n_text; /* bytes printed of each */
} saying;

extern const opt_choice saying_choices[];
#define SAYING_OPTION(s)                                                                                    \
    {OPT_STRING, "thoughts", 0, "HOW", &(s).how, "where the model's thoughts are printed (auto)",          \
     .choices = saying_choices}

/* saying_check -- of the option. False after an error message. */
bool saying_check(saying *s);
/* saying_begin -- begins an answer to a prompt of this context; grammar: the text follows one, without thoughts. */
void saying_begin(saying *s, const sp_context *c, const sp_prompt *p, bool grammar);
/* saying_print -- a further piece of the answer (an sp_text_fn of `s`). False: it cannot be written. */
bool saying_print(const char *text, size_t n, void *s);
/* saying_end -- prints what was held back. */
bool saying_end(saying *s);
void saying_fini(saying *s);

/* saying_text -- an answer without its thoughts. Owns: free. */
char *saying_text(const saying *s, const char *answer);
/* saying_json -- adds "text" and "thoughts" to an account (NULL: a new one), where there are thoughts. Consumes and
 * returns it. */
json_t *saying_json(const saying *s, const char *answer, json_t *account);

#endif
