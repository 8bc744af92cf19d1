"""Define the timing of a kernel that engines report."""

from __future__ import annotations

from dataclasses import dataclass

from nnmagic.diagnostics import Span


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel in one call of a function.

    Attributes:
        name: its name.
        calls: how often it ran.
        seconds: the time of all calls, each the minimum of several runs.
        nbytes: bytes read and written.
        flops: floating-point operations; a function such as ``exp`` counts as one.
        exact: whether the values of arrays do not decide how much it reads, writes and computes.
        origins: the spans of the Relay calls that it computes.

    """

    name: str
    calls: int
    seconds: float
    nbytes: int
    flops: int
    exact: bool = True
    origins: frozenset[Span] = frozenset()
