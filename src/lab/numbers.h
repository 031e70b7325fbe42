/* numbers.h -- random numbers and quantiles of what is measured. */
#ifndef SP_LAB_NUMBERS_H
#define SP_LAB_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* lab_random -- the next number of a stream; any seed will do. */
uint64_t lab_random(uint64_t *state);
/* lab_unit -- uniform between 0 and 1, both excluded. */
double lab_unit(uint64_t *state);
void lab_shuffle(int *v, int n, uint64_t *state);

/* lab_sort -- ascending. */
void lab_sort(double *v, size_t n);
/* lab_quantile -- of v[n]; sorts v. q = 0.5 is the median. NAN: n is 0. */
double lab_quantile(double *v, int n, double q);

#endif
