/* said.h -- the parts of an answer: thoughts (cli/answer/thoughts.h), text, calls of functions.
 *
 * The parts of an answer's beginning are a beginning of the parts of the whole answer: a stream sends the
 * difference. */
#ifndef SP_SERVER_BODY_SAID_H
#define SP_SERVER_BODY_SAID_H

#include "cli/answer/thoughts.h"
#include "server/body/tools.h"

typedef struct srv_said {
    const char *thought, *text; /* [n_thought], [n_text]; of the answer, or of `owned` */
    size_t n_thought, n_text;
    srv_calls calls; /* n_text is that of the part after thoughts */
    char *owned;
} srv_said;

/* srv_said_read -- of an answer, or of its text so far. Owns: srv_said_fini. */
void srv_said_read(const srv_tools *t, thoughts_form thoughts, const char *text, size_t n, srv_end end, srv_said *out);
void srv_said_fini(srv_said *s);

#endif
