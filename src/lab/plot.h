/* plot.h -- line plots as SVG: one large panel with a legend, and small ones below it. */
#ifndef SP_LAB_PLOT_H
#define SP_LAB_PLOT_H

#include <stdbool.h>

typedef struct plot_line {
    const char *name;
    int style;           /* colour, marker and dashes; equal styles look alike in every plot */
    bool rule;           /* a dashed line across at y[0] */
    const double *x, *y; /* [n]; points that are not finite are left out */
    int n;
} plot_line;

typedef struct plot_panel {
    const char *title, *x_label, *y_label;
    bool x_percent, y_percent; /* values are shares */
    bool y_log;                /* decades; values below y_floor are drawn at y_floor */
    double y_floor;
    double y_span, y_most; /* the axis spans at least y_span, without exceeding y_most for that */
    bool no_markers;       /* many points */
    const plot_line *lines;
    int n_lines;
} plot_panel;

/* plot_write -- panel 0 large, with the legend, the others three in a row. Returns false with
 * errno when the file cannot be written. */
bool plot_write(const char *path, const plot_panel *panels, int n_panels);

#endif
