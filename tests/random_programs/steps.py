"""Represent programs of one call a line, each of which NumPy computes as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tests.random_programs.environment import Value
from tests.random_programs.program import Program, Rules


@dataclass(frozen=True)
class Language:
    """How programs of steps are written and evaluated.

    Args:
        param: the name of a parameter by its number.
        result: the name of a result by its number.
        dtypes: NumPy's dtype of each name of a dtype.
        run: evaluates an expression, for values by name.
        source: the text of steps.
        list: a list of numbers.
        item: a part of a tuple.

    """

    param: Callable[[int], str]
    result: Callable[[int], str]
    dtypes: Mapping[str, np.dtype]
    run: Callable[[str, Mapping[str, object]], object]
    source: Callable[[Steps], str]
    list: Callable[[Iterable[object]], str]
    item: Callable[[str, int], str]

    def dtype_name(self, dtype: np.dtype) -> str:
        return next(name for name, each in self.dtypes.items() if each == dtype)


@dataclass(frozen=True)
class Statement:
    """``name = text``, one call of a function.

    Args:
        name: what it assigns.
        text: the expression.
        function: which it calls.
        operands: the names that it reads.
        raises: what NumPy raises in each call, by class; None where it computes.
        exact: as in ``Value``.
        terms: how large the sum of the terms is that it adds, in each call.
        twin: the same as NumPy has it.
        helpers: the functions of the cell that it calls, after those that they need.

    """

    name: str
    text: str
    function: str
    operands: tuple[str, ...]
    raises: tuple[str | None, ...]
    exact: bool
    terms: tuple[float, ...]
    twin: str
    helpers: tuple[str, ...] = ()

    @property
    def always_raises(self) -> bool:
        return all(self.raises)


@dataclass(frozen=True)
class Steps:
    """Parameters, one statement a line, and what NumPy computes for each name in each call.

    The program returns all that it assigns or, if ``fused``, only what no other statement needs: the rest may
    then be computed in the same loops.
    """

    language: Language
    params: tuple[Value, ...]
    statements: tuple[Statement, ...]
    values: Mapping[str, Value]
    fused: bool = False
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def returned(self) -> tuple[Statement, ...]:
        needed = {operand for statement in self.statements for operand in statement.operands}
        return tuple(each for each in self.statements if not self.fused or each.name not in needed)

    @property
    def arguments(self) -> tuple[Value, ...]:
        """The parameters that a call has arguments for."""
        return tuple(param for param in self.params if not param.constant)

    @property
    def is_open(self) -> bool:
        """Whether some types come from the call."""
        return any(param.written != "all" for param in self.params)

    @property
    def helpers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for each in self.statements for name in each.helpers))

    @property
    def source(self) -> str:
        return self.language.source(self)

    def given(self, call: int) -> tuple[np.ndarray, ...]:
        """The arguments of a call."""
        arrays = [param.arrays[call] for param in self.arguments]
        return tuple(array for array in arrays if array is not None)

    def calls(self) -> Iterator[int]:
        """The calls that have all their arguments."""
        for call in range(len(self.params[0].arrays) if self.params else 1):
            if all(param.arrays[call] is not None for param in self.params):
                yield call

    def without(self, names: Sequence[str]) -> Steps:
        """Return the steps without these statements and all that depends on them."""
        gone = set(names)
        kept = []
        for statement in self.statements:
            if statement.name in gone or gone.intersection(statement.operands):
                gone.add(statement.name)
            else:
                kept.append(statement)
        return self._of(kept)

    def slice_of(self, name: str) -> Steps:
        """Return the statements that one of them needs, itself included."""
        needed = {name}
        for statement in reversed(self.statements):
            if statement.name in needed:
                needed.update(statement.operands)
        return self._of([statement for statement in self.statements if statement.name in needed])

    def _of(self, statements: Sequence[Statement]) -> Steps:
        used = {operand for statement in statements for operand in statement.operands}
        params = tuple(param for param in self.params if param.name in used)
        return replace(self, params=params, statements=tuple(statements))

    def cut(self, name: str) -> Steps | None:
        """Return the steps with a parameter instead of a statement; None where its value is a tuple."""
        if name not in self.values or not any(name in each.operands for each in self.statements):
            return None
        made = _named(replace(self.values[name], constant=False))
        statements = [each for each in self.statements if each.name != name]
        return replace(self, params=(*self.params, made))._of(statements)

    def alone(self, name: str) -> Steps | None:
        """Return one statement, whose operands are parameters; None where an operand is a tuple."""
        (statement,) = (each for each in self.statements if each.name == name)
        if not all(operand in self.values for operand in statement.operands):
            return None
        params = tuple(_named(self.values[operand]) for operand in dict.fromkeys(statement.operands))
        return replace(self, params=params, statements=(statement,))

    def program(self, family: str, seed: int, rules: Rules) -> Program:
        """Return the program that these steps are."""
        return Program(family, seed, self.source, tuple(map(self.given, self.calls())), rules, self)


def _named(value: Value) -> Value:
    """Return the value with a name for each size that has none."""
    dims = tuple(
        f"{value.name.strip('%')}_{axis}" if isinstance(dim, tuple) else dim
        for axis, dim in enumerate(value.dims)
    )
    return replace(value, dims=dims)
