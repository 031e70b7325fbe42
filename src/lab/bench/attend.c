/* attend.c -- `spolia bench attend`: span attention of one layer over keys and values that are read
 * from memory. */
#include <stdio.h>
#include <string.h>

#include "lab/bench/bench.h"
#include "lab/bench/ops.h"
#include "cli/cli.h"

typedef struct settings {
    bench_names types, heads;
    bench_list depths, rows, spans;
    int n_trees, n_paths; /* 0: none */
    int joined;           /* sp_meter_op.joined */
} settings;

/* parse_heads -- "14x2x64": query heads x key heads x elements. */
static bool parse_heads(const char *text, sp_meter_op *op)
{
    char end;
    return sscanf(text, "%4dx%4dx%4d%c", &op->n_heads, &op->n_kv_heads, &op->head, &end) == 3 &&
           op->n_heads > 0 && op->n_kv_heads > 0 && op->head > 0;
}

static bool add(bench_ops *b, const sp_meter_op *op, const char *heads)
{
    char depth[16], rows[16], spans[16];
    snprintf(depth, sizeof depth, "%d", op->n_keys - op->rows);
    snprintf(rows, sizeof rows, "%d", op->rows);
    if (op->n_trees)
        snprintf(spans, sizeof spans, "%dx%d", op->n_trees, op->n_paths);
    else
        snprintf(spans, sizeof spans, "%d", op->n_spans);
    const char *const values[] = {op->type, heads, depth, rows, spans};
    return bench_ops_add(b, op, values, false);
}

static bool add_depth(bench_ops *b, const settings *w, const char *heads, const char *type,
                      int depth)
{
    for (int s = 0; s < w->spans.n; s++)
        for (int r = 0; r < w->rows.n; r++) {
            int rows = (int)w->rows.v[r];
            sp_meter_op op = {.kind = "attend",
                              .type = type,
                              .rows = rows,
                              .n_keys = depth + rows,
                              .n_spans = (int)w->spans.v[s],
                              .joined = w->joined};
            if (!parse_heads(heads, &op) || !add(b, &op, heads)) return false;
        }
    return true;
}

/* add_trees -- all tokens over trees, as many as there are queries. */
static bool add_trees(bench_ops *b, const settings *w, const char *heads, const char *type)
{
    for (int r = 0; w->n_trees && r < w->rows.n; r++) {
        int rows = (int)w->rows.v[r];
        sp_meter_op op = {.kind = "attend",
                          .type = type,
                          .rows = rows,
                          .n_keys = rows,
                          .n_trees = w->n_trees,
                          .n_paths = w->n_paths,
                          .n_spans = 1 + w->n_trees * (1 + 2 * w->n_paths),
                          .joined = w->joined};
        if (!parse_heads(heads, &op) || !add(b, &op, heads)) return false;
    }
    return true;
}

static bool parse_trees(const char *text, settings *w)
{
    char end;
    if (!text) return true;
    return (sscanf(text, "%4dx%4d%c", &w->n_trees, &w->n_paths, &end) == 2 && w->n_trees > 0 &&
            w->n_paths > 0) ||
           (cli_fail_with("--tree: \"%s\" is not like 20x50", text), false);
}

static bool parse_joined(const char *text, settings *w)
{
    static const char *const names[] = {"no", "packed", "scattered"};
    for (int i = 0; i < (int)SP_COUNT(names); i++) {
        w->joined = i;
        if (strcmp(text, names[i]) == 0) return true;
    }
    return cli_fail_with("--joined: \"%s\" is not no, packed or scattered", text), false;
}

static bool add_all(bench_ops *b, const settings *w)
{
    for (int h = 0; h < w->heads.n; h++)
        for (int t = 0; t < w->types.n; t++) {
            if (!add_trees(b, w, w->heads.v[h], w->types.v[t])) return false;
            for (int d = 0; d < w->depths.n; d++)
                if (!add_depth(b, w, w->heads.v[h], w->types.v[t], (int)w->depths.v[d]))
                    return false;
        }
    return true;
}

int bench_attend(int argc, char **argv)
{
    static const char *const known[] = {"f32", "f16", "bf16", "q16", "q8_0", NULL};
    const char *types = "q16,f16,q8_0", *heads = "14x2x64,32x8x64", *depths = "0,4096";
    const char *rows = "1,256", *spans = "1", *tree = NULL, *joined = "no";
    speed_options o;
    settings w = {.n_trees = 0};
    speed_options_init(&o, 3);
    const opt own[] = {
        {OPT_STRING, "types", 0, "LIST", &types, "types of keys and values (q16,f16,q8_0)"},
        {OPT_STRING, "heads", 0, "LIST", &heads,
         "query heads x key heads x elements (14x2x64,32x8x64)"},
        {OPT_STRING, "depths", 0, "LIST", &depths, "tokens before the queries (0,4096)"},
        {OPT_STRING, "rows", 0, "LIST", &rows, "numbers of queries (1,256)"},
        {OPT_STRING, "spans", 0, "LIST", &spans, "spans that hold the keys (1)"},
        {OPT_STRING, "tree", 0, "TxP", &tree,
         "also all tokens over T dependency trees of P paths, such as 20x50"},
        {OPT_STRING, "joined", 0, "HOW", &joined,
         "join spans, as those of short nodes are: no, packed into shared blocks, scattered (no)"},
        {0},
    };
    const opt *const tables[] = {own, o.table, NULL};
    int at = opt_parse(argc, argv,
                       &(opt_usage){"bench attend [options]",
                                    "Span attention of one layer, in GFLOP/s (a multiply-add "
                                    "counts as two). Columns: type, heads, depth, rows, spans."},
                       tables);
    if (at < 0) return -1 - at;
    if (at != argc) return cli_fail_with("bench attend: unexpected argument \"%s\"", argv[at]), 2;
    if (!speed_options_check(&o) || !bench_names_parse("types", types, known, &w.types) ||
        !bench_names_parse("heads", heads, NULL, &w.heads) ||
        !bench_list_parse("depths", depths, 0, 1 << 20, true, &w.depths) ||
        !bench_list_parse("rows", rows, 1, 65536, true, &w.rows) ||
        !bench_list_parse("spans", spans, 1, 4096, true, &w.spans) || !parse_trees(tree, &w) ||
        !parse_joined(joined, &w))
        return 2;
    for (int h = 0; h < w.heads.n; h++)
        if (!parse_heads(w.heads.v[h], &(sp_meter_op){0}))
            return cli_fail_with("--heads: \"%s\" is not like 14x2x64", w.heads.v[h]), 2;
    bench_ops b = {
        .s = {.o = &o, .unit = "GFLOP/s", .columns = {"type", "heads", "depth", "rows", "spans"}}};
    bool good = speed_open(&b.s) && add_all(&b, &w) && bench_ops_measure(&b);
    return bench_ops_close(&b, good);
}
