"""Describe the run-time check that a call of a compiled function failed.

Machine code reports the operator and the sizes, not the location: cells that mean the same share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from numpy.linalg import LinAlgError

_E = TypeVar("_E", bound=BaseException)


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A failed check.

    operator: Relay's name of the operator that made it. axis_size: of the axis that an index is out of range
    for; None for another check. number: of the ``raise``, or the assertion, whose message has values.
    """

    operator: str
    axis_size: int | None = None
    number: int | None = None


def refused_value(message: str, operator: str) -> ValueError | KeyError:
    """Return the error of an operator that refuses its operands, with the failed check attached.

    It is a ValueError; of linear algebra NumPy's LinAlgError, which is one, too; of a table a KeyError.
    """
    kind: type[ValueError | KeyError] = LinAlgError if operator.startswith("linalg.") else ValueError
    if operator.startswith("table."):
        kind = KeyError
    return attach_check(kind(message), FailedCheck(operator))


def attach_check(error: _E, check: FailedCheck) -> _E:
    """Attach a failed check to the error that reports it, and return the error."""
    error.__dict__["failed_check"] = check
    return error


def detach_check(error: BaseException) -> FailedCheck | None:
    """Take the failed check off the error that reports it, and return it; None if it reports none."""
    check: FailedCheck | None = error.__dict__.pop("failed_check", None)
    return check
