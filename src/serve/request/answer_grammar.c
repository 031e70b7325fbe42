/* answer_grammar.c -- the public face of grammars. */
#include <string.h>

#include "base/need.h"
#include "engine/grammar/grammar.h"
#include "model/json_file.h"

sp_err sp_grammar_compile(const sp_grammar_opts *o, sp_grammar **out)
{
    const sp_grammar_opts any = {0};
    json_t *schema = NULL;
    SP_NEED(out);
    if (!o) o = &any;
    if (o->schema) SP_TRY(sp_json_parse(o->schema, strlen(o->schema), "schema", &schema));
    sp_err err = sp_grammar_create_as(schema, o, out);
    json_decref(schema);
    return err;
}
