"""Errors of the magics' own lines, and how a cell's error is shown to developers. Knows no compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class MagicError(ValueError):
    """A magic's line that makes no sense. The cell fails, and a notebook shows one line.

    IPython's own UsageError lets the cell succeed, so that nothing that runs a notebook notices.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a Python traceback."""
        return [f"{type(self).__name__}: {self}"]


def show_all_frames(error: BaseException, shell: InteractiveShell) -> None:
    """Has a notebook show an error as it shows any other: with every frame, down to where it arose."""

    def render() -> list[str]:
        shown: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        return shown

    error.__dict__["_render_traceback_"] = render


def show_interrupt(interrupt: KeyboardInterrupt, what: str) -> None:
    """Has a notebook show of an interrupt what it ended, and no frames."""
    interrupt.__dict__["_render_traceback_"] = lambda: [f"KeyboardInterrupt: {what}"]
