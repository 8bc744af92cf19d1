"""Erase the inferred types of a module."""

from __future__ import annotations

from dataclasses import replace

from nnmagic.relay.expr import Call, Expr, Function, OpRef, Var
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import rewrite_module


def erase_types(module: Module) -> Module:
    """Return the module as it was before type inference, but keep the result types of its globals.

    Annotations of variables and written result types of inner functions are kept.
    """
    globals_ = frozenset(module.functions.values())

    def erase(_node: Expr, new: Expr) -> Expr:
        match new:
            case Var(inferred=True):
                return replace(new, checked_type=None, type_annotation=None, inferred=False)
            case Function(inferred=True) if _node not in globals_:
                return replace(new, checked_type=None, ret_type=None, inferred=False)
            case Call() if new.type_args and not isinstance(new.op, OpRef):
                return replace(new, checked_type=None, type_args=())
            case _:
                return new if new.checked_type is None else replace(new, checked_type=None)

    return rewrite_module(module, erase)
