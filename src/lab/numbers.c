#include "lab/numbers.h"

#include <math.h>
#include <stdlib.h>

/* Source: Steele, Lea, Flood: Fast splittable pseudorandom number generators (SplitMix64). */
uint64_t lab_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

double lab_unit(uint64_t *state)
{
    return ((double)(lab_random(state) >> 11) + 0.5) * 0x1p-53;
}

void lab_shuffle(int *v, int n, uint64_t *state)
{
    for (int i = n - 1; i > 0; i--) {
        int k = (int)(lab_random(state) % (uint64_t)(i + 1)), held = v[i];
        v[i] = v[k];
        v[k] = held;
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void lab_sort(double *v, size_t n)
{
    qsort(v, n, sizeof *v, ascending);
}

double lab_quantile(double *v, int n, double q)
{
    if (n < 1) return NAN;
    lab_sort(v, (size_t)n);
    double at = q * (n - 1);
    int i = (int)at;
    return i + 1 < n ? v[i] + (at - i) * (v[i + 1] - v[i]) : v[i];
}
