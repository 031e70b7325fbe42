/* A JSON schema from any bytes. What compiles must run. */
#include "byte_tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    sp_grammar *g = NULL;
    json_t *j = json_loadb((const char *)data, n, JSON_DECODE_ANY, NULL);
    if (!j) return 0;
    if (sp_grammar_create(j, &g) == SP_OK) run_grammar(g, 200);
    json_decref(j);
    return 0;
}
