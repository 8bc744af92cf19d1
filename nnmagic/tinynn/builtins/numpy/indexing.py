"""NumPy's functions that look for places and take from them: take, nonzero, sort, searchsorted."""

from __future__ import annotations

import numpy as np

from nnmagic.relay.signatures import dtype_short_name, format_shape
from nnmagic.tinynn.builtins.argument_checks import (
    dtype_argument,
    fixed,
    flag,
    formula,
    known_int,
    known_or_none,
    one_axis,
    pair,
    shape_argument,
    word,
)
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import (
    apply_arange,
    broadcast,
    common_shape,
    constant_of,
    cut,
    size_along,
)
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, TupleOf, Value, number_constant

_NAMES = "x=a input=a"


def index_formula(call: Arguments, parameter: str) -> Formula:
    """An argument of indices: integers, known while compiling or not."""
    indices = formula(call, parameter)
    if not indices.is_integer:
        message = f"{call.name}: `{parameter}` must be integers, not {dtype_short_name(indices.dtype)}"
        hint = (
            "where(mask, x, 0) chooses by bools"
            if indices.dtype == "bool"
            else "convert them with .astype(i32)"
        )
        raise RefusalError(message, call.given[parameter].span, hint=hint)
    return indices


def wrapped(indices: Formula, data: Formula, axis: int) -> Formula:
    """Indices where negative ones count from the end."""
    if indices.dtype.startswith("uint"):
        return indices
    if indices.dtype in ("int8", "int16"):
        indices = indices.cast("int32")
    return (indices < 0).choose(indices + size_along(data, axis, indices), indices)


def checked_known(call: Arguments, parameter: str, size: object) -> None:
    """Indices that are known while compiling must be in range."""
    known = known_or_none(call.given[parameter].value)

    def visit(value: object) -> None:
        if isinstance(value, tuple):
            for item in value:
                visit(item)
        elif isinstance(value, int) and isinstance(size, int) and not -size <= value < size:
            message = f"{call.name}: index {value} is out of range for an axis of size {size}"
            raise RefusalError(message, call.given[parameter].span)

    visit(known)


def _known_places(call: Arguments, parameter: str, size: object) -> Formula | None:
    """Indices that are known while compiling, in range, from 0 on."""
    known = known_or_none(call.given[parameter].value)
    if known is None or not isinstance(size, int):
        return None

    dtype = "int32" if size < 2**31 else "int64"
    return constant_of(np.mod(np.asarray(known), size), dtype, call.given[parameter].span)


def taken(call: Arguments, data: Formula, indices: Formula, axis: int, parameter: str = "indices") -> Formula:
    """The slices at places along an axis; a place that there is not is an error."""
    checked_known(call, parameter, data.shape[axis])
    places = _known_places(call, parameter, data.shape[axis])
    if places is not None:
        return data.op("take", places, axis=axis)
    return data.op("take", wrapped(indices, data, axis), axis=axis, mode="fast")


def _take(call: Arguments) -> Value:
    """NumPy's default for an index out of range is an error; "wrap" and "clip" bring it into range."""
    data, indices = formula(call, "a"), index_formula(call, "indices")
    mode = word(call, "mode", ("raise", "wrap", "clip", "fast"), "raise")
    batch = known_int(call, "batch_dims", 0)
    axis = one_axis(call, "axis", data.rank) if "axis" in call else None
    if axis is None:
        data, axis = data.flat() if data.rank else data.reshape((1,)), 0
    if batch:
        return data.op(
            "take", indices, axis=axis, batch_dims=batch, mode="clip" if mode == "raise" else mode
        ).value
    if mode == "raise":
        return taken(call, data, indices, axis).value
    return data.op("take", indices, axis=axis, mode=mode).value


def checked_places(indices: Formula, data: Formula, axis: int) -> Formula:
    """Indices along an axis, not negative; one that is out of range is an error when the program runs."""
    places = wrapped(indices, data, axis)
    size = data.shape[axis]
    if not isinstance(size, int):
        return places
    return apply_arange(size, indices.span).op("take", places, axis=0, mode="fast")


