"""Find the language's function that a function of the notebook is, as after `from numpy import exp`."""

from __future__ import annotations

import builtins
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType

import numpy as np

from nnmagic.tinynn.builtins import MODULES
from nnmagic.tinynn.builtins.gradients import GRADIENTS
from nnmagic.tinynn.calls.argument_binding import Builtin
from nnmagic.tinynn.namespace.unsupported_functions import FUNCTIONS

#: What a loop goes over, which other names may stand for: `prange = range` where numba is missing.
_ITERATORS: tuple[type, ...] = (range, zip, enumerate, reversed)


def own_name(value: object) -> tuple[str, str] | None:
    """Return the module and the bare name of what a cell has under its own name.

    That is a function of Python's or of ``nnmagic.numpy``, or a transformation such as ``nnmagic.grad``; for
    others, None.
    """
    if isinstance(value, BuiltinFunctionType) or (isinstance(value, type) and value in _ITERATORS):
        name = value.__name__
        return ("builtins", name) if vars(builtins).get(name) is value else None
    if isinstance(value, ModuleType) and value.__name__.startswith("nnmagic.numpy."):
        return "nnmagic.numpy", value.__name__.rpartition(".")[2]
    if not isinstance(value, FunctionType):
        return None
    for module, names in (("nnmagic.numpy", None), ("nnmagic", TRANSFORMATIONS)):
        name = value.__name__
        known = sys.modules.get(module)
        if known is not None and vars(known).get(name) is value and (names is None or name in names):
            return module, name
    return None


#: The transformations of functions.
TRANSFORMATIONS = frozenset(row.name for row in GRADIENTS)


def library_function(value: object) -> tuple[str, Builtin] | None:
    """Return the dotted name of a library's function, and the language's; None for any other value.

    Identity decides: a function of the notebook that is called `exp` is not NumPy's.
    """
    if isinstance(value, type):
        # These have `prange`, `Counter` and `partial`.
        if not value.__module__.startswith(("numba.", "collections", "functools", "itertools")):
            return None
    elif not isinstance(value, (*FUNCTIONS, np.ufunc)):
        return None
    name = value.__name__
    for module, functions in MODULES.items():
        if name in functions and module in sys.modules and vars(sys.modules[module]).get(name) is value:
            return f"{module}.{name}", functions[name]
    return None
