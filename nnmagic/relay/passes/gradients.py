"""Differentiate a function of a module."""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.module import Module


def gradient(module: Module, name: str = "main", argnums: int | Sequence[int] = 0) -> Module:
    """Make a function give its value and its gradient: ``(value, gradient)``, by reverse mode.

    The result of the function is a float of rank 0, or a tuple that begins with one, whose other parts are
    not differentiated. ``argnums``: the parameter to differentiate by, or several, which give a tuple;
    negative numbers count from the end. A gradient has the type of its parameter. The module comes out typed,
    with the functions that the gradient calls.
    Raises RelayError with the place of each call that has no gradient, KeyError for an unknown function.
    """
    from nnmagic.relay.gradients.program import value_and_gradient

    return value_and_gradient(module, name, argnums)
