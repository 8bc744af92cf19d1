"""Filter tracebacks by path, so that an error ends at the caller's own line, without frames of nnmagic.

A bare ``raise`` adds no frame of its own, so an error whose traceback was removed before it ends where
nnmagic was called, in a script as in a notebook.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

from nnmagic.diagnostics import CompileError, InternalError

#: The variable that has every frame shown, where no notebook says otherwise.
VARIABLE = "NNMAGIC_TB"

#: Where our own code is: importing pathlib would cost more.
_FOLDERS = [os.path.join(os.path.dirname(__file__), "")]  # noqa: PTH118, PTH120
#: The built-in errors that public functions document. CompileError, OSError and KeyboardInterrupt are always
#: shown without frames.
_DOCUMENTED = (TypeError, ValueError, LookupError, AttributeError, RuntimeError, ImportError)

_P = ParamSpec("_P")
_T = TypeVar("_T")


class _Settings:
    frames: bool = os.environ.get(VARIABLE, "") not in ("", "0")


_SETTINGS = _Settings()


def show_frames(show: bool) -> None:
    """Set whether errors show the frames inside nnmagic: for its developers."""
    _SETTINGS.frames = show


def shows_frames() -> bool:
    """Return whether errors show the frames inside nnmagic."""
    return _SETTINGS.frames


@contextmanager
def with_frames(show: bool) -> Iterator[None]:
    """Show the frames inside nnmagic meanwhile, if ``show`` or if they are shown anyway."""
    before = _SETTINGS.frames
    _SETTINGS.frames = before or show
    try:
        yield
    finally:
        _SETTINGS.frames = before


def short_errors(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Hide the frames inside nnmagic of the documented errors of a public function.

    An error that a library raises below it is a defect of nnmagic's: it keeps its frames. So does an
    InternalError, and its cause.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **keywords: _P.kwargs) -> _T:
        __tracebackhide__ = True  # IPython leaves this frame out, where there is an error of Python's
        try:
            with noting_interrupts():
                return function(*args, **keywords)
        except InternalError:
            raise
        except (CompileError, OSError, KeyboardInterrupt) as error:
            hide_frames(error, cause=True)
            raise
        except Exception as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                # Before 3.12, Python says so of an interrupt while it makes a class, as an import does.
                raise error.__cause__ from None
            if _is_intended(error):
                hide_frames(error, cause=True)
            raise

    return call


#: The interrupts that came in what Python calls as objects are freed, where it ignores what is raised.
_ignored: list[object] = []


@contextmanager
def noting_interrupts() -> Iterator[None]:
    """Raise an interrupt that Python ignores in a block: at its end, or where the block waits."""
    before = sys.unraisablehook
    if threading.get_ident() != threading.main_thread().ident or getattr(before, "func", None) is _note:
        yield
        return
    sys.unraisablehook = functools.partial(_note, before)
    try:
        yield
        raise_ignored_interrupt()
    finally:
        sys.unraisablehook = before
        _ignored.clear()


def _note(before: Callable[[Any], object], ignored: Any) -> None:
    if ignored.exc_type is KeyboardInterrupt and threading.get_ident() == threading.main_thread().ident:
        _ignored.append(None)
    else:
        before(ignored)


def raise_ignored_interrupt() -> None:
    """Raise an interrupt that Python ignored; only the main thread may call it."""
    if _ignored:
        _ignored.clear()
        raise KeyboardInterrupt


def hide_frames(error: BaseException, *, cause: bool = False) -> None:
    """Remove the frames below the one that handles an error; a bare ``raise`` must follow.

    cause: whether to remove its cause, too; otherwise the cause keeps the frames of others.
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


def show_frames_of(error: BaseException, frames: TracebackType | None) -> None:
    """Let an error have these frames alone; a bare ``raise`` must follow, which Python 3.10 adds all to."""
    if not _SETTINGS.frames and sys.version_info >= (3, 11):
        error.__traceback__ = frames


class OthersFrames:
    """Lets an error that leaves a ``with`` block have the frames of the caller's functions alone."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, kind: object, error: BaseException | None, frames: object) -> None:
        """Take nnmagic's frames off an error."""
        if error is not None:
            others = [frame for frame in frames_of(error) if not is_ours(frame)]
            show_frames_of(error, traceback_of(others))


def frames_of(error: BaseException) -> list[TracebackType]:
    """Return the frames of an error's traceback, innermost last."""
    frames, frame = [], error.__traceback__
    while frame is not None:
        frames.append(frame)
        frame = frame.tb_next
    return frames


def traceback_of(frames: list[TracebackType]) -> TracebackType | None:
    """Return a traceback of these frames alone."""
    traceback: TracebackType | None = None
    for frame in reversed(frames):
        traceback = TracebackType(traceback, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return traceback


def is_ours(frame: TracebackType) -> bool:
    """Return whether a frame is in nnmagic."""
    return _is_own_code(frame.tb_frame)


def _is_own_code(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(tuple(_FOLDERS))


def add_own_folder(file: str) -> None:
    """Take the code beside a file for nnmagic's, too: that of a package that holds its modules."""
    _FOLDERS.append(os.path.join(os.path.dirname(file), ""))  # noqa: PTH118, PTH120


def is_own_fault(error: Exception) -> bool:
    """Return whether Python raised an error in nnmagic's own code, not in a library that it calls."""
    frames = frames_of(error)
    return bool(frames) and is_ours(frames[-1]) and not isinstance(error, RecursionError | MemoryError)


def callers_locals() -> Mapping[str, object]:
    """Return the local names of the nearest caller whose code lies outside nnmagic."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and _is_own_code(frame):
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line of the nearest caller whose code lies outside nnmagic."""
    frame: FrameType | None = sys._getframe()
    level = 1
    while frame is not None and _is_own_code(frame):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_intended(error: Exception) -> bool:
    """Return whether an error is of a documented kind, and raised by nnmagic or by Python at its call."""
    if isinstance(error, RecursionError) or getattr(error, "obj", None) is not None:
        return False  # Python raised it: AttributeError.obj is the object that lacks an attribute
    frames = frames_of(error)
    return isinstance(error, _DOCUMENTED) and (len(frames) == 1 or is_ours(frames[-1]))


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """Shows an error in IPython on Python 3.10: only the caller's frames."""

    error: BaseException

    def __call__(self) -> list[str]:
        """Return what IPython shows as the traceback."""
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
