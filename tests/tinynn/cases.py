"""Compiles cells for the tests: to a program, to its untyped text, or to its errors."""

from __future__ import annotations

from collections.abc import Mapping

from nnmagic.diagnostics import Diagnostic, Source, TinyNNError
from nnmagic.relay.infer import erase_types
from nnmagic.tinynn import Program, compile_source


def program_of(text: str, namespace: Mapping[str, object] | None = None) -> Program:
    """The program of a cell whose first line is line 2, as in a notebook."""
    return compile_source(Source("cell", text, first_line=2), namespace or {})


def text_of(text: str, namespace: Mapping[str, object] | None = None) -> str:
    """The Relay text that a cell shows."""
    return str(erase_types(program_of(text, namespace).module))


def errors_of(text: str, namespace: Mapping[str, object] | None = None) -> tuple[Diagnostic, ...]:
    """The errors of a cell; none where it compiles."""
    try:
        program_of(text, namespace)
    except TinyNNError as error:
        return error.diagnostics
    return ()


def messages_of(text: str, namespace: Mapping[str, object] | None = None) -> list[tuple[int, int, int, str]]:
    """The errors of a cell as (line, column, end column, message)."""
    messages = []
    for error in errors_of(text, namespace):
        assert error.span is not None
        messages.append((error.span.line, error.span.column, error.span.end_column, error.message))
    return messages
