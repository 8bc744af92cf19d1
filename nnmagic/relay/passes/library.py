"""Name the passes that can be chosen by name."""

from __future__ import annotations

from nnmagic.diagnostics import closest
from nnmagic.relay.passes.assignments import fold_assignments
from nnmagic.relay.passes.batch_norm import fold_batch_norm
from nnmagic.relay.passes.closures import inline_closures
from nnmagic.relay.passes.common_subexpressions import eliminate_common_subexpr
from nnmagic.relay.passes.constants import fold_constants
from nnmagic.relay.passes.control_flow import partial_unroll, simplify_control_flow
from nnmagic.relay.passes.dead_code import dead_code_elimination
from nnmagic.relay.passes.expand_operators import expand_operators
from nnmagic.relay.passes.inlining import inline
from nnmagic.relay.passes.lambda_lifting import lift_local_functions
from nnmagic.relay.passes.normal_forms import to_a_normal_form, to_graph_normal_form
from nnmagic.relay.passes.partial_sorts import fold_partial_sorts
from nnmagic.relay.passes.pipeline import Pass
from nnmagic.relay.passes.softmax import fold_softmax
from nnmagic.relay.passes.views import fold_views

#: The library's passes that need nothing but a module, by name.
LIBRARY: dict[str, Pass] = {
    "dead_code_elimination": dead_code_elimination,
    "eliminate_common_subexpr": eliminate_common_subexpr,
    "expand_operators": expand_operators,
    "fold_assignments": fold_assignments,
    "fold_batch_norm": fold_batch_norm,
    "fold_constants": fold_constants,
    "fold_partial_sorts": fold_partial_sorts,
    "fold_softmax": fold_softmax,
    "fold_views": fold_views,
    "inline": inline,
    "inline_closures": inline_closures,
    "lift_local_functions": lift_local_functions,
    "partial_unroll": partial_unroll,
    "simplify_control_flow": simplify_control_flow,
    "to_a_normal_form": to_a_normal_form,
    "to_graph_normal_form": to_graph_normal_form,
}


def library_pass(name: str) -> Pass:
    """Return a pass of the library. Raises ValueError, which lists them, for another name."""
    if name not in LIBRARY:
        close = closest(name, LIBRARY)
        hint = f"did you mean {close}?" if close else f"the library's passes are {', '.join(LIBRARY)}"
        raise ValueError(f"there is no pass {name!r}; {hint}")
    return LIBRARY[name]
