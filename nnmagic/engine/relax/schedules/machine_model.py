"""What a schedule must know of the machine: the vectors, the registers, the caches. Knows TVM's targets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import tvm
from tvm.target import codegen


@dataclass(frozen=True, slots=True)
class CpuModel:
    """vector_bytes: of one vector register. registers: how many there are. parallel: whether kernels may use
    the thread pool (how many threads it has is the run's, not the kernel's).
    """

    vector_bytes: int
    registers: int
    parallel: bool = True

    def lanes(self, dtype: str) -> int:
        """How many elements of a dtype a vector holds."""
        return max(1, self.vector_bytes * 8 // int(tvm.DataType(dtype).bits))


@cache
def cpu_model(target: tvm.target.Target) -> CpuModel:
    """The machine of a target: AVX-512, AVX2 or AVX, else vectors of 16 bytes."""
    features = {str(name) for name in codegen.llvm_get_cpu_features(target)}
    if "avx512f" in features:
        return CpuModel(64, 32)
    if "avx" in features:
        return CpuModel(32, 16)
    return CpuModel(16, 32 if "neon" in features else 16)
