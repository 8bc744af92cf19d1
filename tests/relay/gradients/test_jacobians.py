"""`jacobian` (tinynn/elaborate/jacobians), `hessian`, `vmap`, `checkpoint`, against jax and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic

RNG = np.random.default_rng(5)
X, W = RNG.normal(size=3), RNG.normal(size=(3, 2))
F = "def f(x: Tensor[(3,), f64], w: Tensor[(3, 2), f64]):\n    return tanh(x @ w) * x[0]\n"
LOSS = "def loss(x: Tensor[(3,), f64], w: Tensor[(3, 2), f64]):\n    return (tanh(x @ w) ** 2).sum() * x[1]\n"


def differences(function: Any, args: list[np.ndarray], number: int) -> np.ndarray:
    """Return the Jacobian by central differences."""
    columns = []
    for place in np.ndindex(args[number].shape):
        ahead, behind = [each.copy() for each in args], [each.copy() for each in args]
        ahead[number][place] += 1e-6
        behind[number][place] -= 1e-6
        columns.append((np.asarray(function(*ahead)) - np.asarray(function(*behind))) / 2e-6)
    return np.stack(columns, axis=-1).reshape(columns[0].shape + args[number].shape)


@pytest.fixture(scope="module")
def f() -> nnmagic.CompiledFunction:
    return nnmagic.compile(F)


@pytest.fixture(scope="module")
def loss() -> nnmagic.CompiledFunction:
    return nnmagic.compile(LOSS)


@pytest.mark.full
def test_a_jacobian_has_the_shapes_of_result_and_parameter(f: nnmagic.CompiledFunction) -> None:
    both = nnmagic.jacobian(f, (0, 1))(X, W)
    for number, found in enumerate(both):
        np.testing.assert_allclose(found, differences(f, [X, W], number), atol=1e-8)
    np.testing.assert_array_equal(nnmagic.jacobian(f, -1)(X, W), both[1])
    assert list(nnmagic.jacobian(f).__signature__.parameters) == ["x", "w"]


def test_both_modes_give_one_jacobian_and_the_shapes_choose() -> None:
    source = (
        "def f(x: Tensor[(3,), f64], p: tuple[f64, Tensor[(2, 2), f64]]):\n"
        "    return outer(sin(x) * x.sum(), x) * p[0] + p[1].sum(), p[1] @ p[1] * x[0]\n"
        "def forward(x: Tensor[(3,), f64], p: tuple[f64, Tensor[(2, 2), f64]]):\n"
        "    return jacfwd(f, (0, 1))(x, p)\n"
        "def reverse(x: Tensor[(3,), f64], p: tuple[f64, Tensor[(2, 2), f64]]):\n"
        "    return jacrev(f, (0, 1))(x, p)\n"
        "def tall(x: Tensor[(3,), f64], t: Tensor[(50,), f64]):\n"
        "    return jacobian(lambda x: x[0] * cos(x[1] * t) + x[2])(x)\n"
        "def both(x: Tensor[(3,), f64], p: tuple[f64, Tensor[(2, 2), f64]], t: Tensor[(50,), f64]):\n"
        "    return forward(x, p), reverse(x, p), tall(x, t)"
    )
    both, t = nnmagic.compile(source, engine="numpy"), np.linspace(0, 2, 50)
    forward, reverse, tall = both(X, (0.7, W[:2]), t)
    for of_part, expected in zip(forward, reverse, strict=True):
        for found, wanted in ((of_part[0], expected[0]), *zip(of_part[1], expected[1], strict=True)):
            np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-15)
    turned = X[1] * t
    np.testing.assert_allclose(
        tall, np.stack([np.cos(turned), -X[0] * t * np.sin(turned), np.ones(50)], axis=1), rtol=1e-12
    )
    assert "50, 50" not in both.relay_text  # no pullback of 50 elements


def test_a_product_with_the_hessian_does_not_build_it() -> None:
    f = "def f(x: Tensor[(60,), f64]):\n    return (tanh(x) ** 2).sum() * x[0]\n"
    source = (
        f + "def g(x: Tensor[(60,), f64], v: Tensor[(60,), f64]):\n    return jvp(grad(f), (x,), (v,))[1]"
    )
    g = nnmagic.compile(source, engine="numpy")
    hessian = nnmagic.hessian(nnmagic.compile(f, engine="numpy"))
    x, v = np.linspace(-1, 1, 60), np.linspace(2, 3, 60)
    np.testing.assert_allclose(g(x, v), hessian(x) @ v, rtol=1e-12)
    assert "60, 60" not in g.relay_text


@pytest.mark.full
def test_a_hessian_is_symmetric_and_that_of_differences(loss: nnmagic.CompiledFunction) -> None:
    (xx, xw), (wx, ww) = nnmagic.hessian(loss, (0, 1))(X, W)
    gradient = nnmagic.grad(loss, (0, 1))
    np.testing.assert_allclose(xx, differences(lambda *a: gradient(*a)[0], [X, W], 0), atol=1e-8)
    np.testing.assert_allclose(xw, differences(lambda *a: gradient(*a)[0], [X, W], 1), atol=1e-8)
    np.testing.assert_allclose(wx, np.moveaxis(xw, 0, -1), atol=1e-12)
    np.testing.assert_allclose(ww, differences(lambda *a: gradient(*a)[1], [X, W], 1), atol=1e-8)
    np.testing.assert_allclose(nnmagic.hessian(loss)(X, W), xx, atol=1e-14)


@pytest.mark.full
def test_derivatives_of_functions_that_call_each_other() -> None:
    source = """
