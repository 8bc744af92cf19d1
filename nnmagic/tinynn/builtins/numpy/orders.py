"""Define NumPy's lexsort, nanargmax and nanargmin, and how indices of several axes become one.

NumPy's reference: https://numpy.org/doc/stable/reference/generated/numpy.lexsort.html
"""

from __future__ import annotations

import math

from nnmagic.relay.signatures import format_shape
from nnmagic.tinynn.builtins import argument_checks as args
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.builtins.tensor_helpers import broadcast, common_shape, require_elements, slice_axis
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin, free_function, numpy_function
from nnmagic.tinynn.values.values import Operand, RefusalError, TupleOf, Value


def _lexsort(call: Arguments) -> Value:
    """Return the indices that sort by the last key, then by the one before: a stable sort for each key."""
    keys = [key.cast("int8") if key.dtype == "bool" else key for key in _keys(call)]
    if not keys[0].rank:
        raise RefusalError("lexsort of scalars", call.at("keys"))
    axis = args.normalize_axis(call, "axis", call.static("axis", -1), keys[0].rank)
    order = keys[0].op("argsort", axis=axis, is_ascend=True, dtype="int64")
    for key in keys[1:]:
        again = key.op("gather", order, axis=axis).op("argsort", axis=axis, is_ascend=True, dtype="int64")
        order = order.op("gather", again, axis=axis)
    return order.value


def _keys(call: Arguments) -> list[Formula]:
    operand = call.given["keys"]
    if isinstance(operand.value, TupleOf):
        keys = [
            args.as_formula(Operand(item, operand.span), call.span, "lexsort: a key")
            for item in operand.value.items
        ]
    else:
        data = args.formula(call, "keys")
        count = args.static_size(call, data.shape[0], operand.span) if data.rank else 0
        rows = (slice_axis(data, 0, number, number + 1) for number in range(count))
        keys = [row.op("squeeze", axis=[0]) for row in rows]
    if not keys:
        raise RefusalError("lexsort needs at least one key", operand.span)
    if any(key.shape != keys[0].shape for key in keys):
        shapes = ", ".join(format_shape(key.shape) for key in keys)
        raise RefusalError(f"lexsort: the keys have the shapes {shapes}", operand.span)
    return keys


def _without_nan(name: str) -> Builtin:
    """Declare the index of an extremum that ignores NaN; of NaN alone it is out of range, an IndexError."""
    operator, neutral = name.removeprefix("nan"), -math.inf if name == "nanargmax" else math.inf

    def apply_to(call: Arguments) -> Value:
        data, keepdims = args.formula(call, "a"), args.flag(call, "keepdims")
        along = args.axes(call, data.rank)
        if along is None:
            shape = [1] * data.rank if keepdims else []
            data, along = data.flat(), (0,)
        else:
            shape = None
        if len(along) > 1:
            raise RefusalError(f"{name} takes one axis", call.at("axis"))
        if data.shape[along[0]] == 0:
            raise RefusalError(f"{name} of no elements", call.at("a"))
        data = require_elements(data, along, f"{name} of no elements")
        keeps = keepdims and shape is None
        attrs = {"axis": list(along), "keepdims": keeps, "select_last_index": False}
        if not data.is_float:
            index_ = data.op(operator, **attrs).cast("int64")
        else:
            missing = data.op("isnan")
            index = missing.choose(neutral, data).op(operator, **attrs).cast("int64")
            nothing = missing.reduce("all", along, keepdims=keeps)
            index_ = index.require(~nothing, f"{name}: nothing but NaN")
        return (index_ if shape is None else index_.reshape(shape)).value

    which = "largest" if name == "nanargmax" else "smallest"
    summary = f"Return the index of the {which} element that is not NaN, i64."
    return numpy_function(name, "a axis? * keepdims?", apply_to, summary, "x=a input=a")


def _ravel_multi_index(call: Arguments) -> Value:
    """Return the flat index of coordinates; one that is out of range is an error."""
    operand = call.given["multi_index"]
    items = operand.value.items if isinstance(operand.value, TupleOf) else ()
    shape = args.shape_argument(call, "dims")
    sizes = [args.static_size(call, dim, call.at("dims")) for dim in shape]
    if not items or len(items) != len(sizes):
        message = f"ravel_multi_index: {len(items)} coordinates for {len(sizes)} sizes"
        raise RefusalError(message, operand.span, hint="give a tuple with an index for each size")
    total: Formula | None = None
    for item, size in zip(items, sizes, strict=True):
        index = args.as_formula(Operand(item, operand.span), call.span, "ravel_multi_index: a coordinate")
        if not index.is_integer:
            raise RefusalError("ravel_multi_index: the coordinates must be integers", operand.span)
        index = index.cast("int64")
        message = f"ravel_multi_index: a coordinate is out of range for an axis of size {size}"
        index = index.require((index >= 0) & (index < size), message)
        total = index if total is None else total * size + index
    assert total is not None
    return total.value


def _choose(call: Arguments) -> Value:
    """Choose between tensors by an index for each element; one that is out of range is an error."""
    index = args.formula(call, "a")
    operand = call.given["choices"]
    if not index.is_integer or not isinstance(operand.value, TupleOf) or not operand.value.items:
        raise RefusalError("choose takes integers and a list of tensors", call.span)
    choices = args.unify_dtypes(call, [Operand(item, operand.span) for item in operand.value.items])
    shape = common_shape(call, [each.shape for each in (index, *choices)])
    message = f"choose: an index is out of range for {len(choices)} choices"
    index = index.require((index >= 0) & (index < len(choices)), message)
    result = choices[-1]
    for number in range(len(choices) - 2, -1, -1):
        result = index.equal(number).choose(choices[number], result)
    return broadcast(result, shape).value


ORDERS = (
    free_function(
        "lexsort",
        "keys axis?=-1",
        _lexsort,
        "Return the indices that sort by several keys, of which the last one counts most.",
    ),
    _without_nan("nanargmax"),
    _without_nan("nanargmin"),
    free_function(
        "ravel_multi_index", "multi_index dims", _ravel_multi_index, "Convert coordinates to flat indices."
    ),
    numpy_function("choose", "a choices", _choose, "Choose between tensors by index."),
)
