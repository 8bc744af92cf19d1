"""Show the progress of a long compilation in a live notebook, from its first second to its end."""

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
def show_progress(shell: InteractiveShell) -> Iterator[None]:
    """Show how far a compilation is, if the notebook is live."""
    if not is_live(shell):
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
    """Shows the last reported stage again and again, because a stage may work long without a report."""

    def __init__(self) -> None:
        self.shown = False
        self._ended = threading.Event()
        self._state = ("", 0, 0)
        self._thread: threading.Thread | None = None

    def note(self, stage: str, done: int, total: int) -> None:
        """Take a report and begin to watch; a cell that the cache has in memory reports nothing."""
        self._state = (stage, done, total)
        if self._thread is None:
            run = contextvars.copy_context().run
            self._thread = threading.Thread(target=run, args=(self._watch,), daemon=True)
            self._thread.start()

    def end(self) -> None:
        """End the display."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        """Run beside the compilation until it ends."""
        begin = time.monotonic()
        if self._ended.wait(_QUIET):
            return
        self.shown = True
        handle = display(progress_output(*self._state, time.monotonic() - begin), display_id=True)
        while not self._ended.wait(_STEP):
            handle.update(progress_output(*self._state, time.monotonic() - begin))


def progress_output(stage: str, done: int, total: int, seconds: float) -> Output:
    """Return a line of text, and a bar."""
    from nnmagic.rendering.output import Output, Section

    count = f" {done} of {total}" if total else ""
    text = f"compiling: {stage}{count}, {seconds:.0f} s"
    bar = f'<progress max="{total}" value="{done}"></progress> ' if total else "<progress></progress> "
    return Output((Section("progress", text, f'<div class="head">{bar}{text}</div>'),))


def is_live(shell: InteractiveShell) -> bool:
    """Return whether the front end that sent the cell takes input (nbval and nbconvert do not)."""
    kernel = getattr(shell, "kernel", None)
    content = kernel.get_parent().get("content", {}) if kernel is not None else {}
    return bool(content.get("allow_stdin"))