def a(x: Tensor[(3,), f64], n: i64) -> Tensor[(3,), f64]:
    return x if n <= 0 else x * x + b(x, n - 1)
def b(x: Tensor[(3,), f64], n: i64) -> f64:
    return sum(a(x, n - 1) ** 2)
def f(x: Tensor[(3,), f64], n: i64):
    return jacobian(lambda y: a(y, n))(x), hessian(lambda y: b(y, n + 1))(x)
"""
    jacobian, hessian = nnmagic.compile(source)(X, 2)  # of x * x + x @ x, and of sum(x ** 4) + 5 (x @ x) ** 2
    np.testing.assert_allclose(jacobian, np.diag(2 * X) + 2 * X, rtol=1e-12)
    expected = np.diag(12 * X * X + 20 * X @ X) + 40 * np.outer(X, X)
    np.testing.assert_allclose(hessian, expected, rtol=1e-12)


@pytest.mark.full
def test_derivatives_of_sizes_of_the_call() -> None:
    source = """
def f(v: Tensor[("n",), f64], m: Tensor[("k", "n"), f64], rounds: i64):
    def turned(a):
        for i in range(rounds):
            a = a[::-1] * 0.1
        return a
    turns = jacobian(lambda b: b[::-1] * b)(v), jacobian(turned)(v)
    return turns, vmap(hessian(lambda b: tanh(v @ (b * b))))(m)
"""
    f = nnmagic.compile(source)
    for size in (1, 2, 5):
        v, m = RNG.normal(size=size), RNG.normal(size=(3, size))
        (product, turned), hessians = f(v, m, 3)
        np.testing.assert_allclose(product, np.diag(v[::-1]) + np.diag(v)[:, ::-1], rtol=1e-12)
        np.testing.assert_allclose(turned, np.eye(size)[::-1] * 1e-3, rtol=1e-12)
        for found, b in zip(hessians, m, strict=True):
            value, slope = np.tanh(v @ (b * b)), 2 * v * b
            expected = (1 - value**2) * (np.diag(2 * v) - 2 * value * np.outer(slope, slope))
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.full
def test_a_hessian_by_several_numbers_of_a_loop() -> None:
    source = """
def f(s: f64, t: f64, u: f64, k: i64):
    def h(a, b, c):
        for i in range(k):
            a, b = b * c, a
        return a
    return hessian(h, argnums=(0, 1, 2))(s, t, u)
