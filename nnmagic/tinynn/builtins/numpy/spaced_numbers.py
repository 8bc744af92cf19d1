"""Define NumPy's arange, linspace, logspace, geomspace and the grids that are made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.limits import MAX_RANK
from nnmagic.relay.expr import Constant
from nnmagic.relay.polynomials import is_nonnegative, polynomial
from nnmagic.relay.types import TensorType, is_float
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import Size, arange, broadcast_together, constant_of, stack
from nnmagic.tinynn.calls.argument_binding import Arguments
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.numbers import is_number, number_constant
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type, whole_numbers
from nnmagic.tinynn.values.symbolic_sizes import as_number, as_size, is_size, number_of, require_nonnegative
from nnmagic.tinynn.values.weak_types import is_weak


def constant_number(number: bool | int | float | complex, dtype: str, span: Span) -> v.Computed:
    """Return a number as a constant of a dtype."""
    if dtype == "bool":
        number = bool(number)
    return number_constant(number, dtype, span)


def arange_of(call: Arguments) -> v.Value:
    """Return a range: int64 for ints and float64 for floats, unless a dtype is given."""
    later = _dynamic_arange(call) or _arange_of_floats(call)
    if later is not None:
        return later
    numbers = [call.static(name) for name in ("start", "stop", "step") if name in call]
    for number in numbers:
        if isinstance(number, bool) or not is_number(number):
            raise v.RefusalError(
                f"arange takes numbers that are known at compile time, not {number!r}", call.span
            )
    if "stop" not in call:
        numbers.insert(0, 0)
    if "step" not in call:
        numbers.append(1)
    natural = "int64" if all(isinstance(number, int) for number in numbers) else "float64"
    dtype = args.dtype_argument(call) or natural
    if numbers[2] == 0:
        raise v.RefusalError("arange: the step cannot be zero", call.span)
    first, last, gap = (number for number in numbers if isinstance(number, int | float))
    ends = [number_constant(number, dtype, call.span) for number in (first, last, gap)]
    if last <= first if gap > 0 else last >= first:
        return apply("zeros", call.span, shape=(0,), dtype=dtype)
    start, stop, step = (end.expr for end in ends)
    return apply("arange", call.span, *ends, start=start, stop=stop, step=step, dtype=dtype)


def _dynamic_arange(call: Arguments) -> v.Value | None:
    """Return ``arange`` of integers of which at least one is dynamic; None for any other."""
    sizes: dict[str, v.Value] = {}
    for name in ("start", "stop", "step"):
        if name in call:
            operand = call.given[name]
            sizes[name] = operand.value if is_weak(operand.value) else as_size(operand) or operand.value
    if not all(is_size(size) or is_weak(size) for size in sizes.values()):
        return None
    if any(is_tensor(size) and is_float(size.type.dtype) for size in sizes.values()):  # type: ignore[union-attr]  # of a tensor
        return None
    if not any(isinstance(size, v.Dimension) or is_weak(size) for size in sizes.values()):
        return None
    if "stop" not in sizes:
        sizes["stop"] = sizes.pop("start")
    start, step = sizes.get("start", v.Known(0)), sizes.get("step", v.Known(1))
    ends = [_whole_number(size, call) for size in (start, sizes["stop"], step)]
    dtype = args.dtype_argument(call) or "int64"
    result = whole_numbers(ends[0], ends[1], ends[2], call.span)
    length = sizes["stop"] if start == v.Known(0) and step == v.Known(1) else None
    if isinstance(length, v.Dimension) and is_nonnegative(polynomial(length.dim.label or "-1")):
        result = v.Computed(result.expr, TensorType((length.dim,), "int64"))
    return Formula(result, call.span).cast(dtype).value


_OF_FLOATS = """
def f(start, stop, step):
    if step == 0:
        raise ZeroDivisionError("arange: the step cannot be zero")
    count = maximum(ceil((stop - start) / step), 0).astype("int64")
    gap = (start + step) - start
    numbers = start + gap * arange(count)
    return numbers + 0.0 if np.issubdtype(numbers.dtype, np.integer) else numbers
