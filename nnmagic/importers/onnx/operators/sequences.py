"""Import sequences whose length and positions are known while importing: the tensors themselves.

The standard: https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html
"""

from __future__ import annotations

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode, normalize_axis
from nnmagic.importers.onnx.operators.slicing import positions
from nnmagic.importers.onnx.registry import operator, operators
from nnmagic.importers.onnx.values import TensorSequence, Value, constant, op, with_shape
from nnmagic.relay.types import ANY, Dim

_NOTE = "of known length, inside the graph"


def _position(node: OnnxNode, index: int, length: int, last: int, default: int) -> int:
    """Return a position up to ``last``; a negative one counts from the end. Raises UnsupportedError."""
    if node.get(index) is None:
        return default
    position = node.static(index)[0]
    if not -length <= position <= last:
        raise UnsupportedError(f"the position {position} is out of range for a sequence of {length}")
    return position + length if position < 0 else position


@operator("SequenceInsert", note=_NOTE)
def _sequence_insert(node: OnnxNode) -> list[TensorSequence]:
    items = list(node.sequence(0).items)
    items.insert(_position(node, 2, len(items), len(items), len(items)), node[1])
    return [TensorSequence(tuple(items))]


@operator("SequenceErase", note=_NOTE)
def _sequence_erase(node: OnnxNode) -> list[TensorSequence]:
    items = list(node.sequence(0).items)
    if not items:
        raise UnsupportedError("an empty sequence has nothing to erase")
    del items[_position(node, 1, len(items), len(items) - 1, len(items) - 1)]
    return [TensorSequence(tuple(items))]


@operator("SequenceAt", note=_NOTE)
def _sequence_at(node: OnnxNode) -> Value:
    items = node.sequence(0).items
    if not items:
        raise UnsupportedError("an empty sequence has no tensor")
    return items[_position(node, 1, len(items), len(items) - 1, 0)]


@operator("ConcatFromSequence", note=_NOTE)
def _concat_from_sequence(node: OnnxNode) -> Value:
    items = node.sequence(0).items
    if not items:
        raise UnsupportedError("an empty sequence cannot be concatenated")
    new = bool(node.integer("new_axis"))
    axis = normalize_axis(node.integer("axis"), items[0].rank + new)
    tensors = [shapes.unsqueeze(item, [axis]) for item in items] if new else list(items)
    return op("concatenate", tensors, axis=axis) if len(tensors) > 1 else tensors[0]


@operator("SplitToSequence", note=_NOTE)
def _split_to_sequence(node: OnnxNode) -> list[TensorSequence]:
    data = node[0]
    axis = node.axis(data.rank)
    lengths = node.get(1)
    if lengths is not None and lengths.rank:
        slices = _pieces_of_lengths(node, data, axis, lengths)
        return [TensorSequence(tuple(slices))]
    size = data.shape[axis]
    if not isinstance(size, int):
        raise UnsupportedError("the size of its axis must be known", "fix it with shapes={...}")
    length = 1 if lengths is None else node.static(1)[0]
    if length < 1:
        raise UnsupportedError(f"pieces of {length} elements are not possible")
    slices = [
        shapes.slice_axis(data, axis, first, min(first + length, int(size)))
        for first in range(0, int(size), length)
    ]
    if lengths is None and not node.integer("keepdims", 1):
        slices = [shapes.squeeze(piece, [axis]) for piece in slices]
    return [TensorSequence(tuple(slices))]


def _pieces_of_lengths(node: OnnxNode, data: Value, axis: int, lengths: Value) -> list[Value]:
    """Return pieces of lengths that may be known only at the call, as the size of the axis may be."""
    size, count = data.shape[axis], lengths.shape[0]
    if not isinstance(count, int):
        raise node.unknown(1)
    static_lengths = None if lengths.known is None else lengths.known.tolist()
    if static_lengths is not None and (
        min(static_lengths, default=0) < 0 or (isinstance(size, int) and sum(static_lengths) != size)
    ):
        raise UnsupportedError(
            f"the lengths {static_lengths} do not divide the {size} elements of axis {axis}"
        )
    if static_lengths is None or not isinstance(size, int):
        lengths = node.block.bind(lengths.cast("int64"), "lengths")
        whole = op("sum", lengths).equal(shapes.size_along(data, axis))
        node.block.check(
            op("logical_and", whole, op("all", lengths >= 0)),
            f"SplitToSequence: the lengths must divide axis {axis}",
        )
    pieces: list[Value] = []
    first: Value = constant(0, "int64")
    for index in range(int(count)):
        length = shapes.scalar(shapes.slice_axis(lengths, 0, index, index + 1)).cast("int64")
        last = first + length
        if first.known is not None and last.known is not None:
            dim: Dim = int(last.known - first.known)
            piece = shapes.slice_axis(data, axis, int(first.known), int(last.known))
        else:
            dim = ANY
            piece = op("take", data, positions(length, ANY) + first, axis=axis, mode="clip")
        pieces.append(with_shape(piece, [*data.shape[:axis], dim, *data.shape[axis + 1 :]]))
        first = last
    return pieces


operators(
    {
        "SequenceConstruct": lambda node: [
            TensorSequence(tuple(node[index] for index in range(len(node.inputs))))
        ],
        "SequenceEmpty": lambda _node: [TensorSequence(())],
        "SequenceLength": lambda node: constant(len(node.sequence(0).items), "int64"),
    },
    note=_NOTE,
)
