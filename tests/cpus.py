"""The sets of kernels that SPOLIA_CPU chooses from, and what each asks of the CPU."""
from pathlib import Path

INFO = Path("/proc/cpuinfo")
FLAGS = set(INFO.read_text().split()) if INFO.exists() else set()
AVX2 = {"avx2", "fma", "f16c"}
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
NEEDS = {"ref": set(), "avx2": AVX2, "avxvnni": AVX2 | {"avx_vnni"},
         "avx512": AVX512, "vnni": AVX512 | {"avx512_vnni"},
         "amx": AVX512 | {"avx512_vnni", "avx512_bf16", "amx_tile", "amx_bf16"}}


def runs_here(name):
    return NEEDS[name] <= FLAGS


def emulation_runs_here():
    """Programs below BUILD/emulate compute everything with AVX2."""
    return AVX2 <= FLAGS