"""
    found = nnmagic.compile(source)(2.0, 3.0, 5.0, 3)  # of b * c * c
    np.testing.assert_array_equal(found, [[0, 0, 0], [0, 0, 10], [0, 10, 6]])


@pytest.mark.full
@pytest.mark.sampled(every=4)
@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("jacobian(lambda v: v.sum())(x)", (3,)),
        ("jacobian(lambda v: v[:2, None] * v)(x)", (2, 3, 3)),
        ("jacobian(lambda v: (v * 2, v.sum()))(x)[0]", (3, 3)),
        ("jacobian(lambda v: v * v, argnums=(0,))(x)[0]", (3, 3)),
        ("jacobian(lambda t: t[0] @ t[1])((x, w))[1]", (2, 3, 2)),
        ("jacobian(vmap(lambda v: sin(v) * v.sum(), in_axes=1))(w)", (2, 3, 3, 2)),
        ("jacobian(jacobian(lambda v: v * v.sum()))(x)", (3, 3, 3)),
        ("jacobian(hessian(lambda v: prod(v) ** 2))(x)", (3, 3, 3)),
        ("jacobian(sin)(w)", (3, 2, 3, 2)),
    ],
)
def test_shapes_are_those_of_jax(body: str, shape: tuple[int, ...]) -> None:
    function = nnmagic.compile(f"def f(x: Tensor[(3,), f64], w: Tensor[(3, 2), f64]):\n    return {body}\n")
    assert function(X, W).shape == shape


#: The same expressions in both languages; x: (4, 3), y: (4, 3), w: (3,).
TOGETHER = {
    "gradients of examples": "vmap(grad(lambda a, b: sum(tanh(a * b) ** 2)))(x, y)",
    "with shared weights": "vmap(grad(lambda v, a: tanh(a @ v) * a[0]), in_axes=(None, 0))(w, x)",
    "values and gradients": "vmap(value_and_grad(lambda a: sum(a**3)))(x)",
    "axes": "vmap(lambda a, b: a * b[0], in_axes=(1, 0), out_axes=1)(x, y[:3])",
    "nested": "vmap(lambda a: vmap(lambda b: a @ b)(y))(x)",
    "nested with axes": "vmap(vmap(lambda a, b: a * b + a, in_axes=(0, None)), in_axes=(None, 1))(w, y)",
    "a gradient of a batch": "grad(lambda a: sum(vmap(lambda b: tanh(b @ w) * b)(a)))(x)",
    "a second derivative": "vmap(grad(grad(lambda t: t**3 * w[0])))(x[:, 0])",
    "a jacobian": "jacobian(lambda a: tanh(a) @ w)(x)",
    "jacobians of examples": "vmap(jacobian(lambda a: sin(a) * sum(a)))(x)",
    "hessians of examples": "vmap(hessian(lambda a: sum(sin(a)) * a[0] * a[1]))(x)",
    "a pullback": "vmap(vjp(lambda a: sin(a) * w, w)[1])(x)[0]",
    "a tangent": "vmap(lambda a, t: jvp(lambda v: sin(v) * v[0], (a,), (t,))[1])(x, y)",
    "a tuple of axes": "vmap(lambda p, a: p[0] * a + p[1], in_axes=((0, None), 0))((x, w), y)",
    "outputs of several axes": "vmap(lambda a: (a, sum(a)), out_axes=(1, 0))(x)",
    "a checkpoint": "grad(lambda a: sum(checkpoint(lambda b: sin(b) * w)(a) ** 2))(x)",
}


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("name", TOGETHER)
def test_compositions_give_what_jax_gives(name: str) -> None:
    jax = pytest.importorskip("jax", reason="`make bench` installs jax")
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(len(name))
    x, y, w = rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), rng.normal(size=3)
    names = {each: getattr(jax, each) for each in ("grad", "vmap", "value_and_grad", "vjp", "jvp", "hessian")}
    names |= {each: getattr(jax.numpy, each) for each in ("tanh", "sin", "sum")}
    names |= {"jacobian": jax.jacrev, "checkpoint": jax.checkpoint}
    expected = jax.tree.leaves(eval(TOGETHER[name], {**names, "x": jax.numpy.array(x), "y": y, "w": w}))
    for size in ("4", '"n"'):
        source = f"def f(x: Tensor[({size}, 3), f64], y: Tensor[({size}, 3), f64], w: Tensor[(3,), f64]):\n"
        found = jax.tree.leaves(nnmagic.compile(f"{source}    return {TOGETHER[name]}\n")(x, y, w))
        assert len(found) == len(expected)
        for own, reference in zip(found, expected, strict=True):
            np.testing.assert_allclose(own, reference, rtol=1e-9, atol=1e-12)


@pytest.mark.full
def test_a_compiled_function_is_mapped_over_any_number_of_examples(f: nnmagic.CompiledFunction) -> None:
    function = nnmagic.vmap(f, in_axes=(0, None))
    for count in (0, 1, 5):
        xs = RNG.normal(size=(count, 3))
        found = function(xs, W)
        assert found.shape == (count, 2)
        for x, own in zip(xs, found, strict=True):
            np.testing.assert_allclose(own, f(x, W), rtol=1e-12)
    ws = RNG.normal(size=(3, 5, 2))
    found = nnmagic.vmap(f, in_axes=(None, 1), out_axes=1)(X, ws)
    np.testing.assert_allclose(found, np.stack([f(X, ws[:, n].copy()) for n in range(5)], axis=1), rtol=1e-12)
    np.testing.assert_allclose(
        nnmagic.vmap(nnmagic.grad(nnmagic.compile(LOSS)))(xs, ws.swapaxes(0, 1).copy()).shape, (5, 3)
    )


def test_a_checkpoint_stays_a_function_of_the_program() -> None:
    function = nnmagic.compile(
        "def f(x: Tensor[(3,), f64], w: Tensor[(3,), f64]):\n"
        "    return grad(lambda v: (checkpoint(lambda a: sin(a) * w)(v) ** 2).sum(), 0)(x)\n"
    )
    np.testing.assert_allclose(function(X, X), 2 * np.sin(X) * X * np.cos(X) * X, rtol=1e-12)
    assert "_backward" in function.relay_text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("vmap(lambda a, b: a * b)(x, y)", "axis 0 of `x` has size 4, axis 0 of `y` size 5"),
        ("vmap(lambda a, b: a * b)(x, z)", 'axis 0 of `x` has size 4, axis 0 of `z` size "n"'),
        ("vmap(lambda a, b: a * b)(x, 2.0)", "the number 2.0 has no axis to map over"),
        ("vmap(lambda a: a, in_axes=2)(x)", "`x` has rank 2, and so no axis 2"),
        ("vmap(lambda a, b: a, in_axes=(0,))(x, y)", "in_axes has 1 axes, but 2 arguments"),
        ("vmap(lambda a: a, in_axes=None)(x)", "there is nothing to map over"),
        ("vmap(lambda a: a, in_axes='x')(x)", "`in_axes` must be an int, None or a tuple"),
        ("vmap(lambda a: a, out_axes=None)(x)", "`out_axes` must be an int"),
        ("vmap(lambda a: a, out_axes=3)(x)", "the result has rank 2 with its examples"),
        ("vmap(lambda a: (a, a), out_axes=(0,))(x)", "out_axes has 1 axes for a tuple of 2"),
        ("vmap(lambda p: p[0], in_axes=((0,),))((x, y))", "in_axes has 1 axes for a tuple of 2"),
        ("vmap(x)(x)", "`f` must be a function"),
        ("vmap(lambda a: a[a > 0])(x)", "the values of an example decide the shape"),
        ("jacobian(lambda a: a.argmax(axis=0))(x)", "only floats have a gradient"),
        ("jacobian(lambda a: a)(i)", "only floats have a gradient"),
        ("hessian(lambda a: a)(x)", "not a float of rank 0"),
        ("checkpoint(3)(x)", "`f` must be a function"),
    ],
)
def test_wrong_use_is_refused_where_it_stands(body: str, message: str) -> None:
    source = (
        "def f(x: Tensor[(4, 3), f32], y: Tensor[(5, 3), f32], z: Tensor[('n', 3), f32],"
        " i: Tensor[(3,), i32]):\n"
        f"    return {body}\n"
    )
    with pytest.raises(nnmagic.CompileError) as caught:
        nnmagic.compile(source)
    assert message in str(caught.value)
    assert all(each.span is not None and each.span.line == 2 for each in caught.value.diagnostics)


def test_wrong_axes_outside_of_a_cell(f: nnmagic.CompiledFunction) -> None:
    with pytest.raises(ValueError, match="in_axes has 1 axes, but there are 2 parameters"):
        nnmagic.vmap(f, in_axes=(0,))
    with pytest.raises(ValueError, match="no axis 5"):
        nnmagic.vmap(f, in_axes=5)
    with pytest.raises(TypeError, match="in_axes must be"):
        nnmagic.vmap(f, in_axes="x")  # type: ignore[arg-type] # that is the mistake
