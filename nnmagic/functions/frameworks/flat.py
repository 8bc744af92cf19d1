"""A compiled function as one of flat arrays: what a framework registers as an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.engine.relax.analysis.dim_labels import label_of, size_of
from nnmagic.functions.arguments.records import Maker, from_tuples, records_in, to_tuples
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.derivatives.transformations import vjp, vmap
from nnmagic.functions.specializing import SpecializingFunction
from nnmagic.relay import types as ty
from nnmagic.relay.signatures import format_type
from nnmagic.relay.sizes import bind_sizes
from nnmagic.relay.structure.tuple_trees import flatten, leaf_types, rebuild

#: Python values that a framework has no tensors for.
_PYTHON_ONLY = frozenset((ty.SET, ty.TABLE, ty.LIST, ty.ITEMS, ty.KNOWN, ty.CHOICE, ty.OPTIONAL))


class FlatFunction:
    """A compiled function that takes and gives a list of arrays: the leaves of its tuples and records."""

    def __init__(self, function: CompiledFunction, framework: str) -> None:
        """Look at the function's types. Raises TypeError for those that the framework has no tensors for."""
        definition = function._definition
        self.function, self.call, self.framework = function, definition.call, framework
        if self.call.destinations:
            changes = "draws from a generator" if self.call.generators else "changes its arguments"
            raise TypeError(f"{function.name}() {changes}, which {framework} cannot see: return the values")
        result = definition.module.functions[function.name].ret_type
        assert result is not None
        self.types, self.result = [parameter.type for parameter in self.call.parameters], result
        names = list(self.call.signature.parameters)
        self.inputs = [
            leaf
            for name, type_ in zip(names, self.types, strict=True)
            for leaf in self._tensors(f"`{name}`", type_)
        ]
        self.outputs = self._tensors("its result", result)
        #: Where a call has each of the inputs, for messages.
        self.paths = [
            path
            for parameter, type_ in zip(self.call.parameters, self.types, strict=True)
            for path in _paths(type_, parameter.name)
        ]
        self._plain = CompiledFunction(definition, function.cache_info, records=False)

    def _tensors(self, what: str, type_: ty.Type) -> list[ty.TensorType]:
        """Return the types of the tensors in a type."""
        tensors = [leaf for leaf in leaf_types(type_) if isinstance(leaf, ty.TensorType)]
        is_python = any(record.name in _PYTHON_ONLY for record in records_in(type_))
        if is_python or len(tensors) < len(leaf_types(type_)):
            shown = f"{what} is {format_type(type_)}, no tensor, tuple or record of tensors"
            raise TypeError(f"{self.function.name}() is no function of {self.framework}: {shown}")
        return tensors

    def open(self, args: Sequence[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Maker]]:
        """Return the leaves of the arguments, and what makes the records of a result. Raises TypeError."""
        makers: dict[str, Maker] = {}
        leaves: list[Any] = []
        bound = self.call.bind(args, keywords)
        for parameter, type_, value in zip(self.call.parameters, self.types, bound, strict=True):
            opened = to_tuples(type_, value, parameter.name, makers)
            leaves += _leaves(type_, opened, parameter.name)
        return leaves, makers

    def close(self, results: Sequence[Any], makers: dict[str, Maker]) -> Any:
        """Return the result whose leaves these are."""
        return from_tuples(self.result, rebuild(self.result, iter(results)), makers)

    def run(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Compute the results. Raises what the function raises."""
        leaves = iter(arrays)
        args, keywords = self.call.split([rebuild(type_, leaves) for type_ in self.types])
        return list(map(np.asarray, flatten(self._plain(*args, **keywords))))

    def shapes(
        self, shapes: Sequence[Sequence[Any]], dtypes: Sequence[str] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return the shapes of the results for those of the arguments, None for sizes that a run decides.

        Sizes may be symbols. Raises TypeError or ValueError for numbers, or ``dtypes``, that do not fit.
        """
        sizes: dict[str, Any] = {}
        if all(type(size) is int for shape in shapes for size in shape):
            taken = dtypes or [leaf.dtype for leaf in self.inputs]
            views = (stand_in(dtype, shape) for dtype, shape in zip(taken, shapes, strict=True))
            values = [rebuild(type_, views) for type_ in self.types]
            for type_, value in zip(self.types, self._plain._caller._check(values, how=False), strict=True):
                bind_sizes(type_, value, sizes)
        else:
            for leaf, shape in zip(self.inputs, shapes, strict=True):
                sizes |= {label_of(dim) or "": size for dim, size in zip(leaf.shape, shape, strict=True)}
        return [tuple(size_of(dim, sizes, int) for dim in leaf.shape) for leaf in self.outputs]

    @cached_property
    def pullback(self) -> FlatFunction:
        """The function of arguments and cotangents that gives results and gradients. Raises TinyNNError."""
        return FlatFunction(vjp(self.function), self.framework)

    @cached_property
    def batched(self) -> FlatFunction:
        """The function of a batch of each argument, at the first axis. Raises TinyNNError."""
        return FlatFunction(vmap(self.function), self.framework)

    def with_cotangents(self, inputs: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        """Return the arguments of `pullback`, which takes cotangents ahead of keyword-only parameters."""
        named = self.types[len(self.types) - len(self.call.keyword_only) :]
        first = len(inputs) - sum(len(leaf_types(type_)) for type_ in named)
        return [*inputs[:first], *cotangents, *inputs[first:]]

    def gradients(self, results: Sequence[Any]) -> list[Any]:
        """Return what `pullback` gives for each argument, None for integers."""
        gradients = iter(results[len(self.outputs) :])
        leaves = []
        for type_ in self.types:
            dtypes = [leaf.dtype for leaf in leaf_types(type_) if isinstance(leaf, ty.TensorType)]
            flows = any(map(ty.is_inexact, dtypes))  # of a tuple that holds floats there is one of every leaf
            own = [next(gradients) if flows else None for _ in dtypes]
            leaves += [
                leaf if ty.is_inexact(dtype) else None for leaf, dtype in zip(own, dtypes, strict=True)
            ]
        return leaves


def stand_in(dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Return an array without memory of its own, by which a call is checked that has no arrays yet."""
    return np.broadcast_to(np.zeros((), ty.ARRAY_DTYPES[dtype]), tuple(shape))


def _paths(type_: ty.Type, path: str) -> Iterator[str]:
    """Yield where the leaves of a value are."""
    if not isinstance(type_, ty.TupleType):
        yield path
        return
    for number, field in enumerate(type_.fields):
        yield from _paths(field, f"{path}[{number}]")


def _leaves(type_: ty.Type, value: Any, path: str) -> Iterator[Any]:
    """Yield the leaves of an argument with tuples for its records. Raises TypeError."""
    if not isinstance(type_, ty.TupleType):
        yield value
        return
    if not isinstance(value, tuple | list) or len(value) != len(type_.fields):
        raise TypeError(f"{path} must be a tuple of {len(type_.fields)}, not {kind_of(value)}")
    for number, (field, part) in enumerate(zip(type_.fields, value, strict=True)):
        yield from _leaves(field, part, f"{path}[{number}]")


def specialize(
    function: SpecializingFunction, args: Sequence[Any], kwargs: Mapping[str, Any], view: Callable[[Any], Any]
) -> tuple[CompiledFunction, list[Any], dict[str, Any]]:
    """Return a function without types compiled for tensors, and the arguments that it takes.

    ``view`` returns a tensor as an array; what it returns as it is is no tensor. Raises TypeError, ValueError
    or TinyNNError.
    """
    tensors: dict[int, Any] = {}
    views: list[Any] = []  # kept, so that no other object has the identity of one

    def view_all(value: Any) -> Any:
        if isinstance(value, tuple | list):
            parts = [view_all(part) for part in value]
            return parts if isinstance(value, list) else tuple(parts)
        array = view(value)
        if array is not value:
            views.append(array)
            tensors[id(array)] = value
        return array

    def restore(value: Any) -> Any:
        if type(value) in (tuple, list):
            return type(value)(map(restore, value))
        return tensors.get(id(value), value)

    shown = [view_all(value) for value in args], {name: view_all(value) for name, value in kwargs.items()}
    compiled, positional, keywords = function.specialize_for(*shown)
    return (
        compiled,
        [restore(value) for value in positional],
        {name: restore(value) for name, value in keywords.items()},
    )
