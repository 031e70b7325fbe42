/* eval.c -- `spolia eval`: compares every policy and ratio with full attention on the same prompts.
 * Rows F8 and C11: answer quality, divergence, KV deviation, tokens, times. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/alloc.h"
#include "cli/path.h"
#include "cli/options/policies.h"
#include "lab/lab.h"
#include "lab/eval/options.h"
#include "lab/eval/report.h"
#include "lab/eval/trace.h"
#include "lab/eval/shots.h"

#define RATIOS "0.05,0.15,0.3,0.5"

static const char about[] =
    "Answers every question with every policy and ratio and compares it with full attention\n"
    "(--reuse off) on the same prompt: EM, F1, normalised F1 (0: full, 1: off), ROUGE-L, share of off's\n"
    "right answers lost, KL divergence and agreement of the first answer token, KL of all answer tokens along off's\n"
    "answer, deviation of keys and values by layer, tokens reused and recomputed, time to first\n"
    "token.\n\n"
    "Before a question is measured, its chunks get plain copies; for craft, placed copies from "
    "two\n"
    "prompts that mix them with chunks of the next question. prefix and set reuse what earlier\n"
    "questions left. With --cold nothing is prepared: every setting has its own KV memory and\n"
    "reuses earlier questions only, and KL of later tokens and KV deviation are not measured.\n\n"
    "--measure likelihood feeds the reference answer to every setting instead of letting it answer: its\n"
    "negative log-likelihood a token (NLL, with the paired difference to off and its 95 % interval), and\n"
    "the share of full reuse's loss that a setting recovers, if that loss is not chance. both: the same, and\n"
    "then the setting's own answer\n"
    "from the end of the prompt. Either is one run a setting, also with --cold; KL is along the reference answer.\n\n"
    "--trace serves the questions as a stream, as --cold does, and shows how reuse performs over time: in windows\n"
    "of --window questions quality, shares reused and recomputed, time to first token, KV memory, copies\n"
    "that were evicted from it, and of the chunks with a copy those whose copy had seen another chunk of its\n"
    "prompt. Each setting has --kv-memory, --host-memory, and a folder of its own in --store.\n\n"
    "PREFIX.csv has a row for each question and setting; an interrupted run continues with the\n"
    "same command. At the end, PREFIX.summary.csv is written. bench/plot.py draws both files.";

typedef struct evaluation {
    eval_options o;
    model_options m;
    const char *policies, *ratios, *alphas, *prefix;
    const char *measure, *trace;
    int window; /* of a trace */
    bool restart, cold, from_host;
    eval_measure kind; /* of `measure` */
    eval_settings settings;
    eval_input in;
} evaluation;

/* -- the settings in the file's header ------------------------------------------------- */

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text) json_object_set_new(o, key, json_string(text));
}

static void set_number(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, json_real(v));
}

/* set_file -- name and size: notices a replaced file, and ignores its folder. */
static void set_file(json_t *o, const char *key, const char *path)
{
    struct stat s;
    if (!path) return;
    double size = stat(path, &s) == 0 && S_ISREG(s.st_mode) ? (double)s.st_size : 0;
    char *name = cli_last_part(path);
    json_object_set_new(o, key, json_pack("{s:s, s:f}", "name", name, "bytes", size));
    free(name);
}

/* describe -- everything that changes a row. --limit does not, so a run can be extended. */
static json_t *describe(const evaluation *v)
{
    const eval_options *o = &v->o;
    json_t *s = json_object();
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)v->in.questions.hash);
    set_number(s, "version", 2);
    set_file(s, "model", v->m.ctx.model);
    set_text(s, "questions", hash);
    set_text(s, "kind-field", o->kind_field);
    set_file(s, "index", o->docs.index);
    set_file(s, "docs", o->docs.docs);
    set_text(s, "context", v->in.docs.given ? "given" : "retrieved");
    set_number(s, "chunks", o->docs.n_chunks);
    set_text(s, "order", o->docs.order);
    set_number(s, "seed", (double)o->docs.seed);
    set_number(s, "max-tokens", o->max_tokens);
    set_text(s, "system", v->in.system);
    for (int i = 0; i < o->stop.n; i++) {
        char key[24];
        snprintf(key, sizeof key, "stop %d", i + 1);
        set_text(s, key, o->stop.v[i]);
    }
    set_text(s, "similar", o->similar);
    set_number(s, "fuse", o->n_fuse);
    set_text(s, "policies", v->policies);
    set_text(s, "ratios", v->ratios);
    set_text(s, "alphas", v->alphas ? v->alphas : "");
    set_text(s, "kv-type", v->m.type_k ? v->m.type_k : v->m.type_v ? v->m.type_v : SP_KV_TYPE);
    set_number(s, "kv-memory", (double)v->m.ctx.cache.kv_bytes);
    set_number(s, "ctx-size", v->m.ctx.n_ctx);
    set_number(s, "focus", v->m.focus);
    if (v->m.ctx.cache.max_variants) set_number(s, "max-variants", v->m.ctx.cache.max_variants);
    set_text(s, "decode", v->m.ctx.decode.how);
    set_text(s, "evict", v->m.ctx.cache.evict);
    if (v->m.ctx.cache.keep_chunks) set_number(s, "keep-chunks", v->m.ctx.cache.keep_chunks);
    set_file(s, "asked", o->asked);
    set_number(s, "cold", v->cold);
    if (v->kind != EVAL_ANSWERS) set_text(s, "measure", v->measure);
    if (v->from_host)
        set_text(s, "host-kv", v->m.ctx.tiers.host_kv ? v->m.ctx.tiers.host_kv : "as -ctk");
    return s;
}

