#include "lab/bench/decode_plot.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "lab/plot.h"

void decode_curve_add(decode_curve *c, double depth, double rate)
{
    if (c->n == DECODE_MOST_DEPTHS) return;
    c->depth[c->n] = depth;
    c->rate[c->n++] = rate;
}

bool decode_curve_read(const char *path, decode_curve *out)
{
    FILE *f = fopen(path, "r");
    char line[256];
    double depth, rate;
    if (!f) return cli_fail_with("%s: %s", path, strerror(errno)), false;
    out->n = 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "%lf,%lf", &depth, &rate) == 2 && depth >= 0 && rate > 0)
            decode_curve_add(out, depth, rate);
    fclose(f);
    if (out->n == 0) return cli_fail_with("%s: no line \"depth,rate\"", path), false;
    return true;
}

static void add_line(plot_line *lines, int *n, const char *name, int style, const decode_curve *c)
{
    if (c->n)
        lines[(*n)++] =
            (plot_line){.name = name, .style = style, .x = c->depth, .y = c->rate, .n = c->n};
}

bool decode_plot_write(const char *path, const decode_curves *c)
{
    plot_line lines[4];
    plot_panel panel = {.title = "Decoding over the depth of the context",
                        .x_label = "tokens of context",
                        .y_label = "tokens a second",
                        .y_log = true,
                        .y_floor = 0.1,
                        .lines = lines};
    add_line(lines, &panel.n_lines, "sparse, in memory", 2, &c->memory);
    add_line(lines, &panel.n_lines, "sparse, from disk", 4, &c->disk);
    add_line(lines, &panel.n_lines, "full attention", 0, &c->full);
    add_line(lines, &panel.n_lines, c->peer_name ? c->peer_name : "another engine", 1, &c->peer);
    if (plot_write(path, &panel, 1)) return true;
    return cli_fail_with("%s: %s", path, strerror(errno)), false;
}
