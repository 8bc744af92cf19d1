"""Schedule the TIR kernels of a program: give each the loops that are fast on a machine.

A kernel comes here after fusion, with TVM's serial loops. Its kind is a block's annotation ``KIND``, which an
operator's rule sets (a product, a convolution), or else follows from its structure. A schedule returns the
function with other loops, or the same function if it has nothing better.
"""

from __future__ import annotations

from tvm import tirx

# These fill the table of schedules.
from nnmagic.engine.relax.schedules import independent_loops as _independent_loops  # noqa: F401
from nnmagic.engine.relax.schedules import layout_transform as _layout_transform  # noqa: F401
from nnmagic.engine.relax.schedules.broadcast_versions import schedule_versions
from nnmagic.engine.relax.schedules.convolution import schedule as _convolution  # noqa: F401
from nnmagic.engine.relax.schedules.elementwise import schedule as _elementwise  # noqa: F401
from nnmagic.engine.relax.schedules.machine_model import CpuModel, cpu_model
from nnmagic.engine.relax.schedules.matmul import schedule as _matmul  # noqa: F401
from nnmagic.engine.relax.schedules.reduction import schedule as _reduction  # noqa: F401
from nnmagic.engine.relax.schedules.registry import SCHEDULES, kind_of
from nnmagic.engine.relax.tir.empty_reductions import initialize_reductions
from nnmagic.engine.relax.tir.guarded_loads import guard_loads
from nnmagic.engine.relax.tir.regions import expand_regions


def apply_schedule(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    """Return the kernel with loops for the machine; itself where no schedule supports its kind."""
    return schedule_versions(function, lambda version: _apply_schedule(version, machine))


def _apply_schedule(function: tirx.PrimFunc, machine: CpuModel) -> tirx.PrimFunc:
    kind = kind_of(function)
    if kind != "elementwise":
        function = expand_regions(function)
    schedule = SCHEDULES.get(kind)
    if schedule is None:
        return initialize_reductions(function)
    if kind == "reduction":  # its schedule initializes reductions of no elements
        return initialize_reductions(schedule(guard_loads(function), machine))
    return schedule(guard_loads(initialize_reductions(function)), machine)


__all__ = ["SCHEDULES", "CpuModel", "apply_schedule", "cpu_model", "kind_of"]
