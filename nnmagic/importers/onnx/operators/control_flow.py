"""Import If, Loop and Scan.

The standard: https://onnx.ai/onnx/operators/onnx__Loop.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.loops import carried_types, emit_loop
from nnmagic.importers.onnx.nodes import OnnxNode, merge
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import TensorSequence, Value, constant, op, with_shape
from nnmagic.relay import expr as ir
from nnmagic.relay.types import ANY, NUMPY_DTYPES, Dim, TensorType

if TYPE_CHECKING:
    from onnx import GraphProto

_Item = Value | TensorSequence
#: A loop with no more rounds and nodes than these is written out; one that carries a sequence must be.
_UNROLLED, _MOST_ROUNDS = (16, 200), (1000, 20_000)
_TRUE = constant(np.bool_(1))


class _BodyFailedError(UnsupportedError):
    """A subgraph has problems, which are reported."""


def _run(
    node: OnnxNode, graph: GraphProto, block: OnnxBlock, arguments: Sequence[Value], *, binds_outer: bool
) -> list[Value]:
    """Import a subgraph into a block, for inputs; its outputs are tensors. Raises UnsupportedError."""
    outputs = _run_known(node, graph, block, arguments, binds_outer=binds_outer)
    values = [value for value in outputs if isinstance(value, Value)]
    if len(values) != len(outputs):
        raise UnsupportedError(f"the graph {graph.name!r} gives a sequence, and only the call knows when")
    return values


def _run_known(
    node: OnnxNode, graph: GraphProto, block: OnnxBlock, arguments: Sequence[_Item], *, binds_outer: bool
) -> list[_Item]:
    """Import a subgraph, which certainly runs, into a block, for inputs."""
    if len(graph.input) != len(arguments):
        raise UnsupportedError(
            f"the graph {graph.name!r} has {len(graph.input)} inputs, not {len(arguments)}"
        )
    scope = node.importer.import_branch(graph, node.scope, binds_outer=binds_outer)
    scope.block = block
    for info, value in zip(graph.input, arguments, strict=True):
        scope.names[info.name] = value
    outputs = node.importer.outputs_of_branch(graph, scope)
    if outputs is None:
        raise _BodyFailedError(f"the graph {graph.name!r} cannot be imported")
    return outputs


@operator("If")
def _if(node: OnnxNode) -> Sequence[_Item]:
    condition = shapes.scalar(node[0])
    graphs = [node.graph("then_branch"), node.graph("else_branch")]
    if condition.known is not None:
        graph = graphs[0 if bool(condition.known) else 1]
        return _run_known(node, graph, node.block, [], binds_outer=False)
    blocks = [OnnxBlock(), OnnxBlock()]
    results = [
        _run(node, graph, block, [], binds_outer=False) for graph, block in zip(graphs, blocks, strict=True)
    ]
    if len(results[0]) != len(results[1]):
        raise UnsupportedError(f"its branches give {len(results[0])} and {len(results[1])} outputs")
    fits = [_has_declared_ranks(node, values) for values in results]
    if fits.count(True) == 1:
        chosen, message = (
            fits.index(True),
            "If: the other branch gives a tensor of another rank than declared",
        )
        node.block.check(op("not_equal", condition, condition.like(bool(chosen))), message)
        return _run_known(node, graphs[chosen], node.block, [], binds_outer=False)
    types = [merge(then.type, other.type) for then, other in zip(*results, strict=True)]
    arms = [
        block.finish(values[0].expr if len(values) == 1 else ir.Tuple(tuple(value.expr for value in values)))
        for block, values in zip(blocks, results, strict=True)
    ]
    result = ir.Var("chosen")
    node.block.items.append((result, ir.If(condition.expr, arms[0], arms[1])))
    if len(types) == 1:
        return [Value(result, types[0])]
    return [Value(ir.TupleGetItem(result, index), type_) for index, type_ in enumerate(types)]


def _has_declared_ranks(node: OnnxNode, values: Sequence[Value]) -> bool:
    pairs = zip(values, node.declared, strict=False)
    return all(shape is None or value.rank == len(shape) for value, shape in pairs)


@operator("Loop", note="of sequences of tensors of one shape, where the number of its rounds is not known")
def _loop(node: OnnxNode) -> Sequence[_Item]:
    graph = node.graph("body")
    limit = None if node.get(0) is None else shapes.scalar(node[0])
    condition = _TRUE if node.get(1) is None else shapes.scalar(node[1])
    unrolled = _unroll(node, graph, limit, condition, node.inputs[2:])
    if unrolled is not None:
        return unrolled
    # what a round gives decides how the loop is written
    flag_type = TensorType((), "bool")
    probe = Value(ir.Var("again", flag_type), flag_type)
    start = _stack(node, graph, probe)
    count = len(start)

    def round_of(block: OnnxBlock, step: Value, flag: Value, carried: Sequence[Value]) -> list[Value]:
        return _round_of_rows(node, graph, block, [step, flag, *carried])

    probed: list[Value] = []

    def trial(block: OnnxBlock, step: Value, carried: Sequence[Value]) -> tuple[Value, Sequence[Value]]:
        probed[:] = round_of(block, step, probe, carried)
        return shapes.scalar(probed[0]), probed[1 : 1 + count]

    _, again = carried_types(start, trial)
    assert again is not None
    scanned = [
        _item_type(value.type, node.declared[count + index] if count + index < len(node.declared) else None)
        for index, value in enumerate(probed[1 + count :])
    ]
    counted = limit is not None and (
        again.expr is probe.expr or (again.known is not None and bool(again.known))
    )
    if counted:
        assert limit is not None
        limit = condition.choose(limit.maximum(0), limit.like(0))
        buffers = [buffer_of(limit, type_, _outer(node)) for type_ in scanned]
    else:
        buffers = [_empty(type_, _outer(node)) for type_ in scanned]

    def build(
        block: OnnxBlock, step: Value, carried: Sequence[Value]
    ) -> tuple[Value | None, Sequence[Value]]:
        flag = _TRUE if counted else probe
        outputs = round_of(block, step, flag, carried[:count])
        written = [
            write_row(buffer, value, step)
            if counted
            else op("concatenate", [buffer, shapes.unsqueeze(value, [0])], axis=0)
            for buffer, value in zip(carried[count:], outputs[1 + count :], strict=True)
        ]
        return None if counted else shapes.scalar(outputs[0]), [*outputs[1 : 1 + count], *written]

    end = emit_loop(node.block, [*start, *buffers], limit, None if counted else condition, build)
    return _as_declared(node, 2, end.carried)


def _as_declared(node: OnnxNode, first: int, values: Sequence[Value]) -> list[_Item]:
    """Return values as sequences of their rows where an input of a loop is one."""
    inputs = node.inputs[first:]
    return [
        TensorSequence(rows=value) if at < len(inputs) and isinstance(inputs[at], TensorSequence) else value
        for at, value in enumerate(values)
    ]


def _round_of_rows(
    node: OnnxNode, graph: GraphProto, block: OnnxBlock, arguments: Sequence[Value]
) -> list[Value]:
    """Import a round that gets and gives the rows of a tensor for each sequence."""
    given = _as_declared(node, 0, arguments)
    outputs = _run_known(node, graph, block, given, binds_outer=True)
    results = [_rows(output) if isinstance(output, TensorSequence) else output for output in outputs]
    for at, output in enumerate(outputs, 1):  # what a round gives begins without its number
        before = arguments[at].shape[1:] if at < len(arguments) else None
        if isinstance(output, TensorSequence) and results[at - 1].shape[1:] != before:
            raise UnsupportedError(
                "the tensors of a sequence differ in shape, and only the call knows the number of rounds"
            )
    return results


def _rows(sequence: TensorSequence) -> Value:
    """Return the tensors of a sequence as the rows of one. Raises UnsupportedError."""
    if sequence.rows is not None:
        return sequence.rows
    if not sequence.items:
        raise UnsupportedError("nothing says of which shape the tensors of an empty sequence are")
    rows = op("concatenate", [shapes.unsqueeze(item, [0]) for item in sequence.items], axis=0)
    return with_shape(rows, [ANY, *rows.shape[1:]])


def _stack(node: OnnxNode, graph: GraphProto, flag: Value) -> list[Value]:
    """Return what a loop carries, of sequences the rows; a round says of which type an empty one's are."""
    inputs = [item for item in node.inputs[2:] if item is not None]
    if not any(isinstance(item, TensorSequence) for item in inputs):
        return [node[at] for at in range(2, len(node.inputs))]
    step = Value(ir.Var("step", TensorType((), "int64")), TensorType((), "int64"))
    after = _run_known(node, graph, OnnxBlock(), [step, flag, *inputs], binds_outer=True)[1:]
    start = []
    for item, later in zip(inputs, after, strict=False):
        if isinstance(item, Value) or not isinstance(later, TensorSequence):
            start.append(item)
        elif item.rows is None and not item.items:
            rows = _rows(later)
            start.append(_empty(TensorType(rows.shape[1:], rows.dtype), _outer(node)))
        else:
            start.append(_rows(item))
    values = [item for item in start if isinstance(item, Value)]
    if len(values) != len(inputs):
        raise UnsupportedError("a loop must carry on a sequence as a sequence")
    return values


