"""Define PyTorch's cummax, cummin, kthvalue, mode and nanmedian, which give values and where they stand.

Their reference: https://docs.pytorch.org/docs/stable/generated/torch.kthvalue.html
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from nnmagic.tinynn.builtins.argument_checks import flag, formula, one_axis, static_int, static_size
from nnmagic.tinynn.builtins.numpy.ufunc_methods import ufunc_method
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import arange, concatenate, size_along, size_of, slice_axis
from nnmagic.tinynn.builtins.torch_meaning import RESULTS
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.values import Known, Operand, RefusalError, TupleOf, Value, dynamic

_Table = Mapping[str, Builtin]


def _positions(data: Formula, axis: int) -> Formula:
    """Return 0, 1, 2, ... along an axis, with size 1 along the others."""
    numbers = arange(size_of(data, axis), data.span)
    shape = [data.shape[axis] if index == axis else 1 for index in range(data.rank)]
    return numbers.reshape(shape, data)


def _running(accumulate: Builtin, data: Formula, axis: int) -> Formula:
    operands = [Operand(data.value, data.span), Operand(Known(axis), data.span)]
    result = dynamic(accumulate.call(operands, data.span))
    return Formula(result, data.span)


def _results(values: Formula, indices: Formula) -> Value:
    return TupleOf((values.value, indices.value), names=RESULTS)


def _cumulative(extreme: Builtin, largest: Builtin) -> Callable[[Arguments], Value]:
    """Return the extremes so far, and the last places where they stand; NaN is the extreme from then on."""

    def apply_to(call: Arguments) -> Value:
        data = formula(call, "a")
        axis = one_axis(call, "dim", data.rank)
        values = _running(extreme, data, axis)
        is_new = data.equal(values)
        if data.is_float:
            is_new = is_new | data.op("isnan")
        places = is_new.cast("int64") * _positions(data, axis)
        return _results(values, _running(largest, places, axis))

    return apply_to


def _at(call: Arguments, data: Formula, order: Formula, place: Formula, axis: int) -> Value:
    """Return the elements at places of an order, and their indices."""
    indices = order.op("gather", place, axis=axis)
    values = data.op("gather", indices, axis=axis)
    if not flag(call, "keepdims"):
        values, indices = (part.op("squeeze", axis=[axis]) for part in (values, indices))
    return _results(values, indices)


def _order(data: Formula, axis: int) -> Formula:
    return data.op("argsort", axis=axis, is_ascend=True, dtype="int64")


def _kth_value(call: Arguments) -> Value:
    data, k = formula(call, "a"), static_int(call, "k")
    axis = one_axis(call, "axis", data.rank, -1)
    size = static_size(call, data.shape[axis], call.at("a"))
    if not 1 <= k <= size:
        message = f"kthvalue: k is {k}, and the dimension {axis} has {size} elements"
        raise RefusalError(message, call.at("k"), hint="the smallest is number 1")
    order = _order(data, axis)
    return _at(call, data, order, _first_place(order, axis) + (k - 1), axis)


def _first_place(data: Formula, axis: int) -> Formula:
    """Return zeros of the shape that is left when one element is taken along an axis."""
    return slice_axis(data, axis, 0, 1).op("zeros_like").cast("int64")


def _mode(largest: Builtin, call: Arguments) -> Value:
    """Return the smallest of the most frequent elements, and where it stands last: a longest run."""
    data = formula(call, "a")
    axis = one_axis(call, "axis", data.rank, -1)
    if data.shape[axis] == 0:
        raise RefusalError("mode of no elements", call.at("a"))
    order = _order(data, axis)
    ordered = data.op("gather", order, axis=axis)
    begins = slice_axis(ordered, axis, 1, None).differs(slice_axis(ordered, axis, 0, -1))
    first = slice_axis(ordered, axis, 0, 1).op("ones_like").truth()
    begins = concatenate(call, [first, begins], axis)
    positions = _positions(data, axis)
    starts = _running(largest, begins.cast("int64") * positions, axis)
    place = (positions - starts).op("argmax", axis=[axis], keepdims=True, select_last_index=False)
    return _at(call, data, order, place.cast("int64"), axis)


def _nan_median(call: Arguments) -> Value:
    """Return the lower of the two in the middle of what is not NaN, and along an axis its index, too."""
    given = formula(call, "a")
    data = given if "axis" in call else given.flat()
    axis = one_axis(call, "axis", data.rank, 0)
    if data.shape[axis] == 0:
        raise RefusalError("nanmedian of no elements", call.at("a"))
    if data.is_float:
        last = (~data.op("isnan")).cast("int64").reduce("sum", (axis,), keepdims=True) - 1
    else:
        zeros = _first_place(data, axis)
        last = zeros + (size_along(data, axis, zeros) - 1)
    place = last.op("floor_divide", 2).op("maximum", 0)
    median = _at(call, data, _order(data, axis), place, axis)
    assert isinstance(median, TupleOf)
    return median if "axis" in call else median.items[0]


def torch_orders(builtins: _Table) -> dict[str, Builtin]:
    """Return the functions and methods of PyTorch by name."""
    largest, smallest = (
        ufunc_method(builtins[name], "accumulate", builtins) for name in ("maximum", "minimum")
    )
    assert largest is not None
    assert smallest is not None

    def row(name: str, signature: str, apply_to: Callable[[Arguments], Value], summary: str) -> Builtin:
        aliases = "input=a self=a dim=axis keepdim=keepdims" if "axis" in signature else "input=a self=a"
        return Builtin(name, signature, apply_to, summary, aliases=aliases)

    rows = (
        row("cummax", "a dim", _cumulative(largest, largest), "Return the maxima so far, and their indices."),
        row(
            "cummin", "a dim", _cumulative(smallest, largest), "Return the minima so far, and their indices."
        ),
        row(
            "kthvalue",
            "a k axis? keepdims?",
            _kth_value,
            "Return the k-th smallest elements, and their indices.",
        ),
        row(
            "mode",
            "a axis? keepdims?",
            partial(_mode, largest),
            "Return the most frequent elements, and their indices.",
        ),
        row(
            "nanmedian",
            "a axis? keepdims?",
            _nan_median,
            "Return the lower median without NaN, or values and indices.",
        ),
    )
    return {each.name: each for each in rows}
