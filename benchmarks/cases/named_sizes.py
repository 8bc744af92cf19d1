"""Rows of other families with a named size: the first dimension, which only the call knows."""

from __future__ import annotations

import re
from dataclasses import replace

from benchmarks.case import Case, Growth, Row
from benchmarks.cases import attention, convolutions, elementwise, products, rows


def _named(case: Case) -> Case:
    """Return a row whose first parameter, and those of its shape, have ``"n"`` as their first size."""
    shape = re.search(r"Tensor\[\((\d+), ([^)]*)\)", case.source)
    assert shape is not None
    named = f'Tensor[("n", {shape[2]})'
    same = case.family in ("element-wise", "attention")
    source = case.source.replace(shape[0], named, -1 if same else 1)
    goal = Growth(case.name, round(1 / 0.95, 3))
    return replace(case, name=f"{case.name}, n rows", family="named sizes", goals=(goal,), source=source)


def _all(*families: tuple[Row, ...]) -> tuple[Case, ...]:
    return tuple(
        _named(row)
        for family in families
        for row in family
        if isinstance(row, Case) and "Tensor[(" in row.source
    )


ROWS = _all(products.ROWS, elementwise.ROWS, rows.ROWS, attention.ROWS, convolutions.ROWS)
