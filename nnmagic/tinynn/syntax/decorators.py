"""List the decorators that a cell leaves out, and what to write for others and for methods."""

from __future__ import annotations

import ast as py

#: The decorators of other compilers of functions, which nnmagic compiles in their place.
COMPILERS = frozenset(("njit", "jit", "function", "compile", "script", "guvectorize"))

#: What to do with a class whose objects have another use.
METHODS = (
    "objects with methods can be used in the function that makes them, under one name; otherwise write "
    "functions of what the object holds"
)

#: Decorators that keep the results of a function.
KEEPING = frozenset(("lru_cache", "cache"))

#: Decorators of numba that make something else than a function, and what to write.
OTHER_DECORATORS = {
    "stencil": "remove it, and write a loop, or slices such as x[1:-1]",
    **dict.fromkeys(
        sorted(KEEPING),
        "nothing is kept from one call to the next: fill a table in a loop, from the small cases up",
    ),
}


def keeps_results(function: py.FunctionDef) -> bool:
    """Return whether a decorator keeps the results of a function."""
    functions = (each.func if isinstance(each, py.Call) else each for each in function.decorator_list)
    return any(py.unparse(each).rpartition(".")[2] in KEEPING for each in functions)


def calls_itself_twice(function: py.FunctionDef) -> bool:
    """Return whether a function may compute the same again and again, in calls of itself."""
    repeated = py.For | py.While | py.ListComp | py.GeneratorExp | py.SetComp | py.DictComp
    parts = [function, *(node for node in py.walk(function) if isinstance(node, repeated))]
    mentions = (node for part in parts for node in py.walk(part) if isinstance(node, py.Name))
    return sum(node.id == function.name for node in mentions) > 1
