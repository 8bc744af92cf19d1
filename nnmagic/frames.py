"""Errors as a caller of nnmagic sees them: down to the caller's own line, without the frames inside nnmagic.

A bare ``raise`` adds no frame of its own, so an error whose traceback was taken off before it ends where
nnmagic was called, in a script as in a notebook. Knows the kinds of errors alone.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from opcode import opmap
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from nnmagic.diagnostics import CompileError

#: The variable that has every frame shown, where no notebook says otherwise.
VARIABLE = "NNMAGIC_TB"

_PACKAGE = os.path.join(os.path.dirname(__file__), "")  # noqa: PTH118, PTH120  # importing pathlib costs more
_RAISE = opmap["RAISE_VARARGS"]
_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Settings:
    frames: bool = os.environ.get(VARIABLE, "") not in ("", "0")


_SETTINGS = _Settings()


def show_frames(show: bool) -> None:
    """Whether errors are shown with the frames inside nnmagic: for its developers."""
    _SETTINGS.frames = show


def shows_frames() -> bool:
    """Whether errors are shown with the frames inside nnmagic."""
    return _SETTINGS.frames


@contextmanager
def with_frames(show: bool) -> Iterator[None]:
    """Has errors shown with the frames inside nnmagic meanwhile, if ``show`` or if they are anyway."""
    before = _SETTINGS.frames
    _SETTINGS.frames = before or show
    try:
        yield
    finally:
        _SETTINGS.frames = before


def short_errors(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Hides the frames inside nnmagic of what a public function raises on purpose.

    An error that Python or a library raises there is a mistake of nnmagic's: it keeps its frames.
    """

    @functools.wraps(function)
    def called(*args: _P.args, **keywords: _P.kwargs) -> _T:
        __tracebackhide__ = True  # IPython leaves this frame out, where there is an error of Python's
        try:
            return function(*args, **keywords)
        except (CompileError, OSError, KeyboardInterrupt) as error:
            hide_frames(error, cause=True)
            raise
        except Exception as error:
            if _is_the_callers(error):
                hide_frames(error, cause=True)
            raise

    return called


def hide_frames(error: BaseException, *, cause: bool = False) -> None:
    """Takes the frames below the one that handles an error off it; a bare ``raise`` is to follow.

    cause: whether to take off what has led to it, too; otherwise that keeps the frames of others.
    """
    if _SETTINGS.frames:
        return
    if cause:
        error.__cause__ = None
    elif error.__cause__ is not None:
        others = [frame for frame in frames_of(error.__cause__) if not is_ours(frame)]
        error.__cause__.__traceback__ = traceback_of(others)
    error.__suppress_context__ = True
    if sys.version_info >= (3, 11):
        error.__traceback__ = None
    elif not hasattr(error, "_render_traceback_"):  # a bare raise brings the frames back: for IPython alone
        error.__dict__["_render_traceback_"] = _Shown(error)


def frames_of(error: BaseException) -> list[TracebackType]:
    """The frames of an error's traceback, that which raised it last."""
    frames, found = [], error.__traceback__
    while found is not None:
        frames.append(found)
        found = found.tb_next
    return frames


def traceback_of(frames: list[TracebackType]) -> TracebackType | None:
    """A traceback of these frames alone."""
    kept: TracebackType | None = None
    for frame in reversed(frames):
        kept = TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


def is_ours(frame: TracebackType) -> bool:
    """Whether a frame is one of nnmagic's."""
    return frame.tb_frame.f_code.co_filename.startswith(_PACKAGE)


def callers_locals() -> Mapping[str, object]:
    """Return the local names of the nearest caller whose code lies outside nnmagic."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _is_the_callers(error: BaseException) -> bool:
    """Whether an error below a public function is its caller's: of a call with wrong arguments, or raised."""
    frames = frames_of(error)
    if len(frames) == 1:  # Python could not even call it
        return True
    last = frames[-1]
    return is_ours(last) and last.tb_frame.f_code.co_code[last.tb_lasti] == _RAISE


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """How IPython shows an error on Python 3.10: as far as its frames are the caller's."""

    error: BaseException

    def __call__(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        ipython = sys.modules.get("IPython")  # who calls this has imported it
        shell = ipython and ipython.get_ipython()
        kind, frames = type(self.error), frames_of(self.error)
        callers = traceback_of(list(takewhile(lambda frame: not is_ours(frame), frames)))
        plain = kind(*self.error.args)
        if shell is None:
            import traceback

            return traceback.format_exception(kind, plain, callers)
        lines: list[str] = shell.InteractiveTB.structured_traceback(kind, plain, callers, tb_offset=1)
        return lines
