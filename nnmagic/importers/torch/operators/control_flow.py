"""Import cond, while_loop, map and scan as Relay's branches and loops.

What they compute: https://docs.pytorch.org/docs/stable/cond.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.loops import emit_loop
from nnmagic.importers.onnx.nodes import merge
from nnmagic.importers.onnx.operators.control_flow import emit_rows
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.registry import operator
from nnmagic.relay import expr as ir

if TYPE_CHECKING:
    from torch.fx import GraphModule


def _flat(items: Any) -> list[Any]:
    return list(items) if isinstance(items, list | tuple) else [items]


def _bind(call: AtenCall, items: Sequence[Any]) -> list[Any]:
    """Compute operands before a branch or loop, which uses them."""
    return [call.block.bind(item) if isinstance(item, Value) else item for item in items]


@operator("higher_order.cond")
def _cond(call: AtenCall) -> list[Value]:
    predicate, true_graph, false_graph, *extra = call.argument("args")
    operands = _bind(call, _flat(extra[0]) if extra else [])
    if not isinstance(predicate, Value) or predicate.known is not None:
        chosen = predicate if not isinstance(predicate, Value) else bool(np.asarray(predicate.known).all())
        return call.importer.run_body(true_graph if chosen else false_graph, operands, call.block)
    condition = convert(shapes.scalar(predicate), "bool")
    blocks = [OnnxBlock(), OnnxBlock()]
    results = [
        call.importer.run_body(graph, operands, block)
        for graph, block in zip((true_graph, false_graph), blocks, strict=True)
    ]
    types = [merge(then.type, other.type) for then, other in zip(*results, strict=True)]
    arms = [
        block.finish(ir.Tuple(tuple(value.expr for value in values)))
        for block, values in zip(blocks, results, strict=True)
    ]
    whole = ir.Var("chosen")
    call.block.items.append((whole, ir.If(condition.expr, arms[0], arms[1])))
    return [Value(ir.TupleGetItem(whole, index), type_) for index, type_ in enumerate(types)]


@operator("higher_order.while_loop")
def _while_loop(call: AtenCall) -> list[Value]:
    test_graph, body_graph, *operands = call.argument("args")
    start = [_tensor(item) for item in _flat(operands[0])]
    extra = _bind(call, _flat(operands[1]) if len(operands) > 1 else [])

    def test(block: OnnxBlock, carried: Sequence[Value]) -> Value:
        (result,) = call.importer.run_body(test_graph, [*carried, *extra], block)
        return convert(shapes.scalar(result), "bool")

    def build(block: OnnxBlock, _step: Value, carried: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        results = call.importer.run_body(body_graph, [*carried, *extra], block)
        bound = [block.bind(result) for result in results]
        return test(block, bound), bound

    start = [call.block.bind(value) for value in start]
    first = call.block.bind(test(call.block, start))
    return emit_loop(call.block, start, None, first, build).carried


def _tensor(item: Any) -> Value:
    return item if isinstance(item, Value) else constant(np.asarray(item))


def _over_rows(
    call: AtenCall, graph: GraphModule, states: Sequence[Value], rows: Sequence[Value], extra: Sequence[Any]
) -> list[Value]:
    """Run a graph for each row; it gives new states, then rows of the results."""
    rows = [call.block.bind(item) for item in rows]
    length = call.block.bind(shapes.size_along(rows[0], 0), "count")

    def round_of(block: OnnxBlock, step: Value, carried: Sequence[Value]) -> list[Value]:
        items = [op("take", row, step, axis=0, mode="fast") for row in rows]
        return call.importer.run_body(graph, [*carried, *items, *extra], block)

    return emit_rows(call.block, states, length, rows, round_of)


@operator("higher_order.map_impl", "higher_order.map")
def _map(call: AtenCall) -> list[Value]:
    graph, rows, *extra_args = call.argument("args")
    extra = _bind(call, _flat(extra_args[0]) if extra_args else [])
    return _over_rows(call, graph, [], _flat(rows), extra)


@operator("higher_order.scan")
def _scan(call: AtenCall) -> list[Value]:
    given = {name: value for name, value in call.arguments.items() if name != "args"}
    names = ("combine_fn", "init", "xs", "additional_inputs")
    values = dict(zip(names, call.argument("args"), strict=False)) | given
    if values.get("reverse"):
        raise UnsupportedError("a scan backwards is not supported", "flip the input and the result")
    extra = _bind(call, _flat(values.get("additional_inputs") or []))
    states = [_tensor(item) for item in _flat(values["init"])]
    return _over_rows(call, values["combine_fn"], states, _flat(values["xs"]), extra)
