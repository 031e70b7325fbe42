/* GBNF, or a regular expression where the first byte is odd, from any bytes. What compiles must run. */
#include <stdlib.h>
#include <string.h>

#include "byte_tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    sp_grammar *g = NULL;
    if (n < 1) return 0;
    char *text = calloc(n, 1); /* the bytes after the first, and a NUL */
    if (!text) return 0;
    memcpy(text, data + 1, n - 1);
    sp_grammar_opts o = {.gbnf = data[0] & 1 ? NULL : text, .regex = data[0] & 1 ? text : NULL};
    if (sp_grammar_compile(&o, &g) == SP_OK) run_grammar(g, 100);
    free(text);
    return 0;
}
