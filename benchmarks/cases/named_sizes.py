"""Rows of other families with a named size: the first dimension, which only the call knows."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from benchmarks.case import KNOWN, Case, Overhead, Ratio, Row
from benchmarks.cases import attention, convolutions, elementwise, products, rows

#: For arrays up to this size, the goal is about the time that a call takes longer, not about its ratio.
_SMALL_BYTES = 1 << 16


def _sizes_of_parameters(source: str) -> list[int]:
    """Return the bytes of each parameter of a cell without named sizes."""
    parameters = re.findall(r"Tensor\[\(([\d, ]+)\), [a-z]+(\d+)\]", source)
    return [
        math.prod(map(int, filter(str.strip, dims.split(",")))) * int(bits) // 8 for dims, bits in parameters
    ]


def _named(case: Case) -> Case:
    """Return a row whose first parameter, and what must have as many rows, has ``"n"`` for them."""
    shape = re.search(r"Tensor\[\((\d+), ([^)]*)\)", case.source)
    assert shape is not None
    named = f'Tensor[("n", {shape[2]})'
    is_transposed = case.name.startswith("x.T + ")
    same = case.family in ("element-wise", "attention") and not is_transposed
    source = case.source.replace(shape[0], named, -1 if same else 1)
    if is_transposed:  # the other has as many columns
        source = source.replace(f"({shape[2]}, {shape[1]})", f'({shape[2]}, "n")')
    if case.name.startswith("x.T @ "):  # the rows of both are summed
        source = source.replace(f"Tensor[({shape[1]}, ", 'Tensor[("n", ')
    is_small = all(size <= _SMALL_BYTES for size in _sizes_of_parameters(case.source))
    goal = Overhead(KNOWN, 0.5e-6) if is_small else Ratio(KNOWN, 0.95)
    name = f"{case.name}, n rows"
    return replace(case, name=name, family="named sizes", goals=(goal,), source=source, known=case.source)


def _all(*families: tuple[Row, ...]) -> tuple[Case, ...]:
    return tuple(
        _named(row)
        for family in families
        for row in family
        if isinstance(row, Case) and "Tensor[(" in row.source
    )


ROWS = _all(products.ROWS, elementwise.ROWS, rows.ROWS, attention.ROWS, convolutions.ROWS)
