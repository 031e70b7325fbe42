/* schema_texts.c -- what grammars of JSON schemas accept and generate, for tests/property/test_schemas.py.
 *
 * Each line of standard input is {"schema": ..., "texts": [...], "generate": n}, each line of output
 * {"accepted": [...], "made": [...]} or {"error": "..."}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/run.h"

enum { MAX_TEXT = 20000 };

static uint64_t seed = 1;

static int draw(int n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int)(seed >> 33) % n;
}

static int32_t step(sp_gram_run *r, int32_t *at, uint8_t b)
{
    int32_t to = sp_gram_step(r, *at, b);
    if (to == SP_GRAM_DEAD && r->full) {
        sp_gram_forget(r, *at);
        *at = 0;
        to = sp_gram_step(r, 0, b);
    }
    return to;
}

static bool accepts(const sp_grammar *g, const char *text)
{
    sp_gram_run r;
    int32_t at = 0;
    if (sp_gram_run_init(&r, g) != SP_OK) exit(1);
    for (; *text && at != SP_GRAM_DEAD; text++) at = step(&r, &at, (uint8_t)*text);
    bool ok = at != SP_GRAM_DEAD && r.states[at].complete;
    sp_gram_run_fini(&r);
    return ok;
}

/* pick -- a byte that may come next; ends of strings, lists and objects more often, white space less. -1: none. */
static int pick(sp_gram_run *r, int32_t *at)
{
    static const char ends[] = "\"]}";
    int seen = 0, found = -1;
    for (const char *e = ends; *e; e++)
        if (draw(2) && step(r, at, (uint8_t)*e) != SP_GRAM_DEAD) return (uint8_t)*e;
    for (int b = 0; b < 256; b++) {
        if ((b == ' ' || b == '\n') && draw(8)) continue;
        if (step(r, at, (uint8_t)b) != SP_GRAM_DEAD && draw(++seen) == 0) found = b;
    }
    if (found < 0 && step(r, at, ' ') != SP_GRAM_DEAD) found = ' ';
    if (found < 0 && step(r, at, '\n') != SP_GRAM_DEAD) found = '\n';
    return found;
}

/* generate -- a random text; NULL: it became too long. A text that cannot go on and is not complete is a failure. */
static json_t *generate(const sp_grammar *g)
{
    static char text[MAX_TEXT + 1];
    sp_gram_run r;
    int32_t at = 0;
    size_t n = 0;
    json_t *out = NULL;
    if (sp_gram_run_init(&r, g) != SP_OK) exit(1);
    for (int b; n < MAX_TEXT;) {
        bool complete = r.states[at].complete;
        if (complete && draw(3) == 0)
            b = -1;
        else
            b = pick(&r, &at);
        if (b < 0) {
            out = json_stringn(text, n);
            if (!complete) out = json_sprintf("DEAD END: %.*s", (int)n, text);
            break;
        }
        text[n++] = (char)b;
        at = step(&r, &at, (uint8_t)b);
    }
    sp_gram_run_fini(&r);
    return out;
}

static json_t *answer(json_t *line)
{
    sp_grammar *g = NULL;
    json_t *texts = json_object_get(line, "texts"), *accepted = json_array(), *made = json_array();
    if (sp_grammar_create(json_object_get(line, "schema"), &g) != SP_OK) {
        json_decref(accepted);
        json_decref(made);
        return json_pack("{s:s}", "error", sp_error_detail());
    }
    for (size_t i = 0; i < json_array_size(texts); i++)
        json_array_append_new(
            accepted, json_boolean(accepts(g, json_string_value(json_array_get(texts, i)))));
    for (json_int_t i = json_integer_value(json_object_get(line, "generate")); i > 0; i--) {
        json_t *one = generate(g);
        if (one) json_array_append_new(made, one);
    }
    sp_grammar_destroy(g);
    return json_pack("{s:o, s:o}", "accepted", accepted, "made", made);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0) {
        json_t *j = json_loads(line, JSON_ALLOW_NUL, NULL),
               *out = j ? answer(j) : json_pack("{s:s}", "error", "no JSON");
        char *text = json_dumps(out, JSON_COMPACT);
        puts(text);
        fflush(stdout);
        free(text);
        json_decref(out);
        json_decref(j);
    }
    free(line);
    return 0;
}
