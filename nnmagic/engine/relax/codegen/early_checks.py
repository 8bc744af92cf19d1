"""Check indices and name sizes before what is computed meanwhile.

A check that may raise ends the calls that TVM fuses with each other, as a size that gets a name does. Between
such calls, what a check needs comes first, then the check. An array of indices that the check reads would be
in memory: where it is cheap, the check has calls of its own for the element-wise part, so that what reads at
the indices is fused with what computes them. Checks of arrays of one shape share one pass over the elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import tvm
import tvm_ffi
from tvm import relax, tirx

from nnmagic.engine.relax.legalize.extern_loops import COPIES_FIRST
from nnmagic.engine.relax.legalize.index_checks import (
    CHECKS_INDICES,
    FROM_END,
    MOST_JOINED,
    find_first_bad,
    report_of,
)
from nnmagic.engine.relax.legalize.kernel_calls import (
    is_kernel_call,
    kernels_of,
    map_bindings,
    with_operands,
)
from nnmagic.engine.relax.legalize.registry import INJECTIVE, OPAQUE, REDUCTION
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.callbacks import INDEX_IN_RANGE, REQUIRED, SHAPES_FIT, SIZES_NAMED
from nnmagic.engine.relax.schedules.elementwise.costs import count_instructions
from nnmagic.engine.relax.schedules.kernel_analysis import read_kernel
from nnmagic.engine.relax.schedules.reduction.analysis import count_costly
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import collect, rewrite

#: The instructions up to which the indices of a check are computed twice.
_MOST_INSTRUCTIONS = 64

_TO_SHAPE = tvm.ir.Op.get("relax.tensor_to_shape")

#: Kernels by their names.
_Kernels: TypeAlias = Mapping[tvm.ir.GlobalVar, tirx.PrimFunc]


def check_early(module: tvm.IRModule) -> tvm.IRModule:
    """Move checks and names of sizes to where these can be known; kernels have their patterns."""
    kernels = kernels_of(module)
    functions = [each for each in module.functions.values() if isinstance(each, relax.Function)]
    names_sizes = any(each.global_symbol == SIZES_NAMED for each in collect(relax.ExternFunc, *functions))
    if not names_sizes and not any(CHECKS_INDICES in kernel.attrs for kernel in kernels.values()):
        return module
    builder = relax.BlockBuilder(relax.transform.ToNonDataflow()(module))

    def in_order(sequence: relax.SeqExpr) -> relax.SeqExpr:
        return map_bindings(sequence, lambda bindings: _Order(kernels, builder).add(bindings))

    changed = {
        var: rewrite(function, [(relax.SeqExpr, in_order)])
        for var, function in builder.get().functions_items()
        if isinstance(function, relax.Function)
    }
    # What joins checks has new kernels, which the builder has.
    ordered = tvm.IRModule({**dict(builder.get().functions_items()), **changed}, attrs=module.attrs)
    return relax.transform.ConvertToDataflow(1)(ordered)


class _Order:
    """Puts bindings in order.

    first: the checks since the last call that no other may pass, and what they need. pending: the calls
    without effects since then, by the hashes of their results. checks: those of indices behind them.
    """

    def __init__(self, kernels: _Kernels, builder: relax.BlockBuilder) -> None:
        self._kernels, self._builder = kernels, builder
        self._first: list[RelaxExpr] = []
        self._checks: list[RelaxExpr] = []
        self._pending: dict[int, RelaxExpr] = {}

    def add(self, bindings: Iterable[RelaxExpr]) -> list[RelaxExpr]:
        """Return all bindings."""
        ordered: list[RelaxExpr] = []
        for binding in bindings:
            value = binding.value
            name = getattr(value.op, "global_symbol", "") if isinstance(value, relax.Call) else ""
            if name == INDEX_IN_RANGE and self._checks_array(value.args[0]):
                self._checks.append(binding)
            elif name in (REQUIRED, SHAPES_FIT) and not any(hash(arg) in self._pending for arg in value.args):
                self._place_checks()
                self._first.append(binding)
            elif name == SIZES_NAMED or _is_shape(binding):
                self._place_checks()
                self._move_first(relax.analysis.free_vars(value))
                self._first.append(binding)
            elif isinstance(binding, relax.VarBinding) and is_kernel_call(value) and not self._assigns(value):
                self._pending[hash(binding.var)] = binding
            else:
                ordered += [*self._flush(), binding]
        return ordered + self._flush()

    def _flush(self) -> list[RelaxExpr]:
        self._place_checks()
        bindings = [*self._first, *self._pending.values()]
        self._first, self._pending = [], {}
        return bindings

    def _assigns(self, call: RelaxExpr) -> bool:
        """Return whether a kernel assigns elements: what a call changed before it failed, its caller sees."""
        return COPIES_FIRST in (self._kernels[call.args[0]].attrs or {})

    def _checks_array(self, report: RelaxExpr) -> bool:
        binding = self._pending.get(hash(report))
        return binding is not None and CHECKS_INDICES in self._kernels[binding.value.args[0]].attrs

    def _place_checks(self) -> None:
        """Put the checks of indices first, behind what they need."""
        groups: dict[object, list[RelaxExpr]] = {}
        for check in self._checks:
            indices = self._pending[hash(check.value.args[0])].value.args[1].fields[0]
            groups.setdefault(tvm_ffi.StructuralKey(list(indices.ty.shape.values)), []).append(check)
        for checks in groups.values():
            for start in range(0, len(checks), MOST_JOINED):
                self._place_together(checks[start : start + MOST_JOINED])
        self._first += self._checks
        self._checks = []

    def _move_first(self, values: Iterable[RelaxExpr]) -> None:
        """Put what is pending of some values, and what they need, first."""
        moved = self._needed([self._pending[key] for key in map(hash, values) if key in self._pending])
        self._first += [binding for key, binding in self._pending.items() if key in moved]
        self._pending = {key: binding for key, binding in self._pending.items() if key not in moved}

    def _place_together(self, checks: Sequence[RelaxExpr]) -> None:
        """Put what checks of arrays of one shape need first."""
        finders = [self._pending.pop(hash(check.value.args[0])) for check in checks]
        needed = self._needed(finders)
        cheap = self._cheap(needed, len(finders))
        moved = self._needed([self._pending[key] for key in needed if key not in cheap])
        copies = {
            key: type(binding.var)(str(binding.var.name), binding.var.ty)
            for key, binding in self._pending.items()
            if key in cheap and key not in moved
        }
        copied = [binding for key, binding in self._pending.items() if key in copies]
        self._first += [binding for key, binding in self._pending.items() if key in moved]
        finders = [with_operands(binding, copies) for binding in finders]
        self._first += [with_operands(binding, copies) for binding in copied]
        self._first += finders if len(finders) == 1 else self._join(finders, checks)
        for key in moved:
            del self._pending[key]

    def _join(self, finders: Sequence[RelaxExpr], checks: Sequence[RelaxExpr]) -> list[RelaxExpr]:
        """Return bindings that find what the finders do by one pass over the indices."""
        arrays = list(dict.fromkeys(binding.value.args[1].fields[0] for binding in finders))
        places = [arrays.index(binding.value.args[1].fields[0]) for binding in finders]
        counted = [
            int(self._kernels[binding.value.args[0]].attrs[CHECKS_INDICES]) == FROM_END for binding in finders
        ]
        sizes = [check.value.args[1].values[0] for check in checks]
        find = partial(find_first_bad, places=places, counted=counted)
        found = self._call(find, REDUCTION, arrays, relax.ShapeExpr(sizes))
        reports = []
        for at, size in enumerate(sizes):
            report = partial(report_of, number=len(finders) - at)
            reports.append(self._call(report, OPAQUE, found.var, relax.ShapeExpr([size])))
        joined = zip(finders, reports, strict=True)
        return [found, *(relax.VarBinding(old.var, new.value) for old, new in joined)]

    def _call(self, compute: Callable[..., Tensor], pattern: int, *args: object) -> RelaxExpr:
        """Return the binding of a call of a new kernel."""
        attrs = {"op_pattern": pattern}
        call = self._builder.normalize(
            self._builder.call_te(compute, *args, primfunc_name_hint="check_indices", primfunc_attrs=attrs)
        )
        return relax.VarBinding(relax.Var("found", call.ty), call)

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

    def _cheap(self, needed: set[int], checks: int) -> set[int]:
        """Return the element-wise calls of arrays; none if they have too many instructions for some checks.

        What costs more than an addition is not computed twice for several: a pass over the indices would keep
        it in memory, too.
        """
        cheap, instructions = set[int](), 0
        for key in needed:
            binding = self._pending[key]
            kernel = self._kernels[binding.value.args[0]]
            is_elementwise = int(kernel.attrs["op_pattern"]) <= INJECTIVE and binding.value.args[1].fields
            if not is_elementwise or not int(binding.var.ty.ndim):
                continue
            read = read_kernel(kernel)
            if read is None:
                return set()
            if checks > 1 and any(count_costly(stage.value) for stage in read.stages):
                continue
            cheap.add(key)
            instructions += sum(count_instructions(stage.value) for stage in read.stages)
        return cheap if instructions < _MOST_INSTRUCTIONS * checks else set()


def _is_shape(binding: RelaxExpr) -> bool:
    """Return whether a binding makes a shape of numbers, or names its sizes."""
    if isinstance(binding, relax.MatchCast):
        return isinstance(binding.ty, relax.ShapeType)
    return isinstance(binding.value, relax.Call) and binding.value.op == _TO_SHAPE
