"""Define the rows of the table: cases, their inputs and their goals. Imports NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from benchmarks.peers import Ready

Arrays = Mapping[str, np.ndarray]
Draw = Callable[[np.random.Generator], dict[str, np.ndarray]]

#: Who is measured, in the order of the table's columns.
CONTESTANTS = (
    "nnmagic", "numpy", "known sizes", "onnxruntime", "torch", "torch.compile", "jax.jit", "numba",
)  # fmt: skip
OURS = CONTESTANTS[0]
#: nnmagic itself, in a row with named sizes: the same cell with the sizes as numbers.
KNOWN = CONTESTANTS[2]
#: Stands for the quickest of all peers in a goal.
BEST = "best peer"


@dataclass(frozen=True, slots=True)
class Ratio:
    """Our speed over a peer's must be ``at_least`` this. peer: one of CONTESTANTS, or BEST."""

    peer: str
    at_least: float


@dataclass(frozen=True, slots=True)
class Within:
    """Our median must be no longer than this many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class OfPeak:
    """The operations a second must be ``at_least`` this fraction of the best sgemm's in the same run."""

    at_least: float


@dataclass(frozen=True, slots=True)
class Growth:
    """Our median must be no longer than ``at_most`` times that of another row with as many threads."""

    of: str
    at_most: float


@dataclass(frozen=True, slots=True)
class Overhead:
    """Our median must exceed a contestant's by no more than this many seconds."""

    over: str
    seconds: float


Goal = Ratio | Within | OfPeak | Growth | Overhead


@dataclass(frozen=True, slots=True)
class Case:
    """A function that every contestant computes on the same arrays.

    name: of its row; family: of the rows beside it. arguments: draws what is given at each call; constants:
    draws what each holds already, such as weights. source: the %%tinynn cell; constants are names that it
    captures. The others take the arguments, then the constants: ``numpy``, also the judge of all results (in
    f64); ``torch`` and ``jax``, which take their module first; ``onnx``, which takes a graph and names of
    values; ``numba``, which is compiled. known: the cell with numbers for named
    sizes.

    flops: multiplications and additions of a call. nbytes: what a call must read and write at least.
    tolerance: the largest error, relative to the largest magnitude of the result. through_numpy: whether
    every contestant takes and gives NumPy arrays, rather than its own tensors. optional: whether it is only
    measured if ``--only`` names it. peers: who takes part.
    """

    name: str
    family: str
    goals: tuple[Goal, ...]
    arguments: Draw
    source: str
    numpy: Callable[..., Any]
    constants: Draw = field(default=lambda _: {})
    torch: Callable[..., Any] | None = None
    jax: Callable[..., Any] | None = None
    onnx: Callable[..., str] | None = None
    numba: Callable[..., Any] | None = None
    known: str | None = None
    flops: float = 0.0
    nbytes: float = 0.0
    tolerance: float = 2e-5
    through_numpy: bool = False
    optional: bool = False
    peers: tuple[str, ...] = CONTESTANTS


@dataclass(frozen=True, slots=True)
class Compilation:
    """How long it takes from a program to its first result; every call compiles anew.

    runs: from the name of a contestant to what makes its call. expected: gives the judge's result.
    """

    name: str
    family: str
    goals: tuple[Goal, ...]
    runs: Mapping[str, Callable[[], Callable[[], Any]]]
    expected: Callable[[], np.ndarray]
    tolerance: float = 2e-5
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """How much memory a call of another row takes at its peak, beyond its arguments, in bytes.

    Each contestant has a process of its own.
    """

    name: str
    family: str
    goals: tuple[Goal, ...]
    of: Case
    peers: tuple[str, ...] = ("nnmagic", "torch", "torch.compile", "jax.jit")
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """A whole model that each contestant has in a form of its own, on the same arrays.

    name, family, goals: as of a Case. arguments: draws what is given at each call. runs: from the name of a
    contestant to what makes its call, of the arrays and the number of threads. expected: gives the judge's
    result. tolerance: the largest error, relative to the largest magnitude of the result.
    """

    name: str
    family: str
    goals: tuple[Goal, ...]
    arguments: Draw
    runs: Mapping[str, Callable[[Arrays, int], Ready]]
    expected: Callable[[Arrays], np.ndarray]
    tolerance: float = 1e-4
    optional: bool = False


Row = Case | Compilation | Memory | Program
