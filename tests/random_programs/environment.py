"""Hold what is in scope at a position of a program: typed values, functions, and what may not change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

#: A dimension: a number, a name, or the sizes of the calls where no name has these.
Dim = "int | str | tuple[int, ...]"

#: What a cell has of the type of a parameter, by how much of it is written.
WRITTEN = {
    "all": ": Tensor[{shape}, {dtype}]",
    "dtype": ": Tensor[..., {dtype}]",
    "shape": ": Tensor[{shape}]",
    "tensor": ": Tensor",
    "nothing": "",
}


class Unfit(Exception):
    """A choice that does not fit: nothing in scope has what a production needs, or a value is not usable."""


@dataclass(frozen=True)
class Value:
    """A name in scope.

    Args:
        name: as the program has it.
        kind: the symbol of the grammar, or the name of the dtype, that it is an expression of.
        dims: its dimensions, of programs that are evaluated.
        arrays: its value in each call, None where a statement before raised.
        exact: small multiples of 1/8, or integers, computed without rounding: any order of operations gives
            the same.
        written: how much of the type of a parameter the cell has, see ``WRITTEN``.
        constant: whether the program has the value in the place of a parameter.

    """

    name: str
    kind: str
    dims: tuple[Dim, ...] = ()
    arrays: tuple[np.ndarray | None, ...] = ()
    exact: bool = True
    written: str = "all"
    constant: bool = False

    @property
    def dtype(self) -> np.dtype:
        return next(array.dtype for array in self.arrays if array is not None)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def has_named_dims(self) -> bool:
        """Whether a parameter may have these dimensions."""
        return not any(isinstance(dim, tuple) for dim in self.dims)


@dataclass(frozen=True)
class Signature:
    """The kinds of a function's parameters and results."""

    params: str
    results: str


@dataclass
class Environment:
    """The names in sight, and what is around.

    Args:
        values: by name.
        functions: by name.
        results: the kinds that the function around returns.
        params: the kinds of its parameters.
        fixed: names that no statement may assign: counters of loops, and what functions around own.
        depth: how many blocks are around.
        inside: how many functions are around the position, in a function.
        loop: whether a loop of this function is around.

    """

    values: dict[str, Value] = field(default_factory=dict)
    functions: dict[str, Signature] = field(default_factory=dict)
    results: str = ""
    params: str = ""
    fixed: frozenset[str] = frozenset()
    depth: int = 0
    inside: int = 0
    loop: bool = False

    def inner(self, **changes: object) -> Environment:
        """Return the environment of a block."""
        made = replace(self, values=dict(self.values), functions=dict(self.functions), depth=self.depth + 1)
        return replace(made, **changes)  # type: ignore[arg-type]

    def of_function(self) -> Environment:
        """Return the environment of a function that is defined here."""
        fixed = frozenset(self.values)
        return self.inner(loop=False, fixed=fixed, inside=self.inside + 1, params="", results="")

    def names(self, kinds: Iterable[str], *, own: bool = False) -> list[str]:
        """Return the names of one of the kinds; ``own``: those that may be assigned."""
        return [
            name
            for name, value in self.values.items()
            if value.kind in kinds and not (own and name in self.fixed)
        ]

    def join(self, branches: Sequence[Environment]) -> None:
        """Take the names that all branches end with, of one kind."""
        first, *others = branches
        for name, value in first.values.items():
            if all(name in each.values and each.values[name].kind == value.kind for each in others):
                self.values[name] = value
        for name, function in first.functions.items():
            if all(each.functions.get(name) == function for each in others):
                self.functions[name] = function
