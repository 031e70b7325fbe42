/* What eval says of hand-made rows: normalised F1, the setting that calibrate chooses, fields of a CSV file; and
 * of how far it is. */
#include "lab/eval/report.h"
#include "lab/eval/interval.h"
#include "lab/eval/options.h"
#include "lab/eval/trace.h"
#include "lab/files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/caught.h"
#include "support/failing_json.h"

static const double near = 1e-12;

/* rows_of -- one question a line of `f1`, one setting a column. */
static eval_row *rows_of(const double *f1, int n_questions, int n_settings)
{
    size_t n = (size_t)n_questions * (size_t)n_settings;
    eval_row *rows = calloc(n, sizeof *rows);
    static char kind[] = "single";
    for (size_t i = 0; i < n; i++) {
        for (int k = 0; k < N_ROW_NUMBERS; k++) rows[i].number[k] = NAN;
        rows[i].text[ROW_KIND] = kind;
        rows[i].number[ROW_EM] = f1[i] == 1;
        rows[i].number[ROW_F1] = f1[i];
    }
    return rows;
}

static eval_settings settings_of(const char *const *names, int n)
{
    eval_settings s = {.n = n};
    for (int i = 0; i < n; i++) snprintf(s.v[i].name, sizeof s.v[i].name, "%s", names[i]);
    return s;
}

/* off 0.9, full 0.3, fusion 0.75: three quarters of the loss come back. */
static void f1_is_normalised_by_what_is_lost(void **state)
{
    const char *const names[] = {"off", "full", "fusion"};
    const double f1[] = {1, 0.2, 0.9, 0.8, 0.4, 0.6};
    eval_settings settings = settings_of(names, 3);
    eval_row *rows = rows_of(f1, 2, 3);
    eval_summary v[3];
    eval_summarise(rows, 6, &settings, NULL, v);
    assert_true(fabs(v[0].normalised_f1 - 1) < near);
    assert_true(fabs(v[1].normalised_f1 - 0) < near);
    assert_true(fabs(v[2].normalised_f1 - 0.75) < near);
    free(rows);
}

/* Nothing was lost: there is nothing to normalise by. Without full reuse there is no scale either. */
static void without_a_loss_there_is_no_scale(void **state)
{
    const char *const equal[] = {"off", "full"}, *const alone[] = {"off", "fusion"};
    const double f1[] = {0.5, 0.5};
    eval_settings settings = settings_of(equal, 2);
    eval_row *rows = rows_of(f1, 1, 2);
    eval_summary v[2];
    eval_summarise(rows, 2, &settings, NULL, v);
    assert_true(isnan(v[1].normalised_f1));
    settings = settings_of(alone, 2);
    eval_summarise(rows, 2, &settings, NULL, v);
    assert_true(isnan(v[1].normalised_f1));
    free(rows);
}

/* NLL: off 1.0, full 2.0, fusion 1.25: three quarters come back, and the interval of what is left has the mean in
 * it. */
