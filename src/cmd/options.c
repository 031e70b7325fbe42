#include "cmd/options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/calibration.h"
#include "cmd/cmd.h"
#include "cmd/eval_settings.h"

#define MAX_OPTIONS 48

/* -- values --------------------------------------------------------------------------------- */

static bool set_number(const opt *o, const char *text)
{
    char *end;
    errno = 0;
    switch (o->kind) {
    case OPT_INT: {
        long v = strtol(text, &end, 10);
        if (errno || *end || end == text || v < INT32_MIN || v > INT32_MAX) return false;
        *(int *)o->dest = (int)v;
        return true;
    }
    case OPT_U64: {
        uint64_t v = strtoull(text, &end, 10);
        if (errno || *end || end == text || *text == '-') return false;
        *(uint64_t *)o->dest = v;
        return true;
    }
    case OPT_MIB: {
        uint64_t v = strtoull(text, &end, 10);
        if (errno || *end || end == text || *text == '-' || v > SIZE_MAX >> 20) return false;
        *(size_t *)o->dest = (size_t)v << 20;
        return true;
    }
    default: {
        float v = strtof(text, &end);
        if (errno || *end || end == text || !isfinite(v)) return false;
        *(float *)o->dest = v;
        return true;
    }
    }
}

static bool set_value(const opt *o, const char *text, const char *spelled)
{
    opt_list *list = o->dest;
    switch (o->kind) {
    case OPT_FLAG:
        *(bool *)o->dest = true;
        return true;
    case OPT_STRING:
        *(const char **)o->dest = text;
        return true;
    case OPT_LIST:
        if (list->n == (int)(sizeof list->v / sizeof *list->v)) {
            fprintf(stderr, "spolia: %s is given more than %d times\n", spelled, list->n);
            return false;
        }
        list->v[list->n++] = text;
        return true;
    default:
        if (set_number(o, text)) return true;
        fprintf(stderr, "spolia: %s: \"%s\" is not a valid %s\n", spelled, text, o->arg);
        return false;
    }
}

/* -- help ----------------------------------------------------------------------------------- */

static void print_help(const opt_usage *usage, const opt *const *tables)
{
    printf("usage: spolia %s\n\n%s\n\noptions:\n", usage->synopsis, usage->about);
    for (; *tables; tables++)
        for (const opt *o = *tables; o->kind != OPT_END; o++) {
            char left[64];
            bool llama = strcmp(o->name, "ctk") == 0 || strcmp(o->name, "ctv") == 0;
            const char *dashes = llama ? "-" : "--"; /* both are understood */
            int n = o->letter ? snprintf(left, sizeof left, "-%c, ", o->letter) : 0;
            snprintf(left + n, sizeof left - (size_t)n, "%s%s%s%s", dashes, o->name,
                     o->arg ? " " : "", o->arg ? o->arg : "");
            printf("  %-28s %s\n", left, o->help);
        }
    printf("  %-28s %s\n\n", "-h, --help", "this text");
    printf("Each option can be set as SPOLIA_ARG_<NAME> in the environment, too.\n");
}

/* -- parsing -------------------------------------------------------------------------------- */

typedef struct parser {
    const opt *all[MAX_OPTIONS];
    struct option longs[MAX_OPTIONS + 2];
    char shorts[2 * MAX_OPTIONS + 3];
    int n;
} parser;

static void collect(parser *p, const opt *const *tables)
{
    char *s = p->shorts;
    *s++ = 'h';
    for (; *tables; tables++)
        for (const opt *o = *tables; o->kind != OPT_END && p->n < MAX_OPTIONS; o++) {
            int has_arg = o->kind == OPT_FLAG ? no_argument : required_argument;
            p->longs[p->n] = (struct option){o->name, has_arg, NULL, 256 + p->n};
            p->all[p->n++] = o;
            if (!o->letter) continue;
            *s++ = o->letter;
            if (has_arg) *s++ = ':';
        }
    p->longs[p->n] = (struct option){"help", no_argument, NULL, 'h'};
    *s = '\0';
}

