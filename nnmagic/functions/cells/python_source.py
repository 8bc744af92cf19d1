"""Get the source of a Python function, and the scopes of its free names, without running it."""

from __future__ import annotations

import ast
import inspect
import linecache
import warnings
from collections import ChainMap
from collections.abc import Mapping
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType

from nnmagic.diagnostics import Source


def python_source(function: FunctionType) -> Source:
    """Return the text of a function from its ``def`` on, without decorators, at its true lines and columns.

    Raises TypeError for a lambda, ValueError if there is no source.
    """
    name = function.__name__
    if name == "<lambda>":
        raise TypeError("a lambda cannot be compiled: write a function with `def`")
    filename = function.__code__.co_filename
    try:
        lines, first_line = inspect.getsourcelines(function)
    except (OSError, TypeError) as error:
        raise ValueError(
            f"the source of {name}() cannot be read (it was defined in {filename}): write it in a file or in "
            "a notebook, or give its text to nnmagic.compile"
        ) from error
    # Only the indentation of the first line is taken off: a string or a comment may reach further left.
    indent = len(lines[0]) - len(lines[0].lstrip(" \t"))
    lines = [
        line[indent:] or line[-1:] if not line[:indent].strip() else line.lstrip(" \t") for line in lines
    ]
    definition = _definition("".join(lines), name)
    if definition is None:
        raise ValueError(
            f"the source of {name}() is not at {filename}:{first_line}: was the file changed since?"
        )
    skipped = definition.lineno - 1
    text = "".join(lines[skipped : definition.end_lineno])
    return Source(filename, text, first_line + skipped, indent)


def _definition(text: str, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Return the function that a piece of source begins with, if that is the one wanted."""
    try:
        first = ast.parse(text).body[0]
    except (SyntaxError, IndexError, ValueError):
        return None
    matches = isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef) and first.name == name
    return first if matches else None  # type: ignore[return-value]  # narrowed on the line above


def python_namespace(function: FunctionType, caller: Mapping[str, object]) -> ChainMap[str, object]:
    """Return the scopes of a function's free names: its closure, ``caller``'s locals, its globals.

    The locals of the decorating scope are needed for annotations, which no closure holds.
    """
    closure: dict[str, object] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet, such as the function itself
            closure[name] = cell.cell_contents
    return ChainMap(closure, dict(caller), function.__globals__)


def source_holder(name: str, text: str, doc: str | None, key: str) -> FunctionType | ModuleType:
    """Return what Python's tools read the source of a compiled function from; nothing of it is run.

    It is a function of Python, or a module where the text is none: Python then shows all of it.
    """
    filename = f"<nnmagic {name} {key[:12]}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    code = _code(name, text, filename)
    if code is not None:
        return FunctionType(code, {"__name__": "nnmagic"}, name)
    holder = ModuleType(name, doc)
    holder.__file__ = filename
    return holder


def _code(name: str, text: str, filename: str) -> CodeType | None:
    """Return the code of a function that a text defines; None if Python does not understand it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            defined = compile(text, filename, "exec", dont_inherit=True).co_consts
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    codes = (name_ for name_ in defined if isinstance(name_, CodeType) and name_.co_name == name)
    return next(codes, None)
