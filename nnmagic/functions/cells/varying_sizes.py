"""Name the sizes of arguments that differ from call to call, so that one compilation serves them all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from nnmagic.functions.arguments.open_signatures import Key, specialization_key
from nnmagic.relay.types import ANY, LIST, AnyDim, Dim, RecordType, TensorType, Type
from nnmagic.tinynn.types.annotations import Generator

#: So many sets of sizes have code of their own.
_OWN = 4


def without_sizes(types: Mapping[str, Type | Generator], values: Mapping[str, object]) -> Key:
    """Return the key of a specialization without sizes: calls that differ in these alone have one."""
    changed: dict[str, Type | Generator] = dict(types)
    for name, array in _arrays(types):
        changed[name] = _of_items(types[name], replace(array, shape=(ANY,) * len(array.shape)))
    return specialization_key(changed, values)


class VaryingSizes:
    """The sizes that calls gave so far, by all else that is known of the calls.

    Sizes that were equal in each call get one name, as those of operands do.
    """

    def __init__(self) -> None:
        self._seen: dict[Key, list[tuple[int, ...]]] = {}
        self._stays: set[Key] = set()

    def name(
        self, types: Mapping[str, Type | Generator], values: Mapping[str, object]
    ) -> dict[str, Type | Generator] | None:
        """Return the types of a call with names for the sizes that differ; None while these are few."""
        sizes = tuple(dim for _, type_ in _arrays(types) for dim in type_.shape if isinstance(dim, int))
        like = without_sizes(types, values)
        seen = self._seen.setdefault(like, [])
        if like in self._stays or not sizes or 0 in sizes:
            return None  # no elements: what has no largest one is refused where that is known
        if len(seen) < _OWN:
            seen.append(sizes)
            return None
        labels = self._labels(types, seen)
        if not _fit(labels, sizes):
            seen.append(sizes)
            labels = self._labels(types, seen)
        return _with_sizes(types, labels)

    def keep(self, types: Mapping[str, Type | Generator], values: Mapping[str, object]) -> None:
        """Note that a function cannot be compiled with names for the sizes of such calls."""
        self._stays.add(without_sizes(types, values))

    def _labels(
        self, types: Mapping[str, Type | Generator], seen: Sequence[tuple[int, ...]]
    ) -> list[int | AnyDim]:
        """Return for each size itself, if it never differed, or its name."""
        dims = [dim for _, type_ in _arrays(types) for dim in type_.shape]
        taken = {str(dim.label) for dim in dims if isinstance(dim, AnyDim)}
        places = (
            (name, axis)
            for name, type_ in _arrays(types)
            for axis, dim in enumerate(type_.shape)
            if isinstance(dim, int)
        )
        names: dict[tuple[int, ...], AnyDim] = {}
        labels: list[int | AnyDim] = []
        for (name, axis), column in zip(places, zip(*seen, strict=True), strict=True):
            if len(set(column)) == 1:
                labels.append(column[0])
                continue
            if column not in names:
                label = f"{name}_{axis}"
                while label in taken:
                    label += "_"
                names[column] = AnyDim(label)
            labels.append(names[column])
        return labels


def _arrays(types: Mapping[str, Type | Generator]) -> Iterator[tuple[str, TensorType]]:
    """Yield the arrays among the types of arguments, and the items of lists."""
    for name, type_ in types.items():
        array = type_.fields[0] if isinstance(type_, RecordType) and type_.name == LIST else type_
        if isinstance(array, TensorType):
            yield name, array


def _fit(labels: Sequence[int | AnyDim], sizes: Sequence[int]) -> bool:
    """Return whether sizes are those that never differed, and equal where they have one name."""
    known: dict[AnyDim, int] = {}
    return all(
        label == size if isinstance(label, int) else known.setdefault(label, size) == size
        for label, size in zip(labels, sizes, strict=True)
    )


def _with_sizes(
    types: Mapping[str, Type | Generator], labels: Sequence[int | AnyDim]
) -> dict[str, Type | Generator]:
    """Return types with others for all their known sizes."""
    sizes = iter(labels)
    changed: dict[str, Type | Generator] = dict(types)
    for name, array in _arrays(types):
        shape: tuple[Dim, ...] = tuple(next(sizes) if isinstance(dim, int) else dim for dim in array.shape)
        changed[name] = _of_items(types[name], replace(array, shape=shape))
    return changed


def _of_items(type_: Type | Generator, array: TensorType) -> Type:
    """Return the type of an array, or of a list with such items, as a type is one or the other."""
    return replace(type_, fields=(array,)) if isinstance(type_, RecordType) else array
