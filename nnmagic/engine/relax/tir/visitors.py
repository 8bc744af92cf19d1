"""Visit and rewrite TVM's trees, node by node.

As ``tvm_ffi.structural_walk`` and ``structural_map``, which inspect their callbacks' annotations at every
call: that costs 20 us, several thousand times a compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi

from nnmagic.engine.relax.tir.types import Node, PrimFunc

#: Callbacks by the type of node, or by several types; the first entry that fits is taken.
Callbacks = Sequence[tuple[type | tuple[type, ...], Callable[[Any], Any]]]

_WALK, _MAP = tvm_ffi.get_global_func("ffi.StructuralWalk"), tvm_ffi.get_global_func("ffi.StructuralMap")
_PRE, _POST = int(tvm_ffi.WalkOrder.PREORDER), int(tvm_ffi.WalkOrder.POSTORDER)


def visit(root: Node, callbacks: Callbacks, *, before_parts: bool = False) -> None:
    """Call the callback that fits for each node, after its parts or before them."""
    _WALK(root, _entries(callbacks), [], _PRE if before_parts else _POST)


def rewrite(root: Node, callbacks: Callbacks, *, before_parts: bool = False) -> Node:
    """Return the tree with each node replaced by the result of its callback.

    A node is visited after its parts. With ``before_parts`` it is visited first, and then the parts of its
    replacement.
    """
    return _MAP(root, _entries(callbacks), [], _PRE if before_parts else _POST)


def rewrite_body(function: PrimFunc, callbacks: Callbacks) -> PrimFunc:
    """Return the function with a rewritten body, or itself where nothing changes."""
    return with_body(function, rewrite(function.body, callbacks))


def with_body(function: PrimFunc, body: Node) -> PrimFunc:
    """Return the function with another body, or itself if it is the same one."""
    return function if body.same_as(function.body) else function.with_body(body)


def contains(root: Node, kind: type) -> bool:
    """Return whether a node of the kind is in the tree."""
    found: list[Node] = []
    visit(root, [(kind, found.append)])
    return bool(found)


def _entries(callbacks: Callbacks) -> list[tuple[int, Callable[[Any], Any]]]:
    return [
        (kind.__tvm_ffi_type_info__.type_index, callback)  # type: ignore[attr-defined]
        for kinds, callback in callbacks
        for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
    ]
