"""Fast loops for the TIR kernels of a program: which schedule a kernel gets, and for which machine.

A kernel comes here after fusion, as TVM's plain serial loops. What it is says a block's annotation ``KIND``,
which a rule of an operator sets (a product, a convolution), or else its structure. A schedule gives the same
function with other loops, or the very function where it has nothing better. Knows TVM only.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from nnmagic.engine.relax.schedules import elementwise, layout_transform  # noqa: F401  # fill the table of schedules
from nnmagic.engine.relax.schedules.convolution import schedule as _convolution  # noqa: F401
from nnmagic.engine.relax.schedules.machine_model import CpuModel, cpu_model
from nnmagic.engine.relax.schedules.matmul import schedule as _matmul  # noqa: F401
from nnmagic.engine.relax.schedules.reduction import schedule as _reduction  # noqa: F401
from nnmagic.engine.relax.schedules.registry import SCHEDULES, kind_of
from nnmagic.engine.relax.tir.guarded_loads import guard_loads


def apply_schedule(function: tirx.PrimFunc, machine: CpuModel) -> Any:
    """The kernel with loops for the machine; the kernel itself where no schedule knows its kind."""
    schedule = SCHEDULES.get(kind_of(function))
    return function if schedule is None else schedule(guard_loads(function), machine)


__all__ = ["SCHEDULES", "CpuModel", "apply_schedule", "cpu_model", "kind_of"]
