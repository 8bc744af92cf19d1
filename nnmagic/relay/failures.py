"""Describe the exceptions that a program raises: for an assertion that does not hold, or by ``raise``."""

from __future__ import annotations

import builtins
from dataclasses import dataclass

from nnmagic.diagnostics import Span, append_location

#: The operator that raises an exception whose message has values of the call.
RAISE = "python.raise"

#: An exception that is no built-in one.
_LINALG_ERROR = "LinAlgError"


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception: its message, and the name of its class."""

    message: str = "the assertion does not hold"
    kind: str = "AssertionError"

    def error(self, span: Span | None = None) -> Exception:
        """Return the exception, with the location in its message."""
        return exception_class(self.kind)(append_location(self.message, span))

    def at(self, span: Span | None) -> Failure:
        """Return the same with the location in its message."""
        return Failure(append_location(self.message, span), self.kind)


def exception_class(name: str) -> type[Exception]:
    """Return the class of that name: a built-in one, or NumPy's LinAlgError."""
    if name == _LINALG_ERROR:
        from numpy.linalg import LinAlgError

        return LinAlgError
    kind: type[Exception] = getattr(builtins, name)
    return kind


def is_raisable(name: str) -> bool:
    """Return whether a program may raise the class of that name, with a message alone."""
    if name == _LINALG_ERROR:
        return True
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)) or issubclass(kind, _OF_GENERATORS):
        return False
    try:
        kind("message")
    except TypeError:  # it has other arguments
        return False
    return True


#: What ends Python's own loops.
_OF_GENERATORS = (StopIteration, StopAsyncIteration)
