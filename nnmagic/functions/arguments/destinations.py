"""Check the arrays that a call changes, and write its results into them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import fields, is_dataclass

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.engine.arguments import Parameter
from nnmagic.engine.foreign_arrays import EXPORT_ERRORS, conversion_of, shared_array
from nnmagic.relay.signatures import format_type
from nnmagic.relay.types import ARRAY_DTYPES, TensorType


def destination(parameter: Parameter, value: object) -> np.ndarray:
    """Return the array that a call changes, checked beyond its shape: a converted copy would lose the result.

    Raises TypeError or ValueError.
    """
    name = parameter.name
    variable = name.rpartition(" ")[2].strip("'")
    assert isinstance(parameter.type, TensorType)
    dtype = ARRAY_DTYPES[parameter.type.dtype]
    try:
        array = shared_array(value)
    except EXPORT_ERRORS as error:
        message = f"{name} is changed by the call, and {kind_of(value)} gave no array: {error}"
        raise TypeError(message) from error
    if array is None:
        message = f"{name} is changed by the call: it must be a NumPy array"
        hint = f"make one before the call, as in {variable} = numpy.array({variable}, {dtype.name!r})"
        raise TypeError(f"{message}, {format_type(parameter.type)}, not {kind_of(value)}; {hint}")
    if array.dtype != dtype:
        order = "" if array.dtype.newbyteorder("=") != dtype else " in the other byte order"
        hint = "convert it before the call, which changes the new array: "
        hint += f"{variable} = {variable}{conversion_of(value, dtype.name)}"
        message = f"{name} is changed by the call: it must be {format_type(parameter.type)}"
        raise TypeError(f"{message}, not an array of {array.dtype.name}{order}; {hint}")
    if not array.flags.writeable:
        hint = f"change a copy: {variable} = {variable}.copy()"
        raise ValueError(f"{name} is changed by the call, and the array is read-only; {hint}")
    if _may_overlap_itself(array):
        raise ValueError(f"{name} is changed by the call, and elements of the array share memory")
    return array


def check_overlap(arrays: Sequence[tuple[Parameter, object]]) -> None:
    """Check that no two arrays that a call changes share memory. Raises ValueError."""
    for (one, first), (other, second) in itertools.combinations(arrays, 2):
        assert isinstance(first, np.ndarray)
        assert isinstance(second, np.ndarray)
        if _share_memory(first, second):
            name = other.name.rpartition(" ")[2]
            raise ValueError(f"{one.name} shares memory with {name}, and the call changes both")


def shares_memory(array: object, other: object) -> bool:
    """Return whether an array may share memory with another one, or one that a record or the like holds."""
    if not isinstance(array, np.ndarray):
        return False
    match other:
        case np.ndarray():
            return np.may_share_memory(array, other)
        case tuple() | list():
            return any(shares_memory(array, part) for part in other)
        case dict():
            return any(shares_memory(array, part) for part in other.values())
        case type() | int() | float() | complex() | str():
            return False
        case _ if is_dataclass(other):
            return any(shares_memory(array, getattr(other, each.name)) for each in fields(other))
    return False


def _share_memory(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two arrays have an element in common; True where that takes too long to find out."""
    try:
        return np.shares_memory(first, second, max_work=1_000_000)  # type: ignore[arg-type]  # any number
    except np.exceptions.TooHardError:
        return True


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
    results_ = results if isinstance(results, tuple) else (results,)
    returned, last = results_[: len(results_) - len(arrays)], results_[len(results_) - len(arrays) :]
    for array, new, number in zip(arrays, last, numbers, strict=True):
        assert isinstance(array, np.ndarray)
        if new is not array:
            changed.append(number)
            np.copyto(array, new)
    return returned[0] if returned else None


def note_changed_arrays(error: BaseException, names: Sequence[str]) -> None:
    """Say in the message of a failed call which arrays it may have changed."""
    if len(error.args) <= 1 and all(isinstance(arg, str) for arg in error.args):
        shown = " and ".join(f"`{name}`" for name in names)
        said = f"{shown} may have been changed in part." if names else "No array was changed."
        error.args = ("\n".join([*error.args, said]),)
