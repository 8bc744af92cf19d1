"""Find what the calls of a loop say about the sizes of the arrays that they pass.

A loop that is a function of its own gets ``n`` as an integer, as in ``zeros((n, n))``: it is the size of an
array that it gets, too. Its arrays have names of their own for their sizes; those of ``x`` and ``x[1:]``
differ by one in all rounds. What is assumed of all rounds is checked where a round calls the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NoReturn, TypeVar

from tvm import tirx

from nnmagic.engine.relax.analysis.dim_labels import label_of, size_of
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import leaves
from nnmagic.engine.relax.legalize.registry import Value, shape_of
from nnmagic.engine.relax.legalize.size_values import Elements
from nnmagic.engine.relax.legalize.sizes import difference, same_size
from nnmagic.engine.relax.lowering.symbolic_dims import SymbolicDims
from nnmagic.engine.relax.schedules.kernel_analysis import substitute
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, Var
from nnmagic.relay.expr import Function
from nnmagic.relay.structure.callgraph import find_invariants
from nnmagic.relay.structure.tuple_trees import flatten
from nnmagic.relay.types import ANY, AnyDim, TensorType, Type

#: The most elements of a vector of integers that may be sizes.
_MOST_SIZES = 8

#: What has a size: an axis of one of the tensors that a function takes, by the numbers of both, or a label.
_Axis = tuple[int, int]
_Key = TypeVar("_Key", _Axis, str)


class DifferentSizesError(Exception):
    """A call passes something else than was assumed of a function: ``PassedSizes.excluded`` has it now."""


@dataclass(frozen=True, slots=True)
class _Size(Generic[_Key]):
    """A size in terms of others: an expression of variables that stand for them."""

    expr: PrimExpr
    parts: tuple[tuple[Var, _Key], ...] = ()

    def of(self, sizes: Mapping[_Key, Extent]) -> Extent:
        """Return the size for the others."""
        values = {var: as_expr(sizes[key]) for var, key in self.parts}
        return substitute(self.expr, values) if values else self.expr

    def is_same(self, other: _Size[_Key] | None) -> bool:
        """Return whether two sizes are written alike."""
        if other is None or [key for _, key in self.parts] != [key for _, key in other.parts]:
            return False
        names = {var: as_expr(own) for (var, _), (own, _) in zip(other.parts, self.parts, strict=True)}
        return same_size(self.expr, substitute(other.expr, names) if names else other.expr)


@dataclass(slots=True)
class PassedSizes:
    """What is known of the sizes that functions take, by the functions' names.

    excluded: what may not be assumed: of a function and None its integers, and a label that it depends on
    others, and a number that this result has the sizes that its type names.
    expand: replaces the names of sizes in one by what they stand for.
    """

    excluded: frozenset[tuple[str, str | int | None]]
    expand: Callable[[Extent], Extent | None]
    _integers: dict[str, dict[int, tuple[_Size[_Axis], ...]]] = field(default_factory=dict)
    _labels: dict[str, dict[str, _Size[str]]] = field(default_factory=dict)

    def note_call(
        self,
        name: str,
        function: Function,
        args: Sequence[Value],
        elements: Callable[[Value], Elements | None],
    ) -> None:
        """Note a call of a loop from outside. Raises DifferentSizesError where another one differs."""
        axes = _axes([shape_of(leaf) for arg in args for leaf in flatten(arg)])
        integers: dict[int, tuple[_Size[_Axis], ...]] = {}
        for number in _invariant_integers(function, name):
            sizes = [_in_terms_of(size, axes) for size in elements(args[number]) or (None,)]
            recorded = tuple(size for size in sizes if size is not None)
            if len(recorded) == len(sizes) and (name, None) not in self.excluded:
                integers[number] = recorded
        labeled = self._label(function, args)
        labels = _dependent(
            {label: labeled[label] for label in labeled if (name, label) not in self.excluded}
        )
        if name in self._integers:
            lost: set[tuple[str, str | int | None]] = set()
            before = self._integers[name].items()
            if not all(_are_same(recorded, integers.get(number)) for number, recorded in before):
                lost.add((name, None))
            for label, size in self._labels[name].items():
                if not size.is_same(labels.get(label)):
                    lost.add((name, label))
            if lost:
                self._exclude(lost)
        else:
            self._integers[name], self._labels[name] = integers, labels

    def check_round(
        self, name: str, function: Function, own: Mapping[str, Extent], args: Sequence[Value]
    ) -> None:
        """Check what a round of a loop passes to the next one. Raises DifferentSizesError.

        ``own``: the sizes of this round, by their labels.
        """
        passed = self._label(function, args)
        lost: set[tuple[str, str | int | None]] = {
            (name, label)
            for label, size in self._labels.get(name, {}).items()
            if not same_size(passed[label], size.of(passed))
        }
        before = {label: self._expand(size) for label, size in own.items()}
        for number, leaf in enumerate(self.result_types(name, function)):
            for dim in leaf.shape:
                old, new = (size_of(dim, sizes, as_expr) for sizes in (before, passed))
                if old is not None and (new is None or not same_size(old, new)):
                    lost.add((name, number))
        if lost:
            self._exclude(lost)

    def of(self, name: str, shapes: Sequence[Sequence[Extent]]) -> Mapping[int, tuple[Extent, ...]]:
        """Return the sizes that parameters of a function are, for the shapes of all that it takes."""
        axes, integers = _axes(shapes), self._integers.get(name, {})
        return {number: tuple(size.of(axes) for size in sizes) for number, sizes in integers.items()}

    def declare(self, name: str, dims: SymbolicDims) -> None:
        """Declare the sizes of a function that depend on others."""
        for label, size in self._labels.get(name, {}).items():
            dims.define(label, size.of({base: dims.lower(AnyDim(base)) for _, base in size.parts}))

    def result_types(self, name: str, function: Function) -> list[TensorType]:
        """Return the types of the results of a loop, without the sizes that other rounds may change."""
        return [
            replace(leaf, shape=(ANY,) * len(leaf.shape)) if (name, number) in self.excluded else leaf
            for number, leaf in enumerate(leaves(function.result_type, function.span))
        ]

    def _exclude(self, lost: Iterable[tuple[str, str | int | None]]) -> NoReturn:
        self.excluded = self.excluded.union(lost)
        raise DifferentSizesError

    def _label(self, function: Function, args: Sequence[Value]) -> dict[str, Extent]:
        """Return the sizes in a call by the names that a function's parameters have for them."""
        tensors = (leaf for param in function.params for leaf in leaves(type_of(param), param.span))
        values = (leaf for arg in args for leaf in flatten(arg))
        sizes: dict[str, Extent] = {}
        for tensor, value in zip(tensors, values, strict=True):
            for dim, size in zip(tensor.shape, shape_of(value), strict=True):
                label = label_of(dim)
                if label is not None and label.isidentifier() and label not in sizes:
                    sizes[label] = self._expand(size)
        return sizes

    def _expand(self, size: Extent) -> Extent:
        expanded = self.expand(size)
        return size if expanded is None else expanded


