/* cpu.h -- the CPU as a device; for the table of devices, and for tests that wrap it. */
#ifndef SP_COMPUTE_CPU_H
#define SP_COMPUTE_CPU_H

#include "compute/device.h"

/* sp_cpu_open -- kernels: a name that sp_ops_select knows (compute/kernels.h). Errors: as
 * sp_device_open. */
sp_err sp_cpu_open(const sp_device_opts *o, sp_device **out) SP_MUST_CHECK;

#endif
