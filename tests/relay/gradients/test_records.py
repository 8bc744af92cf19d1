"""Parameters as structures: record classes of a cell, tuples, `tree_map`, and gradients of their shape."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells.compile_cell import compile_cell

RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=(5, 3)), RNG.normal(size=5)
W, B, V = RNG.normal(size=(3, 3)), RNG.normal(size=3), RNG.normal(size=3)
PARAMS = {"first": {"w": W, "b": B}, "v": V}
ARGUMENTS = 'p: Params, x: Tensor[("n", 3), f64], y: Tensor[("n",), f64]'
CLASSES = '''
class Layer:
    """A layer."""
    w: Tensor[(3, 3), f64]
    b: Tensor[(3,), f64]

class Params:
    first: Layer
    v: Tensor[(3,), f64]
'''
LOSS = f"""{CLASSES}
def loss({ARGUMENTS}):
    hidden = tanh(x @ p.first.w + p.first.b)
    return mse_loss(hidden @ p.v, y)
"""
STEP = f"""{LOSS}
def step({ARGUMENTS}, lr: f64 = 0.1):
    value, g = value_and_grad(loss)(p, x, y)
    return value, tree_map(lambda a, b: a - lr * b, p, g)
"""


@dataclasses.dataclass
class LayerData:
    w: Any
    b: Any


@dataclasses.dataclass
class ParamsData:
    v: Any
    first: Any


ParamsTuple = collections.namedtuple("ParamsTuple", "first v")


def expected() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    hidden = np.tanh(X @ W + B)
    error = 2 * (hidden @ V - Y) / len(Y)
    inner = error[:, None] * V * (1 - hidden**2)
    return X.T @ inner, inner.sum(0), hidden.T @ error


@pytest.fixture(scope="module")
def step() -> nnmagic.CompiledFunction:
    return nnmagic.compile(STEP)


@pytest.fixture(scope="module")
def loss() -> nnmagic.CompiledFunction:
    return nnmagic.compile(LOSS)


@pytest.mark.parametrize(
    ("params", "read"),
    [
        (PARAMS, lambda new: (new["first"]["w"], new["first"]["b"], new["v"])),
        (ParamsData(V, LayerData(W, B)), lambda new: (new.first.w, new.first.b, new.v)),
        (ParamsTuple({"b": B, "w": W}, V), lambda new: (new.first["w"], new.first["b"], new.v)),
        (((W, B), V), lambda new: (*new[0], new[1])),
    ],
    ids=["dictionary", "dataclass", "NamedTuple", "tuple"],
)
def test_a_record_is_given_back_as_what_it_was(
    step: nnmagic.CompiledFunction, params: Any, read: Any
) -> None:
    value, new = step(params, X, Y)
    np.testing.assert_allclose(value, ((np.tanh(X @ W + B) @ V - Y) ** 2).mean())
    assert type(new) is type(params)
    for found, old, gradient in zip(read(new), (W, B, V), expected(), strict=True):
        np.testing.assert_allclose(found, old - 0.1 * gradient, rtol=1e-12)


@pytest.mark.full
def test_a_gradient_has_the_form_of_the_record(loss: nnmagic.CompiledFunction) -> None:
    gradient = nnmagic.grad(loss)
    assert "p: Params" in repr(gradient)
    found = gradient(PARAMS, X, Y)
    for own, reference in zip(
        (found["first"]["w"], found["first"]["b"], found["v"]), expected(), strict=True
    ):
        np.testing.assert_allclose(own, reference, rtol=1e-12)
    each = nnmagic.vmap(nnmagic.compile(LOSS), in_axes=(0, None, None))
    both = {"first": {"w": np.stack([W, 2 * W]), "b": np.stack([B, B])}, "v": np.stack([V, V])}
    np.testing.assert_allclose(each(both, X, Y)[0], loss(PARAMS, X, Y), rtol=1e-12)


def test_a_record_travels(step: nnmagic.CompiledFunction, tmp_path: Path) -> None:
    step.save(tmp_path / "step.nnm")
    for function in (nnmagic.load(tmp_path / "step.nnm"), pickle.loads(pickle.dumps(step))):
        np.testing.assert_array_equal(function(PARAMS, X, Y)[1]["v"], step(PARAMS, X, Y)[1]["v"])
        assert str(function.__signature__) == str(step.__signature__)


@pytest.mark.full
def test_the_class_is_a_name_of_the_notebook(loss: nnmagic.CompiledFunction) -> None:
    cell = compile_cell(nnmagic.diagnostics.Source("<cell>", CLASSES), {}, Options(), cache=False)
    names = cell.bindings
    made = names["Params"](first=names["Layer"](W, B), v=V)
    assert made.v is V
    assert made._fields == ("first", "v")
    later = nnmagic.compile(
        'def f(p: Params, x: Tensor[("n", 3), f64], y: Tensor[("n",), f64]):\n'
        "    q = Params(p.first, v=p.v * 2)\n"
        "    return q, loss(p, x, y)\n",
        namespace={**names, "loss": loss},
    )
    new, value = later(made, X, Y)
    np.testing.assert_array_equal(new.v, 2 * V)
    np.testing.assert_allclose(value, loss(PARAMS, X, Y), rtol=1e-12)
    built = nnmagic.compile("def f(v: Tensor[(3,), f64]):\n    return Layer(diag(v), v)\n", namespace=names)
    assert type(built(V)) is names["Layer"]
    np.testing.assert_array_equal(built(V).b, V)


def test_records_pass_through_control_flow() -> None:
    function = nnmagic.compile(
        f"{CLASSES}\ndef f(p: Params, n: i64, late: bool_):\n"
        "    q = p\n"
        "    if late:\n        q = Params(q.first, q.v + 1)\n"
        "    for i in range(n):\n        q = tree_map(lambda a: a * 0.5, q)\n"
        "    while q.v.sum() > 1:\n        q = Params(q.first, q.v - 1)\n"
        "    return q, q.first.w.sum()\n"
    )
    new, total = function(PARAMS, 2, True)
    reference = (V + 1) / 4
    while reference.sum() > 1:
        reference = reference - 1
    np.testing.assert_allclose(new["v"], reference)
    np.testing.assert_allclose(total, W.sum() / 4)


def test_out_may_be_the_records_of_the_arguments(step: nnmagic.CompiledFunction) -> None:
    reference = step(PARAMS, X, Y)
    own = {"first": {"w": W.copy(), "b": B.copy()}, "v": V.copy()}
    value = np.zeros(())
    result = step(own, X, Y, out=(value, own))
    assert result[1] is own
    np.testing.assert_array_equal(own["first"]["w"], reference[1]["first"]["w"])
    np.testing.assert_array_equal(value, reference[0])


def test_a_tuple_of_arrays_is_a_parameter_in_the_same_way() -> None:
    function = nnmagic.compile(
        "def loss(p: tuple[Tensor[(3, 3), f64], Tensor[(3,), f64]], x: Tensor[(5, 3), f64]):\n"
        "    return (tanh(x @ p[0] + p[1]) ** 2).sum()\n"
        "def step(p: tuple[Tensor[(3, 3), f64], Tensor[(3,), f64]], x: Tensor[(5, 3), f64]):\n"
        "    out, pull = vjp(lambda q: loss(q, x), p)\n"
        "    g, = pull(1.0)\n"
        "    return tree_map(lambda a, b: a - b, p, g), tree_map(sin, (x, (p, x)))[1][0][1]\n"
    )
    (w, b), sine = function((W, B), X)
    hidden = np.tanh(X @ W + B)
    inner = 2 * hidden * (1 - hidden**2)
    np.testing.assert_allclose(w, W - X.T @ inner, rtol=1e-10)
    np.testing.assert_allclose(b, B - inner.sum(0), rtol=1e-10)
    np.testing.assert_allclose(sine, np.sin(B), rtol=1e-12)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("p.w", "the record `Params` has no field `w`"),
        ("p.frist", "did you mean first?"),
        ("Params(p.first)", "Params: missing argument `v`"),
        (
            "Params(p.first, p.first.w)",
            "the field `v` is declared as Tensor[(3,), f64], but is Tensor[(3, 3), f64]",
        ),
        ("Params(p.first, p.v, z=p.v)", "`z`"),
        (
            "tree_map(lambda a, b: a, p, p.first)",
            "tree_map: a Tensor[(3, 3), f64] has not the form of a Layer",
        ),
        ("tree_map(3, p)", "`f` must be a function"),
        ("grad(lambda q: q.v)(p)", "not a float of rank 0"),
    ],
)
def test_wrong_use_in_a_cell(body: str, message: str) -> None:
    with pytest.raises(nnmagic.CompileError) as caught:
        nnmagic.compile(f"{CLASSES}\ndef f(p: Params):\n    return {body}\n")
    assert message in str(caught.value)
    assert all(each.span is not None and each.span.line == 12 for each in caught.value.diagnostics)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("a: f32 = 1", "has fields that belong to no constructor"),
        ("a: f32\n    a: f64", "the field `a` is declared twice"),
        ("a: f32\n    b: R", "unknown name `R`"),
        ("a: f32\n    def C(): ...", "has fields that belong to no constructor"),
        ("a: 3", "is no type"),
    ],
)
def test_wrong_classes(fields: str, message: str) -> None:
    with pytest.raises(nnmagic.CompileError, match=message):
        nnmagic.compile(f"class R:\n    {fields}\ndef f(r: R):\n    return r.a\n")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"first": PARAMS["first"]}, r"'p' has no field 'v'; Params has first, v"),
        ({**PARAMS, "vv": V}, r"Params has no field 'vv'\. Did you mean 'v'"),
        ({"first": {"w": W, "b": V[:2]}, "v": V}, r"'p'\.first\.b must be .* not of shape"),
        ({"first": {"w": W, "b": V.astype("float32")}, "v": V}, r"'p'\.first\.b must be"),
        (3, "must be a Params, or have its fields: first, v, not an int; give a dictionary"),
        ((1, 2, 3), "not a tuple of 3"),
        (ParamsData, "must be a Params"),
    ],
)
def test_wrong_arguments(loss: nnmagic.CompiledFunction, params: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        loss(params, X, Y)
