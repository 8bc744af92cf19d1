"""Elaborate draws of random numbers, by which NumPy's generators change.

A generator is a value that is known at compile time: the name of its state, which no cell can write. A draw
binds that name anew. So all names of one generator see it change, and loops and branches carry the state as
they carry what a cell assigns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from synr import ast

from nnmagic.diagnostics import Span
from nnmagic.relay.generators import STATE
from nnmagic.relay.ops.calls import call
from nnmagic.relay.types import TupleType, Type
from nnmagic.tinynn.analysis.bound_names import find_assigned_names, find_mentioned_names
from nnmagic.tinynn.calls.function_calls import FunctionMaker, bind_arguments, call_function
from nnmagic.tinynn.elaborate.context import Elaboration
from nnmagic.tinynn.elaborate.let_bindings import let_bind
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe
from nnmagic.tinynn.values.operator_calls import as_computed

#: How the names of states begin.
_STATE = "generator."


def is_state(name: str) -> bool:
    """Return whether a name is that of a generator's state."""
    return name.startswith(_STATE)


def new_state(ctx: Elaboration) -> str:
    """Return the name of the state of another generator."""
    ctx.generators += 1
    return f"{_STATE}{ctx.generators}"


def new_generator(ctx: Elaboration, state: v.Computed) -> v.GeneratorOf:
    """Return a generator that begins with a state."""
    generator = v.GeneratorOf(new_state(ctx))
    ctx.environment.bindings.bind(generator.state, state)
    return generator


def carry_out(ctx: Elaboration, draw: v.Draw, span: Span) -> v.Value:
    """Return the value of a draw, after which its generator has another state. Raises RefusalError."""
    if draw.generator is None:
        return new_generator(ctx, let_bind(ctx, draw.like, "state"))
    generator = draw.generator.value
    if v.is_failed(generator):
        return v.FAILED
    if not isinstance(generator, v.GeneratorOf):
        message = f"`{draw.function}` draws from a generator, not from {describe(generator)}"
        raise v.RefusalError(message, draw.generator.span)
    computed = as_computed(v.Operand(v.TupleOf(draw.parameters), span))
    operands = [_state(ctx, generator, span).expr, draw.like.expr, computed.expr]
    expr = call("numpy.pcg64", operands, span, function=draw.function)
    drawn = let_bind(ctx, v.Computed(expr, TupleType((STATE, draw.like.type))), "drawn")
    value = v.as_value(drawn.expr, drawn.type)
    assert isinstance(value, v.TupleOf)
    state, numbers = value.items
    assert isinstance(numbers, v.Computed)
    set_state(ctx, generator, state)
    ctx.memory.own(drawn.expr)
    result = draw.finish(let_bind(ctx, numbers, draw.function.partition(" ")[0]))
    if isinstance(result, v.Computed):
        ctx.memory.own(result.expr)
    return result


def _state(ctx: Elaboration, generator: v.GeneratorOf, span: Span) -> v.Computed:
    """Return the state of a generator that is about to change. Raises RefusalError."""
    if ctx.parallel is not None:
        hint = "write range(...), or draw an array before the loop"
        raise v.RefusalError("numbers are drawn in a loop whose rounds have no order", span, hint=hint)
    state = ctx.environment.bindings.locals.get(generator.state)
    if generator.state not in ctx.frozen and isinstance(state, v.Computed):
        return state
    message = "this function is compiled by itself, and the generator from which it draws is outside of it"
    hint = "draw the numbers before, and give them to the function"
    if generator.state not in ctx.frozen:
        hint = "leave out the types of its parameters, or give it the generator"
    raise v.RefusalError(message, span, hint=hint)


# -- states in loops, branches and functions -----------------------------------------------------------


def states_in(values: Iterable[v.Value]) -> set[str]:
    """Return the states of the generators among some values, and of those that their functions capture."""
    states, work, seen = set[str](), list(values), set[int]()
    while work:
        value = work.pop()
        match value:
            case v.GeneratorOf(state=state):
                states.add(state)
            case v.TupleOf(items=items):
                work += items
            case v.Method(receiver=receiver):
                work.append(receiver.value)
            case v.Zipped(parts=parts):
                work += [part.value for part in parts]
            case v.GradientOf(function=function, arguments=arguments):
                work += [function.value, *(argument.value for argument in arguments)]
            case v.LocalFunction() | v.ClosureValue() if id(value) not in seen:
                seen.add(id(value))
                work += _values_of(value.environment, value.versions)
                work += [formal.default for formal in value.parameters if formal.default is not None]
    return states


