"""Model the machine for the schedules: its vectors and registers, and the work that pays for threads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

import tvm
from tvm.target import codegen

from nnmagic.engine.relax.tir.builders import as_expr, static_int
from nnmagic.engine.relax.tir.types import Index, PrimExpr


class Work(Enum):
    """Units in which the families count the work of a kernel.

    The value of a unit is the amount from which on threads pay: starting them and waiting for them takes
    longer than a smaller kernel does on one core. Units differ in how fast a core does them, and in how much
    of the time goes to memory, which threads share.
    """

    #: Multiplications of a matrix product: about 20 microseconds of one core.
    MATMUL_MULTIPLICATIONS = 1 << 21
    #: Multiplications of a convolution: about 50 microseconds of one core.
    CONVOLUTION_MULTIPLICATIONS = 2_000_001
    #: Multiplications of a convolution in groups, where each lane has its own data and memory is the limit:
    #: a fourth of the above.
    GROUPED_MULTIPLICATIONS = 500_001
    #: Operations on elements in rows and reductions.
    ROW_OPERATIONS = 1 << 18
    #: Operations on elements in element-wise kernels, with the bytes moved: about 100 microseconds of one
    #: core.
    ELEMENT_OPERATIONS = 1 << 24
    #: Elements that a change of layout moves.
    MOVED_ELEMENTS = 200_001


def worth_threads(unit: Work, amount: float) -> bool:
    """Return whether threads pay for so much work."""
    return amount >= unit.value


@dataclass(frozen=True, slots=True)
class CpuModel:
    """Describe a CPU.

    vector_bytes: the size of a vector register. registers: how many of them there are; spare: how many LLVM
    needs besides those of a tile. units: how many vectors are multiplied and added in a cycle, while two are
    loaded; latency: after how many cycles a sum can be added to again; busy_sums: how many sums keep the
    units of a matrix product busy. parallel: whether kernels may use the thread pool; how many threads it has
    is known at run time only.
    """

    vector_bytes: int
    registers: int
    spare: int = 0
    units: int = 2
    latency: int = 4
    busy_sums: int = 8
    parallel: bool = True

    def has_registers(self, sums: int, operands: int) -> bool:
        """Return whether a tile of so many sums and operands fits into the registers."""
        return sums + operands + self.spare <= self.registers

    def lanes(self, dtype: str) -> int:
        """Return how many elements of a dtype fit into a vector."""
        return max(1, self.vector_bytes * 8 // int(tvm.DataType(dtype).bits))

    def uses_threads(self, unit: Work, amount: float) -> bool:
        """Return whether a kernel with so much work should use the thread pool."""
        return self.parallel and worth_threads(unit, amount)

    # The comparison is in the artifact, the number of threads is not: code from the cache runs on
    # any number.
    def threads_condition(self, unit: Work, amount: Index) -> bool | PrimExpr:
        """Return ``uses_threads`` of an amount that may be dynamic: then a condition at run time."""
        number = static_int(amount)
        if number is not None or not self.parallel:
            return self.uses_threads(unit, number or 0)
        return amount >= as_expr(unit.value)


#: How the names of the arm64 cores begin that have four units: Apple's, and Arm's largest.
_FOUR_UNITS = ("apple-", "neoverse-v", "cortex-x")


@cache
def cpu_model(target: tvm.target.Target) -> CpuModel:
    """Return the model of a target: AVX-512, AVX2 or AVX, NEON, else vectors of 16 bytes."""
    features = {str(name) for name in codegen.llvm_get_cpu_features(target)}
    if "avx512f" in features:
        return CpuModel(64, 32)
    if "avx" in features:
        return CpuModel(32, 16, latency=5, busy_sums=10)
    if "neon" not in features:
        return CpuModel(16, 16)
    if str(target.attrs.get("mcpu", "")).startswith(_FOUR_UNITS):
        return CpuModel(16, 32, spare=3, units=4, busy_sums=24)
    return CpuModel(16, 32, spare=3)
