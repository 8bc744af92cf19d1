"""Type rules that several families share. A rule is (argument types, attributes) -> result type."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import RelationError
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import ANY, AnyDim, Dim, TensorType, TupleType, Type, VarDim


def tensor(types: Sequence[Type], index: int = 0) -> TensorType:
    """Argument ``index`` as a tensor type; RelationError where it is something else."""
    found = types[index]
    if not isinstance(found, TensorType):
        raise RelationError(f"expected a tensor, found {type_text(found)}", index)
    return found


def tensors_of_tuple(types: Sequence[Type]) -> tuple[TensorType, ...]:
    """The only argument as a tuple of tensors."""
    found = types[0]
    fields = found.fields if isinstance(found, TupleType) else (found,)
    tensors = tuple(field for field in fields if isinstance(field, TensorType))
    if not isinstance(found, TupleType) or len(tensors) != len(fields):
        raise RelationError(f"expected a tuple of tensors, found {type_text(found)}", 0)
    return tensors


def normalize_axis(axis: int, rank: int, operand: int = 0) -> int:
    """A negative axis counts from the end; RelationError where it is out of range."""
    if not -rank <= axis < rank:
        raise RelationError(f"axis {axis} is out of range for a tensor of rank {rank}", operand)
    return axis % rank


def same_dim(left: Dim, right: Dim) -> bool | None:
    """Whether two dimensions are equal; None where that is known only when the program runs."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if left == right and not (isinstance(left, AnyDim) and left.label is None):
        return True
    return None


def merge_dim(left: Dim, right: Dim) -> Dim:
    """The dimension of two that must be equal: the more precise one."""
    if isinstance(left, int) or (isinstance(right, AnyDim) and right.label is None):
        return left
    return right if isinstance(right, int) or left == ANY else left


def broadcast_dim(left: Dim, right: Dim) -> Dim | None:
    """NumPy's rule for one dimension, with Relay's for ``?``; None where the two do not fit."""
    if same_dim(left, right):
        return left
    if left == 1:
        return right
    if right == 1:
        return left
    if isinstance(left, int) and isinstance(right, int):
        return None
    if isinstance(left, int):
        return left
    if isinstance(right, int):
        return right
    if isinstance(left, VarDim) and isinstance(right, VarDim):
        return None
    return ANY


def broadcast_shapes(left: Sequence[Dim], right: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The shape of two broadcast together, aligned at the right; None where they do not fit."""
    rank = max(len(left), len(right))
    padded = ((1,) * (rank - len(left)) + tuple(left), (1,) * (rank - len(right)) + tuple(right))
    dims = [broadcast_dim(a, b) for a, b in zip(*padded, strict=True)]
    return None if None in dims else tuple(dim for dim in dims if dim is not None)


def identity(types: Sequence[Type], _attrs: Attrs) -> Type:
    """Relay's Identity: the type of the first argument, whatever it is."""
    return types[0]


def broadcast(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    """Relay's Broadcast: NumPy's broadcasting; the dtypes must be equal, the result keeps theirs."""
    left, right = tensor(types, 0), tensor(types, 1)
    if left.dtype != right.dtype:
        hint = f"convert one of them, as in cast(x, dtype={left.dtype!r})"
        raise RelationError(f"the dtypes {left.dtype} and {right.dtype} differ", 0, 1, hint=hint)
    shape = broadcast_shapes(left.shape, right.shape)
    if shape is None:
        raise RelationError(f"{type_text(left)} and {type_text(right)} do not broadcast together", 0, 1)
    return TensorType(shape, left.dtype)


def broadcast_compare(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Relay's BroadcastComp: as Broadcast, but the result is bool."""
    return TensorType(broadcast(types, attrs).shape, "bool")
