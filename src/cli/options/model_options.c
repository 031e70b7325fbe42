#include "cli/options/model_options.h"
#include "cli/options/options_int.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cache_dir.h"
#include "cli/fail.h"
#include "cli/options/policies.h"

/* In the order of sp_preload. */
static const opt_choice preloads[] = {
    {"layers", "while requests wait; a request begins when the first layers of its copies are there"},
    {"request", "while requests wait; a request begins when all of its copies are there"},
    {"none", "when the request is the next to start"},
    {"first", "as layers, but the first layer is always enough; for comparison"},
    {NULL, NULL}};
static const opt_choice admits[] = {
    {"all", "every copy"},
    {"cheaper", "those that take less time to load than to compute"},
    {NULL, NULL}};

static void make_texts(model_options *m)
{
    snprintf(m->recompute_help, sizeof m->recompute_help,
             "share of chunk tokens to recompute, 0 to 1 (as spolia calibrate found, or %g)",
             (double)SP_DEFAULT_SHARE);
}

/* quality_choices -- with their help texts. */
static const opt_choice *quality_choices(void)
{
    static opt_choice choices[8];
    int n;
    const sp_quality_info *all = sp_qualities(&n);
    assert(n < (int)(sizeof choices / sizeof *choices));
    for (int i = 0; i < n; i++) choices[i] = (opt_choice){all[i].name, all[i].help};
    return choices;
}

/* machine_options -- the model, what computes it, and its memory; returns their number. */
static int machine_options(model_options *m, opt *to)
{
    sp_context_opts *c = &m->ctx;
    const opt table[] = {
        {OPT_GROUP, "Model and memory"},
        {OPT_STRING, "model", 'm', "PATH", &c->model,
         "GGUF file, Hugging Face folder, or hf:ORG/REPO[:TYPE] (spolia pull)", .required = true,
         .common = true, .is_model = true},
        {OPT_INT, "ctx-size", 'c', "N", &c->n_ctx,
         "tokens of prompt and answer; 0: as the model was trained, at most 8192 (0)", .common = true,
         .limits = {0, INT32_MAX}},
        {OPT_INT, "threads", 't', "N", &c->machine.n_threads, "threads; 0: one for each core (0)",
         .common = true, .limits = {0, 1024}},
        {OPT_INT, "batch-size", 'b', "N", &c->n_batch, "tokens computed in one step; 0: 256 (256)",
         .limits = {0, INT32_MAX}},
        {OPT_MIB, "kv-memory", 0, "MiB", &c->cache.kv_bytes,
         "memory for keys and values, cached ones included; 0: 1024 (1024)", .common = true},
        {OPT_SIZE, "context-memory", 0, "SIZE", &c->decode.context_bytes,
         "memory for keys and values; cached ones that do not fit are kept in a file (all)"},
        {OPT_STRING, "resident-heads", 0, "SIZE", &m->resident,
         "part of --context-memory for the KV heads that reuse least; auto: a quarter (none)"},
        {OPT_STRING, "context-dir", 0, "DIR", &c->decode.context_dir,
         "folder of the file of --context-memory (--store, or /var/tmp)"},
        {OPT_STRING, "ctk", 0, "TYPE", &m->type_k,
         "type of cached keys: f32, f16, bf16, q16, q8_0 (" SP_KV_TYPE ")"},
        {OPT_STRING, "ctv", 0, "TYPE", &m->type_v, "type of cached values: the same as -ctk"},
        OPT_CPU(&c->machine.cpu),
        OPT_EXACT_PRODUCTS(&c->machine.exact_products),
        OPT_AMX_F16(&c->machine.amx_f16),
        OPT_AMX_ATTEND(&c->machine.amx_attend),
        {OPT_FLAG, "no-pack-cache", 0, NULL, &m->no_pack_cache,
         "pack weights at every start (kept in ~/.cache/spolia/packs, for a faster start)"},
        {OPT_MIB, "pack-cache-max", 0, "MiB", &c->machine.packs_max_bytes,
         "disk space of all packed weights (20480)"},
        {OPT_FLAG, "verbose", 'v', NULL, &m->verbose, "log what the library does"},
    };
    memcpy(to, table, sizeof table);
    return (int)(sizeof table / sizeof *table);
}

