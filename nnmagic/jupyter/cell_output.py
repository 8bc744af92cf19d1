"""Render what a cell or a function shows: the stages that ``--show`` names, and the graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nnmagic.diagnostics import closest
from nnmagic.functions.stages import CUDA_STAGE, STAGES
from nnmagic.jupyter.errors import MagicError

if TYPE_CHECKING:
    from nnmagic.functions.cells.compile_cell import CompiledCell
    from nnmagic.functions.compiled import CompiledFunction
    from nnmagic.functions.specializing import SpecializingFunction
    from nnmagic.rendering.listing import Origins
    from nnmagic.rendering.output import Output, Section

#: Everything that can be shown, by name.
SHOWN = (*STAGES, CUDA_STAGE, "graph")


def parse_show_option(text: str) -> list[str]:
    """Return the names of a comma-separated list. Raises MagicError for an unknown name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in SHOWN:
            raise MagicError(f"there is no stage {name!r}; {_hint(name, SHOWN)}")
    if not names:
        raise MagicError(f"no stage is named; the stages are {', '.join(SHOWN)}")
    return list(dict.fromkeys(names))


def _hint(name: str, stages: Sequence[str]) -> str:
    """Return a hint for an unknown name."""
    close = closest(name, stages)
    return f"did you mean {close}?" if close else f"the stages are {', '.join(stages)}"


def render_cell(cell: CompiledCell, names: list[str], note: str | None) -> Output:
    """Render Relay for the cell as a whole and the other stages for each function; ``note`` comes last."""
    from nnmagic.rendering.output import Output, plain

    sections: list[Section] = []
    for name in names:
        if name not in cell.shown:
            cell.shown[name] = _sections(cell, name)
        sections += cell.shown[name]
    if names and cell.specializing:
        sections += [section for each in cell.specializing for section in each._sections()]
    if note is not None:
        sections.append(plain("cache", note))
    return Output(tuple(sections))


def _sections(cell: CompiledCell, name: str) -> list[Section]:
    """Render the sections of one stage."""
    from nnmagic.rendering.graph import graph_of
    from nnmagic.rendering.sections import relay_section, stage_section

    if not cell.functions and cell.specializing and not cell.types:
        return []
    match name:
        case "relay":
            from_relay = bool(cell.functions) and cell.functions[0]._definition.language == "relay"
            origins: Origins = "none" if from_relay else "hover"  # the source itself stands right above
            changing = [each._head() for each in cell.functions if each._call.destinations]
            return [relay_section(cell.compiled, cell.relay_text, changing, origins=origins)]
        case "graph":
            return [graph_of(cell.compiled).section(name)]
        case "relay-typed":
            return [stage_section(name, name, str(cell.compiled))]
    for function in cell.functions:
        if name == "tree" and name not in function.stages:
            raise MagicError(f"a function from Relay text has no stage {name!r}")
        _check_stage(function, name)
    if name == "linked":
        return [each._definition.link_stages.section(f"{each.name}: {name}") for each in cell.functions]
    named = [(f"{function.name}: {name}", function.stages[name]) for function in cell.functions]
    return [stage_section(title, name, text) for title, text in named]


def _check_stage(function: CompiledFunction, name: str) -> None:
    """Raise MagicError if a function has no such stage."""
    if name not in function.stages:
        stages = [stage for stage in SHOWN if stage == "graph" or stage in function.stages]
        hint = "compile it with --target cuda" if name == CUDA_STAGE else _hint(name, stages)
        raise MagicError(f"{function.name} has no stage {name!r}; {hint}")


def render_function(function: CompiledFunction | SpecializingFunction, name: str) -> Output:
    """Render a stage of a function, of each specialization if it has some. Raises MagicError."""
    from nnmagic.functions.specializing import SpecializingFunction
    from nnmagic.rendering.output import Output
    from nnmagic.rendering.sections import stage_section

    if isinstance(function, SpecializingFunction):
        if name == "relay":
            return Output(tuple(function._sections()))
        if not function.specializations:
            message = f"{function.name} has no stage {name!r} yet: its first call compiles it for its types"
            raise MagicError(message)
        rendered = [render_function(specialization, name) for specialization in function.specializations]
        return Output(tuple(section for each in rendered for section in each.sections))
    if name == "relay":
        return Output((function._section(),))
    if name == "graph":
        return Output((function.graph.section(name),))
    _check_stage(function, name)
    if name == "linked":
        return Output((function._definition.link_stages.section(name),))
    return Output((stage_section(name, name, function.stages[name]),))
