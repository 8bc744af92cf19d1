"""Let assignments to nearly all elements of an array, one after the other, be one kernel.

Each of ``h[1:] += t[:-1]; h[:-1] += t[1:]`` changes ``h`` where it is, kept apart from what reads the array
afterwards. As that is the next assignment alone, one kernel computes both, and writes the array once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import tvm
from tvm import ir, relax, tirx

from nnmagic.engine.relax.legalize.kernel_cache import IS_RESHAPE
from nnmagic.engine.relax.legalize.kernel_calls import (
    is_kernel_call,
    kernels_of,
    map_bindings,
    map_functions,
    with_operands,
)
from nnmagic.engine.relax.legalize.registry import INJECTIVE, OPAQUE
from nnmagic.engine.relax.legalize.slicing import ASSIGNS_MOST
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import rewrite


def join_updates(module: tvm.IRModule) -> tvm.IRModule:
    """Return a module in which such assignments may be fused; kernels are annotated with their patterns."""
    kernels = kernels_of(module)
    if not any(ASSIGNS_MOST in (kernel.attrs or {}) for kernel in kernels.values()):
        return module
    join = partial(_join, kernels)
    return map_functions(module, lambda function: rewrite(function, [(relax.SeqExpr, join)]))


def _join(kernels: Mapping[ir.GlobalVar, tirx.PrimFunc], sequence: relax.SeqExpr) -> relax.SeqExpr:
    bindings = [binding for block in sequence.blocks for binding in block.bindings]
    values = {binding.var: binding.value for binding in bindings}
    joined: dict[int, RelaxExpr] = {}
    for position, binding in enumerate(bindings):
        if _is_kept_apart(binding.value, kernels):
            (before,) = binding.value.args[1].fields
            follows = _is_only_for_next(binding.var, bindings[position + 1 :], sequence.body, kernels)
            if follows and before in values and _assigns_most(values[before], kernels):
                joined[hash(binding.var)] = before

    def without_joined(bindings: Sequence[RelaxExpr]) -> list[RelaxExpr]:
        return [with_operands(each, joined) for each in bindings if hash(each.var) not in joined]

    return map_bindings(sequence, without_joined) if joined else sequence


def _is_only_for_next(
    array: RelaxExpr,
    following: Sequence[RelaxExpr],
    result: RelaxExpr,
    kernels: Mapping[ir.GlobalVar, tirx.PrimFunc],
) -> bool:
    """Return whether an array is read for the next assignment to it alone, by element-wise kernels."""
    reads = {array}
    for position, binding in enumerate(following):
        used = set(relax.analysis.free_vars(binding.value))
        if reads.isdisjoint(used):
            continue
        value = binding.value
        if _assigns_most(value, kernels) and value.args[1].fields[0].same_as(array):
            rest = following[position + 1 :]
            return reads.isdisjoint(relax.analysis.free_vars(result)) and not any(
                not reads.isdisjoint(relax.analysis.free_vars(each.value)) for each in rest
            )
        if not is_kernel_call(value) or int(kernels[value.args[0]].attrs["op_pattern"]) > INJECTIVE:
            return False
        reads.add(binding.var)
    return False


def _is_kept_apart(value: RelaxExpr, kernels: Mapping[ir.GlobalVar, tirx.PrimFunc]) -> bool:
    """Return whether a value is an array once more, so that it is fused with nothing that reads it."""
    attrs = kernels[value.args[0]].attrs if is_kernel_call(value) else {}
    return IS_RESHAPE in attrs and len(value.args[1].fields) == 1 and int(attrs["op_pattern"]) == OPAQUE


def _assigns_most(value: RelaxExpr, kernels: Mapping[ir.GlobalVar, tirx.PrimFunc]) -> bool:
    """Return whether a value is nearly all of an array anew, and may be fused."""
    attrs = kernels[value.args[0]].attrs if is_kernel_call(value) else {}
    return ASSIGNS_MOST in attrs and int(attrs["op_pattern"]) <= INJECTIVE
