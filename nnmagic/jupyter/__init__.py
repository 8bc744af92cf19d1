"""Load and unload the notebook extension. Imports neither TVM nor NumPy."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(ip: InteractiveShell) -> None:
    """Add %%tinynn, %%relay and %tinynn to a shell; ``%load_ext nnmagic`` calls it, and may do so twice."""
    from nnmagic.jupyter.magics import TinyNNMagics
    from nnmagic.jupyter.style_sheet import show_style_sheet

    unload_ipython_extension(ip)
    ip.register_magics(TinyNNMagics)
    ip.input_transformers_cleanup.append(_add_empty_body)
    if _can_be_asked():
        from nnmagic.jupyter.help import add_help

        add_help(ip)
    ip.events.register("post_run_cell", ip.magics_manager.registry[TinyNNMagics.__name__].warn_of_changes)
    ip.events.register("post_run_cell", show_style_sheet)
    if _has_user(ip) and ip.magics_manager.registry[TinyNNMagics.__name__].preload:
        from nnmagic.jupyter.preload import preload

        preload(ip)


def _can_be_asked() -> bool:
    """Return whether the shell passes whole cells to matchers and inspectors, as IPython does from 8.6 on."""
    from IPython.core import completer

    return hasattr(completer, "context_matcher")


def _has_user(ip: InteractiveShell) -> bool:
    """Return whether somebody types into the shell: it is that of a kernel, or of a terminal."""
    return hasattr(ip, "kernel") or (type(ip).__name__ == "TerminalInteractiveShell" and sys.stdin.isatty())


def unload_ipython_extension(ip: InteractiveShell) -> None:
    """Remove the magics and their settings, as ``%unload_ext nnmagic`` does; what cells have bound stays."""
    from nnmagic.jupyter.magics import TinyNNMagics
    from nnmagic.jupyter.style_sheet import forget_style_sheet, show_style_sheet

    forget_style_sheet()
    if show_style_sheet in ip.events.callbacks["post_run_cell"]:
        ip.events.unregister("post_run_cell", show_style_sheet)
    if _can_be_asked():
        from nnmagic.jupyter.help import remove_help

        remove_help(ip)
    while _add_empty_body in ip.input_transformers_cleanup:
        ip.input_transformers_cleanup.remove(_add_empty_body)
    manager = ip.magics_manager
    for magics in [item for item in ip.configurables if isinstance(item, TinyNNMagics)]:
        ip.configurables.remove(magics)
        if magics.warn_of_changes in ip.events.callbacks["post_run_cell"]:
            ip.events.unregister("post_run_cell", magics.warn_of_changes)
        for kind, names in magics.magics.items():
            for name in names:
                if getattr(manager.magics[kind].get(name), "__self__", None) is magics:
                    del manager.magics[kind][name]
    manager.registry.pop(TinyNNMagics.__name__, None)


def _add_empty_body(lines: list[str]) -> list[str]:
    """Add a blank line to an empty cell of ours: IPython would not run it, and its error is ours to show."""
    words = lines[0].split() if lines else []
    if words[:1] in (["%%tinynn"], ["%%relay"]) and not any(map(str.strip, lines[1:])):
        return [lines[0].rstrip("\n") + "\n", "\n"]
    return lines


# IPython asks no such function whether a cell is complete: in a terminal the body is yet to come.
_add_empty_body.has_side_effects = True  # type: ignore[attr-defined]  # IPython looks for it on the function
