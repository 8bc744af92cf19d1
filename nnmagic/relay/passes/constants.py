"""Fold constants."""

from __future__ import annotations

from nnmagic.relay.module import Module
from nnmagic.relay.passes.numpy_evaluator import evaluate_with_numpy
from nnmagic.relay.passes.partial_evaluation import Evaluator, evaluate_module
from nnmagic.relay.passes.rewriting import keeps_types


@keeps_types
def fold_constants(module: Module, evaluate: Evaluator = evaluate_with_numpy) -> Module:
    """Replace calls of operators on constants by their values.

    Lets of constants and branches that a constant decides are removed, too, and ``shape_of`` and
    ``ndarray_size`` of a typed argument of static shape. A call without arguments (``zeros``) stays, as in
    Relay's FoldConstant. ``evaluate`` returns the value of a call whose arguments are constants or tuples of
    them, or None to leave it.
    """
    return evaluate_module(module, evaluate)