def _item_type(type_: TensorType, declared: Sequence[int | None] | None) -> TensorType:
    """Return the type of the items of an output, with the sizes that the model declares."""
    if declared is None or len(declared) != len(type_.shape) + 1:
        return type_
    pairs = zip(type_.shape, declared[1:], strict=True)
    return TensorType(tuple(dim if size is None else size for dim, size in pairs), type_.dtype)


def buffer_of(limit: Value, type_: TensorType, outer: Sequence[Value] = ()) -> Value:
    """Return zeros with room for an item of each round; ``outer``: tensors that know the sizes' names."""
    fill = constant(np.zeros((), NUMPY_DTYPES[type_.dtype]))
    if shapes.is_static(type_.shape) and limit.known is not None:
        return shapes.full([int(limit.known), *type_.shape], fill)
    sizes = [_outer_size(dim, outer) for dim in type_.shape]
    extents = [shapes.reshape(limit, [1]), *(shapes.reshape(size, [1]) for size in sizes)]
    return shapes.full(
        [ANY, *type_.shape], fill, vector=op("concatenate", extents, axis=0) if type_.shape else extents[0]
    )


def _outer(node: OnnxNode) -> list[Value]:
    """Return the tensors around a loop, which know the names of sizes."""
    return [value for value in (*node.inputs, *node.scope.names.values()) if isinstance(value, Value)]


