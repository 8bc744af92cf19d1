"""The progress of a long compilation, in a live notebook: shown after a second, gone when it ends."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from IPython.display import clear_output, display

from nnmagic.progress import listen

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from nnmagic.rendering.output import Output

#: Seconds before anything is shown, and between two changes.
_QUIET, _STEP = 1.0, 0.5


@contextmanager
def shown_progress(shell: InteractiveShell) -> Iterator[None]:
    """Shows how far a compilation is, where somebody may be looking on."""
    if not _is_live(shell):
        yield
        return
    watcher = _Watcher()
    try:
        with listen(watcher.note):
            yield
    finally:
        watcher.end()
        if watcher.shown:
            clear_output()


class _Watcher:
    """Shows the stage that was told last, again and again: a stage may work long without a word."""

    def __init__(self) -> None:
        self.shown = False
        self._ended = threading.Event()
        self._state = ("", 0, 0)
        self._thread: threading.Thread | None = None

    def note(self, stage: str, done: int, total: int) -> None:
        """Takes what is told, and begins to watch: a cell that is found in memory tells nothing."""
        self._state = (stage, done, total)
        if self._thread is None:
            run = contextvars.copy_context().run
            self._thread = threading.Thread(target=run, args=(self._watch,), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Ends what is shown."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        """Runs beside the compilation until it ends."""
        begin = time.monotonic()
        if self._ended.wait(_QUIET):
            return
        self.shown = True
        handle = display(progress_output(*self._state, time.monotonic() - begin), display_id=True)
        while not self._ended.wait(_STEP):
            handle.update(progress_output(*self._state, time.monotonic() - begin))


def progress_output(stage: str, done: int, total: int, seconds: float) -> Output:
    """A line of text, and a bar."""
    from nnmagic.rendering.output import Output, Section

    count = f" {done} of {total}" if total else ""
    text = f"compiling: {stage}{count}, {seconds:.0f} s"
    bar = f'<progress max="{total}" value="{done}"></progress> ' if total else "<progress></progress> "
    return Output((Section("progress", text, f'<div class="head">{bar}{text}</div>'),))


def _is_live(shell: InteractiveShell) -> bool:
    """Whether a front end sent the cell in which somebody can type; nbval and nbconvert say nobody can."""
    kernel = getattr(shell, "kernel", None)
    content = kernel.get_parent().get("content", {}) if kernel is not None else {}
    return bool(content.get("allow_stdin"))