def _axes(shapes: Sequence[Sequence[Extent]]) -> dict[_Axis, Extent]:
    return {(number, axis): size for number, shape in enumerate(shapes) for axis, size in enumerate(shape)}


def _dependent(sizes: Mapping[str, Extent]) -> dict[str, _Size[str]]:
    """Return the sizes that others tell: those that differ by a number, and those that are computed."""
    groups: list[dict[str, int]] = []
    for label, size in sizes.items():
        for group in groups:
            more = difference(size, sizes[next(iter(group))])
            if more is not None:
                group[label] = more
                break
        else:
            groups.append({label: 0})
    # The smallest size of a group is its base, so that the others add a number that is not
    # negative.
    bases = {base: sizes[base] for base in (min(group, key=group.__getitem__) for group in groups)}
    others = {label: size for label, size in bases.items() if isinstance(size, tirx.Var)}
    dependent: dict[str, _Size[str]] = {}  # what others are computed from comes first
    for base, size in bases.items():
        if not isinstance(size, int | tirx.Var) and (computed := _in_terms_of(size, others)):
            dependent[base] = computed
    for group, base in zip(groups, bases, strict=True):
        for label, more in group.items():
            if label != base:
                variable = tirx.Var("size", "int64")
                dependent[label] = _Size(variable + (more - group[base]), ((variable, base),))
    return dependent


def _are_same(sizes: Sequence[_Size[_Axis]], others: Sequence[_Size[_Axis]] | None) -> bool:
    if others is None or len(sizes) != len(others):
        return False
    return all(a.is_same(b) for a, b in zip(sizes, others, strict=True))


def _is_of_sizes(type_: Type | None) -> bool:
    """Return whether a type is that of an integer, or of a short vector of them."""
    if not isinstance(type_, TensorType) or type_.dtype != "int64" or len(type_.shape) > 1:
        return False
    return all(isinstance(dim, int) and 0 < dim <= _MOST_SIZES for dim in type_.shape)


def _invariant_integers(function: Function, name: str) -> list[int]:
    """Return the numbers of the integers that a function hands on to itself as they are."""
    numbers = [number for number, param in enumerate(function.params) if _is_of_sizes(param.checked_type)]
    return [number for number in find_invariants(name, function) if number in numbers] if numbers else []


def _in_terms_of(size: Extent | None, others: Mapping[_Key, Extent]) -> _Size[_Key] | None:
    """Return a size in terms of others; None if they do not determine it."""
    if size is None:
        return None
    if isinstance(size, int):
        return _Size(as_expr(size))
    variables: list[tuple[Var, _Key]] = []
    for var in tirx.analysis.undefined_vars(tirx.Evaluate(size)):
        key = next((key for key, other in others.items() if _is(other, var)), None)
        if key is None:
            whole = next((key for key, other in others.items() if same_size(other, size)), None)
            if whole is None:
                return None
            stands_for = tirx.Var("size", "int64")
            return _Size(stands_for, ((stands_for, whole),))
        variables.append((var, key))
    return _Size(size, tuple(sorted(variables, key=lambda pair: pair[1])))


def _is(extent: Extent, var: Var) -> bool:
    return not isinstance(extent, int) and bool(extent.same_as(var))
