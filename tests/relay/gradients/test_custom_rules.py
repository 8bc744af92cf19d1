"""Functions with gradient rules of their own, in JAX's spelling, have the derivatives that these say.

Tests of ``tinynn/syntax/gradient_rules``, ``tinynn/elaborate/custom_rules`` and
``functions/derivatives/rules``.
"""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import errors_of

X, Y, AT = 0.7, 1.3, np.linspace(0.2, 1.7, 4)

#: A gradient that is no derivative of the function shows that the rule is followed.
SINE = """
@custom_vjp
def f(x, y):
    return sin(x) * y
def forward(x, y):
    return f(x, y), (cos(x), sin(x), y)
def backward(residuals, d):
    cos_x, sin_x, y = residuals
    return 2 * cos_x * d * y, 3 * sin_x * d
f.defvjp(forward, backward)
"""
TANGENT = """
@custom_jvp
def f(x, y):
    return sin(x) * y
@f.defjvp
def tangent(primals, tangents):
    x, y = primals
    return f(x, y), 2 * cos(x) * tangents[0] * y + 3 * sin(x) * tangents[1]
"""
BY_X, BY_Y = 2 * np.cos(X) * Y, 3 * np.sin(X)

#: Text after the rule, its arguments, and what calculus says.
CASES = {
    "both gradients": (SINE, "grad(f, argnums=(0, 1))(x, y)", (X, Y), (BY_X, BY_Y)),
    "the value": (SINE, "value_and_grad(f)(x, y)", (X, Y), (np.sin(X) * Y, BY_X)),
    "twice": (SINE, "grad(grad(f))(x, y)", (X, Y), (-2 * np.sin(X) * Y,)),
    "by both": (SINE, "grad(grad(f), argnums=1)(x, y)", (X, Y), (2 * np.cos(X),)),
    "along a direction": (SINE, "jvp(f, (x, y), (1.0, 0.5))[1]", (X, Y), (BY_X + BY_Y / 2,)),
    "examples of gradients": (
        SINE,
        "vmap(grad(f, argnums=(0, 1)), in_axes=(0, None))(x, y)",
        (AT, Y),
        (2 * np.cos(AT) * Y, 3 * np.sin(AT)),
    ),
    "the gradient of examples": (
        SINE,
        "grad(lambda x, y: vmap(f, in_axes=(0, None))(x, y).sum(), argnums=(0, 1))(x, y)",
        (AT, Y),
        (2 * np.cos(AT) * Y, 3 * np.sin(AT).sum()),
    ),
    "arrays": (SINE, "grad(lambda x: f(x, y).sum())(x)", (AT, AT), (2 * np.cos(AT) * AT,)),
    "in a checkpoint": (SINE, "grad(checkpoint(f))(x, y)", (X, Y), (BY_X,)),
    "of tangents": (TANGENT, "grad(f, argnums=(0, 1))(x, y)", (X, Y), (BY_X, BY_Y)),
    "of tangents, twice": (TANGENT, "grad(grad(f))(x, y)", (X, Y), (-2 * np.sin(X) * Y,)),
    "of tangents, forward": (TANGENT, "jvp(f, (x, y), (1.0, 2.0))[1]", (X, Y), (BY_X + 2 * BY_Y,)),
    "of tangents, for examples": (
        TANGENT,
        "vmap(grad(f), in_axes=(0, None))(x, y)",
        (AT, Y),
        (2 * np.cos(AT) * Y,),
    ),
    "a rule for each tangent": (
        "@custom_jvp\ndef f(x, y):\n    return x * y\nf.defjvps(lambda t, out, x, y: 7 * t * out, None)\n",
        "grad(f, argnums=(0, 1))(x, y)",
        (X, Y),
        (7 * X * Y, 0),
    ),
    "a function that is no argument of the derivative": (
        """
@partial(custom_vjp, nondiff_argnums=(0,))
def app(g, x):
    return g(x)
app.defvjp(lambda g, x: (g(x), x), lambda g, x, d: (5 * g(x) * d,))
""",
        "grad(lambda x: app(lambda z: z * z * y, x))(x)",
        (X, Y),
        (5 * X * X * Y,),
    ),
    "nested tuples": (
        """
@custom_vjp
def g(pair, x):
    w, (b, c) = pair
    return w * x + b + c, x * 2
def forward(pair, x):
    return g(pair, x), (pair, [x])
def backward(residuals, d):
    (w, (b, c)), [x] = residuals
    return (d[0] * x * 5, (d[0], None)), d[0] * w + d[1] * 2
g.defvjp(forward, backward)
def f(x, y):
    a, b = g((x, (y, x)), y)
    return a * b
""",
        "grad(f, argnums=(0, 1))(x, y)",
        (X, Y),
        (5 * Y * 2 * Y, 2 * Y + 2 * Y * X + 2 * (X * Y + Y + X)),
    ),
    "a residual of nothing": (
        "def f(x):\n    return custom_vjp(lambda x: x, lambda x: (x, None), lambda _, d: (d * 2,))(x)\n",
        "grad(f)(x) + y",
        (X, Y),
        (2 + Y,),
    ),
    "in a loop": (
        SINE,
        "grad(last)(x)\ndef last(x):\n    for _ in range(2):\n        x = f(x, 1.0) + x\n    return x",
        (X, Y),
        ((2 * np.cos(X) + 1) * (2 * np.cos(np.sin(X) + X) + 1),),
    ),
    "with types": (
        SINE.replace("f(x, y):", "f(x: f64, y: f64):", 1),
        "grad(f, argnums=(0, 1))(x, y)",
        (X, Y),
        (BY_X, BY_Y),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives_follow_the_rule(name: str) -> None:
    rule, text, args, expected = CASES[name]
    found = nnmagic.compile(
        f"{rule}\ndef _main(x, y):\n    return {text.partition(chr(10))[0]}\n"
        f"{text.partition(chr(10))[2]}\ndef main(x, y):\n    return _main(x, y)\n",
        engine="numpy",
        cache=False,
    )(*args)
    got = found if isinstance(found, tuple) else (found,)
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


FIXED_POINT = """
@partial(custom_vjp, nondiff_argnums=(0,))
def fixed_point(g, a, x):
    while abs(g(a, x) - x) > 1e-14:
        x = g(a, x)
    return x
def forward(g, a, x):
    x = fixed_point(g, a, x)
    return x, (a, x)
def step_back(g, packed, u):
    a, x, d = packed
    return d + vjp(lambda x: g(a, x), x)[1](u)[0]
def backward(g, residuals, d):
    a, x = residuals
    u = fixed_point(lambda packed, u: step_back(g, packed, u), (a, x, d), d)
    return vjp(lambda a: g(a, x), a)[1](u)[0], zeros_like(x)
fixed_point.defvjp(forward, backward)
def root(a):
    return fixed_point(lambda a, x: 0.5 * (x + a / x), a, a)
def main(a: f64):
    return root(a), grad(root)(a), grad(grad(root))(a)
"""


@pytest.mark.parametrize("engine", ["numpy", pytest.param("auto", marks=pytest.mark.full)])
def test_a_fixed_point_has_its_implicit_gradient(engine: str) -> None:
    found = nnmagic.compile(FIXED_POINT, engine=engine, cache=False)(2.0)
    np.testing.assert_allclose(found, [2**0.5, 0.5 / 2**0.5, -0.25 / 2**1.5], rtol=1e-9)


def test_a_callback_has_the_gradient_of_its_rule() -> None:
    text = """
@custom_vjp
def f(x: Tensor[(3,), f64]):
    return callback(sine, x, result=Tensor[(3,), f64])
def forward(x):
    return f(x), x
def backward(x, d):
    return (callback(cosine, x, result=Tensor[(3,), f64]) * d,)
f.defvjp(forward, backward)
def main(x: Tensor[(3,), f64]):
    return grad(lambda x: (f(x) ** 2).sum())(x)
"""
    names = {"sine": np.sin, "cosine": np.cos}
    found = nnmagic.compile(text, namespace=names, engine="numpy", cache=False)(AT[:3])
    np.testing.assert_allclose(found, 2 * np.sin(AT[:3]) * np.cos(AT[:3]), rtol=1e-12)


def test_later_cells_and_text_keep_the_rule() -> None:
    first = nnmagic.compile(f"{SINE}\ndef main(x: f64):\n    return f(x, x)\n", engine="numpy", cache=False)
    text = "def f_forward(x: f64):\n    return x\ndef main(x: f64):\n    return grad(g)(x) + f_forward(x)\n"
    later = nnmagic.compile(text, namespace={"g": first}, engine="numpy", cache=False)
    expected = 2 * np.cos(X) * X + 3 * np.sin(X)
    np.testing.assert_allclose(later(X), expected + X, rtol=1e-12)
    assert 'custom_vjp="f_forward f_backward gg"' in first.relay_text
    module = nnmagic.relay.infer_type(nnmagic.relay.parse(first.relay.astext()))
    gradient = nnmagic.compile(nnmagic.relay.passes.gradient(module, "main"), engine="numpy", cache=False)
    np.testing.assert_allclose(gradient(X)[1], expected, rtol=1e-12)


def test_a_rule_that_a_pass_has_removed_is_an_error() -> None:
    first = nnmagic.compile(f"{SINE}\ndef main(x: f64):\n    return f(x, x)\n", engine="numpy", cache=False)
    module = nnmagic.relay.passes.remove_unused_functions(first.relay)
    with pytest.raises(nnmagic.RelayError, match="@f_forward, which the module has not"):
        nnmagic.relay.passes.gradient(module)


@nnmagic.custom_vjp
def square(x: object) -> object:
    return x * x  # type: ignore[operator]


def _forward(x: object) -> object:
    return square(x), x


square.defvjp(_forward, lambda x, d: (x * d * 3,))


def test_python_follows_the_rule() -> None:
    text = f"{SINE}def main(x: f64, y: f64):\n    return f(x, y), grad(f)(x, y)\n"
    found = nnmagic.compile(text, engine="python")(X, Y)
    np.testing.assert_allclose(found, (np.sin(X) * Y, BY_X), rtol=1e-12)


def test_functions_of_files_have_rules() -> None:
    @nnmagic.function(engine="numpy", cache=False)
    def main(x: nnmagic.f64) -> nnmagic.f64:
        return nnmagic.grad(square)(x)

    assert main(X) == pytest.approx(3 * X)
    assert square(X) == pytest.approx(X * X)


def test_a_rule_is_part_of_the_key() -> None:
    text = "def main(x: f64):\n    return grad(g)(x)\n"
    for rule, factor in ((_threefold, 3), (_fourfold, 4)):
        g = nnmagic.custom_jvp(_plain)
        g.defjvps(rule)
        assert nnmagic.compile(text, namespace={"g": g}, engine="numpy")(X) == factor


def _plain(x: float) -> float:
    return x * x


def _threefold(t: float, _out: float, _x: float) -> float:
    return 3 * t


def _fourfold(t: float, _out: float, _x: float) -> float:
    return 4 * t


#: What the backward function returns, the place of the error in its line or in the last one, and a message.
MISTAKES = {
    "one gradient": ("d,", "backward", "the backward function returns a tuple of 1, not a tuple of 2"),
    "no tuple": ("d", "backward", "the backward function returns an f64, not a tuple of 2 gradients"),
    "a wrong shape": (
        "y * d, None",
        "y * d",
        "gradient 0 of the backward function is a Tensor[(3,), f64], not",
    ),
    "a wrong dtype": (
        "d.astype(f32), None",
        "d.astype(f32)",
        "gradient 0 of the backward function is an f32",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_rule_is_an_error_at_its_place(name: str) -> None:
    returned, place, message = MISTAKES[name]
    text = (
        "@custom_vjp\ndef f(x: f64, y: Tensor[(3,), f64]):\n    return x * y.sum()\n"
        f"def forward(x, y):\n    return f(x, y), y\ndef backward(y, d):\n    return {returned}\n"
    )
    (error,) = errors_of(text)
    assert error.message == "`f` is decorated with custom_vjp, and has no such rule"
    text += "f.defvjp(forward, backward)\n"
    (error,) = errors_of(text)
    assert error.message.startswith(message)
    assert error.span is not None
    line = text.splitlines()[error.span.line - 2]
    assert line[error.span.column - 1 : error.span.end_column - 1] == place


def test_a_function_with_a_rule_reads_nothing_that_depends_on_the_parameters() -> None:
    text = (
        "def loss(x, y):\n"
        "    f = custom_vjp(lambda x: x * y, lambda x: (x * y, None), lambda _, d: (d * y,))\n"
        "    return f(x)\n"
        "def main(x: f64, y: f64):\n    return grad(loss, argnums={})(x, y)\n"
    )
    assert errors_of(text.format(0)) == ()
    (error,) = errors_of(text.format(1))
    assert "reads a value that depends on the parameters" in error.message


def test_a_callback_without_a_rule_says_how_to_give_it_one() -> None:
    text = "def main(x: f64):\n    return grad(lambda x: callback(sine, x, result=f64))(x)\n"
    with pytest.raises(nnmagic.TinyNNError, match=r"callback has no gradient: .* give it a rule, custom_vjp"):
        nnmagic.compile(text, namespace={"sine": np.sin}, engine="numpy", cache=False)