def _outer_size(dim: Dim, outer: Sequence[Value]) -> Value:
    """Return a size of a loop's items as it is outside of the loop. Raises UnsupportedError."""
    if isinstance(dim, int):
        return constant(int(dim), "int64")
    for value in outer if dim != ANY else ():
        if dim in value.shape:
            return shapes.size_along(value, value.shape.index(dim))
    raise UnsupportedError("the items of a loop's output must have known sizes")


def _empty(type_: TensorType, outer: Sequence[Value]) -> Value:
    """Return a tensor of no items, which a loop may make longer."""
    return with_shape(buffer_of(constant(0, "int64"), type_, outer), [ANY, *type_.shape])


def write_row(buffer: Value, value: Value, step: Value) -> Value:
    """Return a tensor with a row replaced."""
    at = shapes.unsqueeze(step, [0])
    if buffer.dtype == "bool":
        return op("scatter_nd", buffer.cast("int8"), at, value.cast("int8")).cast("bool")
    return op("scatter_nd", buffer, at, value)


def _unroll(
    node: OnnxNode,
    graph: GraphProto,
    limit: Value | None,
    condition: Value,
    start: Sequence[_Item | None],
) -> list[_Item] | None:
    """Write the rounds of a loop out, if their number is known, and is small or a sequence is carried."""
    if limit is None or limit.known is None or condition.known is None:
        return None
    rounds = max(0, int(limit.known)) if bool(condition.known) else 0
    has_sequence = any(isinstance(value, TensorSequence) for value in start)
    most_rounds, most_nodes = _MOST_ROUNDS if has_sequence else _UNROLLED
    carried, count = [value for value in start if value is not None], len(start)
    if rounds == 0 and has_sequence and len(graph.output) == 1 + count:
        return carried
    if rounds > most_rounds or rounds * len(graph.node) > most_nodes or rounds == 0:
        return None
    scanned: list[list[Value]] = []
    for step in range(rounds):
        outputs = _run_known(
            node, graph, node.block, [constant(step, "int64"), condition, *carried], binds_outer=False
        )
        carried = outputs[1 : 1 + count]
        scanned.append([value for value in outputs[1 + count :] if isinstance(value, Value)])
        again = outputs[0].known if isinstance(outputs[0], Value) else None
        if again is None:
            return None
        if not bool(again.all()):
            break
    stacks = [
        op("concatenate", [shapes.unsqueeze(item, [0]) for item in items], axis=0)
        for items in zip(*scanned, strict=True)
    ]
    return [*carried, *stacks]


