"""Write nnmagic/numpy.pyi, which tells type checkers and editors of the names of cells.

python tools/numpy_stub.py
"""

from __future__ import annotations

from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path

from nnmagic.relay.ops import OPERATORS
from nnmagic.tinynn.builtins import BUILTINS, CONSTANTS, METHODS
from nnmagic.tinynn.editor.symbols import Symbol, function_symbol, operator_symbol
from nnmagic.tinynn.operators.iteration import ITERATION
from nnmagic.tinynn.types.annotations import DTYPES

STUB = Path(__file__).parent.parent / "nnmagic" / "numpy.pyi"

HEAD = '''\
# The names of cells for type checkers and editors, written by tools/numpy_stub.py from the language's tables.
# mypy: disable-error-code="misc, override, valid-type, assignment"
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

import numpy as _np
from numpy import linalg as linalg

from nnmagic.functions.typed import TypedFunction

_P = ParamSpec("_P")
_R = TypeVar("_R")

class _Array(_np.ndarray[Any, _np.dtype[Any]], int):
    """An array, or a number where its rank is 0."""

'''
SCALAR = '''\
    def __iter__(self) -> Any: ...
    def __getitem__(self, index: Any, /) -> Array: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...
    @property
    def T(self) -> Array: ...

#: What compiled functions take and give: to a type checker whatever can be an array or a number.
Array: TypeAlias = _Array | Any

class _Scalar(Protocol):
    """A number: Python's, NumPy's, or an array of rank 0."""

'''
TYPES = '''\
    def __float__(self) -> float: ...
    def __int__(self) -> int: ...

class _Subscripted(ABCMeta):
    def __getitem__(cls, item: Any, /) -> Any: ...

class Out(metaclass=_Subscripted):
    """Annotation of an array that a call fills."""

class InOut(metaclass=_Subscripted):
    """Annotation of an array that a call reads and changes."""

class Tensor(Protocol, metaclass=_Subscripted):
    """Annotation of a tensor; alone, that of any array."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, index: Any, /) -> Array: ...
'''
TRANSFORMATIONS = '''\
def grad(
    f: Callable[_P, Any], argnums: Any = ..., *, has_aux: bool = ...
) -> TypedFunction[_P, Any]:
    """Return the gradient of a function."""
def value_and_grad(
    f: Callable[_P, Any], argnums: Any = ..., *, has_aux: bool = ...
) -> TypedFunction[_P, Any]:
    """Return a function that gives the value and the gradient."""
def vjp(f: Callable[..., Any], argnums: Any = ...) -> TypedFunction[..., Any]:
    """Return a function that gives the result and the gradients for a cotangent of the result."""
def jvp(f: Callable[..., Any], argnums: Any = ...) -> TypedFunction[..., Any]:
    """Return a function that gives the result and the directional derivative."""
def jacobian(f: Callable[_P, Any], argnums: Any = ...) -> TypedFunction[_P, Any]:
    """Return the Jacobian of a function."""
def hessian(f: Callable[_P, Any], argnums: Any = ...) -> TypedFunction[_P, Any]:
    """Return the second derivatives of a function."""
def vmap(f: Callable[..., _R], in_axes: Any = ..., out_axes: Any = ...) -> TypedFunction[..., _R]:
    """Return a function that computes another for each element of an axis of its arguments."""
'''

#: Operators: those of all numbers, and those of arrays.
OF_NUMBERS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
BINARY = (*OF_NUMBERS, "matmul", "and", "or", "xor", "lshift", "rshift")
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
UNARY = ("neg", "pos", "abs", "invert")
#: Functions that Python's own types and statements stand for.
OF_PYTHON = frozenset(("bool", "int", "float", "complex", "len"))
GRADIENTS = frozenset(("grad", "value_and_grad", "vjp", "jvp", "jacobian", "hessian", "vmap"))


