"""Remember which expressions of the source each kernel computes.

A call of Relax has the span of the call of Relay that it was lowered from, through legalization and fusion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import count

import tvm
from tvm import ir, relax

from nnmagic.diagnostics import Span
from nnmagic.engine.relax.legalize.kernel_cache import with_span
from nnmagic.engine.relax.legalize.kernel_calls import CALL_TIR, with_parts
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import collect, rewrite

#: What follows the name of a kernel in that of its form that changes an operand in place.
IN_PLACE = "_in_place_"


class OriginBuilder(relax.BlockBuilder):  # type: ignore[misc]  # TVM is untyped
    """A builder whose calls have the span of ``origin``, the call of Relay that is being lowered."""

    origin: Span | None = None

    def emit(self, expr: RelaxExpr, name_hint: str = "") -> RelaxExpr:
        """Bind an expression to a new variable."""
        if self.origin is not None and isinstance(expr, relax.Call) and expr.span is None:
            expr = with_span(expr, _as_tvm(self.origin))
        return super().emit(expr, name_hint)


class KernelOrigins:
    """The spans that the kernels of a program compute.

    Attributes:
        kernels: the spans by the name of a kernel.
        functions: the spans by the name of the Relax function that calls for them.
        heads: where the functions of the program are themselves, by name.

    """

    def __init__(self, heads: Mapping[str, Span | None] | None = None) -> None:
        self.heads = heads or {}
        self.kernels: dict[str, set[Span]] = defaultdict(set)
        self.functions: dict[str, set[Span]] = defaultdict(set)

    def read_while(
        self, grouping: Callable[[tvm.IRModule], tvm.IRModule] | None, module: tvm.IRModule
    ) -> tvm.IRModule:
        """Group operators by ``grouping``, and read the module before they are fused.

        Groups that compute the same become one kernel, whose spans are those of the first of them. So they
        are grouped once more with calls that all differ.
        """
        grouped = module if grouping is None else grouping(module)
        calls = _group_calls(grouped)
        names = [name for of_caller in calls.values() for name, _ in of_caller]
        apart = calls
        if grouping is not None and len(names) > len(set(names)):
            apart = _group_calls(grouping(_with_different_calls(module)))
        for caller, of_caller in calls.items():
            self._read(caller, grouped[caller])
            for (name, _), (_, group) in zip(of_caller, apart[caller], strict=True):
                self._read(name, group, kernel=name)
        return grouped

    def of(self, name: str, others: Iterable[str]) -> frozenset[Span]:
        """Return the spans of a kernel, or of a function without those that the other kernels have."""
        kernel = name if name in self.kernels else name.partition(IN_PLACE)[0]
        if kernel in self.kernels:
            return frozenset(self.kernels[kernel])
        elsewhere = {span for other in others for span in self.kernels.get(other, ())}
        return frozenset(self.functions.get(name, set()) - elsewhere)

    @property
    def every(self) -> frozenset[Span]:
        """All spans."""
        return frozenset().union(*self.functions.values())

    def _read(self, name: str, function: relax.Function, kernel: str | None = None) -> None:
        """Read the spans in a function; ``kernel``: what it becomes as a whole."""
        for call in collect(relax.Call, function):
            if call.span is None:
                continue
            span = as_span(call.span)
            self.functions[name].add(span)
            if kernel is not None:
                self.kernels[kernel].add(span)
            elif call.op == CALL_TIR:
                self.kernels[call.args[0].name_hint].add(span)


def _group_calls(module: tvm.IRModule) -> dict[str, list[tuple[str, relax.Function]]]:
    """Return the groups that each function calls, by name, in the order of the calls."""
    functions = {var: each for var, each in module.functions_items() if isinstance(each, relax.Function)}
    groups = {var: each for var, each in functions.items() if "Primitive" in (each.attrs or {})}
    return {
        var.name_hint: [
            (call.op.name_hint, groups[call.op])
            for call in collect(relax.Call, function)
            if call.op in groups
        ]
        for var, function in functions.items()
        if var not in groups
    }


def _with_different_calls(module: tvm.IRModule) -> tvm.IRModule:
    """Return a module in which no call of a kernel is equal to another one."""
    numbers = count()

    def number(call: RelaxExpr) -> RelaxExpr:
        if call.op != CALL_TIR:
            return call
        return with_parts(call, call.args, ir.make_node("ir.DictAttrs", number=next(numbers)))

    functions = {
        var: rewrite(function, [(relax.Call, number)]) if isinstance(function, relax.Function) else function
        for var, function in module.functions_items()
    }
    return tvm.IRModule(functions, attrs=module.attrs)


def _as_tvm(span: Span) -> ir.Span:
    return ir.Span(_source(span.filename), span.line, span.end_line, span.column, span.end_column)


def as_span(span: ir.Span) -> Span:
    """Return a span of TVM's as one of ours; its source is not known."""
    return Span(str(span.source_name.name), span.line, span.column, span.end_line, span.end_column)


@cache
def _source(filename: str) -> ir.SourceName:
    return ir.SourceName(filename)
