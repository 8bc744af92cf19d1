"""nnmagic.numpy: the names of cells for imports, which mean in a function what the bare names mean."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import FunctionType, ModuleType

import numpy as np
import pytest

import nnmagic
import nnmagic.numpy
import nnmagic.numpy as nnp
from nnmagic import Tensor, f32, grad, hessian, jacobian, vmap
from nnmagic.numpy import float32, linalg, nn, parallel, pi, random, softmax, topk, where
from nnmagic.numpy import sum as add_up

ROOT = Path(__file__).parent.parent
X = np.array([[1, -2, 3], [4, 5, -6]], "float32")


def run(function: object) -> object:
    return nnmagic.compile(function, engine="numpy", cache=False)(X)  # type: ignore[call-overload]


def test_the_stub_is_what_the_language_has() -> None:
    spec = importlib.util.spec_from_file_location("numpy_stub", ROOT / "tools" / "numpy_stub.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    shown = tool.STUB.read_text(encoding="utf-8")
    assert shown == tool.stub(), "run python tools/numpy_stub.py"
    for name in dir(nnp):
        if name.isidentifier() and name not in (*tool.OF_PYTHON, "map", "list"):
            assert f"{name}" in shown


def test_every_name_can_be_imported_and_is_itself_in_a_function() -> None:
    for name in dir(nnp):
        value = getattr(nnp, name)
        assert getattr(nnp, name) is value
        if not isinstance(value, FunctionType) or name == "list":
            continue
        with pytest.raises(nnmagic.TinyNNError) as caught:  # a function that is not called is no tensor
            nnmagic.compile("def f(x: f32):\n    return g\n", namespace={"g": value}, cache=False)
        assert "cannot use" not in str(caught.value)


def test_imported_names_mean_the_bare_ones() -> None:
    def f(x: Tensor[(2, 3), f32]):
        total = 0.0
        for i in parallel(3):
            total += x[0, i]
        key = random.key(0)
        return (
            softmax(x, axis=1), where(x > 0, x, nnp.pi), nnp.relu(x), nn.relu(-x), add_up([x, x]),
            x * pi + total, topk(x, k=2)[0], random.normal(key, (2,)), nnmagic.numpy.exp(x),
            linalg.norm(x), nnp.linalg.norm(x), x.astype(float32), x.astype(nnp.float64), x[:, nnp.newaxis],
        )  # fmt: skip

    source = """
def f(x: Tensor[(2, 3), f32]):
    total = 0.0
    for i in parallel(3):
        total += x[0, i]
    key = random.key(0)
    return (
        softmax(x, axis=1), where(x > 0, x, pi), relu(x), nn.relu(-x), sum([x, x]), x * pi + total,
        topk(x, k=2)[0], random.normal(key, (2,)), exp(x), np.linalg.norm(x), np.linalg.norm(x),
        x.astype(f32), x.astype(f64), x[:, None],
    )
"""
    bare = nnmagic.compile(source, namespace={"np": np}, engine="numpy", cache=False)(X)
    for ours, expected in zip(run(f), bare, strict=True):  # type: ignore[call-overload]
        assert ours.dtype == expected.dtype
        np.testing.assert_array_equal(ours, expected)


def test_transformations_of_nnmagic_are_those_of_cells() -> None:
    def f(x: Tensor[(2, 3), f32]):
        def cubes(v):
            return (v**3).sum()

        return (
            grad(cubes)(x),
            vmap(cubes)(x),
            jacobian(cubes)(x),
            hessian(cubes)(x[0]),
            nnmagic.grad(cubes)(x),
        )

    gradient, each, matrix, second, again = run(f)  # type: ignore[misc]
    for result in (gradient, matrix, again):
        np.testing.assert_allclose(result, 3 * X**2)
    np.testing.assert_allclose(each, (X**3).sum(axis=1))
    np.testing.assert_allclose(second, np.diag(6 * X[0]))


def test_an_imported_name_is_known_to_the_cache() -> None:
    source = "def f(x: Tensor[(2, 3), f32]):\n    return s(x, axis=0) + g(x)\n"
    loss = nnmagic.compile("def loss(x: Tensor[(2, 3), f32]):\n    return (x * x).sum()\n", engine="numpy")
    source = "def f(x: Tensor[(2, 3), f32]):\n    return s(x, axis=0) + g(loss)(x)\n"
    names = {"s": softmax, "g": grad, "loss": loss}
    nnmagic.compile(source, namespace=names, engine="numpy")
    assert nnmagic.compile(source, namespace=names, engine="numpy").cache_info.hit == "memory"
    other = nnmagic.compile(source, namespace={**names, "s": nnp.log_softmax}, engine="numpy")
    assert other.cache_info.hit is None


@pytest.mark.parametrize("name", ["softmax", "zeros", "grad", "topk"])
def test_python_cannot_call_them(name: str) -> None:
    message = rf"{name}\(\) of nnmagic.numpy is for compiled functions: call it in a function under @nnmagic"
    with pytest.raises(TypeError, match=message):
        getattr(nnp, name)(X)


def test_what_is_not_there() -> None:
    with pytest.raises(AttributeError, match=r"module 'nnmagic\.numpy' has no attribute 'nothing'"):
        _ = nnp.nothing  # type: ignore[attr-defined]
    assert isinstance(nnp.linalg, ModuleType)
    assert nnp.Array is nnmagic.Array is np.ndarray
    assert nnp.softmax.__doc__ == "Compute exp(x) divided by its sum along an axis, by default the last."
