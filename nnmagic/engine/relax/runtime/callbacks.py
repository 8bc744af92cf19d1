"""Register the runtime callbacks of compiled programs: checks of shapes, indices and conditions.

A program holds the arguments of a check as text, so that it can be loaded in another process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import tvm_ffi

from nnmagic.diagnostics import last_line
from nnmagic.engine.failed_checks import FailedCheck, attach_check
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


class CheckError(RuntimeError):
    """A failed check on its way through TVM, which keeps an exception's kind and text: the text is JSON."""

    @classmethod
    def of(cls, kind: type[Exception], message: str, check: FailedCheck) -> CheckError:
        """Return the error that crosses TVM for an exception of a built-in kind."""
        return cls(json.dumps([kind.__name__, message, check.operator, check.axis_size]))

    def to_builtin(self) -> Exception:
        """Return the exception of the call, with its failed check attached."""
        kind, message, operator, axis_size = json.loads(last_line(self))
        error = (IndexError if kind == "IndexError" else ValueError)(message)
        return attach_check(error, FailedCheck(operator, axis_size))


def _shapes_fit(text: str, *shapes: Sequence[int]) -> None:
    """Raise CheckError if operands of these shapes do not fit."""
    _fit(text, tuple(tuple(shape) for shape in shapes))


@lru_cache(maxsize=10_000)
def _fit(text: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    name, types, attrs = _asked(text)
    items = iter(shapes)
    try:
        check(name, [of_shapes(type_, items) for type_ in types], attrs)
    except ValueError as error:
        raise CheckError.of(ValueError, str(error), FailedCheck(name)) from None


@lru_cache(maxsize=1000)
def _asked(text: str) -> tuple[str, Sequence[Type], Attrs]:
    name, data = json.loads(text)
    return (name, *types_from_data(data))


def _index_in_range(found: Any, size: Any) -> None:
    """Raise CheckError if ``found[0]`` is set; ``found[1]`` is the offending index."""
    wrong, place = plain_array(found).tolist()
    if wrong:
        (length,) = size
        index = place if place >= 0 else place - length  # negative ones were counted from the end
        message = f"index {index} is out of range for an axis of size {length}"
        raise CheckError.of(IndexError, message, FailedCheck("take", length))


def _required(condition: Any, message: str, operator: str | None = None) -> None:
    """Raise an error unless a condition, a truth value or a tensor of one, of an operator holds."""
    holds = condition if isinstance(condition, bool | int) else plain_array(condition).item()
    if holds:
        return
    if operator is None:  # the program's own limit
        raise ValueError(message)
    raise CheckError.of(ValueError, message, FailedCheck(operator))


tvm_ffi.register_error("nnmagic.CheckError", CheckError)
tvm_ffi.register_global_func(SHAPES_FIT, _shapes_fit, override=True)
tvm_ffi.register_global_func(INDEX_IN_RANGE, _index_in_range, override=True)
tvm_ffi.register_global_func(REQUIRED, _required, override=True)
