"""Differentiate a function of a module: prepare it, transform it, and type what comes out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nnmagic.diagnostics import Diagnostics, RelayError
from nnmagic.relay.annotations import LOOP, custom_rule
from nnmagic.relay.callbacks import callbacks_in, has_effects
from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, Var
from nnmagic.relay.gradients.backward import Backward
from nnmagic.relay.gradients.blocks import fresh, type_of
from nnmagic.relay.gradients.data_types import DataTypes
from nnmagic.relay.gradients.registry import declared_operators
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.closures import inline_closures
from nnmagic.relay.passes.control_flow import simplify_control_flow
from nnmagic.relay.passes.dead_code import dead_code_elimination
from nnmagic.relay.passes.defunctionalization import defunctionalize, has_function_values
from nnmagic.relay.passes.expand_operators import expand_operators
from nnmagic.relay.passes.inlining import inline
from nnmagic.relay.passes.lambda_lifting import lift_local_functions
from nnmagic.relay.passes.normal_forms import to_a_normal_form
from nnmagic.relay.structure.callgraph import definition_graph, mentions, reachable
from nnmagic.relay.structure.tuple_trees import Tree, leaf_types, nest, project, tree_of
from nnmagic.relay.types import Type


@dataclass(frozen=True, slots=True)
class Pullback:
    """A function that gives a value and the cotangents of parameters.

    params: those of the function, then a variable for each leaf of the cotangent of its result (if seeded).
    value: its result. cotangents: a tree for each parameter that was asked for. unused: the numbers of those
    that the result does not depend on. helpers: the functions that it calls. data_types: those of its module.
    """

    params: tuple[Var, ...]
    value: Expr
    cotangents: tuple[Expr, ...]
    unused: tuple[int, ...]
    helpers: dict[str, Function]
    data_types: DataTypes


def prepare(module: Module, name: str, taken: Collection[str], ruled: Collection[str]) -> Module:
    """Return what a function needs as first-order functions in A-normal form.

    Operators that are not ``ruled`` are expanded where they have an expansion. Local functions become global
    ones, whose names avoid ``taken``, and functions that do not call themselves are inlined. Raises
    RelayError for calls of Python with effects.
    """
    module = _reachable(module, name)
    _refuse_effects(module.functions.values())
    _refuse_lost_rules(module.functions)
    module = expand_operators(module, keep=ruled)
    if has_function_values(module):
        for _ in range(3):
            module = simplify_control_flow(inline_closures(inline(module, "higher_order")))
        module = _reachable(module, name)
        if has_function_values(lift_local_functions(module, data_types=True, taken=taken)):
            module = defunctionalize(module, name, taken)
    lifted = _reachable(inline(lift_local_functions(module, data_types=True, taken=taken), "all"), name)
    functions = {
        key: function if key in module.functions else replace(function, attrs={**function.attrs, LOOP: 1})
        for key, function in lifted.functions.items()
    }
    return to_a_normal_form(dead_code_elimination(replace(module, functions=functions)))


def _reachable(module: Module, name: str) -> Module:
    """Return the module with a function and what it calls, also by its gradient rules."""
    wanted = reachable(definition_graph(module), name)
    functions = {key: function for key, function in module.functions.items() if key in wanted}
    return replace(module, functions=functions, printed_types={})


def _refuse_lost_rules(functions: Mapping[str, Function]) -> None:
    """Raise RelayError for a function whose gradient rule names functions that a pass has removed."""
    diagnostics = Diagnostics()
    for name, function in functions.items():
        rule = custom_rule(function)
        for callee in () if rule is None else rule.functions:
            if callee not in functions:
                hint = "differentiate before passes remove what nothing calls"
                message = f"the gradient rule of @{name} is @{callee}, which the module has not"
                diagnostics.error(message, function.span, hint=hint)
    diagnostics.raise_if_any(RelayError)


def _refuse_effects(functions: Iterable[Function]) -> None:
    """Raise RelayError for each call of Python with effects, whose number would be another one."""
    diagnostics = Diagnostics()
    for function in functions:
        for call in filter(has_effects, callbacks_in(function)):
            message = "a callback with effects stands in a function that is differentiated or batched"
            hint = "call it outside of that function, with what the function returns"
            diagnostics.error(message, call.span, hint=hint)
    diagnostics.raise_if_any(RelayError)


def pullback(
    module: Module, name: str, argnums: Sequence[int], taken: set[str], *, seeds: Sequence[Expr | None] | None
) -> Pullback:
    """Return the value of a function of a typed module with the cotangents of some parameters.

    seeds: the cotangents of the leaves of the result; None for parameters of its own. Names of helpers avoid
    ``taken``. Raises RelayError with every call that cannot be differentiated.
    """
    prepared = prepare(_by_rule(module, name, taken), name, taken, declared_operators())
    function = prepared.functions[name]
    diagnostics = Diagnostics()
    taken = {*taken, *prepared.functions}
    backward = Backward(prepared, taken, diagnostics)
    data_types = backward.data_types
    mask = _mask(function, argnums, data_types)
    activity = backward.activity.of_function(name, mask)
    env: dict[Expr, Expr] = {param: fresh(param) for param in function.params}
    params = [param for param in env.values() if isinstance(param, Var)]
    seed, extra = _seed(function.result_type, seeds, data_types)
    value, cotangents = backward.of_block(function.body, env, dict(activity.active), seed, valued=True)
    diagnostics.raise_if_any(RelayError)
    assert value is not None
    flow_params, unused = [], []
    for index in argnums:
        param = function.params[index]
        if all(cotangent is None for cotangent in cotangents.leaves(param)):
            unused.append(index)
        rows = zip(project(env[param], type_of(param)), leaf_types(type_of(param)), strict=True)
        full = [
            data_types.full(*row, cotangent)
            for row, cotangent in zip(rows, cotangents.leaves(param), strict=True)
        ]
        flow_params.append(nest(tree_of(iter(full), type_of(param))))
    helpers = {
        **{key: helper for key, helper in backward.functions.items() if key != name},
        **backward.made,
        **data_types.functions,
    }
    roots = [*helpers.values(), value, *flow_params]
    if mentions(name, *roots):
        helpers[name] = function
    return Pullback((*params, *extra), value, tuple(flow_params), tuple(unused), helpers, data_types)


def _by_rule(module: Module, name: str, taken: set[str]) -> Module:
    """Return the module; a function with a gradient rule of its own becomes one that calls it."""
    function = module.functions[name]
    if custom_rule(function) is None:
        return module
    inner = f"{name}_by_rule"
    while inner in taken or inner in module.functions:
        inner += "_"
    params = tuple(map(fresh, function.params))
    body = Call(GlobalVar(inner, span=function.span), params, span=function.span)
    outer = Function(params, body, function.ret_type, span=function.span)
    return with_types(replace(module, functions={**module.functions, inner: function, name: outer}))


def _mask(function: Function, argnums: Sequence[int], data_types: DataTypes) -> tuple[bool, ...]:
    """Return which leaves of the parameters are differentiated."""
    mask: list[bool] = []
    for index, param in enumerate(function.params):
        mask += [index in argnums and data_types.flows(leaf) for leaf in leaf_types(type_of(param))]
    return tuple(mask)


def _seed(type_: Type, seeds: Sequence[Expr | None] | None, data_types: DataTypes) -> tuple[Tree, list[Var]]:
    """Return the cotangent of a result as a tree, and the parameters that it is made of."""
    types, variables = leaf_types(type_), list[Var]()
    if seeds is None:
        hints = (f"d{index}" if len(types) > 1 else "d" for index in range(len(types)))
        pairs = zip(hints, types, strict=True)
        variables = [Var(hint, leaf) for hint, leaf in pairs if data_types.flows(leaf)]
        seeds = variables
    given = iter(seeds)
    parts: list[Expr | None] = []
    for leaf in types:
        seed = next(given) if data_types.flows(leaf) else None
        parts.append(None if seed is None else data_types.given(seed, leaf))
    return tree_of(iter(parts), type_), variables


def with_types(module: Module) -> Module:
    """Return the module with types; callers know what functions return."""
    return infer_type(module, look_into_callees=True)
