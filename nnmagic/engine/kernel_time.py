"""What an engine says of the time of a kernel. Knows nothing of engines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KernelTime:
    """A kernel in one call of a function.

    calls: how often it ran. seconds: of all of them together, each the least of several runs. nbytes: what
    they read and write. flops: floating-point operations, of which a function such as ``exp`` is one.
    """

    name: str
    calls: int
    seconds: float
    nbytes: int
    flops: int
