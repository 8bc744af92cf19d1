"""Runs Relay over NumPy, one node after the other: a second engine for small programs of tests.

Knows Relay's expressions; nothing of how a cell becomes one, nor of the engine. Calls at the end of a
function take no stack, so loops may be long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.types import NUMPY_DTYPES
from nnmagic.relay.values import AdtValue

#: What a variable stands for, and what a node of the graph around it gave: one dictionary for both.
Env = dict[ir.Expr, object]


@dataclass(frozen=True, eq=False)
class Closure:
    """A function with the names around it."""

    function: ir.Function
    env: Env


class Unmatched(Exception):  # what a failed assertion comes to
    """No clause took the value."""


def _axes(attrs: Mapping[str, object]) -> object:
    axis = attrs["axis"]
    return tuple(axis) if isinstance(axis, tuple) else axis


def _strided_slice(x: np.ndarray, attrs: Mapping[str, object]) -> np.ndarray:
    """NumPy's slices; an end below -n stands for none, as it does in Python."""
    assert attrs["slice_mode"] == "end"
    begin, end, strides, axes = (attrs[name] for name in ("begin", "end", "strides", "axes"))
    index = [slice(None)] * x.ndim
    for number, axis in enumerate(axes or range(len(begin))):  # type: ignore[arg-type]  # tuples
        step = int(strides[number % len(strides)])  # type: ignore[index, arg-type]
        low, high = int(begin[number]), int(end[number])  # type: ignore[index]
        index[axis] = slice(low, None if high < -x.shape[axis] else high, step)
    return x[tuple(index)]


def _take(x: np.ndarray, index: np.ndarray, attrs: Mapping[str, object]) -> np.ndarray:
    mode = {"clip": "clip", "wrap": "wrap", "fast": "raise"}[str(attrs["mode"])]
    return np.take(x, index, attrs["axis"], mode=mode)


#: Operators that are NumPy's functions of the same arguments.
_PLAIN: dict[str, Callable[..., object]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "floor_mod": np.mod,
    "mod": np.fmod,
    "power": np.power,
    "negative": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "trunc": np.trunc,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "where": np.where,
    "isnan": np.isnan,
    "exp": np.exp,
}
_WITH_ATTRS: dict[str, Callable[..., object]] = {
    "cast": lambda x, attrs: x.astype(NUMPY_DTYPES[attrs["dtype"]]),
    "sum": lambda x, attrs: np.sum(x, _axes(attrs), x.dtype, keepdims=attrs["keepdims"]),
    "max": lambda x, attrs: np.max(x, _axes(attrs), keepdims=attrs["keepdims"]),
    "min": lambda x, attrs: np.min(x, _axes(attrs), keepdims=attrs["keepdims"]),
    "any": lambda x, attrs: np.any(x, _axes(attrs), keepdims=attrs["keepdims"]),
    "all": lambda x, attrs: np.all(x, _axes(attrs), keepdims=attrs["keepdims"]),
    "squeeze": lambda x, attrs: np.squeeze(x, _axes(attrs)),
    "expand_dims": lambda x, attrs: np.expand_dims(x, attrs["axis"]),
    "stack": lambda xs, attrs: np.stack(xs, attrs["axis"]),
    "concatenate": lambda xs, attrs: np.concatenate(xs, attrs["axis"]),
    "zeros": lambda attrs: np.zeros(tuple(map(int, attrs["shape"])), NUMPY_DTYPES[attrs["dtype"]]),
    "ones": lambda attrs: np.ones(tuple(map(int, attrs["shape"])), NUMPY_DTYPES[attrs["dtype"]]),
    "zeros_like": lambda x, attrs: np.zeros_like(x),
    "ones_like": lambda x, attrs: np.ones_like(x),
    "full": lambda x, attrs: np.full(tuple(map(int, attrs["shape"])), x, NUMPY_DTYPES[attrs["dtype"]]),
    "clip": lambda x, attrs: np.clip(x, attrs["a_min"], attrs["a_max"]),
    "reshape": lambda x, attrs: np.reshape(x, tuple(map(int, attrs["newshape"]))),
    "shape_of": lambda x, attrs: np.asarray(x.shape, NUMPY_DTYPES[attrs["dtype"]]),
    "strided_slice": _strided_slice,
    "take": _take,
}


def run(module: Module, name: str, *arguments: object) -> object:
    """What a function of a module gives. Raises Unmatched where an assertion fails."""
    with np.errstate(all="ignore"):
        return _call(module, module.functions[name], {}, list(arguments))


