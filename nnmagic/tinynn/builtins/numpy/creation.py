"""Define NumPy's functions that create tensors from static numbers, shapes or another tensor."""

from __future__ import annotations

from nnmagic.limits import MAX_ITEMS, MAX_RANK
from nnmagic.relay.signatures import format_shape
from nnmagic.relay.types import is_complex
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.numpy import spaced_numbers as spaced
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import concatenate, row_and_column, stack, unit_matrix
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function, numpy_function
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import apply, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import dynamic_sizes, full


def _array(call: Arguments) -> v.Value:
    """Convert nested lists of numbers or tensors, or a tensor, with ``ndmin`` dimensions or more."""
    value, rank = _convert(call), args.static_int(call, "ndmin", 0)
    given = call.given["object"].value
    if (
        call.name == "array"
        and isinstance(value, v.Computed)
        and value == given
        and args.flag(call, "copy", default=True)
    ):
        value = (
            Formula(value, call.span).op("copy").value if tensor_type(call.given["object"]).shape else value
        )
    if rank > MAX_RANK:
        raise call.refusal("ndmin", f"`ndmin` is at most {MAX_RANK}, not {rank}")
    return _with_leading_axes(call, value, rank) if rank > 0 else value


def _contiguous(call: Arguments) -> v.Value:
    """Convert as ``asarray`` does; like NumPy's, the result has a dimension or more."""
    return _with_leading_axes(call, _convert(call), 1)


def _with_leading_axes(call: Arguments, value: v.Value, rank: int) -> v.Value:
    """Insert axes of size 1 in front until there are ``rank``."""
    data = args.as_formula(v.Operand(value, call.span), call.span, call.name)
    missing = rank - data.rank
    return data.op("expand_dims", axis=0, num_newaxis=missing).value if missing > 0 else value


def _convert(call: Arguments) -> v.Value:
    operand, dtype = call.given["object"], args.dtype_argument(call)
    static = args.static_value_or_none(operand.value)
    if isinstance(static, tuple):
        return args.constant_array(call, "object", dtype)
    if is_number(static) and dtype is not None:
        assert isinstance(static, bool | int | float | complex)
        return number_constant(static, dtype, operand.span)
    data = _stack_nested_lists(operand, call)
    return (data if dtype is None else data.cast(dtype)).value


def _stack_nested_lists(operand: v.Operand, call: Arguments) -> Formula:
    """Stack nested lists of tensors."""
    value = operand.value
    if not isinstance(value, v.TupleOf) or not value.items or value.whole is not None:
        return args.as_formula(operand, call.span, call.name)
    parts = [
        v.Operand(_stack_nested_lists(v.Operand(item, operand.span), call).value, operand.span)
        if isinstance(item, v.TupleOf)
        else v.Operand(item, operand.span)
        for item in value.items
    ]
    tensors = args.unify_dtypes(call, parts)
    for tensor in tensors:
        if tensor.shape != tensors[0].shape:
            shown = f"{format_shape(tensors[0].shape)} and {format_shape(tensor.shape)}"
            raise v.RefusalError(f"{call.name}: the items have different shapes, {shown}", operand.span)
    return concatenate(call, tensors, 0, "stack")


def fill(call: Arguments, value: Formula, shape: v.Operand) -> v.Value:
    """Return a tensor of one value."""
    sizes = dynamic_sizes(shape)
    if sizes is not None:
        return full(value.value, sizes, call.span)
    dims = args.shape_argument(Arguments(call.name, {"shape": shape}, call.span), "shape")
    return value.op("full", shape=dims, dtype=value.dtype).value


def _creator(name: str, number: int) -> Builtin:
    """Declare zeros, ones or empty (which gives zeros): f64 unless a dtype is given."""

    def apply_to(call: Arguments) -> v.Value:
        dtype = args.dtype_argument(call) or "float64"
        if dynamic_sizes(call.given["shape"]) is not None:
            value = Formula(spaced.constant_number(number, dtype, call.span), call.span)
            return fill(call, value, call.given["shape"])
        shape = args.shape_argument(call, "shape")
        return apply("ones" if number else "zeros", call.span, shape=shape, dtype=dtype)

    what = "ones" if number else "zeros"
    return free_function(
        name, "shape dtype?", apply_to, f"Return a tensor of {what}; f64 unless a dtype is given."
    )


