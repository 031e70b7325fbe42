/* decode_plot.h -- rates of decoding over the depth of the context, as a picture. */
#ifndef SP_LAB_BENCH_DECODE_PLOT_H
#define SP_LAB_BENCH_DECODE_PLOT_H

#include <stdbool.h>

enum { DECODE_MOST_DEPTHS = 32 };

/* Tokens a second at depths. */
typedef struct decode_curve {
    double depth[DECODE_MOST_DEPTHS], rate[DECODE_MOST_DEPTHS];
    int n;
} decode_curve;

/* decode_curve_add -- a point; one too many is left out. */
void decode_curve_add(decode_curve *c, double depth, double rate);
/* decode_curve_read -- lines "depth,rate" of a file; others, such as a header, are left out. False
 * after an error message: it cannot be read, or has no point. */
bool decode_curve_read(const char *path, decode_curve *out);

typedef struct decode_curves {
    decode_curve full, memory, disk, peer; /* those without points are not drawn */
    const char *peer_name;
} decode_curves;

/* decode_plot_write -- false after an error message. */
bool decode_plot_write(const char *path, const decode_curves *c);

#endif
