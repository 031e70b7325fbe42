/* cpu.h -- which variants this CPU can run: whether it has the instructions that the Makefile allows for each
 * (ALLOW_neon and so on). The operating system tells: Linux by bits of getauxval, macOS by name in sysctl. */
#ifndef SP_COMPUTE_ARM64_CPU_H
#define SP_COMPUTE_ARM64_CPU_H

#include <stdbool.h>

#if defined(__APPLE__)
#include <sys/sysctl.h>

static inline bool cpu_has(const char *feature)
{
    int on = 0;
    size_t size = sizeof on;
    return sysctlbyname(feature, &on, &size, 0, 0) == 0 && on;
}
#define CPU_HAS_DOT  cpu_has("hw.optional.arm.FEAT_DotProd")
#define CPU_HAS_I8MM cpu_has("hw.optional.arm.FEAT_I8MM")

#else
#include <sys/auxv.h>

#define CPU_HAS_DOT  ((getauxval(AT_HWCAP) >> 20 & 1) != 0)  /* HWCAP_ASIMDDP */
#define CPU_HAS_I8MM ((getauxval(AT_HWCAP2) >> 13 & 1) != 0) /* HWCAP2_I8MM */

#endif

static inline bool cpu_has_neon(void)
{
    return CPU_HAS_DOT;
}

static inline bool cpu_has_i8mm(void)
{
    return CPU_HAS_DOT && CPU_HAS_I8MM;
}

#endif
