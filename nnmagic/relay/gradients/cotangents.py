"""Collect contributions to cotangents."""

from __future__ import annotations

from collections.abc import Mapping

from nnmagic.relay.expr import Expr, Var
from nnmagic.relay.gradients.activity import type_of
from nnmagic.relay.gradients.vjp_call import Update
from nnmagic.relay.ops.calls import call
from nnmagic.relay.structure.tuple_trees import Tree, leaf_types, leaves, project, tree_of
from nnmagic.relay.tensor_expr import TensorExpr


class Cotangents:
    """The contributions to the cotangents of variables, leaf by leaf.

    Updates of a part are applied after everything else was summed, so that they change one tensor.
    """

    def __init__(self, values: Mapping[Expr, Expr]) -> None:
        self.values = values
        self._parts: dict[Var, list[list[Expr | Update]]] = {}

    def add(self, var: Expr, tree: Tree) -> None:
        """Add a contribution to a variable's cotangent: a tree of expressions, terms, updates or Nones."""
        if not isinstance(var, Var):
            return
        added = leaves(tree, type_of(var))
        if all(addend is None for addend in added):
            return
        parts = self._parts.setdefault(var, [[] for _ in added])
        for all_, addend in zip(parts, added, strict=True):
            if addend is not None:
                all_.append(addend.expr if isinstance(addend, TensorExpr) else addend)

    def variables(self) -> list[Var]:
        """Return the variables that have a cotangent."""
        return list(self._parts)

    def of(self, var: Var) -> Tree:
        """Return the cotangent of a variable as a tree of expressions; None where nothing flows."""
        if var not in self._parts:
            return None
        type_ = type_of(var)
        primals = project(self.values.get(var, var), type_)
        sums = [_total(parts, primal) for parts, primal in zip(self._parts[var], primals, strict=True)]
        self._parts[var] = [[] if total is None else [total] for total in sums]
        return tree_of(iter(sums), type_)

    def leaves(self, var: Var) -> list[Expr | None]:
        """Return the leaves of a variable's cotangent."""
        return leaves(self.of(var), type_of(var))


def _total(parts: list[Expr | Update], primal: Expr) -> Expr | None:
    """Return the sum of contributions; None without one."""
    total: Expr | None = None
    for term in parts:
        if not isinstance(term, Update):
            total = term if total is None else call("add", [total, term], term.span)
    for term in parts:
        if isinstance(term, Update):
            if total is None:
                total = call("zeros_like", [primal], primal.span)
            total = term.apply(total)
    return total


def zeros_like(primal: Expr) -> Expr:
    """Return zeros of the shape of a value."""
    return call("zeros_like", [primal], primal.span)


__all__ = ["Cotangents", "leaf_types", "zeros_like"]
