"""What each Relay operator becomes in Relax, a file a family; importing this package fills the table.

To add an operator: one line in the family's ``RULES.update``, and its row in tests/engine/test_operators.py.
"""

from nnmagic.engine.relax.operators import (
    activation,
    binary,
    blocked,
    convolution,
    creation,
    dense,
    dynamic,
    fourier,
    image,
    indexing,
    normalization,
    pooling,
    qnn,
    quantization,
    random,
    reduction,
    shaping,
    sorting,
    suppression,
    unary,
    vision,
)
from nnmagic.engine.relax.operators.rule import BLOCKED_RULES, RULES, Rule, Site, Value

__all__ = [
    "BLOCKED_RULES",
    "RULES",
    "Rule",
    "Site",
    "Value",
    "activation",
    "binary",
    "blocked",
    "convolution",
    "creation",
    "dense",
    "dynamic",
    "fourier",
    "image",
    "indexing",
    "normalization",
    "pooling",
    "qnn",
    "quantization",
    "random",
    "reduction",
    "shaping",
    "sorting",
    "suppression",
    "unary",
    "vision",
]
