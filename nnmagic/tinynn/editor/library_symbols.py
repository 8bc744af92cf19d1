"""Describe names that cells have from Python and NumPy, by the libraries' own documentation."""

from __future__ import annotations

import ast
import builtins
import collections
import inspect
import re
from collections.abc import Mapping
from functools import cache

import numpy as np

#: Names that the syntax of cells has: of Python, and functions of NumPy.
PYTHON_NAMES: Mapping[str, object] = {
    **{name: getattr(builtins, name) for name in ("print", "set", "frozenset", "dict", "isinstance")},
    **{name: getattr(collections, name) for name in ("Counter", "defaultdict")},
}
NUMPY_NAMES: Mapping[str, object] = {
    name: getattr(np, name)
    for name in (
        *("copyto", "putmask", "fill_diagonal", "put", "place", "put_along_axis"),
        *("ndindex", "ndenumerate", "issubdtype"),
    )
}
#: Methods by which statements change arrays, lists, dictionaries and sets.
CHANGING_METHODS: Mapping[str, object] = {
    name: getattr(owner, name)
    for owner, names in (
        (np.ndarray, "fill partition put sort"),
        (list, "append clear extend pop reverse"),
        (dict, "setdefault update"),
        (set, "add discard remove"),
    )
    for name in names.split()
}


def first_sentence(value: object) -> str:
    """Return the first sentence of an object's documentation, without the signature above it."""
    text = inspect.getdoc(value) or ""
    if gives := re.match(r"\w+\(.*\) -+> (.*)", text):
        return f"Return a {gives[1]}."
    paragraphs = (part for part in text.split("\n\n") if not re.match(r"[\w.]+\(", part))
    return " ".join(next(paragraphs, "").split()).split(". ")[0].rstrip(".") + "."


def parameters_of(value: object) -> tuple[str, ...]:
    """Return the parameters of a function as Python writes them."""
    try:
        parameters = inspect.signature(value).parameters.values()  # type: ignore[arg-type]  # or TypeError
    except (TypeError, ValueError):  # some have none
        return ()
    return tuple(str(parameter) for parameter in parameters if parameter.name != "self")


@cache
def numpy_signature(name: str) -> str:
    """Return a function of NumPy with its parameters, ``numpy.sum(a, axis=None, ...)``."""
    value = _numpy_object(name)
    try:
        return f"{name}{inspect.signature(value)}".replace("<no value>", "...")  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = re.match(r"\w+(\(.*?\))", (getattr(value, "__doc__", "") or "").strip())
        return f"{name}{found[1]}" if found else name


@cache
def numpy_example(name: str) -> str:
    """Return the first line of an example in NumPy's documentation that calls a function; "" for none."""
    last = name.rpartition(".")[2]
    lines = re.findall(r">>> (.*)", getattr(_numpy_object(name), "__doc__", "") or "")
    return next((line for line in lines if f"{last}(" in line and _is_whole(line)), "")


def _is_whole(line: str) -> bool:
    try:
        ast.parse(line)
    except SyntaxError:
        return False
    return not line.startswith(("import", "from", "print"))


def _numpy_object(name: str) -> object:
    value: object = np
    for part in name.removeprefix("numpy.").split("."):
        value = getattr(value, part, None)
    return value
