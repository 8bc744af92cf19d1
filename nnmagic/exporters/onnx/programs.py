"""Export the body of a function: its chain of lets becomes nodes, its branches and loops If and Loop.

The program is in let normal form, so that every operand is a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.registry import OPERATORS
from nnmagic.exporters.onnx.sites import ExportCall
from nnmagic.exporters.onnx.writer import OnnxGraph, OnnxTensor, Writer, graph_proto
from nnmagic.importers.onnx.errors import Problems
from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS as RELAY_OPERATORS
from nnmagic.relay.structure.callgraph import mentions
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import ARRAY_DTYPES, NUMPY_DTYPES, TensorType, TupleType, Type, dtype_of_array


@dataclass(frozen=True, slots=True)
class RefusedValue:
    """A value that could not be exported, which was reported."""


@dataclass(frozen=True, slots=True)
class ExportedFunction:
    """A function; ``itself``: the name by which its body calls it, if it does."""

    function: ir.Function
    itself: ir.Var | str | None = None


Value = OnnxTensor | tuple["Value", ...] | ExportedFunction | RefusedValue
REFUSED = RefusedValue()


class ProgramExporter:
    """Export expressions to a writer; problems are collected."""

    def __init__(self, module: Module, writer: Writer, problems: Problems[Span | None]) -> None:
        self.module = module
        self.writer = writer
        self.problems = problems
        #: What each variable stands for; a function's are bound anew by each call.
        self.values: dict[ir.Expr, Value] = {}
        self._open: list[ir.Function] = []

    def refuse(self, what: str, span: Span | None, reason: str, hint: str | None = None) -> RefusedValue:
        """Report what cannot be exported."""
        self.problems.add(what, span, ExportRefusalError(reason, hint))
        return REFUSED

    def block(self, expr: ir.Expr) -> Value:
        """Export a chain of lets and return its result."""
        while isinstance(expr, ir.Let):
            self.bind_let(expr)
            expr = expr.body
        return self.value(expr)

    def bind_let(self, let: ir.Let) -> None:
        """Export the value of a let."""
        if isinstance(let.value, ir.Function):
            recursive = let.var in set(post_order(let.value.body))
            self.values[let.var] = ExportedFunction(let.value, let.var if recursive else None)
        else:
            self.values[let.var] = self.value(let.value)

    def value(self, expr: ir.Expr) -> Value:
        """Export an expression that is not a let."""
        match expr:
            case ir.Var():
                return self.values[expr]
            case ir.Constant(data=data):
                return self._constant(expr, data)
            case ir.Tuple(fields=fields):
                return tuple(self.value(field) for field in fields)
            case ir.TupleGetItem(tuple_value=whole, index=index):
                value = self.value(whole)
                return value[index] if isinstance(value, tuple) else REFUSED
            case ir.If():
                return self._branch(expr)
            case ir.Function():
                return ExportedFunction(expr)
            case ir.GlobalVar(name=name):
                function = self.module.functions[name]
                return ExportedFunction(function, name if mentions(name, function) else None)
            case ir.Match():
                return self._match(expr)
            case ir.Call(op=ir.OpRef()):
                return self._operator(expr)
            case ir.Call(op=ir.Constructor()) | ir.Constructor():
                return REFUSED  # what takes it apart, or gives it back, is reported
            case ir.Call():
                return self._call(expr)
            case _:
                return self.refuse("reference", expr.span, "ONNX has no references")

    # -- values --------------------------------------------------------------------------------------

    def _constant(self, expr: ir.Constant, data: np.ndarray) -> Value:
        dtype = dtype_of_array(data)
        if dtype not in NUMPY_DTYPES:
            return self.refuse("constant", expr.span, f"the dtype {dtype} is not supported")
        return OnnxTensor(self.writer.constant(data), TensorType(data.shape, dtype))

    def _operator(self, call: ir.Call) -> Value:
        name = cast("ir.OpRef", call.op).name
        values = [field for arg in call.args for field in flatten(self.value(arg))]
        declaration = OPERATORS.get(name)
        if declaration is None:
            return self.refuse(name, call.span, "no operator of ONNX computes it")
        if not all(isinstance(value, OnnxTensor) for value in values):
            return REFUSED
        tensors = tuple(cast("list[OnnxTensor]", values))
        result = call.checked_type
        assert result is not None
        attrs = RELAY_OPERATORS[name].complete_attrs(call.attrs)
        try:
            results = declaration.rule(ExportCall(tensors, attrs, result, self.writer))
        except ExportRefusalError as error:
            self.problems.add(name, call.span, error)
            return REFUSED
        if isinstance(results, str):
            return OnnxTensor(results, cast("TensorType", result))
        fields = cast("TupleType", result).fields
        return tuple(
            OnnxTensor(field, cast("TensorType", type_)) for field, type_ in zip(results, fields, strict=True)
        )

    def _call(self, call: ir.Call) -> Value:
        from nnmagic.exporters.onnx.loops import export_loop

        callee = self.value(call.op)
        args = [self.value(arg) for arg in call.args]
        if not isinstance(callee, ExportedFunction):
            return self.refuse("call", call.span, "ONNX has no functions that are values")
        if callee.itself is not None:
            return export_loop(self, callee, args, call)
        if callee.function in self._open:
            return self.refuse("call", call.span, "ONNX has no recursion", "write it as a loop")
        self._open.append(callee.function)
        self.values.update(zip(callee.function.params, args, strict=True))
        result = self.block(callee.function.body)
        self._open.pop()
        return result

    def _match(self, match: ir.Match) -> Value:
        self.value(match.data)
        if match.assertion is None:
            return self.refuse("match", match.span, "ONNX has no data types")
        self.refuse("assert", match.span, "ONNX has no assertions", "export a function without it")
        return self.block(match.clauses[0].rhs)

    # -- branches ------------------------------------------------------------------------------------

    def _branch(self, expr: ir.If) -> Value:
        cond = self.value(expr.cond)
        type_ = expr.checked_type
        if not _of_tensors(type_):
            self.block(expr.true_branch)
            self.block(expr.false_branch)
            return REFUSED
        assert type_ is not None
        with self.writer.inner_graph() as then:
            one = list(flatten(self.block(expr.true_branch)))
            outputs = self.writer.own_outputs([tensor for tensor in one if isinstance(tensor, OnnxTensor)])
        with self.writer.inner_graph() as other:
            two = list(flatten(self.block(expr.false_branch)))
            others = self.writer.own_outputs([tensor for tensor in two if isinstance(tensor, OnnxTensor)])
        if not isinstance(cond, OnnxTensor) or len(outputs) != len(one) or len(others) != len(two):
            return REFUSED
        types = flat_types(type_)
        names = self.write_if(cond, (then, outputs), (other, others))
        return cast("Value", rebuild(type_, map(OnnxTensor, names, types)))

    def write_if(
        self,
        cond: OnnxTensor,
        then: tuple[OnnxGraph, Sequence[OnnxTensor]],
        other: tuple[OnnxGraph, Sequence[OnnxTensor]],
    ) -> list[str]:
        """Write an If of two graphs with their outputs, and return the names of what it gives."""
        graphs = [
            graph_proto(graph, name, (), outputs)
            for name, (graph, outputs) in (("then", then), ("else", other))
        ]
        return self.writer.node(
            "If", cond.name, outputs=len(then[1]), then_branch=graphs[0], else_branch=graphs[1]
        )


def flat_types(type_: Type) -> list[TensorType]:
    """Return the types of the tensors of a value."""
    if isinstance(type_, TupleType):
        return [part for item in type_.fields for part in flat_types(item)]
    return [cast("TensorType", type_)]


def _of_tensors(type_: Type | None) -> bool:
    match type_:
        case TupleType(fields=fields):
            return all(map(_of_tensors, fields))
        case _:
            return isinstance(type_, TensorType)


def refuse_type(name: str, type_: Type) -> str | None:
    """Return why ONNX has no parameter or result of a type; None if it has."""
    match type_:
        case TensorType(dtype=dtype) if dtype in NUMPY_DTYPES:
            return None
        case TensorType(dtype=dtype) if dtype in ARRAY_DTYPES:
            return f"{name} is complex"
        case TupleType(fields=fields):
            return next((why for field in fields if (why := refuse_type(name, field))), None)
        case _:
            return f"{name} is no tensor but {type_}"
