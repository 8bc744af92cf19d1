"""Import sequences: the tensors themselves, or those of one shape as the rows of a tensor.

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

_NOTE = "of known length or of tensors of one shape, inside the graph"
#: The end of a slice that goes on to the last element.
_FAR = 2**48


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
    sequence, item = node.sequence(0), node[1]
    if sequence.rows is not None:
        rows, new = sequence.rows, shapes.unsqueeze(item, [0])
        pair = [new, rows] if _is_at(node, 2, 0) else [rows, new]
        return [TensorSequence(rows=op("concatenate", pair, axis=0))]
    items = list(sequence.items)
    items.insert(_position(node, 2, len(items), len(items), len(items)), item)
    return [TensorSequence(tuple(items))]


@operator("SequenceErase", note=_NOTE)
def _sequence_erase(node: OnnxNode) -> list[TensorSequence]:
    sequence = node.sequence(0)
    if sequence.rows is not None:
        count = shapes.size_along(sequence.rows, 0)
        node.block.check(count > 0, "SequenceErase: an empty sequence has nothing to erase")
        first, end = (1, _FAR) if _is_at(node, 1, 0) else (0, -1)
        return [TensorSequence(rows=shapes.slice_axis(sequence.rows, 0, first, end))]
    items = list(sequence.items)
    if not items:
        raise UnsupportedError("an empty sequence has nothing to erase")
    del items[_position(node, 1, len(items), len(items) - 1, len(items) - 1)]
    return [TensorSequence(tuple(items))]


def _is_at(node: OnnxNode, index: int, place: int) -> bool:
    """Return whether a position is the first place, not the last one. Raises UnsupportedError for others."""
    if node.get(index) is None:
        return False
    if node[index].known is None or node.static(index)[0] != place:
        raise UnsupportedError(
            "of a sequence of unknown length, only the first or the last tensor can be changed"
        )
    return True


@operator("SequenceAt", note=_NOTE)
def _sequence_at(node: OnnxNode) -> Value:
    sequence = node.sequence(0)
    if sequence.rows is not None:
        return shapes.take(sequence.rows, shapes.scalar(node[1]), 0)
    items = sequence.items
    if not items:
        raise UnsupportedError("an empty sequence has no tensor")
    return items[_position(node, 1, len(items), len(items) - 1, 0)]


@operator("ConcatFromSequence", note=_NOTE)
def _concat_from_sequence(node: OnnxNode) -> Value:
    sequence, new = node.sequence(0), bool(node.integer("new_axis"))
    items = sequence.items
    if sequence.rows is None and not items:
        raise UnsupportedError("an empty sequence cannot be concatenated")
    rank = items[0].rank if sequence.rows is None else sequence.rows.rank - 1
    axis = normalize_axis(node.integer("axis"), rank + new)
    if sequence.rows is not None:
        moved = shapes.transpose(sequence.rows, [*range(1, axis + 1), 0, *range(axis + 1, rank + 1)])
        codes = (*[0] * axis, -3, *[0] * (rank - axis - 1))
        return moved if new else op("reshape", moved, newshape=codes)
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
    single = lengths is None or (lengths.known is not None and node.static(1)[0] == 1)
    if not isinstance(size, int) and single:
        rows = shapes.transpose(data, [axis, *(at for at in range(data.rank) if at != axis)])
        keeps = lengths is not None or bool(node.integer("keepdims", 1))
        return [TensorSequence(rows=shapes.unsqueeze(rows, [axis + 1]) if keeps else rows)]
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


def _length(node: OnnxNode) -> Value:
    sequence = node.sequence(0)
    if sequence.rows is not None:
        return shapes.size_along(sequence.rows, 0)
    return constant(len(sequence.items), "int64")


operators(
    {
        "SequenceConstruct": lambda node: [
            TensorSequence(tuple(node[index] for index in range(len(node.inputs))))
        ],
        "SequenceEmpty": lambda _node: [TensorSequence(())],
        "SequenceLength": _length,
    },
    note=_NOTE,
)
