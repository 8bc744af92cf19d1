"""Define the parameters of functions as a caller sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


class _MissingName:
    """The type of MISSING."""

    def __repr__(self) -> str:
        return "<missing>"

    def __reduce__(self) -> str:
        return "MISSING"  # there is one alone, in a pickle too


#: Stands for a name that was looked up in the namespace and was not there.
MISSING: Final = _MissingName()

#: The kinds of parameters, by their names in ``inspect.Parameter``.
PARAMETER_KINDS: Final = ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY")


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """A parameter as a caller sees it.

    kind: one of PARAMETER_KINDS. default: a number, a bool, an array, an AdtValue or a tuple of
    them; MISSING where there is none. destination: ``"Out"`` or ``"InOut"`` if a call changes the argument,
    an array; ``"Generator"`` if it is a generator of random numbers.
    """

    name: str
    kind: str = "POSITIONAL_OR_KEYWORD"
    default: object = MISSING
    destination: str = ""
