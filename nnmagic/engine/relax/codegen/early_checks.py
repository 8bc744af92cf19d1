"""Check indices before what is computed meanwhile, from indices of their own where these are cheap.

A check that may raise ends the calls that TVM fuses with each other. Between such calls, what a check needs
comes first, then the check. An array of indices that the check reads would be in memory: the check has calls
of its own for the element-wise part, so that what reads at the indices is fused with what computes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import tvm
from tvm import relax, tirx

from nnmagic.engine.relax.legalize.extern_loops import COPIES_FIRST
from nnmagic.engine.relax.legalize.index_checks import CHECKS_INDICES
from nnmagic.engine.relax.legalize.kernel_calls import (
    is_kernel_call,
    kernels_of,
    map_bindings,
    map_functions,
    with_operands,
)
from nnmagic.engine.relax.legalize.registry import INJECTIVE
from nnmagic.engine.relax.runtime.callbacks import INDEX_IN_RANGE, REQUIRED, SHAPES_FIT
from nnmagic.engine.relax.schedules.elementwise.costs import count_instructions
from nnmagic.engine.relax.schedules.kernel_analysis import read_kernel
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import rewrite

#: The instructions up to which an index is computed twice.
_MOST_INSTRUCTIONS = 64

#: Kernels by their names.
_Kernels: TypeAlias = Mapping[tvm.ir.GlobalVar, tirx.PrimFunc]


def check_early(module: tvm.IRModule) -> tvm.IRModule:
    """Move checks of indices to where these can be known; kernels are annotated with their patterns."""
    kernels = kernels_of(module)
    if not any(CHECKS_INDICES in kernel.attrs for kernel in kernels.values()):
        return module

    def in_order(sequence: relax.SeqExpr) -> relax.SeqExpr:
        return map_bindings(sequence, lambda bindings: _Order(kernels).add(bindings))

    plain = relax.transform.ToNonDataflow()(module)
    ordered = map_functions(plain, lambda function: rewrite(function, [(relax.SeqExpr, in_order)]))
    return relax.transform.ConvertToDataflow(1)(ordered)


class _Order:
    """Puts bindings in order.

    first: the checks since the last call that no other may pass, and what they need. pending: the calls
    without effects since then, by the hashes of their results.
    """

    def __init__(self, kernels: _Kernels) -> None:
        self._kernels = kernels
        self._first: list[RelaxExpr] = []
        self._pending: dict[int, RelaxExpr] = {}

    def add(self, bindings: Iterable[RelaxExpr]) -> list[RelaxExpr]:
        """Return all bindings."""
        ordered: list[RelaxExpr] = []
        for binding in bindings:
            value = binding.value
            name = getattr(value.op, "global_symbol", "") if isinstance(value, relax.Call) else ""
            if name == INDEX_IN_RANGE and self._checks(value.args[0]):
                self._check(binding)
            elif name in (REQUIRED, SHAPES_FIT) and not any(hash(arg) in self._pending for arg in value.args):
                self._first.append(binding)
            elif isinstance(binding, relax.VarBinding) and is_kernel_call(value) and not self._assigns(value):
                self._pending[hash(binding.var)] = binding
            else:
                ordered += [*self._flush(), binding]
        return ordered + self._flush()

    def _flush(self) -> list[RelaxExpr]:
        bindings = [*self._first, *self._pending.values()]
        self._first, self._pending = [], {}
        return bindings

    def _assigns(self, call: RelaxExpr) -> bool:
        """Return whether a kernel assigns elements: what a call changed before it failed, its caller sees."""
        return COPIES_FIRST in (self._kernels[call.args[0]].attrs or {})

    def _checks(self, report: RelaxExpr) -> bool:
        binding = self._pending.get(hash(report))
        return binding is not None and CHECKS_INDICES in self._kernels[binding.value.args[0]].attrs

    def _check(self, check: RelaxExpr) -> None:
        """Put a check first, behind what it needs."""
        finder = self._pending.pop(hash(check.value.args[0]))
        needed = self._needed([finder])
        cheap = self._cheap(needed)
        moved = self._needed([self._pending[key] for key in needed if key not in cheap])
        copies = {
            key: type(binding.var)(str(binding.var.name), binding.var.ty)
            for key, binding in self._pending.items()
            if key in cheap and key not in moved
        }
        copied = [binding for key, binding in self._pending.items() if key in copies]
        self._first += [binding for key, binding in self._pending.items() if key in moved]
        self._first += [*(with_operands(binding, copies) for binding in (*copied, finder)), check]
        for key in moved:
            del self._pending[key]

    def _needed(self, bindings: Sequence[RelaxExpr]) -> set[int]:
        """Return what is pending of some bindings, and of what they need."""
        work, needed = list(bindings), set[int]()
        while work:
            binding = work.pop()
            needed |= {hash(binding.var)} & self._pending.keys()
            fields = [
                self._pending[key] for key in map(hash, binding.value.args[1].fields) if key in self._pending
            ]
            work += [each for each in fields if hash(each.var) not in needed]
        return needed

    def _cheap(self, needed: set[int]) -> set[int]:
        """Return the element-wise calls of arrays; none if they are not cheap together."""
        cheap, instructions = set[int](), 0
        for key in needed:
            binding = self._pending[key]
            kernel = self._kernels[binding.value.args[0]]
            is_elementwise = int(kernel.attrs["op_pattern"]) <= INJECTIVE and binding.value.args[1].fields
            if not is_elementwise or not int(binding.var.ty.ndim):
                continue
            cheap.add(key)
            read = read_kernel(kernel)
            if read is None:
                return set()
            instructions += sum(count_instructions(stage.value) for stage in read.stages)
        return cheap if instructions < _MOST_INSTRUCTIONS else set()