def _values_of(environment: v.Environment, names: Iterable[str]) -> list[v.Value]:
    owners = ((name, environment.owner(name)) for name in names)
    values = (owner.bindings.locals.get(name) for name, owner in owners if owner is not None)
    return [value for value in values if value is not None]


def assigned_names(ctx: Elaboration, node: ast.Node) -> list[str]:
    """Return the names that a statement binds, with the states of the generators that it mentions."""
    names = list(find_assigned_names(node))
    if not ctx.generators:
        return names
    states = states_in(_values_of(ctx.environment, find_mentioned_names(node)))
    return [*names, *sorted(states & ctx.environment.bindings.locals.keys())]


def take_states(
    ctx: Elaboration, function: v.LocalFunction, given: Mapping[str, v.Operand]
) -> dict[str, Type]:
    """Return the states that a function which is inlined may change."""
    if not ctx.generators:
        return {}
    values = [function, *(operand.value for operand in given.values())]
    states = states_in(values) & ctx.environment.bindings.locals.keys()
    return dict.fromkeys(sorted(states - ctx.frozen), STATE)


def give_back(ctx: Elaboration, states: Mapping[str, Type], changed: Sequence[v.Value]) -> None:
    """Bind the states that a function which was inlined has changed."""
    for state, value in zip(states, changed, strict=True):
        ctx.environment.bindings.bind(state, value)


# -- calls of functions of the module ------------------------------------------------------------------


def state_argument(ctx: Elaboration, function: str, parameter: str, operand: v.Operand) -> v.Operand:
    """Return the state of a generator that is an argument. Raises RefusalError for anything else."""
    generator = require_generator(function, parameter, operand)
    return replace(operand, value=_state(ctx, generator, operand.span))


def require_generator(function: str, parameter: str, operand: v.Operand) -> v.GeneratorOf:
    """Return a generator that is an argument. Raises RefusalError for anything else."""
    if isinstance(operand.value, v.GeneratorOf):
        return operand.value
    message = f"{function}: `{parameter}` is a generator of random numbers, not {describe(operand.value)}"
    raise v.RefusalError(message, operand.span, hint="make one, as in rng = np.random.default_rng(seed)")


def call_with_generators(
    ctx: Elaboration,
    function: v.GlobalFunction,
    operands: Sequence[v.Operand],
    span: Span,
    make_function: FunctionMaker,
) -> v.Value:
    """Call a function that takes generators, and return its own result. Raises RefusalError."""
    given = bind_arguments(function.written, function.parameters, operands, span)
    if any(v.is_failed(operand.value) for operand in given.values()):
        return v.FAILED
    generators = list[v.GeneratorOf]()
    ordered = list[v.Operand]()
    for formal in function.parameters:
        operand = given[formal.name]
        if formal.destination == v.GENERATOR:
            state = state_argument(ctx, function.written, formal.name, operand)
            if operand.value in generators:
                message = f"{function.written} takes several generators, and two of them are one"
                raise v.RefusalError(message, operand.span, hint="give it different ones")
            assert isinstance(operand.value, v.GeneratorOf)
            generators.append(operand.value)
            operand = state
        ordered.append(replace(operand, keyword=formal.name if formal.kind == "KEYWORD_ONLY" else None))
    result = call_function(function, ordered, span, make_function)
    if v.is_failed(result):
        return v.FAILED
    values: list[v.Value] = [result]
    if isinstance(result, v.TupleOf):
        assert result.whole is not None
        whole = let_bind(ctx, result.whole, "results")
        split = v.as_value(whole.expr, whole.type)
        assert isinstance(split, v.TupleOf)
        values = list(split.items)
    for generator, state_after in zip(generators, values[-len(generators) :], strict=True):
        set_state(ctx, generator, state_after)
    own = values[: -len(generators)]
    return own[0] if own else v.Known(None)


def set_state(ctx: Elaboration, generator: v.GeneratorOf, state: v.Value) -> None:
    """Bind the state of a generator."""
    assert isinstance(state, v.Computed)
    ctx.environment.bindings.bind(generator.state, let_bind(ctx, state, "state"))
