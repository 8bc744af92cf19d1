"""Print what docs/models.md says of operators, from their declarations.

python tools/operator_tables.py [import | export | torch | expanded]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping

#: The domains of ONNX as the documentation names them.
_SHOWN = {"": "ai.onnx"}


def import_table() -> str:
    """Return the table of ONNX's operators by domain, with what is not supported of them."""
    from nnmagic.importers.onnx.operators import load_operators
    from nnmagic.importers.onnx.registry import OPERATORS

    load_operators()
    domains = sorted({domain for domain, _ in OPERATORS})
    rows = {
        _SHOWN.get(domain, domain): [
            _with_note(name, OPERATORS[domain, name].note)
            for name in sorted(name for of, name in OPERATORS if of == domain)
        ]
        for domain in domains
    }
    return _table("domain", rows)


def torch_table() -> str:
    """Return the table of torch's operators by namespace, with what is not supported of them."""
    from nnmagic.importers.torch.operators import load_operators
    from nnmagic.importers.torch.registry import OPERATORS

    load_operators()
    rows = {
        namespace: [
            _with_note(name.removeprefix(f"{namespace}."), declaration.note)
            for name, declaration in sorted(OPERATORS.items())
            if name.startswith(f"{namespace}.") and not declaration.refused
        ]
        for namespace in ("aten", "higher_order")
    }
    return _table("namespace", rows)


def export_list() -> str:
    """Return Relay's operators that can be written as ONNX, with what is not supported of them."""
    from nnmagic.exporters.onnx.operators import load_operators
    from nnmagic.exporters.onnx.registry import OPERATORS

    load_operators()
    return ", ".join(_with_note(OPERATORS[name].name, OPERATORS[name].note) for name in sorted(OPERATORS))


def expanded_operators() -> list[str]:
    """Return ONNX's operators without a declaration that the standard itself defines by others."""
    from onnx import defs

    from nnmagic.importers.onnx.operators import load_operators
    from nnmagic.importers.onnx.registry import OPERATORS

    load_operators()
    newest: dict[tuple[str, str], object] = {}
    for schema in defs.get_all_schemas():
        if schema.has_function or schema.has_context_dependent_function:
            newest[schema.domain, schema.name] = schema
    return sorted(name for domain, name in newest if (domain, name) not in OPERATORS)


def _table(head: str, rows: Mapping[str, Iterable[str]]) -> str:
    lines = [f"| {head} | operators |", "|---|---|"]
    return "\n".join(
        [*lines, *(f"| `{name}` | {', '.join(operators)} |" for name, operators in rows.items())]
    )


def _with_note(name: str, note: str) -> str:
    return f"`{name}`" + (f" ({note})" if note else "")


if __name__ == "__main__":
    printers = {"import": import_table, "export": export_list, "torch": torch_table}
    printers["expanded"] = lambda: ", ".join(expanded_operators())
    print(*(printers[name]() for name in sys.argv[1:] or printers), sep="\n\n")