static void likelihoods_are_compared_question_by_question(void **state)
{
    const char *const names[] = {"off", "full", "fusion"};
    double f1[3 * 40];
    for (int i = 0; i < 3 * 40; i++) f1[i] = NAN;
    eval_settings settings = settings_of(names, 3);
    eval_row *rows = rows_of(f1, 40, 3);
    for (int q = 0; q < 40; q++) { /* questions differ by far more than settings do */
        const double base = q % 10, more = 0.25 + 0.01 * (q % 2 ? 1 : -1);
        rows[3 * q].number[ROW_NLL] = base;
        rows[3 * q + 1].number[ROW_NLL] = base + 1;
        rows[3 * q + 2].number[ROW_NLL] = base + more;
    }
    eval_summary v[3];
    eval_summarise(rows, 3 * 40, &settings, NULL, v);
    assert_int_equal(v[0].n_nll, 40);
    assert_true(fabs(v[2].nll_more - 0.25) < 1e-9);
    assert_true(fabs(v[2].recovered - 0.75) < 1e-9);
    assert_true(0.24 < v[2].nll_more_low && v[2].nll_more_low < 0.25);
    assert_true(0.25 < v[2].nll_more_high && v[2].nll_more_high < 0.26);
    const double width = v[2].nll_more_high - v[2].nll_more_low; /* 2 * 1.96 * 0.01 / sqrt(40) */
    assert_true(0.0055 < width && width < 0.007);
    assert_true(v[0].nll_more_low == 0 && v[0].nll_more_high == 0);
    for (int q = 0; q < 40; q++) rows[3 * q + 1].number[ROW_NLL] = q % 10 + (q % 2 ? 1 : -0.9);
    eval_summarise(rows, 3 * 40, &settings, NULL, v);
    assert_true(v[1].nll_more > 0 && isnan(v[2].recovered)); /* full may lose nothing */
    rows[2].number[ROW_NLL] = NAN; /* unpaired: the question is left out */
    assert_true(isfinite(eval_more_interval(rows, 40, &(eval_more_of){3, 2, ROW_NLL}, NULL).low));
    assert_true(isnan(eval_more_interval(rows, 7, &(eval_more_of){3, 1, ROW_NLL}, NULL).low));
    assert_true(isnan(eval_more_interval(rows, 40, &(eval_more_of){3, 1, ROW_NLL}, "another kind").low));
    free(rows);
}

/* printed_row -- what follows a setting's name in a table. */
static const char *printed_row(const char *table, const char *name)
{
    const char *row = strstr(table, name);
    if (!row) fail_msg("%s is not in %s", name, table);
    return row + strlen(name);
}

/* Names whole, however long, and intervals from their lower end. */
static void a_table_of_likelihoods_has_names_and_intervals(void **state)
{
    const char *const names[] = {"off", "hybrid:share=0.15,first=4,last=2,focus=0.5,of=a-name-that-is-long-0",
                                 "hybrid:share=0.15,first=4,last=2,focus=0.5,of=a-name-that-is-long-1"};
    double f1[3 * 8], low, high;
    for (int i = 0; i < 3 * 8; i++) f1[i] = NAN;
    eval_settings settings = settings_of(names, 3);
    eval_row *rows = rows_of(f1, 8, 3);
    for (int i = 0; i < 3 * 8; i++) {
        rows[i].number[ROW_EM] = NAN; /* no answers: there is no other table */
        rows[i].number[ROW_NLL] = i % 3 * (1 + 0.1 * (i / 3));
    }
    eval_summary v[3];
    eval_summarise(rows, 3 * 8, &settings, NULL, v);
    caught c = catch_begin(stdout);
    eval_print_table(v, &settings);
    const char *table = catch_end(&c);
    for (int s = 1; s < 3; s++) {
        const char *row = printed_row(table, names[s]);
        assert_int_equal(sscanf(row, "%*f %*f %lf..%lf", &low, &high), 2);
        assert_true(low < s * 1.35 && s * 1.35 < high); /* the mean of what is lost */
        assert_true(fabs(low - v[s].nll_more_low) < 1e-4 && fabs(high - v[s].nll_more_high) < 1e-4);
    }
    free(rows);
}

/* The last window has what is left. */
static void windows_of_a_stream_count_from_its_first_question(void **state)
{
    const char *const names[] = {"off", "full"};
    const double f1[] = {1, 0, 1, 1, 0, 1, 1, 1, 0, 0};
    const eval_settings settings = settings_of(names, 2);
    eval_row *rows = rows_of(f1, 5, 2);
    caught c = catch_begin(stdout);
    eval_trace_print(&(eval_trace){.rows = rows, .n_questions = 5, .settings = &settings, .window = 2});
    const char *table = catch_end(&c);
    static const struct {
        const char *row;
        double f1;
    } wanted[] = {{"\n    1-2     off", 1},   {"\n    1-2     full", 0.5}, {"\n    3-4     off", 0.5},
                  {"\n    3-4     full", 1}, {"\n    5-5     off", 0},    {"\n    5-5     full", 0}};
    for (size_t i = 0; i < SP_COUNT(wanted); i++)
        assert_true(strtod(printed_row(table, wanted[i].row), NULL) == wanted[i].f1);
    free(rows);
}

