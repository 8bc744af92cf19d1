"""Choices that guard a read: what is not chosen must not be read. Knows TIR only.

A ``Select`` of vectors computes both values. Where one of them is read at a place that is read itself (an
index, a class), the place may be outside of the data when the other value is the one that is meant.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from nnmagic.engine.relax.tir.builders import loads_of
from nnmagic.engine.relax.tir.visitors import rewrite, visit


def guard_loads(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with branches in place of the choices that guard a read."""
    found: list[Any] = []
    visit(function.body, [(tirx.Select, found.append)])
    if not any(map(_guards, found)):
        return function
    return function.with_body(rewrite(function.body, [(tirx.Select, _branched)]))


def _branched(choice: tirx.Select) -> Any:
    if not _guards(choice):
        return choice
    return tirx.if_then_else(choice.condition, choice.true_value, choice.false_value)


def _guards(choice: tirx.Select) -> bool:
    return any(_reads_where_it_reads(value) for value in (choice.true_value, choice.false_value))


def _reads_where_it_reads(value: Any) -> bool:
    """Whether an index of a load holds a load."""
    return any(loads_of(*load.indices) for load in loads_of(value))
