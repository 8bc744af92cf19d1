"""Visit and rewrite TVM's trees, node by node.

As ``tvm_ffi.structural_walk`` and ``structural_map``, which inspect their callbacks' annotations at every
call: that costs 20 us, several thousand times a compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
import tvm_ffi

from nnmagic.engine.relax.tir.types import Node, Var

#: Callbacks by the type of node, or by several types; the first entry that fits is taken.
Callbacks = Sequence[tuple[type | tuple[type, ...], Callable[[Any], Any]]]

_WALK, _MAP = tvm_ffi.get_global_func("ffi.StructuralWalk"), tvm_ffi.get_global_func("ffi.StructuralMap")
_PRE, _POST = int(tvm_ffi.WalkOrder.PREORDER), int(tvm_ffi.WalkOrder.POSTORDER)


def visit(root: Node, callbacks: Callbacks, *, before_parts: bool = False) -> None:
    """Call the callback that fits for each node, after its parts or before them."""
    _WALK(root, _entries(callbacks), [], _PRE if before_parts else _POST)


def rewrite(root: Node, callbacks: Callbacks, *, before_parts: bool = False) -> Node:
    """Return the tree with each node replaced by the result of its callback; itself if nothing changes.

    A node is visited after its parts. With ``before_parts`` it is visited first, and then the parts of its
    replacement. The tree may be a whole function: to make one of a new body, TVM walks through the body.
    """
    return _MAP(root, _entries(callbacks), [], _PRE if before_parts else _POST)


class VarMap:
    """What replaces variables.

    A dictionary would compare keys by ``==``, for which TVM makes an expression whenever a key is found.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[Var, Node] | None = None) -> None:
        self._items: dict[int, tuple[Var, Node]] = {}
        for var, value in (items or {}).items():
            self[var] = value

    def __setitem__(self, var: Var, value: Node) -> None:
        self._items[hash(var)] = var, value  # the hash is the address: of no other while the variable is kept

    def replace(self, var: Var) -> Node:
        """Return what replaces the variable; itself if nothing does."""
        item = self._items.get(hash(var))
        return var if item is None else item[1]


def replace_vars(root: Node, replacements: Mapping[Var, Node]) -> Node:
    """Return the tree with other nodes for variables."""
    return rewrite(root, [(tvm.ir.Var, VarMap(replacements).replace)])


def collect(kinds: type | tuple[type, ...], *roots: Node) -> list[Node]:
    """Return the nodes of some kinds in trees, each after its parts."""
    matches: list[Node] = []
    for root in roots:
        visit(root, [(kinds, matches.append)])
    return matches


def _entries(callbacks: Callbacks) -> list[tuple[int, Callable[[Any], Any]]]:
    return [
        (kind.__tvm_ffi_type_info__.type_index, callback)  # type: ignore[attr-defined]
        for kinds, callback in callbacks
        for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
    ]
