"""Define what an engine makes of a function: the interface between engines and compiled functions.

Engines of one's own are simpler, a callable: ``custom.py`` makes an Executable of what they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from nnmagic.engine.relax.artifact import Artifact


class Executable(Protocol):
    """A program that an engine has built."""

    @property
    def artifact(self) -> Artifact | None:
        """The artifact to cache, if there is one."""

    def __call__(self, arrays: Sequence[Any]) -> Any:
        """Return the results for checked arguments."""

    def stage(self, name: str) -> str:
        """Return the text of a stage of the engine."""
