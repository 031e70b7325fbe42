/* cpu.h -- which variants this CPU can run: whether it has the instructions that the Makefile
 * allows for each (ALLOW_avx2 and so on).
 *
 * F16C is not checked: clang has no name for it, and every CPU with AVX2 has it. Not every compiler
 * has a name for AVX-VNNI either: it is leaf 7, subleaf 1, EAX bit 4. */
#ifndef SP_COMPUTE_X86_CPU_H
#define SP_COMPUTE_X86_CPU_H

#include <cpuid.h>
#include <stdbool.h>

static inline bool cpu_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#if SP_EMULATE /* the other variants are compiled to AVX2 (emulate.h) */
#define cpu_has_avxvnni cpu_has_avx2
#define cpu_has_avx512  cpu_has_avx2
#define cpu_has_vnni    cpu_has_avx2
#else

static inline bool cpu_has_avxvnni(void)
{
    unsigned a, b, c, d;
    return cpu_has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

static inline bool cpu_has_avx512(void)
{
    return cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static inline bool cpu_has_vnni(void)
{
    return cpu_has_avx512() && __builtin_cpu_supports("avx512vnni");
}

#endif

#endif
