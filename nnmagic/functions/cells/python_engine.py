"""Run the source of a cell as Python on NumPy, for pdb and for a second opinion: the engine ``python``.

Python itself runs the statements. A name that the notebook has not is NumPy's, where NumPy has it; the engine
``numpy`` computes the others, such as ``softmax``, one call at a time.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dataclasses
import itertools
import linecache
from collections.abc import Callable, Mapping
from functools import cache, partial
from types import FunctionType
from typing import Any

import ml_dtypes
import numpy as np

from nnmagic.diagnostics import Source
from nnmagic.engine import engine_error
from nnmagic.engine.relax.runtime.debug_files import debug_folder, file_of
from nnmagic.functions.derivatives.rules import custom_jvp, custom_vjp
from nnmagic.tinynn.builtins import BUILTINS, CONSTANTS
from nnmagic.tinynn.operators.iteration import ITERATION
from nnmagic.tinynn.types.annotations import DTYPES

_NUMBERS = itertools.count(1)
#: Functions of the language whose arguments are functions of the cell.
_OF_FUNCTIONS = ("grad", "value_and_grad", "vjp", "jvp", "jacobian", "hessian", "vmap")


def run_cell(source: Source, namespace: Mapping[str, object], *, any_name: bool = False) -> dict[str, Any]:
    """Run the definitions of a cell in a notebook's names, and return what it binds.

    With ``any_name``, names that begin with ``_`` are bound, too.

    Raises SyntaxError for what is no Python, and whatever a definition raises.
    """
    filename, folder = source.filename, debug_folder()
    if folder is not None:
        filename = str(file_of(source, folder))
    elif filename.startswith("<"):
        filename = f"<nnmagic cell {next(_NUMBERS)}>"
        lines = ["\n"] * (source.first_line - 1) + source.text.splitlines(keepends=True)
        linecache.cache[filename] = (len(source.text), None, lines, filename)
    tree = ast.parse("\n" * (source.first_line - 1) + source.text, filename)
    tree.body = [_with_values(statement) for statement in tree.body]
    code = compile(tree, filename, "exec", __future__.annotations.compiler_flag, dont_inherit=True)
    names = {**_language(), **namespace, "__name__": "__main__"}
    exec(code, names)  # noqa: S102 - the user's own code, as in a cell of Python
    defined = [
        statement.name for statement in tree.body if isinstance(statement, ast.FunctionDef | ast.ClassDef)
    ]
    return {name: names[name] for name in defined if any_name or not name.startswith("_")}


def run_function(source: Source, namespace: Mapping[str, object], *, any_name: bool = False) -> FunctionType:
    """Return the last function of a cell. Raises EngineError for a cell without one."""
    bound = run_cell(source, namespace, any_name=any_name)
    functions = [function for function in bound.values() if isinstance(function, FunctionType)]
    if not functions:
        raise engine_error("the cell has no function", hint="write one with `def`")
    return functions[-1]


def _with_values(statement: ast.stmt) -> ast.stmt:
    """Return a class that declares fields or constructors as one of Python that holds them."""
    if not isinstance(statement, ast.ClassDef):
        return statement
    if statement.bases or statement.decorator_list:
        return statement
    made = ast.copy_location(ast.Name("__cell_class__", ast.Load()), statement)
    statement.decorator_list = [made]
    return statement


class _Value:
    """A value of a data type: its class is the constructor."""


def _cell_class(declared: type) -> type:
    """Return a record as a dataclass, and a data type with its constructors as classes."""
    constructors = {name: each for name, each in vars(declared).items() if isinstance(each, FunctionType)}
    if not constructors:
        return dataclasses.dataclass(declared)
    base = type(declared.__name__, (_Value,), {})
    for name, constructor in constructors.items():
        fields = constructor.__code__.co_varnames[: constructor.__code__.co_argcount]
        class_ = dataclasses.make_dataclass(name, fields, bases=(base,))
        setattr(base, name, class_)
        constructor.__globals__[name] = class_  # a cell calls and matches it by its name
    return base


@cache
def _language() -> Mapping[str, object]:
    """Return the names of cells that Python has not."""
    names: dict[str, object] = {"__cell_class__": _cell_class, "np": np, "callback": _callback}
    names |= {name: None if value is None else value for name, value in CONSTANTS.items()}
    names |= {short: _dtype(dtype.name) for short, dtype in DTYPES.items()}
    for name, row in BUILTINS.items():
        if row.is_refused or hasattr(builtins, name) or "." in name or name in names:
            continue
        names[name] = _numpy_function(name, row.numpy) or partial(_by_engine, name)
    names |= {name: partial(_transformed, name) for name in _OF_FUNCTIONS}
    names |= {"custom_vjp": _WithVjp, "custom_jvp": _WithJvp}
    names |= {name: range for name in ITERATION if name in ("parallel", "prange", "vectorized", "unrolled")}
    names |= {"grid": _grid, "ndindex": np.ndindex}
    return names | {space: _Space(space) for space in ("nn", "random", "relay", "image", "linalg")}


def _dtype(name: str) -> object:
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name).type


def _numpy_function(name: str, twin: str | None) -> object:
    """Return what NumPy has under the name of a function of cells; None if it has none."""
    value: object = np
    for part in (twin or name).removeprefix("numpy.").split("."):
        value = getattr(value, part, None)
    return value or getattr(np.linalg, name, None) or getattr(np.fft, name, None)


def _callback(function: Callable[..., Any], *args: object, **_options: object) -> object:
    return function(*args)


def _grid(*sizes: int) -> object:
    return itertools.product(*map(range, sizes)) if len(sizes) > 1 else range(*sizes)


class _WithVjp(custom_vjp):
    """A function with a gradient rule, which Python runs."""

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self.fun(*args, **kwargs)


class _WithJvp(custom_jvp):
    """A function with a rule for tangents, which Python runs."""

    __call__ = _WithVjp.__call__


def _transformed(name: str, function: Any, *args: object, **options: object) -> object:
    """Return what ``grad`` and its kin make of a function of the cell, by the engine ``numpy``."""
    import nnmagic

    has_rule = isinstance(function, custom_vjp | custom_jvp)
    compiled = function.compiled("numpy") if has_rule else nnmagic.function(engine="numpy")(function)
    return getattr(nnmagic, name)(compiled, *args, **options)


def _by_engine(name: str, *args: object, **keywords: object) -> object:
    """Compute a call of a function that NumPy has not by the engine ``numpy``."""
    return _caller(name, len(args), tuple(keywords))(*args, **keywords)


@cache
def _caller(name: str, count: int, keywords: tuple[str, ...]) -> Callable[..., Any]:
    import nnmagic

    positional = [f"argument{number}" for number in range(count)]
    passed = ", ".join([*positional, *(f"{keyword}={keyword}" for keyword in keywords)])
    text = f"def call({', '.join([*positional, *keywords])}):\n    return {name}({passed})"
    return nnmagic.compile(text, engine="numpy")


class _Space:
    """The operators and functions of a family, such as ``nn.conv2d``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        return partial(_by_engine, f"{self._name}.{name}")