/* reuse_options -- how copies are used. */
static int reuse_options(model_options *m, opt *to)
{
    sp_context_opts *c = &m->ctx;
    const opt table[] = {
        {OPT_GROUP, "Reuse"},
        {OPT_STRING, "quality", 0, "LEVEL", &m->quality,
         "instead of --reuse: how closely answers follow full attention, as calibrated for the model (exact)",
         .common = true,
         .choices = quality_choices()},
        {OPT_STRING, "reuse", 0, "POLICY", &m->reuse,
         "how copies are used; parameters follow the name: NAME:key=value,key=value (prefix)",
         .common = true, .choices = cli_policy_choices()},
        {OPT_FLOAT, "recompute", 0, "R", &c->reuse.recompute, m->recompute_help, .common = true, .limits = {0, 1}},
        {OPT_STRING, "decode", 0, "HOW", &c->decode.how,
         "exact, or read a part of a long prompt: sparse (10%), sparse:4096 tokens, window:4096 "
         "(exact)"},
        {OPT_STRING, "store", 0, "DIR", &c->tiers.store, "folder that keeps copies on disk (none)",
         .common = true},
        {OPT_FLAG, "unfused", 0, NULL, &c->reuse.unfused,
         "use plain copies of chunks, even where fused copies are known"},
        {OPT_FLOAT, "alpha", 0, "A", &m->alpha, "the same as --reuse craft:alpha=A"},
        {OPT_INT, "focus", 0, "W", &m->focus,
         "the same as --reuse craft:focus=W; negative: never drop tokens"},
        {OPT_FLOAT, "guard", 0, "SHARE", &c->guard.share,
         "share of requests to check against full attention; 0: none (0.05)", .limits = {0, 1}},
        {OPT_FLOAT, "guard-bound", 0, "NATS", &c->guard.bound,
         "divergence above which the guard reuses less (0.5)", .limits = {0, 1000, true}},
    };
    memcpy(to, table, sizeof table);
    return (int)(sizeof table / sizeof *table);
}

