"""Choose between threads and one core: at run time where only the call knows how much work there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, Stmt


def choose_threads(
    machine: CpuModel, unit: Work, factors: Sequence[Extent], build: Callable[[bool], Stmt]
) -> Stmt:
    """Build the loops of a kernel with so much work, the product of ``factors``.

    ``build`` gets whether threads share the loops. Where some factors are dynamic, there are two versions,
    unless one element of these is enough work for threads.
    """
    static, dynamic = split_factors(factors)
    if not dynamic or not machine.parallel or machine.uses_threads(unit, static):
        return build(machine.uses_threads(unit, static))
    amount: PrimExpr = tirx.const(static, "int64")
    for factor in dynamic:
        amount = amount * factor
    enough = amount >= tirx.const(unit.value, "int64")
    return tirx.IfThenElse(enough, *(build(threads) for threads in (True, False)))


def split_factors(factors: Sequence[Extent]) -> tuple[int, list[PrimExpr]]:
    """Return the product of the static factors, and the dynamic ones."""
    static, dynamic = 1, []
    for factor in factors:
        number = static_int(factor)
        if number is None:
            dynamic.append(factor)
        else:
            static *= number
    return static, dynamic
