"""Check kernels, and the rounds of ``prange``: loops over elements, without operators of whole arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from dataclasses import replace

from nnmagic.diagnostics import Diagnostics
from nnmagic.relay.annotations import KERNEL, PARALLEL, PRANGE
from nnmagic.relay.callbacks import callbacks_in, is_callback
from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, Match, OpRef, children
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import Trait, operators_with
from nnmagic.relay.structure.callgraph import call_graph, reachable, recursive_functions
from nnmagic.relay.structure.traverse import post_order, rewrite_module
from nnmagic.relay.types import FuncType, TensorType
from nnmagic.tinynn.values.promotion import Say

#: Operators that make an array, which a kernel may then fill, and those that give sizes.
_MAKING = operators_with(Trait.FILLS) | {"copy", "shape_of"}

#: Operators of parts of one index, and of one element.
_INDEXING = frozenset(("take", "scatter_nd", "expand_dims", "concatenate", "reshape"))

#: Operators that draw a random number, or an array of them.
_DRAWING = frozenset(("numpy.pcg64", "numpy.pcg64_seed"))


def check_kernels(module: Module, diagnostics: Diagnostics) -> None:
    """Report, of each kernel of a typed module, the first expression that needs the graph level."""
    recursive = recursive_functions(call_graph(module))
    for name, function in module.functions.items():
        if KERNEL not in function.attrs:
            continue
        names_beyond = _find_beyond(module, function)
        if name in recursive:
            hint = "write a loop, or leave `@kernel` out"
            diagnostics.error(f"the kernel `{name}` calls itself", function.span, hint=hint)
        elif names_beyond is not None:
            node, what = names_beyond
            hint = "write a loop over elements, or leave `@kernel` out"
            diagnostics.error(
                f"{what}, which the kernel `{name}` cannot", node.span or function.span, hint=hint
            )


def settle_pranges(module: Module, say: Say) -> Module:
    """Return a typed module whose loops over ``prange`` are parallel where threads can share their rounds.

    A line says of each other one why its rounds run one after the other.
    """
    recursive = recursive_functions(call_graph(module))
    pranges: dict[Expr, dict[str, object]] = {}
    for function in module.functions.values():
        for node in post_order(function):
            if not isinstance(node, Function) or PRANGE not in node.attrs:
                continue
            pranges[node] = dict(node.attrs)
            reasons = (_beyond_round(part, recursive) for part in post_order(node.body))
            why = next((reason for reason in reasons if reason is not None), None)
            if why is not None and node.span is not None:
                del pranges[node][PARALLEL], pranges[node][PRANGE]
                say(in_order(why), node.span, hint="let a round compute single elements, or write range(...)")
    if not pranges:
        return module

    def with_attrs(old: Expr, new: Expr) -> Expr:
        return replace(new, attrs=pranges[old]) if old in pranges and isinstance(new, Function) else new

    return infer_type(rewrite_module(module, with_attrs))


def in_order(why: str) -> str:
    """Return the line about a loop over ``prange`` that is none of threads."""
    return f"the rounds of this prange run one after the other: {why}"


def _beyond_round(node: Expr, recursive: Container[str]) -> str | None:
    """Return what an expression does that threads cannot do in rounds; None for what is not."""
    if not isinstance(node, Call):
        return None
    if isinstance(node.op, GlobalVar):
        if node.op.name in recursive:
            return f"`{node.op.name}` calls itself"
        return None if _is_element(node) else f"`{node.op.name}` computes whole arrays"
    if not isinstance(node.op, OpRef):
        return None
    name = node.op.name
    if name == "scatter_nd":
        return "it assigns several elements at once" if _rank(node.args[2]) else None
    if name in (*_INDEXING, *_MAKING, "strided_slice", "squeeze"):
        return None
    if _is_element(node):
        return f"`{name}` goes over a whole array" if any(map(_rank, node.args)) else None
    return f"`{name}` computes a whole array"


def _find_beyond(module: Module, function: Function) -> tuple[Expr, str] | None:
    users = defaultdict[Expr, list[Expr]](list)
    nodes = list(post_order(function))
    for node in nodes:
        for child in children(node):
            users[child].append(node)
    for node in nodes:
        what = _beyond(module, node, users)
        if what is not None:
            return node, what
    return None


def _beyond(module: Module, node: Expr, users: dict[Expr, list[Expr]]) -> str | None:
    """Return what an expression does that is beyond a kernel; None for what is not."""
    if isinstance(node, Match):
        return None if node.assertion is not None else "this takes a value of a data type apart"
    if not isinstance(node, Call):
        return None
    if is_callback(node):
        return "this calls Python"
    if isinstance(node.op, GlobalVar):
        callee = module.functions.get(node.op.name)
        needed = reachable(call_graph(module), node.op.name) if callee is not None else ()
        if any(callbacks_in(module.functions[name]) for name in needed):
            return f"`{node.op.name}` calls Python"
        if callee is None or KERNEL in callee.attrs or _is_element(node):
            return None
        return f"`{node.op.name}` computes whole arrays"
    if not isinstance(node.op, OpRef):
        return None
    name = node.op.name
    if _is_element(node) or name in _MAKING:
        reduces = any(_rank(arg) for arg in node.args) and name not in (*_INDEXING, *_MAKING)
        return f"`{name}` goes over a whole array" if reduces else None
    if name in _DRAWING:
        return f"`{name}` draws a whole array" if any(map(_rank, node.args[1:])) else None
    if name not in _INDEXING:
        return f"`{name}` computes a whole array"
    if name == "take":
        whole = [user for user in users[node] if not _takes(user)]
        return "this reads a whole row" if whole else None
    if name == "scatter_nd":
        return None if not _rank(node.args[2]) else "this assigns several elements at once"
    if name in ("concatenate", "reshape") and _rank(node) != 1:
        return f"`{name}` computes a whole array"
    return None


def _takes(user: Expr) -> bool:
    return isinstance(user, Call) and isinstance(user.op, OpRef) and user.op.name in ("take", "shape_of")


def _rank(node: Expr) -> int:
    type_ = node.checked_type
    return len(type_.shape) if isinstance(type_, TensorType) else 0


def _is_element(node: Expr) -> bool:
    type_ = node.checked_type
    return not isinstance(type_, FuncType) and isinstance(type_, TensorType) and not type_.shape