def _call(module: Module, function: ir.Function, around: Env, arguments: list[object]) -> object:
    env: Env = {**around, **dict(zip(function.params, arguments, strict=True))}
    node = function.body
    while True:  # what stands at the end of a function is carried out without recursion
        match node:
            case ir.Let(var=variable, value=value, body=node):
                if isinstance(value, ir.Function):
                    env[variable] = Closure(value, env)  # sees itself
                else:
                    env[variable] = _value(module, value, env)
            case ir.If(cond=condition, true_branch=then, false_branch=other):
                node = then if bool(_value(module, condition, env)) else other
            case ir.Match():
                node = _choose_clause(module, node, env)
            case ir.Call(op=callee, args=args) if not isinstance(callee, ir.OpRef | ir.Constructor):
                given = [_value(module, each, env) for each in args]
                target = _value(module, callee, env)
                if not isinstance(target, Closure):
                    assert isinstance(target, ir.Constructor)
                    return AdtValue(target.name, tuple(given))
                env = {**target.env, **dict(zip(target.function.params, given, strict=True))}
                node = target.function.body
            case _:
                return _value(module, node, env)


def _value(module: Module, node: ir.Expr, env: Env) -> object:
    """A node's value, computed once in its scope."""
    if node in env:
        return env[node]
    match node:
        case ir.Constant(data=data):
            return data
        case ir.GlobalVar(name=name):
            return Closure(module.functions[name], {})
        case ir.Constructor():
            return node
        case ir.Function():
            return Closure(node, dict(env))
        case ir.Tuple(fields=fields):
            result: object = tuple(_value(module, field, env) for field in fields)
        case ir.TupleGetItem(tuple_value=whole, index=index):
            result = _value(module, whole, env)[index]  # type: ignore[index]  # a tuple
        case ir.Call(op=ir.OpRef(name=name), args=args, attrs=attrs):
            given = [_value(module, each, env) for each in args]
            result = _PLAIN[name](*given) if name in _PLAIN else _WITH_ATTRS[name](*given, attrs)
            result = np.asarray(result)
        case ir.Call(op=ir.Constructor(name=name), args=args):
            result = AdtValue(name, tuple(_value(module, each, env) for each in args))
        case ir.Let() | ir.If() | ir.Match() | ir.Call():
            result = _call(module, ir.Function((), node), env, [])
        case _:
            raise AssertionError(f"{node!r} has no value")
    env[node] = result
    return result


def _choose_clause(module: Module, node: ir.Match, env: Env) -> ir.Expr:
    """The right side of the clause that takes the value; its names are bound."""
    value = _value(module, node.data, env)
    for clause in node.clauses:
        bound: Env = {}
        if _matches(clause.lhs, value, bound):
            env.update(bound)
            return clause.rhs
    raise Unmatched


def _matches(pattern: ir.Pattern, value: object, bound: Env) -> bool:
    match pattern:
        case ir.PatternVar(var=variable):
            bound[variable] = value
        case ir.PatternConstructor(constructor=constructor, patterns=parts):
            if isinstance(value, ir.Constructor):
                value = AdtValue(value.name)
            assert isinstance(value, AdtValue)
            return value.constructor == constructor.name and all(
                _matches(part, field, bound) for part, field in zip(parts, value.fields, strict=True)
            )
        case ir.PatternTuple(patterns=parts):
            assert isinstance(value, tuple)
            return all(_matches(part, item, bound) for part, item in zip(parts, value, strict=True))
    return True


def find_shared_nodes(function: ir.Function) -> list[ir.Expr]:
    """Nodes that would be computed more than once: no scope around all their uses computes them first.

    A scope is a branch, a clause or the body of a function.
    """
    homes: dict[ir.Expr, tuple[int, ...]] = {}
    shared: list[ir.Expr] = []
    numbers = iter(range(10**9))
    work: list[tuple[ir.Expr, tuple[int, ...]]] = [(function.body, ())]
    while work:
        node, scope = work.pop()
        if isinstance(node, ir.Var | ir.Constant | ir.OpRef | ir.GlobalVar | ir.Constructor):
            continue
        if node in homes:
            if homes[node] != scope[: len(homes[node])]:
                shared.append(node)
            continue
        homes[node] = scope
        parts: list[tuple[ir.Expr, tuple[int, ...]]]
        match node:
            case ir.If(cond=condition, true_branch=then, false_branch=other):
                parts = [
                    (condition, scope),
                    (then, (*scope, next(numbers))),
                    (other, (*scope, next(numbers))),
                ]
            case ir.Match(data=data, clauses=clauses):
                parts = [(data, scope), *((each.rhs, (*scope, next(numbers))) for each in clauses)]
            case ir.Function(body=body):
                parts = [(body, (*scope, next(numbers)))]
            case _:
                parts = [(part, scope) for part in ir.children(node)]
        work += reversed(parts)
    return shared
