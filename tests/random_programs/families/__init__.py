"""List the families of random programs."""

from __future__ import annotations

import importlib

from tests.random_programs.program import Family

NAMES = (
    "assignments",
    "control_flow",
    "gradients",
    "graphs",
    "language",
    "parallel_loops",
    "relay",
    "sized_nests",
    "tensors",
    "vocabulary",
)


def family_of(name: str) -> Family:
    """Return the family of a name."""
    module = importlib.import_module(f"tests.random_programs.families.{name}")
    family: Family = module.FAMILY
    return family
