"""Talk to a kernel as a front end does: run cells, ask for completion and help, interrupt."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import nbformat
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_client.win_interrupt import send_interrupt
from jupyter_core.utils import ensure_event_loop

from tests.child_process import PATIENCE

#: One message of Jupyter's protocol.
Message = dict[str, Any]
_TIMEOUT = 300 * PATIENCE

#: Run in a kernel: notes what `_RENEW` restores. The note is out of reach of a cell's names.
_NOTE_START = """
def note_start():
    import copy, os, sys
    shell = get_ipython()
    sys._nnmagic_start = (
        dict(os.environ),
        os.getcwd(),
        [*sys.path],
        copy.deepcopy(shell.config),
        {event: [*callbacks] for event, callbacks in shell.events.callbacks.items()},
    )
note_start()
del note_start
"""
#: Run in a kernel: makes it as it was at the start, except that modules stay imported.
_RENEW = """
def renew():
    import os, sys
    shell = get_ipython()
    environment, directory, path, config, events = sys._nnmagic_start
    if "nnmagic" in shell.extension_manager.loaded:
        shell.extension_manager.unload_extension("nnmagic")
    shell.config.clear()
    shell.config.merge(config)
    for event, callbacks in events.items():
        shell.events.callbacks[event][:] = callbacks
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.path[:] = path
    if compile_cell := sys.modules.get("nnmagic.functions.cells.compile_cell"):
        compile_cell.MEMORY.clear()
    shell.reset(new_session=True)
renew()
"""


class Kernel:
    """A kernel and its front end. In code to complete or inspect, ``|`` is the cursor."""

    def __init__(self) -> None:
        self.manager: KernelManager
        self.manager, self._client = start_new_kernel(startup_timeout=_TIMEOUT, kernel_name="python3")
        self._run_silently(_NOTE_START)

    def shut_down(self) -> None:
        """End the process."""
        self._client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        ensure_event_loop().close()  # which the client has made

    def renew(self) -> None:
        """Make the kernel as new: names, execution counts, settings, event handlers, environment, extension.

        Modules stay imported, and the cache on disk stays; nnmagic's cache in memory is emptied.
        """
        assert self.manager.is_alive(), "an earlier test has ended the kernel"
        self._run_silently(_RENEW)

    def run(
        self,
        code: str,
        *,
        allow_errors: bool = False,
        live: bool = False,
        interrupt_after: float | None = None,
        listen: Callable[[Message], None] = lambda _message: None,
    ) -> list[nbformat.NotebookNode]:
        """Run a cell and return its outputs as the notebook would save them.

        Args:
            code: The cell.
            allow_errors: Whether the cell may fail; otherwise an error fails the test.
            live: Whether the front end takes input, as where somebody looks on.
            interrupt_after: Seconds after which a running cell is interrupted.
            listen: Called with every message that comes while the cell runs.
        """
        outputs = _Outputs()
        timer = threading.Timer(interrupt_after or 0.0, self.interrupt)

        def note(message: Message) -> None:
            if message["msg_type"] == "execute_input" and interrupt_after is not None:
                timer.start()  # the kernel begins to run the cell
            outputs.add(message)
            listen(message)

        try:
            reply = self._client.execute_interactive(
                code, timeout=_TIMEOUT, allow_stdin=live, output_hook=note
            )
        finally:
            timer.cancel()
        assert allow_errors or reply["content"]["status"] == "ok", reply["content"]
        return outputs.nodes

    def value(self, expression: str) -> str:
        """Return the representation of an expression's value."""
        content = self._run_silently("", value=expression)
        return content["user_expressions"]["value"]["data"]["text/plain"]

    def pages(self, code: str) -> str:
        """Return what a cell with ``?`` shows in the pager."""
        reply = self._client.execute(code, reply=True, timeout=_TIMEOUT)
        return "\n".join(without_colours(page["data"]["text/plain"]) for page in reply["content"]["payload"])

    def complete(self, code: str) -> list[str]:
        """Return the texts that replace the word at the cursor."""
        return [text for text, _ in self.completions(code)]

    def completions(self, code: str) -> list[tuple[str, str]]:
        """Return the texts that replace the word at the cursor, each with its kind."""
        cursor = code.index("|")
        reply = self._client.complete(code.replace("|", ""), cursor, reply=True, timeout=_TIMEOUT)
        content = reply["content"]
        assert content["status"] == "ok"
        assert content["cursor_end"] == cursor
        return [
            (match["text"], match["type"]) for match in content["metadata"]["_jupyter_types_experimental"]
        ]

    def inspect(self, code: str, detail: int = 0) -> str | None:
        """Return the help for the word at the cursor, or None."""
        reply = self._client.inspect(
            code.replace("|", ""), code.index("|"), detail, reply=True, timeout=_TIMEOUT
        )
        content = reply["content"]
        return without_colours(content["data"]["text/plain"]) if content["found"] else None

    def interrupt(self) -> None:
        """Interrupt the running cell, as a front end's button does."""
        if sys.platform == "win32":
            send_interrupt(self.manager.provisioner.process.win32_interrupt_event)
        else:
            os.kill(self.manager.provisioner.pid, signal.SIGINT)

    def _run_silently(self, code: str, **expressions: str) -> Message:
        reply = self._client.execute(
            code, silent=True, user_expressions=expressions, reply=True, timeout=_TIMEOUT
        )
        assert reply["content"]["status"] == "ok", reply["content"]
        return reply["content"]


class _Outputs:
    """The outputs below a cell, as messages change them."""

    def __init__(self) -> None:
        self.nodes: list[nbformat.NotebookNode] = []
        self._displays: dict[str, nbformat.NotebookNode] = {}
        self._clear_before_next = False

    def add(self, message: Message) -> None:
        kind, content = message["msg_type"], message["content"]
        if kind == "clear_output":
            if content["wait"]:
                self._clear_before_next = True
            else:
                self.nodes.clear()
        elif kind == "update_display_data":
            if shown := self._displays.get(content["transient"]["display_id"]):
                shown.data, shown.metadata = content["data"], content["metadata"]
        elif kind in ("stream", "display_data", "execute_result", "error"):
            if self._clear_before_next:
                self.nodes.clear()
                self._clear_before_next = False
            last = self.nodes[-1] if self.nodes else None
            if kind == "stream" and last is not None and last.get("name") == content["name"]:
                last.text += content["text"]
                return
            self.nodes.append(nbformat.v4.output_from_msg(message))
            if name := content.get("transient", {}).get("display_id"):
                self._displays[name] = self.nodes[-1]


@contextmanager
def new_kernel() -> Iterator[Kernel]:
    """Start a kernel for a test that needs a new process."""
    kernel = Kernel()
    try:
        yield kernel
    finally:
        kernel.shut_down()


def without_colours(text: str) -> str:
    """Return a text without the escapes of terminals."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def plain(outputs: list[nbformat.NotebookNode]) -> str:
    """Return the text of a cell's only output, which is a value."""
    (output,) = outputs
    return output.data["text/plain"]


def error(outputs: list[nbformat.NotebookNode]) -> nbformat.NotebookNode:
    """Return a cell's only output, which is an error."""
    (output,) = outputs
    assert output.output_type == "error"
    return output


def traceback_text(output: nbformat.NotebookNode) -> str:
    """Return the traceback of an error as it reads."""
    return without_colours("\n".join(output.traceback))
