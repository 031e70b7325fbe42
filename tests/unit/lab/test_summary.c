/* test_summary.c -- what eval and calibrate say of hand-made rows: sums by setting and kind, the summary file, windows
 * of a trace, and the choice by likelihood. */
#include "lab/eval/calibrate.h"
#include "lab/eval/report.h"
#include "lab/eval/trace.h"

#include <jansson.h>
#include <math.h>

#include "support/caught.h"

enum { N_QUESTIONS = 4, N_SETTINGS = 3 };

static char kinds[N_QUESTIONS][2] = {"a", "a", "", "b"};
static const char *const names[] = {"off", "full", "fusion"};

/* What the second setting has; NAN where a question has none. */
static const struct {
    int field;
    double v[N_QUESTIONS];
} full[] = {
    {ROW_EM, {1, 0, 0, 0}},           {ROW_F1, {1, 0.5, 0.5, 0}},       {ROW_ROUGE, {1, 0.5, 0.25, 0.25}},
    {ROW_KL_FIRST, {0.1, 0.2, 0.9, NAN}}, {ROW_KL_ALL, {1, 2, 3, 6}},   {ROW_AGREES, {1, 0, 1, 1}},
    {ROW_N_CHUNK, {10, 20, 30, 40}},  {ROW_N_AGAIN, {1, 2, 3, 4}},      {ROW_N_PROMPT, {20, 40, 60, 80}},
    {ROW_N_REUSED, {4, 8, 12, 16}},   {ROW_TTFT, {10, 1, 2, NAN}},      {ROW_SPEEDUP, {1, 2, 6, NAN}},
    {ROW_KV, {0.5, 0.7, NAN, NAN}},   {ROW_N_HAD, {4, 4, 0, 2}},        {ROW_N_SAW, {1, 0, 0, 1}},
    {ROW_KV_BYTES, {1, 2, 3, 4}},     {ROW_COPIES, {5, 6, 7, 8}},       {ROW_EVICTED, {9, 10, 11, 12}},
};

static void fill(eval_row *rows)
{
    static const double off_em[] = {1, 1, 0, 1}, off_f1[] = {0.5, 0, 0.5, 0.2};
    for (int i = 0; i < N_QUESTIONS * N_SETTINGS; i++) {
        const int q = i / N_SETTINGS;
        for (int k = 0; k < N_ROW_NUMBERS; k++) rows[i].number[k] = NAN;
        rows[i].text[ROW_KIND] = kinds[q];
        rows[i].number[ROW_EM] = off_em[q];
        rows[i].number[ROW_F1] = off_f1[q]; /* of off and of fusion: 0.3, and full is better: 0.5 */
    }
    for (size_t f = 0; f < SP_COUNT(full); f++)
        for (int q = 0; q < N_QUESTIONS; q++) rows[q * N_SETTINGS + 1].number[full[f].field] = full[f].v[q];
}

static eval_settings settings_of(int n)
{
    eval_settings s = {.n = n};
    for (int i = 0; i < n; i++) snprintf(s.v[i].name, sizeof s.v[i].name, "%s", names[i]);
    return s;
}

static void assert_near(double x, double wanted)
{
    if (!(fabs(x - wanted) < 1e-12)) fail_msg("%.17g, not %.17g", x, wanted);
}

