"""How many of the cases that could be tested a run of the suite tests: a sample, or all of them.

``make test-exhaustive`` sets NNMAGIC_EXHAUSTIVE and takes an hour.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

EXHAUSTIVE = bool(os.environ.get("NNMAGIC_EXHAUSTIVE"))


def sample(cases: Iterable[T], every: int) -> list[T]:
    """Return every so many-th case, from the first on; all in an exhaustive run."""
    return list(cases)[:: 1 if EXHAUSTIVE else every]
