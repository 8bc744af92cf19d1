"""Import sequences whose length and positions are known while importing: the tensors themselves."""

from __future__ import annotations

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import Node, normalize_axis
from nnmagic.importers.onnx.registry import operator
from nnmagic.importers.onnx.values import TensorSequence, Value, constant, op

_NOTE = "of known length, inside the graph"


def _position(node: Node, index: int, length: int, last: int, default: int) -> int:
    """Return a position up to ``last``; a negative one counts from the end. Raises UnsupportedError."""
    if node.get(index) is None:
        return default
    position = node.static(index)[0]
    if not -length <= position <= last:
        raise UnsupportedError(f"the position {position} is out of range for a sequence of {length}")
    return position + length if position < 0 else position


@operator("SequenceEmpty", note=_NOTE)
def _sequence_empty(_node: Node) -> list[TensorSequence]:
    return [TensorSequence(())]


@operator("SequenceConstruct", note=_NOTE)
def _sequence_construct(node: Node) -> list[TensorSequence]:
    return [TensorSequence(tuple(node[index] for index in range(len(node.inputs))))]


@operator("SequenceInsert", note=_NOTE)
def _sequence_insert(node: Node) -> list[TensorSequence]:
    items = list(node.sequence(0).items)
    items.insert(_position(node, 2, len(items), len(items), len(items)), node[1])
    return [TensorSequence(tuple(items))]


@operator("SequenceErase", note=_NOTE)
def _sequence_erase(node: Node) -> list[TensorSequence]:
    items = list(node.sequence(0).items)
    if not items:
        raise UnsupportedError("an empty sequence has nothing to erase")
    del items[_position(node, 1, len(items), len(items) - 1, len(items) - 1)]
    return [TensorSequence(tuple(items))]


@operator("SequenceAt", note=_NOTE)
def _sequence_at(node: Node) -> Value:
    items = node.sequence(0).items
    if not items:
        raise UnsupportedError("an empty sequence has no tensor")
    return items[_position(node, 1, len(items), len(items) - 1, 0)]


@operator("SequenceLength", note=_NOTE)
def _sequence_length(node: Node) -> Value:
    return constant(len(node.sequence(0).items), "int64")


@operator("ConcatFromSequence", note=_NOTE)
def _concat_from_sequence(node: Node) -> Value:
    items = node.sequence(0).items
    if not items:
        raise UnsupportedError("an empty sequence cannot be concatenated")
    new = bool(node.integer("new_axis"))
    axis = normalize_axis(node.integer("axis"), items[0].rank + new)
    parts = [shapes.unsqueeze(item, [axis]) for item in items] if new else list(items)
    return op("concatenate", parts, axis=axis) if len(parts) > 1 else parts[0]


@operator("SplitToSequence", note=_NOTE)
def _split_to_sequence(node: Node) -> list[TensorSequence]:
    data = node[0]
    axis = node.axis(data.rank)
    size = data.shape[axis]
    if not isinstance(size, int):
        raise UnsupportedError("the size of its axis must be known", "fix it with shapes={...}")
    lengths, drops = [1] * int(size), False
    if node.get(1) is None:
        drops = not node.integer("keepdims", 1)
    else:
        given = node.static(1)
        lengths = given
        if not node[1].rank:
            (each,) = given
            if each < 1:
                raise UnsupportedError(f"pieces of {each} elements are not possible")
            lengths = [min(each, int(size) - first) for first in range(0, int(size), each)]
    if sum(lengths) != size or min(lengths, default=0) < 0:
        raise UnsupportedError(f"the lengths {lengths} do not divide the {size} elements of axis {axis}")
    pieces, first = [], 0
    for length in lengths:
        piece = shapes.slice_axis(data, axis, first, first + length)
        pieces.append(shapes.squeeze(piece, [axis]) if drops else piece)
        first += length
    return [TensorSequence(tuple(pieces))]
