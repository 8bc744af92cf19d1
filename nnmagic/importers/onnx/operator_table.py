"""Write the table of operators that docs/models.md shows, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator

from nnmagic.importers.onnx.operators import load_operators
from nnmagic.importers.onnx.registry import OPERATORS

#: The domains as the documentation names them.
_SHOWN = {"": "ai.onnx"}


def operator_table() -> str:
    """Return a Markdown table of the operators of each domain, with what is not supported of them."""
    return "\n".join(_rows())


def _rows() -> Iterator[str]:
    load_operators()
    yield "| domain | operators |"
    yield "|---|---|"
    for domain in sorted({domain for domain, _ in OPERATORS}):
        names = sorted(name for of, name in OPERATORS if of == domain)
        shown = (f"`{name}`{_note(OPERATORS[domain, name].note)}" for name in names)
        yield f"| `{_SHOWN.get(domain, domain)}` | {', '.join(shown)} |"


def _note(note: str) -> str:
    return f" ({note})" if note else ""


def expanded_operators() -> list[str]:
    """Return the operators without a declaration that the standard itself defines by others."""
    from onnx import defs

    load_operators()
    newest: dict[tuple[str, str], object] = {}
    for schema in defs.get_all_schemas():
        if schema.has_function or schema.has_context_dependent_function:
            newest[schema.domain, schema.name] = schema
    return sorted(name for domain, name in newest if (domain, name) not in OPERATORS)
