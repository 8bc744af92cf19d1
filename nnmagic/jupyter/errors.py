"""Raise errors of the magics' own lines, and choose the frames that a cell's error shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnmagic.tracebacks import frames_of, hide_frames, is_ours, shows_frames, traceback_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class MagicError(ValueError):
    """An invalid line of a magic. The cell fails, and a notebook shows one line.

    IPython's own UsageError lets the cell succeed, so that nothing that runs a notebook notices.
    """

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of a Python traceback."""
        return [f"{type(self).__name__}: {self}"]


#: The file name of the code of an expression on a magic's line.
TYPED = "<%tinynn>"


def hide_internal_frames(error: Exception) -> None:
    """Keep only the frames of the user's code in an error of an expression on a magic's line.

    A bare ``raise`` is to follow. Any other error stays as it is, and all do where frames are shown.
    """
    if shows_frames():
        return
    frames = frames_of(error)
    typed = [index for index, frame in enumerate(frames) if frame.tb_frame.f_code.co_filename == TYPED]
    if typed:
        hide_frames(error)
        error.__traceback__ = traceback_of([each for each in frames[typed[0] + 1 :] if not is_ours(each)])


def show_all_frames(error: BaseException, shell: InteractiveShell) -> None:
    """Have a notebook show an error with every frame, down to where it arose."""

    def render() -> list[str]:
        shown: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        return shown

    error.__dict__["_render_traceback_"] = render


def show_interrupt(interrupt: KeyboardInterrupt, what: str) -> None:
    """Have a notebook show what an interrupt ended, and no frames."""
    interrupt.__dict__["_render_traceback_"] = lambda: [f"KeyboardInterrupt: {what}"]