"""


def _arange_of_floats(call: Arguments) -> v.Value | None:
    """Return ``arange`` of numbers of which at least one is a float that only the call knows; None else."""
    bounds = [call.given[name] for name in ("start", "stop", "step") if name in call]
    if not any(is_tensor(bound.value) and is_float(tensor_type(bound).dtype) for bound in bounds):
        return None
    if "dtype" in call or any(is_tensor(bound.value) and tensor_type(bound).shape for bound in bounds):
        return None
    zero, one = (v.Operand(v.Known(number), call.span) for number in (0.0, 1.0))
    if "stop" not in call:
        bounds.insert(0, zero)
    return v.LoopCall("text", (*bounds, one)[:3], text=_OF_FLOATS)


def _whole_number(size: v.Value, call: Arguments) -> v.Computed:
    if is_size(size):
        return number_of(size, call.span)
    assert isinstance(size, v.Computed)
    return Formula(size, call.span).cast("int64").value


_MAX_NUMBERS = 10_000_000


def _space_numbers(call: Arguments) -> np.ndarray:
    """Return the numbers from start to stop as NumPy spaces them."""
    count = args.static_int(call, "num", 50)
    start, stop = (float(args.static_number(call, name, 0)) for name in ("start", "stop"))
    if not 0 <= count <= _MAX_NUMBERS:
        raise call.refusal("num", f"`num` is {count}")
    endpoint = args.flag(call, "endpoint", default=True)
    if call.name == "logspace":
        base = float(args.static_number(call, "base", 10.0))
        return np.logspace(start, stop, count, endpoint=endpoint, base=base)
    if call.name == "geomspace":
        if start == 0 or stop == 0 or (start < 0) != (stop < 0):
            raise v.RefusalError("geomspace: both ends must be of one sign and not 0", call.span)
        return np.geomspace(start, stop, count, endpoint=endpoint)
    return np.linspace(start, stop, count, endpoint=endpoint)


def linspace(call: Arguments) -> v.Value:
    """Return evenly spaced numbers between two ends."""
    dtype = args.dtype_argument(call) or "float64"
    count = as_size(call.given["num"]) if "num" in call else None
    ends = [as_number(call.given[name]).value for name in ("start", "stop")]
    if isinstance(count, v.Dimension) or any(map(_is_dynamic, ends)):
        spaced, step = _spaced_at_the_call(call)
        spaced = (spaced if is_float(dtype) else spaced.op("floor")).cast(dtype)
        return v.TupleOf((spaced.value, step.value)) if args.flag(call, "retstep") else spaced.value
    with np.errstate(all="ignore"):  # the ends may be infinite or far apart
        numbers = _space_numbers(call)
    if not is_float(dtype):
        numbers = np.floor(numbers)
    finite = numbers[np.isfinite(numbers)]
    if finite.size and dtype != "bool":
        for end in (float(finite.min()), float(finite.max())):
            number_constant(end if is_float(dtype) else int(end), dtype, call.span)
    if is_float(dtype):
        result = constant_of(numbers, dtype, call.span)
    else:
        result = constant_of(numbers, "float64", call.span).cast(dtype)
    if not args.flag(call, "retstep"):
        return result.value
    start, stop = (float(args.static_number(call, name, 0)) for name in ("start", "stop"))
    gaps = args.static_int(call, "num", 50) - args.flag(call, "endpoint", default=True)
    return v.TupleOf((result.value, v.Known((stop - start) / gaps if gaps > 0 else float("nan"))))


def _spaced_at_the_call(call: Arguments) -> tuple[Formula, Formula]:
    """Return numbers whose count or ends only the call knows, and the step of ``linspace``, as NumPy does."""
    count, endpoint = size_argument(call, "num", 50), args.flag(call, "endpoint", default=True)
    if call.name != "geomspace":
        spaced, step = spaced_numbers(call, _end(call, "start"), _end(call, "stop"), count, endpoint=endpoint)
        if call.name == "logspace":
            spaced = spaced.like(float(args.static_number(call, "base", 10.0))).op("power", spaced)
        return spaced, step
    start, stop = (_geometric_end(call, name) for name in ("start", "stop"))
    sign = start.op("sign")
    exponents, step = spaced_numbers(
        call, (start / sign).op("log10"), (stop / sign).op("log10"), count, endpoint=endpoint
    )
    index, spaced = arange(count, call.span), exponents.like(10.0).op("power", exponents) * sign
    if endpoint:
        spaced = (index + 1).equal(_as_formula(count, call.span)).choose(stop, spaced)
    return index.equal(0).choose(start, spaced), step


def _geometric_end(call: Arguments, name: str) -> Formula:
    """Return an end of ``geomspace`` as f64, which a call refuses if it is 0."""
    end = _end(call, name)
    if isinstance(end, Formula):
        return end.require(end.op("abs") > 0, f"geomspace: `{name}` is 0")
    if end == 0:
        raise v.RefusalError(f"geomspace: `{name}` is 0", call.at(name))
    return Formula(number_constant(end, "float64", call.span), call.span)


def _is_dynamic(value: v.Value) -> bool:
    return isinstance(value, v.Computed) and not isinstance(value.expr, Constant)


def _end(call: Arguments, name: str) -> Formula | float:
    """Return an end of ``linspace``: a float, or f64 of rank 0."""
    operand = as_number(call.given[name])
    if not _is_dynamic(operand.value):
        return float(args.static_number(call, name, 0))
    end = args.as_formula(operand, call.span, f"{call.name}: `{name}`")
    if end.rank:
        raise v.RefusalError(
            f"{call.name}: `{name}` must be one number, not {describe(end.value)}", operand.span
        )
    return end.cast("float64")


def spaced_numbers(
    call: Arguments, start: Formula | float, stop: Formula | float, count: Size, *, endpoint: bool = True
) -> tuple[Formula, Formula]:
    """Return ``count`` numbers and their step, each computed as NumPy does: the first is ``start``."""
    number = _as_formula(count, call.span)
    gaps = (number - 1 if endpoint else number).op("maximum", 1).cast("float64")
    index = arange(count, call.span)
    distance = stop - start
    if isinstance(distance, Formula):
        gaps = gaps.cast(distance.dtype)
    position, step = index.cast(gaps.dtype), gaps.like(distance) / gaps
    result = step.equal(0).choose(position / gaps * distance, position * step) + start
    if endpoint:
        result = ((index + 1).equal(number) & (index > 0)).choose(stop, result)
    several = number > (1 if endpoint else 0)
    return result, several.choose(step, math.nan)


def _as_formula(size: Size, span: Span) -> Formula:
    return Formula(
        size.number if isinstance(size, v.Dimension) else constant_number(size, "int64", span), span
    )


def size_argument(
    call: Arguments, parameter: str, default: Size | None = None, *, negative_is_none: bool = False
) -> Size:
    """Return an argument that is a size: an int, or known at run time only, and then checked there.

    ``negative_is_none``: a negative one is not an error, but stands for no elements.
    """
    if default is not None and parameter not in call:
        return default
    value = as_size(call.given[parameter]) if parameter in call else None
    if isinstance(value, v.Dimension):
        span = call.at(parameter)
        return value if negative_is_none else require_nonnegative(value, call.name, span)
    size = args.static_int(call, parameter)
    if negative_is_none:
        return max(size, 0)
    if size < 0:
        raise call.refusal(parameter, f"a dimension cannot be {size}")
    return size


def meshgrid(call: Arguments) -> v.Value:
    """Return coordinate matrices; NumPy's default ``indexing`` "xy" runs the second along the first axis."""
    span = call.at("arrays")
    vectors = [args.as_formula(item, call.span, "meshgrid: an item") for item in call.items("arrays")]
    if any(vector.rank > 1 for vector in vectors):
        raise v.RefusalError("meshgrid takes tensors of rank 1", span)
    vectors = [vector if vector.rank else vector.reshape((1,)) for vector in vectors]
    rank = len(vectors)
    if rank > MAX_RANK:
        raise v.RefusalError(f"meshgrid of {rank} tensors has as many axes (at most {MAX_RANK})", span)
    axes = list(range(rank))
    if args.choice_argument(call, "indexing", ("xy", "ij"), "xy") == "xy" and rank > 1:
        axes[0], axes[1] = 1, 0
    grids = _coordinates(call, vectors, axes, sparse=args.flag(call, "sparse"))
    return v.TupleOf(tuple(grid.value for grid in grids))


