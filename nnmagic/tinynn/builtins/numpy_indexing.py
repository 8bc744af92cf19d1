"""NumPy's functions that look for places and take from them: take, nonzero, sort, searchsorted, diff."""

from __future__ import annotations

import numpy as np

from nnmagic.relay.types import AnyDim, TensorType
from nnmagic.tinynn.annotations import dtype_short_name
from nnmagic.tinynn.binding import Arguments, Builtin
from nnmagic.tinynn.builtins.formula import Formula
from nnmagic.tinynn.builtins.operands import (
    as_formula,
    fixed,
    flag,
    formula,
    known_int,
    known_number,
    known_or_none,
    one_axis,
    pair,
    require_rank,
    shape_argument,
    word,
)
from nnmagic.tinynn.values import (
    Computed,
    Known,
    Operand,
    Refusal,
    TupleOf,
    Value,
    number_constant,
    shape_shown,
)

_NAMES = "x=a input=a"

# -- taking --------------------------------------------------------------------------------------------


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
        raise Refusal(message, call.given[parameter].span, hint=hint)
    return indices


def size_along(data: Formula, axis: int, like: Formula) -> Formula:
    """The size of an axis as a number of the dtype of ``like``; a named one is read when the program runs."""
    size = data.shape[axis]
    if isinstance(size, int):
        return like.like(size)
    sizes = data.op("shape_of", dtype="int64")
    cut = sizes.op("strided_slice", begin=[axis], end=[axis + 1], strides=[1], axes=[0])
    return cut.op("squeeze", axis=[0]).cast(like.dtype)


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
            raise Refusal(message, call.given[parameter].span)

    visit(known)


def _known_places(call: Arguments, parameter: str, size: object) -> Formula | None:
    """Indices that are known while compiling, in range, from 0 on."""
    known = known_or_none(call.given[parameter].value)
    if known is None or not isinstance(size, int):
        return None
    from nnmagic.tinynn.builtins.numpy_creation import constant_of

    return constant_of(np.mod(np.asarray(known), size), "int32", call.given[parameter].span)


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
    from nnmagic.tinynn.builtins.numpy_creation import apply_arange

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
        shapes = f"{shape_shown(data.shape)}, the indices {shape_shown(indices.shape)}"
        message = f"take_along_axis: the data has the shape {shapes}"
        raise Refusal(message, call.span, hint="both must have as many dimensions")
    checked_known(call, "indices", data.shape[axis])
    from nnmagic.tinynn.builtins.numpy_shapes import broadcast, common_shape

    outer = [
        tuple(1 if place == axis else dim for place, dim in enumerate(each.shape)) for each in (data, indices)
    ]
    shape = common_shape(call, outer)
    data, indices = (
        broadcast(each, tuple(each.shape[axis] if place == axis else dim for place, dim in enumerate(shape)))
        for each in (data, indices)
    )
    return data.op("gather", checked_places(indices, data, axis), axis=axis).value


# -- looking for ---------------------------------------------------------------------------------------


def nonzero(condition: Formula) -> Value:
    """Where the elements are true, an i64 tensor for each dimension; how many is known when it runs."""
    if condition.rank == 0:
        raise Refusal("nonzero of a scalar", condition.span, hint="compare it: x != 0")
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
        raise Refusal("argwhere of a scalar", call.given["a"].span, hint="compare it: x != 0")
    return _argwhere_of(data).value


def _flatnonzero(call: Arguments) -> Value:
    found = nonzero(formula(call, "a").truth().flat())
    assert isinstance(found, TupleOf)
    return found.items[0]


def _searchsorted(call: Arguments) -> Value:
    """The places where values would keep the order."""
    ordered, values = pair(call, "a", "v")
    if ordered.rank != 1:
        message = f"searchsorted takes sorted numbers of rank 1, not of shape {shape_shown(ordered.shape)}"
        raise Refusal(message, call.given["a"].span)
    right = word(call, "side", ("left", "right"), "right" if flag(call, "right") else "left") == "right"
    flat = values.flat() if values.rank else values.reshape((1,))
    found = ordered.op("searchsorted", flat, right=right, dtype="int64")
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


