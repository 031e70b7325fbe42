/* policies.c -- reuse policies by name, with the values of their parameters:
 *
 *     NAME[:key=value[,key=value]]          craft:alpha=1.5,focus=0
 */
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reuse/choice.h"
#include "reuse/parts.h"
#include "spolia.h"

static const sp_reuse_policy *const policies[] = {
#define X(name) &sp_reuse_##name,
    SP_REUSE_POLICIES(X)
#undef X
};

const sp_reuse_policy *const *sp_reuse_policy_list(int *n)
{
    *n = SP_COUNT(policies);
    return policies;
}

const sp_reuse_policy *sp_reuse_policy_default(void)
{
    return &sp_reuse_prefix;
}

/* -- names ------------------------------------------------------------------------------------ */

/* A piece of the text, not terminated. */
typedef struct word {
    const char *s;
    int n;
} word;

static bool is(word w, const char *name)
{
    return strlen(name) == (size_t)w.n && memcmp(name, w.s, (size_t)w.n) == 0;
}

static sp_err find(word name, int *out)
{
    char names[256] = "";
    for (size_t i = 0, used = 0; i < SP_COUNT(policies); i++) {
        if (is(name, policies[i]->name)) {
            *out = (int)i;
            return SP_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 policies[i]->name);
        assert(used < sizeof names);
    }
    return sp_fail(SP_E_ARG, "reuse policy \"%.*s\" is unknown: %s", SP_MIN(name.n, 64), name.s,
                   names);
}

/* -- parameters ------------------------------------------------------------------------------- */

/* range_of -- "alpha (0 to 1000000)", "focus (0 to 1000 layers)". */
static void range_of(const sp_reuse_param *p, char *out, size_t size)
{
    snprintf(out, size, "%s (%.9g to %.9g%s%s)", p->name, p->least, p->most, *p->unit ? " " : "",
             p->unit);
}

/* refuse -- the error of a parameter, with those that the policy has. */
static sp_err refuse(const sp_reuse_policy *p, word given, const char *why)
{
    char known[256] = "";
    size_t used = 0;
    for (int i = 0; i < p->n_params; i++) {
        char one[96];
        range_of(&p->params[i], one, sizeof one);
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", one);
        assert(used < sizeof known);
    }
    return sp_fail(SP_E_ARG, "reuse policy %s: \"%.*s\" %s; its parameters: %s", p->name,
                   SP_MIN(given.n, 64), given.s, why, p->n_params ? known : "none");
}

/* read_value -- a number of the parameter's kind and range; NULL, or what is wrong. */
static const char *read_value(const sp_reuse_param *p, const char *s, int n, double *out)
{
    char text[64], *end;
    if (n <= 0 || n >= (int)sizeof text) return "is not key=NUMBER";
    memcpy(text, s, (size_t)n);
    text[n] = '\0';
    errno = 0;
    const double v = strtod(text, &end);
    if (errno || *end || end == text || !isfinite(v)) return "is not key=NUMBER";
    if (v < p->least || v > p->most) return "is out of range";
    if (p->whole && v != floor(v)) return "is not a whole number";
    *out = v;
    return NULL;
}

/* read_param -- "key=value"; is_set [n_params]: those that were given. */
static sp_err read_param(const sp_reuse_policy *p, word given, double *values, bool *is_set)
{
    const char *equals = memchr(given.s, '=', (size_t)given.n);
    const word key = {given.s, equals ? (int)(equals - given.s) : given.n};
    for (int i = 0; i < p->n_params; i++) {
        if (!is(key, p->params[i].name)) continue;
        if (!equals) return refuse(p, given, "lacks its value");
        if (is_set[i]) return refuse(p, given, "is given twice");
        const char *why =
            read_value(&p->params[i], equals + 1, given.n - key.n - 1, &values[i]);
        is_set[i] = true;
        return why ? refuse(p, given, why) : SP_OK;
    }
    return refuse(p, given, "is unknown");
}

/* find_spec -- the index of a policy, and its values. */
static sp_err find_spec(const char *spec, int *out, double *values)
{
    const char *colon = strchr(spec, ':');
    int i = 0;
    SP_TRY(find((word){spec, colon ? (int)(colon - spec) : (int)strlen(spec)}, &i));
    const sp_reuse_policy *p = policies[i];
    bool is_set[SP_REUSE_PARAMS] = {false};
    double v[SP_REUSE_PARAMS] = {0};
    assert(p->n_params <= SP_REUSE_PARAMS);
    for (int k = 0; k < p->n_params; k++) v[k] = p->params[k].normal;
    for (const char *s = colon; s && *s;) {
        const word given = {s + 1, (int)strcspn(s + 1, ",")};
        SP_TRY(read_param(p, given, v, is_set));
        s = given.s + given.n;
    }
    *out = i;
    if (values) memcpy(values, v, sizeof v);
    return SP_OK;
}

sp_err sp_reuse_policy_find(const char *spec, const sp_reuse_policy **out, double *params)
{
    int i = 0;
    SP_TRY(find_spec(spec, &i, params));
    *out = policies[i];
    return SP_OK;
}

/* -- the same for users of the library ------------------------------------------------------- */

static sp_reuse_info infos[SP_COUNT(policies)]; /* copied once from the list */
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

static void fill_infos(void)
{
    for (size_t i = 0; i < SP_COUNT(policies); i++)
        infos[i] = (sp_reuse_info){.name = policies[i]->name,
                                   .help = policies[i]->help,
                                   .exact = policies[i]->exact,
                                   .recomputes = policies[i]->recomputes,
                                   .anywhere = policies[i]->anywhere,
                                   .own_statistics = policies[i]->own_statistics,
                                   .keeps_placed = policies[i]->keeps_placed,
                                   .params = policies[i]->params,
                                   .n_params = policies[i]->n_params};
}

const sp_reuse_info *sp_reuse_policies(int *n)
{
    pthread_once(&infos_once, fill_infos);
    if (n) *n = SP_COUNT(infos);
    return infos;
}

sp_err sp_reuse_parse(const char *spec, const sp_reuse_info **out, double *values)
{
    int i = 0;
    SP_TRY(find_spec(spec ? spec : sp_reuse_policy_default()->name, &i, values));
    if (out) *out = sp_reuse_policies(NULL) + i;
    return SP_OK;
}

sp_err sp_reuse_choose(const sp_reuse_opts *o, sp_reuse_choice *out)
{
    if (!(o->recompute >= 0 && o->recompute <= 1))
        return sp_fail(SP_E_ARG, "recompute: %g is not in 0..1", (double)o->recompute);
    const char *spec = o->policy ? o->policy : sp_reuse_policy_default()->name;
    SP_TRY(sp_reuse_policy_find(spec, &out->policy, out->params));
    out->recompute = o->recompute;
    out->exact_first = o->exact_first;
    out->unfused = o->unfused;
    return SP_OK;
}
