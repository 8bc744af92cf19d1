"""Read attributes of a call as the types that their declaration gives them."""

from __future__ import annotations


def integer(value: object) -> int:
    """Return an attribute that is declared as an int."""
    assert isinstance(value, int)
    return int(value)


def number(value: object) -> float:
    """Return an attribute that is declared as a number."""
    assert isinstance(value, int | float)
    return float(value)


def integers(value: object) -> list[int]:
    """Return an attribute that is declared as ints, or as one int that stands for a sequence of one."""
    return [integer(item) for item in value] if isinstance(value, tuple | list) else [integer(value)]