# -- order ---------------------------------------------------------------------------------------------


def _ordering(call: Arguments) -> tuple[Formula, int]:
    data = formula(call, "a")
    if "axis" in call.given and call.known("axis") is None:
        return (data.flat() if data.rank else data.reshape((1,))), 0
    if data.rank == 0:
        raise Refusal(f"{call.name} of a scalar", call.given["a"].span)
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
    from nnmagic.tinynn.builtins.operands import dtype_argument

    dtype = dtype_argument(call) or "int64"
    return data.op("argsort", axis=axis, is_ascend=flag(call, "is_ascend", default=True), dtype=dtype).value


# -- differences ---------------------------------------------------------------------------------------


def _piece(data: Formula, axis: int, begin: int, end: int | None) -> Formula:
    """``data[begin:end]`` along an axis; an end that is negative counts from it."""
    size = data.shape[axis]
    if isinstance(size, int):
        first, last, _ = slice(begin, end).indices(size)
        return data.op("strided_slice", begin=[first], end=[max(first, last)], strides=[1], axes=[axis])
    last = 2**31 - 1 if end is None else end
    cut = data.op("strided_slice", begin=[begin], end=[last], strides=[1], axes=[axis])
    value = cut.value
    shape = tuple(AnyDim() if place == axis else dim for place, dim in enumerate(data.shape))
    return Formula(Computed(value.expr, TensorType(shape, data.dtype)), data.span)


def _diff(call: Arguments) -> Value:
    data = formula(call, "a")
    require_rank(call, data, "a", 1)
    axis, times = one_axis(call, "axis", data.rank, -1), known_int(call, "n", 1)
    if times < 0:
        raise Refusal("diff: `n` must not be negative", call.given["n"].span)
    from nnmagic.tinynn.builtins.numpy_shapes import joined

    ends = [name for name in ("prepend", "append") if name in call]
    if ends:
        parts = {
            name: as_formula(call.given[name], call.span, f"diff: `{name}`").cast(data.dtype) for name in ends
        }
        shape = tuple(1 if place == axis else dim for place, dim in enumerate(data.shape))
        whole = {
            name: part if part.rank else part.op("broadcast_to", shape=shape) for name, part in parts.items()
        }
        listed = [whole.get("prepend"), data, whole.get("append")]
        data = joined(call, [part for part in listed if part is not None], axis)
    for _ in range(times):
        later, earlier = _piece(data, axis, 1, None), _piece(data, axis, 0, -1)
        data = later.differs(earlier) if data.dtype == "bool" else later - earlier
    return data.value


def _gradient(call: Arguments) -> Value:
    """Central differences, one-sided at the ends; an even step."""
    data = formula(call, "f")
    if not data.is_float:
        data = data.cast("float64")
    step = known_number(call, "step", 1.0)
    axes = (one_axis(call, "axis", data.rank),) if "axis" in call else tuple(range(data.rank))
    from nnmagic.tinynn.builtins.numpy_shapes import joined

    found = []
    for axis in axes:
        size = fixed(call, data.shape[axis], call.given["f"].span)
        if size < 2:
            raise Refusal(f"gradient needs two elements along axis {axis}", call.given["f"].span)
        first = (_piece(data, axis, 1, 2) - _piece(data, axis, 0, 1)) / step
        last = (_piece(data, axis, size - 1, size) - _piece(data, axis, size - 2, size - 1)) / step
        parts = [first, last]
        if size > 2:
            parts.insert(1, (_piece(data, axis, 2, None) - _piece(data, axis, 0, -2)) / (2 * step))
        found.append(joined(call, parts, axis).value)
    return found[0] if len(found) == 1 else TupleOf(tuple(found))


def _trapezoid(call: Arguments) -> Value:
    data = formula(call, "y")
    if not data.is_float:
        data = data.cast("float64")
    axis = one_axis(call, "axis", data.rank, -1)
    gaps: Formula | float = known_number(call, "dx", 1.0)
    if "x" in call:
        at = formula(call, "x").cast(data.dtype)
        along = 0 if at.rank == 1 else axis
        gaps = _piece(at, along, 1, None) - _piece(at, along, 0, -1)
        if at.rank == 1:
            gaps = gaps.reshape([gaps.shape[0] if place == axis else 1 for place in range(data.rank)])
    both = _piece(data, axis, 1, None) + _piece(data, axis, 0, -1)
    return (both * gaps * 0.5).reduce("sum", (axis,)).value


