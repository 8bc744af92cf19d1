"""What users call: names, arguments, errors, warnings, files.

They judge `tinynn/elaborate/gradient_operands`, too.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic.relay.passes import gradient

LOSS = '''
def loss(w: Tensor[(3,), f32], x: Tensor[("n", 3), f32], k: f32 = 2.0):
    """A loss."""
    return mean(tanh(x @ w) ** 2) * k
'''
X = np.array([[0.1, 0.5, 0.3], [1, 2, 3]], "float32")
W = np.array([0.7, -0.2, 2.0], "float32")


def expected(k: float = 2.0) -> np.ndarray:
    h = np.tanh(X.astype(float) @ W)
    return X.T @ (2 * h * (1 - h * h) * k / len(X))


@pytest.fixture(scope="module")
def loss() -> nnmagic.CompiledFunction:
    return nnmagic.compile(LOSS)


def test_grad_gives_a_compiled_function(loss: nnmagic.CompiledFunction, tmp_path: Path) -> None:
    function = nnmagic.grad(loss)
    assert list(function.__signature__.parameters) == ["w", "x", "k"]
    np.testing.assert_allclose(function(W, X), expected(), rtol=1e-4)
    np.testing.assert_allclose(function(W, x=X, k=3.0), expected(3.0), rtol=1e-4)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(function))(W, X), expected(), rtol=1e-4)
    function.save(tmp_path / "g.nnm")
    np.testing.assert_allclose(nnmagic.load(tmp_path / "g.nnm")(W, X), expected(), rtol=1e-4)
    assert nnmagic.grad(loss).cache_info.hit == "memory"
    assert "ref" not in function.relay_text
    assert "grad(_function" in function.stages["source"]


@pytest.mark.full
def test_argnums_give_gradients_of_the_form_of_parameters(loss: nnmagic.CompiledFunction) -> None:
    value, (of_w, of_k) = nnmagic.value_and_grad(loss, (0, -1))(W, X)
    np.testing.assert_allclose(value, loss(W, X), rtol=1e-6)
    np.testing.assert_allclose(of_w, expected(), rtol=1e-4)
    np.testing.assert_allclose(of_k, value / 2, rtol=1e-6)
    pair = nnmagic.compile(
        "def f(p: tuple[f32, tuple[Tensor[(2,), f32], f32]]):\n    return p[0] * p[1][0].sum()\n"
    )
    first, (second, third) = nnmagic.grad(pair)((2.0, (np.ones(2, "float32"), 1.0)))
    assert (float(first), list(second), float(third)) == (2.0, [2.0, 2.0], 0.0)


def test_argnums_may_be_names_of_parameters_by_keyword_only_too() -> None:
    f = nnmagic.compile("def f(x: f64, *, w: f64, b: f32 = 1.0):\n    return x * x * w * b", engine="numpy")
    assert nnmagic.grad(f, "w")(2.0, w=3.0) == 4
    assert nnmagic.value_and_grad(f, ("w", 0))(2.0, w=3.0) == (12, (4, 12))
    assert nnmagic.vjp(f, ("b",))(2.0, 1.0, w=3.0) == (12, (12,))
    assert nnmagic.hessian(f, ("x", "w"))(2.0, w=3.0) == ((6, 4), (4, 0))
    source = (
        "def f(x: f64, *, w: f64, b: f32 = 1.0):\n    return x * x * w * b\n"
        "def g(x: f64, w: f64):\n"
        "    return grad(f)(x, w=w), grad(f, ('b', 'x'))(x, b=2.0, w=w), grad(f, argnums='x')(w=w, x=x)"
    )
    assert nnmagic.compile(source, engine="numpy")(2.0, 3.0) == (12, (12, 24), 12)
    with pytest.raises(ValueError, match="argnums has 'v', but the parameters are x, w, b"):
        nnmagic.vjp(f, "v")


def test_aux_may_be_a_record_and_cotangents_may_weigh_several_outputs() -> None:
    source = (
        "class P:\n    w: f64\n    b: f64\n"
        "def f(p: P):\n    return p.w * p.w * p.b, P(p.b, p.w)\n"
        "def g(p: P):\n    out, pull = vjp(lambda p: (p.w * p.b, p.w ** 2), p)\n"
        "    return value_and_grad(f, has_aux=True)(p), pull((2.0, 3.0))"
    )
    ((value, aux), gradient_), (weighed,) = nnmagic.compile(source, engine="numpy")({"w": 2.0, "b": 5.0})
    assert (value, aux, gradient_) == (20, {"w": 5, "b": 2}, {"w": 20, "b": 4})
    assert weighed == {"w": 2 * 5 + 3 * 4, "b": 2 * 2}


def test_aux_is_passed_on() -> None:
    function = nnmagic.compile("def f(x: f32):\n    return x * x, x + 1\n")
    gradient_, aux = nnmagic.grad(function, has_aux=True)(3.0)
    assert (float(gradient_), float(aux)) == (6.0, 4.0)
    (value, aux), gradient_ = nnmagic.value_and_grad(function, has_aux=True)(3.0)
    assert (float(value), float(aux), float(gradient_)) == (9.0, 4.0, 6.0)


@pytest.mark.full
def test_vjp_and_jvp(loss: nnmagic.CompiledFunction) -> None:
    value, (of_w, _, _) = nnmagic.vjp(loss)(W, X, 2.0, 0.5)
    np.testing.assert_allclose(of_w, expected() / 2, rtol=1e-4)
    same, tangent = nnmagic.jvp(loss, 0)(W, X, 2.0, W)
    assert value == same
    np.testing.assert_allclose(tangent, expected() @ W, rtol=1e-4)


def test_a_gradient_links_into_another_cell(loss: nnmagic.CompiledFunction) -> None:
    step = nnmagic.compile(
        'def step(w: Tensor[(3,), f32], x: Tensor[("n", 3), f32]):\n'
        "    value, g = value_and_grad(loss)(w, x)\n    return value, w - 0.1 * g\n",
        namespace={"loss": loss},
    )
    np.testing.assert_allclose(step(W, X)[1], W - 0.1 * expected(), rtol=1e-4)


def test_the_pass_gives_value_and_gradient(loss: nnmagic.CompiledFunction) -> None:
    module = gradient(loss.relay, "loss", (0, 2))
    value, (of_w, _) = nnmagic.compile(module)(W, X, 2.0)
    np.testing.assert_allclose(value, loss(W, X), rtol=1e-6)
    np.testing.assert_allclose(of_w, expected(), rtol=1e-4)
    with pytest.raises(KeyError):
        gradient(loss.relay, "nothing")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("grad(lambda v: v * 2)(x)", "not a float of rank 0"),
        ("grad(lambda v: v.argmax())(x)", "not a float of rank 0"),
        ("grad(lambda v: v.sum(), 1)(x)", "argnums has 1"),
        ("grad(lambda v: v.sum())(i)", "only floats have a gradient"),
        ("grad(x)(x)", "must be a function"),
        ("grad(lambda v: v.sum(), 'w')(x)", "argnums has `w`, which is no parameter"),
        ("grad(lambda v, w=1.0: v.sum() * w, 'w')(x)", "argnums has `w`, which this call leaves out"),
        ("grad(lambda v: v.sum(), argnums=1.5)(x)", "must be an int"),
        ("grad(lambda v: nn.lrn(v[None, None, None], norm_region='WITHIN_CHANNEL').sum())(x)", "no gradient"),
        ("jvp(lambda v: v.sum(), (x,), (x[:2],))", "the tangent is"),
        ("vjp(lambda v: v * 2, x)[1](x[:2])", "the cotangent is"),
    ],
)
def test_wrong_use_is_refused_where_it_stands(body: str, message: str) -> None:
    source = f"def f(x: Tensor[(3,), f32], i: Tensor[(3,), i32]):\n    return {body}\n"
    with pytest.raises(nnmagic.CompileError, match=message) as caught:
        nnmagic.compile(source)
    assert all(each.span is not None and each.span.line == 2 for each in caught.value.diagnostics)


def test_every_call_without_a_gradient_is_named_at_once() -> None:
    source = (
        "def f(x: Tensor[(4, 3), f32]):\n"
        "    a = image.dilation2d(x[None, None], x[None])\n"
        "    b = nn.lrn(x[None, None], norm_region='WITHIN_CHANNEL')\n"
        "    return a.sum() + b.sum()\n"
        "def g(x: Tensor[(4, 3), f32]):\n    return grad(f)(x)\n"
    )
    with pytest.raises(nnmagic.CompileError) as caught:
        nnmagic.compile(source)
    assert [each.span.line for each in caught.value.diagnostics if each.span] == [2, 3]


def test_a_parameter_that_is_not_used_is_warned_of() -> None:
    with pytest.warns(nnmagic.TinyNNWarning, match="no gradient flows to `b`"):
        function = nnmagic.compile(
            "def f(x: Tensor[(3,), f32]):\n    return grad(lambda a, b: a.sum(), 1)(x, x)\n"
        )
    np.testing.assert_array_equal(function(W), np.zeros(3))


def test_what_is_no_compiled_function_is_refused() -> None:
    with pytest.raises(TypeError, match="takes a compiled function"):
        nnmagic.grad(lambda x: x)  # type: ignore[arg-type] # that is the mistake
