"""Gradients of complex numbers, of decompositions and of sampled images agree with differences.

Tests of ``relay/gradients/complex_numbers``, ``relay/gradients/rules/decompositions``,
``relay/gradients/rules/matrices`` and ``relay/gradients/rules/sampling``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import nnmagic
from tests.tinynn.cases import errors_of

STEP = 1e-6
_RNG = np.random.default_rng(0)
SQUARE, OTHER = _RNG.normal(size=(2, 3, 3))
TALL, TALL_SIDES = _RNG.normal(size=(4, 3)), _RNG.normal(size=(4, 2))
WIDE = _RNG.normal(size=(2, 3))
VECTOR, SECOND = _RNG.normal(size=(2, 5))
IMAGES, BOXES = _RNG.normal(size=(2, 5, 4, 2)), _RNG.uniform(0.1, 0.9, size=(3, 4))

_Z = "(a + b * 1j)"

#: A sum of squares of what depends on `a` and `b`, and the arguments.
CASES = {
    **{
        name: (f"{name}({_Z} * 0.5)", VECTOR, SECOND)
        for name in ["exp", "log", "sqrt", "sin", "tanh", "arcsin", "arctan", "arccosh", "reciprocal"]
    },
    "a power": (f"{_Z} ** (1.5 + 0.5j)", VECTOR, SECOND),
    "an angle": (f"angle({_Z})", VECTOR, SECOND),
    "a transform": ("fft(a * arange(5.0) + b)", VECTOR, SECOND),
    "a product": (f"{_Z} @ conj({_Z}).T @ b", SQUARE, OTHER),
    "choices": (f"where(a > 0, {_Z}, b)", VECTOR, SECOND),
    "equations": (f"solve({_Z}, b)", SQUARE, OTHER),
    "an inverse": (f"inv({_Z})", SQUARE, OTHER),
    "a determinant": (f"det({_Z})", SQUARE, OTHER),
    "Hermitian values": (f"eigvalsh({_Z} + conj({_Z}.T))", SQUARE, OTHER),
    "Hermitian vectors": (f"absolute(np.linalg.eigh({_Z} + conj({_Z}.T))[1])", SQUARE, OTHER),
    "a factor": (f"cholesky({_Z} @ conj({_Z}).T + eye(3))", SQUARE, OTHER),
    "an orthogonal factor": (f"absolute(np.linalg.qr({_Z})[0])", SQUARE, OTHER),
    "singular vectors": (f"absolute(np.linalg.svd({_Z}, full_matrices=False)[2])", TALL, TALL[::-1].copy()),
    "eigenvalues": ("absolute(np.linalg.eigvals(a @ b))", SQUARE, OTHER),
    "eigenvectors": ("absolute(np.linalg.eig(a + b)[1])", SQUARE, OTHER),
    "complex eigenvectors": (f"absolute(np.linalg.eig({_Z})[1])", SQUARE, OTHER),
    "least squares": ("lstsq(a, b)[0]", TALL, TALL_SIDES),
    "least squares of more unknowns": ("lstsq(a, b)[0]", WIDE, WIDE[:, :1]),
    "residuals": ("lstsq(a, b)[1]", TALL, TALL_SIDES),
    "all singular vectors": ("np.linalg.svd(a)[1] * b[0, 0]", TALL, TALL_SIDES),
    "a complete factor": ("np.linalg.qr(a, 'complete')[1] * b[0, 0]", TALL, TALL_SIDES),
    "a wide matrix": ("np.linalg.qr(a)[0] @ b[:, :2].T", WIDE, OTHER),
    "boxes": (
        "relay.image.crop_and_resize(a, b, relay.zeros(shape=(3,), dtype='int32'), crop_size=(3, 2),"
        " layout='NHWC')",
        IMAGES,
        BOXES,
    ),
}


def _differences(f: Callable[..., float], args: tuple[np.ndarray, ...], number: int) -> np.ndarray:
    result = np.zeros(args[number].shape)
    for place in np.ndindex(result.shape):
        ahead, behind = (
            [each.copy() if at == number else each for at, each in enumerate(args)] for _ in range(2)
        )
        ahead[number][place] += STEP
        behind[number][place] -= STEP
        result[place] = (f(*ahead) - f(*behind)) / (2 * STEP)
    return result


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("name", CASES)
def test_a_gradient_agrees_with_differences(name: str) -> None:
    text, *args = CASES[name]
    types = [f"Tensor[{each.shape}, f64]" for each in args]
    head = f"def loss(a: {types[0]}, b: {types[1]}):\n    y = {text} * 1j\n"
    head += "    return (absolute(y) ** 2).sum() + imag(y).sum()\n"
    names = {"np": np, "fft": np.fft.fft}
    loss = nnmagic.compile(head, namespace=names, engine="numpy", cache=False)
    tail = f"def main(a: {types[0]}, b: {types[1]}):\n    return grad(loss, argnums=(0, 1))(a, b)\n"
    gradients = nnmagic.compile(head + tail, namespace=names, engine="numpy", cache=False)(*args)
    for number, gradient in enumerate(gradients):
        expected = _differences(loss, tuple(args), number)
        tolerance = 1e-3 if name == "boxes" else 1e-5  # its positions are of f32
        np.testing.assert_allclose(gradient, expected, rtol=tolerance, atol=tolerance)


Z = np.array([0.3 + 0.4j, -1 + 0.2j])

#: What calculus says, in JAX's convention: df/dx - i df/dy, the derivative of a holomorphic function.
CONVENTION = {
    "a holomorphic function": ("grad(lambda z: real(exp(z) * z).sum())(z)", np.exp(Z) * (Z + 1)),
    "a length": ("grad(lambda z: (absolute(z) ** 2).sum())(z)", 2 * Z.conj()),
    "a pullback": ("vjp(lambda z: z * z, z)[1](conj(z))[0]", 2 * Z * Z.conj()),
    "a tangent": ("jvp(lambda z: z * z, (z,), (conj(z),))[1]", 2 * Z * Z.conj()),
    "for each": ("vmap(grad(lambda z: imag(z * z)))(z)", -2j * Z),
    "through a loop": ("grad(cubed)(z)", 3 * Z**2),
    "constants": ("grad(lambda z: real(z * stop_gradient(z)).sum())(z)", Z),
    "a rule": (
        "grad(lambda z: real(custom_vjp(lambda z: z, lambda z: (z, z), lambda z, d: (d * z,))(z)).sum())(z)",
        Z,
    ),
}


@pytest.mark.parametrize("name", CONVENTION)
def test_complex_gradients_have_the_convention_of_jax(name: str) -> None:
    text, expected = CONVENTION[name]
    cubed = "def cubed(z):\n    y = z\n    for _ in range(2):\n        y = y * z\n    return real(y).sum()\n"
    found = nnmagic.compile(f"{cubed}def main(z):\n    return {text}\n", engine="numpy", cache=False)(Z)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.full
def test_machine_code_agrees() -> None:
    text = "def main(z):\n    return grad(lambda z: real(exp(z) * z).sum())(z)\n"
    np.testing.assert_allclose(nnmagic.compile(text, cache=False)(Z), np.exp(Z) * (Z + 1), rtol=1e-12)


@pytest.mark.parametrize("text", ["np.linalg.svd(a)[0]", "np.linalg.qr(a, 'complete')[0]"])
def test_what_is_not_unique_has_no_gradient(text: str) -> None:
    (error,) = errors_of(
        f"def main(a: Tensor[(4, 3), f64]):\n    return grad(lambda a: {text}.sum())(a)\n", {"np": np}
    )
    assert "not unique" in error.message
