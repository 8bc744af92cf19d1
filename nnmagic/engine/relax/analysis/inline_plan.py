"""Plan which global functions are inlined into their callers.

Inlining saves the call and lets kernels fuse across functions. Recursive and large functions
stay functions, and so do checkpoints, whose values the backward pass computes again.
"""

from __future__ import annotations

from dataclasses import dataclass

from nnmagic.relay.annotations import KERNEL
from nnmagic.relay.expr import GlobalVar
from nnmagic.relay.module import Module
from nnmagic.relay.passes.inlining import CHECKPOINT
from nnmagic.relay.structure.callgraph import CallGraph, components, recursive_functions
from nnmagic.relay.structure.traverse import post_order

#: A function with more nodes than this, inlined ones included, is called instead.
MAX_NODES = 2000

#: How deep functions are inlined into one another; lowering recurses over them.
MAX_DEPTH = 50


@dataclass(frozen=True, slots=True)
class InlinePlan:
    """The functions to inline, and the recursive ones, which cannot be."""

    inlined: frozenset[str]
    recursive: frozenset[str]


def plan_inlining(module: Module, graph: CallGraph) -> InlinePlan:
    """Decide for every function of a module with the call graph ``graph``. Linear in the module's size."""
    recursive = recursive_functions(graph)
    nodes: dict[str, int] = {}
    depth: dict[str, int] = {}
    inlined: set[str] = set()
    for name in (name for group in components(graph) for name in group):  # callees first
        size, deepest = 0, 0
        for node in post_order(module.functions[name]):
            size += 1
            if isinstance(node, GlobalVar) and node.name in inlined:
                size += nodes[node.name]
                deepest = max(deepest, depth[node.name])
        nodes[name], depth[name] = size, deepest + 1
        generic = bool(module.functions[name].type_params)
        attrs = module.functions[name].attrs
        if KERNEL in attrs or (CHECKPOINT in attrs and not generic):
            continue
        if name not in recursive and ((size <= MAX_NODES and depth[name] <= MAX_DEPTH) or generic):
            inlined.add(name)
    return InlinePlan(frozenset(inlined), recursive)
