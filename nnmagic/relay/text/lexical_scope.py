"""Resolve the names in a function while it is parsed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnmagic.relay.expr import Constructor, Expr, Var
from nnmagic.relay.structure.traverse import binders, post_order


@dataclass(slots=True)
class LexicalScope:
    """The names of the module (shared by its functions) and of the current function.

    ``graph`` holds what ``%0`` stands for; these numbers are the module's, not a function's.
    """

    constructors: Mapping[str, Constructor]
    graph: dict[str, Expr]
    variables: dict[str, Var] = field(default_factory=dict)
    #: The variables of lets that have ended: as in Relay, the scope around the let still has their names.
    ended: set[Var] = field(default_factory=set)
    #: The numbers that this function has bound, or may use nevertheless.
    _usable: set[str] = field(default_factory=set)
    #: For each open scope the names bound in it, with their previous meaning.
    _open: list[dict[str, Var | None]] = field(default_factory=lambda: [{}])

    def bind_graph(self, number: str, value: Expr) -> bool:
        """Bind a number to a value, unless it has one; return whether it may be used here."""
        if number not in self.graph:
            self.graph[number] = value
            self._usable.add(number)
        return self.may_use(number)

    def may_use(self, number: str) -> bool:
        """Return whether a number's value contains no variables of another function."""
        if number not in self._usable:
            if _has_free_variables(self.graph[number]):
                return False
            self._usable.add(number)
        return True

    def bind(self, name: str, var: Var) -> None:
        """Bind ``name`` in this scope; of two variables of one name, Relay takes the first."""
        bound = self._open[-1]
        if name not in bound:
            bound[name] = self.variables.get(name)
            self.variables[name] = var

    def enter(self) -> None:
        """Open a scope."""
        self._open.append({})

    def leave(self, count: int = 1) -> None:
        """Close scopes and forget their bindings."""
        for _ in range(count):
            for name, before in self._open.pop().items():
                if before is None:
                    del self.variables[name]
                else:
                    self.variables[name] = before


def _has_free_variables(root: Expr) -> bool:
    """Return whether an expression uses variables that it does not bind itself."""
    nodes = list(post_order(root))
    bound = {var for node in nodes for var in binders(node)}
    return any(isinstance(node, Var) and node not in bound for node in nodes)
