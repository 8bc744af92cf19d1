"""Declare the rules of all operators, a file for each family."""

from __future__ import annotations

import importlib

_FAMILIES = (
    *("elementwise", "reductions", "products", "shaping", "indexing", "sorting", "creation"),
    *("convolutions", "pooling", "normalization", "images", "signal", "quantization"),
)


def load_operators() -> None:
    """Import the files that declare the rules."""
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
