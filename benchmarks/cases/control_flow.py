"""Loops over numbers and over small tensors, which numba runs as Python, and programs with data types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import loops
from benchmarks.case import BEST, Case, Draw, Goal, Ratio
from benchmarks.cases.products import normal

_NUMBA = (Ratio("numba", 1.0),)
_BEST = (Ratio(BEST, 1.0),)

#: Of power iteration, as ``benchmarks.loops`` has it.
_ROUNDS = 100


def _numbers(**values: float | int) -> Draw:
    return lambda _: {name: np.asarray(value) for name, value in values.items()}


def _case(
    function: Callable[..., Any],
    signature: str,
    draw: Draw,
    goals: tuple[Goal, ...] = _NUMBA,
    torch: Callable[..., Any] | None = None,
    jax: Callable[..., Any] | None = None,
) -> Case:
    """Return the row of a function of ``benchmarks.loops``; the cell has its body, with annotations."""
    lines = inspect.getsource(function).splitlines()
    name = function.__name__
    lines = [line.replace("np.", "") for line in lines]
    source = "\n".join([f"def {name}({signature}):", *lines[1:]]) + "\n"
    label = name.replace("_", " ")
    return Case(
        label,
        "control flow",
        goals,
        draw,
        source,
        function,
        numba=function,
        torch=torch,
        jax=jax,
        tolerance=1e-4,
    )


def _power_iteration_in_torch(torch: Any, a: Any, v: Any) -> Any:
    for _ in range(_ROUNDS):
        v = a @ v
        v = v / torch.sqrt(torch.sum(v * v))
    return v


def _power_iteration_in_jax(jax: Any, a: Any, v: Any) -> Any:
    def one_round(_: Any, v: Any) -> Any:
        v = a @ v
        return v / jax.numpy.sqrt(jax.numpy.sum(v * v))

    return jax.lax.fori_loop(0, _ROUNDS, one_round, v)


def _recurrent_in_torch(torch: Any, x: Any, w: Any, h: Any) -> Any:
    for step in x:
        h = torch.tanh(step + w @ h)
    return h


def _recurrent_in_jax(jax: Any, x: Any, w: Any, h: Any) -> Any:
    return jax.lax.scan(lambda h, step: (jax.numpy.tanh(step + w @ h), None), h, x)[0]


def _kalman_filter_in_torch(torch: Any, z: Any, f: Any, ft: Any, q: Any, x: Any, p: Any) -> Any:
    for measured in z:
        x = f @ x
        p = f @ p @ ft + q
        gain = p[:, 0] / (p[0, 0] + 0.1)
        x = x + gain * (measured - x[0])
        p = p - torch.outer(gain, p[0])
    return x


def _kalman_filter_in_jax(jax: Any, z: Any, f: Any, ft: Any, q: Any, x: Any, p: Any) -> Any:
    def step(state: Any, measured: Any) -> Any:
        x, p = state
        x = f @ x
        p = f @ p @ ft + q
        gain = p[:, 0] / (p[0, 0] + 0.1)
        return (x + gain * (measured - x[0]), p - jax.numpy.outer(gain, p[0])), None

    return jax.lax.scan(step, (x, p), z)[0][0]


def _motion(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return 100 measurements of a position that moves with a velocity, along two axes."""
    f = np.eye(4, dtype="float32")
    f[0, 2] = f[1, 3] = 1
    return {
        "z": rng.standard_normal(100).cumsum().astype("float32"),
        "f": f,
        "ft": f.T.copy(),
        "q": np.eye(4, dtype="float32") * np.float32(0.01),
        "x": np.zeros(4, "float32"),
        "p": np.eye(4, dtype="float32"),
    }


#: Of the LSTM: steps, sequences, and the width of its inputs and states.
_STEPS, _SEQUENCES, _WIDTH = 64, 8, 64