static void a_summary_is_of_the_rows_of_its_setting(void **state)
{
    eval_row rows[N_QUESTIONS * N_SETTINGS] = {0};
    eval_settings settings = settings_of(N_SETTINGS);
    eval_summary v[N_SETTINGS], of_a[N_SETTINGS];
    fill(rows);
    eval_summarise(rows, SP_COUNT(rows), &settings, NULL, v);
    const eval_summary *s = &v[1];
    assert_int_equal(s->n, 4);
    assert_int_equal(s->n_nll, 0);
    assert_near(s->em, 0.25);
    assert_near(s->f1, 0.5);
    assert_near(s->rouge_l, 0.5);
    assert_near(s->lost, 2.0 / 3);
    assert_near(v[0].lost, 0);
    assert_near(s->kl_first, 0.4);
    assert_near(s->kl_first_median, 0.2);
    assert_near(s->kl_all, 3);
    assert_near(s->first_agrees, 0.75);
    assert_near(s->recomputed, 0.1);
    assert_near(s->reused, 0.2);
    assert_near(s->ttft_ms, 2);
    assert_near(s->speedup, 2);
    assert_near(s->kv_deviation, 0.6);
    assert_near(s->saw, 0.2);
    assert_near(s->kv_bytes, 4);
    assert_near(s->copies, 8);
    assert_near(s->evicted, 12);
    assert_true(isnan(s->nll) && isnan(v[0].recomputed) && isnan(v[0].kv_bytes)); /* nothing is not 0 */
    assert_near(v[2].normalised_f1, 1); /* as off, also where full reuse happens to be better */
    eval_summarise(rows, SP_COUNT(rows), &settings, "a", of_a);
    assert_int_equal(of_a[1].n, 2);
    assert_near(of_a[1].lost, 0.5);
    assert_near(of_a[1].kv_bytes, 2);
    assert_near(of_a[1].reused, 0.2);
    assert_near(of_a[1].kl_first_median, 0.15);
}

static const char *read_file(const char *path)
{
    static char text[1 << 15];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    read_all(f, text, sizeof text);
    return text;
}

/* line_of -- line i of a text, from 0. */
static const char *line_of(const char *text, int i)
{
    for (; i > 0; i--) {
        text = strchr(text, '\n');
        assert_non_null(text);
        text++;
    }
    return text;
}

static void assert_line(const char *text, int i, const char *begins)
{
    const char *line = line_of(text, i);
    if (strncmp(line, begins, strlen(begins)) != 0) fail_msg("line %d is %.60s, not %s", i, line, begins);
}

/* First all questions, then each kind in the order of the questions; questions of one kind need no parts. */
static void the_summary_file_has_a_part_for_each_kind(void **state)
{
    char prefix[] = "/tmp/spolia-summary-XXXXXX", path[64];
    eval_row rows[N_QUESTIONS * N_SETTINGS] = {0};
    eval_settings settings = settings_of(N_SETTINGS);
    fill(rows);
    const int fd = mkstemp(prefix);
    assert_true(fd >= 0 && close(fd) == 0);
    snprintf(path, sizeof path, "%s.summary.csv", prefix);
    assert_true(eval_write_files(prefix, rows, SP_COUNT(rows), &settings));
    const char *text = read_file(path);
    assert_line(text, 0, "kind,policy,recompute,alpha,questions,em,f1,");
    assert_line(text, 1, "all,off,0,0,4,0.75,0.3,");
    assert_line(text, 2, "all,full,0,0,4,0.25,0.5,");
    assert_line(text, 4, "a,off,0,0,2,1,0.25,");
    assert_line(text, 7, "other,off,0,0,1,0,0.5,");
    assert_line(text, 10, "b,off,0,0,1,1,0.2,");
    assert_string_equal(line_of(text, 13), "");
    for (int i = 0; i < N_QUESTIONS * N_SETTINGS; i++) {
        rows[i].text[ROW_KIND] = kinds[0];
        rows[i].number[ROW_EM] = rows[i].number[ROW_F1] = NAN; /* likelihoods alone */
        rows[i].number[ROW_NLL] = 1;
    }
    assert_true(eval_write_files(prefix, rows, SP_COUNT(rows), &settings));
    text = read_file(path);
    assert_line(text, 1, "all,off,0,0,4,,,");
    assert_string_equal(line_of(text, 4), "");
    unlink(path);
    unlink(prefix);
}

