"""Print a module as text that Relay's own parser reads, with the function to run as ``@main``.

Relay's printer writes some modules that its parser cannot read: six digits of a number, names that are not
identifiers, a binding in an inner scope that is used before it, a let as the value of a let.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nnmagic.diagnostics import RelayError
from nnmagic.engine import engine_error
from nnmagic.relay.expr import Call, Expr, GlobalVar, OpRef, Var, children
from nnmagic.relay.module import Module
from nnmagic.relay.passes import remove_unused_functions, to_a_normal_form
from nnmagic.relay.passes.expand_operators import expand_operators
from nnmagic.relay.structure.traverse import post_order, rewrite_module
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.text.printer import module_text
from nnmagic.relay.types import TensorType

#: How deep a chain of nodes may be: Relay recurses over it; 10,000 fit a stack of 8 MB, 30,000 do not.
MAX_DEPTH = 5000


@dataclass(frozen=True, slots=True)
class RelayProgram:
    """What Relay is given: the module, whose ``@main`` is the function to run, and its text."""

    module: Module
    text: str


def for_relay(module: Module, entry: str) -> RelayProgram:
    """Return the functions that ``entry`` needs as Relay reads them; EngineError if nested too deep."""
    needed = expand_operators(remove_unused_functions(module, (entry,)))
    _check_depth(needed)
    readable = _readable(needed, entry)
    text = module_text(readable, exact=True)
    try:
        parse_module(text)
    except RelayError:  # bindings in an order that Relay cannot read: say the order by lets
        readable = to_a_normal_form(readable)
        text = module_text(readable, exact=True)
    return RelayProgram(readable, text)


def _readable(module: Module, entry: str) -> Module:
    """Rename ``entry`` to ``main`` and names to identifiers, and complete convolutions."""
    names = {entry: "main"}
    for name in module.functions:
        if name != entry:
            names[name] = _make_unique(_identifier(name), names.values())

    def rewrite_node(_old: Expr, new: Expr) -> Expr:
        match new:
            case Call(op=OpRef(name="nn.conv1d" | "nn.conv2d" | "nn.conv3d")):
                return _with_kernel(new)
            case GlobalVar(name=name) if names.get(name, name) != name:
                return replace(new, name=names[name])
            case Var(name_hint=hint) if _identifier(hint) != hint:
                return replace(new, name_hint=_identifier(hint))
        return new

    rewritten = rewrite_module(module, rewrite_node)
    return replace(
        rewritten, functions={names[name]: function for name, function in rewritten.functions.items()}
    )


def _with_kernel(call: Call) -> Call:
    """Add the attributes of a convolution that Relay's build needs though its type inference does not."""
    weight = call.args[1].checked_type
    layout = str(call.attrs["kernel_layout"])
    if not isinstance(weight, TensorType) or len(layout) != len(weight.shape) or "O" not in layout:
        return call
    attrs: dict[str, object] = dict(call.attrs)
    if attrs["kernel_size"] is None:
        attrs["kernel_size"] = tuple(weight.shape[layout.index(axis)] for axis in "DHW" if axis in layout)
    if attrs["channels"] is None and call.attrs["groups"] == 1:
        attrs["channels"] = weight.shape[layout.index("O")]
    return replace(call, attrs=attrs)


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _make_unique(name: str, taken: Iterable[str]) -> str:
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate


def _check_depth(module: Module) -> None:
    depth: dict[Expr, int] = {}
    for function in module.functions.values():
        for node in post_order(function):
            depth[node] = 1 + max((depth.get(child, 0) for child in children(node)), default=0)
            if depth[node] > MAX_DEPTH:
                raise engine_error(
                    f"the engine 'relay' takes no chain of more than {MAX_DEPTH} expressions: "
                    "TVM's Relay recurses over it and would overflow the stack",
                    node.span,
                    hint="engine='relax' has no such limit",
                )
