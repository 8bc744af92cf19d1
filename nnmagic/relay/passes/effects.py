"""Decide which expressions have effects: they read, write or create references, or print.

Calls of functions of Python have them, too, where they are declared so.
"""

from __future__ import annotations

from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import has_effects
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import call_graph, components
from nnmagic.relay.structure.traverse import post_order


class Effects:
    """The effects of the expressions of one module, and of those that passes derive from it.

    A call of a function value (a variable, a closure) may have any effect that the module has at all.
    Nontermination is no effect, as in Relay.
    """

    def __init__(self, module: Module) -> None:
        nodes = {name: list(post_order(function)) for name, function in module.functions.items()}
        self._none = not any(
            isinstance(node, _REFERENCES) or has_effects(node) or _prints(node)
            for own_nodes in nodes.values()
            for node in own_nodes
        )
        self._pure: set[str] = set()
        self._known: dict[ir.Expr, bool] = {}
        for group in components(call_graph(module)):  # callees first
            # Functions that call one another are pure together or not at all.
            self._pure.update(group)
            if any(self.own(node) for name in group for node in nodes[name]):
                self._pure.difference_update(group)

    def own(self, node: ir.Expr) -> bool:
        """Return whether computing a node may have an effect, its parts aside."""
        if self._none:
            return False
        if isinstance(node, ir.Call) and not isinstance(node.op, ir.OpRef | ir.Constructor):
            return not isinstance(node.op, ir.GlobalVar) or node.op.name not in self._pure
        return isinstance(node, _REFERENCES) or has_effects(node) or _prints(node)

    def within(self, root: ir.Expr) -> bool:
        """Return whether computing an expression may have an effect; making a function has none."""
        if self._none:
            return False
        for node in post_order(root, skip=self._known):
            inner = not isinstance(node, ir.Function) and any(map(self._known.__getitem__, ir.children(node)))
            self._known[node] = inner or self.own(node)
        return self._known[root]


def _prints(node: ir.Expr) -> bool:
    return ir.operator_of(node) == "python.print"


_REFERENCES = (ir.RefCreate, ir.RefRead, ir.RefWrite)
