"""Traits of operators hold for hostile operands: what may raise is computed only where it is needed."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.expr import (
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    OpRef,
    TupleGetItem,
    Var,
    constant,
)
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.declaration import Trait
from nnmagic.relay.reference import compute
from nnmagic.relay.types import TensorType, TupleType
from tests.engine.calls import OperatorCall, arrays, of_the_operators

_MAY_BE_COMPUTED = Trait.SPECULATABLE | Trait.SPECULATABLE_FLOATS
#: The operators that may raise, but those whose hostile operands ask for more memory than there is.
MAY_RAISE = sorted(
    name
    for name, operator in OPERATORS.items()
    if not operator.traits & _MAY_BE_COMPUTED and not name.startswith(("dyn.", "python.", "random."))
)


@functools.cache
def calls() -> list[OperatorCall]:
    return of_the_operators()


def hostile(value: Any, seed: int) -> Any:
    """Return an array with the ends of its dtype's range, infinities and NaN for its elements."""
    if isinstance(value, tuple):
        return tuple(hostile(part, seed) for part in value)
    if value.dtype == bool:
        return value
    if value.dtype.kind in "iu":
        ends = np.iinfo(value.dtype)
        numbers = np.array([ends.min, ends.max, 0, ends.min // 2, ends.max // 2], value.dtype)
    else:
        numbers = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 60000.0, -1.0]).astype(value.dtype)
    return np.random.default_rng(seed).choice(numbers, value.shape)


def operands(call: OperatorCall, seed: int) -> list[Any]:
    given = iter(arrays(call))
    return [arg.data if isinstance(arg, Constant) else hostile(next(given), seed) for arg in call.args]


def is_refused(call: OperatorCall, values: list[Any]) -> bool:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compute(call.name, values, call.attrs)
        except (ValueError, IndexError, OverflowError, ZeroDivisionError, np.linalg.LinAlgError):
            return True
    return False


@pytest.mark.full
def test_what_may_be_computed_for_nothing_raises_nothing() -> None:
    wrong = {
        call.name
        for call in calls()
        if OPERATORS[call.name].traits & _MAY_BE_COMPUTED
        and Trait.RESHAPES not in OPERATORS[call.name].traits
        for seed in range(3)
        if is_refused(call, operands(call, seed))
    }
    assert not wrong


def raising_call(name: str) -> tuple[OperatorCall, list[Any]]:
    """Return a call of an operator, with operands for which it raises."""
    for call in calls():
        for seed in range(4) if call.name == name else ():
            if is_refused(call, values := operands(call, seed)):
                return call, values
    pytest.skip("no operands are known for which it raises")


def loop_of(call: OperatorCall) -> Module:
    """Return a loop of three rounds, in whose branch that is not taken stands the sum of a call's result."""
    params = [Var(f"p{number}", arg) for number, arg in enumerate(call.args) if not isinstance(arg, Constant)]
    given = iter(params)
    value: Expr = Call(
        OpRef(call.name), tuple(a if isinstance(a, Constant) else next(given) for a in call.args), call.attrs
    )
    type_ = call.module().functions["main"].ret_type
    while isinstance(type_, TupleType):
        value, type_ = TupleGetItem(value, 0), type_.fields[0]
    assert isinstance(type_, TensorType)
    total = Call(OpRef("sum"), (Call(OpRef("cast"), (value,), {"dtype": "float64"}),), {})
    scalar = TensorType((), "int64"), TensorType((), "float64")
    i, s = (Var(name, type_) for name, type_ in zip("is", scalar, strict=True))

    def less(left: Expr, right: int) -> Expr:
        return Call(OpRef("less"), (left, constant(np.int64(right))), {})

    added = If(less(i, -100), Call(OpRef("add"), (s, total), {}), s)
    again = Call(GlobalVar("loop"), (Call(OpRef("add"), (i, constant(np.int64(1))), {}), added, *params), {})
    loop = Function((i, s, *params), If(less(i, 3), again, s), scalar[1])
    outer = [Var(param.name_hint, param.type_annotation) for param in params]
    start = Call(GlobalVar("loop"), (constant(np.int64(0)), constant(np.float64(0)), *outer), {})
    return infer_type(Module({"main": Function(tuple(outer), start, scalar[1]), "loop": loop}))


@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.full)])
@pytest.mark.parametrize("name", MAY_RAISE)
def test_what_may_raise_is_not_computed_in_a_branch_that_is_not_taken(name: str, engine: str) -> None:
    call, values = raising_call(name)
    function = nnmagic.compile(loop_of(call), engine=engine, cache=False)
    given = [value for value, arg in zip(values, call.args, strict=True) if not isinstance(arg, Constant)]
    assert function(*given) == 0


@pytest.mark.parametrize("word", ["and", "or"])
@pytest.mark.parametrize(
    "condition",
    [
        *(f"bool(np.all(np.linalg.{name}(a) > 0))" for name in ("inv", "cholesky")),
        "bool(np.all(np.linalg.solve(a, a) > 0))",
        "a[i, 0] > 0",
        "a[0][i] > 0",
        "np.take(a, i) > 0",
        "3**i > 0",
        "np.power(i, i) > 0",
        "np.ones(i).sum() > 0",
        "a[:i].max() > 0",
    ],
)
def test_what_may_raise_is_not_computed_behind_a_word(condition: str, word: str) -> None:
    source = f"def f(t: bool_, a: Tensor[(2, 2), f64], i: i64):\n    return t {word} {condition}\n"
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    assert function(word == "or", -np.ones((2, 2)), -9) == (word == "or")