def _full(call: Arguments) -> v.Value:
    """Create a tensor of one value, in NumPy's argument order.

    Relay's ``full(value, shape=..., dtype=...)`` works by keyword.
    """
    shape, operand = _shape_and_value(call)
    value = _fill_value(call, operand, args.dtype_argument(call))
    if value.rank:
        hint = "write broadcast_to(x, shape)"
        raise v.RefusalError(
            f"full: `fill_value` must be one number, not {describe(operand.value)}", operand.span, hint=hint
        )
    return fill(call, value, shape)


def _fill_value(call: Arguments, operand: v.Operand, dtype: str | None) -> Formula:
    number = args.static_value_or_none(operand.value)
    if dtype is not None and isinstance(number, bool | int | float | complex):
        return Formula(spaced.constant_number(number, dtype, operand.span), call.span)
    value = args.as_formula(operand, call.span, f"{call.name}: `fill_value`")
    return value if dtype is None else value.cast(dtype)


def _shape_and_value(call: Arguments) -> tuple[v.Operand, v.Operand]:
    """Return the shape and the fill value; if one is given by keyword, the other comes first."""
    arguments = dict(call.given)
    shape = arguments.get("shape") or (arguments.pop("first", None) if "first" in arguments else None)
    value = arguments.get("fill_value") or arguments.pop("first", None) or arguments.get("second")
    if shape is None or value is None:
        raise v.RefusalError("full: it is called as full(shape, fill_value, dtype)", call.span)
    return shape, value


def _like(name: str, number: int | None) -> Builtin:
    """Declare a function that takes the shape and dtype of another tensor, static or dynamic."""

    def apply_to(call: Arguments) -> v.Value:
        like = args.formula(call, "a")
        dtype = args.dtype_argument(call) or like.dtype
        if number is not None:
            if like.is_complex and not is_complex(dtype):
                like = like.abs()
            return like.op("ones_like" if number else "zeros_like").cast(dtype).value
        fill = _fill_value(call, call.given["fill_value"], dtype)
        if fill.rank:
            return fill.op("broadcast_to", shape=like.shape).value
        return like.cast(dtype).op("full_like", fill).value

    signature = "a dtype?" if number is not None else "a fill_value dtype?"
    what = {0: "of zeros", 1: "of ones", None: "filled with one value"}[number]
    return numpy_function(
        name,
        signature,
        apply_to,
        f"Return a tensor {what}, with the shape and dtype of another.",
        "x=a input=a",
    )


def _eye(call: Arguments) -> v.Value:
    rows = spaced.size_argument(call, "N")
    columns = spaced.size_argument(call, "M", rows)
    return unit_matrix(
        rows, columns, args.static_int(call, "k", 0), args.dtype_argument(call) or "float64", call.span
    ).value


def _identity(call: Arguments) -> v.Value:
    size = spaced.size_argument(call, "n")
    return unit_matrix(size, size, 0, args.dtype_argument(call) or "float64", call.span).value


def _tri(call: Arguments) -> v.Value:
    rows = spaced.size_argument(call, "N", negative_is_none=True)
    columns = spaced.size_argument(call, "M", rows, negative_is_none=True)
    row, column = row_and_column(rows, columns, args.static_int(call, "k", 0), call.span)
    return (column <= row).cast(args.dtype_argument(call) or "float64").value