static bool from_environment(const parser *p)
{
    for (int i = 0; i < p->n; i++) {
        char name[64] = "SPOLIA_ARG_";
        size_t n = strlen(name);
        for (const char *c = p->all[i]->name; *c && n < sizeof name - 1; c++)
            name[n++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        name[n] = '\0';
        const char *value = getenv(name);
        if (value && !set_value(p->all[i], value, name)) return false;
    }
    return true;
}

static const opt *find(const parser *p, int code)
{
    if (code >= 256) return p->all[code - 256];
    for (int i = 0; i < p->n; i++)
        if (p->all[i]->letter == code) return p->all[i];
    return NULL;
}

/* missing -- a required option that nobody gave, or NULL. */
static const opt *missing(const parser *p)
{
    for (int i = 0; i < p->n; i++)
        if (p->all[i]->required && !*(const char **)p->all[i]->dest) return p->all[i];
    return NULL;
}

int opt_parse(int argc, char **argv, const opt_usage *usage, const opt *const *tables)
{
    parser p = {0};
    collect(&p, tables);
    if (!from_environment(&p)) return -3;
    optind = 1;
    opterr = 0;
    for (int code; (code = getopt_long_only(argc, argv, p.shorts, p.longs, NULL)) != -1;) {
        if (code == 'h') {
            print_help(usage, tables);
            return -1;
        }
        const opt *o = find(&p, code);
        if (!o) {
            fprintf(stderr, "spolia %s: %s is unknown or lacks its argument\nusage: spolia %s\n",
                    argv[0], argv[optind - 1], usage->synopsis);
            return -3;
        }
        char spelled[64];
        snprintf(spelled, sizeof spelled, "--%s", o->name);
        if (!set_value(o, optarg, spelled)) return -3;
    }
    const opt *o = missing(&p);
    if (!o) return optind;
    fprintf(stderr, "spolia: --%s %s is missing\nusage: spolia %s\n", o->name, o->arg,
            usage->synopsis);
    return -3;
}

/* -- shared tables -------------------------------------------------------------------------- */

void model_options_init(model_options *m)
{
    *m = (model_options){.ctx.reuse = {.recompute = NAN, .alpha = NAN, .exact_first = true},
                         .ctx.guard = 0.05f}; /* not given */
    sp_context_opts *c = &m->ctx;
    const opt table[] = {
        {OPT_STRING, "model", 'm', "PATH", &c->model, "GGUF file or Hugging Face folder",
         .required = true},
        {OPT_INT, "ctx-size", 'c', "N", &c->n_ctx, "context in tokens (as trained, at most 8192)"},
        {OPT_INT, "threads", 't', "N", &c->n_threads, "threads (one for each core)"},
        {OPT_INT, "batch-size", 'b', "N", &c->n_batch, "tokens computed in one step (256)"},
        {OPT_MIB, "kv-memory", 0, "MiB", &c->kv_bytes, "memory for keys and values (1024)"},
        {OPT_STRING, "ctk", 0, "TYPE", &m->type_k,
         "type of cached keys: f32, f16, bf16, q16, q8_0 (" SP_KV_TYPE ")"},
        {OPT_STRING, "ctv", 0, "TYPE", &m->type_v, "type of cached values: the same as -ctk"},
        {OPT_STRING, "reuse", 0, "POLICY", &c->reuse.policy,
         "off, prefix, set, full, random, h2o, blend, craft, fusion, flow (prefix)"},
        {OPT_FLOAT, "recompute", 0, "R", &c->reuse.recompute,
         "share of chunk tokens computed again, 0 to 1 (as spolia calibrate found, or 0.15)"},
        {OPT_FLOAT, "alpha", 0, "A", &c->reuse.alpha,
         "craft: recomputation factor of its equation 12, instead of --recompute"},
        {OPT_INT, "focus", 0, "W", &c->reuse.focus,
         "craft: layers until chunks out of focus are no longer mended (3); negative: never"},
        {OPT_FLAG, "unfused", 0, NULL, &c->reuse.unfused,
         "plain copies of chunks, even where fused ones are known"},
        {OPT_FLOAT, "guard", 0, "SHARE", &c->guard,
         "share of requests that are checked against full attention, 0: none (0.05)"},
        {OPT_FLOAT, "guard-bound", 0, "NATS", &c->guard_bound,
         "divergence beyond which less is reused (0.5)"},
        {OPT_STRING, "store", 0, "DIR", &c->store, "folder of chunk copies kept on disk (none)"},
        {OPT_STRING, "cpu", 0, "NAME", &c->cpu,
         "kernels: ref, avx2, avxvnni, avx512, vnni (the best this CPU has)"},
        {OPT_FLAG, "verbose", 'v', NULL, &m->verbose, "log what the library does"},
        {OPT_END, NULL, 0, NULL, NULL, NULL},
    };
    memcpy(m->table, table, sizeof table);
}

static void log_line(sp_log_level level, const char *line, void *user)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    fprintf(stderr, "spolia: %s: %s\n", names[level], line);
}

