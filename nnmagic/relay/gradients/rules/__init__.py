"""Declare the gradients of all operators, a file for each family; importing this package fills the tables."""

from nnmagic.relay.gradients.registry import EXPANSIONS, REFUSED, RULES, ZERO
from nnmagic.relay.gradients.rules import (  # noqa: F401 - they fill the tables
    binary,
    convolutions,
    decompositions,
    elementwise,
    indexing,
    linear_algebra,
    networks,
    others,
    pooling,
    products,
    reductions,
    sampling,
    shapes,
)

__all__ = ["EXPANSIONS", "REFUSED", "RULES", "ZERO"]