static void a_table_of_answers_and_one_of_likelihoods(void **state)
{
    eval_row rows[N_QUESTIONS * N_SETTINGS] = {0};
    eval_settings settings = settings_of(N_SETTINGS);
    eval_summary v[N_SETTINGS];
    fill(rows);
    for (int i = 0; i < 3 * N_SETTINGS; i++) rows[i].number[ROW_NLL] = 1 + i % N_SETTINGS;
    eval_summarise(rows, SP_COUNT(rows), &settings, NULL, v);
    caught out = catch_begin(stdout);
    eval_print_table(v, &settings);
    const char *said = catch_end(&out);
    assert_line(said, 0, "4 questions");
    assert_non_null(strstr(line_of(said, 1), "EM"));
    assert_line(said, 2, "off                   0.750  0.300");
    assert_line(said, 3, "full                  0.250  0.500");
    assert_line(said, 5, "\n3 questions");
    assert_line(said, 8, "off                   1.0000    0.0000");
    assert_line(said, 9, "full                  2.0000    1.0000");
}

/* Windows of two questions, of which the last has one; a number that does not apply is left out. */
static void a_trace_has_windows(void **state)
{
    char path[] = "/tmp/spolia-trace-XXXXXX";
    eval_row rows[N_QUESTIONS * N_SETTINGS] = {0};
    eval_settings settings = settings_of(N_SETTINGS);
    fill(rows);
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    const eval_trace t = {.rows = rows, .n_questions = 3, .settings = &settings, .window = 2, .kv_bytes = 1 << 20};
    assert_true(eval_trace_ready(path));
    assert_true(eval_trace_write(&t, path));
    json_t *all = json_load_file(path, 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(all, "questions")), 3);
    assert_int_equal(json_integer_value(json_object_get(all, "window")), 2);
    assert_int_equal(json_integer_value(json_object_get(all, "kv_memory")), 1 << 20);
    const json_t *of = json_array_get(json_object_get(all, "settings"), 1);
    assert_string_equal(json_string_value(json_object_get(of, "policy")), "full");
    const json_t *windows = json_object_get(of, "windows");
    assert_int_equal(json_array_size(windows), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *w = json_array_get(windows, i);
        assert_int_equal(json_integer_value(json_object_get(w, "first")), i ? 3 : 1);
        assert_int_equal(json_integer_value(json_object_get(w, "last")), i ? 3 : 2);
        assert_near(json_real_value(json_object_get(w, "kl_all")), i ? 3 : 1.5);
        assert_near(json_real_value(json_object_get(w, "copies")), i ? 7 : 6);
        assert_null(json_object_get(w, "nll"));
    }
    caught out = catch_begin(stdout);
    eval_trace_print(&t);
    const char *said = catch_end(&out);
    assert_line(said, 2, "    1-2     off ");
    assert_line(said, 5, "    3-3     off ");
    assert_string_equal(line_of(said, 8), "");
    json_decref(all);
    unlink(path);
    assert_false(eval_trace_ready("/missing/trace.json"));
}

/* -- the choice by likelihood ------------------------------------------------------------------------------- */

enum { N_ASKED = 40, N_SHARES = 5 };

/* calibrated -- full attention, then shares that lose so much, with so much spread of questions. */
static void calibrated(calibrating *c, const double *loss, double spread)
{
    static eval_row rows[N_ASKED * N_SHARES];
    static eval_summary sums[N_SHARES];
    *c = (calibrating){.policy = "inplace", .loss = 0.02f, .by_loss = true, .rows = rows, .sums = sums};
    c->in.n_questions = N_ASKED;
    c->settings = (eval_settings){.n = N_SHARES};
    for (int i = 0; i < N_ASKED * N_SHARES; i++) {
        const int q = i / N_SHARES, s = i % N_SHARES;
        for (int k = 0; k < N_ROW_NUMBERS; k++) rows[i].number[k] = NAN;
        rows[i].text[ROW_KIND] = kinds[0];
        const double off = 2 + q % 3, more = s ? 3 * loss[s] + (q % 2 ? spread : -spread) : 0;
        rows[i].number[ROW_NLL] = off + more;
        rows[i].number[ROW_KL_ALL] = s ? more : NAN;
        rows[i].number[ROW_N_CHUNK] = 100;
        rows[i].number[ROW_N_AGAIN] = 10 * s;
    }
    for (int s = 0; s < N_SHARES; s++) {
        snprintf(c->settings.v[s].name, sizeof c->settings.v[s].name, "%s", s ? "inplace" : "off");
        c->settings.v[s].reuse.recompute = 0.1f * (float)s;
    }
    eval_summarise(rows, SP_COUNT(rows), &c->settings, NULL, sums);
}

