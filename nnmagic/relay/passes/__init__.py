"""Transform modules: a pass is a plain function from a module to a module.

A typed module comes out typed, as type inference types it anew; an untyped one comes out untyped. Spans and
sharing are kept, and so is the order of effects. Functions marked ``Primitive`` or ``Compiler`` are left
alone.
"""

from __future__ import annotations

from functools import reduce

from nnmagic.relay.passes.assignments import fold_assignments
from nnmagic.relay.passes.batch_norm import fold_batch_norm
from nnmagic.relay.passes.closures import inline_closures
from nnmagic.relay.passes.common_subexpressions import eliminate_common_subexpr
from nnmagic.relay.passes.constants import fold_constants
from nnmagic.relay.passes.control_flow import partial_unroll, simplify_control_flow
from nnmagic.relay.passes.dead_code import dead_code_elimination, remove_unused_functions
from nnmagic.relay.passes.expand_operators import expand_operators
from nnmagic.relay.passes.gradients import gradient
from nnmagic.relay.passes.inlining import inline
from nnmagic.relay.passes.lambda_lifting import lift_local_functions
from nnmagic.relay.passes.loop_invariants import hoist_loop_invariants
from nnmagic.relay.passes.normal_forms import to_a_normal_form, to_graph_normal_form
from nnmagic.relay.passes.numpy_evaluator import evaluate_with_numpy
from nnmagic.relay.passes.partial_evaluation import Evaluator
from nnmagic.relay.passes.partial_sorts import fold_partial_sorts
from nnmagic.relay.passes.pipeline import (
    Pass,
    PassContext,
    PassInstrument,
    PassRecorder,
    PassRun,
    PassTiming,
    PrintChanges,
    VerifyTypes,
    run_passes,
)
from nnmagic.relay.passes.softmax import fold_softmax
from nnmagic.relay.passes.views import fold_views

__all__ = [
    "Evaluator",
    "Pass",
    "PassContext",
    "PassInstrument",
    "PassRecorder",
    "PassRun",
    "PassTiming",
    "PrintChanges",
    "VerifyTypes",
    "compose",
    "dead_code_elimination",
    "eliminate_common_subexpr",
    "evaluate_with_numpy",
    "expand_operators",
    "fold_assignments",
    "fold_batch_norm",
    "fold_constants",
    "fold_partial_sorts",
    "fold_softmax",
    "fold_views",
    "gradient",
    "hoist_loop_invariants",
    "inline",
    "inline_closures",
    "lift_local_functions",
    "partial_unroll",
    "remove_unused_functions",
    "run_passes",
    "simplify_control_flow",
    "to_a_normal_form",
    "to_graph_normal_form",
]


def compose(*passes: Pass) -> Pass:
    """Return one pass that runs several, the first one first."""
    return lambda module: reduce(lambda current, run: run(current), passes, module)
