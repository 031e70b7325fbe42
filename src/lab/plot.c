/* plot.c -- a page is laid out top down:
 *
 *     +-----------------------------+----------+
 *     | title                       |          |
 *     |  y |  large panel           |  legend  |
 *     |    +----------- x           |          |
 *     +---------+---------+---------+----------+
 *     | small   | small   | small   |            more rows as needed; no axis labels
 *     +---------+---------+---------+
 *
 * Lines differ in colour, lightness, marker and dashes, so that a grey print is readable. The
 * background is white on any page. */
#include "lab/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PAGE_W  790
#define LARGE_W 520
#define LARGE_H 320
#define SMALL_W 190
#define SMALL_H 130
#define LEFT    70 /* of a panel: room for tick labels and the y label */
#define TOP     44
#define BOTTOM  52
#define GAP     46 /* below a small panel */
#define N_TICKS 5

/* -- looks ---------------------------------------------------------------------------------- */

/* markers: paths around 0,0 */
#define CIRCLE  "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0z"
#define SQUARE  "M-4,-4h8v8h-8z"
#define UP      "M0,-5l5,9h-10z"
#define DOWN    "M0,5l5,-9h-10z"
#define DIAMOND "M0,-5.5l5.5,5.5l-5.5,5.5l-5.5,-5.5z"
#define CROSS   "M-4.5,-1.5h3v-3h3v3h3v3h-3v3h-3v-3h-3z"

static const struct look {
    const char *colour, *dashes, *marker;
} looks[] = {
    {"#000000", "", CIRCLE},      {"#d55e00", "", SQUARE},        {"#0072b2", "", UP},
    {"#e69f00", "7,3", DIAMOND},  {"#009e73", "2,2", DOWN},       {"#cc79a7", "9,3,2,3", CROSS},
    {"#56b4e9", "4,2", CIRCLE},   {"#7f7f7f", "5,4", SQUARE},     {"#5b2a86", "1,3", UP},
    {"#8c6d1f", "10,3", DIAMOND}, {"#444444", "3,2", DOWN},       {"#a0522d", "8,2,2,2", CROSS},
    {"#b0b0b0", "5,4", CIRCLE},   {"#e8a0c8", "9,3,2,3", SQUARE}, {"#9f7fc0", "1,3", DIAMOND},
    {"#117733", "", DIAMOND},     {"#8fc9a0", "4,2", DIAMOND},    {"#882255", "6,2", UP},
    {"#c9a227", "2,4", CIRCLE},   {"#3f8efc", "8,3", SQUARE},
};
#define N_LOOKS ((int)(sizeof looks / sizeof *looks))

static const struct look *look_of(const plot_line *l)
{
    return &looks[(unsigned)l->style % N_LOOKS];
}

static void put_text(FILE *f, double x, double y, const char *attributes, const char *text)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    for (; *text; text++) switch (*text) {
        case '<':
            fputs("&lt;", f);
            break;
        case '>':
            fputs("&gt;", f);
            break;
        case '&':
            fputs("&amp;", f);
            break;
        default:
            if ((unsigned char)*text >= ' ' || *text == '\t') fputc(*text, f);
        }
    fputs("</text>\n", f);
}

/* -- axes ----------------------------------------------------------------------------------- */

/* From values to pixels: at = from + (v - low) / (high - low) * (to - from). */
typedef struct axis {
    double low, high, step; /* in decades when log */
    double from, to;        /* pixels */
    bool log, percent;
    double floor;
} axis;

static double axis_value(const axis *a, double v)
{
    return a->log ? log10(fmax(v, a->floor)) : v;
}

static double axis_at(const axis *a, double v)
{
    return a->from + (axis_value(a, v) - a->low) / (a->high - a->low) * (a->to - a->from);
}