/* Equal answers leave no doubt; answers that differ by question do, and more questions leave less. */
static void more_questions_narrow_the_interval(void **state)
{
    double f1[2 * 160];
    for (int i = 0; i < 160; i++) {
        f1[2 * i] = 1;
        f1[2 * i + 1] = i % 4 != 0;
    }
    eval_row *rows = rows_of(f1, 160, 2);
    eval_interval off = eval_kept_interval(rows, 160, 2, 0);
    eval_interval few = eval_kept_interval(rows, 20, 2, 1);
    eval_interval many = eval_kept_interval(rows, 160, 2, 1);
    assert_true(off.low == 1 && off.high == 1);
    assert_true(few.low < many.low && many.low < 0.75 && 0.75 < many.high && many.high < few.high);
    assert_true(many.high - many.low > 0.10 && many.high - many.low < 0.17); /* 2 * 1.96 * 0.034 */
    for (int i = 0; i < 160; i++) rows[2 * i].number[ROW_F1] = 0;
    assert_true(isnan(eval_kept_interval(rows, 160, 2, 1).low));
    free(rows);
}

static void the_cheapest_sufficient_setting_is_chosen(void **state)
{
    eval_summary v[] = {{.f1 = 0.8}, {.f1 = 0.60, .recomputed = 0}, {.f1 = 0.72, .recomputed = 0.3},
                        {.f1 = 0.76, .recomputed = 0.2}, {.f1 = 0.8, .recomputed = 0.5}};
    assert_int_equal(eval_choose(v, 5, 0.95), 3); /* exactly at the limit */
    v[3].f1 = 0.76 - 1e-6;                        /* just below it */
    assert_int_equal(eval_choose(v, 5, 0.95), 4);
    assert_int_equal(eval_choose(v, 5, 0.9), 3); /* the least recomputation, not the first */
    assert_int_equal(eval_choose(v, 5, 0.75), 1);
    assert_int_equal(eval_choose(v, 5, 1.01), 0);
    v[4].recomputed = v[3].recomputed;
    v[4].f1 = v[3].f1;
    assert_int_equal(eval_choose(v, 5, 0.9), 3); /* of equals the earlier */
    const eval_summary rounded[] = {{.f1 = 0.1 + 0.2}, {.f1 = 0.3}};
    assert_int_equal(eval_choose(rounded, 2, 1), 1); /* means are rounded */
}

static void assert_field(const char *text, const char *wanted)
{
    char *got = NULL;
    size_t n;
    FILE *f = open_memstream(&got, &n);
    lab_csv_put(f, text);
    fclose(f);
    assert_string_equal(got, wanted);
    free(got);
}

static void texts_are_quoted(void **state)
{
    assert_field("plain", "plain");
    assert_field("", "");
    assert_field("a,b", "\"a,b\"");
    assert_field("say \"so\"", "\"say \"\"so\"\"\"");
    assert_field("two\nlines\r", "two lines ");
}

/* A row that was written is read back as it was, whatever its texts. */
static void rows_come_back(void **state)
{
    char path[] = "/tmp/spolia-rows-XXXXXX", text[] = "a,\"b\",c", id[] = "q\"1";
    int fd = mkstemp(path);
    eval_row row = {.text = {id, text, text, text, text}};
    for (int i = 0; i < N_ROW_NUMBERS; i++) row.number[i] = i % 2 ? NAN : 0.25 * i;
    eval_csv c;
    json_t *settings = json_pack("{s:i}", "version", 1);
    assert_true(fd >= 0 && close(fd) == 0);
    assert_true(eval_csv_open(path, settings, 1, true, &c));
    assert_true(eval_csv_add(&c, &row));
    eval_csv_close(&c);
    assert_true(eval_csv_open(path, settings, 1, false, &c));
    const eval_row *got = eval_csv_has(&c, id);
    assert_non_null(got);
    for (int i = 0; i < N_ROW_TEXTS; i++) assert_string_equal(got->text[i], row.text[i]);
    for (int i = 0; i < N_ROW_NUMBERS; i++)
        assert_true(i % 2 ? isnan(got->number[i]) : got->number[i] == row.number[i]);
    assert_null(eval_csv_has(&c, "q2"));
    eval_csv_close(&c);
    json_decref(settings);
    unlink(path);
}

