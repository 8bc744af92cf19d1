"""Provide the names of cells as names of Python: ``from nnmagic.numpy import softmax, where``.

A file that imports what its functions use has no undefined names. Inside a compiled function an imported
name means what the bare name means in a cell. Python cannot call them: a call outside of a compiled function
raises TypeError, which says so.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import NoReturn

from numpy import linalg
from numpy import ndarray as Array  # noqa: N812  # a class, which annotations call an array

__all__ = ["Array", "linalg"]


def _names() -> dict[str, str]:
    """Return the names of the functions of cells, with what each does."""
    from nnmagic.relay.ops import OPERATORS
    from nnmagic.tinynn.builtins import BUILTINS
    from nnmagic.tinynn.operators.iteration import ITERATION

    named = {operator.name: operator.summary for operator in OPERATORS.values()}
    named |= {name: row.summary for name, row in {**ITERATION, **BUILTINS}.items() if not row.is_refused}
    return {name: summary for name, summary in named.items() if "." not in name}


def _function(name: str, summary: str) -> Callable[..., NoReturn]:
    """Return the function of Python that stands for one of cells."""

    def function(*_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError(
            f"{name}() of nnmagic.numpy is for compiled functions: call it in a function under "
            "@nnmagic.function"
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary
    return function


def __getattr__(name: str) -> object:
    import sys

    from nnmagic.tinynn.builtins import CONSTANTS
    from nnmagic.tinynn.types import annotations

    value: object
    if name in CONSTANTS:
        value = CONSTANTS[name]
    elif name in annotations.DTYPES or name in ("Tensor", *annotations.DESTINATIONS):
        value = getattr(annotations, name)
    elif name in ("nn", "random"):  # the functions behind them are found by their written names
        value = ModuleType(f"nnmagic.numpy.{name}")
    elif (summary := _names().get(name)) is not None:
        value = _function(name, summary)
    else:
        raise AttributeError(
            f"module 'nnmagic.numpy' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
        )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from nnmagic.tinynn.builtins import CONSTANTS
    from nnmagic.tinynn.types.annotations import DESTINATIONS, DTYPES

    types = ("Array", "Tensor", *DESTINATIONS, *DTYPES)
    return sorted({*types, "linalg", "nn", "random", *CONSTANTS, *_names()})
