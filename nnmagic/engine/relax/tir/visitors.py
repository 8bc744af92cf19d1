"""TVM's trees: looked through, and changed, node by node.

As ``tvm_ffi.structural_walk`` and ``structural_map``, which look anew at each call at what its callbacks are
annotated with: that costs 20 us, several thousand times a compilation. Knows TVM's FFI only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi

#: What is done with nodes of a kind, or of one of several kinds; the first entry that fits is taken.
Callbacks = Sequence[tuple[type | tuple[type, ...], Callable[[Any], Any]]]

_WALK, _MAP = tvm_ffi.get_global_func("ffi.StructuralWalk"), tvm_ffi.get_global_func("ffi.StructuralMap")
_PRE, _POST = int(tvm_ffi.WalkOrder.PREORDER), int(tvm_ffi.WalkOrder.POSTORDER)


def visit(root: Any, callbacks: Callbacks, *, before_parts: bool = False) -> None:
    """Calls what fits for each node, after its parts or before them."""
    _WALK(root, _entries(callbacks), [], _PRE if before_parts else _POST)


def rewrite(root: Any, callbacks: Callbacks, *, before_parts: bool = False) -> Any:
    """The tree with what the callbacks give in place of each node.

    A node is looked at after its parts, or before them: then its parts are those of what took its place.
    """
    return _MAP(root, _entries(callbacks), [], _PRE if before_parts else _POST)


def _entries(callbacks: Callbacks) -> list[tuple[int, Callable[[Any], Any]]]:
    return [
        (kind.__tvm_ffi_type_info__.type_index, callback)  # type: ignore[attr-defined]
        for kinds, callback in callbacks
        for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
    ]