/* nice_step -- 1, 2 or 5 times a power of ten, at least span / N_TICKS. */
static double nice_step(double span)
{
    double raw = span / N_TICKS, power = pow(10, floor(log10(raw)));
    double digit = raw / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static void widen(const axis *a, const double *v, int n, double *low, double *high)
{
    for (int i = 0; i < n; i++) {
        if (!isfinite(v[i])) continue;
        *low = fmin(*low, axis_value(a, v[i]));
        *high = fmax(*high, axis_value(a, v[i]));
    }
}

/* fit -- ends at ticks around all values. */
static void fit(axis *a, double low, double high)
{
    if (!(low <= high)) low = 0, high = 1;
    if (high - low < 1e-9 * fmax(1, fabs(high))) {
        double pad = a->log ? 1 : fmax(0.05, fabs(high) * 0.1);
        low -= pad;
        high += pad;
        if (!a->log && low < 0 && high >= pad) low = 0;
    }
    a->step = a->log ? fmax(1, ceil((high - low) / N_TICKS)) : nice_step(high - low);
    a->low = floor(low / a->step + 1e-9) * a->step;
    a->high = ceil(high / a->step - 1e-9) * a->step;
}

static void fit_x(const plot_panel *p, axis *a)
{
    double low = 0, high = -INFINITY;
    for (int i = 0; i < p->n_lines; i++)
        if (!p->lines[i].rule) widen(a, p->lines[i].x, p->lines[i].n, &low, &high);
    fit(a, low, high);
}

static void fit_y(const plot_panel *p, axis *a)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < p->n_lines; i++)
        widen(a, p->lines[i].y, p->lines[i].rule ? 1 : p->lines[i].n, &low, &high);
    if (!a->log && low > 0 && low < high / 2) low = 0;
    double missing = p->y_span - (high - low);
    if (missing > 0) { /* on both sides, but not above y_most */
        high = fmax(high, fmin(high + missing / 2, p->y_most));
        low = high - p->y_span;
    }
    fit(a, low, high);
}

static void tick_text(const axis *a, double v, char *s, size_t n)
{
    if (fabs(v) < 1e-12) v = 0;
    if (a->log)
        snprintf(s, n, v >= -3 && v <= 3 ? "%g" : "1e%.0f", v >= -3 && v <= 3 ? pow(10, v) : v);
    else if (a->percent)
        snprintf(s, n, "%.4g %%", v * 100);
    else if (fabs(v) >= 1e4)
        snprintf(s, n, "%.4gk", v / 1e3);
    else
        snprintf(s, n, "%.4g", v);
}

static void draw_axes(FILE *f, const plot_panel *p, const axis *x, const axis *y, bool large)
{
    char s[32];
    const char *size = large ? "font-size=\"12\"" : "font-size=\"10\"";
    char middle[64], end[64];
    snprintf(middle, sizeof middle, "text-anchor=\"middle\" %s", size);
    snprintf(end, sizeof end, "text-anchor=\"end\" %s", size);
    for (double v = y->low; v < y->high + y->step / 2; v += y->step) {
        double at = y->from + (v - y->low) / (y->high - y->low) * (y->to - y->from);
        fprintf(f, "<path d=\"M%.1f,%.1fH%.1f\" stroke=\"#dddddd\"/>\n", x->from, at, x->to);
        tick_text(y, v, s, sizeof s);
        put_text(f, x->from - 7, at + 4, end, s);
    }
    for (double v = x->low; v < x->high + x->step / 2; v += x->step) {
        double at = x->from + (v - x->low) / (x->high - x->low) * (x->to - x->from);
        fprintf(f, "<path d=\"M%.1f,%.1fv5\" stroke=\"#444444\"/>\n", at, y->from);
        tick_text(x, v, s, sizeof s);
        put_text(f, at, y->from + (large ? 19 : 17), middle, s);
    }
    fprintf(f, "<path d=\"M%.1f,%.1fV%.1fH%.1f\" stroke=\"#444444\" fill=\"none\"/>\n", x->from,
            y->to, y->from, x->to);
    put_text(f, large ? x->from : (x->from + x->to) / 2, y->to - (large ? 16 : 8),
             large ? "font-size=\"15\" font-weight=\"bold\""
                   : "font-size=\"12\" font-weight=\"bold\" text-anchor=\"middle\"",
             p->title);
    if (!large) return;
    put_text(f, (x->from + x->to) / 2, y->from + 42, "text-anchor=\"middle\" font-size=\"13\"",
             p->x_label);
    char turned[96];
    double middle_y = (y->from + y->to) / 2;
    snprintf(turned, sizeof turned,
             "text-anchor=\"middle\" font-size=\"13\" transform=\"rotate(-90 %.1f %.1f)\"",
             x->from - 54, middle_y);
    put_text(f, x->from - 54, middle_y, turned, p->y_label);
}