def _ediff1d(call: Arguments) -> Value:
    data = formula(call, "ary").flat()
    return (_piece(data, 0, 1, None) - _piece(data, 0, 0, -1)).value


def _interp(call: Arguments) -> Value:
    """Piecewise linear, level beyond the ends; ``xp`` rises. f64, as NumPy's."""
    at, points, values = (formula(call, name).cast("float64") for name in ("x", "xp", "fp"))
    if points.rank != 1 or values.rank != 1 or points.shape != values.shape:
        raise Refusal("interp: `xp` and `fp` must be of rank 1 and one length", call.span)
    count = fixed(call, points.shape[0], call.given["xp"].span)
    if count == 0:
        raise Refusal("interp: there are no points", call.given["xp"].span)
    flat = at.flat() if at.rank else at.reshape((1,))

    def of(data: Formula, places: Formula) -> Formula:
        return data.op("take", places, axis=0, mode="clip")

    right = points.op("searchsorted", flat, right=True, dtype="int64")
    x0, y0, x1, y1 = (of(data, places) for places in (right - 1, right) for data in (points, values))
    slope = x1.equal(x0).choose(0, (y1 - y0) / x1.equal(x0).choose(1, x1 - x0))
    inner = slope * (flat - x0) + y0
    first, last = (of(values, flat.cast("int64") * 0 + place) for place in (0, count - 1))
    low, high = (of(points, flat.cast("int64") * 0 + place) for place in (0, count - 1))
    if "left" in call:
        first = first.like(known_number(call, "left", 0.0))
    if "right" in call:
        last = last.like(known_number(call, "right", 0.0))
    found = (flat < low).choose(first, (flat > high).choose(last, inner))
    return flat.op("isnan").choose(flat, found).reshape(at.shape).value


def _unsupported(name: str, reason: str, hint: str) -> Builtin:
    """A name that people type and that cannot be: it says why."""

    def apply_to(call: Arguments) -> Value:
        raise Refusal(f"{name}: {reason}", call.span, hint=hint)

    return Builtin(name, "*args", apply_to, "Refused: " + reason + ".", None, method=False)


_NO_SIZE = "how many results there are depends on the elements"

INDEXING = (
    Builtin(
        "take",
        "a indices axis? mode? * batch_dims?",
        _take,
        "Elements, or slices along an axis, at places.",
        "take",
        _NAMES,
    ),
    Builtin(
        "take_along_axis",
        "arr indices axis?",
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
        "a v side? * right? dtype?",
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
        "a axis? * is_ascend? dtype? kind? stable?",
        _argsort,
        "Where the elements stand that a sort puts first, i64; stable.",
        "argsort",
        _NAMES,
    ),
    Builtin("diff", "a n? axis? prepend? append?", _diff, "Differences of neighbours.", "diff"),
    Builtin("ediff1d", "ary", _ediff1d, "Differences of neighbours, flattened.", "ediff1d", method=False),
    Builtin("gradient", "f step? * axis?", _gradient, "Central differences.", "gradient", method=False),
    Builtin("trapezoid", "y x? dx? axis?", _trapezoid, "The trapezoidal rule.", "trapezoid", method=False),
    Builtin(
        "interp",
        "x xp fp left? right?",
        _interp,
        "Piecewise linear interpolation, f64.",
        "interp",
        method=False,
    ),
    *(
        _unsupported(name, _NO_SIZE, hint)
        for name, hint in (
            ("bincount", "sum(one_hot(x, n), axis=0) counts n known values"),
            ("compress", "where(mask, x, 0) keeps the shape"),
            ("extract", "where(mask, x, 0) keeps the shape"),
            ("delete", "slice around it: concatenate([x[:i], x[i + 1:]])"),
            ("trim_zeros", "where(mask, x, 0) keeps the shape"),
        )
    ),
)