/* -- the run -------------------------------------------------------------------------------- */

/* ask -- question i, unless the file has its rows. */
static bool ask(const evaluation *v, eval_run *e, int i, eval_csv *csv)
{
    if (eval_csv_has(csv, v->in.questions.v[i].id)) return eval_run_replay(e, i);
    eval_row *rows = cli_alloc((size_t)v->settings.n, sizeof *rows);
    bool done = eval_run_question(e, i, rows) && eval_csv_add(csv, rows);
    for (int s = 0; s < v->settings.n; s++) eval_row_drop(&rows[s]);
    free(rows);
    return done;
}

static bool ask_all(const evaluation *v, eval_csv *csv)
{
    eval_progress shown = {.quiet = v->o.quiet};
    int n = v->in.n_questions;
    for (int i = 0; i < n; i++)
        shown.n_skipped += eval_csv_has(csv, v->in.questions.v[i].id) != NULL;
    if (shown.n_skipped == n) return true;
    if (shown.n_skipped && !v->o.quiet)
        fprintf(stderr, "spolia: %s has %d of %d questions\n", csv->path, shown.n_skipped, n);
    eval_run_opts o = eval_run_of(&v->o, &v->in, &v->m, &v->settings);
    o.cold = v->cold;
    o.measure = v->kind;
    o.from_host = v->from_host;
    eval_run *e = eval_run_open(&o);
    bool done = e != NULL;
    progress_begin(&shown.line, v->o.quiet, v->m.verbose ? SP_LOG_DEBUG : SP_LOG_WARN);
    for (int i = 0, n_done = 0; i < n && done; i++) {
        bool known = eval_csv_has(csv, v->in.questions.v[i].id) != NULL;
        shown.again = known ? i + 1 : 0;
        if (!known && n_done == 0) shown.new_at = progress_seconds(&shown.line);
        eval_progress_show(&shown, shown.n_skipped + n_done, n);
        done = ask(v, e, i, csv);
        n_done += !known;
    }
    progress_end(&shown.line);
    if (!done && progress_interrupted() && csv->path)
        cli_fail_with("interrupted; the same command continues after question %zu of %s",
                      csv->n / (size_t)csv->n_block, csv->path);
    else if (!done && progress_interrupted())
        cli_fail_with("interrupted; with --out PREFIX a run can be continued");
    eval_run_close(e);
    return done;
}

/* select_rows -- the rows of the first --limit questions, in order; borrowed from the file. */
static eval_row *select_rows(const evaluation *v, const eval_csv *csv)
{
    size_t block = (size_t)v->settings.n;
    eval_row *rows = cli_alloc((size_t)v->in.n_questions * block, sizeof *rows);
    for (int i = 0; i < v->in.n_questions; i++)
        memcpy(rows + (size_t)i * block, eval_csv_has(csv, v->in.questions.v[i].id),
               block * sizeof *rows);
    return rows;
}

/* report_trace -- the same rows over time; nothing without --trace. */
static bool report_trace(const evaluation *v, const eval_row *rows)
{
    const eval_trace t = {.rows = rows,
                          .n_questions = (size_t)v->in.n_questions,
                          .settings = &v->settings,
                          .window = v->window,
                          .kv_bytes = v->m.ctx.cache.kv_bytes};
    if (!v->trace) return true;
    eval_trace_print(&t);
    return eval_trace_write(&t, v->trace);
}

