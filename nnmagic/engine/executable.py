"""Define what an engine makes of a function: the interface between engines and compiled functions.

Engines of one's own are simpler, a callable: ``custom.py`` makes an Executable of what they return.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from nnmagic.diagnostics import Span
from nnmagic.engine import engine_error

if TYPE_CHECKING:
    from nnmagic.engine.relax.artifact import Artifact


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A function of the machine code.

    origins: the spans of the Relay calls that it computes. tir, asm: its texts, "" if it has none.
    """

    name: str
    origins: frozenset[Span]
    tir: str
    asm: str


@dataclass(frozen=True, slots=True)
class Remark:
    """How a part of a program runs, or what it costs.

    span: of the loop, the kernel or the expression, if it is known. change: what would help, "" if nothing is
    known to.
    """

    span: Span | None
    text: str
    change: str = ""


class Executable(Protocol):
    """A program that an engine has built."""

    @property
    def artifact(self) -> Artifact | None:
        """The artifact to cache, if there is one."""

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return the results for checked arguments."""

    def stage(self, name: str) -> str:
        """Return the text of a stage of the engine."""


def kernels_of(executable: Executable) -> Sequence[KernelCode]:
    """Return the functions of a program's machine code. Raises EngineError if the engine tells none."""
    kernels: Callable[[], Sequence[KernelCode]] | None = getattr(executable, "kernels", None)
    if kernels is None:
        hint = "the engine relax does: leave the engine out"
        raise engine_error("the engine does not say which kernels it makes", hint=hint)
    return kernels()


def remarks_of(executable: Executable) -> Sequence[Remark]:
    """Return how the loops and kernels of a program run; none where it is not machine code alone."""
    remarks: Callable[[], Sequence[Remark]] | None = getattr(executable, "remarks", None)
    return () if remarks is None else remarks()
