/* cmd_eval.c -- `spolia eval`: every policy and ratio on the same prompts, held against full
 * attention. Rows F8 and C11: answer quality, divergence, KV deviation, tokens, times. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/alloc.h"
#include "cmd/cmd.h"
#include "cmd/eval_options.h"
#include "cmd/eval_report.h"

#define POLICIES "off,prefix,set,full,random,h2o,blend,craft,fusion,flow"
#define RATIOS   "0.05,0.15,0.3,0.5"

static const char about[] =
    "Asks every question in every setting and holds it against --reuse off on the same prompt:\n"
    "EM, F1, normalised F1 (0: full, 1: off), ROUGE-L, KL divergence and agreement of the first\n"
    "answer token, KL of all answer tokens along off's answer, deviation of keys and values by\n"
    "layer, tokens reused and computed again, time to the first token.\n\n"
    "Each setting begins with the chunks known, but not from this prompt: as copies behind the\n"
    "system text alone, and for craft as they stood in two prompts that mix every other of them\n"
    "with chunks of the next question. prefix and set find what earlier questions left. With\n"
    "--cold nothing is prepared: every setting has KV memory of its own and lives on earlier\n"
    "questions only, so KL of later tokens and KV deviation are left out.\n\n"
    "PREFIX.csv has a row for each question and setting and grows as they are answered; the same\n"
    "command goes on where it was interrupted. At the end come PREFIX.summary.csv and the plots\n"
    "PREFIX.quality.svg, .kl.svg, .kv.svg and .reuse.svg.";

typedef struct evaluation {
    eval_options o;
    model_options m;
    const char *policies, *ratios, *alphas, *prefix;
    bool restart, cold;
    eval_settings settings;
    eval_input in;
} evaluation;

/* -- the settings that a file was made with ------------------------------------------------- */

static void set_text(json_t *o, const char *key, const char *text)
{
    if (text) json_object_set_new(o, key, json_string(text));
}

static void set_number(json_t *o, const char *key, double v)
{
    json_object_set_new(o, key, json_real(v));
}

/* set_file -- name and size: a file that was replaced is noticed, one that was moved is not. */
static void set_file(json_t *o, const char *key, const char *path)
{
    struct stat s;
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!path) return;
    double size = stat(path, &s) == 0 && S_ISREG(s.st_mode) ? (double)s.st_size : 0;
    json_object_set_new(
        o, key,
        json_pack("{s:s, s:f}", "name", slash && slash[1] ? slash + 1 : path, "bytes", size));
}

/* describe -- all that changes a row; --limit does not, so a run can be made longer. */
static json_t *describe(const evaluation *v)
{
    const eval_options *o = &v->o;
    json_t *s = json_object();
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)v->in.questions.hash);
    set_number(s, "version", 1);
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
    set_text(s, "system", o->system);
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
    set_number(s, "kv-memory", (double)v->m.ctx.kv_bytes);
    set_number(s, "ctx-size", v->m.ctx.n_ctx);
    set_number(s, "focus", v->m.ctx.reuse.focus);
    set_number(s, "cold", v->cold);
    return s;
}

/* -- the run -------------------------------------------------------------------------------- */

/* ask -- question i, unless the file has it. */
static bool ask(const evaluation *v, eval_run *e, int i, eval_csv *csv)
{
    if (eval_csv_has(csv, v->in.questions.v[i].id)) return eval_run_replay(e, i);
    eval_row *rows = cmd_alloc((size_t)v->settings.n, sizeof *rows);
    bool done = eval_run_question(e, i, rows) && eval_csv_add(csv, rows);
    for (int s = 0; s < v->settings.n; s++) eval_row_drop(&rows[s]);
    free(rows);
    return done;
}

