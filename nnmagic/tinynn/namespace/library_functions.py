"""Find the language's function that a function of the notebook is, as after `from numpy import exp`."""

from __future__ import annotations

import sys

import numpy as np

from nnmagic.tinynn.builtins import MODULES
from nnmagic.tinynn.calls.argument_binding import Builtin
from nnmagic.tinynn.namespace.unsupported_functions import FUNCTIONS


def library_function(value: object) -> tuple[str, Builtin] | None:
    """Return the dotted name of a library's function, and the language's; None for any other value.

    Identity decides: a function of the notebook that is called `exp` is not NumPy's.
    """
    if isinstance(value, type):
        if not value.__module__.startswith("numba."):  # which has `prange`
            return None
    elif not isinstance(value, (*FUNCTIONS, np.ufunc)):
        return None
    name = value.__name__
    for module, functions in MODULES.items():
        if name in functions and module in sys.modules and vars(sys.modules[module]).get(name) is value:
            return f"{module}.{name}", functions[name]
    return None
