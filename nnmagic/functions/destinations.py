"""Check the arrays that a call changes, and write its results into them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.engine.arguments import Parameter
from nnmagic.relay.signatures import format_type


def check_destinations(arrays: Sequence[tuple[Parameter, object]]) -> None:
    """Check the arrays that a call changes, beyond their shapes. Raises TypeError or ValueError."""
    for parameter, array in arrays:
        name = parameter.name
        if not isinstance(array, np.ndarray):
            message = f"{name} is changed by the call: it must be a NumPy array"
            raise TypeError(f"{message}, {format_type(parameter.type)}, not {kind_of(array)}")
        if not array.flags.writeable:
            raise ValueError(f"{name} is changed by the call, and the array is read-only")
        if not array.dtype.isnative:
            hint = "convert it with .astype(array.dtype.newbyteorder())"
            raise TypeError(f"{name} is changed by the call, and has the other byte order; {hint}")
        if _may_overlap_itself(array):
            raise ValueError(f"{name} is changed by the call, and elements of the array share memory")
    for (one, first), (other, second) in itertools.combinations(arrays, 2):
        assert isinstance(first, np.ndarray)
        assert isinstance(second, np.ndarray)
        if np.shares_memory(first, second):
            name = other.name.rpartition(" ")[2]
            raise ValueError(f"{one.name} shares memory with {name}, and the call changes both")


def _may_overlap_itself(array: np.ndarray) -> bool:
    """Return whether elements of an array may share memory, as those of a sliding window do."""
    if array.flags.c_contiguous or array.flags.f_contiguous or not array.size:
        return False
    span = array.itemsize
    axes = zip(map(abs, array.strides), array.shape, strict=True)
    for stride, size in sorted(axes):
        if size > 1:
            if stride < span:
                return True
            span += stride * (size - 1)
    return False


def write_destinations(
    results: object, arrays: Sequence[object], changed: list[int], numbers: Sequence[int]
) -> object:
    """Write the last results of a call into the arrays that it changes; return its own, or None.

    ``changed`` takes those of the arrays' ``numbers`` that are written, before they are.
    """
    parts = results if isinstance(results, tuple) else (results,)
    own, last = parts[: len(parts) - len(arrays)], parts[len(parts) - len(arrays) :]
    for array, new, number in zip(arrays, last, numbers, strict=True):
        assert isinstance(array, np.ndarray)
        if new is not array:
            changed.append(number)
            np.copyto(array, new)
    return own[0] if own else None


def say_changed(error: BaseException, names: Sequence[str]) -> None:
    """Say in the message of a failed call which arrays it may have changed."""
    if len(error.args) <= 1 and all(isinstance(arg, str) for arg in error.args):
        shown = " and ".join(f"`{name}`" for name in names)
        said = f"{shown} may have been changed in part." if names else "No array was changed."
        error.args = ("\n".join([*error.args, said]),)
