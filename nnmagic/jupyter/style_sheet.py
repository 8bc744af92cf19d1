"""Put the style sheet into a notebook once, below the cell that loads the extension."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from IPython.core.getipython import get_ipython

from nnmagic.jupyter.progress import is_live
from nnmagic.rendering.style_sheets import PAGE, shared_sheet

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

#: The cell below which the style sheet stands, where the front end says which cell it runs.
_below: str | None = None


def show_style_sheet(result: ExecutionResult) -> None:
    """Add the style sheet to the outputs of a cell that has run: of the first one, whenever it runs.

    So it is with any that loads the extension, though it is loaded: where all outputs were cleared, nothing
    else says so.
    """
    global _below
    shell, cell = get_ipython(), getattr(result.info, "cell_id", None)
    again = (cell is not None and cell == _below) or "load_ext nnmagic" in (result.info.raw_cell or "")
    if shell is None or (PAGE.has_sheet and not again):
        return
    if not _share_a_page(shell):
        shell.events.unregister("post_run_cell", show_style_sheet)  # nothing will change that
        return
    PAGE.has_sheet, _below = True, cell
    shell.display_pub.publish({"text/html": shared_sheet(), "text/latex": "", "text/plain": ""})


def forget_style_sheet() -> None:
    """Let each output have the style sheet again."""
    PAGE.has_sheet = False


def _share_a_page(shell: InteractiveShell) -> bool:
    """Return whether all outputs are on one page: with Jupyter's server, and in a notebook's run as a whole.

    In Google Colab each has a page of its own, and VS Code takes no style from where it does not know it.
    """
    if not hasattr(shell, "kernel") or "google.colab" in sys.modules or "__vsc_ipynb_file__" in shell.user_ns:
        return False
    return "JPY_SESSION_NAME" in os.environ or not is_live(shell)
