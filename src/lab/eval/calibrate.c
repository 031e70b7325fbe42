/* calibrate.c -- `spolia calibrate`: the least recomputation that keeps what full attention says. Two measures: the
 * likelihood of reference answers (or of passages of the index, continued), and F1 of answers (Cache-Craft section
 * 3.2, eq. 13, for every policy). calibrate_loss.c chooses by the first. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lab/eval/calibrate.h"
#include "lab/eval/passages.h"
#include "lab/eval/shots.h"
#include "lab/lab.h"

#define FEWEST   20 /* questions, without --force */
#define PASSAGES 100
#define ROUNDING 1e-3 /* nats: no divergence */
#define RATIOS   "0.05,0.1,0.15,0.2,0.3,0.4,0.5"
#define ALPHAS   "0.1,0.25,0.5,1,1.5,2,3"

static const char about[] =
    "Finds what --quality balanced means for a model: the smallest share of recomputed tokens at\n"
    "which a policy keeps the quality of full attention on your questions, with copies of every chunk\n"
    "(see spolia eval --help). The choice is saved in MODEL.reuse.json, which --quality, and --reuse\n"
    "POLICY without --recompute or --alpha, read.\n\n"
    "--measure likelihood (the default): the reference answers' negative log-likelihood rises by at\n"
    "most --loss, and so does the upper end of its 95 % interval; a result that could be chance is\n"
    "refused. Without --questions, passages of the index are quoted and continued, and the\n"
    "divergence from full attention along the continuation is what is bounded: no labels needed.\n\n"
    "--measure answers: mean F1 is at least --keep times that of full attention.\n\n"
    "It needs 20 questions; a few hundred narrow the intervals to a few percent.";

/* -- measuring ------------------------------------------------------------------------------- */

/* any_differs -- some setting has another F1 than full attention on some question; by loss: the copies as they are
 * diverge from it by more than rounding. */
static bool any_differs(const calibrating *c)
{
    if (c->by_loss) return c->sums[CALIBRATE_NONE].kl_all > ROUNDING;
    for (int i = 0; i < c->in.n_questions; i++)
        for (int s = 1; s < c->settings.n; s++) {
            const eval_row *row = c->rows + (size_t)i * (size_t)c->settings.n;
            if (row[s].number[ROW_F1] != row[0].number[ROW_F1]) return true;
        }
    return false;
}

/* measure -- every setting on every question; false after an error message. */
static bool measure(calibrating *c)
{
    const size_t block = (size_t)c->settings.n, n = (size_t)c->in.n_questions * block;
    eval_progress shown = {.quiet = c->o.quiet};
    c->rows = cli_alloc(n, sizeof *c->rows);
    eval_run_opts o = eval_run_of(&c->o, &c->in, &c->m, &c->settings);
    o.scores_only = !c->by_loss;
    o.measure = c->by_loss ? EVAL_LIKELIHOOD : EVAL_ANSWERS;
    eval_run *e = eval_run_open(&o);
    bool done = e != NULL;
    progress_begin(&shown.line, c->o.quiet, c->m.verbose ? SP_LOG_DEBUG : SP_LOG_WARN);
    for (int i = 0; i < c->in.n_questions && done; i++) {
        eval_progress_show(&shown, i, c->in.n_questions);
        done = eval_run_question(e, i, c->rows + (size_t)i * block);
    }
    progress_end(&shown.line);
    if (!done && progress_interrupted()) cli_fail_with("interrupted; nothing was saved");
    c->sums = cli_alloc(block, sizeof *c->sums);
    if (done) eval_summarise(c->rows, n, &c->settings, NULL, c->sums);
    for (int s = 0; done && s < c->settings.n; s++) /* undefined where no chunk was reused that could need it */
        if (!isfinite(c->sums[s].recomputed)) c->sums[s].recomputed = 0;
    c->differs = done && any_differs(c);
    eval_run_close(e);
    return done;
}

static void drop(calibrating *c)
{
    const size_t n = c->rows ? (size_t)c->in.n_questions * (size_t)c->settings.n : 0;
    for (size_t i = 0; i < n; i++) eval_row_drop(&c->rows[i]);
    free(c->rows);
    free(c->sums);
    eval_input_close(&c->in);
    if (c->passages) unlink(c->passages);
    free(c->passages);
}

/* -- by F1 ------------------------------------------------------------------------------------ */

static void print_grid(const calibrating *c, int chosen)
{
    const eval_summary *sums = c->sums;
    printf("%d questions, %s; F1 of full attention %.3f\n%12s %11s %6s %12s\n", sums[0].n,
           c->policy, sums[0].f1, c->alphas ? "alpha" : "recompute", "recomputed", "F1", "kept");
    for (int s = 1; s < c->settings.n; s++) {
        const eval_setting *of = &c->settings.v[s];
        printf("%12.4g %9.1f %% %6.3f %10.1f %%%s\n",
               c->alphas ? of->amount : (double)of->reuse.recompute,
               sums[s].recomputed * 100, sums[s].f1, sums[s].f1 / sums[0].f1 * 100,
               s == chosen ? "  <-" : "");
    }
}

