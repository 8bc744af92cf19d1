"""Fast loops for the TIR kernels of a program: which schedule a kernel gets, and for which machine.

A kernel comes here after fusion, as TVM's plain serial loops. What it is says a block's annotation ``KIND``,
which a rule of an operator sets (a product, a convolution), or else its structure. A schedule gives the same
function with other loops, or the very function where it has nothing better. Knows TVM only.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from nnmagic.engine.relax.kernels import (  # noqa: F401  # they fill the table of schedules
    convolution,
    elementwise,
    layout,
    product,
    reductions,
)
from nnmagic.engine.relax.kernels.guards import guarded
from nnmagic.engine.relax.kernels.kinds import SCHEDULES, kind_of
from nnmagic.engine.relax.kernels.machine import Machine, machine_of


def scheduled(function: tirx.PrimFunc, machine: Machine) -> Any:
    """The kernel with loops for the machine; the kernel itself where no schedule knows its kind."""
    schedule = SCHEDULES.get(kind_of(function))
    return function if schedule is None else schedule(guarded(function), machine)


__all__ = ["SCHEDULES", "Machine", "kind_of", "machine_of", "scheduled"]
