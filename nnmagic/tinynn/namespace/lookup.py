"""Look a free name up in a namespace."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from nnmagic.relay.callbacks import PythonFunction, name_of
from nnmagic.tinynn.parameters import MISSING

#: Ends the name of a function that a callback calls.
CALLED = "(...)"

#: Modules that a cell knows by these names where the notebook has not imported them.
KNOWN_MODULES: Mapping[str, object] = {"np": np, "numpy": np, "math": math}


def look_up(namespace: Mapping[str, object], name: str) -> object:
    """Return the object that a free name of a cell stands for in a namespace, or MISSING.

    The rest of a dotted name is looked up in the dictionaries of modules, and in objects that only hold
    values (``capture.member_of``): no code of the notebook runs. A name with brackets, ``Cons()``, is that of
    a constructor: it gives all data types that have it. One that ends with ``CALLED`` is that of a function
    that Python will call: a method is bound to its object. ``np``, ``numpy`` and ``math`` need no import.
    """
    import sys
    from types import ModuleType

    if name.endswith("()"):
        from nnmagic.tinynn.namespace.compiled_values import types_with

        return tuple(types_with(namespace, name[:-2]).values())
    called = name.endswith(CALLED)
    first, *rest = name.removesuffix(CALLED).split(".")
    value = namespace.get(first, KNOWN_MODULES.get(first, MISSING))
    for member in rest:
        if not isinstance(value, ModuleType):
            from nnmagic.tinynn.namespace.capture import called_member, member_of

            value = (called_member if called else member_of)(value, member)
            continue
        loaded = sys.modules.get(
            f"{value.__name__}.{member}", MISSING
        )  # a submodule that no attribute refers to yet
        value = vars(value).get(member, loaded)
    return PythonFunction(value, name_of(value)) if called and callable(value) else value
