"""What a cell or a function shows, from the words of ``--show``: the stages, and the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnmagic.diagnostics import closest
from nnmagic.functions.stages import STAGES
from nnmagic.jupyter.errors import MagicError

if TYPE_CHECKING:
    from nnmagic.functions.compile_cell import CompiledCell
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.rendering.output import Output, Section

#: Everything that can be shown, by name.
SHOWN = (*STAGES, "graph")


def shown_list(text: str) -> list[str]:
    """The words of a comma list. Raises MagicError for one that names nothing."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in SHOWN:
            raise MagicError(f"there is no stage {name!r}; {_hint(name, SHOWN)}")
    if not names:
        raise MagicError(f"no stage is named; the stages are {', '.join(SHOWN)}")
    return list(dict.fromkeys(names))


def _hint(name: str, known: Sequence[str]) -> str:
    """What somebody may have meant who named a stage that is none."""
    close = closest(name, known)
    return f"did you mean {close}?" if close else f"the stages are {', '.join(known)}"


def shown_cell(cell: CompiledCell, names: list[str], note: str | None) -> Output:
    """A cell's sections: Relay for the cell as a whole, the others for each function; ``note`` comes last."""
    from nnmagic.rendering.output import Output, plain

    parts: list[tuple[list[Section], str | None]] = []
    for name in names:
        if name not in cell.shown:
            cell.shown[name] = _sections(cell, name)
        parts.append(cell.shown[name])
    sections = [section for made, _ in parts for section in made]
    if note is not None:
        sections.append(plain("cache", note))
    return Output(tuple(sections), next((svg for _, svg in reversed(parts) if svg is not None), None))


def _sections(cell: CompiledCell, name: str) -> tuple[list[Section], str | None]:
    """The sections of one word, and the picture if it has one."""
    from nnmagic.rendering.graph import graph_of
    from nnmagic.rendering.sections import graph_section, relay_section, stage_section

    match name:
        case "relay":
            heads = [function._head() for function in cell.functions]
            from_relay = bool(cell.functions) and cell.functions[0]._definition.language == "relay"
            return [relay_section(cell.own, cell.relay_text, heads, beside_source=not from_relay)], None
        case "graph":
            graph = graph_of(cell.own)
            return [graph_section(name, graph)], graph.svg
        case "relay-typed":
            return [stage_section(name, name, str(cell.own))], None
    for function in cell.functions:
        if name not in function.stages:
            raise MagicError(f"a function from Relay text has no stage {name!r}")
    named = [(f"{function.name}: {name}", function.stages[name]) for function in cell.functions]
    return [stage_section(title, name, text) for title, text in named], None


def shown_function(function: CompiledFunction, name: str) -> Output:
    """A stage of a function. Raises MagicError."""
    from nnmagic.rendering.output import Output
    from nnmagic.rendering.sections import graph_section, stage_section

    if name == "relay":
        return Output((function._section(),))
    if name == "graph":
        return Output((graph_section(name, function.graph),), function.graph.svg)
    if name not in function.stages:
        known = [each for each in SHOWN if each == "graph" or each in function.stages]
        raise MagicError(f"{function.name} has no stage {name!r}; {_hint(name, known)}")
    return Output((stage_section(name, name, function.stages[name]),))
