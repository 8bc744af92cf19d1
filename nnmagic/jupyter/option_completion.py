"""Complete the words of the magics' lines: options, their values, commands."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import FunctionType, MappingProxyType


def complete_cell_options(
    magic: str, before: str, namespace: Mapping[str, object] = MappingProxyType({})
) -> Sequence[str]:
    """Return the words that may end a cell magic's line."""
    from nnmagic.functions.caching.compile_options import OPT_LEVELS, engine_names
    from nnmagic.jupyter.cell_output import SHOWN
    from nnmagic.jupyter.magics import TinyNNMagics

    if re.search(r"--show[ =][\w,-]*$", before):
        return SHOWN
    if re.search(r"--passes[ =][\w,]*$", before):
        from nnmagic.relay.passes.library import LIBRARY

        return list(LIBRARY)
    if re.search(r"--engine[ =]\w*$", before):
        own = [
            name for name, value in namespace.items() if isinstance(value, FunctionType) and name[0] != "_"
        ]
        return [*engine_names(), *own]
    if re.search(r"--opt-level[ =]\d*$", before):
        return [str(level) for level in OPT_LEVELS]
    if re.search(r"(?:-o|--output|--target)[ =]\S*$", before):
        return ()
    if before.startswith(f"%%{magic}") and before[len(magic) + 2 :].strip() == before[len(magic) + 2 :] != "":
        return ()
    parser = getattr(TinyNNMagics, f"{magic}_cell").parser
    given = set(before.split())
    values = ["same_kind"] if re.search(r"--convert[ =]\w*$", before) else []
    return values + [
        option
        for action in parser._actions
        if not given & set(action.option_strings)
        for option in sorted(action.option_strings, key=len, reverse=True)
    ]


def complete_command(line: str, namespace: Mapping[str, object]) -> Sequence[str] | None:
    """Return the words that may end a line of %tinynn; None inside a call, which Python completes."""
    from nnmagic.jupyter.cell_output import SHOWN
    from nnmagic.jupyter.commands import COMMANDS

    command, *words = line.split(" ")
    if not words:
        return list(COMMANDS)
    if command == "why" or (command == "show" and len(words) == 1):
        return _functions(namespace)
    if command == "show":
        return SHOWN
    if command == "ops":
        from nnmagic.tinynn.editor.symbols import searchable

        return sorted(searchable())
    if command == "cache":
        return ["--clear"]
    if command == "help":
        return list(COMMANDS)
    if command in ("profile", "step"):
        return None if "(" in line else _functions(namespace)
    return ()


def _functions(namespace: Mapping[str, object]) -> list[str]:
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.specializing import SpecializingFunction

    kinds = CompiledFunction | SpecializingFunction
    return [name for name, value in namespace.items() if isinstance(value, kinds)]
