"""Refuse what Relay takes but a cell does not: programs whose meaning would surprise, or that cannot run.

Rules over argument types, in tables keyed by operator. Raises RelationError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.limits import MAX_RANK, MAX_TUPLE_SIZE
from nnmagic.relay import types as ty
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.declaration import Elements, Operator, RelationError
from nnmagic.relay.signatures import dtype_short_name, format_dim, format_shape, format_type
from nnmagic.tinynn.values.complex_support import check_complex, check_conversion, gives_complex, refusal

_HINTS = {
    "floats": "convert it first, as in {0}.astype(f32)",
    "numbers": "convert it first, as in {0}.astype(i32)",
    "integers": "convert it first, as in {0}.astype(i32)",
    "integers or bools": "convert it first, as in {0}.astype(i32)",
    "bools": "compare it first, as in {0} != 0",
}

#: What to write where a sign is not what it is in mathematics.
_OTHER_SIGN = {"`^`": "a power is written **; for bits convert it first, as in {0}.astype(i32)"}

#: Relay names whose meaning is not NumPy's, and what to write instead.
_OTHER_MEANING = {
    "mod": (
        "its sign follows the dividend, unlike NumPy's mod",
        "write a % b (floor_mod), or trunc_mod(a, b)",
    )
}


def check_restrictions(operator: Operator, types: Sequence[ty.Type], attrs: Attrs) -> None:
    """Refuse a call that Relay takes and a cell does not, or that a cell refuses in clearer words."""
    if operator.name in _OTHER_MEANING:
        reason, hint = _OTHER_MEANING[operator.name]
        raise RelationError(f"{operator.name} is not taken: {reason}", hint=hint)
    _check_tensors(operator, types)
    check_kind(operator.name, operator, types)
    if operator.name in ("cast", "cast_like"):
        check_conversion(types, attrs)
    rule = _RULES.get(operator.name)
    if rule is not None:
        rule(operator.name, types, attrs)
    if operator.family == "binary":
        check_broadcast(operator.name, _tensor(types, 0), _tensor(types, 1))


def check_result(operator: Operator, result: ty.Type) -> None:
    """Refuse shapes and dtypes that no tensor can have, though Relay computes them: ``zeros((-1,))``."""
    tensors = result.fields if isinstance(result, ty.TupleType) else (result,)
    for tensor in tensors:
        if not isinstance(tensor, ty.TensorType):
            continue
        if any(isinstance(dim, int) and not 0 <= dim < 2**63 for dim in tensor.shape):
            message = f"{operator.name}: the result would have the shape {format_shape(tensor.shape)}"
            raise RelationError(message, attr="shape")
        if ty.is_complex(tensor.dtype) and not gives_complex(operator.name):
            raise RelationError(refusal(operator.name, operator.name)[0], attr="dtype")
        if tensor.dtype not in ty.ARRAY_DTYPES:
            hint = "give its dtype, as in dtype=f32" if operator.attr("dtype") else None
            raise RelationError(f"{operator.name}: the result would have no dtype", hint=hint, attr="dtype")


def _check_tensors(operator: Operator, types: Sequence[ty.Type]) -> None:
    """Refuse a tuple for an operator of one tensor: Relay's Identity lets it pass through ``nn.relu``."""
    for index, type_ in enumerate(types):
        if operator.variadic and isinstance(type_, ty.TupleType):
            continue
        if not isinstance(type_, ty.TensorType):
            wanted = "a tuple of tensors" if operator.variadic else "a tensor"
            raise RelationError(f"{operator.name} takes {wanted}, not {format_type(type_)}", index)


def check_kind(what: str, operator: Operator, types: Sequence[ty.Type]) -> None:
    """Check the element types that an operator is defined for; ``what``: how the user called it."""
    if check_complex(what, operator.name, types):
        return
    kind = operator.elements
    for index, type_ in enumerate(types):
        if isinstance(type_, ty.TensorType) and not _is_of_kind(type_.dtype, kind):
            dtype = dtype_short_name(type_.dtype)
            hint = _OTHER_SIGN.get(what, _HINTS[kind])
            raise RelationError(f"{what} is defined for {kind}, not {dtype}", index, hint=hint)