static bool report(const evaluation *v, const eval_csv *csv)
{
    eval_row *rows = select_rows(v, csv);
    size_t n = (size_t)v->in.n_questions * (size_t)v->settings.n;
    eval_summary *sums = cli_alloc((size_t)v->settings.n, sizeof *sums);
    eval_summarise(rows, n, &v->settings, NULL, sums);
    eval_print_table(sums, &v->settings);
    bool done = report_trace(v, rows) && (!v->prefix || eval_write_files(v->prefix, rows, n, &v->settings));
    free(sums);
    free(rows);
    return done;
}

static int evaluate(evaluation *v)
{
    eval_csv csv;
    char *path = v->prefix ? cli_join(v->prefix, ".csv") : NULL;
    json_t *settings = describe(v);
    bool done = eval_csv_open(path, settings, v->settings.n, v->restart, &csv);
    json_decref(settings);
    free(path);
    if (!done) return 1;
    done = ask_all(v, &csv) && report(v, &csv);
    eval_csv_close(&csv);
    return done ? 0 : 1;
}

static bool parse_measure(const char *text, eval_measure *out)
{
    static const char *const names[] = {"answers", "likelihood", "both"};
    for (int i = 0; text && i < 3; i++)
        if (strcmp(text, names[i]) == 0) return *out = (eval_measure)i, true;
    return !text;
}

int lab_eval(int argc, char **argv)
{
    evaluation v = {.policies = cli_policy_list(CLI_ALL), .ratios = RATIOS, .window = 20};
    char help[512];
    model_options_init(&v.m);
    model_options_compares(&v.m);
    eval_options_init(&v.o);
    const opt own[] = {
        {OPT_STRING, "policies", 'p', "LIST", &v.policies, help, .common = true},
        {OPT_STRING, "ratios", 'r', "LIST", &v.ratios,
         "shares of chunk tokens to recompute (" RATIOS ")", .common = true},
        {OPT_STRING, "alphas", 0, "LIST", &v.alphas, "values of craft's alpha, instead of --ratios"},
        {OPT_STRING, "measure", 0, "WHAT", &v.measure,
         "answers; likelihood: of the reference answer; or both, in one run a setting (answers)"},
        {OPT_FLAG, "cold", 0, NULL, &v.cold, "start every setting with an empty cache"},
        {OPT_STRING, "trace", 0, "FILE", &v.trace,
         "the questions are a stream: --cold, and a table of windows, written to FILE as JSON"},
        {OPT_INT, "window", 0, "N", &v.window, "questions of a window of --trace (20)", .limits = {1, INT32_MAX}},
        {OPT_FLAG, "from-host", 0, NULL, &v.from_host,
         "load prepared copies from --host-memory, as --host-kv keeps them"},
        {OPT_STRING, "out", 'o', "PREFIX", &v.prefix, "write PREFIX.csv and PREFIX.summary.csv",
         .common = true},
        {OPT_FLAG, "restart", 0, NULL, &v.restart, "overwrite PREFIX.csv"},
        {0},
    };
    snprintf(help, sizeof help,
             "policies, from %s (all); NAME+fused, of %s: with fused copies; NAME:key=value: with parameters; "
             "NAME@SHARE: recomputes this share instead of --ratios",
             cli_policy_names(CLI_ALL), cli_policy_names(CLI_ANYWHERE));
    const opt *const tables[] = {own, v.o.table, v.m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"eval -m MODEL --questions FILE (--index FILE | --docs PATH) "
                                    "[--out PREFIX] [options]",
                                    about},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("eval: unexpected argument \"%s\"", argv[at]), 2;
    v.cold = v.cold || v.trace;
    if (v.from_host && (v.cold || !v.m.ctx.tiers.host_bytes))
        return cli_fail_with("eval: --from-host needs --host-memory, and excludes --cold"), 2;
    if (!parse_measure(v.measure, &v.kind))
        return cli_fail_with("eval: --measure must be answers, likelihood or both"), 2;
    if (!eval_settings_make(v.policies, v.ratios, v.alphas, &v.settings)) return 2;
    if (v.trace && !eval_trace_ready(v.trace)) return 1;
    int code = eval_input_open("eval", &v.o, &v.m, &v.settings, &v.in);
    if (code) return code;
    for (int i = 0; i < v.settings.n;
         i++) /* as in production; otherwise an earlier run of the prompt would be found */
        v.settings.v[i].reuse.exact_first = v.cold;
    code = evaluate(&v);
    eval_input_close(&v.in);
    return code;
}
