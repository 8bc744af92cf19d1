"""Resolve one slice along one axis, with static or dynamic bounds.

NumPy clips bounds to the axis. Therefore the size of a slice is a named dimension only if its bounds are
provably in range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.ops.dims import as_dim, as_polynomial, ceil_divide
from nnmagic.relay.polynomials import NoPolynomialError, Polynomial, constant
from nnmagic.relay.types import ANY, AnyDim, Dim, is_integer
from nnmagic.tinynn.operators.arithmetic import check_not_zero
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.affine import affine_of, is_certain
from nnmagic.tinynn.values.affine_int import AffineInt
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply, cast, is_tensor, tensor_type, vector_of
from nnmagic.tinynn.values.symbolic_sizes import number_of, size_along, weak_int

#: Longer than any axis that fits in memory, and small enough that TVM's products with it fit 64 bits.
_FAR = 2**48


@dataclass(frozen=True, slots=True)
class StaticSlice:
    """One axis of a strided_slice, and the number of elements that it leaves."""

    axis: int
    begin: int
    end: int
    stride: int
    size: Dim


@dataclass(frozen=True, slots=True)
class DynamicSlice:
    """One axis of a dyn.strided_slice, and the number of elements that it leaves.

    The bounds are int64 of rank 0; they may be out of range, or count from the end. So is a step that is not
    known at compile time.
    """

    start: v.Computed
    stop: v.Computed
    step: int | v.Computed
    size: Dim
    #: The number of elements of a part that is certainly inside of the axis.
    length: v.Computed | None = None


def static_bound(value: v.Value, span: Span) -> int | None:
    """Return a bound that must be known at compile time."""
    bound = v.static_or(value, value)
    if bound is None or (isinstance(bound, int) and not isinstance(bound, bool)):
        return bound
    if not is_tensor(value):
        raise _no_bound(value, span)
    hint = "it cuts a tuple: only tensors are cut by numbers that are known later"
    raise v.RefusalError(
        f"a slice's bound must be an int known at compile time, not {describe(value)}", span, hint=hint
    )


def resolve_slice(
    slice_: v.SliceOf, tensor: v.Computed, axis: int, item: v.Operand
) -> tuple[StaticSlice, ...] | DynamicSlice:
    """Resolve a slice along an axis to slices that are applied in turn: none if it takes the whole axis."""
    start, stop, step = _convert_slice(slice_, item.span)
    if isinstance(step, v.Computed):
        return _stepped_slice(start, stop, step, item.span)
    if start in (v.Known(None), v.Known(0)) and stop == v.Known(None) and step == 1:
        return ()
    dim = tensor_type(v.Operand(tensor, item.span)).shape[axis]
    size, length = _size(start, stop, step, dim, item.span)
    if isinstance(start, v.Known) and isinstance(stop, v.Known):
        if isinstance(dim, int):
            return _static_slice(slice(start.value, stop.value, step), axis, int(dim))
        slices = _open_slices(start.value, stop.value, step, axis, size)
        if slices:
            return slices
    if size == dim and step == 1 and dim != ANY:
        return ()
    size = size if not isinstance(size, AnyDim) or size.label else ANY
    first, end = (0, _FAR) if step > 0 else (_FAR, -_FAR)
    numbers = _number_or(start, first, item.span), _number_or(stop, end, item.span)
    return DynamicSlice(*numbers, step, size, length)


def _stepped_slice(start: v.Value, stop: v.Value, step: v.Computed, span: Span) -> DynamicSlice:
    """Return a slice whose step is computed: its sign decides where a bound is that is left out."""
    forward = apply("greater", span, step, _number(0, span))

    def limit(value: v.Value, ahead: int, back: int) -> v.Computed:
        if value != v.Known(None):
            return _number_or(value, 0, span)
        return apply("where", span, forward, _number(ahead, span), _number(back, span))

    return DynamicSlice(limit(start, 0, _FAR), limit(stop, _FAR, -_FAR), step, ANY)


def _convert_slice(
    slice_: v.SliceOf, span: Span
) -> tuple[v.Known | v.Dimension | v.Computed, v.Known | v.Dimension | v.Computed, int | v.Computed]:
    """Return the bounds and the step of a slice. A step of 0 that is computed is an error of the call."""
    start, stop = _convert_bound(slice_.start, span), _convert_bound(slice_.stop, span)
    step = _convert_bound(slice_.step, span, "step")
    if not isinstance(step, v.Known):
        number = step if isinstance(step, v.Computed) else number_of(step, span)
        return start, stop, check_not_zero(number, span)
    if step.value == 0:
        raise v.RefusalError("the step of a slice cannot be zero", span)
    return start, stop, step.value if isinstance(step.value, int) else 1


def is_stepped(value: v.Value) -> bool:
    """Return whether a value is a slice whose step is computed."""
    return isinstance(value, v.SliceOf) and isinstance(value.step, v.Computed | v.Dimension)


def _number_or(bound: v.Value, default: int, span: Span) -> v.Computed:
    """Return a bound as an int64 of rank 0."""
    match bound:
        case v.Computed():
            return bound
        case v.Known(value=int() as number):
            return _number(number, span)
    return _number(default, span) if bound == v.Known(None) else number_of(bound, span)


def _convert_bound(value: v.Value, span: Span, what: str = "bound") -> v.Known | v.Dimension | v.Computed:
    """Return a bound, or the step: None or a static int, a dimension, or an integer of rank 0."""
    bound = v.static_or(value, value)
    if bound is None:
        return v.Known(None)
    if isinstance(bound, int) and not isinstance(bound, bool):
        return v.Known(_clamp_bound(bound))
    if isinstance(value, v.Dimension):
        return value
    if isinstance(value, v.Computed) and is_tensor(value):
        type_ = tensor_type(v.Operand(value, span))
        if not type_.shape and is_integer(type_.dtype):
            return weak_int(cast(value, "int64", span))
    raise _no_bound(value, span, what)


def _no_bound(value: v.Value, span: Span, what: str = "bound") -> v.RefusalError:
    hint = None
    if is_tensor(value) and tensor_type(v.Operand(value, span)).shape:
        hint = "take one element of it, and make it an int with int()"
    elif is_tensor(value) or isinstance(v.static_or(value, None), float):
        hint = "make it an int with int(), or divide with // where / gave it"
    return v.RefusalError(f"a slice's {what} must be an int, not {describe(value)}", span, hint=hint)


def _clamp_bound(number: int) -> int:
    """Limit a bound or a step to 64 bits; no axis is longer, so the meaning stays."""
    return max(-_FAR, min(number, _FAR))


def _static_slice(slice_: slice, axis: int, dim: int) -> tuple[StaticSlice, ...]:
    begin, end, stride = slice_.indices(dim)
    indices = range(begin, end, stride)
    if len(indices) == dim and stride == 1:
        return ()
    if not indices:
        return (StaticSlice(axis, 0, 0, 1, 0),)
    # In Relay a negative end counts from the end of the axis: -dim - 1 stands before the first element.
    return (StaticSlice(axis, begin, end if end >= 0 else end - dim, stride, len(indices)),)


def _runs_forward(start: object, stop: object, step: int) -> bool:
    """Return whether the bounds are in order for every size.

    NumPy takes nothing between other bounds, and Relay refuses them.
    """
    if not isinstance(start, int) or not isinstance(stop, int):
        return True
    return (start < 0) == (stop < 0) and (stop - start) * step >= 0


def _open_slices(
    start: object, stop: object, step: int, axis: int, size: Dim
) -> tuple[StaticSlice, ...] | None:
    """Return slices of an axis of any size, or None where two cannot express it.

    Bounds from both ends may be out of order: then one slice cuts at one end, and the next at the other.
    """
    if _runs_forward(start, stop, step) or size != ANY:
        return (_open_slice(start, stop, step, axis, size),)
    match start, stop:
        case int(), int() if start >= 0 > stop and step > 0:
            return _open_slice(None, stop, 1, axis, ANY), _open_slice(start, None, step, axis, ANY)
        case int(), int() if start < 0 <= stop and step < 0:
            return _open_slice(stop + 1, None, 1, axis, ANY), _open_slice(start, None, step, axis, ANY)
    return None


def _open_slice(start: object, stop: object, step: int, axis: int, size: Dim) -> StaticSlice:
    """Leave bounds to Relay, which clips them at run time as NumPy does."""
    begin = start if isinstance(start, int) else (0 if step > 0 else _FAR)
    end = stop if isinstance(stop, int) else (_FAR if step > 0 else -_FAR)
    return StaticSlice(axis, int(begin), int(end), step, size)


def _size(start: v.Value, stop: v.Value, step: int, dim: Dim, span: Span) -> tuple[Dim, v.Computed | None]:
    """Return the number of elements of a slice if it is provable, else ``?``, and how it is computed."""
    whole = as_polynomial(dim)
    if step < 0:
        is_whole = start == v.Known(None) and stop == v.Known(None)
        return ceil_divide(dim, -step) if is_whole else ANY, None
    if whole is None:
        return ANY, None
    try:
        first = AffineInt(constant(0), terms=()) if start == v.Known(None) else _from_start(start, whole)
        last = AffineInt(whole) if stop == v.Known(None) else _from_start(stop, whole)
        length = None if first is None or last is None else last.minus(first)
        if first is None or last is None or length is None or not is_certain(length):
            return ANY, None
        low, high = first.bounds, last.bounds
        if low is None or high is None or not (is_certain(low[0]) and is_certain(whole - high[1])):
            return ANY, None
    except NoPolynomialError:
        return ANY, None
    size, number = ceil_divide(as_dim(length), step), None
    if step == 1:
        number = _number(size, span) if isinstance(size, int) else _number_between(first, last, span)
    is_computed = isinstance(start, v.Computed) or isinstance(stop, v.Computed)
    return (size if isinstance(size, int) or number or not is_computed else ANY), number


def _number_between(first: AffineInt, last: AffineInt, span: Span) -> v.Computed | None:
    """Return the difference of two offsets as an int64, None where their terms are not known."""
    if first.terms is None or last.terms is None:
        return None
    factors: dict[ir.Expr | None, int] = {}
    numbers: dict[ir.Expr | None, v.Computed] = {}
    for sign, terms in ((1, last.terms), (-1, first.terms)):
        for times, number in terms:
            key = None if number is None else number.expr
            numbers[key] = _number(1, span) if number is None else number
            factors[key] = factors.get(key, 0) + sign * times
    total: v.Computed | None = None
    for key, times in factors.items():
        if times:
            term = apply("multiply", span, numbers[key], _number(times, span)) if times != 1 else numbers[key]
            total = term if total is None else apply("add", span, total, term)
    return total or _number(0, span)


def _from_start(bound: v.Value, dim: Polynomial) -> AffineInt | None:
    if isinstance(bound, v.Known) and isinstance(bound.value, int) and bound.value < 0:
        return AffineInt(dim + constant(bound.value))
    return affine_of(bound)


def clipped_bounds(
    slice_: v.SliceOf, tensor: v.Computed, axis: int, item: v.Operand
) -> tuple[v.Computed, v.Computed, int]:
    """Return the bounds of a slice in the range of an axis, and the step, which must be known."""
    start, stop, step = _convert_slice(slice_, item.span)
    assert isinstance(step, int)
    span = item.span
    length = number_of(size_along(tensor, axis, span), span)
    zero, unit = _number(0, span), _number(1, span)
    last = apply("subtract", span, length, unit)
    low, high = (zero, length) if step > 0 else (_number(-1, span), last)

    def clip_limit(bound: v.Value, missing: v.Computed) -> v.Computed:
        if bound == v.Known(None):
            return missing
        number = bound if isinstance(bound, v.Computed) else number_of(bound, span)
        from_end = apply("add", span, number, length)
        position = apply("where", span, apply("less", span, number, zero), from_end, number)
        return apply("minimum", span, apply("maximum", span, position, low), high)

    first, end = (low, high) if step > 0 else (high, low)
    return clip_limit(start, first), clip_limit(stop, end), step


def _number(number: int, span: Span) -> v.Computed:
    return number_constant(number, "int64", span)


def take_slices(tensor: v.Computed, slices: Mapping[int, DynamicSlice], span: Span) -> v.Computed:
    """Return the elements of dynamic slices, which are given by their axes."""
    windows = {axis: slice_ for axis, slice_ in slices.items() if slice_.length is not None}
    others = {axis: slice_ for axis, slice_ in slices.items() if axis not in windows}
    if others:
        bounds = slice_bounds([others.get(axis) for axis in range(max(others) + 1)], span)
        tensor = apply("dyn.strided_slice", span, tensor, *bounds)
    if windows:
        axes = range(max(windows) + 1)
        whole = DynamicSlice(_number(0, span), _number(0, span), 1, -1, _number(_FAR, span))
        parts = [windows.get(axis, whole) for axis in axes]
        lengths = [part.length or whole.start for part in parts]
        sizes = [part.size if isinstance(part.size, int) else -2 for part in parts]
        bounds = vector_of([part.start for part in parts], span), vector_of(lengths, span)
        tensor = apply("python.window", span, tensor, *bounds, sizes=sizes)
    return tensor


def slice_bounds(slices: Sequence[DynamicSlice | StaticSlice | None], span: Span) -> tuple[v.Computed, ...]:
    """Return vectors of the begins, ends and strides of slices of the first axes; None takes all of one."""
    begins, ends, steps = [], [], []
    for slice_ in slices:
        match slice_:
            case DynamicSlice(start=start, stop=stop, step=step):
                numbers = start, stop, step
            case StaticSlice(begin=begin, end=end, stride=step):
                numbers = _number(begin, span), _number(end, span), step
            case None:
                numbers = _number(0, span), _number(_FAR, span), 1
        begins.append(numbers[0])
        ends.append(numbers[1])
        step = numbers[2]
        steps.append(step if isinstance(step, v.Computed) else _number(step, span))
    return vector_of(begins, span), vector_of(ends, span), vector_of(steps, span)
