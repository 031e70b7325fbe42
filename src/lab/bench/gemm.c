/* gemm.c -- `spolia bench gemm`: products with a weight matrix that is read from memory each
 * time, as in a model. */
#include <stdio.h>

#include "lab/bench/bench.h"
#include "lab/bench/ops.h"
#include "cli/cli.h"

/* parse_sides -- "4864x896": outputs x inputs. */
static bool parse_sides(const char *text, sp_meter_op *op)
{
    char end;
    return sscanf(text, "%7dx%7d%c", &op->n_out, &op->n_in, &end) == 2 && op->n_out > 0 &&
           op->n_in > 0;
}

static bool add(bench_ops *b, const sp_meter_op *op, const char *shape)
{
    char rows[16];
    snprintf(rows, sizeof rows, "%d", op->rows);
    const char *const values[] = {op->type, shape, rows};
    return bench_ops_add(b, op, values, bench_weight_is_int8(op->type));
}

/* add_all -- row counts innermost, so that settings with the same weights are adjacent. */
static bool add_all(bench_ops *b, const bench_names *types, const bench_names *shapes,
                    const bench_list *rows)
{
    for (int s = 0; s < shapes->n; s++)
        for (int t = 0; t < types->n; t++)
            for (int r = 0; r < rows->n; r++) {
                sp_meter_op op = {.kind = "gemm", .type = types->v[t], .rows = (int)rows->v[r]};
                if (!parse_sides(shapes->v[s], &op) || !add(b, &op, shapes->v[s])) return false;
            }
    return true;
}

int bench_gemm(int argc, char **argv)
{
    static const char *const known[] = {"f32",  "f16",    "bf16",   "q8_0",  "q4_0", "q4_1",
                                        "q5_0", "q5_1",   "q4_k",   "q5_k",  "q6_k", "q2_k",
                                        "q3_k", "iq4_nl", "iq4_xs", "mxfp4", NULL};
    const char *type_names = "q8_0,q4_0,q4_k,f16", *sides = "4864x896,8192x2048";
    const char *row_counts = "1,8,256";
    speed_options o;
    bench_names types, shapes;
    bench_list rows;
    speed_options_init(&o, 3);
    const opt own[] = {
        {OPT_STRING, "types", 0, "LIST", &type_names, "types of weights (q8_0,q4_0,q4_k,f16)"},
        {OPT_STRING, "shapes", 0, "LIST", &sides, "outputs x inputs (4864x896,8192x2048)"},
        {OPT_STRING, "rows", 0, "LIST", &row_counts, "rows of activations (1,8,256)"},
        {0},
    };
    const opt *const tables[] = {own, o.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench gemm [options]",
                                    "Products with a weight matrix, in GFLOP/s (a multiply-add "
                                    "counts as two). Columns: type, shape, rows."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench gemm: unexpected argument \"%s\"", argv[at]), 2;
    if (!speed_options_check(&o) || !bench_names_parse("types", type_names, known, &types) ||
        !bench_names_parse("shapes", sides, NULL, &shapes) ||
        !bench_list_parse("rows", row_counts, 1, 65536, true, &rows))
        return 2;
    for (int s = 0; s < shapes.n; s++)
        if (!parse_sides(shapes.v[s], &(sp_meter_op){0}))
            return cli_fail_with("--shapes: \"%s\" is not like 4864x896", shapes.v[s]), 2;
    bench_ops b = {.s = {.o = &o, .unit = "GFLOP/s", .columns = {"type", "shape", "rows"}}};
    bool good = speed_open(&b.s) && add_all(&b, &types, &shapes, &rows) && bench_ops_measure(&b);
    return bench_ops_close(&b, good);
}
