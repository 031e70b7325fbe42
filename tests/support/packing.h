/* packing.h -- the plainest kernels of this machine that pack weights. */
#ifndef SP_TESTS_PACKING_H
#define SP_TESTS_PACKING_H

#if defined(__aarch64__)
#define PACKING "neon"
#else
#define PACKING "avx2"
#endif

#endif
