"""Define what the program of an engine offers to a compiled function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from nnmagic.engine.relax.artifact import Artifact


class Executable(Protocol):
    """What an engine builds."""

    @property
    def artifact(self) -> Artifact | None:
        """What can be kept of it, if anything."""

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """The results for checked arguments."""

    def stage(self, name: str) -> str:
        """The text of a stage of the engine."""
