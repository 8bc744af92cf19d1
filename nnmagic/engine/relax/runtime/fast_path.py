"""Write the function that calls an AOT program: Python source for its parameters, sizes and results.

All that a call needs is in the function's closure, and its arguments are written out: to gather and unpack
them would be a quarter of the time of a small call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count
from types import CodeType
from typing import Any

import numpy as np

from nnmagic.engine.relax.artifact import VALUE, Json
from nnmagic.engine.relax.runtime.sizes import size_source
from nnmagic.relay.types import TupleType, Type

FastPath = Callable[[tuple[Any, ...]], Any]


def make_fast_path(
    types: Sequence[Type],
    parameters: Sequence[tuple[str, int]],
    dims: Sequence[tuple[int, int]],
    results: Sequence[Sequence[Json]],
    names: Mapping[str, Any],
    *,
    result: str,
    otherwise: str = "None",
    written: Mapping[int, int] | None = None,
    leaves: bool = False,
) -> FastPath:
    """Return a function that takes a call's arguments as they are.

    Args:
        types: those of the arguments: tensors, and tuples of them.
        parameters: the dtype and the rank of each array that it takes; a number of Python or of NumPy serves
            for one of rank 0.
        dims: the array and the axis that has each dimension, or the integer and ``VALUE``.
        results: the shapes of the results, as an artifact states them.
        names: ``entry``, ``array``, ``empty``, ``finish``, ``table``, ``nothing``, ``raise_reason``, what
            ``otherwise`` names, the dtypes ``pk`` of the parameters and ``tk`` of the results; of a program
            that needs a workspace ``idle`` and ``new_workspace``.
        result: the expression of the result, of the arrays ``rk``.
        otherwise: the expression to return where the arguments, ``args``, need a look.
        written: the results that are arguments, with these: NumPy arrays that are writable and share no
            memory with other arguments, or they need a look. ``names`` holds ``ndarray`` and ``overlap``.
        leaves: whether the program leaves results where they are: ``left`` in the expression of the result.

    """
    arguments = [f"a{number}" for number in range(len(parameters))]
    arrays = [f"r{number}" for number in range(len(results))]
    written = written or {}
    addresses = "".join(f"id({name}), " for name in [*arguments, *arrays])
    every = "".join(f"{name}, " for name in [*arguments, *arrays])
    lines = _unpack(types, "args", iter(arguments), count(), otherwise)
    lines += _refuse_shared_memory(parameters, written, otherwise)
    scalars = [(number, dtype) for number, (dtype, rank) in enumerate(parameters) if rank == 0]
    names = {**names, **{f"s{number}": names[f"p{number}"].type for number, _ in scalars}}
    for number, dtype in scalars:
        conditions = [_number_condition(dtype, f"a{number}"), f"type(a{number}) is s{number}"]
        lines += [
            f"if {' or '.join(filter(None, conditions))}:",
            f"    a{number} = array(a{number}, p{number})",
        ]
    lines += _allocate(dims, results, written, otherwise)
    workspace = "idle" in names
    if workspace:
        lines += ["try:", "    w = idle.pop()", "except IndexError:", "    w = new_workspace()"]
    lines += ["try:", f"    code = entry({addresses}{'id(w)' if workspace else 'nothing'}, table)"]
    lines += ["except (RuntimeError, ValueError) as error:", "    raise_reason(error)"]
    lines += _finish(every, otherwise, has_workspace=workspace, leaves=leaves)
    lines += [f"return {result}"]
    source = "def fast_path(args):\n" + "".join(f"    {line}\n" for line in lines)
    namespace = dict(names)
    exec(_compile(source), namespace)  # noqa: S102 - our own text: numbers, and the names above
    fast_path: FastPath = namespace.pop("fast_path")  # or it and the names would keep each other
    return fast_path


def _finish(every: str, otherwise: str, *, has_workspace: bool, leaves: bool) -> list[str]:
    """Return the lines that look at the code with which the program ended."""
    workspace = "w" if has_workspace else "None"
    if leaves:
        return ["left = []", f"if finish(code, {workspace}, ({every}), left):", f"    return {otherwise}"]
    lines = ["if code:", f"    if finish(code, {workspace}, ({every})):", f"        return {otherwise}"]
    return [*lines, "else:", "    idle.append(w)"] if has_workspace else lines


def _allocate(
    dims: Sequence[tuple[int, int]],
    results: Sequence[Sequence[Json]],
    written: Mapping[int, int],
    otherwise: str,
) -> list[str]:
    """Return the lines that measure the arguments and make arrays for the results."""
    lines = _measure(dims, otherwise)
    for number, shape in enumerate(results):
        if number in written:
            lines.append(f"r{number} = a{written[number]}")
            continue
        sizes = "".join(f"{size_source(size)}, " for size in shape)
        lines.append(f"r{number} = empty(({sizes}), t{number})")
    if not dims:
        return lines
    failures = "AttributeError, IndexError, TypeError, ValueError, MemoryError"
    return ["try:", *(f"    {line}" for line in lines), f"except ({failures}):", f"    return {otherwise}"]


def _unpack(
    types: Sequence[Type], source: str, arrays: Iterator[str], tuples: Iterator[int], otherwise: str
) -> list[str]:
    """Return the lines that name the arrays of a tuple, and of tuples in it; these refuse anything else."""
    names, lines = [], []
    for type_ in types:
        if isinstance(type_, TupleType):
            name = f"u{next(tuples)}"
            lines += [
                f"if type({name}) is not tuple or len({name}) != {len(type_.fields)}:",
                f"    return {otherwise}",
                *_unpack(type_.fields, name, arrays, tuples, otherwise),
            ]
        else:
            name = next(arrays)
        names.append(name)
    return [f"{', '.join(names)}, = {source}" if names else f"() = {source}", *lines]


def _refuse_shared_memory(
    parameters: Sequence[tuple[str, int]], written: Mapping[int, int], otherwise: str
) -> list[str]:
    """Return the lines that refuse arguments to write into that share memory with others."""
    lines = []
    for number in written.values():
        wrong = [f"type(a{number}) is not ndarray", f"not a{number}.flags.writeable"]
        for other, (_, rank) in enumerate(parameters):
            if other != number:
                kind = f"type(a{other}) is not ndarray or" if rank else f"type(a{other}) is ndarray and"
                wrong.append(f"{kind} overlap(a{number}, a{other})")
        lines += [f"if {' or '.join(wrong)}:", f"    return {otherwise}"]
    return lines


def _measure(dims: Sequence[tuple[int, int]], otherwise: str) -> list[str]:
    """Return the lines that read dimensions from arrays."""
    lines = []
    for number, (array, axis) in enumerate(dims):
        if axis == VALUE:
            lines += [f"d{number} = a{array}.item()", f"if d{number} < 0:", f"    return {otherwise}"]
        else:
            lines.append(f"d{number} = a{array}.shape[{axis}]")
    return lines


@lru_cache(maxsize=1024)
def _compile(source: str) -> CodeType:
    """Compile source that programs with like parameters and results share."""
    return compile(source, "<fast path>", "exec")


def _number_condition(dtype: str, name: str) -> str | None:
    """Return the condition under which a Python number is of a dtype without further ado; None for never."""
    if dtype == "bool":
        return f"type({name}) is bool"
    if dtype in ("float32", "float64"):
        largest, (least_int, largest_int) = float(np.finfo(dtype).max), exact_ints(dtype)
        is_float = f"type({name}) is float and {-largest!r} <= {name} <= {largest!r}"
        return f"{is_float} or type({name}) is int and {least_int} <= {name} <= {largest_int}"
    if dtype.startswith(("int", "uint")):
        least_int, largest_int = exact_ints(dtype)
        return f"type({name}) is int and {least_int} <= {name} <= {largest_int}"
    return None


def exact_ints(dtype: str) -> tuple[int, int]:
    """Return the least and the largest of the ints that a dtype of floats or integers holds exactly."""
    if dtype.startswith("float"):
        largest = 1 << (np.finfo(dtype).nmant + 1)
        return -largest, largest
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
