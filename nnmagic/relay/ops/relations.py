"""Define type rules that several families share: (argument types, attributes) -> result type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from nnmagic.limits import MAX_TUPLE_SIZE
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import Relation, RelationError
from nnmagic.relay.ops.dims import Shape, broadcast_shapes, same_dim
from nnmagic.relay.types import Dim, TensorType, TupleType, Type

_T = TypeVar("_T")


def tensor(types: Sequence[Type], index: int = 0, *, rank: int | None = None) -> TensorType:
    """Return argument ``index`` as a tensor type.

    Raises RelationError for another type, or for another rank than ``rank``.
    """
    operand = types[index]
    if not isinstance(operand, TensorType):
        raise RelationError("expected a tensor, found {operand}", index, operand=operand)
    if rank is not None and len(operand.shape) != rank:
        raise RelationError(f"expected a tensor of rank {rank}, found {{operand}}", index, operand=operand)
    return operand


def at_most(count: int, what: str, *operands: int, attr: str | tuple[str, ...] = ()) -> int:
    """Return a number of axes or parts. Raises RelationError for more than a type may have."""
    if count > MAX_TUPLE_SIZE:
        raise RelationError(f"{what} is at most {MAX_TUPLE_SIZE}, not {count}", *operands, attr=attr)
    return count


def tensors_of_tuple(types: Sequence[Type]) -> tuple[TensorType, ...]:
    """Return the tensors of the first argument, a tuple of at least one. Raises RelationError."""
    operand = types[0]
    fields = operand.fields if isinstance(operand, TupleType) else ()
    tensors = tuple(field for field in fields if isinstance(field, TensorType))
    if not tensors or len(tensors) != len(fields):
        raise RelationError("expected a tuple of tensors, found {operand}", 0, operand=operand)
    return tensors


def ints(attrs: Attrs, name: str, length: int | None = None) -> tuple[int, ...]:
    """Return an attribute that is an array of ints. Raises RelationError for another length."""
    value = attrs[name]
    if not isinstance(value, tuple) or not all(isinstance(part, int) for part in value):
        raise RelationError(f"{name} must be a list of ints", attr=name)
    return cast("tuple[int, ...]", of_length(name, value, length))


def pairs(attrs: Attrs, name: str, length: int) -> tuple[tuple[int, int], ...]:
    """Return an attribute of pairs (before, after), one for each dimension."""
    value = cast("tuple[tuple[int, ...], ...]", attrs[name])
    if len(value) != length or any(len(pair) != 2 for pair in value):
        paired = [list(pair) for pair in value]
        raise RelationError(f"{name} must have {length} pairs, found {paired}", 0, attr=name)
    return cast("tuple[tuple[int, int], ...]", value)


def dims(attrs: Attrs, name: str, length: int | None = None) -> Shape:
    """Return an attribute that is an array of dimensions. Raises RelationError for another length."""
    value = attrs[name]
    if not isinstance(value, tuple):
        raise RelationError(f"{name} must be a list of dimensions", attr=name)
    return cast(Shape, of_length(name, value, length))


def leading_dims(attrs: Attrs, name: str, count: int) -> Shape:
    """Return the first ``count`` elements of an array of dimensions: Relay ignores further ones."""
    all_dims = dims(attrs, name)
    if len(all_dims) < count:
        message = f"{name} must have {count} element{'s' * (count != 1)}, it has {len(all_dims)}"
        raise RelationError(message, attr=name)
    return all_dims[:count]


def of_length(name: str, value: tuple[_T, ...], length: int | None) -> tuple[_T, ...]:
    """Return ``value``, of the attribute ``name``. Raises RelationError unless it is ``length`` long."""
    if length is not None and len(value) != length:
        message = f"{name} must have {length} element{'s' * (length != 1)}, it has {len(value)}"
        raise RelationError(message, attr=name)
    return value


def normalize_axis(axis: int, rank: int, operand: int = 0, *, attr: str = "axis") -> int:
    """Count a negative axis from the end; ``attr`` gives it. Raises RelationError if it is out of range."""
    if not -rank <= axis < rank:
        raise RelationError(
            f"axis {int(axis)} is out of range for a tensor of rank {rank}",
            operand,
            hint=f"an axis lies in [{-rank}, {rank})" if rank else "a scalar has no axes",
            attr=attr,
        )
    return int(axis) % rank


def new_axis(axis: int, rank: int) -> int:
    """Return the index of a new axis in a shape; a negative one counts from the end of the new shape."""
    if not -rank - 1 <= axis <= rank:
        hint = f"a new axis lies in [{-rank - 1}, {rank}]"
        message = f"axis {int(axis)} is out of range for a tensor of rank {rank}"
        raise RelationError(message, 0, hint=hint, attr="axis")
    return int(axis) % (rank + 1)


def axis_of(attrs: Attrs, shape: Sequence[Dim], name: str = "axis", operand: int = 0) -> int:
    """Return the attribute ``axis``, normalised for ``shape``."""
    axis = attrs[name]
    if not isinstance(axis, int):
        raise RelationError(f"{name} must be given", operand, attr=name)
    return normalize_axis(axis, len(shape), operand, attr=name)


def require_same(lhs: Dim, rhs: Dim, message: str, *operands: int, attr: str | tuple[str, ...] = ()) -> None:
    """Raise RelationError if two dimensions are known to differ."""
    if same_dim(lhs, rhs) is False:
        raise RelationError(
            f"{message}: {{left:dim}} is not {{right:dim}}", *operands, attr=attr, left=lhs, right=rhs
        )


def require_type(operand: TensorType, shape: Sequence[Dim], what: str, index: int) -> None:
    """Raise RelationError unless a tensor can have ``shape``."""
    if len(operand.shape) != len(shape) or any(
        same_dim(a, b) is False for a, b in zip(operand.shape, shape, strict=True)
    ):
        expected = TensorType(tuple(shape), operand.dtype)
        raise RelationError(
            "expected {what} to be {expected}, found {operand}",
            index,
            0,
            what=what,
            expected=expected,
            operand=operand,
        )


def require_positive(name: str, values: Sequence[Dim]) -> None:
    """Raise RelationError if a static dimension of the attribute ``name`` is less than 1."""
    if any(isinstance(value, int) and value < 1 for value in values):
        raise RelationError(f"{name} must be positive, found {{values:shape}}", attr=name, values=values)


def dtype_or(attrs: Attrs, name: str, default: str) -> str:
    """Return the dtype attribute, or the default if it is not given."""
    value = attrs[name]
    return value if isinstance(value, str) and value else default


def identity(types: Sequence[Type], _attrs: Attrs) -> Type:
    """Return the type of the first argument, whatever it is: Relay's Identity."""
    return types[0]