/* -- lines ---------------------------------------------------------------------------------- */

static void draw_stroke(FILE *f, const plot_line *l, double width)
{
    const struct look *k = look_of(l);
    const char *dashes = l->rule ? "6,4" : k->dashes;
    fprintf(f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.1f\"", k->colour, width);
    if (*dashes) fprintf(f, " stroke-dasharray=\"%s\"", dashes);
    fputs("/>\n", f);
}

static void draw_marker(FILE *f, const plot_line *l, double x, double y, double scale)
{
    fprintf(f,
            "<path transform=\"translate(%.1f %.1f) scale(%.2f)\" d=\"%s\" fill=\"%s\" "
            "stroke=\"#ffffff\" stroke-width=\"0.8\"/>\n",
            x, y, scale, look_of(l)->marker, look_of(l)->colour);
}

static void draw_line(FILE *f, const plot_panel *p, const plot_line *l, const axis *x,
                      const axis *y, bool large)
{
    if (l->rule && !isfinite(l->y[0])) return;
    fputs("<path d=\"", f);
    if (l->rule) fprintf(f, "M%.1f,%.1fH%.1f", x->from, axis_at(y, l->y[0]), x->to);
    for (int i = 0, n = 0; !l->rule && i < l->n; i++)
        if (isfinite(l->x[i]) && isfinite(l->y[i]))
            fprintf(f, "%c%.1f,%.1f", n++ ? 'L' : 'M', axis_at(x, l->x[i]), axis_at(y, l->y[i]));
    draw_stroke(f, l, large ? 2 : 1.5);
    for (int i = 0; !l->rule && !p->no_markers && i < l->n; i++)
        if (isfinite(l->x[i]) && isfinite(l->y[i]))
            draw_marker(f, l, axis_at(x, l->x[i]), axis_at(y, l->y[i]), large ? 1 : 0.7);
}

typedef struct frame {
    double left, top, width, height;
} frame;

static void draw_panel(FILE *f, const plot_panel *p, const frame *at, bool large)
{
    axis x = {.from = at->left, .to = at->left + at->width, .percent = p->x_percent};
    axis y = {.from = at->top + at->height, /* pixels grow downwards */
              .to = at->top,
              .log = p->y_log,
              .percent = p->y_percent,
              .floor = p->y_floor};
    fit_x(p, &x);
    fit_y(p, &y);
    draw_axes(f, p, &x, &y, large);
    for (int i = 0; i < p->n_lines; i++) draw_line(f, p, &p->lines[i], &x, &y, large);
}

static void draw_legend(FILE *f, const plot_panel *p, double x, double y)
{
    for (int i = 0; i < p->n_lines; i++, y += 22) {
        const plot_line *l = &p->lines[i];
        fprintf(f, "<path d=\"M%.1f,%.1fh32", x, y);
        draw_stroke(f, l, 2);
        if (!l->rule && !p->no_markers) draw_marker(f, l, x + 16, y, 1);
        put_text(f, x + 40, y + 4, "font-size=\"13\"", l->name);
    }
}

bool plot_write(const char *path, const plot_panel *panels, int n_panels)
{
    FILE *f = fopen(path, "w");
    if (!f) return false;
    int n_rows = (n_panels - 1 + 2) / 3;
    int legend = TOP + 22 * panels[0].n_lines, large = TOP + LARGE_H + BOTTOM;
    int below = large > legend ? large : legend;
    int page_h = below + n_rows * (SMALL_H + GAP + 10) + (n_rows ? 16 : 0);
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" font-family=\"Helvetica, Arial, sans-serif\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            PAGE_W, page_h, PAGE_W, page_h);
    draw_panel(f, &panels[0], &(frame){LEFT, TOP, LARGE_W, LARGE_H}, true);
    draw_legend(f, &panels[0], LEFT + LARGE_W + 18, TOP + 10);
    for (int i = 1; i < n_panels; i++) {
        int column = (i - 1) % 3, row = (i - 1) / 3;
        const frame at = {52 + column * (SMALL_W + 52), below + 30 + row * (SMALL_H + GAP + 10),
                          SMALL_W, SMALL_H};
        draw_panel(f, &panels[i], &at, false);
    }
    fputs("</svg>\n", f);
    bool failed = ferror(f) != 0;
    return fclose(f) == 0 && !failed;
}
