/* profile.c -- `spolia profile`: what computing tokens costs on this machine, T(cached, new), for the
 * replacement policy pgdsf and for planning (cache/cost.h reads it).
 *
 *   {"model": "m.gguf", "cached": [0, 256, ...], "new": [16, 64, ...],
 *    "us": [[T(0, 16), T(0, 64), ...], [T(256, 16), ...], ...]}
 *
 * A cell is the least of a few times to the first token: what disturbs a run only adds to it.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/cost.h"
#include "cli/alloc.h"
#include "cli/cli.h"
#include "cli/path.h"
#include "lab/bench/model.h"
#include "lab/files.h"
#include "lab/lab.h"
#include "lab/profile_decode.h"

typedef struct profile {
    bench_model *model;
    bench_list cached, fresh;
    int rounds;
} profile;

/* least_of -- of the rounds, microseconds; 0 after an error message. */
static double least_of(profile *p, int cached, int fresh)
{
    double least = 0;
    for (int i = 0; i < p->rounds; i++) {
        const double us = 1e6 * bench_model_prefill(p->model, cached, fresh);
        if (us <= 0) return 0;
        if (i == 0 || us < least) least = us;
    }
    return least;
}

/* fit -- leaves out the largest sizes until the largest cell fits context and KV memory. */
static bool fit(profile *p)
{
    char why[128];
    while (p->cached.n >= 2 && p->fresh.n >= 2) {
        bench_load load = {.n_requests = 1,
                           .depth = (int)p->cached.v[p->cached.n - 1],
                           .fresh = (int)p->fresh.v[p->fresh.n - 1],
                           .answer = 1};
        if (bench_model_fits(p->model, &load, why, sizeof why)) return true;
        bench_list *longer = load.depth >= load.fresh ? &p->cached : &p->fresh;
        fprintf(stderr, "spolia: profile: leaves out %.0f tokens: %s\n", longer->v[--longer->n], why);
    }
    return cli_fail_with("profile: fewer than two sizes fit; decrease --cached and --new"), false;
}

static json_t *axis(const bench_list *l)
{
    json_t *list = json_array();
    for (int i = 0; i < l->n; i++) json_array_append_new(list, json_integer((json_int_t)l->v[i]));
    return list;
}

/* measure_all -- the profile as JSON; NULL after an error message. */
static json_t *measure_all(profile *p)
{
    json_t *rows = json_array();
    for (int i = 0; i < p->cached.n; i++) {
        json_t *row = json_array();
        json_array_append_new(rows, row);
        for (int k = 0; k < p->fresh.n; k++) {
            double us = least_of(p, (int)p->cached.v[i], (int)p->fresh.v[k]);
            if (us <= 0) {
                json_decref(rows);
                return NULL;
            }
            json_array_append_new(row, json_real(us));
        }
    }
    char *name = cli_last_part(p->model->path);
    json_t *root = json_object();
    json_object_set_new(root, "model", json_string(name));
    free(name);
    json_object_set_new(root, "cached", axis(&p->cached));
    json_object_set_new(root, "new", axis(&p->fresh));
    json_object_set_new(root, "us", rows);
    return root;
}

static void print_table(const profile *p, const sp_cost *c)
{
    printf("%10s", "cached");
    for (int k = 0; k < p->fresh.n; k++) printf(" %7.0f new", p->fresh.v[k]);
    for (int i = 0; i < p->cached.n; i++) {
        printf("\n%10.0f", p->cached.v[i]);
        for (int k = 0; k < p->fresh.n; k++)
            printf(" %8.2f ms",
                   sp_cost_us(c, (int32_t)p->cached.v[i], (int32_t)p->fresh.v[k]) / 1e3);
    }
    putchar('\n');
}

/* write_and_read -- the file must be readable by those who will use it. */
static int write_and_read(const profile *p, const json_t *root, const char *path)
{
    sp_cost cost;
    if (!lab_json_write(path, root, JSON_COMPACT | JSON_REAL_PRECISION(8))) return 1;
    sp_err err = sp_cost_read(path, &cost);
    if (err != SP_OK) return cli_fail(err);
    print_table(p, &cost);
    printf("written to %s\n", path);
    return cli_check_output(0);
}

/* rises -- the lists are sorted without repeats. */
static bool rises(const bench_list *l)
{
    for (int i = 1; i < l->n; i++)
        if (l->v[i] <= l->v[i - 1]) return false;
    return l->n >= 2 && l->n <= SP_COST_AXIS;
}

static int run(profile *p, bench_model_options *mo, int n_threads, const char *out)
{
    char *beside = cli_join(mo->models.v[0], ".profile.json");
    p->model = bench_models_open(mo, n_threads, NULL, 1, &p->cached);
    json_t *root = p->model && fit(p) ? measure_all(p) : NULL;
    int code = root ? write_and_read(p, root, out ? out : beside) : 1;
    json_decref(root);
    bench_models_close(p->model, 1);
    free(beside);
    return code;
}

int lab_profile(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--decode") == 0) return lab_profile_decode(argc - 1, argv + 1);
    const char *cached = "0,256,1024,4096", *fresh = "16,64,256,1024", *out = NULL;
    int n_threads = 0;
    profile p = {.rounds = 3};
    bench_model_options mo;
    bench_model_options_init(&mo);
    const opt own[] = {
        {OPT_STRING, "output", 'o', "FILE", &out, "where to write it (MODEL.profile.json)"},
        {OPT_STRING, "cached", 0, "LIST", &cached, "cached tokens (0,256,1024,4096)"},
        {OPT_STRING, "new", 0, "LIST", &fresh, "new tokens (16,64,256,1024)"},
        {OPT_INT, "rounds", 0, "N", &p.rounds, "runs of each; the fastest counts (3)", .limits = {1, 10000}},
        {OPT_INT, "threads", 't', "N", &n_threads, "threads; 0: one for each core (0)", .limits = {0, 1024}},
        {0},
    };
    const opt *const tables[] = {own, mo.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"profile -m MODEL [-o FILE] [options]",
                                    "Measures the time to compute new tokens after cached ones on "
                                    "this machine, for --evict pgdsf and `spolia sim`.\n"
                                    "With --decode as the first option it measures heads for sparse decoding:\n"
                                    "spolia profile --decode --help."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("profile: unexpected argument \"%s\"", argv[at]), 2;
    if (!bench_model_options_check(&mo, "profile") ||
        !bench_list_parse("cached", cached, 0, 1 << 20, true, &p.cached) ||
        !bench_list_parse("new", fresh, 1, 1 << 20, true, &p.fresh))
        return 2;
    if (mo.models.n != 1 || !rises(&p.cached) || !rises(&p.fresh))
        return cli_fail_with("profile: one model, and 2 to 16 rising numbers for --cached and --new"),
               2;
    return run(&p, &mo, n_threads, out);
}