/* find_share -- how much a policy computes again when the command line does not say: what was
 * calibrated for the model, or a share that the papers report most results for. */
static bool find_share(const char *model, const char *policy, bool verbose, sp_reuse_opts *r)
{
    calibration found = {.recompute = DEFAULT_SHARE};
    char *path = calibration_path(model), line[512];
    bool is_there = false, good = calibration_read(path, policy, &found, &is_there);
    r->recompute = (float)found.recompute;
    r->alpha = (float)found.alpha;
    snprintf(line, sizeof line, "%s: recompute %.4g, alpha %.4g, %s%s", policy, found.recompute,
             found.alpha, is_there ? "calibrated: " : "the default, not calibrated in ", path);
    if (good && verbose) log_line(SP_LOG_INFO, line, NULL);
    free(path);
    return good;
}

static bool complete_reuse(model_options *m)
{
    sp_reuse_opts *r = &m->ctx.reuse;
    if (m->ctx.model && r->policy && isnan(r->recompute) && isnan(r->alpha) &&
        eval_computes_again(r->policy))
        return find_share(m->ctx.model, r->policy, m->verbose, r);
    if (isnan(r->recompute)) r->recompute = 0;
    if (isnan(r->alpha)) r->alpha = 0;
    return true;
}

sp_context *model_options_open(model_options *m)
{
    sp_log_set(m->verbose ? SP_LOG_DEBUG : SP_LOG_WARN, log_line, NULL);
    if (!complete_reuse(m)) return NULL;
    if (m->type_k && m->type_v && strcmp(m->type_k, m->type_v) != 0) {
        cmd_fail_with("-ctk %s and -ctv %s: keys and values are kept in one type", m->type_k,
                      m->type_v);
        return NULL;
    }
    m->ctx.kv_type = m->type_k ? m->type_k : m->type_v;
    sp_context *c;
    sp_err err = sp_context_open(&m->ctx, &c);
    if (err == SP_OK) return c;
    cmd_fail(err);
    return NULL;
}

void sampling_options_init(sampling_options *s, int max_tokens)
{
    *s = (sampling_options){.s = sp_sampling_default(), .max_tokens = max_tokens};
    const opt table[] = {
        {OPT_INT, "predict", 'n', "N", &s->max_tokens, "tokens to generate at most"},
        {OPT_FLOAT, "temp", 0, "T", &s->s.temperature, "temperature; 0: greedy (0)"},
        {OPT_INT, "top-k", 0, "K", &s->s.top_k, "draw from the K best; 0: all (0)"},
        {OPT_FLOAT, "top-p", 0, "P", &s->s.top_p, "draw from the best with mass P (1)"},
        {OPT_FLOAT, "min-p", 0, "P", &s->s.min_p,
         "drop what is less likely than P times the best (0)"},
        {OPT_FLOAT, "repeat-penalty", 0, "X", &s->s.repeat_penalty,
         "weaken recent tokens by X (1)"},
        {OPT_INT, "repeat-last-n", 0, "N", &s->s.repeat_last, "how many tokens are recent (64)"},
        {OPT_U64, "seed", 's', "N", &s->s.seed, "random seed (0)"},
        {OPT_LIST, "stop", 0, "TEXT", &s->stop, "end before this text; may be repeated"},
        {OPT_END, NULL, 0, NULL, NULL, NULL},
    };
    memcpy(s->table, table, sizeof table);
}
