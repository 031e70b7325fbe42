/* cpu.h -- which variants this CPU can run: whether it has the instructions that the Makefile
 * allows for each (ALLOW_avx2 and so on).
 *
 * F16C is not checked: clang has no name for it, and every CPU with AVX2 has it. Not every compiler
 * has a name for AVX-VNNI either: it is leaf 7, subleaf 1, EAX bit 4. */
#ifndef SP_COMPUTE_X86_CPU_H
#define SP_COMPUTE_X86_CPU_H

#include <cpuid.h>
#include <stdbool.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

static inline bool cpu_has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

#if SP_EMULATE /* the other variants are compiled to AVX2 (emulate.h) */
#define cpu_has_avxvnni cpu_has_avx2
#define cpu_has_avx512  cpu_has_avx2
#define cpu_has_vnni    cpu_has_avx2
#define cpu_has_amx     cpu_has_avx2
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

/* Leaf 7, subleaf 1: EAX bit 5. */
static inline bool cpu_has_avx512bf16(void)
{
    unsigned a, b, c, d;
    return cpu_has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

/* Leaf 7: EDX bits 22 (bf16) and 24 (tiles), and AVX512-BF16. Tiles are 8 KB of state that threads do not have
 * until the process asks Linux for it: feature 18, which may be asked for again. */
static inline bool cpu_has_amx(void)
{
    unsigned a, b, c, d;
    if (!cpu_has_vnni() || !cpu_has_avx512bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    if (!(d >> 22 & 1) || !(d >> 24 & 1)) return false;
#ifdef __linux__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
#else
    return false;
#endif
}

#endif

#endif
