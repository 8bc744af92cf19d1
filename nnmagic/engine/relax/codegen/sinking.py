"""Sink kernels that change an array below those that read it, so that they can change it in place.

Relay has no order among calls of operators, and lowering gives them one in which a read of an array may come
after the assignment that replaces it. A kernel that is sunk runs just before the first use of its result.
"""

from __future__ import annotations

from functools import partial

import tvm
from tvm import ir, relax

from nnmagic.engine.relax.codegen.aot.destructive_updates import changed_in_place
from nnmagic.engine.relax.legalize.kernel_calls import is_kernel_call, map_functions
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import rewrite


def sink_changes(module: tvm.IRModule) -> tvm.IRModule:
    """Return a module whose functions change an array after they have read it, where that is possible."""
    numbers: dict[ir.GlobalVar, int | None] = {}
    sink = partial(_sink, module, numbers)
    return map_functions(module, lambda function: rewrite(function, [(relax.SeqExpr, sink)]))


def _sink(
    module: tvm.IRModule, numbers: dict[ir.GlobalVar, int | None], sequence: relax.SeqExpr
) -> relax.SeqExpr:
    """Sink the kernels of a sequence; ``numbers``: which array each kernel may change."""
    bindings = [binding for block in sequence.blocks for binding in block.bindings]
    reads: dict[RelaxExpr, set[RelaxExpr]] = {}
    order = list(bindings)
    for binding in reversed(bindings):
        array = _changed_array(module, numbers, binding.value)
        if array is None:
            continue
        reads = reads or {each.var: set(relax.analysis.free_vars(each.value)) for each in bindings}
        position = order.index(binding)
        following = range(position + 1, len(order))
        user = next(
            (at for at in following if binding.var in reads[order[at].var] or _may_fail(order[at].value)),
            len(order),
        )
        if any(array in reads[each.var] for each in order[position + 1 : user]):
            order.insert(user - 1, order.pop(position))
    if order == bindings:
        return sequence
    sunk = relax.SeqExpr([relax.BindingBlock(order)], sequence.body)
    relax.expr._update_type(sunk, sequence.ty)
    return sunk


def _may_fail(value: RelaxExpr) -> bool:
    """Return whether a value is a check: what a call changed before it failed, its caller sees."""
    return isinstance(value, ir.Call) and isinstance(value.op, relax.ExternFunc)


def _changed_array(
    module: tvm.IRModule, numbers: dict[ir.GlobalVar, int | None], value: RelaxExpr
) -> RelaxExpr | None:
    """Return the array that a kernel may change, if a call of one is the value."""
    if not is_kernel_call(value):
        return None
    kernel = value.args[0]
    if kernel not in numbers:
        found = changed_in_place(module[kernel])
        numbers[kernel] = None if found is None else found[0]
    number = numbers[kernel]
    arrays = [operand for operand in value.args[1].fields if isinstance(operand.ty, relax.TensorType)]
    return None if number is None else arrays[number]
