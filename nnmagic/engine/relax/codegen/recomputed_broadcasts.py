"""Let each kernel compute a cheap broadcast of smaller arrays for itself, instead of reading a large array.

``d = x[:, None] - x[None]`` costs an instruction an element, and has as many elements as all pairs. Where
several kernels use it, each gets a call of its own, with which TVM's fusion then joins it. So are the windows
of a signal, of which the mean and the deviation are taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax, tirx

from nnmagic.engine.relax.legalize.kernel_calls import (
    is_kernel_call,
    kernels_of,
    map_bindings,
    map_functions,
    with_operands,
)
from nnmagic.engine.relax.legalize.registry import BROADCAST, INJECTIVE, REDUCES, REDUCTION
from nnmagic.engine.relax.legalize.slicing import COPIES_COLUMNS
from nnmagic.engine.relax.schedules.elementwise.costs import CHEAP, count_instructions
from nnmagic.engine.relax.schedules.kernel_analysis import read_kernel
from nnmagic.engine.relax.tir.builders import static_int
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import rewrite, visit

#: The most kernels that compute the same broadcast.
_MOST_USES = 4


def recompute_broadcasts(module: tvm.IRModule) -> tvm.IRModule:
    """Compute cheap broadcasts in each kernel that uses them; kernels are annotated with their patterns."""
    kernels = kernels_of(module)
    cheap = {var for var, kernel in kernels.items() if _is_cheap(kernel)}

    def recompute(function: relax.Function) -> relax.Function:
        repeated = _find_repeated_calls(function, kernels, cheap)
        return rewrite(function, [(relax.SeqExpr, _Copies(repeated).add)]) if repeated else function

    return map_functions(module, recompute)


def _is_cheap(kernel: tirx.PrimFunc) -> bool:
    """Return whether a kernel computes an array by few instructions from arrays that are all smaller."""
    if COPIES_COLUMNS in kernel.attrs:  # of rows, there are no copies to save
        return True
    read = read_kernel(kernel)
    *sources, result = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    if int(kernel.attrs["op_pattern"]) > (INJECTIVE if len(sources) == 1 else BROADCAST):
        return False
    if read is None or len(read.stages) != 1 or count_instructions(read.stages[0].value) > CHEAP:
        return False
    return bool(sources) and all(_is_smaller(source.ty.shape, result.ty.shape) for source in sources)


def _is_smaller(shape: Sequence[Any], large: Sequence[Any]) -> bool:
    """Return whether a shape lacks an axis of the other one, to which it broadcasts."""
    missing = [*large[: len(large) - len(shape)]]
    missing += [b for a, b in zip(shape[::-1], large[::-1], strict=False) if static_int(a) == 1]
    return any(static_int(size) != 1 for size in missing)


def _find_repeated_calls(
    function: relax.Function, kernels: Mapping[tvm.ir.GlobalVar, tirx.PrimFunc], cheap: set[Any]
) -> dict[int, relax.Call]:
    """Return calls of cheap kernels whose results several kernels use, by the hashes of these results."""
    repeated: dict[int, relax.Call] = {}
    uses: Counter[int] = Counter()
    all_uses: Counter[int] = Counter()

    def bind(binding: relax.VarBinding) -> None:
        call = binding.value
        if not is_kernel_call(call):
            return
        if call.args[0] in cheap:
            repeated[hash(binding.var)] = call
        kernel = kernels[call.args[0]]
        pattern = int(kernel.attrs["op_pattern"])
        if pattern <= INJECTIVE or pattern == REDUCTION or REDUCES in kernel.attrs:
            uses.update(hash(field) for field in call.args[1].fields)

    visit(function, [(relax.VarBinding, bind), (relax.Var, lambda var: all_uses.update([hash(var)]))])
    return {
        var: call
        for var, call in repeated.items()
        if 2 <= uses[var] <= _MOST_USES and all_uses[var] == uses[var] + 1  # and its definition
    }


class _Copies:
    """Gives each use of some results but the first a call of its own."""

    def __init__(self, repeated: Mapping[int, relax.Call]) -> None:
        self._repeated = repeated
        self._used: set[int] = set()

    def add(self, sequence: relax.SeqExpr) -> relax.SeqExpr:
        """Return bindings with the calls."""
        return map_bindings(sequence, self._bindings)

    def _bindings(self, bindings: Sequence[RelaxExpr]) -> list[RelaxExpr]:
        result: list[RelaxExpr] = []
        for binding in bindings:
            call = binding.value
            copies: dict[int, RelaxExpr] = {}
            if is_kernel_call(call):
                for field in call.args[1].fields:
                    key = hash(field)
                    if key in self._repeated and key in self._used and key not in copies:
                        copies[key] = type(field)(str(field.name), field.ty)
                        result.append(relax.VarBinding(copies[key], self._repeated[key]))
                self._used.update(hash(field) for field in call.args[1].fields)
            result.append(with_operands(binding, copies))
        return result