def _take_along_axis(call: Arguments) -> Value:
    data, indices = formula(call, "arr"), index_formula(call, "indices")
    if "axis" in call.given and call.known("axis") is None:
        data = data.flat()
        axis = 0
    else:
        axis = one_axis(call, "axis", data.rank, -1)
    if indices.rank != data.rank:
        shapes = f"{format_shape(data.shape)}, the indices {format_shape(indices.shape)}"
        message = f"take_along_axis: the data has the shape {shapes}"
        raise RefusalError(message, call.span, hint="both must have as many dimensions")
    checked_known(call, "indices", data.shape[axis])

    outer = [
        tuple(1 if place == axis else dim for place, dim in enumerate(each.shape)) for each in (data, indices)
    ]
    shape = common_shape(call, outer)
    data, indices = (
        broadcast(each, tuple(each.shape[axis] if place == axis else dim for place, dim in enumerate(shape)))
        for each in (data, indices)
    )
    if indices.shape[axis] == 0:
        return cut(data, axis, 0, 0).value  # Relay's gather takes one at least
    return data.op("gather", checked_places(indices, data, axis), axis=axis).value


def nonzero(condition: Formula) -> Value:
    """Where the elements are true, an i64 tensor for each dimension; how many is known when it runs."""
    if condition.rank == 0:
        raise RefusalError("nonzero of a scalar", condition.span, hint="compare it: x != 0")
    places = _argwhere_of(condition)
    found = []
    for axis in range(condition.rank):
        column = places.op(
            "take", Formula(number_constant(axis, "int64", condition.span), condition.span), axis=1
        )
        found.append(column.value)
    return TupleOf(tuple(found))


def _argwhere_of(condition: Formula) -> Formula:
    return condition.op("argwhere").cast("int64")


def _nonzero(call: Arguments) -> Value:
    return nonzero(formula(call, "a").truth())


def _argwhere(call: Arguments) -> Value:
    data = formula(call, "a").truth()
    if data.rank == 0:
        raise RefusalError("argwhere of a scalar", call.given["a"].span, hint="compare it: x != 0")
    return _argwhere_of(data).value


def _flatnonzero(call: Arguments) -> Value:
    found = nonzero(formula(call, "a").truth().flat())
    assert isinstance(found, TupleOf)
    return found.items[0]


def _searchsorted(call: Arguments) -> Value:
    """The places where values would keep the order."""
    ordered, values = pair(call, "a", "v")
    if ordered.rank != 1:
        message = f"searchsorted takes sorted numbers of rank 1, not of shape {format_shape(ordered.shape)}"
        raise RefusalError(message, call.given["a"].span)
    right = word(call, "side", ("left", "right"), "right" if flag(call, "right") else "left") == "right"
    flat = values.flat() if values.rank else values.reshape((1,))
    dtype = dtype_argument(call) or "int64"
    found = ordered.op("searchsorted", flat, right=right, dtype=dtype)
    if ordered.is_float:  # NaN is the largest: behind all numbers, or behind the others
        before = ordered.equal(ordered) | ordered.op("isnan") if right else ordered.equal(ordered)
        found = flat.op("isnan").choose(before.cast(dtype).reduce("sum"), found)
    return (found if values.rank == 1 else found.reshape(values.shape)).value


def _digitize(call: Arguments) -> Value:
    """The bins, which rise, that the numbers fall into."""
    inner = {"a": call.given["bins"], "v": call.given["x"]}
    right = not flag(call, "right")
    extra = {"right": Operand(Known(right), call.span)}
    return _searchsorted(Arguments("digitize", {**inner, **extra}, call.span))


def _unravel_index(call: Arguments) -> Value:
    indices = index_formula(call, "indices").cast("int64")
    shape = shape_argument(call, "shape")
    sizes = [fixed(call, dim, call.given["shape"].span) for dim in shape]
    checked_known(call, "indices", _product(sizes))
    found, rest = [], indices
    for size in reversed(sizes):
        found.append(rest.op("floor_mod", max(size, 1)).value)
        rest = rest.op("floor_divide", max(size, 1))
    return TupleOf(tuple(reversed(found)))


