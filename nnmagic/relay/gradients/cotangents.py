"""Collect contributions to cotangents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from nnmagic.relay.expr import Expr, Var
from nnmagic.relay.gradients.blocks import type_of
from nnmagic.relay.gradients.data_types import DataTypes
from nnmagic.relay.gradients.vjp_call import IndexedSlice, Update
from nnmagic.relay.structure.tuple_trees import Tree, leaf_types, leaves, project, tree_of
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import TensorType, Type


class Cotangents:
    """The contributions to the cotangents of variables, leaf by leaf.

    Updates of a part are applied after everything else was summed, so that they change one tensor.
    """

    def __init__(self, values: Mapping[Expr, Expr], data_types: DataTypes) -> None:
        self.values = values
        self.data_types = data_types
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
        sums = [
            self._total(parts, primal, leaf)
            for parts, primal, leaf in zip(self._parts[var], primals, leaf_types(type_), strict=True)
        ]
        # The sum replaces its terms: a second question computes it no second time.
        self._parts[var] = [[] if total is None else [total] for total in sums]
        return tree_of(iter(sums), type_)

    def take(self, var: Expr) -> list[Expr | None]:
        """Return the leaves of a variable's cotangent so far, once: what adds to them gives them back."""
        taken = self.leaves(var) if isinstance(var, Var) and var in self._parts else []
        self._parts.pop(cast("Var", var), None)
        return taken

    def pop_slices(self, var: Var) -> list[IndexedSlice]:
        """Return the contributions to a tensor, once, if each is a slice of it; else none."""
        (parts,) = self._parts.get(var, [[]]) if isinstance(type_of(var), TensorType) else [[]]
        found = [term.slice for term in parts if isinstance(term, Update) and term.slice is not None]
        if len(found) < len(parts):
            return []
        parts.clear()
        return found

    def leaves(self, var: Var) -> list[Expr | None]:
        """Return the leaves of a variable's cotangent."""
        return leaves(self.of(var), type_of(var))

    def filled(self, var: Var, primal: Expr) -> list[Expr]:
        """Return the leaves of a variable's cotangent, with zeros like those of the primal."""
        primals = zip(project(primal, type_of(var)), leaf_types(type_of(var)), strict=True)
        return [
            self.data_types.zero(own, type_) if leaf is None else leaf
            for leaf, (own, type_) in zip(self.leaves(var), primals, strict=True)
        ]

    def _total(self, parts: list[Expr | Update], primal: Expr, type_: Type) -> Expr | None:
        """Return the sum of contributions; None without one."""
        total: Expr | None = None
        for term in parts:
            if not isinstance(term, Update):
                total = term if total is None else self.data_types.sum(total, term, type_)
        for term in parts:
            if isinstance(term, Update):
                total = term.apply(self.data_types.zero(primal, type_) if total is None else total)
        return total
