"""The two suites: the default one answers in minutes; the full one, `pytest --full`, runs every case.

A test that takes more than ``tests.costs.BUDGET`` is marked ``full``, as is one of many like it that the
default suite need not repeat: the default suite does not even make its cases. A test that keeps a promise
which cannot be kept for less is marked ``budget(seconds)``, and may take so many in the default suite. Of a
test that is marked ``sampled(every=N)``, the default suite makes every N-th case. ``pytest file.py::test``
makes every case of that file, and ``pytest file.py`` those of a file all of which is marked ``full``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

#: Whether the full suite runs: random searches are as long, and networks as large, as they can be.
FULL = bool(os.environ.get("NNMAGIC_FULL_SUITE"))


def sample(cases: Iterable[T], every: int) -> list[T]:
    """Return every so many-th case, from the first on; all in the full suite."""
    return list(cases)[:: 1 if FULL else every]