/* cache_options -- where copies are kept, what goes first, and which request is next. */
static int cache_options(model_options *m, opt *to)
{
    sp_context_opts *c = &m->ctx;
    const opt table[] = {
        {OPT_GROUP, "Cache and queue"},
        {OPT_STRING, "evict", 0, "NAME", &c->cache.evict,
         "which copy is dropped when memory is full; NAME+ghosts remembers uses of dropped copies "
         "(hazard)",
         .choices = cli_evict_choices()},
        {OPT_INT, "keep-chunks", 0, "N", &c->cache.keep_chunks,
         "cache only the first N chunks of each prompt; 0: all (0)", .limits = {0, INT32_MAX}},
        {OPT_INT, "max-variants", 0, "N", &c->cache.max_variants,
         "copies of a chunk that --reuse craft keeps, computed after different chunks; the least useful goes (5)",
         .limits = {0, INT32_MAX}},
        {OPT_STRING, "profile", 0, "FILE", &c->cache.profile,
         "for --evict pgdsf: the cost of computing tokens, measured by spolia profile (a formula)"},
        {OPT_SIZE, "host-memory", 0, "SIZE", &c->tiers.host_bytes,
         "memory of the host tier, which keeps evicted copies (none)"},
        {OPT_STRING, "host-kv", 0, "TYPE", &c->tiers.host_kv,
         "KV type of the host tier; q8_0 is smaller (-ctk)"},
        {OPT_STRING, "host-evict", 0, "NAME", &c->tiers.host_evict,
         "which copy is dropped when the host tier is full, as --evict (lru)"},
        {OPT_SIZE, "store-max", 0, "SIZE", &c->tiers.store_bytes,
         "size limit of the store, such as 20G (what it holds and half of the free disk)"},
        {OPT_STRING, "store-evict", 0, "NAME", &c->tiers.store_evict,
         "which copy is dropped when the store is full, as --evict (lru)"},
        {OPT_STRING, "remote", 0, "URL", &c->tiers.remote,
         "where several processes share copies: redis://[USER:PASSWORD@]HOST[:PORT][,HOST...], or "
         "s3://BUCKET[/PREFIX] (none)"},
        {OPT_STRING, "remote-key-file", 0, "FILE", &c->tiers.remote_key_file,
         "key of 16 to 64 bytes that these processes share: copies without it are not used (none)"},
        {OPT_STRING, "remote-ca", 0, "FILE", &c->tiers.remote_ca_file,
         "certificates of the authorities that rediss:// and s3:// trust (the system's)"},
        {OPT_INT, "remote-ttl", 0, "S", &c->tiers.remote_ttl_s,
         "lifetime of a remote copy in seconds; 0: until the server drops it (0)", .limits = {0, INT32_MAX}},
        {OPT_STRING, "remote-kv", 0, "TYPE", &c->tiers.remote_kv,
         "KV type of remote copies; q8_0 is smaller (-ctk)"},
        {OPT_INT, "remote-compress", 0, "N", &c->tiers.remote_compress,
         "zstd level of these copies, 1 to 19; 0: not compressed (0)", .limits = {0, 19}},
        {OPT_STRING, "preload", 0, "HOW", &m->preload,
         "when copies are loaded (layers)", .choices = preloads},
        {OPT_INT, "load-timeout", 0, "MS", &c->tiers.load_timeout_ms,
         "if loading a copy makes no progress for this long, it is computed instead; a write is "
         "given up (5000)", .limits = {0, INT32_MAX}},
        {OPT_STRING, "admit", 0, "WHICH", &m->admit,
         "which copies the host tier and the store accept (all)", .choices = admits},
        {OPT_STRING, "queue-order", 0, "NAME", &c->queue.order,
         "which waiting request starts next (reorder)", .choices = cli_queue_choices()},
        {OPT_INT, "queue-window", 0, "N", &c->queue.window,
         "how many later requests may start before a waiting one (32)", .limits = {0, INT32_MAX}},
        {OPT_INT, "queue-wait", 0, "MS", &c->queue.wait_ms,
         "a request that has waited this long is no longer overtaken; 0: only --queue-window counts (0)",
         .limits = {0, INT32_MAX}},
    };
    memcpy(to, table, sizeof table);
    return (int)(sizeof table / sizeof *table);
}

void model_options_init(model_options *m)
{
    *m = (model_options){.ctx.reuse = {.recompute = NAN, .exact_first = true},
                         .alpha = NAN,
                         .ctx.guard.share = 0.05f}; /* NAN: not given */
    make_texts(m);
    if (cache_dir("packs", m->packs, sizeof m->packs)) m->ctx.machine.packs = m->packs;
    int n = machine_options(m, m->table);
    n += reuse_options(m, m->table + n);
    n += cache_options(m, m->table + n);
    assert(n < (int)(sizeof m->table / sizeof *m->table)); /* OPT_END is zero */
    m->table[n] = (opt){OPT_END, NULL, 0, NULL, NULL, NULL};
}

void model_options_compares(model_options *m)
{
    const void *const hidden[] = {&m->reuse, &m->ctx.reuse.recompute,
                                  &m->ctx.tiers.store};
    for (opt *o = m->table; o->kind != OPT_END; o++)
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
            if (o->dest == hidden[i]) o->common = false;
    for (opt *o = m->table; o->kind != OPT_END; o++)
        if (o->dest == &m->quality)
            memmove(o, o + 1, (size_t)(m->table + sizeof m->table / sizeof *m->table - o - 1) * sizeof *o);
}

static void log_line(sp_log_level level, const char *line, void *user)
{
    static const char *const names[] = {"", "error", "warning", "info", "debug"};
    fprintf(stderr, "spolia: %s: %s\n", names[level], line);
}

/* fails -- the exit code: a name that nothing has is wrong usage, a file that cannot be read is not. */
static int fails(sp_err err)
{
    cli_fail_with("%s", sp_error_detail());
    return err == SP_E_ARG ? 2 : 1;
}