def _is_of_kind(dtype: str, kind: Elements) -> bool:
    match kind:
        case "floats":
            return ty.is_float(dtype)
        case "numbers":
            return dtype != "bool"
        case "integers":
            return ty.is_integer(dtype)
        case "integers or bools":
            return ty.is_integer(dtype) or dtype == "bool"
        case "bools":
            return dtype == "bool"
    return True


def _tensor(types: Sequence[ty.Type], index: int) -> ty.TensorType:
    type_ = types[index]
    assert isinstance(type_, ty.TensorType)
    return type_


# -- dimensions ---------------------------------------------------------------------------------------


def dims_differ(lhs: ty.Dim, rhs: ty.Dim) -> bool:
    """Return whether two dimensions that must be equal are not, as far as their annotations say.

    Two names, or a name and a number, are different: nothing says that they are equal.
    An unnamed ``?`` may be anything.
    """
    if lhs == ty.AnyDim() or rhs == ty.AnyDim():
        return False
    return lhs != rhs


def broadcast_shape(shapes: Sequence[Sequence[ty.Dim]]) -> tuple[ty.Dim, ...] | None:
    """Return the shape that all shapes broadcast to; None if they do not broadcast.

    Of two dimensions that may be equal, the one that says more wins: a number or a name over ``?``.
    """
    rank = max(map(len, shapes))
    result: list[ty.Dim] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            if dim != 1 and result[axis] in (1, ty.AnyDim()):
                result[axis] = dim
            elif dim != 1 and dims_differ(result[axis], dim):
                return None
    return tuple(result)


def _names_hint(lhs: ty.Dim, rhs: ty.Dim) -> str | None:
    if isinstance(lhs, ty.AnyDim) or isinstance(rhs, ty.AnyDim):
        return "give both dimensions the same name or number in the annotations"
    return None


def _cast_hint(lhs: str, rhs: str) -> str:
    """Suggest to convert the narrower operand; ``{0}`` and ``{1}`` stand for the two."""
    target = wider_dtype(lhs, rhs)
    return f"convert one of them, as in {{{0 if lhs != target else 1}}}.astype({dtype_short_name(target)})"


def _keepdims_hint(lhs: ty.TensorType, rhs: ty.TensorType) -> str | None:
    """Suggest ``keepdims`` where one operand lacks a single axis of the other, as ``x.mean(axis=1)`` does."""
    for number, (full, reduced) in enumerate(((lhs, rhs), (rhs, lhs))):
        for axis in range(1, len(full.shape)):
            if reduced.shape == (*full.shape[:axis], *full.shape[axis + 1 :]):
                lacking = f"{{{1 - number}}}"
                return f"write expand_dims({lacking}, {axis}), or reduce with keepdims=True"
    return None


def check_broadcast(
    what: str, lhs: ty.TensorType, rhs: ty.TensorType, operands: tuple[int, int] = (0, 1)
) -> None:
    """Check NumPy's rule of broadcasting; a named dimension broadcasts with itself and with 1 only."""
    if lhs.dtype != rhs.dtype:
        raise RelationError(
            f"{what} of {dtype_short_name(lhs.dtype)} and {dtype_short_name(rhs.dtype)}: "
            "an operator of Relay takes one dtype",
            *operands,
            hint=_cast_hint(lhs.dtype, rhs.dtype),
        )
    for left_dim, right_dim in zip(reversed(lhs.shape), reversed(rhs.shape), strict=False):
        if left_dim != 1 and right_dim != 1 and dims_differ(left_dim, right_dim):
            raise RelationError(
                f"{what}: the shapes {format_shape(lhs.shape)} and {format_shape(rhs.shape)} "
                f"do not broadcast ({format_dim(left_dim)} against {format_dim(right_dim)})",
                *operands,
                hint=_keepdims_hint(lhs, rhs) or _names_hint(left_dim, right_dim),
            )


