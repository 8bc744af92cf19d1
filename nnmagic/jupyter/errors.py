"""Errors of the magics' own lines, and how a cell's error is shown to developers. Knows no compiler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nnmagic.frames import frames_of, hide_frames, is_ours, shows_frames, traceback_of

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class MagicError(ValueError):
    """A magic's line that makes no sense. The cell fails, and a notebook shows one line.

    IPython's own UsageError lets the cell succeed, so that nothing that runs a notebook notices.
    """

    def _render_traceback_(self) -> list[str]:
        """What IPython shows instead of a Python traceback."""
        return [f"{type(self).__name__}: {self}"]


#: Where the code of an expression is from that was typed on a magic's line.
TYPED = "<%tinynn>"


def hide_frames_around_typed(error: Exception) -> None:
    """Leaves of the frames of an error in a typed expression those of the user's own code that it called.

    A bare ``raise`` is to follow. Any other error stays as it is, and all do where frames are shown.
    """
    if shows_frames():
        return
    frames = frames_of(error)
    places = [place for place, frame in enumerate(frames) if frame.tb_frame.f_code.co_filename == TYPED]
    if places:
        hide_frames(error)
        error.__traceback__ = traceback_of([each for each in frames[places[0] + 1 :] if not is_ours(each)])


def show_all_frames(error: BaseException, shell: InteractiveShell) -> None:
    """Has a notebook show an error as it shows any other: with every frame, down to where it arose."""

    def render() -> list[str]:
        shown: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        return shown

    error.__dict__["_render_traceback_"] = render


def show_interrupt(interrupt: KeyboardInterrupt, what: str) -> None:
    """Has a notebook show of an interrupt what it ended, and no frames."""
    interrupt.__dict__["_render_traceback_"] = lambda: [f"KeyboardInterrupt: {what}"]