def _coordinates(
    call: Arguments, vectors: Sequence[Formula], axes: Sequence[int], *, sparse: bool
) -> list[Formula]:
    """Return each vector along its axis of a grid, unless ``sparse`` in the shape of the whole grid."""
    rows = []
    for vector, own_axis in zip(vectors, axes, strict=True):
        own = [vector.shape[0] if axis == own_axis else 1 for axis in range(len(vectors))]
        rows.append(vector.reshape(own))
    return rows if sparse or not rows else broadcast_together(call, rows)


def grid(call: Arguments) -> v.Value:
    """Return the coordinates that the slices of a subscript span: ``mgrid[0:n, 0:m]``."""
    given = call.items("slices")
    slices = [item.value for item in given if isinstance(item.value, v.SliceOf)]
    if not slices or len(slices) < len(given):
        hint = f"write {call.name}[0:3, 0:4]"
        raise v.RefusalError(f"{call.name} is indexed with slices", call.span, hint=hint)
    coordinates = []
    for item in slices:
        if item.stop == v.Known(None):
            raise v.RefusalError(f"{call.name}: a slice needs its end", call.span, hint="write 0:n")
        ends = {"start": item.start, "stop": item.stop, "step": item.step}
        ends = {name: end for name, end in ends.items() if end != v.Known(None)}
        ends.setdefault("start", v.Known(0))
        inner = {name: v.Operand(end, call.span) for name, end in ends.items()}
        step = item.step.value if isinstance(item.step, v.Known) else None
        if isinstance(step, complex):  # 5j: so many numbers, with the end among them
            inner["num"] = v.Operand(v.Known(int(abs(step))), call.span)
            del inner["step"]
            values = linspace(Arguments(call.name, inner, call.span))
        else:
            values = arange_of(Arguments(call.name, inner, call.span))
        coordinates.append(Formula(v.dynamic(values), call.span))
    if any(coordinate.is_float for coordinate in coordinates):
        coordinates = [coordinate.cast("float64") for coordinate in coordinates]
    if len(coordinates) == 1:
        return coordinates[0].value
    grids = _coordinates(call, coordinates, range(len(coordinates)), sparse=call.name == "ogrid")
    if call.name == "ogrid":
        return v.TupleOf(tuple(grid.value for grid in grids))
    return stack(grids, 0).value
