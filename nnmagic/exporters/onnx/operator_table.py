"""Write the list of operators that docs/models.md shows, from their declarations."""

from __future__ import annotations

from nnmagic.exporters.onnx.operators import load_operators
from nnmagic.exporters.onnx.registry import OPERATORS


def operator_list() -> str:
    """Return the operators of Relay that can be exported, with what is not supported of them."""
    load_operators()
    rows = (OPERATORS[name] for name in sorted(OPERATORS))
    return ", ".join(f"`{row.name}`" + (f" ({row.note})" if row.note else "") for row in rows)
