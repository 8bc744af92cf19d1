"""Write the table of operators that docs/models.md shows, from their declarations."""

from __future__ import annotations

from collections.abc import Iterator

from nnmagic.importers.torch.operators import load_operators
from nnmagic.importers.torch.registry import OPERATORS


def operator_table() -> str:
    """Return a Markdown table of the operators of each namespace, with what is not supported of them."""
    return "\n".join(_rows())


def _rows() -> Iterator[str]:
    load_operators()
    yield "| namespace | operators |"
    yield "|---|---|"
    for namespace in ("aten", "higher_order"):
        prefix = f"{namespace}."
        shown = (
            f"`{name.removeprefix(prefix)}`" + (f" ({declaration.note})" if declaration.note else "")
            for name, declaration in sorted(OPERATORS.items())
            if name.startswith(prefix) and not declaration.refused
        )
        yield f"| `{namespace}` | {', '.join(shown)} |"