static int choose(const calibrating *c, const char **said)
{
    caught out = catch_begin(stdout), err = catch_begin(stderr);
    const int chosen = calibrate_choose(c);
    catch_end(&out);
    *said = catch_end(&err);
    return chosen;
}

/* The least share that surely loses at most 2 %: not the first that seems to, and not a later one. */
static void the_least_share_that_surely_keeps_the_likelihood_is_chosen(void **state)
{
    static const double loss[] = {0, 0.2, 0.03, 0.015, 0.001};
    calibrating c;
    const char *said;
    calibrated(&c, loss, 0.001);
    assert_int_equal(choose(&c, &said), 3);
    assert_near(calibrate_loss(&c, 3).mean, 3 * 0.015 / c.sums[0].nll);
    c.passages = (char[]){"a file"}; /* their measure is the divergence, which off has none of */
    assert_int_equal(choose(&c, &said), 3);
    c.passages = NULL;
    const double recomputed = c.sums[3].recomputed;
    c.sums[3].recomputed = 0.9; /* what counts is what was recomputed, not the share that was asked for */
    assert_int_equal(choose(&c, &said), 4);
    c.sums[3].recomputed = recomputed;
    c.loss = 0.031f;
    assert_int_equal(choose(&c, &said), 2);
    c.loss = 0.0001f;
    assert_int_equal(choose(&c, &said), 0);
    assert_non_null(strstr(said, "no share of inplace loses at most 0.01 %"));
}

/* Questions that differ by more than the loss leave the choice to chance: it is refused, or forced. */
static void a_share_that_may_lose_more_is_refused(void **state)
{
    static const double loss[] = {0, 0.2, 0.1, 0.015, 0.05};
    calibrating c;
    const char *said;
    calibrated(&c, loss, 0.5);
    assert_int_equal(choose(&c, &said), 0);
    assert_non_null(strstr(said, "cannot be told apart from chance with 40 questions"));
    assert_non_null(strstr(said, "saved; recompute 0.3 of inplace needs about"));
    c.alphas = "0.5,2";
    c.settings.v[3].amount = 2; /* a policy whose parameter replaces the share is named with it */
    assert_int_equal(choose(&c, &said), 0);
    assert_non_null(strstr(said, "saved; alpha 2 of inplace needs about"));
    c.alphas = NULL;
    c.force = true;
    assert_int_equal(choose(&c, &said), 3);
}

/* The least share may take more questions than another one, which is named, too. */
static void fewer_questions_show_it_for_a_share_that_loses_less(void **state)
{
    static const double loss[] = {0, 0.2, 0.018, 0.001, 0.0015};
    calibrating c;
    const char *said;
    calibrated(&c, loss, 0.5);
    assert_int_equal(choose(&c, &said), 0);
    static const char least[] = "recompute 0.2 of inplace needs about ", fewest[] = "same), 0.3 about ";
    const char *first = strstr(said, least), *other = strstr(said, fewest);
    assert_true(first && other && first < other);
    assert_true(atoi(first + strlen(least)) > 20 * atoi(other + strlen(fewest)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_summary_is_of_the_rows_of_its_setting),
        cmocka_unit_test(the_summary_file_has_a_part_for_each_kind),
        cmocka_unit_test(a_table_of_answers_and_one_of_likelihoods),
        cmocka_unit_test(a_trace_has_windows),
        cmocka_unit_test(the_least_share_that_surely_keeps_the_likelihood_is_chosen),
        cmocka_unit_test(a_share_that_may_lose_more_is_refused),
        cmocka_unit_test(fewer_questions_show_it_for_a_share_that_loses_less),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