def wider_dtype(lhs: str, rhs: str) -> str:
    """Return the dtype that a hint converts to: complex, floats, then ints; more bits before fewer."""

    def order(dtype: str) -> tuple[bool, bool, int]:
        digits = "".join(filter(str.isdigit, dtype))
        return ty.is_complex(dtype), ty.is_float(dtype), int(digits or 1)

    return max(lhs, rhs, key=order)


def check_product(what: str, lhs: ty.TensorType, rhs: ty.TensorType, inner: tuple[int, int]) -> None:
    """Check the dtypes and the dimensions that a matrix product sums over."""
    if lhs.dtype != rhs.dtype:
        check_broadcast(what, lhs, rhs)
    if lhs.dtype == "bool":
        raise RelationError(f"{what} is defined for numbers, not bool_", 0, hint=_HINTS["numbers"])
    left_dim, right_dim = lhs.shape[inner[0]], rhs.shape[inner[1]]
    if dims_differ(left_dim, right_dim):
        raise RelationError(
            f"{what}: the inner dimensions of {format_shape(lhs.shape)} and {format_shape(rhs.shape)} "
            f"differ ({format_dim(left_dim)} and {format_dim(right_dim)})",
            0,
            1,
            hint=_transposed_hint(lhs, rhs, inner) or _names_hint(left_dim, right_dim),
        )


def _transposed_hint(lhs: ty.TensorType, rhs: ty.TensorType, inner: tuple[int, int]) -> str | None:
    """Return the hint for two matrices of which the second fits if it is transposed."""
    is_written = len(lhs.shape) == len(rhs.shape) == 2 and inner == (-1, -2)
    return (
        "transpose one, as in x @ y.T" if is_written and not dims_differ(lhs.shape[1], rhs.shape[1]) else None
    )


def _rank(name: str, types: Sequence[ty.Type], ranks: Sequence[int]) -> None:
    for index, rank in enumerate(ranks):
        tensor = _tensor(types, index)
        if len(tensor.shape) != rank:
            raise RelationError(f"{name} takes a tensor of rank {rank}, not {format_type(tensor)}", index)


def _matmul(name: str, types: Sequence[ty.Type], attrs: Attrs) -> None:
    _rank(name, types, (2, 2))
    inner = (0 if attrs["transpose_a"] else 1, 1 if attrs["transpose_b"] else 0)
    check_product(name, _tensor(types, 0), _tensor(types, 1), inner)


def _batch_matmul(name: str, types: Sequence[ty.Type], attrs: Attrs) -> None:
    _rank(name, types, (3, 3))
    inner = (1 if attrs["transpose_a"] else 2, 2 if attrs["transpose_b"] else 1)
    lhs, rhs = _tensor(types, 0), _tensor(types, 1)
    check_product(name, lhs, rhs, inner)
    if 1 not in (lhs.shape[0], rhs.shape[0]) and dims_differ(lhs.shape[0], rhs.shape[0]):
        first, second = format_dim(lhs.shape[0]), format_dim(rhs.shape[0])
        raise RelationError(f"{name}: the batch dimensions {first} and {second} differ", 0, 1)


def _dense(name: str, types: Sequence[ty.Type], _attrs: Attrs) -> None:
    lhs, rhs = _tensor(types, 0), _tensor(types, 1)
    if not lhs.shape:
        raise RelationError(f"{name} takes a tensor of rank 1 or more, not {format_type(lhs)}", 0)
    if len(rhs.shape) != 2:
        raise RelationError(f"{name} takes a weight of rank 2, not {format_type(rhs)}", 1)
    check_product(name, lhs, rhs, (-1, 1))


