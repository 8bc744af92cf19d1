"""Compute the shape that ``reshape`` returns, with its special values 0, -1, -2, -3 and -4."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.ops.dims import Shape, floor_divide, multiply, product, static_size
from nnmagic.relay.types import Dim


class _ShapeReader:
    """The new shape as it grows, and the dimensions of the data that are not yet used.

    ``free_in`` and ``free_out`` are the dimensions from which -1 is inferred: those that no code copied.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.at = 0
        self.out: list[Dim] = []
        self.copied_in: set[int] = set()
        self.free_out: list[Dim] = []
        self.infer: int | None = None

    def next_dim(self, code: int) -> Dim:
        """Consume and return a dimension of the data."""
        if self.at >= len(self.shape):
            message = f"newshape has {code}, but no dimension of the data is left"
            raise RelationError(message, 0, attr="newshape")
        self.copied_in.add(self.at)
        self.at += 1
        return self.shape[self.at - 1]


def reshape_shape(shape: Shape, codes: Sequence[int], allowzero: bool = False) -> Shape:
    """Return the new shape of a reshape.

    A positive number is a dimension; 0 copies one (with ``allowzero`` it is 0), -1 is inferred from the rest,
    -2 copies all that remain, -3 multiplies two, -4 splits one into the two that follow. Raises RelationError
    if the codes do not fit or the number of elements changes.
    """
    reading = _ShapeReader(shape)
    remaining_codes = iter(enumerate(codes))
    for index, code in remaining_codes:
        if code == -1:
            _infer_at(reading, index)
        else:
            _read(reading, code, (after for _, after in remaining_codes), allowzero)
    if reading.infer is not None:
        if reading.infer >= len(reading.out):
            raise RelationError("-1 in newshape cannot be inferred behind -4", 0, attr="newshape")
        reading.out[reading.infer] = _infer_size(reading)
    result = tuple(reading.out)
    before, after = static_size(shape), static_size(result)
    if before is not None and after is not None and before != after:
        raise RelationError(
            f"a tensor of shape {{old:shape}} has {before} elements, shape {{new:shape}} has {after}",
            0,
            attr="newshape",
            old=shape,
            new=result,
        )
    return result


def _infer_at(reading: _ShapeReader, index: int) -> None:
    """Put the inferred size at the index of -1 in newshape.

    So does Relay, even if -2 or -4 has shifted the result.
    """
    if reading.infer is not None:
        raise RelationError("newshape can have -1 only once", attr="newshape")
    reading.infer = index
    reading.out.append(1)
    reading.at += 1


def _read(reading: _ShapeReader, code: int, following: Iterator[int], allowzero: bool) -> None:
    if code > 0 or (code == 0 and allowzero):
        reading.out.append(code)
        reading.free_out.append(code)
        reading.at += 1
    elif code == 0:
        reading.out.append(reading.next_dim(code))
    elif code == -2:
        while reading.at < len(reading.shape):
            reading.out.append(reading.next_dim(code))
    elif code == -3:
        reading.out.append(multiply(reading.next_dim(code), reading.next_dim(code)))
    elif code == -4:
        reading.out += _split_dim(reading.next_dim(code), next(following, None), next(following, None))
    else:
        raise RelationError(f"newshape cannot have {code}", attr="newshape")


def _split_dim(dim: Dim, lhs: int | None, rhs: int | None) -> tuple[Dim, Dim]:
    if lhs is None or rhs is None:
        raise RelationError("in newshape, -4 must be followed by two numbers", attr="newshape")
    if lhs == rhs == -1:
        raise RelationError("of the two numbers after -4 only one can be -1", attr="newshape")
    if lhs == -1:
        return _divide(dim, rhs), rhs
    return lhs, _divide(dim, lhs) if rhs == -1 else rhs


def _divide(dim: Dim, by: int) -> Dim:
    if by <= 0 or (isinstance(dim, int) and dim % by):
        message = f"a dimension of {{dim:dim}} cannot be split by {by}"
        raise RelationError(message, 0, attr="newshape", dim=dim)
    return floor_divide(dim, by)


def _infer_size(reading: _ShapeReader) -> Dim:
    """Return the value of -1: the elements that the other new dimensions leave over."""
    free = [dim for index, dim in enumerate(reading.shape) if index not in reading.copied_in]
    taken = list(reading.free_out)
    for dim in reading.free_out:  # equal dimensions cancel, so that (?, 3) -> (-1, 3) keeps its label
        if dim in free:
            free.remove(dim)
            taken.remove(dim)
    have, used = product(free), product(taken)
    if used == 0:
        raise RelationError("-1 in newshape cannot be inferred beside a 0", 0, attr="newshape")
    if isinstance(have, int) and isinstance(used, int) and have % used:
        raise RelationError(f"{have} elements cannot be divided by {used} to infer -1", 0, attr="newshape")
    return have if used == 1 else floor_divide(have, used)
