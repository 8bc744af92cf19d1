"""Errors of a call as the caller sees them: of their own type and text, without the frames inside nnmagic.

A traceback always has the frame that raises, so IPython, which asks an exception how it is shown, is given
the frames of the user alone.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType

#: Where the frames are that nobody wants to see.
_PACKAGE = str(Path(__file__).parents[1])


@dataclass(slots=True)
class _Settings:
    frames: bool = False


_SETTINGS = _Settings()


def show_frames(show: bool) -> None:
    """Whether errors of calls are shown with the frames inside nnmagic: for its developers."""
    _SETTINGS.frames = show


def without_frames(error: Exception) -> Exception:
    """The error to raise in place of one: the same type and text, shown without frames of nnmagic."""
    if _SETTINGS.frames:
        return error
    kind = _shown_kind(type(error))  # type: ignore[arg-type]  # mypy takes the class for no Hashable
    if kind is None or isinstance(error, _Shown):
        return error.with_traceback(None)
    shown = kind(*error.args)
    shown.__dict__.update(error.__dict__)
    return shown


def hide_frames(interrupt: KeyboardInterrupt) -> None:
    """Has IPython show an interrupt without the frames of nnmagic; who waits for one gets it as it is."""
    if _SETTINGS.frames:
        return

    def render() -> list[str]:
        return _rendered(KeyboardInterrupt, interrupt.args, interrupt.__traceback__)

    interrupt.__dict__["_render_traceback_"] = render


class _Shown:
    """How IPython shows an exception; the other base of its class is the exception's own type."""

    args: tuple[object, ...]
    __traceback__: TracebackType | None

    def _render_traceback_(self) -> list[str]:
        return _rendered(type(self).__bases__[-1], self.args, self.__traceback__)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).__bases__[-1], self.args


def _rendered(kind: type[BaseException], args: Sequence[object], found: TracebackType | None) -> list[str]:
    """What IPython shows of an exception of that kind, as far as its frames are the user's."""
    ipython = sys.modules.get("IPython")  # who calls this has imported it
    shell = ipython and ipython.get_ipython()
    plain, users = kind(*args), _of_user(found)
    if shell is None:
        return traceback.format_exception(kind, plain, users)
    lines: list[str] = shell.InteractiveTB.structured_traceback(kind, plain, users, tb_offset=1)
    return lines


def _of_user(found: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames at its end that are nnmagic's."""
    frames = []
    while found is not None:
        frames.append(found)
        found = found.tb_next
    while frames and frames[-1].tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames.pop()
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


@cache
def _shown_kind(kind: type[Exception]) -> type[Exception] | None:
    """A class that is a kind of error in all but how it is shown; None where none can be made."""
    if kind.__module__ != "builtins":
        return None
    return type(kind.__name__, (_Shown, kind), {"__module__": "builtins", "__doc__": kind.__doc__})
