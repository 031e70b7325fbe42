/* calibrate.c -- `spolia calibrate`: the least recomputation that keeps a wanted share of
 * full attention's F1. Source: Cache-Craft section 3.2, eq. 13, for every policy. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/alloc.h"
#include "cli/calibration.h"
#include "cli/policies.h"
#include "lab/lab.h"
#include "lab/eval/interval.h"
#include "lab/eval/options.h"
#include "lab/eval/report.h"

#define FEWEST 20 /* questions, without --force */
#define RATIOS "0,0.05,0.1,0.15,0.2,0.25,0.3,0.4,0.5,0.75,1"

static const char about[] =
    "Answers the questions with full attention and with the policy at each ratio, with copies of\n"
    "every chunk (see spolia eval --help), and chooses the setting that recomputes the fewest\n"
    "tokens while its mean F1 is at least --quality times that of full attention. The choice is\n"
    "saved in MODEL.reuse.json, which --reuse POLICY without --recompute or --alpha reads.\n"
    "It needs 20 questions; some hundred narrow the interval that it prints to a few percent.";

typedef struct search {
    eval_options o;
    model_options m;
    const char *policy, *ratios, *alphas;
    float wanted;
    bool dry, force;
    eval_interval *kept; /* [settings.n] */
    bool differs;        /* some setting has another F1 than full attention on some question */
    eval_settings settings;
    eval_input in;
} search;

/* any_differs -- of rows [n_questions, n_settings], from those of setting 0. */
static bool any_differs(const eval_row *rows, int n_questions, int n_settings)
{
    for (int i = 0; i < n_questions; i++)
        for (int s = 1; s < n_settings; s++) {
            const eval_row *row = rows + (size_t)i * (size_t)n_settings;
            if (row[s].number[ROW_F1] != row[0].number[ROW_F1]) return true;
        }
    return false;
}

/* measure -- F1 and shares of every setting; false after an error message. */
static bool measure(search *c, eval_summary *sums)
{
    size_t block = (size_t)c->settings.n, n = (size_t)c->in.n_questions * block, n_rows = 0;
    eval_progress progress = {.quiet = c->o.quiet};
    eval_row *rows = cli_alloc(n, sizeof *rows);
    eval_run *e = eval_run_open(&(eval_run_opts){.model = &c->m,
                                                 .docs = &c->in.docs,
                                                 .questions = &c->in.questions,
                                                 .n_questions = c->in.n_questions,
                                                 .settings = &c->settings,
                                                 .system = c->o.system,
                                                 .stop = &c->o.stop,
                                                 .max_tokens = c->o.max_tokens,
                                                 .similar = c->o.similar,
                                                 .n_fuse = c->o.n_fuse,
                                                 .scores_only = true,
                                                 .interrupted = &eval_interrupted});
    bool done = e != NULL;
    eval_catch(true);
    for (int i = 0; i < c->in.n_questions && done; i++, n_rows += block) {
        eval_progress_show(&progress, i, c->in.n_questions);
        done = eval_run_question(e, i, rows + n_rows);
    }
    eval_catch(false);
    eval_progress_wipe(&progress);
    if (!done && eval_interrupted) cli_fail_with("interrupted; nothing was saved");
    if (done) eval_summarise(rows, n, &c->settings, NULL, sums);
    for (int s = 0; s < c->settings.n && done; s++)
        c->kept[s] = eval_kept_interval(rows, c->in.n_questions, c->settings.n, s);
    c->differs = done && any_differs(rows, c->in.n_questions, c->settings.n);
    for (size_t i = 0; i < n; i++) eval_row_drop(&rows[i]);
    free(rows);
    eval_run_close(e);
    return done;
}

