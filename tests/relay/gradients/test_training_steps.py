"""Training steps: arrays that a step changes in place, wrong use of gradients, and memory."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(6, 3)), RNG.normal(size=6)
LOSS = """
def loss_fn(w: Tensor[(3,), f64], x: Tensor[({n}, 3), f64], y: Tensor[({n},), f64]):
    return mse_loss(tanh(x @ w), y)
"""
STEP = """
def step(w: InOut[Tensor[(3,), f64]], x: Tensor[({n}, 3), f64], y: Tensor[({n},), f64], lr: f64 = 0.1):
    loss, g = value_and_grad(loss_fn)(w, x, y)
    {update}
    return loss
"""


def reference(w: np.ndarray) -> tuple[float, np.ndarray]:
    hidden = np.tanh(X @ w)
    return ((hidden - Y) ** 2).mean(), X.T @ (2 * (hidden - Y) * (1 - hidden**2) / len(Y))


@pytest.mark.full("w -= lr * g-named")
@pytest.mark.parametrize("size", ["6", '"n"'], ids=["static", "named"])
@pytest.mark.parametrize("update", ["w[:] = w - lr * g", "w -= lr * g"])
@pytest.mark.machine_code
def test_a_step_changes_its_parameter_in_machine_code(update: str, size: str) -> None:
    step = nnmagic.compile((LOSS + STEP).format(n=size, update=update))
    w = RNG.normal(size=3)
    own = w.copy()
    for _ in range(20):
        expected, gradient = reference(own)
        own -= 0.1 * gradient
        np.testing.assert_allclose(step(w, X, Y), expected, rtol=1e-12)
        np.testing.assert_allclose(w, own, rtol=1e-12)
    kernels = re.findall(r"def (\w+)[(\[]", step.stages["tir"])
    assert any("subtract" in name for name in kernels)
    assert not any("copy" in name for name in kernels)  # the update is the end of the last kernel
    assert step.stages["llvm"]  # machine code, and no interpreter


def test_momentum_changes_parameter_and_state() -> None:
    step = nnmagic.compile(
        LOSS.format(n='"n"')
        + 'def step(w: InOut[Tensor[(3,), f64]], m: InOut[Tensor[(3,), f64]], x: Tensor[("n", 3), f64],\n'
        '         y: Tensor[("n",), f64]):\n'
        "    loss, g = value_and_grad(loss_fn)(w, x, y)\n"
        "    m[:] = 0.9 * m + g\n"
        "    w -= 0.1 * m\n"
        "    return loss\n"
    )
    w, m = RNG.normal(size=3), np.zeros(3)
    own, state = w.copy(), m.copy()
    for _ in range(10):
        expected, gradient = reference(own)
        state = 0.9 * state + gradient
        own = own - 0.1 * state
        np.testing.assert_allclose(step(w, m, X, Y), expected, rtol=1e-10)
    np.testing.assert_allclose(w, own, rtol=1e-10)
    np.testing.assert_allclose(m, state, rtol=1e-10)


def test_the_gradient_sees_the_parameter_before_it_changes() -> None:
    step = nnmagic.compile(
        "def step(w: InOut[Tensor[(3,), f64]]):\n"
        "    w *= 2.0\n"
        "    g = grad(lambda v: (v**3).sum())(w)\n"
        "    w[0] = 5.0\n"
        "    return g, grad(lambda v: (v * w).sum())(w)\n"
    )
    w = np.array([1.0, 2.0, 3.0])
    first, second = step(w)
    np.testing.assert_allclose(first, 3 * np.array([2.0, 4.0, 6.0]) ** 2)
    np.testing.assert_allclose(second, [5.0, 4.0, 6.0])


@pytest.mark.full
def test_a_checkpoint_needs_less_memory() -> None:
    workspaces = []
    for function in ("block", "checkpoint(block)"):
        compiled = nnmagic.compile(
            "def block(h: Tensor[(32, 32), f64], w: Tensor[(32, 32), f64]):\n"
            "    for i in range(6):\n        h = tanh(h @ w)\n    return h\n"
            "def f(h: Tensor[(32, 32), f64], w: Tensor[(32, 32), f64]):\n"
            "    def net(v):\n"
            f"        for i in range(4):\n            v = {function}(v, w)\n"
            "        return v.sum()\n"
            "    return grad(net)(h)\n"
        )
        run = compiled.build()
        assert run.artifact is not None
        workspaces.append((run.artifact.facts["workspace"], compiled(np.eye(32), np.eye(32))))
    (plain, expected), (saved, found) = workspaces
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert saved < 0.6 * plain


WRONG = {
    "no scalar": ("grad(lambda v: v)(x)", ["not a float of rank 0"]),
    "an integer parameter": ("grad(lambda v: v.sum())(i)", ["argument 0 is a Tensor[(3,), i32]"]),
    "several integers": ("grad(lambda a, b: x.sum(), (0, 1))(i, b)", ["argument 0 is", "argument 1 is"]),
    "an unknown number": ("grad(lambda v: v.sum(), 2)(x)", ["argnums has 2, but 1 argument"]),
    "a captured array": ("grad(lambda v: v.sum())(W)", ["`W` is an array of the notebook"]),
    "captured arrays": ("grad(lambda v, a: v @ a, (0, 1))(W, V)", ["`W` is an array", "`V` is an array"]),
    "a captured array of a pullback": ("vjp(lambda v: v, W)[1](x)", ["`W` is an array of the notebook"]),
    "a complex result": ("grad(lambda v: v.sum())(c)", ["the function returns a c64"]),
    "a number without a place": ("grad(loss, 1)(v=x)", ["argnums has 1, but 1 argument has a place"]),
    "a wrong name": ("grad(loss, 'w')(x)", ["argnums has `w`, which is no parameter"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_refused_where_it_stands(name: str) -> None:
    body, messages = WRONG[name]
    source = (
        "def loss(v: Tensor[(3,), f32]):\n    return v.sum()\n"
        "def f(x: Tensor[(3,), f32], i: Tensor[(3,), i32], b: Tensor[(3,), bool_], c: Tensor[(3,), c64]):\n"
        f"    return {body}\n"
    )
    namespace = {"W": np.ones(3, "float32"), "V": np.ones(3, "float32")}
    with pytest.raises(nnmagic.CompileError) as caught:
        nnmagic.compile(source, namespace=namespace)
    errors = caught.value.diagnostics
    assert len(errors) == len(messages)
    for error, message in zip(errors, messages, strict=True):
        assert message in error.message
        assert error.span is not None
        assert error.span.line == 4
    if "captured" in name:
        assert "pass it as an argument" in str(caught.value)


def test_errors_of_several_statements_come_together() -> None:
    with pytest.raises(nnmagic.CompileError) as caught:
        nnmagic.compile(
            "def f(x: Tensor[(3,), f32], i: Tensor[(3,), i32]):\n"
            "    a = grad(lambda v: v)(x)\n"
            "    b = grad(lambda v: v.sum(), 3)(x)\n"
            "    c = vmap(lambda v, w: v)(x, i[:2])\n"
            "    return a, b, c, grad(lambda v: v.sum())(i)\n"
        )
    assert [error.span.line for error in caught.value.diagnostics if error.span] == [2, 3, 4, 5]


def test_a_parameter_without_a_way_to_the_result_is_warned_of_once() -> None:
    source = (
        "def f(x: Tensor[(4, 3), f32]):\n    return vmap(grad(lambda a, b: (a * 2).sum(), (0, 1)))(x, x)\n"
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function = nnmagic.compile(source, cache=False)
    assert [str(each.message).count("no gradient flows to `b`") for each in caught] == [1]
    np.testing.assert_array_equal(function(np.ones((4, 3), "float32"))[1], np.zeros((4, 3)))
