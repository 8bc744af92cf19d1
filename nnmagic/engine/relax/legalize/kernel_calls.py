"""Read and rewrite the calls of kernels in Relax, for the passes that order and fuse them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeGuard

import tvm
from tvm import relax, tirx

from nnmagic.engine.relax.tir.types import RelaxExpr

#: The operator of Relax that calls a kernel: of its name, the arrays, and sizes if there are any.
CALL_TIR = tvm.ir.Op.get("relax.call_tir")


def is_kernel_call(value: RelaxExpr | None) -> TypeGuard[RelaxExpr]:
    """Return whether there is an expression, and it calls a kernel."""
    return isinstance(value, relax.Call) and value.op == CALL_TIR


def kernels_of(module: tvm.IRModule) -> dict[tvm.ir.GlobalVar, tirx.PrimFunc]:
    """Return the kernels of a module by their names."""
    return {var: each for var, each in module.functions_items() if isinstance(each, tirx.PrimFunc)}


def map_functions(module: tvm.IRModule, change: Callable[[relax.Function], relax.Function]) -> tvm.IRModule:
    """Return a module whose functions of Relax are changed; its kernels stay."""
    functions = {
        var: change(each) if isinstance(each, relax.Function) else each
        for var, each in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def map_bindings(
    sequence: relax.SeqExpr, change: Callable[[Sequence[RelaxExpr]], Sequence[RelaxExpr]]
) -> relax.SeqExpr:
    """Return a sequence with other bindings in each of its blocks; itself if these are the same."""
    bindings = [change(block.bindings) for block in sequence.blocks]
    pairs = zip(bindings, sequence.blocks, strict=True)
    if all(list(new) == list(block.bindings) for new, block in pairs):
        return sequence
    blocks = [type(old)(new, old.span) for new, old in zip(bindings, sequence.blocks, strict=True)]
    changed = relax.SeqExpr(blocks, sequence.body)
    relax.expr._update_type(changed, sequence.ty)
    return changed


def with_parts(call: RelaxExpr, args: Sequence[RelaxExpr], attrs: tvm.ir.Attrs | None) -> RelaxExpr:
    """Return a call of the same type and span with other arguments and attributes."""
    changed = relax.Call(call.op, args, attrs, call.ty_args, span=call.span)
    relax.expr._update_type(changed, call.ty)
    return changed


def with_operands(binding: RelaxExpr, others: Mapping[int, RelaxExpr]) -> RelaxExpr:
    """Return the binding of a kernel's call with other variables, by the hashes of those before."""
    call = binding.value
    if not is_kernel_call(call):
        return binding
    used = [binding.var, *call.args[1].fields]
    var, *fields = (others.get(hash(each), each) for each in used)
    if all(new is old for new, old in zip((var, *fields), used, strict=True)):
        return binding
    return relax.VarBinding(
        var, with_parts(call, [call.args[0], relax.Tuple(fields), *call.args[2:]], call.attrs)
    )
