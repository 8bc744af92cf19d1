"""Compiled functions over the blocks of Dask's arrays: maps, reductions, gradients of sums over examples.

The types say how arrays are cut: along axes of named sizes. An axis whose size is a number is whole in each
block. A function is pickled once for all blocks, and its code is linked once in each process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from functools import reduce as fold
from operator import add, itemgetter
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed

from nnmagic.diagnostics import kind_of
from nnmagic.engine.relax.analysis.dim_labels import label_of, names_in, size_of
from nnmagic.functions.arguments.records import named_fields
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.derivatives.transformations import Argnums
from nnmagic.functions.derivatives.transformations import value_and_grad as gradient_of
from nnmagic.relay.signatures import format_type
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import ARRAY_DTYPES, Dim, TensorType, TupleType, Type
from nnmagic.tracebacks import short_errors

__all__ = ["map_blocks", "reduce", "value_and_grad"]

#: How many results one task of a tree combines, as Dask's own reductions do.
_SPLIT_EVERY = 8


@short_errors
def map_blocks(function: CompiledFunction, *args: Any, **kwargs: Any) -> Any:
    """Return what a function gives for each block, as arrays of Dask; nothing is computed.

    Args:
        function: a compiled function of tensors with types.
        *args: arrays of Dask and NumPy, and numbers. Arrays with an axis of one name are cut alike.
        **kwargs: the same by name.

    Returns:
        An array, or a tuple of arrays, whose dtype and chunks the types of the function say. An axis has
        blocks where its size has a name that an argument is cut by; sizes that values decide are NaN.

    Raises:
        TypeError: for a function of other types.
        ValueError: an axis of a fixed size is cut, or a name that is cut is missing in a result.

    """
    blocks = _Blocks(function, args, kwargs)
    result = function.relay.functions[function.name].ret_type
    outputs = [leaf for leaf in leaf_types(result) if isinstance(leaf, TensorType)] if result else []
    if not outputs or (isinstance(result, TupleType) and outputs != list(result.fields)):
        shown = "nothing" if result is None else format_type(result)
        raise TypeError(f"{function.name}() gives {shown}, neither an array nor a tuple of arrays")
    if not isinstance(result, TupleType):
        return blocks.output(outputs[0], None)
    return tuple(blocks.output(leaf, number) for number, leaf in enumerate(outputs))


@short_errors
def reduce(
    function: CompiledFunction, combine: Callable[[Any, Any], Any], *args: Any, **kwargs: Any
) -> Delayed:
    """Return what ``combine`` makes of the results of all blocks, two at a time, along a tree.

    ``combine`` is any function of two results, compiled or not, that is associative. Other arguments, and
    what is raised, are as in `map_blocks`. The result is delayed: ``.compute()`` gives it.
    """
    return _combine(_Blocks(function, args, kwargs).delayed(), combine)


@short_errors
def value_and_grad(
    function: CompiledFunction, argnums: Argnums = 0, *, average: bool = False
) -> Callable[..., Any]:
    """Return a function that computes a loss over all blocks and its gradient, on the default scheduler.

    Args:
        function: a compiled function that returns a loss over the examples that it is given: their sum.
        argnums: as in ``nnmagic.value_and_grad``: parameters, which are whole in each block.
        average: the loss is a mean over the examples: blocks count by their size.

    Returns:
        A function ``step(*args)`` of parameters and of arrays of Dask. A worker gets the parameters once in a
        call; gradients are summed where they are, along a tree. Losing a worker loses no result.

    Raises:
        TinyNNError: the loss has no gradient.

    """
    gradient = gradient_of(function, argnums)

    @short_errors
    def step(*args: Any, **kwargs: Any) -> Any:
        blocks = _Blocks(gradient, args, kwargs)
        results = blocks.delayed()
        if average:
            results = [
                dask.delayed(_scale)(each, weight)
                for each, weight in zip(results, blocks.weights(), strict=True)
            ]
        return dask.compute(_combine(results, _sum))[0]

    return step


class _Blocks:
    """The results of a function for the blocks of its arguments."""

    def __init__(self, function: CompiledFunction, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        if not hasattr(function, "_definition"):
            hint = 'give its parameters types, as in x: Tensor[("n", 3), f64]'
            what = f"{function.__name__}()" if hasattr(function, "specializations") else kind_of(function)
            raise TypeError(f"types say how arrays are cut, and {what} has none: {hint}")
        self.function, call = function, function._definition.call
        if call.destinations:
            raise TypeError(
                f"{function.name}() changes its arguments, which blocks do not keep: return the values"
            )
        operands: list[Any] = []
        for parameter, value in zip(call.parameters, call.bind(args, kwargs), strict=True):
            operands += self._operand(parameter.name, parameter.type, value)
        chunks, _ = da.core.unify_chunks(*operands)
        #: The sizes of the blocks along each name by which an argument is cut.
        self.chunks = {label: lengths for label, lengths in chunks.items() if len(lengths) > 1}
        #: The sizes of the other names.
        self.sizes = {label: lengths[0] for label, lengths in chunks.items() if len(lengths) == 1}
        self.results = da.blockwise(
            partial(_call, function),
            tuple(self.chunks),
            *operands,
            dtype=object,
            meta=np.empty((0,) * len(self.chunks), object),
            concatenate=True,
        )

    def _operand(self, name: str, type_: Type, value: Any) -> tuple[Any, Any]:
        """Return an argument as Dask's blockwise takes it: with a name for each axis."""
        if not isinstance(type_, TensorType):
            raise TypeError(f"{name} is a {format_type(type_)}, and blocks are arrays")
        if not type_.shape:
            return value, None
        array = value if isinstance(value, da.Array) else da.from_array(np.asarray(value), chunks=-1)
        if array.ndim != len(type_.shape):
            raise ValueError(f"{name} must be {format_type(type_)}, not of rank {array.ndim}")
        labels = []
        for axis, (dim, lengths) in enumerate(zip(type_.shape, array.chunks, strict=True)):
            is_name = not isinstance(dim, int) and names_in(dim) == {label_of(dim)}
            if not is_name and len(lengths) > 1:
                hint = f"rechunk({{{axis}: -1}})"
                message = f"{name} is cut along axis {axis}, which {format_type(type_)} has whole: {hint}"
                raise ValueError(message)
            labels.append(label_of(dim) if is_name else f"{name}.{axis}")
        return array, tuple(labels)

    def output(self, leaf: TensorType, number: int | None) -> da.Array:
        """Return one result of all blocks; ``number``: its place in the tuple of results."""
        kept = set(map(label_of, leaf.shape))
        missing = [label for label in self.chunks if label not in kept]
        index: list[str] = []
        new: dict[str, Any] = {}
        adjusted: dict[str, tuple[float, ...]] = {}
        for axis, dim in enumerate(leaf.shape):
            label, size = label_of(dim), size_of(dim, self.sizes, int)
            if label is not None and label in self.chunks:
                index.append(label)
            elif size is None and missing:
                index.append(missing.pop(0))
                adjusted[index[-1]] = self._sizes_of(dim, index[-1])
            else:
                index.append(f"result.{axis}")
                new[index[-1]] = math.nan if size is None else size
        if missing:
            message = f"{missing[0]} is cut into {len(self.chunks[missing[0]])} blocks"
            hint = "nnmagic.dask.reduce combines results"
            raise ValueError(f"{message}, and the result {format_type(leaf)} has no axis of it: {hint}")
        return da.blockwise(
            _identity if number is None else itemgetter(number),
            tuple(index),
            self.results,
            tuple(self.chunks),
            new_axes=new,
            adjust_chunks=adjusted,
            dtype=ARRAY_DTYPES[leaf.dtype],
            meta=np.empty((0,) * len(leaf.shape), ARRAY_DTYPES[leaf.dtype]),
        )

    def _sizes_of(self, dim: Dim, label: str) -> tuple[float, ...]:
        """Return the size of a dimension in each block along a name; NaN where values decide it."""
        sizes = [size_of(dim, {**self.sizes, label: lengths}, int) for lengths in self.chunks[label]]
        return tuple(math.nan if size is None else size for size in sizes)

    def delayed(self) -> list[Delayed]:
        """Return the results of the blocks, one by one."""
        return list(self.results.to_delayed().ravel()) if self.chunks else [self.results.to_delayed().item()]

    def weights(self) -> list[float]:
        """Return the part of all examples that each block has."""
        grid = fold(
            np.multiply.outer,
            [np.array(lengths) / sum(lengths) for lengths in self.chunks.values()],
            np.ones(()),
        )
        return [float(weight) for weight in np.ravel(grid)]


