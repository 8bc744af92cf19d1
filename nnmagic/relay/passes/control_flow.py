"""Simplify control flow that is decided at compile time."""

from __future__ import annotations

from nnmagic.relay.module import Module
from nnmagic.relay.passes.numpy_evaluator import evaluate_with_numpy
from nnmagic.relay.passes.partial_evaluation import Evaluator, evaluate_module
from nnmagic.relay.passes.rewriting import keeps_types


@keeps_types
def simplify_control_flow(module: Module) -> Module:
    """Simplify control flow that the program itself decides.

    That is an ``if`` on a constant, a ``match`` on a known constructor or tuple, a projection of a known
    tuple, the call of a function literal (or of one that a let binds and only that call uses), a let of a
    name or a constant.
    """
    return evaluate_module(module, None, reduce=True)


@keeps_types
def partial_unroll(module: Module, *, limit: int = 100, evaluate: Evaluator = evaluate_with_numpy) -> Module:
    """Unroll calls of recursive functions, global or local, whose arguments decide what they do first.

    That is, the function ends in an ``if`` whose condition the constant arguments decide, or in a ``match``
    on an argument whose constructor is known. Folds constants and simplifies control flow on the way. At most
    ``limit`` calls are unrolled; the rest of a longer loop stays a call.
    """
    return evaluate_module(module, evaluate, reduce=True, unroll=limit)
