"""Gradients by values of data types, and through those that a function builds, folds and evaluates."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.values import AdtValue

_LIST = """
class List:
    def Nil(): ...
    def Cons(head: f64, tail: List): ...

def folded(xs: List, start: f64) -> f64:
    match xs:
        case Nil(): return start
        case Cons(head, tail): return folded(tail, sin(start) * head)

def total(xs: List) -> f64:
    match xs:
        case Nil(): return 0.5
        case Cons(head, tail): return head * head * sin(1 + total(tail))

def reverse(xs: List, seen: List) -> List:
    match xs:
        case Nil(): return seen
        case Cons(head, tail): return reverse(tail, Cons(head * head, seen))

def scaled(xs: List, by: f64) -> List:
    match xs:
        case Nil(): return xs
        case Cons(head, tail): return Cons(head * by, scaled(tail, by * by))
"""

_EXPRESSION = """
class Expr:
    def Const(value: f64): ...
    def Input(index: i64): ...
    def Add(left: Expr, right: Expr): ...
    def Mul(left: Expr, right: Expr): ...
    def Sin(inner: Expr): ...

def evaluate(e: Expr, x: Tensor[(3,), f64]) -> f64:
    match e:
        case Const(value): return value
        case Input(index): return x[index]
        case Add(a, b): return evaluate(a, x) + evaluate(b, x)
        case Mul(a, b): return evaluate(a, x) * evaluate(b, x)
        case Sin(a): return sin(evaluate(a, x))
"""

_TREE = """
class Tree:
    def Leaf(word: Tensor[(2,), f64], at: tuple[i64, f64]): ...
    def Node(left: Tree, right: Tree): ...