/* print_trust -- what the number of questions allows to say. */
static void print_trust(const calibrating *c, int chosen)
{
    const eval_interval kept = eval_kept_interval(c->rows, c->in.n_questions, c->settings.n, chosen);
    if (isnan(kept.low)) return;
    printf("%d questions: 95 %% interval of the share kept: %.1f to %.1f %%\n", c->sums[0].n, kept.low * 100,
           kept.high * 100);
    if (kept.low < (double)c->keep)
        printf("  it reaches below the %.4g %% wanted: more questions make the choice safer\n",
               (double)c->keep * 100);
}

static int choose_by_f1(const calibrating *c)
{
    const int n = c->sums[0].n;
    if (!(c->sums[0].f1 > 0)) {
        cli_fail_with("full attention answers none of the %d questions: there is no quality to keep", n);
        return 0;
    }
    const int chosen = eval_choose(c->sums, c->settings.n, (double)c->keep);
    print_grid(c, chosen);
    if (chosen) print_trust(c, chosen);
    if (!chosen)
        cli_fail_with("no setting keeps %g of full attention's F1: nothing was saved", (double)c->keep);
    return chosen;
}

/* -- the result ------------------------------------------------------------------------------- */

/* policy_of -- as --reuse takes it: without "+fused", and without the parameter that was tried. */
static void policy_of(const calibrating *c, int s, char *out)
{
    const bool own = strcmp(c->settings.v[s].name, c->policy) == 0;
    if (!cli_policy_read("--policy", own ? c->policy : c->settings.v[s].name, out)) *out = '\0';
}

static json_t *entry_of(const calibrating *c, int s)
{
    const eval_setting *v = &c->settings.v[s];
    char policy[CLI_SPEC];
    policy_of(c, s, policy);
    json_t *e = json_pack("{s:s, s:f, s:f, s:f, s:i}", "policy", policy, "recompute", (double)v->reuse.recompute,
                          "alpha", v->amount, "recomputed", c->sums[s].recomputed, "questions", c->in.n_questions);
    if (!c->by_loss) {
        json_object_set_new(e, "quality", json_real(c->sums[s].f1 / c->sums[0].f1));
        json_object_set_new(e, "wanted", json_real((double)c->keep));
        return e;
    }
    const calibrated_loss lost = calibrate_loss(c, s);
    json_object_set_new(e, "loss", json_real(lost.mean));
    json_object_set_new(e, "loss_low", json_real(lost.low));
    json_object_set_new(e, "loss_high", json_real(lost.high));
    json_object_set_new(e, "wanted", json_real((double)c->loss));
    json_object_set_new(e, "measured", json_string(c->passages ? "passages" : "questions"));
    return e;
}

static bool keep_entry(const calibrating *c, const char *section, const char *name, int s)
{
    if (sp_calibration_write(c->m.ctx.model, section, name, entry_of(c, s)) == SP_OK) return true;
    return cli_fail_with("%s", sp_error_detail()), false;
}

static bool save(const calibrating *c, int chosen)
{
    const eval_setting *v = &c->settings.v[chosen];
    char policy[CLI_SPEC];
    policy_of(c, chosen, policy);
    if (!keep_entry(c, SP_CALIBRATED_POLICIES, policy, chosen) ||
        !keep_entry(c, SP_CALIBRATED_QUALITIES, "balanced", chosen) ||
        (c->by_loss && !keep_entry(c, SP_CALIBRATED_QUALITIES, "fast", CALIBRATE_NONE)))
        return false;
    printf("%s.reuse.json: %s %s %.4g\n", c->m.ctx.model, policy, c->alphas ? "alpha" : "recompute",
           c->alphas ? v->amount : (double)v->reuse.recompute);
    return true;
}

static int calibrate(calibrating *c)
{
    if (!measure(c)) return 1;
    const int chosen = c->by_loss ? calibrate_choose(c) : choose_by_f1(c);
    if (!chosen) return 1;
    if (!c->differs && !c->force)
        return cli_fail_with("every setting answers all %d questions as full attention does, so nothing can be told "
                             "apart: give questions that are harder or use several chunks (--force saves it all the "
                             "same)",
                             c->in.n_questions);
    return c->dry || save(c, chosen) ? 0 : 1;
}

/* -- the command ------------------------------------------------------------------------------ */

/* can_write -- checked before the long run, not after it: the folder, and the results that the file has. */
static bool can_write(const calibrating *c)
{
    char *path = cli_copy(c->m.ctx.model);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/';) path[--n] = '\0';
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path] = '\0'; /* "/" has a name, too */
    bool good = access(slash ? path : ".", W_OK) == 0;
    if (!good)
        cli_fail_with("%s: the result cannot be written here: %s; --dry-run only prints it",
                      slash ? path : ".", strerror(errno));
    else if (sp_calibration_check(c->m.ctx.model) != SP_OK)
        good = (cli_fail_with("%s; the result cannot be added to this file: move it away, or correct it",
                              sp_error_detail()),
                false);
    free(path);
    return good;
}

