"""Write values as Python does: what the layout of a ``print``, or of a message, says, with arrays in it.

A layout is JSON: the pieces of the text. A piece is a string, or a value: the number of an array, how it is
formatted, and how it is converted; or a number of Python's, which is written as ``repr`` does. A tuple of
pieces is written as Python writes a tuple.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from nnmagic.relay.failures import RAISE, exception_class
from nnmagic.relay.reference.eval_call import Array, EvalCall, Rule

_CONVERSIONS: dict[int, Any] = {ord("r"): repr, ord("s"): str, ord("a"): ascii}


def print_values(layout: str, arrays: Sequence[Array]) -> None:
    """Print arrays with the text around them. Raises ValueError or TypeError for an unsuitable format."""
    print(text_of(layout, arrays), end="", flush=True)  # noqa: T201 - what it is for


def text_of(layout: str, arrays: Sequence[Array]) -> str:
    """Return a layout as text. Raises ValueError or TypeError for an unsuitable format."""
    return "".join(_text(load, arrays, inside=False) for load in json.loads(layout))


def _text(item: Any, arrays: Sequence[Array], *, inside: bool) -> str:
    """Return a piece as text; ``inside``: of a tuple."""
    match item:
        case str():
            return item
        case {"tuple": parts}:
            items = [_text(part, arrays, inside=True) for part in parts]
            return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
        case {"number": place}:
            return repr(arrays[place].item())
        case [number, spec, conversion]:
            array = arrays[number]
            value: Any = array.item() if array.ndim == 0 and inside else array[()]
            if inside:
                return repr(value)
            convert = _CONVERSIONS.get(conversion)
            return format(value if convert is None else convert(value), spec)
    raise ValueError(f"{item!r} is no part of a layout")


def _print(call: EvalCall, values: Sequence[Array]) -> Any:
    print_values(str(call["layout"]), values)
    return np.True_


def _raise(call: EvalCall, values: Sequence[Array]) -> Any:
    raise exception_class(str(call["kind"]))(text_of(str(call["layout"]), values))


RULES: dict[str, Rule] = {"python.print": _print, RAISE: _raise}
