/* lang.h -- strings that satisfy several conditions: patterns, names, negations of them, and a length.
 *
 * Conditions that one automaton cannot express as alternatives are joined here as a deterministic
 * automaton over characters, which is then written as nodes. */
#ifndef SP_ENGINE_GRAMMAR_LANG_H
#define SP_ENGINE_GRAMMAR_LANG_H

#include "engine/grammar/grammar_int.h"

enum { SP_LANG_MAX_PARTS = 24 };

typedef struct sp_lang_part {
    const char *pattern; /* found in the string, or */
    json_t *names;       /* the string is a key of this object */
    bool not ;           /* negated */
} sp_lang_part;

typedef struct sp_lang {
    sp_lang_part parts[SP_LANG_MAX_PARTS];
    int n;
    int32_t min, max; /* characters; max -1: no limit */
    int64_t *work;    /* in, out: what the strings of one grammar have cost; it is limited */
} sp_lang;

/* sp_lang_build -- appends a rule for the content of a JSON string that satisfies all parts; *start -1: there is
 * none. g NULL: nothing is appended, and *start is 0 if there is such a string.
 * If the parts do not limit the length, a large max is reduced: the automaton has a node for each length.
 * Errors: SP_E_ARG, SP_E_UNSUPPORTED (a pattern), SP_E_LIMIT, SP_E_NOMEM. */
sp_err sp_lang_build(const sp_lang *l, sp_grammar *g, int32_t *start) SP_MUST_CHECK;

#endif
