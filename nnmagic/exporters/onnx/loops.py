"""Export tail-recursive functions, which are Relay's loops, as Loop.

The body of such a function is a chain of lets, the header, that ends in an ``if``. If one branch only calls
the function again and the other never does, the loop is a while loop of the header's condition: rounds
compute the first branch, and the second follows the loop. Any other body is computed whole in each round,
which says whether it called itself, and carries the result beside the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from nnmagic.exporters.onnx.programs import (
    REFUSED,
    ExportedFunction,
    ProgramExporter,
    RefusedValue,
    Value,
    flat_types,
    refuse_type,
)
from nnmagic.exporters.onnx.writer import OnnxTensor, Writer, graph_proto
from nnmagic.relay import expr as ir
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import NUMPY_DTYPES, TensorType, Type, scalar_type

_BOOL = scalar_type("bool")


class _LoopRefusedError(Exception):
    """A part of a loop that could not be exported, and was reported."""


@dataclass(frozen=True, slots=True)
class _Split:
    """The body of a while loop: its header, condition, round and end; ``negated``: the end is the first."""

    header: tuple[ir.Let, ...]
    cond: ir.Expr
    round: ir.Expr
    end: ir.Expr
    negated: bool


def export_loop(
    exporter: ProgramExporter, loop: ExportedFunction, args: Sequence[Value], call: ir.Call
) -> Value:
    """Export a call of a function that calls itself."""
    function = loop.function
    is_self = _calls(loop)
    types = [param.checked_type or param.type_annotation for param in function.params]
    problem = _why_no_loop(function, is_self, [*types, call.checked_type])
    if problem is not None:
        return exporter.refuse("recursion", call.span, problem, "write it as a for or while loop")
    start = [leaf for arg in args for leaf in flatten(arg)]
    if not all(isinstance(leaf, OnnxTensor) for leaf in start):
        return REFUSED
    tensors = cast("list[OnnxTensor]", start)
    work = _ExportedLoop(exporter, function, is_self, cast("list[Type]", types), call.inferred_type)
    split = _split(function.body, is_self)
    try:
        return work.whole(tensors) if split is None else work.split(tensors, split)
    except _LoopRefusedError:
        return REFUSED


@dataclass(frozen=True, slots=True)
class _ExportedLoop:
    exporter: ProgramExporter
    function: ir.Function
    is_self: Callable[[ir.Expr], bool]
    types: list[Type]
    result: Type

    @property
    def writer(self) -> Writer:
        return self.exporter.writer

    def bind(self, tensors: Sequence[OnnxTensor]) -> None:
        """Let the parameters stand for tensors."""
        tail = list(tensors)
        for param, type_ in zip(self.function.params, self.types, strict=True):
            count = len(flat_types(type_))
            self.exporter.values[param] = rebuild(type_, iter(tail[:count]))
            tail = tail[count:]

    def split(self, start: list[OnnxTensor], split: _Split) -> Value:
        """Export a while loop."""

        def cond(tensors: Sequence[OnnxTensor]) -> OnnxTensor:
            self.bind(tensors)
            self.header(split, split.cond)
            (value,) = self.tensors(self.exporter.value(split.cond))
            return (
                OnnxTensor(self.writer.node("Not", value.name, outputs=1)[0], _BOOL)
                if split.negated
                else value
            )

        def one_round(carried: list[OnnxTensor]) -> list[OnnxTensor]:
            self.bind(carried)
            self.header(split, split.round)
            again = self.leaves(split.round, lambda args, _result: args or [])
            # The first output of an ONNX loop's body says whether there is another round, so the
            # condition is computed of the values for that round, and once before the loop.
            return [cond(again), *again]

        outputs = self.write(cond(start).name, start, one_round)
        self.bind(outputs)
        self.header(split, split.end)
        return self.exporter.block(split.end)

    def header(self, split: _Split, wanted: ir.Expr) -> None:
        """Export what an expression needs of the header."""
        needed = set(post_order(wanted))
        chosen = []
        # From the last to the first: what a needed value is made of is needed, too.
        for let in reversed(split.header):
            if let.var in needed:
                needed |= set(post_order(let.value))
                chosen.append(let)
        for let in reversed(chosen):
            self.exporter.bind_let(let)

    def whole(self, start: list[OnnxTensor]) -> Value:
        """Export a loop whose rounds compute the whole body."""
        # What a round leaves has to be carried from the first round on: the results are
        # placeholders until the last round.
        empty = [self.placeholder(type_) for type_ in flat_types(self.result)]

        def one_round(carried: list[OnnxTensor]) -> list[OnnxTensor]:
            params, before = carried[: len(start)], carried[len(start) :]
            self.bind(params)

            def leaf(args: list[OnnxTensor] | None, result: list[OnnxTensor] | None) -> list[OnnxTensor]:
                again = OnnxTensor(self.writer.constant(np.array(args is not None)), _BOOL)
                return [again, *(args or params), *(result or before)]

            return self.leaves(self.function.body, leaf)

        outputs = self.write(self.writer.constant(np.array(True)), [*start, *empty], one_round)  # noqa: FBT003
        return cast("Value", rebuild(self.result, iter(outputs[len(start) :])))

    def placeholder(self, type_: TensorType) -> OnnxTensor:
        """Return what a result is before it is known; sizes that are not known are 0."""
        shape = tuple(dim if isinstance(dim, int) else 0 for dim in type_.shape)
        return OnnxTensor(self.writer.constant(np.zeros(shape, NUMPY_DTYPES[type_.dtype])), type_)

    def leaves(
        self,
        expr: ir.Expr,
        leaf: Callable[[list[OnnxTensor] | None, list[OnnxTensor] | None], list[OnnxTensor]],
    ) -> list[OnnxTensor]:
        """Export the end of a round: ``leaf`` makes tensors of the next arguments, or of the result."""
        exporter = self.exporter
        while isinstance(expr, ir.Let):
            if expr.body is expr.var:  # in let normal form
                expr = expr.value
                break
            exporter.bind_let(expr)
            expr = expr.body
        if isinstance(expr, ir.Call) and self.is_self(expr):
            args = [part for arg in expr.args for part in self.tensors(exporter.value(arg))]
            return leaf(args, None)
        if isinstance(expr, ir.If) and _has_self(expr, self.is_self):
            (cond,) = self.tensors(exporter.value(expr.cond))
            with self.writer.inner_graph() as then:
                outputs = self.writer.own_outputs(self.leaves(expr.true_branch, leaf))
            with self.writer.inner_graph() as other:
                others = self.writer.own_outputs(self.leaves(expr.false_branch, leaf))
            names = exporter.write_if(cond, (then, outputs), (other, others))
            return [OnnxTensor(name, tensor.type) for name, tensor in zip(names, outputs, strict=True)]
        return leaf(None, self.tensors(exporter.value(expr)))

    def tensors(self, value: Value) -> list[OnnxTensor]:
        leaves = list(flatten(value))
        if any(isinstance(leaf, RefusedValue | ExportedFunction) for leaf in leaves):
            raise _LoopRefusedError
        return cast("list[OnnxTensor]", leaves)

    def write(
        self,
        cond: str,
        start: Sequence[OnnxTensor],
        one_round: Callable[[list[OnnxTensor]], list[OnnxTensor]],
    ) -> list[OnnxTensor]:
        """Write a Loop; a round gives whether there is another one, and what it carries."""
        writer = self.writer
        count = OnnxTensor(writer.fresh("iteration"), scalar_type("int64"))
        again = OnnxTensor(writer.fresh("condition"), _BOOL)
        types = [type_ for tensor in self.types for type_ in flat_types(tensor)]
        types += flat_types(self.result)[: len(start) - len(types)] if len(start) > len(types) else []
        carried = [OnnxTensor(writer.fresh("carried"), type_) for type_ in types]
        with writer.inner_graph() as body:
            outputs = writer.own_outputs(one_round(carried))
        graph = graph_proto(body, "body", [count, again, *carried], outputs, sizes=False)
        # An empty first input means that the number of rounds has no limit.
        names = writer.node(
            "Loop", "", cond, *(tensor.name for tensor in start), outputs=len(start), body=graph
        )
        return [OnnxTensor(name, type_) for name, type_ in zip(names, types, strict=True)]


def _calls(loop: ExportedFunction) -> Callable[[ir.Expr], bool]:
    """Return whether an expression is a call of the function itself."""
    itself = loop.itself

    def is_self(expr: ir.Expr) -> bool:
        match expr:
            case ir.Call(op=ir.GlobalVar(name=name)):
                return name == itself
            case ir.Call(op=ir.Var() as var):
                return var is itself
        return False

    return is_self


def _has_self(expr: ir.Expr, is_self: Callable[[ir.Expr], bool]) -> bool:
    return any(is_self(node) for node in post_order(expr))


def _why_no_loop(
    function: ir.Function, is_self: Callable[[ir.Expr], bool], types: Sequence[Type | None]
) -> str | None:
    """Return why a function that calls itself is no loop; None if it is one."""
    for type_ in types:
        why = "its types are not known" if type_ is None else refuse_type("a value of the loop", type_)
        if why is not None:
            return why
    calls = {node for node in post_order(function.body) if is_self(node)}
    ends: set[ir.Expr] = set()
    work = [function.body]
    while work:
        expr = work.pop()
        while isinstance(expr, ir.Let):
            expr = expr.value if expr.body is expr.var else expr.body
        if isinstance(expr, ir.If):
            work += [expr.true_branch, expr.false_branch]
        ends.add(expr)
    if not calls <= ends:
        return "ONNX has no recursion but loops"
    return None


def _split(body: ir.Expr, is_self: Callable[[ir.Expr], bool]) -> _Split | None:
    header = []
    while isinstance(body, ir.Let) and body.body is not body.var:
        header.append(body)
        body = body.body
    if isinstance(body, ir.Let):
        body = body.value
    if not isinstance(body, ir.If):
        return None
    branches = body.true_branch, body.false_branch
    for negated, (one, end) in ((False, branches), (True, branches[::-1])):
        if _only_calls(one, is_self) and not _has_self(end, is_self):
            return _Split(tuple(header), body.cond, one, end, negated)
    return None


def _only_calls(expr: ir.Expr, is_self: Callable[[ir.Expr], bool]) -> bool:
    """Return whether every end of an expression calls the function."""
    work = [expr]
    while work:
        expr = work.pop()
        while isinstance(expr, ir.Let):
            expr = expr.value if expr.body is expr.var else expr.body
        if is_self(expr):
            continue
        if not isinstance(expr, ir.If):
            return False
        work += [expr.true_branch, expr.false_branch]
    return True