/* A setting that only one of the two runs has is another setting. */
static void settings_of_a_file_are_all_of_the_run(void **state)
{
    char path[] = "/tmp/spolia-rows-XXXXXX";
    int fd = mkstemp(path);
    eval_csv c;
    json_t *less = json_pack("{s:i}", "version", 1);
    json_t *more = json_pack("{s:i, s:s}", "version", 1, "decode", "window:8");
    json_t *const runs[][2] = {{less, more}, {more, less}};
    assert_true(fd >= 0 && close(fd) == 0);
    for (int i = 0; i < 2; i++) {
        assert_true(eval_csv_open(path, runs[i][0], 1, true, &c));
        eval_csv_close(&c);
        caught err = catch_begin(stderr);
        assert_false(eval_csv_open(path, runs[i][1], 1, false, &c));
        const char *said = catch_end(&err);
        assert_non_null(strstr(said, i ? "decode: \"window:8\", now none" : "decode: none, now \"window:8\""));
        assert_true(eval_csv_open(path, runs[i][0], 1, false, &c));
        eval_csv_close(&c);
    }
    json_decref(less);
    json_decref(more);
    unlink(path);
}

/* A run that goes on without the memory for its settings says so, and not that the file is another's. */
static void settings_need_memory(void **state)
{
    char path[] = "/tmp/spolia-rows-XXXXXX";
    int n_lost = 0, fd = mkstemp(path);
    eval_csv c;
    json_t *settings = json_pack("{s:s}", "model", "a model whose name is longer than a few letters");
    sp_json_watch(json_allocate);
    assert_true(fd >= 0 && close(fd) == 0);
    assert_true(eval_csv_open(path, settings, 1, true, &c));
    eval_csv_close(&c);
    for (int i = 0; i < 40; i++) {
        caught err = catch_begin(stderr);
        until_failure = i;
        const bool good = eval_csv_open(path, settings, 1, false, &c);
        until_failure = -1;
        const char *said = catch_end(&err);
        if (good) eval_csv_close(&c);
        if (!good) assert_non_null(strstr(said, "out of memory"));
        n_lost += !good;
    }
    assert_in_range(n_lost, 5, 39);
    json_decref(settings);
    unlink(path);
}

/* A run goes on: 40 of 100 questions have rows, and computing 5 of these again took 30 s, ten new ones 20 s. */
static void time_left_is_that_of_new_questions(void **state)
{
    eval_progress p = {.n_skipped = 40, .again = 6};
    char text[96];
    eval_progress_text(&p, 40, 100, 30, text, sizeof text);
    assert_string_equal(text, "question 6 of 40 is recomputed, to fill the caches");
    p.again = 0, p.new_at = 30;
    eval_progress_text(&p, 40, 100, 30, text, sizeof text);
    assert_string_equal(text, "question 41 of 100");
    eval_progress_text(&p, 50, 100, 50, text, sizeof text);
    assert_string_equal(text, "question 50 of 100, 30.0 a minute, 1:40 left");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f1_is_normalised_by_what_is_lost),
        cmocka_unit_test(without_a_loss_there_is_no_scale),
        cmocka_unit_test(likelihoods_are_compared_question_by_question),
        cmocka_unit_test(a_table_of_likelihoods_has_names_and_intervals),
        cmocka_unit_test(windows_of_a_stream_count_from_its_first_question),
        cmocka_unit_test(more_questions_narrow_the_interval),
        cmocka_unit_test(the_cheapest_sufficient_setting_is_chosen),
        cmocka_unit_test(texts_are_quoted),
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(settings_of_a_file_are_all_of_the_run),
        cmocka_unit_test(settings_need_memory),
        cmocka_unit_test(time_left_is_that_of_new_questions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