def _lstm_in_numpy(x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    hidden = cell = np.zeros(x.shape[1:], x.dtype)
    outputs = []
    for step in x:
        gates = step @ w_ih.T + hidden @ w_hh.T + b_ih + b_hh
        into, forget, out = (1 / (1 + np.exp(-gates[:, part * _WIDTH :][:, :_WIDTH])) for part in (0, 1, 3))
        cell = forget * cell + into * np.tanh(gates[:, 2 * _WIDTH : 3 * _WIDTH])
        hidden = out * np.tanh(cell)
        outputs.append(hidden)
    return np.stack(outputs)


def _lstm_in_torch(torch: Any, x: Any, *weights: Any) -> Any:
    start = torch.zeros(1, _SEQUENCES, _WIDTH)
    return torch.lstm(x, (start, start), weights, True, 1, 0.0, False, False, False)[0]  # noqa: FBT003


def _lstm_in_jax(jax: Any, x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    def step(states: Any, inputs: Any) -> Any:
        hidden, cell = states
        into, forget, candidate, out = jax.numpy.split(inputs + hidden @ w_hh.T, 4, axis=1)
        cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(into) * jax.numpy.tanh(candidate)
        hidden = jax.nn.sigmoid(out) * jax.numpy.tanh(cell)
        return (hidden, cell), hidden

    start = jax.numpy.zeros((_SEQUENCES, _WIDTH), "float32")
    return jax.lax.scan(step, (start, start), x @ w_ih.T + b_ih + b_hh)[1]


_LSTM = Case(
    "lstm of 64 steps",
    "control flow",
    _BEST,
    normal("float32", x=(_STEPS, _SEQUENCES, _WIDTH)),
    f"def lstm_64(x: Tensor[({_STEPS}, {_SEQUENCES}, {_WIDTH}), f32]):\n"
    "    return lstm(x, w_ih=w_ih, w_hh=w_hh, b_ih=b_ih, b_hh=b_hh)[0]\n",
    _lstm_in_numpy,
    lambda rng: {
        name: rng.uniform(-0.1, 0.1, shape).astype("float32")
        for name, shape in {
            "w_ih": (4 * _WIDTH, _WIDTH),
            "w_hh": (4 * _WIDTH, _WIDTH),
            "b_ih": (4 * _WIDTH,),
            "b_hh": (4 * _WIDTH,),
        }.items()
    },
    torch=_lstm_in_torch,
    jax=_lstm_in_jax,
    tolerance=1e-4,
)


_LIST = """\
class List:
    def Nil(): ...
    def Cons(head: f32, tail: List): ...

def build(n: i64, x: f32) -> List:
    items = Nil()
    for i in range(n):
        items = Cons(x + f32(n - 1 - i), items)
    return items

def total(items: List, start: f32) -> f32:
    match items:
        case Nil():
            return start
        case Cons(head, tail):
            return total(tail, start + head)

def sum_of_list(n: i64, x: f32):
    return total(build(n, x), f32(0))
"""

_TREE = """\
class Tree:
    def Leaf(value: f32): ...
    def Node(left: Tree, right: Tree): ...

def build(depth: i64, x: f32) -> Tree:
    if depth <= 0:
        return Leaf(x)
    return Node(build(depth - 1, x * 2), build(depth - 1, x * 2 + 1))

def total(tree: Tree) -> f32:
    match tree:
        case Leaf(value):
            return value
        case Node(left, right):
            return total(left) + total(right)

def sum_of_tree(depth: i64, x: f32):
    return total(build(depth, x))
"""

_EXPRESSION = """\
class Expr:
    def Number(value: f64): ...
    def Input(): ...
    def Sum(a: Expr, b: Expr): ...
    def Product(a: Expr, b: Expr): ...
    def Negative(a: Expr): ...

def value_of(e: Expr, x: f64) -> f64:
    match e:
        case Number(value):
            return value
        case Input():
            return x
        case Sum(a, b):
            return value_of(a, x) + value_of(b, x)
        case Product(a, b):
            return value_of(a, x) * value_of(b, x)
        case Negative(a):
            return -value_of(a, x)

def evaluated(n: i64, points: i64):
    e = Number(1.0)
    for i in range(n):
        e = Sum(Number(f64(i)), Product(Negative(e), Input()))
    total = 0.0
    for i in range(points):
        total += value_of(e, f64(i) / 100.0)
    return total
"""

_ELEMENTS, _DEPTH = 8000, 13


def _sum_of_list(n: Any, x: Any) -> Any:
    """Build and sum nested tuples, without recursion."""
    items: tuple[Any, ...] = ()
    for number in reversed(range(int(n))):
        items = (x + number, items)
    total = x - x
    while items:
        total, items = total + items[0], items[1]
    return total


def _sum_of_tree(depth: Any, x: Any) -> Any:
    """Build and sum nested tuples."""

    def build(depth: int, x: Any) -> Any:
        return (build(depth - 1, x * 2), build(depth - 1, x * 2 + 1)) if depth else x

    def total(tree: Any) -> Any:
        return total(tree[0]) + total(tree[1]) if isinstance(tree, tuple) else tree

    return total(build(int(depth), x))


def _evaluated(n: Any, points: Any) -> Any:
    """Evaluate nested tuples."""
    e: Any = 1.0
    for i in range(int(n)):
        e = ("+", float(i), ("*", ("-", e), None))

    def value(e: Any, x: float) -> float:
        match e:
            case None:
                return x
            case ("+", a, b):
                return value(a, x) + value(b, x)
            case ("*", a, b):
                return value(a, x) * value(b, x)
            case ("-", a):
                return -value(a, x)
        return float(e)

    return np.float64(sum(value(e, i / 100) for i in range(int(points))))


_DATA_TYPES = tuple(
    Case(label, "control flow", _NUMBA, draw, source, reference, numba=function, tolerance=1e-4)
    for label, draw, source, reference, function in (
        (
            f"list of {_ELEMENTS}, built and summed",
            _numbers(n=_ELEMENTS, x=np.float32(1)),
            _LIST,
            _sum_of_list,
            loops.sum_of_list,
        ),
        (
            f"tree of {2**_DEPTH} leaves, built and summed",
            _numbers(depth=_DEPTH, x=np.float32(0)),
            _TREE,
            _sum_of_tree,
            loops.sum_of_tree,
        ),
        (
            "expression of 250 nodes, at 100 points",
            _numbers(n=50, points=100),
            _EXPRESSION,
            _evaluated,
            loops.evaluated,
        ),
    )
)

_MATRIX = 'Tensor[("n", "n"), f64]'


def _definite(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return a symmetric positive definite matrix."""
    m = rng.random((200, 200)) + 200 * np.eye(200)
    return {"m": m @ m.T}


def _stencil(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {"u": rng.random((200, 200)), "rounds": np.asarray(10)}


_ELEMENTS_OF_ARRAYS = (
    _case(loops.moving_average, 'x: Tensor[("n",), f64]', normal("float64", x=(5_000,))),
    _case(loops.prefix_sums, 'x: Tensor[("n",), f64]', normal("float64", x=(5_000,))),
    *(
        _case(function, f"u: {_MATRIX}, rounds: i64", _stencil)
        for function in (loops.jacobi_by_elements, loops.jacobi_by_slices)
    ),
    _case(loops.cholesky, f"m: {_MATRIX}", _definite),
    _case(loops.lu, f"m: {_MATRIX}", _definite),
    _case(loops.floyd_warshall, f"m: {_MATRIX}", _definite),
    _case(
        loops.triangular_solve,
        f'm: {_MATRIX}, b: Tensor[("n",), f64]',
        lambda rng: {**_definite(rng), "b": rng.random(200)},
    ),
)

ROWS = (
    _case(loops.collatz, "n: i64", _numbers(n=837_799)),
    _case(loops.gcd, "a: i64, b: i64", _numbers(a=1_100_087_778_366_101, b=679_891_637_638_612)),
    _case(loops.logistic_map, "x: f64", _numbers(x=0.3)),
    _case(loops.compensated_sum, 'x: Tensor[("n",), f64]', normal("float64", x=(10_000,))),
    _case(loops.vote, 'x: Tensor[("n",), i64]', lambda rng: {"x": rng.integers(0, 3, 10_000)}),
    _case(
        loops.power_iteration,
        "a: Tensor[(40, 40), f32], v: Tensor[(40,), f32]",
        lambda rng: {"a": rng.random((40, 40), np.float32), "v": rng.random(40, np.float32)},
        _BEST,
        _power_iteration_in_torch,
        _power_iteration_in_jax,
    ),
    _case(
        loops.recurrent,
        "x: Tensor[(64, 32), f32], w: Tensor[(32, 32), f32], h: Tensor[(32,), f32]",
        lambda rng: {
            name: rng.uniform(-0.1, 0.1, shape).astype("float32")
            for name, shape in {"x": (64, 32), "w": (32, 32), "h": (32,)}.items()
        },
        _BEST,
        _recurrent_in_torch,
        _recurrent_in_jax,
    ),
    _case(
        loops.kalman_filter,
        "z: Tensor[(100,), f32], f: Tensor[(4, 4), f32], ft: Tensor[(4, 4), f32], q: Tensor[(4, 4), f32], "
        "x: Tensor[(4,), f32], p: Tensor[(4, 4), f32]",
        _motion,
        _BEST,
        _kalman_filter_in_torch,
        _kalman_filter_in_jax,
    ),
    _LSTM,
    *_DATA_TYPES,
    *_ELEMENTS_OF_ARRAYS,
)
