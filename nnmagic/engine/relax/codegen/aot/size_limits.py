"""Bound the sizes of a program by what there is memory for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.linear import MOST, BoundedSymbol, Linear, of_symbol
from nnmagic.engine.relax.codegen.aot.range_evaluator import Known, RangeEvaluator
from nnmagic.engine.relax.codegen.aot.step_operands import written_storage
from nnmagic.engine.relax.codegen.aot.symbols import Symbols
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Var
from nnmagic.relay.types import NUMPY_DTYPES

#: What no address space has, in bytes: today's have 57 bits.
_MOST_ADDRESSES = 1 << 58


def lengths_of(symbols: Symbols, entry: aot.NativeFunction) -> dict[Var, Linear]:
    """Return the sizes of which there are arrays if the entry runs: there is memory for these."""
    written = [
        storage.nbytes
        for step in entry.steps()
        for storage in written_storage(step)
        if storage.kind in ("temporary", "result")
    ]
    bounds = [(as_expr(nbytes), _MOST_ADDRESSES) for nbytes in written]
    for array in entry.results:
        bounds.append((as_expr(array.nbytes), _MOST_ADDRESSES))
        bounds += [(as_expr(size), MOST // NUMPY_DTYPES[array.dtype].itemsize) for size in array.shape]
    lengths = {}
    for dim in entry.dims:
        for bounded, limit in bounds:
            symbols.sizes[dim] = of_symbol(symbol := BoundedSymbol(0, limit))
            size = RangeEvaluator(symbols, {}, {}).evaluate(bounded)
            if isinstance(size, Linear) and list(size.terms) == [symbol] and size.low >= 0:
                lengths[dim] = symbols.sizes[dim]
                break
    return lengths


def size_of_arrays(function: aot.NativeFunction, dim: Var) -> Linear:
    """Return a size of which nothing is known but that arrays have it: their bytes are counted in 64 bits.

    Where it is the only one of an array, this has an address for each of its bytes.
    """
    high = MOST
    for array in function.arrays:
        others = [size for size in array.shape if isinstance(size, int) or not size.same_as(dim)]
        if len(others) < len(array.shape):
            is_only = all(isinstance(size, int) and size > 0 for size in others) and len(others) + 1 == len(
                array.shape
            )
            high = min(high, (_MOST_ADDRESSES if is_only else MOST) // NUMPY_DTYPES[array.dtype].itemsize)
    return of_symbol(BoundedSymbol(0, high))


def common_arguments(
    function: aot.NativeFunction,
    calls: Sequence[tuple[Sequence[Known], Sequence[Known]]],
    sizes: Mapping[Var, Linear],
) -> list[Known]:
    """Return what all calls of a function have in common: an argument is a size, or a number.

    calls: the arguments of each, and the sizes that it gives.
    """
    args: list[Known] = [None] * len(function.parameters)
    if function.recursive or function.recursion is not None:
        # A recursive call is followed inside of its own function, where its arguments are not
        # known yet.
        return args  # it calls itself with others
    for at in range(len(args)):
        bounds = [intervals[at] for intervals, _ in calls]
        first = next(iter(bounds), None)
        if not isinstance(first, Linear):
            continue
        if not first.terms and all(value == first for value in bounds):
            args[at] = first
        for place, dim in enumerate(function.dims):
            if all(intervals[at] == extents[place] for intervals, extents in calls):
                args[at] = sizes[dim]
    return args
