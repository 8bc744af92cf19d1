"""Define pooling by PyTorch's names; with Relay's ``pool_size`` the defaults are Relay's.

PyTorch's reference: https://docs.pytorch.org/docs/stable/nn.functional.html#pooling-functions
"""

from __future__ import annotations

from typing import Any

from nnmagic.relay.functions.pooling import Placing, window_maxima
from nnmagic.tinynn.builtins.argument_checks import flag, formula, static_size
from nnmagic.tinynn.builtins.nn.convolutions import operator_formula, per_axis
from nnmagic.tinynn.builtins.tensor_expressions import Formula
from nnmagic.tinynn.calls.argument_binding import Arguments, Builtin
from nnmagic.tinynn.values.values import RefusalError, TupleOf, Value


def _pool(kind: str, rank: int) -> Builtin:
    """Declare a pooling; strides default to the window's size, or to Relay's 1 with ``pool_size``."""
    name = f"nn.{kind}_pool{rank}d"

    def apply_to(call: Arguments) -> Value:
        torch = "kernel_size" in call
        if torch == ("pool_size" in call):
            missing = f"{call.name}: missing argument `kernel_size`"
            both = f"{call.name}: `pool_size` and `kernel_size` are one"
            raise RefusalError(both if torch else missing, call.span)
        attrs = call.attrs("strides", "padding", "dilation", "layout", "out_layout", "ceil_mode")
        attrs = {key: value for key, value in attrs.items() if value is not None}
        size = "kernel_size" if torch else "pool_size"
        attrs["pool_size"] = call.static(size)
        if per_axis(attrs["pool_size"], rank) is None:
            wanted = "an int" if rank == 1 else f"an int, or {rank} of them"
            raise call.refusal(size, f"`{size}` must be {wanted}")
        if torch:
            attrs.setdefault("strides", attrs["pool_size"])
        if kind == "avg":
            attrs["count_include_pad"] = flag(call, "count_include_pad", default=torch)
        result = operator_formula(name, call, "data", **attrs)
        data, placing = formula(call, "data"), _placing(attrs, rank)
        if torch and attrs.get("ceil_mode") is True and "layout" not in attrs:
            result = _without_empty_windows(data, result, placing)
        if kind == "max" and flag(call, "return_indices"):
            return TupleOf((result.value, _indices(call, data, result, placing, attrs).value))
        return result.value

    order = (
        "dilation?=1 ceil_mode? return_indices?=False"
        if kind == "max"
        else "ceil_mode? count_include_pad?=True"
    )
    more = "" if kind == "max" else " dilation?=1"
    signature = (
        f"data kernel_size? strides?=None padding?=0 {order} * pool_size?=None layout? out_layout?{more}"
    )
    what = "largest element" if kind == "max" else "mean"
    names = "input=data x=data stride=strides"
    return Builtin(
        f"{kind}_pool{rank}d", signature, apply_to, f"Return the {what} of each window.", aliases=names
    )


def _placing(attrs: dict[str, object], rank: int) -> Placing:
    """Return how windows go along the axes, by the attributes of a call that Relay accepted."""

    def spread(name: str, default: int) -> Any:
        attr = attrs.get(name, default)
        listed = attr if isinstance(attr, tuple) else (attr,)
        return (listed * rank if len(listed) == 1 else listed)[:rank]

    kernel, strides, dilations = (spread(name, 1) for name in ("pool_size", "strides", "dilation"))
    padding = spread("padding", 0)
    return Placing(kernel, strides, dilations, padding, padding)


def _without_empty_windows(data: Formula, result: Formula, placing: Placing) -> Formula:
    """Drop the last window where it begins beyond the data, as PyTorch does."""
    for axis, (stride, before) in enumerate(zip(placing.strides, placing.before, strict=True), 2):
        size, count = data.shape[axis], result.shape[axis]
        if isinstance(size, int) and isinstance(count, int) and (count - 1) * stride >= size + before:
            result = result.between(axis, 0, count - 1)
    return result


def _indices(
    call: Arguments, data: Formula, result: Formula, placing: Placing, attrs: dict[str, object]
) -> Formula:
    """Return the flat index, in its image, of the largest element of each window, int64."""
    layout = "NC" + "DHW"[5 - data.rank :]
    if {attrs.get("layout", layout), attrs.get("out_layout", layout)} != {layout}:
        raise call.refusal("return_indices", f"indices are given in the layout {layout} only")
    _, counts = (
        [static_size(call, dim, call.at("data")) for dim in each.shape[2:]] for each in (data, result)
    )
    return window_maxima(data, placing.windows(counts))[1]


def _adaptive(kind: str, rank: int) -> Builtin:
    name = f"nn.adaptive_{kind}_pool{rank}d"

    def apply_to(call: Arguments) -> Value:
        attrs = call.attrs("output_size", "layout", "out_layout")
        sizes = attrs.get("output_size")
        if isinstance(sizes, tuple) and None in sizes:
            data = formula(call, "data")
            dims = data.shape[2:]
            attrs["output_size"] = tuple(
                static_size(call, dim, call.at("data")) if size is None else size
                for size, dim in zip(sizes, dims, strict=False)
            )
        return operator_formula(name, call, "data", **attrs).value

    what = "largest element" if kind == "max" else "mean"
    return Builtin(
        f"adaptive_{kind}_pool{rank}d",
        "data output_size? * layout? out_layout?",
        apply_to,
        f"Return the {what} of each window; output_size windows per axis.",
        aliases="input=data x=data",
    )


POOLING = (
    *(_pool(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3)),
    *(_adaptive(kind, rank) for kind in ("max", "avg") for rank in (1, 2, 3)),
)