static void print_grid(const search *c, const eval_summary *sums, int chosen)
{
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
static void print_trust(const search *c, int n, int chosen)
{
    const eval_interval *kept = &c->kept[chosen];
    if (isnan(kept->low)) return;
    printf("%d questions: 95 %% interval of the share kept: %.1f to %.1f %%\n", n, kept->low * 100,
           kept->high * 100);
    if (kept->low < (double)c->wanted)
        printf("  it reaches below the %.4g %% wanted: more questions make the choice safer\n",
               (double)c->wanted * 100);
}

static bool save(const search *c, const eval_summary *sums, int chosen)
{
    const eval_setting *s = &c->settings.v[chosen];
    char *path = calibration_path(c->m.ctx.model), policy[CLI_SPEC]; /* as --reuse takes it */
    bool done = cli_policy_read("--policy", s->name, policy);
    done = done && calibration_write(path, policy,
                                     &(calibration){.recompute = (double)s->reuse.recompute,
                                                 .alpha = s->amount,
                                                 .quality = sums[chosen].f1 / sums[0].f1,
                                                 .wanted = (double)c->wanted,
                                                 .recomputed = sums[chosen].recomputed,
                                                 .n_questions = sums[0].n});
    if (done)
        printf("%s: %s %s %.4g\n", path, policy, c->alphas ? "alpha" : "recompute",
               c->alphas ? s->amount : (double)s->reuse.recompute);
    free(path);
    return done;
}

static int calibrate(search *c)
{
    eval_summary *sums = cli_alloc((size_t)c->settings.n, sizeof *sums);
    c->kept = cli_alloc((size_t)c->settings.n, sizeof *c->kept);
    bool done = measure(c, sums);
    if (done && !(sums[0].f1 > 0)) {
        cli_fail_with(
            "full attention answers none of the %d questions: there is no quality to keep",
            sums[0].n);
        done = false;
    }
    int chosen = done ? eval_choose(sums, c->settings.n, (double)c->wanted) : 0;
    if (done) print_grid(c, sums, chosen);
    if (done && chosen) print_trust(c, sums[0].n, chosen);
    if (done && !chosen) {
        cli_fail_with("no setting keeps %g of full attention's F1: nothing was saved",
                      (double)c->wanted);
        done = false;
    }
    if (done && !c->differs && !c->force) {
        cli_fail_with("every setting answers all %d questions as full attention does, so nothing can be told "
                      "apart: give questions that are harder or use several chunks (--force saves it all the same)",
                      sums[0].n);
        done = false;
    }
    if (done && !c->dry) done = save(c, sums, chosen);
    free(c->kept);
    free(sums);
    return done ? 0 : 1;
}

/* can_write -- checked before the long run, not after it. */
static bool can_write(const search *c)
{
    char *path = calibration_path(c->m.ctx.model);
    char *slash = strrchr(path, '/');
    if (slash && slash != path) *slash = '\0';
    bool good = access(slash ? path : ".", W_OK) == 0;
    if (!good)
        cli_fail_with("%s: the result cannot be written here: %s; --dry-run only prints it",
                      slash ? path : ".", strerror(errno));
    free(path);
    return good;
}

/* enough_questions -- with a few questions the choice is chance. */
static bool enough_questions(const search *c)
{
    if (c->force || c->in.n_questions >= FEWEST) return true;
    cli_fail_with("calibrate: %d questions are too few: give at least %d, or --force",
                  c->in.n_questions, FEWEST);
    return false;
}

static bool check(const search *c)
{
    const cli_policy *policy = cli_policy_find(c->policy, NULL);
    if (!policy || !policy->recomputes)
        cli_fail_with("--policy: \"%s\" has no ratio; choose one of %s", c->policy,
                      cli_policy_names(CLI_RECOMPUTING));
    else if (c->alphas && !cli_policy_amount_param(policy))
        cli_fail_with("--alphas: %s has no parameter in place of its share", policy->name);
    else if (!(c->wanted > 0 && c->wanted <= 1))
        cli_fail_with("--quality: %g is not in 0..1", (double)c->wanted);
    else
        return true;
    return false;
}

int lab_calibrate(int argc, char **argv)
{
    search c = {.policy = "fusion", .ratios = RATIOS, .wanted = 0.95f};
    char help[192];
    model_options_init(&c.m);
    model_options_compares(&c.m);
    eval_options_init(&c.o);
    const opt own[] = {
        {OPT_STRING, "policy", 'p', "NAME", &c.policy, help, .common = true},
        {OPT_FLOAT, "quality", 0, "Q", &c.wanted, "share of full attention's F1 to keep (0.95)",
         .common = true},
        {OPT_STRING, "ratios", 'r', "LIST", &c.ratios, "ratios to try (" RATIOS ")"},
        {OPT_STRING, "alphas", 0, "LIST", &c.alphas, "values of craft's alpha to try instead"},
        {OPT_FLAG, "force", 0, NULL, &c.force, "save a choice of fewer than 20 questions, or of questions that tell no settings apart"},
        {OPT_FLAG, "dry-run", 0, NULL, &c.dry, "print the choice, save nothing", .common = true},
        {0},
    };
    snprintf(help, sizeof help, "one of %s; with fused copies: +fused after it (fusion)",
             cli_policy_names(CLI_RECOMPUTING));
    const opt *const tables[] = {own, c.o.table, c.m.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"calibrate -m MODEL --questions FILE (--index FILE | --docs "
                                    "PATH) --policy NAME [--quality Q]",
                                    about},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("calibrate: unexpected argument \"%s\"", argv[at]), 2;
    if (!check(&c)) return 2;
    if (!eval_settings_make(c.policy, c.ratios, c.alphas, &c.settings)) return 2;
    int code =
        c.dry || can_write(&c) ? eval_input_open("calibrate", &c.o, &c.m, &c.settings, &c.in) : 1;
    if (code) return code;
    code = enough_questions(&c) ? calibrate(&c) : 1;
    eval_input_close(&c.in);
    return code;
}
