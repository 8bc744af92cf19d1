"""Run the compiler's own passes on Relay: the table says which, and from which ``opt_level`` on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from nnmagic.engine.relax.analysis import data_types
from nnmagic.engine.relax.analysis.assertions import lower_assertions
from nnmagic.engine.relax.analysis.attention import find_attention
from nnmagic.engine.relax.analysis.carried_sizes import name_carried_sizes
from nnmagic.engine.relax.analysis.first_order_functions import first_order_functions
from nnmagic.relay.annotations import LOOP
from nnmagic.relay.expr import Call, operator_of
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import NOT_PRINTED, Module
from nnmagic.relay.ops.declaration import Trait, operators_with, traits_of
from nnmagic.relay.passes import inline, inline_closures, remove_unused_functions, simplify_control_flow
from nnmagic.relay.passes.assignments import fold_assignments
from nnmagic.relay.passes.batch_norm import fold_batch_norm
from nnmagic.relay.passes.common_subexpressions import eliminate_common_subexpr
from nnmagic.relay.passes.constants import fold_constants
from nnmagic.relay.passes.dead_code import dead_code_elimination
from nnmagic.relay.passes.expand_operators import expand_operators, has_expansions
from nnmagic.relay.passes.lambda_lifting import lift_local_functions
from nnmagic.relay.passes.loop_invariants import hoist_loop_invariants
from nnmagic.relay.passes.partial_sorts import fold_partial_sorts
from nnmagic.relay.passes.pipeline import Pass, PassRun, run_instrumented
from nnmagic.relay.passes.softmax import fold_softmax
from nnmagic.relay.passes.specialization import specialize_functions
from nnmagic.relay.passes.views import fold_views
from nnmagic.relay.structure.callgraph import CallGraph, call_graph, recursive_functions
from nnmagic.relay.types import TensorType

#: Functions that return functions are inlined from the outside in: one round for each level.
_MAX_ROUNDS = 8
#: Functions with more nodes are called, not inlined.
_MAX_NODES = 20_000


def eliminate_closures(module: Module, entry: str) -> Module:
    """Inline the function values of a typed module where they are called, as far as they are only called."""
    module = remove_unused_functions(module, (entry,))
    for _ in range(_MAX_ROUNDS):
        previous = module
        module = inline(module, "higher_order", max_nodes=_MAX_NODES)
        module = inline_closures(module, max_nodes=_MAX_NODES)
        # Each pass returns its operand where it changes nothing.
        if module is previous:
            break
        module = remove_unused_functions(simplify_control_flow(module), (entry,))
    return module


@dataclass(slots=True)
class _State:
    """A module on its way through the pipeline.

    assertions: what those raise that were lowered. signature: of an entry with data types that are numbers.
    """

    module: Module
    entry: str
    opt_level: int
    runs: list[PassRun] | None
    assertions: list[Failure] = field(default_factory=list)
    signature: data_types.CellSignature | None = None


@dataclass(frozen=True, slots=True)
class CompilerPass:
    """A pass that the compiler runs without being asked.

    when: the programs that it runs on. opt_level: the lowest level at which it runs.
    """

    name: str
    opt_level: int
    when: str
    run: Callable[[_State, Module], Module]


def _module_pass(run: Pass, *, opt_level: int = 1, when: str = "all programs") -> CompilerPass:
    """Return a pass that needs the module alone; its name is that of the function."""
    return CompilerPass(run.__name__, opt_level, when, lambda _, module: run(module))


_CLOSURES = (
    CompilerPass(
        "eliminate_closures",
        0,
        "higher-order programs",
        lambda at, module: eliminate_closures(module, at.entry),
    ),
)


def _is_computed_again(call: Call) -> bool:
    """Return whether a call is cheaper than to keep its result.

    An array of one value that is changed would be copied before, if there were another use of it.
    """
    type_ = call.checked_type
    fills = Trait.FILLS in traits_of(call) and isinstance(type_, TensorType) and bool(type_.shape)
    return fills or _selects_position(call)


def _selects_position(call: Call) -> bool:
    """Return whether a call takes a row, a column or a plane.

    Elements of the same one are read where they are; merged, it would have to be in memory for both.
    """
    if operator_of(call) != "take":
        return False
    index, type_ = call.args[1].checked_type, call.checked_type
    return (
        isinstance(index, TensorType)
        and not index.shape
        and isinstance(type_, TensorType)
        and bool(type_.shape)
    )


_EXPANSIONS = (
    CompilerPass(
        "expand_operators",
        0,
        "programs with operators that have no kernel of their own",
        lambda _, module: expand_operators(module, keep=operators_with(Trait.KERNEL)),
    ),
)
_CLEANUPS = (
    _module_pass(fold_constants),
    CompilerPass(
        "eliminate_common_subexpr",
        1,
        "all programs",
        lambda _, module: eliminate_common_subexpr(module, apart=_is_computed_again),
    ),
    _module_pass(fold_assignments),
    _module_pass(dead_code_elimination),
)


def _represent_data_types(at: _State, module: Module) -> Module:
    module, at.signature = data_types.represent_data_types(module, at.entry, at.assertions)
    return module


#: Those of the passes on loops that functions of the module that call themselves get, too, as gradients are.
_RECURSION = (
    CompilerPass(
        "name_carried_sizes",
        0,
        "programs with loops",
        lambda at, module: name_carried_sizes(module, recursive_functions(call_graph(module)) - {at.entry}),
    ),
    CompilerPass(
        "hoist_loop_invariants",
        1,
        "programs with loops",
        lambda at, module: hoist_loop_invariants(module, at.entry),
    ),
)
_LOOPS = (
    CompilerPass(
        "specialize_functions",
        0,
        "programs with generic functions",
        lambda at, module: specialize_functions(module, at.entry),
    ),
    CompilerPass(
        "lift_local_functions",
        0,
        "programs with loops",
        lambda _, module: lift_local_functions(module, data_types=True),
    ),
    CompilerPass(
        "defunctionalize",
        0,
        "programs with functions as values",
        lambda at, module: data_types.function_values_as_data(module, at.entry),
    ),
    *_RECURSION,
    CompilerPass(
        "lower_assertions",
        0,
        "programs with loops",
        lambda at, module: lower_assertions(module, at.assertions),
    ),
    CompilerPass("represent_data_types", 0, "programs with data types", _represent_data_types),
)
_FUSIONS = (
    _module_pass(fold_batch_norm),
    _module_pass(fold_views),
    _module_pass(fold_softmax),
    _module_pass(fold_partial_sorts),
    _module_pass(find_attention),
)

#: The compiler's passes, in the order in which they run.
PASSES = (*_CLOSURES, *_EXPANSIONS, *_CLEANUPS, *_LOOPS, *_FUSIONS)


@dataclass(frozen=True, slots=True)
class Optimized:
    """A module after the passes.

    plain: its first-order functions. loops: the functions that were local ones, and take no stack where they
    call themselves at their end. assertions: what assertions raise, by number. signature: of an entry with
    data types that are numbers. reason: why an interpreter runs the program, if one does.
    """

    module: Module
    graph: CallGraph
    plain: frozenset[str]
    loops: frozenset[str]
    assertions: list[Failure]
    signature: data_types.CellSignature | None = None
    reason: str = ""


def optimize(
    module: Module, entry: str, opt_level: int, graph: CallGraph, *, runs: list[PassRun] | None = None
) -> Optimized:
    """Run the compiler's passes on a typed module.

    ``graph`` is the module's call graph. Local functions become global ones if that is enough to have no need
    of the interpreter; where it is not, these passes are undone. ``runs`` gets those that count.
    """
    if runs is None:
        module = replace(module, printed_types=NOT_PRINTED)
    state = _State(module, entry, opt_level, runs)
    reason = ""
    plain = first_order_functions(module, graph)
    loops: frozenset[str] = frozenset()
    if entry not in plain:
        _run(state, _CLOSURES)
        plain = first_order_functions(state.module, call_graph(state.module))
    if has_expansions(state.module, keep=operators_with(Trait.KERNEL)):
        _run(state, _EXPANSIONS)
    _run(state, _CLEANUPS)
    if entry not in plain:
        # The passes are tried on a copy of the state: where they are not enough, the interpreter
        # runs the module as it was, with its closures.
        attempt = replace(state, runs=None if runs is None else [], assertions=[])
        _run(attempt, _LOOPS)
        reason = data_types.why_interpreted(attempt.module, entry) or reason
        lowered = first_order_functions(attempt.module, call_graph(attempt.module))
        if entry in lowered:
            loops = frozenset(attempt.module.functions) - frozenset(state.module.functions)
            if data_types.mentions_data_types(state.module, entry):
                loops |= recursive_functions(call_graph(attempt.module))
            reason = ""
            plain, attempt.runs = lowered, None if runs is None else [*runs, *(attempt.runs or [])]
            state = attempt
    elif recursive_functions(call_graph(state.module)):
        _run(state, _RECURSION)
    loops |= {name for name, function in state.module.functions.items() if LOOP in function.attrs}
    _run(state, _FUSIONS)
    if runs is not None:
        runs[:] = state.runs or []
    graph = call_graph(state.module)
    return Optimized(state.module, graph, plain, loops, state.assertions, state.signature, reason)


def _run(state: _State, passes: Sequence[CompilerPass]) -> None:
    """Run those of the passes that the level asks for."""
    for pass_ in passes:
        if state.opt_level >= pass_.opt_level:
            run = partial(pass_.run, state)
            state.module = run_instrumented(pass_.name, run, state.module, state.runs)