def _product(sizes: list[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


def _ordering(call: Arguments) -> tuple[Formula, int]:
    data = formula(call, "a")
    if "axis" in call.given and call.known("axis") is None:
        return (data.flat() if data.rank else data.reshape((1,))), 0
    if data.rank == 0:
        raise RefusalError(f"{call.name} of a scalar", call.given["a"].span)
    return data, one_axis(call, "axis", data.rank, -1)


def _sort(call: Arguments) -> Value:
    data, axis = _ordering(call)
    ascending = flag(call, "is_ascend", default=True)
    if data.dtype == "bool":
        return data.cast("int8").op("sort", axis=axis, is_ascend=ascending).truth().value
    return data.op("sort", axis=axis, is_ascend=ascending).value


def _argsort(call: Arguments) -> Value:
    data, axis = _ordering(call)
    if data.dtype == "bool":
        data = data.cast("int8")

    dtype = dtype_argument(call) or "int64"
    return data.op("argsort", axis=axis, is_ascend=flag(call, "is_ascend", default=True), dtype=dtype).value


def _unsupported(name: str, reason: str, hint: str) -> Builtin:
    """A name that people type and that cannot be: it says why."""

    def apply_to(call: Arguments) -> Value:
        raise RefusalError(f"{name}: {reason}", call.span, hint=hint)

    return Builtin(name, "*args", apply_to, "Refused: " + reason + ".", None, method=False)


#: Of 100 000 numbers as fast as NumPy; a sum of one_hot takes ten times as long.
_COUNT = (
    "for a number of bins n known at compile time write "
    'relay.scatter_elements(zeros((n,), i64), x, ones_like(x, i64), axis=0, reduction="add")'
)
_NO_SIZE = "how many results there are depends on the elements"


INDEXING = (
    Builtin(
        "take",
        "a indices axis? mode? * batch_dims?=0",
        _take,
        "Elements, or slices along an axis, at places.",
        "take",
        _NAMES,
    ),
    Builtin(
        "take_along_axis",
        "arr indices axis?=-1",
        _take_along_axis,
        "An element for each place along an axis.",
        "take_along_axis",
        "dim=axis",
    ),
    Builtin(
        "nonzero",
        "a",
        _nonzero,
        "Where elements are not 0: an i64 tensor a dimension, of `?` elements.",
        "nonzero",
        _NAMES,
    ),
    Builtin(
        "argwhere",
        "a",
        _argwhere,
        "Where elements are not 0: a row each, i64, `?` rows.",
        "argwhere",
        "condition=a " + _NAMES,
    ),
    Builtin(
        "flatnonzero",
        "a",
        _flatnonzero,
        "Where elements of the flattened tensor are not 0.",
        "flatnonzero",
        _NAMES,
    ),
    Builtin(
        "searchsorted",
        "a v side? * right?=False dtype?=i64",
        _searchsorted,
        "Where values would keep the order, i64.",
        "searchsorted",
        "sorted_sequence=a values=v",
    ),
    Builtin(
        "digitize", "x bins right?", _digitize, "The bins, which rise, that numbers fall into.", "digitize"
    ),
    Builtin(
        "unravel_index",
        "indices shape",
        _unravel_index,
        "Flat indices as a tuple of coordinates.",
        "unravel_index",
        method=False,
    ),
    Builtin(
        "sort", "a axis? * is_ascend? kind? stable?", _sort, "In rising order, NaN last.", "sort", _NAMES
    ),
    Builtin(
        "argsort",
        "a axis? * is_ascend? dtype?=i64 kind? stable?",
        _argsort,
        "Where the elements stand that a sort puts first, i64; stable.",
        "argsort",
        _NAMES,
    ),
    _unsupported(
        "delete",
        "not supported in a cell",
        "join the parts around it, as in concatenate([x[:i], x[i + 1:]])",
    ),
    *(
        _unsupported(name, _NO_SIZE, hint)
        for name, hint in (
            ("bincount", _COUNT),
            ("compress", "write x[mask]; where(mask, x, 0) keeps the shape"),
            ("extract", "write x[mask]; where(mask, x, 0) keeps the shape"),
            ("trim_zeros", "call it in another cell; x[x != 0] drops all zeros"),
        )
    ),
)
