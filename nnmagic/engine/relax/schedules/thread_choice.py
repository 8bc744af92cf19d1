"""Choose between threads and one core: at run time where only the call knows how much work there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import tirx

from nnmagic.engine.relax.schedules.machine_model import CpuModel, Work
from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, Stmt

#: The key of the statement around parallel loops whose value says whether threads share them.
THREADS = "nnmagic.threads"


def choose_threads(
    machine: CpuModel, unit: Work, factors: Sequence[Extent], build: Callable[[bool], Stmt]
) -> Stmt:
    """Build the loops of a kernel with so much work, the product of ``factors``.

    ``build`` gets whether the loops are parallel. Where some factors are dynamic, they are, and serial where
    the call has too little work, unless one element of these is enough work for threads.
    """
    static, dynamic = split_factors(factors)
    # Enough work in the static factors alone is enough whatever the dynamic ones are: sizes that
    # are zero only start threads in vain.
    if not dynamic or machine.uses_threads(unit, static):
        return build(machine.uses_threads(unit, static))
    amount: PrimExpr = tirx.const(static, "int64")
    for factor in dynamic:
        amount = amount * factor
    return parallel_if(machine.threads_condition(unit, amount), build)


def parallel_if(condition: bool | PrimExpr, build: Callable[[bool], Stmt]) -> Stmt:
    """Build loops that threads share, or not; where only the call knows, parallel ones with the condition."""
    loops = build(condition is not False)
    return loops if isinstance(condition, bool) else tirx.AttrStmt("default", THREADS, condition, loops)


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