/* use -- what a policy or quality was found to mean for the model; --verbose logs it. */
static int use(model_options *m, const char *name, sp_err err, const sp_calibration *found)
{
    char line[640];
    if (err != SP_OK) return fails(err);
    snprintf(m->policy, sizeof m->policy, "%s", found->policy);
    m->ctx.reuse.policy = m->policy;
    m->ctx.reuse.recompute = found->recompute;
    snprintf(line, sizeof line, "%s: %s, recompute %.4g, %s%s.reuse.json", name, m->policy, (double)found->recompute,
             found->calibrated ? "calibrated: " : "the default, not calibrated in ", m->ctx.model);
    if (m->verbose) log_line(SP_LOG_INFO, line, NULL);
    return 0;
}

/* find_share -- how much a policy recomputes when the command line does not say: what calibrate
 * found for the model, or a share for which the papers report most results. */
static int find_share(model_options *m)
{
    sp_calibration found;
    return use(m, m->reuse, sp_calibration_of_policy(m->policy, m->ctx.model, &found), &found);
}

/* find_quality -- the policy of --quality, and its share. */
static int find_quality(model_options *m)
{
    sp_calibration found;
    if (m->reuse || !isnan(m->ctx.reuse.recompute) || !isnan(m->alpha))
        return cli_fail_with("--quality excludes --reuse, --recompute and --alpha"), 2;
    return use(m, m->quality, sp_calibration_of_quality(m->quality, m->ctx.model, &found), &found);
}

void model_options_policy(const model_options *m, char *spec)
{
    if (!isnan(m->alpha)) cli_policy_add(spec, "alpha", (double)m->alpha);
    if (m->focus) cli_policy_add(spec, "focus", m->focus < 0 ? 0 : m->focus);
}

static int complete_reuse(model_options *m)
{
    sp_reuse_opts *r = &m->ctx.reuse;
    if (m->quality) return find_quality(m);
    if (m->reuse) {
        if (sp_reuse_parse(m->reuse, NULL, NULL) != SP_OK || strlen(m->reuse) >= CLI_SPEC / 2)
            return cli_fail_with("--reuse %.200s: %s", m->reuse, sp_error_detail()), 2;
        snprintf(m->policy, sizeof m->policy, "%s", m->reuse);
        model_options_policy(m, m->policy);
        r->policy = m->policy;
    }
    const cli_policy *p = m->reuse ? cli_policy_find(m->policy, NULL) : NULL;
    if (m->ctx.model && isnan(r->recompute) && p && p->recomputes && !cli_policy_amount(m->policy))
        return find_share(m);
    if (isnan(r->recompute)) r->recompute = 0;
    return 0;
}

/* choose -- the index of a word in a list of values, the first without a word; -1 after an error message. */
static int choose(const char *option, const char *word, const opt_choice *list)
{
    char names[256] = "";
    for (int i = 0; list[i].name; i++) {
        if (!word || strcmp(word, list[i].name) == 0) return i;
        const size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", list[i].name);
    }
    cli_fail_with("--%s: \"%s\" is unknown: %s", option, word, names);
    return -1;
}

static bool complete_tiers(model_options *m)
{
    int preload = choose("preload", m->preload, preloads);
    int admit = preload < 0 ? -1 : choose("admit", m->admit, admits);
    if (admit < 0) return false;
    m->ctx.tiers.preload = (sp_preload)preload;
    m->ctx.tiers.admit_cheaper = admit == 1;
    return true;
}

static bool complete_resident(model_options *m)
{
    const opt size = {.kind = OPT_SIZE, .dest = &m->ctx.decode.resident_bytes};
    if (!m->resident) return true;
    if (!m->ctx.decode.context_bytes)
        return cli_fail_with("--resident-heads needs --context-memory"), false;
    if (strcmp(m->resident, "auto") == 0)
        return m->ctx.decode.resident_bytes = m->ctx.decode.context_bytes / 4, true;
    return opt_set(&size, m->resident, "--resident-heads");
}

static bool complete_type(model_options *m)
{
    m->ctx.cache.kv_type = m->type_k ? m->type_k : m->type_v;
    if (!m->type_k || !m->type_v || strcmp(m->type_k, m->type_v) == 0) return true;
    return cli_fail_with("-ctk %s and -ctv %s: keys and values have one type", m->type_k, m->type_v), false;
}

/* fails_at_field -- the same; a field of the context that begins the message, as in "host_kv: ...", is named as the
 * option that sets it. */