def _broadcast_to(name: str, types: Sequence[ty.Type], attrs: Attrs) -> None:
    data, shape = _tensor(types, 0), attrs["shape"]
    assert isinstance(shape, tuple)
    pairs = list(zip(reversed(data.shape), reversed(shape), strict=False))
    if len(data.shape) > len(shape) or any(
        given != 1 and dims_differ(given, wanted) for given, wanted in pairs
    ):
        raise RelationError(
            f"{name}: {format_shape(data.shape)} cannot become the shape {format_shape(shape)}",
            0,
            attr="shape",
        )


def _concatenate(name: str, types: Sequence[ty.Type], attrs: Attrs) -> None:
    fields = [field for field in getattr(types[0], "fields", ()) if isinstance(field, ty.TensorType)]
    axis = attrs["axis"]
    if not fields or not isinstance(axis, int):
        return
    first = fields[0]
    for other in fields[1:]:
        same_rank = len(first.shape) == len(other.shape)
        skipped = axis % len(first.shape) if name == "concatenate" and first.shape else None
        pairs = [
            pair for index, pair in enumerate(zip(first.shape, other.shape, strict=False)) if index != skipped
        ]
        if not same_rank or any(dims_differ(*pair) for pair in pairs):
            shapes = f"{format_shape(first.shape)} and {format_shape(other.shape)}"
            raise RelationError(f"{name}: the shapes {shapes} do not fit together", 0)


def _where(name: str, types: Sequence[ty.Type], _attrs: Attrs) -> None:
    condition = _tensor(types, 0)
    if condition.dtype != "bool":
        dtype = dtype_short_name(condition.dtype)
        raise RelationError(f"{name} takes a condition of bools, not {dtype}", 0, hint=_HINTS["bools"])
    then, other = _tensor(types, 1), _tensor(types, 2)
    check_broadcast(name, then, other, (1, 2))
    for index in (1, 2):
        check_broadcast(name, ty.TensorType(condition.shape, then.dtype), _tensor(types, index), (0, index))


def _divide(name: str, types: Sequence[ty.Type], _attrs: Attrs) -> None:
    dtype = _tensor(types, 0).dtype
    if not ty.is_float(dtype) and not ty.is_complex(dtype):
        hint = "write a / b (NumPy's, gives f64), a // b, or trunc_divide(a, b)"
        raise RelationError(f"{name} of integers would be truncated, unlike NumPy's", 0, 1, hint=hint)


def _axis_in_range(name: str, types: Sequence[ty.Type], attrs: Attrs) -> None:
    axes = attrs["axis"]
    rank = len(_tensor(types, 0).shape)
    for axis in axes if isinstance(axes, tuple) else (axes,):
        if isinstance(axis, int) and not -rank <= axis < rank:
            message = f"{name}: axis {axis} is out of range for a tensor of rank {rank}"
            raise RelationError(message, 0, attr="axis")


def _expand_dims(name: str, _types: Sequence[ty.Type], attrs: Attrs) -> None:
    count = attrs["num_newaxis"]
    if isinstance(count, int) and count > MAX_RANK:
        raise RelationError(f"{name}: num_newaxis is at most {MAX_RANK}, not {count}", attr="num_newaxis")


def _split(name: str, _types: Sequence[ty.Type], attrs: Attrs) -> None:
    count = attrs["indices_or_sections"]
    if isinstance(count, int) and count > MAX_TUPLE_SIZE:
        message = f"{name}: indices_or_sections is at most {MAX_TUPLE_SIZE}, not {count}"
        raise RelationError(message, attr="indices_or_sections")


_RULES: dict[str, Callable[[str, Sequence[ty.Type], Attrs], None]] = {
    "nn.matmul": _matmul,
    "nn.batch_matmul": _batch_matmul,
    "nn.dense": _dense,
    "broadcast_to": _broadcast_to,
    "concatenate": _concatenate,
    "stack": _concatenate,
    "expand_dims": _expand_dims,
    "split": _split,
    "where": _where,
    "divide": _divide,
    "nn.l2_normalize": _axis_in_range,
    "nn.softmax": _axis_in_range,
    "nn.log_softmax": _axis_in_range,
}
