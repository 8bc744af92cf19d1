"""Programs in JAX's names give what JAX gives, pasted as they stand."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic.tinynn.builtins import BUILTINS
from nnmagic.tinynn.builtins.jax_names import jax_functions, lax_functions

PROGRAMS = {
    "fori_loop": "def f(x):\n    return jax.lax.fori_loop(0, 3, lambda i, a: a * 0.5 + i, x)\n",
    "as many rounds as elements": (
        "def f(x):\n    return jax.lax.fori_loop(0, x.shape[0], lambda i, a: a + x[i], 0.0)\n"
    ),
    "a pair is carried": (
        "def body(i, c):\n    a, b = c\n    return a + b, a * 0.5\n"
        "def f(x):\n    return jax.lax.fori_loop(0, 4, body, (x, x))\n"
    ),
    "while_loop": (
        "def f(x):\n"
        "    return jax.lax.while_loop(lambda s: s.sum() < 100, lambda s: s * 2, jnp.abs(x) + 1.0)\n"
    ),
    "the gradient of a loop": (
        "def g(y):\n    return jax.lax.fori_loop(0, 5, lambda i, a: jnp.sin(a) + y.sum(), 0.5)\n"
        "def f(x):\n    return jax.grad(g)(x)\n"
    ),
    "scan": "def f(x):\n    return jax.lax.scan(lambda c, v: (c + v, c * v), 0.0, x)\n",
    "cond": "def f(x):\n    return jax.lax.cond(x[0] > 0, lambda a: a, lambda a: -a, x)\n",
    "cond without operands": "def f(x):\n    return jax.lax.cond(x[0] > 0, lambda: x, lambda: -x)\n",
    "switch": (
        "def f(x):\n    return jax.lax.switch(1, [lambda a: a, lambda a: a * 2, lambda a: a * 3], x)\n"
    ),
    "switch by an index of the call": (
        "def f(x):\n"
        "    return jax.lax.switch(jnp.argmax(x), [lambda a: a, lambda a: a * 2, lambda a: a * 3], x)\n"
    ),
    "map": "def f(x):\n    return jax.lax.map(lambda v: v * v, x)\n",
    "select": "def f(x):\n    return jax.lax.select(x > 0, x, -x)\n",
    "elements": (
        "def f(x):\n    return jax.lax.max(jax.lax.sin(x), jax.lax.mul(x, x)) - jax.lax.logistic(x)\n"
    ),
    "transformations": (
        "def g(a):\n    return (a * a).sum()\n"
        "def f(x):\n    return jax.vmap(g)(x[:, None]), jax.grad(g)(x), jax.value_and_grad(g)(x)\n"
    ),
    "jacobians": (
        "def f(x):\n"
        "    return jax.jacfwd(lambda a: jnp.cumsum(a * a))(x), jax.jacrev(jnp.cumprod)(x),"
        " jax.hessian(lambda a: (a ** 3).sum())(x)\n"
    ),
    "jit": "@jax.jit\ndef f(x):\n    return jax.nn.sigmoid(x) + jax.nn.softplus(x)\n",
    "custom_vjp": (
        "@jax.custom_vjp\ndef g(x):\n    return jnp.sin(x)\n"
        "g.defvjp(lambda x: (g(x), x), lambda x, d: (x * d * 3,))\n"
        "def f(x):\n    return jax.vmap(jax.grad(g))(x), jax.vmap(jax.grad(jax.grad(g)))(x)\n"
    ),
    "custom_jvp": (
        "@jax.custom_jvp\ndef g(x):\n    return jnp.log(1 + jnp.exp(x))\n"
        "@g.defjvp\ndef g_jvp(primals, tangents):\n"
        "    return g(primals[0]), (1 - 1 / (1 + jnp.exp(primals[0]))) * tangents[0]\n"
        "def f(x):\n    return jax.vmap(jax.grad(g))(x * 999), jax.vmap(jax.grad(jax.grad(g)))(x)\n"
    ),
    "imported names": (
        "from jax import lax, grad\n"
        "def f(x):\n"
        "    return lax.fori_loop(0, 2, lambda i, a: lax.sin(a), x) + grad(lambda a: lax.exp(a).sum())(x)\n"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_gives_what_jax_gives(name: str) -> None:
    jax = pytest.importorskip("jax", reason="`make bench` installs jax")
    scope = {"jax": jax, "jnp": jax.numpy}
    x = np.linspace(-1, 1, 5)
    result = nnmagic.compile(PROGRAMS[name], namespace=scope, engine="numpy")(x)
    exec(PROGRAMS[name], scope)
    with jax.enable_x64(True):
        expected = scope["f"](jax.numpy.asarray(x))
    for ours, theirs in zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_the_names_are_functions_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="`make bench` installs jax")
    assert all(callable(getattr(jax, name)) for name in jax_functions(BUILTINS))
    assert all(callable(getattr(jax.lax, name)) for name in lax_functions(BUILTINS))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("lax.switch(0, x, x)", "switch: `branches` must be functions in a list or a tuple"),
        ("lax.switch(0, (), x)", "switch: `branches` must be functions in a list or a tuple"),
        ("lax.cond(x[0] > 0, lambda a: a, lambda a: a.sum(), x)", "`cond` returns an f64 here"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    lax = pytest.importorskip("jax.lax", reason="`make bench` installs jax")
    with pytest.raises(nnmagic.TinyNNError, match=message):
        nnmagic.compile(f"def f(x: Tensor[(3,), f64]):\n    return {text}\n", namespace={"lax": lax})
