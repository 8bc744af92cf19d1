"""Register the runtime callbacks of compiled programs: checks of shapes, indices and conditions.

A program holds the arguments of a check as text, so that it can be loaded in another process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tvm_ffi

from nnmagic.engine.relax.analysis.shape_constraints import check, of_shapes
from nnmagic.engine.relax.runtime.tensors import plain_array
from nnmagic.relay.expr import Attrs
from nnmagic.relay.serialization import types_from_data, types_to_data
from nnmagic.relay.types import Type

#: The names under which TVM's machine asks.
SHAPES_FIT, INDEX_IN_RANGE = "nnmagic.shapes_fit", "nnmagic.index_in_range"
REQUIRED = "nnmagic.required"


def encode_check(name: str, types: Sequence[Type], attrs: Attrs) -> str:
    """Encode a call of an operator as the text that ``SHAPES_FIT`` takes."""
    return json.dumps([name, types_to_data(types, attrs)], separators=(",", ":"))


def _shapes_fit(text: str, *shapes: Sequence[int]) -> None:
    """Raise ValueError if operands of these shapes do not fit."""
    _fit(text, tuple(tuple(shape) for shape in shapes))


@lru_cache(maxsize=10_000)
def _fit(text: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    name, types, attrs = _asked(text)
    items = iter(shapes)
    check(name, [of_shapes(type_, items) for type_ in types], attrs)


@lru_cache(maxsize=1000)
def _asked(text: str) -> tuple[str, Sequence[Type], Attrs]:
    name, data = json.loads(text)
    return (name, *types_from_data(data))


def _index_in_range(found: Any, size: Any) -> None:
    """Raise IndexError if ``found[0]`` is set; ``found[1]`` is the offending index."""
    wrong, place = plain_array(found).tolist()
    if wrong:
        (length,) = size
        index = place if place >= 0 else place - length  # negative ones were counted from the end
        raise IndexError(f"index {index} is out of range for an axis of size {length}")


def _required(condition: Any, message: str) -> None:
    """Raise ValueError unless a condition holds: a truth value, or a tensor of one."""
    holds = condition if isinstance(condition, bool | int) else plain_array(condition).item()
    if not holds:
        raise ValueError(message)


tvm_ffi.register_global_func(SHAPES_FIT, _shapes_fit, override=True)
tvm_ffi.register_global_func(INDEX_IN_RANGE, _index_in_range, override=True)
tvm_ffi.register_global_func(REQUIRED, _required, override=True)
