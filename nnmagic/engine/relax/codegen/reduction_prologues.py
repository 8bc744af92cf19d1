"""Let reductions be fused with what computes their operand.

TVM's fusion takes a kernel that reduces and goes on, as means and softmax do, for one that only element-wise
operators can follow. Here each call with an operand that is computed for it alone, element by element, calls
a kernel that counts as a reduction: what is before it becomes a part of it, instead of what follows. What is
before is as large as the operand; what follows is often as small as the result of a reduction.

Nor does TVM fuse a slice with a reduction of it. Here one of columns counts as a broadcast; rows lie together
and are pointed at (``aot.views``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import tvm
from tvm import relax, tirx

from nnmagic.engine.relax.legalize import registry
from nnmagic.engine.relax.legalize.indexing import GATHERS
from nnmagic.engine.relax.legalize.kernel_calls import CALL_TIR, is_kernel_call, kernels_of, with_parts
from nnmagic.engine.relax.legalize.slicing import COPIES_COLUMNS
from nnmagic.engine.relax.tir.visitors import collect, rewrite, visit

#: The marks of kernels each of whose elements is one of their first operand.
_READERS = {COPIES_COLUMNS, GATHERS}


def fuse_before_reductions(module: tvm.IRModule) -> tvm.IRModule:
    """Have kernels fused into reductions after them; kernels are annotated with their patterns."""
    kernels = kernels_of(module)
    if not any(_reduces(kernel) for kernel in kernels.values()):
        return module
    functions = {var: each for var, each in module.functions_items() if isinstance(each, relax.Function)}
    changes = {
        hash(call): (call, pattern)
        for function in functions.values()
        for call, pattern in _find_changes(function, kernels)
    }
    return _with_patterns(module, functions, changes) if changes else module


def _pattern(kernel: tirx.PrimFunc) -> int:
    return int(kernel.attrs["op_pattern"])


def _reduces(kernel: tirx.PrimFunc) -> bool:
    return _pattern(kernel) == registry.REDUCTION or registry.REDUCES in kernel.attrs


def _find_changes(
    function: relax.Function, kernels: Mapping[tvm.ir.GlobalVar, tirx.PrimFunc]
) -> Iterator[tuple[relax.Call, int]]:
    """Yield the calls whose kernels get another pattern, with that."""
    operands = _operands_of_one_call(function, kernels)
    for call in _kernel_calls(function):
        kernel = kernels[call.args[0]]
        changes = [operands[hash(reader)] for reader in call.args[1].fields if hash(reader) in operands]
        if changes and registry.REDUCES in kernel.attrs:
            yield call, registry.REDUCTION
        if _reduces(kernel) or _pattern(kernel) <= registry.BROADCAST:
            readers = (
                reader for reader in changes if not _READERS.isdisjoint(kernels[reader.args[0]].attrs.keys())
            )
            yield from ((reader, registry.BROADCAST) for reader in readers)


def _kernel_calls(*functions: relax.Function) -> list[relax.Call]:
    return [call for call in collect(relax.Call, *functions) if call.op == CALL_TIR]


def _operands_of_one_call(
    function: relax.Function, kernels: Mapping[tvm.ir.GlobalVar, tirx.PrimFunc]
) -> dict[int, relax.Call]:
    """Return the element-wise calls whose results one call uses, by the hashes of these variables.

    Without those of which the kernel becomes a part of one before it, as of a product.
    """
    uses: Counter[int] = Counter()
    computed: dict[int, relax.Call] = {}
    after_others: set[int] = set()

    def use(*values: Any) -> None:
        uses.update({hash(value) for value in values if isinstance(value, relax.Var)})

    def gathers(call: relax.Call) -> bool:
        """Return whether a call reads at indices from what is in memory: else it would be computed often."""
        return GATHERS in kernels[call.args[0]].attrs and hash(call.args[1].fields[0]) not in computed

    def bind(binding: relax.VarBinding) -> None:
        value = binding.value
        use(value)
        if not is_kernel_call(value):
            return
        pattern = _pattern(kernels[value.args[0]])
        is_after_other = any(hash(field) in after_others for field in value.args[1].fields)
        if pattern == registry.OUT_ELEMENTWISE_FUSABLE or (pattern <= registry.INJECTIVE and is_after_other):
            after_others.add(hash(binding.var))
        elif pattern <= registry.INJECTIVE or gathers(value):
            computed[hash(binding.var)] = value

    visit(
        function,
        [
            (relax.Tuple, lambda node: use(*node.fields)),
            (relax.Call, lambda node: use(*node.args)),
            (relax.TupleGetItem, lambda node: use(node.tuple_value)),
            (relax.If, lambda node: use(node.cond)),
            (relax.SeqExpr, lambda node: use(node.body)),
            (relax.VarBinding, bind),
        ],
    )
    return {var: call for var, call in computed.items() if uses[var] == 1}


def _with_patterns(
    module: tvm.IRModule,
    functions: Mapping[tvm.ir.GlobalVar, relax.Function],
    changes: Mapping[int, tuple[relax.Call, int]],
) -> tvm.IRModule:
    """Return the module with other patterns of the kernels of these calls, but not of others."""
    everything = Counter(call.args[0] for call in _kernel_calls(*functions.values()))
    changed = Counter(call.args[0] for call, _ in changes.values())
    builder = relax.BlockBuilder(module)
    copies: dict[Any, Any] = {}
    for call, pattern in changes.values():
        kernel = call.args[0]
        if kernel in copies:
            continue
        copy = module[kernel].with_attr("op_pattern", pattern)
        if changed[kernel] == everything[kernel]:
            builder.update_func(kernel, copy)
            copies[kernel] = kernel
        else:
            copies[kernel] = builder.add_func(copy, kernel.name_hint)
    result = builder.get()

    def call_copy(call: relax.Call) -> relax.Call:
        if hash(call) not in changes or copies[call.args[0]].same_as(call.args[0]):
            return call
        return with_parts(call, [copies[call.args[0]], *call.args[1:]], call.attrs)

    for var, function in functions.items():
        result.update_func(var, rewrite(function, [(relax.Call, call_copy)]))
    return result
