"""Count the rounds of loops that their own values end, by `while`, `break` or `return`, before they run.

Such a loop becomes two: one that counts its rounds, and one of so many rounds, of which a tape has a length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import LOOP
from nnmagic.relay.gradients.blocks import block_of, branches, rename, type_of, with_bindings
from nnmagic.relay.gradients.counted_loops import CountedRecursion, counted_loop, increment, integer
from nnmagic.relay.ops.calls import call
from nnmagic.relay.passes.inlining import CHECKPOINT
from nnmagic.relay.passes.rewriting import copy_graph, substitute
from nnmagic.relay.structure.callgraph import is_call, mentions
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import TensorType, TupleType, Type

_INDEX = TensorType((), "int64")
_BOOL = TensorType((), "bool")


class Loops:
    """The loops among the functions of a module, to which it adds those that count."""

    def __init__(self, functions: dict[str, ir.Function], new_name: Callable[[str], str]) -> None:
        self._functions = functions
        self._new_name = new_name
        self._open: dict[str, tuple[str, str] | None] = {}

    def of_call(
        self, value: ir.Call, env: dict[ir.Expr, ir.Expr], resolve: Callable[[ir.Expr], ir.Expr]
    ) -> tuple[CountedRecursion | None, ir.Call]:
        """Return the counted loop that a call begins, and the call; that of a number that is counted first.

        env: what the names of the caller stand for, to which that number is added.
        """
        assert isinstance(value.op, ir.GlobalVar)
        name, span = value.op.name, value.span
        loop = counted_loop(name, self._functions[name], value.args, resolve)
        if loop is not None:
            return loop, value
        if name not in self._open:
            names = (self._new_name(f"{name}_count"), self._new_name(f"{name}_rounds"))
            made = _open_loop(name, self._functions[name], *names)
            self._open[name] = None if made is None else names
            self._functions |= {} if made is None else dict(zip(names, made, strict=True))
        known = self._open[name]
        if known is None:
            return None, value
        number, zero = ir.Var("count", _INDEX, span=span), ir.constant(0, "int64", span=span)
        given = (zero, *(rename(arg, env) for arg in value.args))
        env[number] = ir.Call(ir.GlobalVar(known[0]), given, span=span)
        call_ = ir.Call(ir.GlobalVar(known[1]), (zero, number, *value.args), span=span)
        return counted_loop(known[1], self._functions[known[1]], call_.args, resolve), call_


def _open_loop(
    name: str, function: ir.Function, counting: str, counted: str
) -> tuple[ir.Function, ir.Function] | None:
    """Return the functions ``counting`` and ``counted`` of a loop; None of what is no loop.

    function: typed, in A-normal form; a loop calls itself at its ends only, and keeps tensors. counting: (0,
    parameters) -> the number of rounds. counted: (0, that number, parameters) -> the result.
    """
    leaves = (leaf for param in function.params for leaf in leaf_types(type_of(param)))
    keeps_tensors = all(isinstance(leaf, TensorType) for leaf in leaves)
    if CHECKPOINT in function.attrs or not keeps_tensors or not mentions(name, function.body):
        return None
    place, span, own = _variable("round", _INDEX), function.span, copy_graph(function)
    ends = list[Sequence[ir.Expr]]()

    def count(again: ir.Call) -> ir.Expr:
        ends.append(again.args)
        return _next_round(counting, place, again.args, _INDEX)

    body = _with_ends(own.body, name, count, lambda _result: place)
    if body is None or mentions(name, body):
        return None
    steps = _steps(own, ends)
    changed = [
        at
        for at, param in enumerate(own.params)
        if at not in steps and any(args[at] is not param for args in ends)
    ]
    rounds = _rounds(name, function, counted, changed, steps) if changed else None
    first = ir.Function((place, *own.params), body, _INDEX, attrs={LOOP: 1}, span=span)
    return None if rounds is None else (first, rounds)


def _steps(own: ir.Function, ends: Sequence[Sequence[ir.Expr]]) -> dict[int, int]:
    """Return what each round adds to parameters that count, by their numbers."""
    values = {node.var: node.value for node in post_order(own.body) if isinstance(node, ir.Let)}

    def number_of(expr: ir.Expr) -> int | None:
        return integer(values.get(expr, expr) if isinstance(expr, ir.Var) else expr)

    found = dict[int, int]()
    for at, param in enumerate(own.params):
        args = {args[at] for args in ends}
        added = {
            increment(param, values.get(arg) if isinstance(arg, ir.Var) else None, number_of) for arg in args
        }
        type_, step = type_of(param), added.pop()
        if step is not None and not added and isinstance(type_, TensorType) and not type_.shape:
            found[at] = step
    return found


def _rounds(
    name: str, function: ir.Function, counted: str, changed: Sequence[int], steps: Mapping[int, int]
) -> ir.Function | None:
    """Return the loop of so many rounds; None of one without a result.

    changed: the parameters that its rounds change. steps: what they add to the others that they change.
    """
    place, end, span = _variable("round", _INDEX), _variable("end", _INDEX), function.span
    own = copy_graph(function)
    bindings, counters = _counters(own, place, steps)
    last = copy_graph(function)
    of_last: dict[ir.Expr, ir.Expr] = {
        old: counters.get(new, new) for old, new in zip(last.params, own.params, strict=True)
    }
    exit_ = _with_ends(substitute(last.body, of_last), name, lambda _again: None, lambda result: result)
    type_ = TupleType(tuple(type_of(own.params[at]) for at in changed))

    def give(again: ir.Call) -> ir.Expr:
        return _bound(ir.Tuple(tuple(again.args[at] for at in changed), span=again.span, checked_type=type_))

    # The branches that end the loop are left out: a round that goes on in one way decides nothing.
    body = _with_ends(substitute(own.body, counters), name, give, lambda _result: None)
    if exit_ is None or body is None:
        return None
    round_, following = block_of(body), list[ir.Expr](own.params)
    *inner, (whole, value) = round_.bindings
    if isinstance(value, ir.Tuple):
        fields = value.fields
    else:
        parts = [ir.TupleGetItem(whole, at, checked_type=part) for at, part in enumerate(type_.fields)]
        names = [_variable(own.params[at].name_hint, type_of(own.params[at])) for at in changed]
        inner, fields = [*inner, (whole, value), *zip(names, parts, strict=True)], tuple(names)
    for at, field in zip(changed, fields, strict=True):
        following[at] = field
    again = with_bindings(inner, _next_round(counted, place, (end, *following), function.result_type))
    is_round, result = _variable("is_round", _BOOL), _variable("result", function.result_type)
    bindings.append((is_round, replace(call("less", [place, end], span), checked_type=_BOOL)))
    bindings.append((result, ir.If(is_round, again, exit_, span=span, checked_type=function.result_type)))
    params = (place, end, *own.params)
    body = with_bindings(bindings, result)
    return ir.Function(params, body, function.result_type, attrs={LOOP: 1}, span=span)


def _counters(
    own: ir.Function, place: ir.Var, steps: Mapping[int, int]
) -> tuple[list[tuple[ir.Var, ir.Expr]], dict[ir.Expr, ir.Expr]]:
    """Return bindings of what parameters that count are in a round, and those instead of the parameters."""
    bindings, counters = list[tuple[ir.Var, ir.Expr]](), dict[ir.Expr, ir.Expr]()
    for at, step in steps.items():
        param = own.params[at]
        type_ = type_of(param)
        assert isinstance(type_, TensorType)
        passed, added, counter = (_variable(param.name_hint, type_) for _ in range(3))
        factor = replace(ir.constant(step, type_.dtype), checked_type=type_)
        calls = (
            (passed, call("cast", [place], dtype=type_.dtype)),
            (added, call("multiply", [passed, factor])),
            (counter, call("add", [param, added])),
        )
        bindings += [(var, replace(value, checked_type=type_)) for var, value in calls]
        counters[param] = counter
    return bindings, counters


def _with_ends(
    expr: ir.Expr,
    name: str,
    again: Callable[[ir.Call], ir.Expr | None],
    result: Callable[[ir.Expr], ir.Expr | None],
) -> ir.Expr | None:
    """Return a block with other ends: calls of itself and results; None leaves out the branch."""
    block = block_of(expr)
    value = dict(block.bindings[-1:]).get(cast("ir.Var", block.result))
    before = block.bindings[:-1]
    new: ir.Expr | None
    if isinstance(value, ir.If):
        yes, no = (_with_ends(part, name, again, result) for part in branches(value))
        if yes is None or no is None:
            new = yes or no
        else:
            type_ = type_of(block_of(yes).result)
            new = _bound(replace(value, true_branch=yes, false_branch=no, checked_type=type_))
    elif value is not None and is_call(value, name):
        new = again(value)
    else:
        new, before = result(block.result), block.bindings
    return None if new is None else with_bindings(before, new)


def _next_round(target: str, place: ir.Var, args: Sequence[ir.Expr], type_: Type) -> ir.Expr:
    """Return a block that calls a loop for the round after ``place``."""
    one = ir.constant(1, "int64")
    following = _variable(place.name_hint, _INDEX)
    added = replace(call("add", [place, replace(one, checked_type=_INDEX)]), checked_type=_INDEX)
    again = ir.Call(ir.GlobalVar(target), (following, *args), checked_type=type_)
    return ir.Let(following, added, _bound(again))


def _bound(value: ir.Expr) -> ir.Let:
    """Return the block of a value."""
    var = _variable("value", type_of(value))
    return ir.Let(var, value, var)


def _variable(name: str, type_: Type) -> ir.Var:
    return ir.Var(name, type_, checked_type=type_)