"""


def _list(*numbers: float) -> AdtValue:
    made = AdtValue("Nil")
    for number in reversed(numbers):
        made = AdtValue("Cons", (np.float64(number), made))
    return made


def _program() -> AdtValue:
    product = AdtValue("Mul", (AdtValue("Const", (np.float64(1.3),)), AdtValue("Input", (np.int64(0),))))
    constant = AdtValue("Mul", (AdtValue("Const", (np.float64(0.7),)), AdtValue("Input", (np.int64(2),))))
    return AdtValue("Add", (AdtValue("Sin", (product,)), AdtValue("Mul", (constant, product))))


def _tree() -> AdtValue:
    def leaf(a: float, b: float) -> AdtValue:
        return AdtValue("Leaf", (np.array([a, b]), (np.int64(2), np.float64(a * b))))

    inner = AdtValue("Node", (leaf(0.3, -0.4), leaf(0.2, 0.9)))
    return AdtValue("Node", (inner, leaf(-0.8, 0.5)))


def _floats(value: object) -> Iterator[float]:
    """Yield the floats of a value, left to right."""
    if isinstance(value, AdtValue | tuple):
        for part in value.fields if isinstance(value, AdtValue) else value:
            yield from _floats(part)
    elif np.asarray(value).dtype.kind == "f":
        yield from np.asarray(value).ravel().tolist()


def _with(value: object, floats: Iterator[float]) -> object:
    """Return a value with other floats."""
    if isinstance(value, AdtValue):
        return AdtValue(value.constructor, tuple(_with(part, floats) for part in value.fields))
    if isinstance(value, tuple):
        return tuple(_with(part, floats) for part in value)
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return value
    return np.array([next(floats) for _ in range(array.size)]).reshape(array.shape)


def _differences(f: Callable[..., object], args: tuple[object, ...]) -> list[float]:
    """Return the derivatives of a function of all floats of its arguments, by differences."""
    at, step, found = np.array(list(_floats(args))), 1e-6, []
    for direction in np.eye(len(at)) * step:
        ends = (f(*_with(args, iter(at + sign * direction))) for sign in (1, -1))  # type: ignore[misc]
        high, low = (float(np.asarray(end)) for end in ends)
        found.append((high - low) / (2 * step))
    return found


_CASES: dict[str, tuple[str, tuple[object, ...]]] = {
    "a list that is folded from its head": (
        _LIST + "def f(xs: List, x: f64):\n    return folded(xs, x)",
        (_list(2.0, 1.0, 3.0), 0.5),
    ),
    "a list that is folded from its end": (
        _LIST + "def f(xs: List):\n    return total(xs)",
        (_list(0.5, 1.5, 2.0),),
    ),
    "both directions of one list": (
        _LIST + "def f(xs: List, x: f64):\n    return folded(reverse(xs, Nil()), x) * total(xs)",
        (_list(1.2, 0.8, 0.9), 0.5),
    ),
    "a list that a function builds": (
        _LIST + "def f(xs: List, x: f64):\n    return total(scaled(xs, x))",
        (_list(0.5, 1.5, 2.0), 0.8),
    ),
    "a list that a loop builds": (
        _LIST
        + "def f(v: Tensor[('n',), f64]):\n    xs = Nil()\n    for x in v:\n        xs = Cons(sin(x), xs)\n"
        + "    return total(xs)",
        (np.array([0.3, 0.9, 1.4]),),
    ),
    "a loop that takes a list apart": (
        _LIST
        + "def f(xs: List):\n    t, go = 0.2, True\n    while go:\n        match xs:\n"
        + "            case Nil():\n                go = False\n"
        + "            case Cons(head, rest):\n                t, xs = sin(t) + head * head, rest\n"
        + "    return t",
        (_list(0.5, 1.5, 2.0),),
    ),
    "two lists at once, of other lengths": (
        _LIST
        + "def dot(a: List, b: List) -> f64:\n    match (a, b):\n"
        + "        case (Cons(p, r), Cons(q, s)): return p * q + dot(r, s)\n        case _: return 0.0\n"
        + "def f(a: List, b: List):\n    return dot(a, b) * dot(a, a)",
        (_list(2.0, 1.0, 3.0), _list(4.0, 5.0)),
    ),
    "nested patterns, guards and alternatives": (
        _LIST
        + "def walk(xs: List, x: f64) -> f64:\n    match xs:\n"
        + "        case Cons(p, Cons(q, r)) if p > q: return p * q * walk(r, x * p)\n"
        + "        case Cons(p, Cons(_, Cons(q, Nil()))): return p + q * x\n"
        + "        case Cons(p, Nil()) | Cons(p, _): return p * x\n        case _: return x\n"
        + "def f(xs: List, x: f64):\n    return walk(xs, x)",
        (_list(2.0, 1.0, 3.0, 4.0, 5.0), 0.5),
    ),
    "a program that is interpreted": (
        _EXPRESSION + "def f(e: Expr, x: Tensor[(3,), f64]):\n    return evaluate(e, x) ** 2",
        (_program(), np.array([0.3, 0.5, -0.7])),
    ),
    "a program that a loop interprets for many inputs": (
        _EXPRESSION
        + "def f(e: Expr, xs: Tensor[('n', 3), f64]):\n    t = 0.0\n    for i in range(xs.shape[0]):\n"
        + "        t = t + (evaluate(e, xs[i]) - t) ** 2\n    return t",
        (_program(), np.linspace(-0.9, 0.9, 12).reshape(4, 3)),
    ),
    "a tree network": (
        _TREE
        + "def encode(t: Tree, w: Tensor[(2, 4), f64]) -> Tensor[(2,), f64]:\n    match t:\n"
        + "        case Leaf(word, (n, s)): return tanh(word * s) * n\n"
        + "        case Node(a, b): return tanh(w @ concatenate([encode(a, w), encode(b, w)]))\n"
        + "def f(t: Tree, w: Tensor[(2, 4), f64]):\n    return encode(t, w).sum()",
        (_tree(), np.linspace(-0.9, 0.9, 8).reshape(2, 4)),
    ),
    "a tree that is mapped, then folded without parts of it": (
        _TREE
        + "def flip(t: Tree) -> Tree:\n    match t:\n"
        + "        case Leaf(word, (n, s)): return Leaf(word * s, (n, s * s))\n"
        + "        case Node(a, b): return Node(flip(b), flip(a))\n"
        + "def first(t: Tree) -> f64:\n    match t:\n        case Leaf(word, (_, s)): return word.sum() * s\n"
        + "        case Node(Leaf(word, _), b): return word[0] * first(b)\n"
        + "        case Node(a, _): return first(a)\n"
        + "def f(t: Tree):\n    return first(flip(t))",
        (_tree(),),
    ),
    "data types that hold each other, in a tuple": (
        "class A:\n    def End(): ...\n    def Link(x: f64, b: B): ...\n"
        "class B:\n    def Back(n: i64, a: A): ...\n"
        "def of_a(a: A) -> f64:\n    match a:\n        case End(): return 1.0\n"
        "        case Link(x, b): return sin(x) * of_b(b)\n"
        "def of_b(b: B) -> f64:\n    match b:\n        case Back(n, a): return of_a(a) * n\n"
        "def f(p: tuple[A, f64]):\n    return of_a(p[0]) * p[1]",
        (
            (
                AdtValue(
                    "Link",
                    (
                        1.2,
                        AdtValue(
                            "Back",
                            (
                                np.int64(3),
                                AdtValue("Link", (0.4, AdtValue("Back", (np.int64(2), AdtValue("End"))))),
                            ),
                        ),
                    ),
                ),
                0.7,
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", _CASES)
def test_a_gradient_is_that_of_differences(name: str) -> None:
    source, args = _CASES[name]
    f = nnmagic.compile(source, engine="numpy")
    gradients = nnmagic.grad(f, tuple(range(len(args))))(*args)
    np.testing.assert_allclose(list(_floats(gradients)), _differences(f, args), rtol=1e-6, atol=1e-8)


def test_machine_code_computes_the_same() -> None:
    source, args = _CASES["a program that a loop interprets for many inputs"]
    f = nnmagic.compile(source)
    gradients = nnmagic.grad(f, (0, 1))(*args)
    np.testing.assert_allclose(list(_floats(gradients)), _differences(f, args), rtol=1e-6, atol=1e-8)


def test_a_gradient_has_the_constructors_of_its_value_and_zeros_for_integers() -> None:
    f = nnmagic.compile(
        _TREE
        + "def f(t: Tree):\n    match t:\n        case Node(_, Leaf(w, (n, s))): return w[1] * n * s\n"
        + "        case _: return 0.0",
        engine="numpy",
    )
    gradient = nnmagic.grad(f)(_tree())
    nothing = AdtValue("Leaf", (np.zeros(2), (np.int64(0), np.float64(0))))
    leaf = AdtValue("Leaf", (np.array([0, 2 * -0.4]), (np.int64(0), np.float64(2 * 0.5))))
    assert gradient == AdtValue("Node", (AdtValue("Node", (nothing, nothing)), leaf))


def test_second_derivatives_and_tangents_are_those_of_differences() -> None:
    source = _LIST + "def f(xs: List, x: f64):\n    return total(scaled(xs, x))\n"
    source += "def g(xs: List, x: f64):\n    d, e = grad(f, (0, 1))(xs, x)\n    return total(d) * e\n"
    source += "def main(xs: List, x: f64):\n    return f(xs, x), g(xs, x)\n"
    main, args = nnmagic.compile(source, engine="numpy"), (_list(0.5, 1.5, 2.0), 0.8)
    g = nnmagic.compile(
        source.replace("main", "_m") + "def h(xs: List, x: f64):\n    return g(xs, x)", engine="numpy"
    )
    wanted = _differences(g, args)
    np.testing.assert_allclose(list(_floats(nnmagic.grad(g, (0, 1))(*args))), wanted, rtol=1e-6)
    tangents = (_list(0.3, -0.2, 0.7), 0.4)
    _, (_, tangent) = nnmagic.jvp(main)(*args, *tangents)
    np.testing.assert_allclose(tangent, np.dot(wanted, list(_floats(tangents))), rtol=1e-6)


def test_a_cotangent_must_have_the_constructors_of_its_value() -> None:
    f = nnmagic.compile(_LIST + "def f(xs: List):\n    return scaled(xs, 0.5)", engine="numpy")
    pull = nnmagic.vjp(f)
    assert pull(_list(2.0, 3.0), _list(1.0, 4.0)) == (_list(1.0, 0.75), (_list(0.5, 1.0),))
    with pytest.raises(ValueError, match="other constructors than its value"):
        pull(_list(2.0, 3.0), AdtValue("Cons", (1.0, _list(1.0, 2.0))))


def test_no_gradient_flows_through_a_stopped_value() -> None:
    source = _LIST + "def f(xs: List):\n    return folded(xs, total(stop_gradient(xs)))"
    f, xs = nnmagic.compile(source, engine="numpy"), _list(0.5, 1.5, 2.0)
    start = float(nnmagic.compile(_LIST + "def f(xs: List):\n    return total(xs)", engine="numpy")(xs))
    folded = nnmagic.compile(_LIST + f"def f(xs: List):\n    return folded(xs, {start!r})", engine="numpy")
    np.testing.assert_allclose(list(_floats(nnmagic.grad(f)(xs))), _differences(folded, (xs,)), rtol=1e-6)


def test_examples_share_a_value_of_a_data_type() -> None:
    source = _LIST + "def f(xs: List, w: f64):\n    return w * w * total(xs)\n"
    source += "def g(xs: List, w: Tensor[('n',), f64]):\n    return vmap(grad(f, 1), (None, 0))(xs, w)"
    xs, w = _list(0.5, 1.5), np.array([1.0, 2.0, 3.0])
    value = nnmagic.compile(_LIST + "def f(xs: List):\n    return total(xs)", engine="numpy")(xs)
    np.testing.assert_allclose(nnmagic.compile(source, engine="numpy")(xs, w), 2 * w * value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("jacobian(total)(xs)", "jacobian: `xs` is a List, not made of arrays"),
        ("grad(count)(xs)", "argument 0 is a Numbers: only floats have a gradient"),
    ],
)
def test_what_has_no_gradient_is_refused(body: str, message: str) -> None:
    numbers = "class Numbers:\n    def None_(): ...\n    def Some(n: i64, more: Numbers): ...\n"
    count = "def count(xs: Numbers) -> f64:\n    match xs:\n        case None_(): return 0.0\n"
    count += "        case Some(n, more): return n + count(more)\n"
    kind = "Numbers" if "count" in body else "List"
    with pytest.raises(nnmagic.CompileError) as error:
        nnmagic.compile(_LIST + numbers + count + f"def f(xs: {kind}):\n    return {body}", engine="numpy")
    assert message in str(error.value)
