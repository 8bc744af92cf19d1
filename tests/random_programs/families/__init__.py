"""List the families of random programs."""

from __future__ import annotations

import importlib

from tests.random_programs.program import Family, Rules

NAMES = (
    "assignments",
    "changing_sizes",
    "control_flow",
    "gradients",
    "graphs",
    "language",
    "parallel_loops",
    "python",
    "relay",
    "sized_nests",
    "tensors",
    "views",
    "vocabulary",
)
#: Families that need the package torch; a search has them only where it names them.
OF_TORCH = ("torch_memory",)


def family_of(name: str) -> Family:
    """Return the family of a name."""
    module = importlib.import_module(f"tests.random_programs.families.{name}")
    family: Family = module.FAMILY
    return family


def rules_of(name: str) -> Rules:
    """Return what the judges of a family allow."""
    module = importlib.import_module(f"tests.random_programs.families.{name}")
    rules: Rules = module.RULES
    return rules
