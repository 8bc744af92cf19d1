"""Recognise loops that count a known number of rounds: functions that call themselves at their end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nnmagic.relay.expr import Call, Constant, Expr, Function, If, Var, operator_of
from nnmagic.relay.gradients.blocks import LetBlock, block_of, type_of, with_bindings
from nnmagic.relay.passes.inlining import CHECKPOINT
from nnmagic.relay.structure.callgraph import is_call, mentions
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import ANY, AnyDim, Dim, TensorType


@dataclass(frozen=True, slots=True)
class CountedRecursion:
    """A function ``f(..., i, ...) = if (i < end) {round; f(..., i + step, ...)} else {exit}``.

    number: the number of rounds, an int or the named size of ``sized``: an array of the caller, and its
    axis; a size without a name if it is any other number. end: the parameter that is the end, if that is
    not an int. counter: the parameter that counts;
    its value in round k is ``start + k * step``. carried: the parameters that rounds change; ``fixed`` keep
    their values. round: the bindings of a round before the call. again: the arguments of the next round.
    exit: the block of the result.
    """

    function: Function
    number: int | AnyDim
    sized: tuple[Expr, int] | None
    end: Var | None
    counter: Var
    start: int
    step: int
    carried: tuple[Var, ...]
    fixed: tuple[Var, ...]
    round: tuple[tuple[Var, Expr], ...]
    again: Mapping[Var, Expr]
    exit: Expr


def _sized_end(
    last: Expr, fixed: Sequence[Var], env: Mapping[Var, Expr], resolve: Callable[[Expr], Expr]
) -> tuple[Var | None, tuple[Expr, int] | None, Dim | None]:
    """Return the parameter that is the end of a loop, the array and axis whose size it is, and that size."""
    end = next((param for param in fixed if param is last), None)
    sized = None if end is None else _size_source(env[end], resolve)
    return end, sized, None if sized is None else _dim(sized)


# A second call of itself would make the function a tree recursion. The number of rounds is the ceiling of
# ``(end - start) / step``; a named size is that of rounds 0, 1, ... only, as a tape has a row for each index
# of that axis. The bindings ahead of the test run in the last, failed test as well: the exit may read them.
def counted_loop(
    name: str, function: Function, args: tuple[Expr, ...], resolve: Callable[[Expr], Expr]
) -> CountedRecursion | None:
    """Return the loop that a call of a function in A-normal form begins; None if its rounds are unknown.

    resolve: returns what a name of the caller is bound to.
    """
    body = block_of(function.body)
    if CHECKPOINT in function.attrs or not body.bindings or body.bindings[-1][0] is not body.result:
        return None
    *before, (_, decision) = body.bindings
    if not isinstance(decision, If):
        return None
    substitution = dict[Expr, Expr](before)
    again = block_of(decision.true_branch)
    call = _tail_call(again, name)
    inside = (value for _, value in again.bindings[:-1])
    if call is None or mentions(name, *substitution.values(), decision.false_branch, *inside):
        return None
    following, env = (dict(zip(function.params, values, strict=True)) for values in (call.args, args))
    fixed = tuple(param for param in function.params if following[param] is param)

    def number_of(expr: Expr) -> int | None:
        value = substitution.get(expr, expr)
        if value in fixed and isinstance(value, Var):
            value = resolve(env[value])
        return integer(value)

    condition = substitution.get(decision.cond, decision.cond)
    if not isinstance(condition, Call) or not _is_operator(condition, "less"):
        return None
    counter, last = condition.args[0], substitution.get(condition.args[1], condition.args[1])
    if not isinstance(counter, Var) or counter not in following:
        return None
    inner = substitution | dict[Expr, Expr](again.bindings)
    step = increment(counter, inner.get(following[counter]), lambda expr: number_of(inner.get(expr, expr)))
    start = integer(resolve(env[counter]))
    if start is None or step is None:
        return None
    number: int | AnyDim | None = number_of(last)
    sized: tuple[Expr, int] | None = None
    end: Var | None = None
    if isinstance(number, int):
        number = -((start - number) // step)
        if number <= 0:
            return None
    else:
        end, sized, size = _sized_end(last, fixed, env, resolve)
        if end is None or (start, step) != (0, 1) or type_of(end) != TensorType((), "int64"):
            return None
        number = size if isinstance(size, AnyDim) and size.label is not None else ANY
        sized = None if number == ANY else sized
    carried = tuple(param for param in function.params if param not in fixed and param is not counter)
    if not all(isinstance(leaf, TensorType) for param in carried for leaf in leaf_types(type_of(param))):
        return None
    exit_ = with_bindings(before, decision.false_branch)
    rounds = (*before, *again.bindings[:-1])
    return CountedRecursion(
        function, number, sized, end, counter, start, step, carried, fixed, rounds, following, exit_
    )


def _tail_call(block: LetBlock, name: str) -> Call | None:
    """Return the call of a function that a block ends in."""
    if not block.bindings or block.bindings[-1][0] is not block.result:
        return None
    value = block.bindings[-1][1]
    return value if is_call(value, name) else None


def _is_operator(expr: Expr, name: str) -> bool:
    return operator_of(expr) == name


def integer(expr: Expr) -> int | None:
    """Return the value of an integer constant of rank 0."""
    if isinstance(expr, Constant) and expr.data.shape == () and expr.data.dtype.kind in "iu":
        return int(expr.data)
    return None


def increment(counter: Var, value: Expr | None, number_of: Callable[[Expr], int | None]) -> int | None:
    """Return the positive number that a value adds to the counter."""
    if value is None or not _is_operator(value, "add"):
        return None
    assert isinstance(value, Call)
    others = [arg for arg in value.args if arg is not counter]
    step = number_of(others[0]) if len(others) == 1 else None
    return step if step is not None and step > 0 else None


def _size_source(expr: Expr, resolve: Callable[[Expr], Expr]) -> tuple[Expr, int] | None:
    """Return the array and the axis whose size a value is: ``take(shape_of(array), axis)``."""
    value = resolve(expr)
    if not _is_operator(value, "take"):
        return None
    assert isinstance(value, Call)
    sizes, axis = (resolve(arg) for arg in value.args)
    number = integer(axis)
    if number is None or not _is_operator(sizes, "shape_of"):
        return None
    assert isinstance(sizes, Call)
    return sizes.args[0], number


def _dim(sized: tuple[Expr, int]) -> Dim:
    type_ = type_of(sized[0])
    assert isinstance(type_, TensorType)
    return type_.shape[sized[1]]
