"""Eliminate closures: inline function values where they are only called.

A program that is left without them runs on TVM's virtual machine, with kernels fused across former calls.
"""

from __future__ import annotations

from nnmagic.relay.module import Module
from nnmagic.relay.passes import inline, inline_closures, remove_unused_functions, simplify_control_flow

#: Functions that return functions are inlined from the outside in: one round for each level.
_MAX_ROUNDS = 8
#: Functions with more nodes are called, not inlined.
_MAX_NODES = 20_000


def eliminate_closures(module: Module, entry: str) -> Module:
    """Inline the function values of a typed module where they are called, as far as they are only called."""
    module = remove_unused_functions(module, (entry,))
    for _ in range(_MAX_ROUNDS):
        previous = module
        module = inline(module, "higher_order", max_nodes=_MAX_NODES)
        module = inline_closures(module, max_nodes=_MAX_NODES)
        # Each pass returns its operand where it changes nothing.
        if module is previous:
            break
        module = remove_unused_functions(simplify_control_flow(module), (entry,))
    return module
