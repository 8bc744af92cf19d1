"""Functions as values taken out of a program where they need not be there. Knows passes only.

What is left without them runs on TVM's machine, with kernels fused across what was calls.
"""

from __future__ import annotations

from nnmagic.relay.module import Module
from nnmagic.relay.passes import inline, inline_closures, remove_unused_functions, simplify_control_flow

#: Functions that make functions are taken apart from the outside in: a round for each level.
_MAX_ROUNDS = 8
#: A function with more nodes is better called.
_MAX_NODES = 20_000


def eliminate_closures(module: Module, entry: str) -> Module:
    """The typed module with function values put where they are called, as far as they are only called."""
    module = remove_unused_functions(module, (entry,))
    for _ in range(_MAX_ROUNDS):
        before = module
        module = inline(module, "higher_order", max_nodes=_MAX_NODES)
        module = inline_closures(module, max_nodes=_MAX_NODES)
        if module is before:
            break
        module = remove_unused_functions(simplify_control_flow(module), (entry,))
    return module
