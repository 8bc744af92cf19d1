"""The notebook extension: what ``%load_ext nnmagic`` calls. Imports no TVM and no NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def load_ipython_extension(ip: InteractiveShell) -> None:
    """``%load_ext nnmagic``: adds %%tinynn, %%relay and %tinynn to a shell; twice is as good as once."""
    from nnmagic.jupyter.help import add_help
    from nnmagic.jupyter.magics import TinyNNMagics

    unload_ipython_extension(ip)
    ip.register_magics(TinyNNMagics)
    ip.input_transformers_cleanup.append(_with_body)
    add_help(ip)


def unload_ipython_extension(ip: InteractiveShell) -> None:
    """``%unload_ext nnmagic``: takes the magics and their settings away; what cells have bound stays."""
    from nnmagic.jupyter.help import remove_help
    from nnmagic.jupyter.magics import TinyNNMagics

    remove_help(ip)
    while _with_body in ip.input_transformers_cleanup:
        ip.input_transformers_cleanup.remove(_with_body)
    manager = ip.magics_manager
    for magics in [found for found in ip.configurables if isinstance(found, TinyNNMagics)]:
        ip.configurables.remove(magics)
        for kind, names in magics.magics.items():
            for name in names:
                if getattr(manager.magics[kind].get(name), "__self__", None) is magics:
                    del manager.magics[kind][name]
    manager.registry.pop(TinyNNMagics.__name__, None)


def _with_body(lines: list[str]) -> list[str]:
    """Gives an empty cell of ours a blank line: IPython would not run it, and we say what it lacks."""
    words = lines[0].split() if lines else []
    if words[:1] in (["%%tinynn"], ["%%relay"]) and not any(map(str.strip, lines[1:])):
        return [lines[0].rstrip("\n") + "\n", "\n"]
    return lines


# IPython asks no such function whether a cell is complete: in a terminal the body is yet to come.
_with_body.has_side_effects = True  # type: ignore[attr-defined]  # IPython looks for it on the function