def stub() -> str:
    """Return the text of the stub."""
    lines = [HEAD, *operators("Array", BINARY, UNARY, reflected=True), SCALAR]
    lines[1:1] = methods()
    lines += [*operators("_Scalar", OF_NUMBERS, ("neg", "pos", "abs"), reflected=True), TYPES]
    lines += operators("Array", (*OF_NUMBERS, "matmul"), ("neg",), reflected=False)
    lines += [f"class {name}(_Scalar, Protocol): ...\n" for name in DTYPES]
    lines += [f"{name} = {DTYPES_BY_NAME[name]}\n" for name in CONSTANTS if name in DTYPES_BY_NAME]
    lines += ["pi: float\n", "inf: float\n", "nan: float\n", "newaxis: None\n", "nn: Any\n", "random: Any\n"]
    lines.append(TRANSFORMATIONS)
    for name, symbol in sorted(functions().items()):
        result = "Any" if name in ITERATION else "Array"
        lines.append(definition(symbol, name, result, aliases_of(name)))
    return "".join(lines)


DTYPES_BY_NAME = {dtype.name: short for short, dtype in DTYPES.items() if dtype.name != "bool"}


def functions() -> dict[str, Symbol]:
    """Return the functions of cells by name, without those of Python and the transformations."""
    named = {operator.name: operator_symbol(operator) for operator in OPERATORS.values()}
    rows = {**ITERATION, **BUILTINS}
    named |= {name: function_symbol(row) for name, row in rows.items() if not row.is_refused}
    left_out = OF_PYTHON | GRADIENTS
    return {
        name: symbol
        for name, symbol in named.items()
        if name.isidentifier() and not iskeyword(name) and name not in left_out
    }


def methods() -> list[str]:
    """Return the methods of arrays."""
    return [
        definition(function_symbol(row, method=True), name, "Array", aliases_of(name), "    ")
        for name, row in sorted(METHODS.items())
        if not row.is_refused and not iskeyword(name)
    ]


def aliases_of(name: str) -> tuple[str, ...]:
    """Return the other names of the keywords that a function may be left without."""
    row = BUILTINS.get(name)
    if row is None:
        return ()
    optional = {word.partition("?")[0] for word in row.signature.split() if "?" in word}
    pairs = (pair.partition("=") for pair in row.aliases.split())
    return tuple(alias for alias, _, meant in pairs if meant in optional and not iskeyword(alias))


def operators(
    result: str, binary: tuple[str, ...], unary: tuple[str, ...], *, reflected: bool
) -> Iterator[str]:
    """Yield the methods of operators."""
    names = [*binary, *(f"r{name}" for name in binary if reflected)]
    yield from (f"    def __{name}__(self, other: Any, /) -> {result}: ...\n" for name in names)
    compared = "Any" if result == "_Scalar" else result
    yield from (f"    def __{name}__(self, other: Any, /) -> {compared}: ...\n" for name in COMPARISONS)
    yield from (f"    def __{name}__(self) -> {result}: ...\n" for name in unary)


def definition(symbol: Symbol, name: str, result: str, aliases: tuple[str, ...], indent: str = "") -> str:
    """Return a function of the stub."""
    parts, optional = ["self"] if indent else [], False
    for part in symbol.parameters or ():
        word, _, default = part.rstrip(",").partition("=")
        optional = (optional or bool(default)) and not word.startswith("*")
        parts.append(word if word == "*" else f"{word}: Any = ..." if optional else f"{word}: Any")
    taken = {part.partition(":")[0].strip("*") for part in parts}
    more = [f"{alias}: Any = ..." for alias in dict.fromkeys(aliases) if alias not in taken]
    if more and not any(part.startswith("*") for part in parts):
        parts.append("*")
    text = f"{indent}def {name}({', '.join([*parts, *more])}) -> {result}:\n"
    summary = symbol.summary.replace("\\", "\\\\")
    return f'{text}{indent}    """{summary}"""\n'


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
