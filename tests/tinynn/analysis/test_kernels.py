"""`@kernel`: one function of machine code, called as what was lowered, cached and pickled like any other."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.structure.structural_equality import structural_equal

CELL = """
@kernel
def add_product(a: Tensor[("n", "k"), f32], b: Tensor[("k", "m"), f32], c: InOut[Tensor[("n", "m"), f32]]):
    n, k = a.shape
    for i in parallel(n):
        for p, j in grid(k, b.shape[1]):
            c[i, j] += a[i, p] * b[p, j]

@kernel
def running_sums(x: Tensor[("n",), f32]):
    y = np.zeros(len(x), f32)
    s = f32(0)
    for i in range(len(x)):
        s += x[i]
        y[i] = s
    return y

def net(x: Tensor[("n", "k"), f32], w: Tensor[("k", "m"), f32]):
    h = np.zeros((x.shape[0], w.shape[1]), f32)
    add_product(x, w, h)
    return relu(h) + running_sums(h[0])
"""


@pytest.fixture(scope="module")
def net() -> nnmagic.CompiledFunction:
    return nnmagic.compile(CELL, namespace={"np": np}, cache=False)


def check(function: nnmagic.CompiledFunction) -> None:
    random_numbers = np.random.default_rng(0)
    x, w = (random_numbers.standard_normal(shape).astype("f4") for shape in ((5, 7), (7, 4)))
    h = x @ w
    expected = np.maximum(h, 0) + np.cumsum(h[0])
    np.testing.assert_allclose(function(x, w), expected, rtol=1e-4, atol=1e-5)


def test_kernels_are_called_from_other_functions(net: nnmagic.CompiledFunction) -> None:
    check(net)
    check(pickle.loads(pickle.dumps(net)))


def test_a_kernel_is_saved(net: nnmagic.CompiledFunction, tmp_path: Path) -> None:
    net.save(tmp_path / "net.nnmagic")
    check(nnmagic.load(tmp_path / "net.nnmagic"))


def test_relays_text_calls_what_was_lowered(net: nnmagic.CompiledFunction) -> None:
    assert "call_lowered(@add_product, (%x, %w, " in net.relay_text
    assert "call_lowered(@running_sums, (%" in net.relay_text
    assert ",))" in net.relay_text  # a tuple of one
    again = nnmagic.relay.infer_type(nnmagic.relay.parse(net.relay.astext()))
    assert structural_equal(again, net.relay)
    assert str(again) == str(net.relay)


def test_call_lowered_wants_a_function_and_a_tuple() -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: float32) { call_lowered(%x, (%x,)) }'
    with pytest.raises(nnmagic.RelayError, match="call_lowered takes a function"):
        nnmagic.relay.parse(text)


def test_a_kernel_is_shown_as_tir(net: nnmagic.CompiledFunction) -> None:
    text = net.stages["tir"]
    assert "def function_add_product(" in text
    assert "def function_running_sums(" in text


def test_a_kernel_alone_is_one_function_of_machine_code() -> None:
    source = """
@kernel
def outer(x: Tensor[("n",), f64], y: Tensor[("m",), f64], z: Out[Tensor[("n", "m"), f64]]):
    for i, j in grid(len(x), len(y)):
        z[i, j] = max(x[i] * y[j], 0) + np.exp(-x[i])
"""
    function = nnmagic.compile(source, namespace={"np": np}, cache=False)
    assert "kernel=1" in function.relay_text
    x, y = np.random.default_rng(1).standard_normal((2, 9))
    z = np.full((9, 8), np.nan)
    function(x, y[:8], z)
    expected = np.maximum(np.outer(x, y[:8]), 0) + np.exp(-x)[:, None]
    np.testing.assert_allclose(z, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return x * 2", "`multiply` computes a whole array"),
        ("return x.sum()", "`sum` goes over a whole array"),
        ("return sort(x)[0]", "`sort` computes a whole array"),
        ("y = x.copy()\n    y[1:] = x[1:]\n    return y", "computes a whole array"),
        ("return other(x)[0]", "`other` computes whole arrays"),
        ("y = np.zeros((3, len(x)), f32)\n    y[0] = x\n    return y", "several elements at once"),
        ("return f(x)", "the kernel `f` calls itself"),
    ],
)
def test_the_graph_level_is_refused_at_its_place(body: str, message: str) -> None:
    result = " -> f32" if "f(x)" in body else ""
    parameters = 'x: Tensor[("n",), f32]'
    source = (
        f"def other({parameters}):\n    return x * 2\n\n@kernel\ndef f({parameters}){result}:\n    {body}\n"
    )
    with pytest.raises(nnmagic.TinyNNError) as caught:
        nnmagic.compile(source, namespace={"np": np}, cache=False)
    (diagnostic, *_) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.hint
    assert diagnostic.span is not None
    assert diagnostic.span.line >= 4


@pytest.mark.parametrize("decorator", ["cached", "kernel()", "np.kernel"])
def test_other_decorators_are_refused(decorator: str) -> None:
    with pytest.raises(nnmagic.TinyNNError, match="takes no decorator"):
        nnmagic.compile(f"@{decorator}\ndef f(x: f32):\n    return x\n", namespace={"np": np}, cache=False)
