"""Remember which expressions of the source each kernel computes.

A call of Relax has the span of the call of Relay that it was lowered from, through legalization and fusion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache

import tvm
from tvm import ir, relax

from nnmagic.diagnostics import Span
from nnmagic.engine.relax.legalize.kernel_cache import with_span
from nnmagic.engine.relax.tir.types import RelaxExpr

_CALL_TIR = tvm.ir.Op.get("relax.call_tir")

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

    """

    def __init__(self) -> None:
        self.kernels: dict[str, set[Span]] = defaultdict(set)
        self.functions: dict[str, set[Span]] = defaultdict(set)

    def collector(self) -> tvm.transform.Pass:
        """Return a pass that reads a module whose operators are grouped, but not yet fused."""

        def read(module: tvm.IRModule, _context: tvm.transform.PassContext) -> tvm.IRModule:
            for var, function in module.functions_items():
                if isinstance(function, relax.Function):
                    self._read(var.name_hint, function)
            return module

        return tvm.transform.module_pass(read, opt_level=0)

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

    def _read(self, name: str, function: relax.Function) -> None:
        is_group = "Primitive" in (function.attrs or {})

        def look(node: RelaxExpr) -> None:
            if not isinstance(node, relax.Call) or node.span is None:
                return
            span = _as_span(node.span)
            self.functions[name].add(span)
            if is_group:
                self.kernels[name].add(span)
            elif node.op == _CALL_TIR:
                self.kernels[node.args[0].name_hint].add(span)

        relax.analysis.post_order_visit(function, look)


def _as_tvm(span: Span) -> ir.Span:
    return ir.Span(_source(span.filename), span.line, span.end_line, span.column, span.end_column)


def _as_span(span: ir.Span) -> Span:
    return Span(str(span.source_name.name), span.line, span.column, span.end_line, span.end_column)


@cache
def _source(filename: str) -> ir.SourceName:
    return ir.SourceName(filename)
