"""Legalize Relay operators: one module per family, each of which adds its rules to the table.

To add an operator: one line in the family's ``RULES.update``, and its row in
tests/engine/relax/legalize/test_operators.py.
"""

from nnmagic.engine.relax.legalize import (  # noqa: F401 - each adds its rules to the table
    activation,
    attention,
    binary,
    convolution,
    creation,
    data_dependent,
    debugging,
    einsum,
    fourier,
    histogram,
    image,
    indexing,
    linalg,
    lu_decomposition,
    manipulation,
    matmul,
    membership,
    non_max_suppression,
    normalization,
    numpy_random,
    padding,
    partition,
    pooling,
    qnn,
    quantization,
    random,
    reduction,
    reshaping,
    slicing,
    sorting,
    tables,
    unary,
    vision,
)
from nnmagic.engine.relax.legalize.blocked import convolution as blocked_convolution  # noqa: F401
from nnmagic.engine.relax.legalize.blocked import layout as blocked_layout  # noqa: F401
from nnmagic.engine.relax.legalize.blocked import pooling as blocked_pooling  # noqa: F401
from nnmagic.engine.relax.legalize.registry import BLOCKED_RULES, RULES, OpCall, Rule, Value

__all__ = ["BLOCKED_RULES", "RULES", "OpCall", "Rule", "Value"]
