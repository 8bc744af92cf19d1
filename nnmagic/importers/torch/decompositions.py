"""Say what the operators of a graph of torch.compile are decomposed to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

#: Operators whose decompositions round the results of each step.
ROUNDED_ONCE = ("addcmul", "addcdiv")
#: Operators that are imported as a whole: the decomposition of select_scatter loses what lies in one place,
#: that of detach that it has no gradient.
WHOLE = (*ROUNDED_ONCE, "select_scatter", "detach")
_PREFIX = "aten::_foreach_"


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return torch's decompositions to core ATen, and those of lists of tensors, by operator."""
    import torch
    from torch._decomp import core_aten_decompositions

    table: dict[Any, Callable[..., Any]] = {**_of_lists(), **core_aten_decompositions()}
    for name in WHOLE:
        table.pop(getattr(torch.ops.aten, name).default, None)
    return table


def _of_lists() -> dict[Any, Callable[..., list[Any]]]:
    """Return how the operators on lists of tensors, which optimizers call, are those of one tensor."""
    import torch

    table: dict[Any, Callable[..., list[Any]]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        name, _, overload = full.removeprefix("aten::").partition(".")
        short = name.removeprefix("_foreach_")
        if not full.startswith(_PREFIX) or name.endswith("_") or overload.endswith("out"):
            continue
        if short in ROUNDED_ONCE and overload == "Tensor":  # whose numbers are the elements of a tensor
            continue
        function = _function_of(short)
        if function is not None:
            packet = getattr(torch.ops.aten, name)
            table[getattr(packet, overload or "default")] = partial(_each, function)
    return table


def _function_of(name: str) -> Callable[..., Any] | None:
    """Return the function of one tensor; None where torch has none."""
    import torch

    special: dict[str, Callable[..., Any]] = {
        "addcdiv": lambda x, one, other, value=1: torch.addcdiv(x, one, other, value=value),
        "addcmul": lambda x, one, other, value=1: torch.addcmul(x, one, other, value=value),
        "copy": lambda x, source, non_blocking=False: torch.ops.aten.copy(x, source, non_blocking),
        "maximum": lambda x, other: (
            torch.maximum(x, other) if isinstance(other, torch.Tensor) else torch.clamp_min(x, other)
        ),
        "minimum": lambda x, other: (
            torch.minimum(x, other) if isinstance(other, torch.Tensor) else torch.clamp_max(x, other)
        ),
        "norm": lambda x, order=2, dtype=None: torch.linalg.vector_norm(x, order, dtype=dtype),
        "zero": torch.zeros_like,
    }
    return special.get(name) or getattr(torch, name, None)


def _each(function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
    """Call a function with one item of each list after the other, and with all that is no list."""
    (count, *_) = (len(arg) for arg in (*args, *kwargs.values()) if isinstance(arg, list | tuple))

    def item(arg: Any, number: int) -> Any:
        return arg[number] if isinstance(arg, list | tuple) else arg

    return [
        function(
            *(item(arg, number) for arg in args), **{key: item(arg, number) for key, arg in kwargs.items()}
        )
        for number in range(count)
    ]