static bool ask_all(const evaluation *v, eval_csv *csv)
{
    eval_progress progress = {.quiet = v->o.quiet};
    int n = v->in.n_questions;
    for (int i = 0; i < n; i++)
        progress.n_skipped += eval_csv_has(csv, v->in.questions.v[i].id) != NULL;
    if (progress.n_skipped == n) return true;
    if (progress.n_skipped && !v->o.quiet)
        fprintf(stderr, "spolia: %s has %d of %d questions\n", csv->path, progress.n_skipped, n);
    eval_run *e = eval_run_open(&(eval_run_opts){.model = &v->m,
                                                 .docs = &v->in.docs,
                                                 .questions = &v->in.questions,
                                                 .n_questions = n,
                                                 .settings = &v->settings,
                                                 .system = v->o.system,
                                                 .stop = &v->o.stop,
                                                 .max_tokens = v->o.max_tokens,
                                                 .similar = v->o.similar,
                                                 .n_fuse = v->o.n_fuse,
                                                 .cold = v->cold,
                                                 .interrupted = &eval_interrupted});
    bool done = e != NULL;
    eval_catch(true);
    for (int i = 0, n_done = 0; i < n && done; i++) {
        bool known = eval_csv_has(csv, v->in.questions.v[i].id) != NULL;
        eval_progress_show(&progress, progress.n_skipped + n_done, n);
        done = ask(v, e, i, csv);
        n_done += !known;
    }
    eval_catch(false);
    eval_progress_wipe(&progress);
    if (!done && eval_interrupted && csv->path)
        cmd_fail_with("interrupted; the same command goes on behind question %zu of %s",
                      csv->n / (size_t)csv->n_block, csv->path);
    else if (!done && eval_interrupted)
        cmd_fail_with("interrupted; with --out PREFIX it could go on later");
    eval_run_close(e);
    return done;
}

/* select_rows -- those of the questions within --limit, in their order; borrowed from the file. */
static eval_row *select_rows(const evaluation *v, const eval_csv *csv)
{
    size_t block = (size_t)v->settings.n;
    eval_row *rows = cmd_alloc((size_t)v->in.n_questions * block, sizeof *rows);
    for (int i = 0; i < v->in.n_questions; i++)
        memcpy(rows + (size_t)i * block, eval_csv_has(csv, v->in.questions.v[i].id),
               block * sizeof *rows);
    return rows;
}

static bool report(const evaluation *v, const eval_csv *csv)
{
    eval_row *rows = select_rows(v, csv);
    size_t n = (size_t)v->in.n_questions * (size_t)v->settings.n;
    eval_summary *sums = cmd_alloc((size_t)v->settings.n, sizeof *sums);
    eval_summarise(rows, n, &v->settings, NULL, sums);
    eval_print_table(sums, &v->settings);
    bool done = !v->prefix || eval_write_files(v->prefix, rows, n, &v->settings);
    free(sums);
    free(rows);
    return done;
}

static int evaluate(evaluation *v)
{
    eval_csv csv;
    char *path = v->prefix ? cmd_join(v->prefix, ".csv") : NULL;
    json_t *settings = describe(v);
    bool done = eval_csv_open(path, settings, v->settings.n, v->restart, &csv);
    json_decref(settings);
    free(path);
    if (!done) return 1;
    done = ask_all(v, &csv) && report(v, &csv);
    eval_csv_close(&csv);
    return done ? 0 : 1;
}

int cmd_eval(int argc, char **argv)
{
    evaluation v = {.policies = POLICIES, .ratios = RATIOS};
    model_options_init(&v.m);
    eval_options_init(&v.o);
    const opt own[] = {
        {OPT_STRING, "policies", 'p', "LIST", &v.policies,
         "any of off, prefix, set, full, random, h2o, blend, craft, fusion, flow (all); full and "
         "those behind it also with +fused"},
        {OPT_STRING, "ratios", 'r', "LIST", &v.ratios,
         "shares that policies from random on compute again (" RATIOS ")"},
        {OPT_STRING, "alphas", 0, "LIST", &v.alphas, "craft: its alpha, instead of --ratios"},
        {OPT_FLAG, "cold", 0, NULL, &v.cold, "nothing is known at the start"},
        {OPT_STRING, "out", 'o', "PREFIX", &v.prefix, "write PREFIX.csv, summary and plots"},
        {OPT_FLAG, "restart", 0, NULL, &v.restart, "begin PREFIX.csv anew"},
        {0},
    };
    const opt *const tables[] = {own, v.o.table, v.m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"eval -m MODEL --questions FILE (--index FILE | --docs PATH) "
                                    "[--out PREFIX] [options]",
                                    about},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cmd_fail_with("eval: \"%s\" is one word too many", argv[at]), 2;
    if (!eval_settings_make(v.policies, v.ratios, v.alphas, &v.settings)) return 2;
    int code = eval_input_open("eval", &v.o, &v.m, &v.settings, &v.in);
    if (code) return code;
    for (int i = 0; i < v.settings.n; i++) /* as in service; else the run before it would show */
        v.settings.v[i].reuse.exact_first = v.cold;
    code = evaluate(&v);
    eval_input_close(&v.in);
    return code;
}
