"""Refuse Relay whose loops claim to be parallel: the engine believes it, and only a cell proves it."""

from __future__ import annotations

from nnmagic.diagnostics import Diagnostic, RelayError
from nnmagic.relay.annotations import PARALLEL
from nnmagic.relay.expr import Function
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order

_HINT = f"leave the attribute `{PARALLEL}` out, or write the loop in a cell"


def refuse_unproven(module: Module, hint: str = _HINT) -> None:
    """Raise RelayError, with this hint, for a loop that is marked as parallel."""
    for function in module.functions.values():
        for node in post_order(function):
            if isinstance(node, Function) and PARALLEL in node.attrs:
                message = "only a cell proves that the rounds of a loop are independent"
                raise RelayError([Diagnostic(message, node.span, hint)])