def _call(function: CompiledFunction, *values: Any) -> Any:
    """Call a function with the values of all its parameters by position."""
    args, keywords = function._definition.call.split(values)
    return function(*args, **keywords)


def _identity(result: Any) -> Any:
    return result


def _combine(results: Sequence[Delayed], combine: Callable[[Any, Any], Any]) -> Delayed:
    """Return the combination of results, as a tree of tasks."""
    fold_all = dask.delayed(fold)
    while len(results) > 1:
        groups = [results[i : i + _SPLIT_EVERY] for i in range(0, len(results), _SPLIT_EVERY)]
        results = [fold_all(combine, group) for group in groups]
    return results[0]


def _scale(result: Any, weight: float) -> Any:
    return _map_leaves(lambda part: part * part.dtype.type(weight), result)


def _sum(lhs: Any, rhs: Any) -> Any:
    return _map_leaves(add, lhs, rhs)


def _map_leaves(function: Callable[..., Any], *results: Any) -> Any:
    """Return the results of a function for the leaves of tuples and records."""
    if isinstance(results[0], tuple) and not hasattr(results[0], "_fields"):
        return tuple(_map_leaves(function, *parts) for parts in zip(*results, strict=True))
    named = [fields for result in results if (fields := named_fields(result)) is not None]
    if not named:
        return function(*results)
    names, make = named[0]
    return make({name: _map_leaves(function, *(fields[name] for fields, _ in named)) for name in names})