def _vander(call: Arguments) -> v.Value:
    """Return powers as columns, in int64 or float64: in the dtype that NumPy gives the numbers and int64."""
    data = args.formula(call, "x")
    if data.rank != 1:
        raise v.RefusalError("vander takes a tensor of rank 1", call.at("x"))
    count = args.static_int(call, "N", data.shape[0] if isinstance(data.shape[0], int) else None)
    if not 1 <= count <= MAX_ITEMS:
        span = call.given.get("N", call.given["x"]).span
        raise v.RefusalError(f"vander: {count} columns (1 to {MAX_ITEMS})", span)
    # ``promote_types(x.dtype, int)``: for float32 and uint64 that is float64.
    data = data.cast("float64" if data.is_float or data.dtype == "uint64" else "int64")
    powers = [data.op("ones_like")]
    for _ in range(count - 1):
        powers.append(powers[-1] * data)
    return stack(powers if args.flag(call, "increasing") else powers[::-1], 1).value


def _astype(call: Arguments) -> v.Value:
    dtype, data = args.dtype_of_operand(call.given["dtype"], call.name), args.formula(call, "x")
    if dtype == "bool" and data.dtype != "bool":
        return data.truth().value
    return data.cast(dtype).value


def _copy(call: Arguments) -> v.Value:
    data = args.formula(call, "a")
    return data.op("copy").value if data.rank else data.value


_SPACE_SIGNATURE = "start stop num? endpoint? retstep? dtype?"

CREATION = (
    free_function(
        "array",
        "object dtype? * copy?=True ndmin?=0",
        _array,
        "Convert nested lists of numbers or tensors to a tensor.",
    ),
    free_function(
        "asarray",
        "object dtype? * copy?",
        _array,
        "Convert nested lists of numbers or tensors to a tensor.",
        "a=object",
    ),
    free_function(
        "asfortranarray",
        "object dtype?",
        _array,
        "Return the tensor itself: the order in memory is no part of it.",
        "a=object",
    ),
    free_function(
        "ascontiguousarray",
        "object dtype?",
        _contiguous,
        "Return the tensor itself, with one dimension or more.",
    ),
    _creator("zeros", 0),
    _creator("ones", 1),
    _creator("empty", 0),
    _creator("ndarray", 0),
    free_function(
        "full",
        "first? second? dtype? * shape? fill_value?",
        _full,
        "Return a tensor filled with one value.",
        "data=fill_value",
        form="shape fill_value dtype?",
    ),
    _like("zeros_like", 0),
    _like("ones_like", 1),
    _like("empty_like", 0),
    _like("full_like", None),
    free_function(
        "arange",
        "start stop? step?=1 dtype?=None",
        spaced.arange_of,
        "Return evenly spaced numbers, by step.",
        "end=stop",
    ),
    free_function("linspace", _SPACE_SIGNATURE, spaced.linspace, "Return evenly spaced numbers, by count."),
    free_function(
        "logspace",
        "start stop num? endpoint? base? dtype?",
        spaced.linspace,
        "Return numbers evenly spaced on a log scale.",
    ),
    free_function(
        "geomspace", "start stop num? endpoint? dtype?", spaced.linspace, "Return a geometric progression."
    ),
    free_function("eye", "N M? k? dtype?", _eye, "Return a matrix with ones along a diagonal.", "n=N m=M"),
    free_function("identity", "n dtype?", _identity, "Return the identity matrix."),
    free_function("tri", "N M? k? dtype?", _tri, "Return a matrix with ones at and below a diagonal."),
    free_function(
        "vander", "x N? increasing?", _vander, "Return the Vandermonde matrix, with powers as columns."
    ),
    free_function(
        "meshgrid",
        "*arrays * indexing? sparse? copy?",
        spaced.meshgrid,
        "Return the coordinate matrices of a grid.",
    ),
    free_function(
        "mgrid",
        "*slices",
        spaced.grid,
        "Return the coordinates of a grid that is indexed with slices, as one tensor: `mgrid[0:n, 0:m]`.",
    ),
    free_function(
        "ogrid",
        "*slices",
        spaced.grid,
        "Return the coordinates of a grid that is indexed with slices, one axis each: `ogrid[0:n, 0:m]`.",
    ),
    numpy_function("astype", "x dtype * copy?", _astype, "Convert to another dtype.", "input=x"),
    numpy_function("copy", "a", _copy, "Return a copy, whose elements may be assigned.", "x=a"),
)
