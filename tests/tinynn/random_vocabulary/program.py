"""Represent a cell of a search: parameters, one statement a line, and the arguments of several calls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from tests.tinynn.python_twin.tensor import DTYPES as _REAL_DTYPES
from tests.tinynn.python_twin.tensor import Dtype
from tests.tinynn.random_vocabulary.helpers import HELPERS

#: What each dtype of a cell is in NumPy, and the name that a cell uses for each dtype.
DTYPES = {**_REAL_DTYPES, "c64": Dtype(np.complex64), "c128": Dtype(np.complex128)}
DTYPE_NAMES = {kind.dtype: name for name, kind in DTYPES.items()}
_HELPER = re.compile(r"\b_h_\w+")


def kind_of(dtype: np.dtype) -> str:
    """``b``, ``i``, ``u``, ``f`` or ``c``, as in a form."""
    return "f" if dtype == ml_dtypes.bfloat16 else dtype.kind


#: What a cell has of the type of a parameter, by how much of it is written.
WRITTEN = {
    "all": ": Tensor[{shape}, {dtype}]",
    "dtype": ": Tensor[..., {dtype}]",
    "shape": ": Tensor[{shape}]",
    "tensor": ": Tensor",
    "nothing": "",
}


@dataclass(frozen=True)
class Value:
    """A tensor of the cell.

    ``arrays`` has one item for each call: what NumPy computes, or None where it refused a statement before.
    ``dims`` are the dimensions as an annotation has them; None for a size without a name. ``exact``: small
    multiples of 1/8, or integers, computed without rounding, so that any order of operations gives the same.
    ``written``: how much of the type of a parameter the cell has, see ``WRITTEN``.
    """

    name: str
    arrays: tuple[np.ndarray | None, ...]
    dims: tuple[int | str | None, ...]
    exact: bool
    written: str = "all"

    @property
    def dtype(self) -> np.dtype:
        return next(array.dtype for array in self.arrays if array is not None)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def annotation(self) -> str:
        dims = ", ".join(f'"{dim}"' if isinstance(dim, str) else str(dim) for dim in self.dims)
        shape = f"({dims},)" if self.rank == 1 else f"({dims})"
        return self.name + WRITTEN[self.written].format(shape=shape, dtype=DTYPE_NAMES[self.dtype])


@dataclass(frozen=True)
class Statement:
    """``name = text``, one call of a function.

    ``numpys``: the same as NumPy has it, where it differs. ``raises``: what NumPy raises in each call, by
    class, None where it computes. ``exact`` as in Value. ``terms``: how large the sum of the terms is that it
    adds, in each call.
    """

    name: str
    text: str
    function: str
    operands: tuple[str, ...]
    raises: tuple[str | None, ...]
    exact: bool
    terms: tuple[float, ...]
    numpys: str = ""

    @property
    def twin(self) -> str:
        return self.numpys or self.text

    @property
    def helpers(self) -> list[str]:
        """The functions of the cell that it calls, after those that they need."""
        found: dict[str, None] = {}

        def find(text: str) -> None:
            for name in _HELPER.findall(text):
                if name not in found:
                    find(HELPERS[name].source.replace(name, ""))
                    found[name] = None

        find(self.text)
        return list(found)

    @property
    def always_raises(self) -> bool:
        return all(self.raises)


@dataclass(frozen=True)
class Program:
    """A cell and its calls; ``values`` are what NumPy computes for each name, parameters included.

    It returns all that it assigns or, if ``fused``, only what no other statement needs: the rest may then be
    computed in the same loops.
    """

    params: tuple[Value, ...]
    statements: tuple[Statement, ...]
    values: dict[str, Value]
    calls: int
    fused: bool = False

    @property
    def returned(self) -> tuple[Statement, ...]:
        needed = {operand for statement in self.statements for operand in statement.operands}
        return tuple(each for each in self.statements if not self.fused or each.name not in needed)

    @property
    def is_open(self) -> bool:
        """Whether some types come from the call."""
        return any(param.written != "all" for param in self.params)

    @property
    def helpers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for each in self.statements for name in each.helpers))

    def statements_of(self, line: int) -> tuple[Statement, ...]:
        """The statements that a line of the source belongs to: those that call a function that has it."""
        first = 1
        for name in self.helpers:
            end = first + HELPERS[name].source.count("\n")
            if first <= line < end:
                return tuple(each for each in self.statements if name in each.helpers)
            first = end
        return self.statements[line - first - 1 : line - first] if line > first else ()

    @property
    def source(self) -> str:
        """The cell's text: the functions that it needs, and the one that is judged."""
        results = ", ".join(statement.name for statement in self.returned)
        lines = [f"    {statement.name} = {statement.text}" for statement in self.statements]
        head = f"def f({', '.join(param.annotation for param in self.params)}):"
        helpers = "".join(HELPERS[name].source for name in self.helpers)
        return helpers + "\n".join([head, *lines, f"    return ({results},)", ""])

    def arguments(self, call: int) -> tuple[np.ndarray, ...]:
        arrays = [param.arrays[call] for param in self.params]
        return tuple(array for array in arrays if array is not None)

    def callable_calls(self) -> Iterator[int]:
        """The calls that have all their arguments."""
        for call in range(self.calls):
            if all(param.arrays[call] is not None for param in self.params):
                yield call

    def without(self, names: Sequence[str]) -> Program:
        """The program without these statements and all that depends on them."""
        gone = set(names)
        kept = []
        for statement in self.statements:
            if statement.name in gone or gone.intersection(statement.operands):
                gone.add(statement.name)
            else:
                kept.append(statement)
        return self._of(kept)

    def slice_of(self, name: str) -> Program:
        """The statements that one of them needs, itself included."""
        needed = {name}
        for statement in reversed(self.statements):
            if statement.name in needed:
                needed.update(statement.operands)
        return self._of([statement for statement in self.statements if statement.name in needed])

    def _of(self, statements: Sequence[Statement]) -> Program:
        used = {operand for statement in statements for operand in statement.operands}
        params = tuple(param for param in self.params if param.name in used)
        return replace(self, params=params, statements=tuple(statements))

    def alone(self, name: str) -> Program | None:
        """One statement, whose operands are parameters; None where an operand is a tuple."""
        (statement,) = (each for each in self.statements if each.name == name)
        if not all(operand in self.values for operand in statement.operands):
            return None
        params = tuple(_named(self.values[operand]) for operand in dict.fromkeys(statement.operands))
        return replace(self, params=params, statements=(statement,))


def _named(value: Value) -> Value:
    """The value with a name for each size that has none."""
    dims = tuple(f"{value.name}_{axis}" if dim is None else dim for axis, dim in enumerate(value.dims))
    return replace(value, dims=dims)
