"""Declare ATen's operators, a file for each family."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache


@cache
def load_operators() -> None:
    """Import the files of all families, which fills the table of operators."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
