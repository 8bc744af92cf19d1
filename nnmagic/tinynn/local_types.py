"""The types of a name inside a cell that is being typed, where the cell compiles to Relay as it stands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from synr import ast

from nnmagic.diagnostics import CompileError, Source
from nnmagic.relay.module import Module
from nnmagic.relay.traverse import post_order
from nnmagic.tinynn.compilation import compile_source
from nnmagic.tinynn.names import walk
from nnmagic.tinynn.program import Program

_Place = tuple[int, int, int, int]


def type_of_local(cell: str, name: str, namespace: Mapping[str, object]) -> str | None:
    """What the cell's functions bind a name to: ``d: Tensor[(2, 4), float32]``, a line a type.

    None for a name that no function of the cell binds, and where the cell has errors.
    """
    _, _, body = cell.partition("\n")
    try:
        program = compile_source(Source("<tinynn>", body, first_line=2), namespace)
    except CompileError:
        return None
    types = dict.fromkeys(_types_of(program, name))
    return "\n".join(f"{name}: {type_}" for type_ in types) or None


def _types_of(program: Program, name: str) -> Iterator[str]:
    """The types of a parameter of that name, and of what is assigned to it."""
    for info in program.functions:
        for param in program.module.functions[info.name].params:
            if param.name_hint == name:
                yield str(param.checked_type)
    types = _types_by_place(program.module)
    for node in walk(program.tree):
        if isinstance(node, ast.Assign) and any(target.id.name == name for target in node.lhs):
            found = types.get(_place(node.rhs))
            if found is not None:
                yield found


def _place(node: ast.Node) -> _Place:
    span = node.span
    return span.start_line, span.start_column, span.end_line, span.end_column


def _types_by_place(module: Module) -> Mapping[_Place, str]:
    """The type of what each stretch of source computes; of those that share one, the last computed."""
    found: dict[_Place, str] = {}
    for function in module.functions.values():
        for node in post_order(function):
            if node.span is not None and node.checked_type is not None:
                span = node.span
                found[span.line, span.column, span.end_line, span.end_column] = str(node.checked_type)
    return found