static int fails_at_field(const model_options *m, sp_err err)
{
    char name[32], said[1024];
    const char *at = sp_error_detail();
    const size_t n = strcspn(at, ":");
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    if (strcmp(name, "kv_type") == 0) snprintf(name, sizeof name, m->type_k ? "ctk" : "ctv");
    for (char *c = name; *c; c++)
        if (*c == '_') *c = '-';
    for (const opt *o = m->table; o->kind != OPT_END; o++) {
        if (!o->name || strcmp(o->name, name) != 0) continue;
        snprintf(said, sizeof said, "%s", at + n);
        cli_fail_with("--%s%s", name, said);
        return err == SP_E_ARG ? 2 : 1;
    }
    return fails(err);
}

/* complete -- the options of the context. Returns the exit code after an error message, or 0. */
static int complete(model_options *m)
{
    const int code = complete_reuse(m);
    if (code != 0) return code;
    if (!complete_tiers(m) || !complete_resident(m) || !complete_type(m)) return 2;
    const sp_err err = sp_context_check(&m->ctx);
    return err == SP_OK ? 0 : fails_at_field(m, err);
}

int model_options_check(const model_options *m)
{
    model_options all = *m;
    all.verbose = false; /* model_options_open logs */
    return complete(&all);
}

sp_context *model_options_open(model_options *m)
{
    sp_log_set(m->verbose ? SP_LOG_DEBUG : SP_LOG_WARN, log_line, NULL);
    if (complete(m) != 0) return NULL;
    if (m->no_pack_cache) m->ctx.machine.packs = NULL;
    sp_context *c;
    sp_err err = sp_context_open(&m->ctx, &c);
    if (err == SP_OK) return c;
    cli_fail(err);
    return NULL;
}

#define MOST 10000000 /* tokens */

void sampling_options_init(sampling_options *s, int max_tokens)
{
    *s = (sampling_options){.s = sp_sampling_default(), .max_tokens = max_tokens};
    snprintf(s->predict_help, sizeof s->predict_help, "most tokens to generate (%d)", max_tokens);
    const opt table[] = {
        {OPT_GROUP, "Sampling"},
        {OPT_INT, "predict", 'n', "N", &s->max_tokens, s->predict_help, .common = true, .limits = {0, MOST}},
        {OPT_FLOAT, "temp", 0, "T", &s->s.temperature, "temperature; 0: greedy (0)",
         .common = true, .limits = {0, 100}},
        {OPT_INT, "top-k", 0, "K", &s->s.top_k, "sample from the K most likely tokens; 0: all (0)",
         .limits = {0, MOST}},
        {OPT_FLOAT, "top-p", 0, "P", &s->s.top_p,
         "sample from the most likely tokens with total probability P (1)", .limits = {0, 1, true}},
        {OPT_FLOAT, "min-p", 0, "P", &s->s.min_p,
         "drop tokens less likely than P times the most likely one (0)", .limits = {0, 1}},
        {OPT_FLOAT, "repeat-penalty", 0, "X", &s->s.repeat_penalty,
         "divide the logits of recent tokens by X; 1: off (1)", .limits = {0, 100, true}},
        {OPT_INT, "repeat-last-n", 0, "N", &s->s.repeat_last, "how many tokens are recent (64)", .limits = {0, MOST}},
        {OPT_U64, "seed", 's', "N", &s->s.seed, "random seed (0)"},
        {OPT_LIST, "stop", 0, "TEXT", &s->stop, "end the answer before this text; may be repeated"},
        {OPT_END, NULL, 0, NULL, NULL, NULL},
    };
    _Static_assert(sizeof table <= sizeof s->table, "sampling_options.table is too short");
    memcpy(s->table, table, sizeof table);
}

bool schema_open(const char *path, sp_grammar **out)
{
    size_t n;
    *out = NULL;
    if (!path) return true;
    char *text = cli_read_text(path, &n);
    if (!text) return false;
    sp_err err = sp_grammar_compile(&(sp_grammar_opts){.schema = text}, out);
    free(text);
    if (err != SP_OK) cli_fail_with("--json-schema %s: %s", path, sp_error_detail());
    return err == SP_OK;
}
