"""Define NumPy's functions of shapes and axes: transposes, new axes, broadcasts, flips, diagonals.

NumPy's reference: https://numpy.org/doc/stable/reference/routines.array-manipulation.html
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.dims import product
from nnmagic.relay.signatures import format_dim, format_shape
from nnmagic.relay.types import AnyDim
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins import tensor_helpers as helpers
from nnmagic.tinynn.builtins.argument_checks import axes
from nnmagic.tinynn.builtins.numpy.reductions import wide_dtype
from nnmagic.tinynn.builtins.reshaping import reshape
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import (
    Arguments,
    Builtin,
    cell_function,
    free_function,
    numpy_function,
)
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, call_operator
from nnmagic.tinynn.values.operator_restrictions import dims_differ
from nnmagic.tinynn.values.symbolic_sizes import (
    as_size,
    dim_of,
    dynamic_sizes,
    number_of,
    shape_tensor,
    with_shape,
)
from nnmagic.tinynn.values.values import Dimension, Known, Operand, RefusalError, TupleOf, Value

#: Shifts below are no large numbers.
_FEW = 1 << 31

_NAMES = "x=a input=a m=a ary=a array=a"


def _flatten(call: Arguments) -> Value:
    """Flatten as NumPy's method does; ``start_dim`` and ``end_dim`` are PyTorch's."""
    data = args.formula(call, "a")
    if data.rank == 0:
        return data.reshape((1,)).value
    first, last = (
        args.one_axis(call, "start_dim", data.rank, 0),
        args.one_axis(call, "end_dim", data.rank, -1),
    )
    if first > last:
        raise RefusalError("flatten: `start_dim` is after `end_dim`", call.span)
    shape = data.shape
    if first == last and data.rank > 1:
        return data.value
    return data.reshape((*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :])).value


def _ravel(call: Arguments) -> Value:
    return args.formula(call, "a").flat().value


def _transpose(call: Arguments) -> Value:
    data = args.formula(call, "a")
    if "axes" not in call or call.static("axes") == ():
        return data.op("transpose", axes=None).value if data.rank > 1 else data.value
    permutation = axes(call, data.rank, "axes")
    assert permutation is not None
    if len(permutation) != data.rank:
        message = f"{call.name}: {len(permutation)} axes for a tensor of rank {data.rank}"
        hint = "list each axis once"
        if len(permutation) == 2:  # PyTorch's transpose swaps two axes
            hint += f", or write swapaxes({permutation[0]}, {permutation[1]}), which exchanges these two"
        raise RefusalError(message, call.at("axes"), hint=hint)
    return data.op("transpose", axes=permutation).value


def _matrix_transpose(call: Arguments) -> Value:
    data = args.formula(call, "a")
    args.require_rank(call, data, "a", 2)
    return data.transpose([*range(data.rank - 2), data.rank - 1, data.rank - 2]).value


def _swapaxes(call: Arguments) -> Value:
    data = args.formula(call, "a")
    first, second = args.one_axis(call, "axis1", data.rank), args.one_axis(call, "axis2", data.rank)
    order = list(range(data.rank))
    order[first], order[second] = second, first
    return data.transpose(order).value


def _moveaxis(call: Arguments) -> Value:
    data = args.formula(call, "a")
    source, target = axes(call, data.rank, "source") or (), axes(call, data.rank, "destination") or ()
    if len(source) != len(target):
        raise RefusalError("moveaxis: `source` and `destination` have different lengths", call.span)
    order = [axis for axis in range(data.rank) if axis not in source]
    for position, axis in sorted(zip(target, source, strict=True)):
        order.insert(position, axis)
    return data.transpose(order).value


def _rollaxis(call: Arguments) -> Value:
    data = args.formula(call, "a")
    axis, start = args.one_axis(call, "axis", data.rank), args.static_int(call, "start", 0)
    start += data.rank if start < 0 else 0
    if not 0 <= start <= data.rank:
        raise RefusalError(f"rollaxis: start {start} is out of range", call.span)
    order = list(range(data.rank))
    order.remove(axis)
    order.insert(start - (start > axis), axis)
    return data.transpose(order).value


def _squeeze(call: Arguments) -> Value:
    """Remove axes of size 1; a dynamic axis must be named, since the rank depends on it."""
    data = args.formula(call, "a")
    squeezed = axes(call, data.rank)
    if squeezed is None:
        if not all(isinstance(dim, int) for dim in data.shape):
            unit_axes = [axis for axis, dim in enumerate(data.shape) if dim == 1]
            shown = f"as in axis={unit_axes[0] if len(unit_axes) == 1 else tuple(unit_axes) or 0}"
            message = f"squeeze: which axes of {format_shape(data.shape)} have size 1 is known only in a call"
            raise RefusalError(message, call.span, hint=f"name the axes that go, {shown}")
        squeezed = tuple(axis for axis, dim in enumerate(data.shape) if dim == 1)
    for axis in squeezed:
        dim = data.shape[axis]
        if isinstance(dim, int) and dim != 1:
            raise RefusalError(f"squeeze: axis {axis} has the size {format_dim(dim)}, not 1", call.at("axis"))
    return data.op("squeeze", axis=squeezed).value if squeezed else data.value


def _expand_dims(call: Arguments) -> Value:
    data = args.formula(call, "a")
    count = args.static_int(call, "num_newaxis", 1)
    if count != 1:
        return data.op("expand_dims", axis=args.static_int(call, "axis"), num_newaxis=count).value
    axes = call.static("axis")
    listed = axes if isinstance(axes, tuple) else (axes,)
    rank = data.rank + len(listed)
    positions = sorted(args.normalize_axis(call, "axis", axis, rank) for axis in listed)
    if len(set(positions)) != len(positions):
        raise RefusalError("expand_dims: an axis is listed twice", call.at("axis"))
    for position in positions:
        data = data.expand(position)
    return data.value


def _broadcast_to_dynamic(call: Arguments, sizes: Sequence[Value]) -> Value:
    """Broadcast to a shape with sizes that are known only at run time."""
    data, wanted = args.formula(call, "a"), [dim_of(size) for size in sizes]
    pairs = zip(reversed(data.shape), reversed(wanted), strict=False)
    if data.rank > len(wanted) or any(dim != 1 and dims_differ(dim, target) for dim, target in pairs):
        message = f"broadcast_to: {format_shape(data.shape)} cannot become the shape {format_shape(wanted)}"
        raise RefusalError(message, call.at("shape"))
    if list(data.shape) == wanted and AnyDim() not in wanted:
        return data.value
    result = apply("dyn.broadcast_to", call.span, data.value, shape_tensor(sizes, call.span))
    return with_shape(result, sizes)


def _broadcast_to(call: Arguments) -> Value:
    sizes = dynamic_sizes(call.given["shape"])
    if sizes is not None:
        return _broadcast_to_dynamic(call, sizes)
    data = args.formula(call, "a")
    operands = [Operand(data.value, call.at("a"))]
    attrs = {"shape": args.shape_argument(call, "shape")}
    spans = {"shape": call.at("shape")}
    result = call_operator(OPERATORS["broadcast_to"], operands, attrs, call.span, spans)
    return data.value if attrs["shape"] == data.shape else result


def _broadcast_arrays(call: Arguments) -> Value:
    inner = [Arguments(call.name, {"x": item}, call.span) for item in call.items("arrays")]
    arrays = [args.formula(arguments, "x") for arguments in inner]
    return TupleOf(tuple(array.value for array in helpers.broadcast_together(call, arrays)) if arrays else ())


def _atleast(rank: int) -> Builtin:
    def apply_to(call: Arguments) -> Value:
        inner = [Arguments(call.name, {"x": item}, call.span) for item in call.items("arrays")]
        results = tuple(helpers.atleast_nd(args.formula(arguments, "x"), rank).value for arguments in inner)
        return results[0] if len(results) == 1 else TupleOf(results)

    name = f"atleast_{rank}d"
    return free_function(name, "*arrays", apply_to, f"Ensure at least {rank} dimensions.")


def _reverse_axes(data: Formula, along: Sequence[int]) -> Formula:
    for axis in along:
        data = data.op("reverse", axis=axis)
    return data


def _flip(call: Arguments) -> Value:
    data = args.formula(call, "a")
    flipped = axes(call, data.rank)
    return _reverse_axes(data, range(data.rank) if flipped is None else flipped).value


def _flip_along(axis: int, rank: int) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        data = args.formula(call, "a")
        args.require_rank(call, data, "a", rank)
        return _reverse_axes(data, (axis,)).value

    return apply_to


def _roll(call: Arguments) -> Value:
    """Shift by numbers that are known at compile time, or by sizes and integers of rank 0."""
    data = array = args.formula(call, "a")
    operand = call.given["shift"]
    items = operand.value.items if isinstance(operand.value, TupleOf) else (operand.value,)
    shifts = [size for item in items if (size := as_size(Operand(item, operand.span))) is not None]
    if len(shifts) != len(items):
        raise RefusalError("roll: `shift` must be an int or a tuple of ints", operand.span)
    listed = call.static("axis") if "axis" in call else None
    if listed is None:
        data = data.flat()
    chosen = listed if isinstance(listed, tuple) else (listed or 0,)
    along = tuple(args.normalize_axis(call, "axis", axis, data.rank) for axis in chosen)
    if len(shifts) == 1:
        shifts *= len(along)
    if len(along) == 1:
        along *= len(shifts)
    if len(along) != len(shifts):
        raise RefusalError("roll: `shift` and `axis` have different lengths", call.span)
    for axis, shift in zip(along, shifts, strict=True):
        data = _roll_axis(call, data, axis, shift)
    return data.reshape(array.shape, array).value if listed is None else data.value


def _roll_axis(call: Arguments, data: Formula, axis: int, shift: Value) -> Formula:
    size, step = data.shape[axis], shift.value if isinstance(shift, Known) else None
    if not isinstance(size, int) or not isinstance(step, int):
        return _roll_dynamic_axis(data, axis, shift)
    step = step % size if size else 0
    if not step:
        return data
    parts = [
        data.between(axis, size - step, size),
        data.between(axis, 0, size - step),
    ]
    return helpers.concatenate(call, parts, axis)


def _roll_dynamic_axis(data: Formula, axis: int, shift: Value) -> Formula:
    size = helpers.size_of(data, axis)
    places = helpers.arange(size, data.span)
    length = Formula(size.number, data.span) if isinstance(size, Dimension) else places.like(size)
    # An empty axis has the size 0, by which no remainder can be computed.
    step, length = Formula(number_of(shift, data.span), data.span), length.op("maximum", 1)
    few = isinstance(shift, Known) and isinstance(shift.value, int) and abs(shift.value) < _FEW
    places = places - (step if few else step.op("floor_mod", length))  # sums of large ones might wrap around
    return data.op("take", places.op("floor_mod", length), axis=axis)


def _rot90(call: Arguments) -> Value:
    data = args.formula(call, "a")
    args.require_rank(call, data, "a", 2)
    turns = args.static_int(call, "k", 1) % 4
    plane = axes(call, data.rank, "axes") or (0, 1)
    if len(plane) != 2:
        raise RefusalError("rot90: `axes` must be two axes", call.at("axes"))
    first, second = plane
    order = list(range(data.rank))
    order[first], order[second] = second, first
    if turns == 0:
        return data.value
    if turns == 2:
        return _reverse_axes(data, plane).value
    # As in NumPy, one turn reverses and then transposes, three turns do so the other way round.
    if turns == 1:
        return _reverse_axes(data, (second,)).transpose(order).value
    return _reverse_axes(data.transpose(order), (second,)).value


def trilu(data: Formula, k: int, *, upper: bool) -> Formula:
    """Keep the upper or lower triangle; the rest becomes 0."""
    return data.op("trilu", Formula(number_constant(k, "int32", data.span), data.span), upper=upper)


def _triangle(*, upper: bool) -> Callable[[Arguments], Value]:
    def apply_to(call: Arguments) -> Value:
        data = args.formula(call, "m")
        k = args.static_int(call, "k", 0)
        if data.rank == 1:
            data, _ = helpers.broadcast_together(call, [data, data.expand(1)])
        args.require_rank(call, data, "m", 2)
        if data.dtype == "bool":
            return trilu(data.cast("int8"), k, upper=upper).truth().value
        return trilu(data, k, upper=upper).value

    return apply_to


def diagonal_of(call: Arguments, data: Formula, offset: int, axis1: int, axis2: int) -> Formula:
    """Return the elements whose indices along two axes differ by the offset, as a last axis."""
    if axis1 == axis2:
        raise RefusalError(f"{call.name}: the two axes are one", call.span)
    free_axes = [axis for axis in range(data.rank) if axis not in (axis1, axis2)]
    data = data.transpose([*free_axes, axis1, axis2])
    span = next(iter(call.given.values())).span
    top, column = max(-offset, 0), max(offset, 0)
    if not all(isinstance(dim, int) for dim in data.shape[-2:]):
        return _diagonal_of_dynamic_size(data, top, column)
    rows, columns = (args.static_size(call, dim, span) for dim in data.shape[-2:])
    # Of the elements in one row, those of a diagonal are ``columns + 1`` apart: a slice with a
    # step.
    length = max(min(rows - top, columns - column), 0)
    flat = data.reshape((*data.shape[:-2], rows * columns))
    first = top * columns + column
    if length == 0:
        return flat.between(len(free_axes), 0, 0)
    end = first + (length - 1) * (columns + 1) + 1
    return flat.op("strided_slice", begin=[first], end=[end], strides=[columns + 1], axes=[len(free_axes)])


def _diagonal_of_dynamic_size(data: Formula, top: int, column: int) -> Formula:
    """Return the diagonal of the last two axes that begins in a row and a column."""
    axis = data.rank - 2
    like = helpers.arange(1, data.span)
    rows, columns = (helpers.size_along(data, each, like) for each in (axis, axis + 1))
    length = (rows - top).op("minimum", columns - column).op("maximum", 0)
    dim = data.shape[axis]
    if not isinstance(dim, AnyDim) or dims_differ(dim, data.shape[axis + 1]) is not False or top or column:
        dim = AnyDim()
    positions = helpers.arange(Dimension(dim, length.value), data.span) * (columns + 1) + (
        columns * top + column
    )
    flat = data.reshape((*data.shape[:axis], product(data.shape[axis:])), data)
    return flat.op("take", positions, axis=axis, mode="fast")


def _diagonal(call: Arguments) -> Value:
    return _the_diagonal(call).value


def _the_diagonal(call: Arguments) -> Formula:
    data = args.formula(call, "a")
    args.require_rank(call, data, "a", 2)
    one, other = args.one_axis(call, "axis1", data.rank, 0), args.one_axis(call, "axis2", data.rank, 1)
    return diagonal_of(call, data, args.static_int(call, "offset", 0), one, other)


def _trace(call: Arguments) -> Value:

    diagonal = _the_diagonal(call)
    diagonal = diagonal.cast(args.dtype_argument(call) or wide_dtype(diagonal.dtype))
    return diagonal.reduce("sum", (diagonal.rank - 1,)).value


def _diag(call: Arguments) -> Value:
    """Return the diagonal of a matrix, or the matrix with a vector as its diagonal."""
    data = args.formula(call, "v")
    k = args.static_int(call, "k", 0)
    if data.rank == 2:
        return diagonal_of(call, data, k, 0, 1).value
    if data.rank != 1:
        message = f"diag takes a tensor of rank 1 or 2, not one of shape {format_shape(data.shape)}"
        raise RefusalError(message, call.at("v"))
    zero = Formula(number_constant(False if data.dtype == "bool" else 0, data.dtype, call.span), call.span)
    values = data.op("nn.pad", zero, pad_width=[(abs(k), 0)]) if k else data
    total = helpers.size_of(values, 0)
    mask = helpers.unit_matrix(total, total, k, "bool", call.span)
    return mask.choose(values if k >= 0 else values.expand(1), zero).value


SHAPES = (
    numpy_function(
        "reshape",
        "a newshape * allowzero?=False",
        reshape,
        "Change the shape; -1 stands for one dimension that is computed.",
        "shape=newshape " + _NAMES,
    ),
    Builtin(
        "flatten",
        "a start_dim?=0 end_dim?=-1",
        _flatten,
        "Flatten to one dimension, or PyTorch's range of dimensions.",
        aliases=_NAMES,
    ),
    numpy_function("ravel", "a", _ravel, "Flatten to one dimension.", _NAMES),
    numpy_function(
        "transpose", "a axes?", _transpose, "Permute the axes; reverse them if none are given.", _NAMES
    ),
    free_function("permute_dims", "a axes", _transpose, "Permute the axes.", _NAMES),
    numpy_function("matrix_transpose", "a", _matrix_transpose, "Swap the last two axes.", _NAMES),
    numpy_function(
        "swapaxes", "a axis1 axis2", _swapaxes, "Swap two axes.", "dim0=axis1 dim1=axis2 " + _NAMES
    ),
    numpy_function("moveaxis", "a source destination", _moveaxis, "Move axes to other positions.", _NAMES),
    numpy_function("rollaxis", "a axis start?", _rollaxis, "Move an axis before another.", _NAMES),
    numpy_function("squeeze", "a axis?", _squeeze, "Remove axes of size 1.", "dim=axis " + _NAMES),
    numpy_function("expand_dims", "a axis * num_newaxis?=1", _expand_dims, "Insert axes of size 1.", _NAMES),
    numpy_function("broadcast_to", "a shape", _broadcast_to, "Broadcast to a shape.", _NAMES),
    free_function(
        "broadcast_arrays", "*arrays", _broadcast_arrays, "Broadcast to a common shape; return a tuple."
    ),
    *map(_atleast, (1, 2, 3)),
    numpy_function("flip", "a axis?", _flip, "Reverse the order along axes.", _NAMES),
    numpy_function("fliplr", "a", _flip_along(1, 2), "Reverse the order along the second axis.", _NAMES),
    numpy_function("flipud", "a", _flip_along(0, 1), "Reverse the order along the first axis.", _NAMES),
    numpy_function("roll", "a shift axis?", _roll, "Shift cyclically along axes.", _NAMES),
    numpy_function(
        "rot90", "a k? axes?", _rot90, "Rotate by multiples of 90 degrees in a plane of two axes.", _NAMES
    ),
    numpy_function(
        "tril", "m k?", _triangle(upper=False), "Return the lower triangle.", "x=m input=m diagonal=k"
    ),
    numpy_function(
        "triu", "m k?", _triangle(upper=True), "Return the upper triangle.", "x=m input=m diagonal=k"
    ),
    numpy_function("diagonal", "a offset? axis1? axis2?", _diagonal, "Return a diagonal.", _NAMES),
    numpy_function("trace", "a offset? axis1? axis2? dtype?", _trace, "Sum a diagonal.", _NAMES),
    numpy_function(
        "diag", "v k?", _diag, "Return the diagonal of a matrix, or the diagonal matrix of a vector."
    ),
)


def _of_matrices(name: str, of_axes: Callable[[Arguments], Value], signature: str) -> Builtin:
    """Declare numpy.linalg's function of the last two axes, where NumPy's own takes the first two."""

    def apply_to(call: Arguments) -> Value:
        last = {f"axis{number}": Operand(Known(number - 3), call.span) for number in (1, 2)}
        given = {"a": call.given["x"], **last, **{k: v for k, v in call.given.items() if k != "x"}}
        return of_axes(Arguments(call.name, given, call.span))

    summary = f"Return the {name} of each matrix in the last two axes (numpy.linalg.{name})."
    return cell_function(name, signature, apply_to, summary)


#: What numpy.linalg calls by the names of NumPy's functions of other axes.
OF_MATRICES = (
    _of_matrices("diagonal", _diagonal, "x * offset?"),
    _of_matrices("trace", _trace, "x * offset? dtype?"),
)
