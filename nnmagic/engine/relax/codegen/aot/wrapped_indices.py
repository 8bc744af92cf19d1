"""Find the indices that count from the end if they are negative, where a check follows that says so.

``data[i if i >= 0 else i + n]`` waits for a comparison, a sum and a choice. Where the index is checked before
it is used, the check compares the index itself first: what is not in ``range(n)`` is rare, and counted from
the end in a branch that nobody waits for.
"""

from __future__ import annotations

from collections.abc import Iterator

import tvm_ffi
from tvm import tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.step_operands import values_read
from nnmagic.engine.relax.schedules.kernel_analysis import substitute
from nnmagic.engine.relax.tir.builders import collect_loads
from nnmagic.engine.relax.tir.types import Buffer, PrimExpr


def find_wrapped_indices(function: aot.NativeFunction) -> dict[aot.Register, tirx.Select]:
    """Return the registers that a check may count from the end, each with the choice that it is."""
    return {
        register: choice
        for region in aot.regions_of(function.body)
        for position, step in enumerate(region)
        if isinstance(step, aot.ScalarCode)
        for register, choice in _choices_of_end(step)
        if _is_checked_first(register, region[position + 1 :])
    }


def _choices_of_end(step: aot.ScalarCode) -> Iterator[tuple[aot.Register, tirx.Select]]:
    """Yield the registers that are an index or, if that is negative, another one."""
    computed: dict[Buffer, PrimExpr] = {}
    for number, stage in enumerate(step.stages):
        if not stage.is_elementwise:
            continue
        value = computed[stage.buffer] = substitute(stage.value, {}, computed)
        target = step.values[stage.buffer]
        if (
            not (isinstance(stage.value, tirx.Select) and isinstance(value, tirx.Select))
            or not isinstance(target, aot.Register)
            or target.dtype != "int64"
        ):
            continue
        later = {load.source for each in step.stages[number + 1 :] for load in collect_loads(*each.values)}
        is_negative = tirx.LT(value.false_value, tirx.const(0, "int64"))
        if stage.buffer not in later and tvm_ffi.structural_equal(value.condition, is_negative):
            yield target, stage.value


def _is_checked_first(register: aot.Register, rest: aot.Region) -> bool:
    """Return whether the first of some steps that reads a register checks that it is an index."""
    for step in rest:
        if any(register in values_read(each) for each in aot.steps_of([step])):
            return isinstance(step, aot.Check) and step.index is register
    return False