def same_as(index: int) -> Relation:
    """Return the relation whose result is the tensor type of one of the arguments."""
    return lambda types, _attrs: tensor(types, index)


def broadcast(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    """Broadcast two tensors by NumPy's rule, whose dtypes must be equal: Relay's Broadcast."""
    lhs, rhs = tensor(types, 0), tensor(types, 1)
    if lhs.dtype != rhs.dtype:
        hint = f"convert one of them, as in cast(x, dtype={lhs.dtype!r})"
        raise RelationError(
            "the dtypes {left:dtype} and {right:dtype} differ",
            0,
            1,
            hint=hint,
            left=lhs.dtype,
            right=rhs.dtype,
        )
    shape = broadcast_shapes(lhs.shape, rhs.shape)
    if shape is None:
        raise RelationError("{left} and {right} do not broadcast together", 0, 1, left=lhs, right=rhs)
    return TensorType(shape, lhs.dtype)


def broadcast_compare(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Broadcast two tensors to a tensor of bools: Relay's BroadcastComp."""
    return TensorType(broadcast(types, attrs).shape, "bool")


def identity_compare(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    """Return the argument's shape with dtype bool: Relay's IdentityCompRel."""
    return TensorType(tensor(types).shape, "bool")


def channel_vectors(*names: str) -> Callable[[Sequence[Type], Attrs], TensorType]:
    """Return the relation of normalisations: further arguments are vectors as long as the data's ``axis``."""

    def relation(types: Sequence[Type], attrs: Attrs) -> TensorType:
        data = tensor(types)
        channels = data.shape[axis_of(attrs, data.shape)]
        for index, name in enumerate(names, start=1):
            vector = tensor(types, index)
            if vector.dtype != data.dtype:
                raise RelationError(
                    "expected {name} to be {expected}, found {vector}",
                    index,
                    0,
                    name=name,
                    expected=TensorType((channels,), data.dtype),
                    vector=vector,
                )
            require_type(vector, (channels,), name, index)
        return data

    return relation


def assume_channel_vectors(types: Sequence[Type | None], attrs: Attrs) -> Sequence[Type | None]:
    """Assume unknown arguments after the data to be vectors of its channels and dtype."""
    data = types[0]
    if not isinstance(data, TensorType):
        return types
    vector = TensorType((data.shape[axis_of(attrs, data.shape)],), data.dtype)
    return [data, *(vector if type_ is None else type_ for type_ in types[1:])]