@operator("Scan")
def _scan(node: OnnxNode) -> list[Value]:
    graph = node.graph("body")
    scanned = node.integer("num_scan_inputs")
    if node.since >= 9:
        values = [node[index] for index in range(len(node.inputs))]
        states = len(values) - scanned
        return _scan_over(node, graph, values[:states], values[states:])
    if node.get(0) is not None:
        raise UnsupportedError("sequence_lens is not supported")
    values = [node[index] for index in range(1, len(node.inputs))]
    states = len(values) - scanned
    batch = shapes.static_shape(values[0])[0]
    rows = []
    for row in range(batch):
        row_values = [shapes.squeeze(shapes.slice_axis(value, 0, row, row + 1), [0]) for value in values]
        rows.append(_scan_over(node, graph, row_values[:states], row_values[states:]))
    return [
        op("concatenate", [shapes.unsqueeze(item, [0]) for item in items], axis=0)
        for items in zip(*rows, strict=True)
    ]


def _scan_over(
    node: OnnxNode, graph: GraphProto, states: Sequence[Value], inputs: Sequence[Value]
) -> list[Value]:
    by_input = node.since >= 9
    names = ("scan_input_directions", "scan_output_directions") if by_input else ("directions", "")
    outputs = len(graph.output) - len(states)
    backwards = node.ints(names[0]) or [0] * len(inputs)
    out_backwards = (node.ints(names[1]) if names[1] else None) or [0] * outputs
    axes = node.ints("scan_input_axes") if by_input else None
    out_axes = (node.ints("scan_output_axes") if by_input else None) or [0] * outputs
    moved = [
        _axis_to_front(value, axis % value.rank)
        for value, axis in zip(inputs, axes or [0] * len(inputs), strict=True)
    ]
    length = shapes.size_along(moved[0], 0)
    bound = [node.block.bind(value) for value in moved]
    length = node.block.bind(length, "count")
    count = len(states)

    def round_of(block: OnnxBlock, step: Value, carried: Sequence[Value]) -> list[Value]:
        items = []
        for value, reverse in zip(bound, backwards, strict=True):
            at = length - 1 - step if reverse else step
            items.append(op("take", value, at, axis=0, mode="fast"))
        return _run(node, graph, block, [*carried, *items], binds_outer=True)

    ends = emit_rows(node.block, states, length, bound, round_of, out_backwards)
    results = [
        _front_to_axis(value, axis % value.rank) for value, axis in zip(ends[count:], out_axes, strict=True)
    ]
    return [*ends[:count], *results]


def emit_rows(
    place: OnnxBlock,
    states: Sequence[Value],
    length: Value,
    rows: Sequence[Value],
    round_of: Callable[[OnnxBlock, Value, Sequence[Value]], list[Value]],
    backwards: Sequence[int] | None = None,
) -> list[Value]:
    """Return the last states of a loop over rows, and the stacked rows of its other results.

    ``backwards``: which of the results begin with the row of the last round.
    """
    count, probed = len(states), list[Value]()

    def trial(block: OnnxBlock, step: Value, carried: Sequence[Value]) -> tuple[None, Sequence[Value]]:
        probed[:] = round_of(block, step, carried)
        return None, probed[:count]

    # A round is built once in vain: the buffers that the loop carries need the types of its rows.
    carried_types(states, trial)
    buffers = [
        with_shape(buffer_of(length, value.type, [*rows, *states]), [rows[0].shape[0], *value.shape])
        for value in probed[count:]
    ]

    def build(block: OnnxBlock, step: Value, carried: Sequence[Value]) -> tuple[None, Sequence[Value]]:
        result = round_of(block, step, carried[:count])
        written = [
            write_row(buffer, value, length - 1 - step if reverse else step)
            for buffer, value, reverse in zip(
                carried[count:], result[count:], backwards or [0] * len(buffers), strict=True
            )
        ]
        return None, [*result[:count], *written]

    return list(emit_loop(place, [*states, *buffers], length, None, build).carried)


def _axis_to_front(value: Value, axis: int) -> Value:
    return shapes.transpose(value, [axis, *(at for at in range(value.rank) if at != axis)])


def _front_to_axis(value: Value, axis: int) -> Value:
    order = [*range(1, value.rank)]
    order.insert(axis, 0)
    return shapes.transpose(value, order)