/* enough_questions -- with a few questions the choice is chance. */
static bool enough_questions(const calibrating *c)
{
    if (c->force || c->in.n_questions >= FEWEST) return true;
    if (c->passages)
        cli_fail_with("calibrate: the index has too few passages that can be quoted: %d, where %d are needed; give "
                      "--questions, or --force",
                      c->in.n_questions, FEWEST);
    else
        cli_fail_with("calibrate: %d questions are too few: give at least %d, or --force", c->in.n_questions, FEWEST);
    return false;
}

static bool check(calibrating *c)
{
    const cli_policy *policy = cli_policy_find(c->policy, NULL);
    c->by_loss = strcmp(c->measure, "likelihood") == 0;
    if (!policy || !policy->recomputes)
        cli_fail_with("--policy: \"%s\" has no ratio; choose one of %s", c->policy,
                      cli_policy_names(CLI_RECOMPUTING));
    else if (c->alphas && !cli_policy_amount_param(policy))
        cli_fail_with("--alphas: %s has no parameter in place of its share", policy->name);
    else if (!c->by_loss && strcmp(c->measure, "answers") != 0)
        cli_fail_with("--measure: \"%s\" is unknown: likelihood, answers", c->measure);
    else if (!c->o.questions && (!c->by_loss || !c->o.docs.index))
        cli_fail_with("calibrate: give --questions, or --index, whose passages serve with --measure likelihood");
    else
        return true;
    return false;
}

/* open_input -- the exit code. Without questions: passages of the index. */
static int open_input(calibrating *c)
{
    if (!c->dry && !can_write(c)) return 1;
    if (!c->o.questions) {
        if (!eval_passages_write(c->o.docs.index, c->o.limit ? c->o.limit : PASSAGES, &c->passages)) return 1;
        c->o.questions = c->passages;
    }
    return eval_input_open("calibrate", &c->o, &c->m, &c->settings, &c->in);
}

/* make_settings -- off, and the policy at each ratio; for losses first at 0, which is what "fast" loses. */
static bool make_settings(calibrating *c)
{
    const sp_reuse_param *amount = cli_policy_amount_param(cli_policy_find(c->policy, NULL));
    if (!c->ratios && !c->alphas && amount && amount->usual > 0) c->alphas = ALPHAS;
    if (!c->ratios) c->ratios = RATIOS;
    char *ratios = cli_join(c->by_loss && !c->alphas ? "0," : "", c->ratios);
    char *alphas = c->alphas ? cli_join(c->by_loss ? "0," : "", c->alphas) : NULL;
    const bool made = eval_settings_make(c->policy, ratios, alphas, &c->settings);
    free(ratios);
    free(alphas);
    return made;
}

int lab_calibrate(int argc, char **argv)
{
    calibrating c = {.policy = "inplace", .measure = "likelihood", .keep = 0.95f, .loss = 0.02f};
    char help[192];
    model_options_init(&c.m);
    model_options_compares(&c.m);
    eval_options_init(&c.o);
    const opt own[] = {
        {OPT_STRING, "policy", 'p', "NAME", &c.policy, help, .common = true},
        {OPT_STRING, "measure", 0, "WHAT", &c.measure, "likelihood, or answers (likelihood)", .common = true},
        {OPT_FLOAT, "loss", 0, "L", &c.loss, "likelihood: acceptable loss, relative to full attention (0.02)",
         .common = true, .limits = {0, 1, true}},
        {OPT_FLOAT, "keep", 0, "Q", &c.keep, "answers: share of full attention's F1 to keep (0.95)",
         .limits = {0, 1, true}},
        {OPT_STRING, "ratios", 'r', "LIST", &c.ratios, "ratios to try (" RATIOS ")"},
        {OPT_STRING, "alphas", 0, "LIST", &c.alphas, "values of craft's alpha to try instead, its default (" ALPHAS ")"},
        {OPT_FLAG, "force", 0, NULL, &c.force,
         "save a choice from fewer than 20 questions, or one that may be chance"},
        {OPT_FLAG, "dry-run", 0, NULL, &c.dry, "print the choice, save nothing", .common = true},
        {0},
    };
    snprintf(help, sizeof help, "one of %s; with fused copies: +fused after it (inplace)",
             cli_policy_names(CLI_RECOMPUTING));
    for (opt *o = c.o.table; o->kind != OPT_END; o++)
        if (o->dest == &c.o.questions) o->required = false;
    const opt *const tables[] = {own, c.o.table, c.m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"calibrate -m MODEL [--questions FILE] (--index FILE | --docs "
                                    "PATH) [--policy NAME] [--loss L]",
                                    about},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("calibrate: unexpected argument \"%s\"", argv[at]), 2;
    if (!check(&c)) return 2;
    if (!make_settings(&c)) return 2;
    int code = open_input(&c);
    if (code == 0) code = enough_questions(&c) ? calibrate(&c) : 1;
    drop(&c);
    return code;
}
