"""`checkpoint(f, every=k)` changes what a gradient keeps, and nothing of what it is.

Tests of ``relay/gradients/chunked_loops``.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import nnmagic
from tests.relay.gradients.test_loops import PROGRAMS
from tests.tinynn.cases import errors_of

_RNG = np.random.default_rng(1)
X, W = _RNG.normal(size=(5, 3)), _RNG.normal(size=(3, 3)) * 0.5

#: Loops whose rounds the values decide; `n` is 7.
LOOPS = {
    "while": """
    h = x[0]
    i = 0
    while i < n:
        h = sin(w @ h) + x[i % 5]
        i += 1
    return (h * h).sum()
""",
    "a condition on the value": """
    h = x[0].sum() + 3.0
    while h > 0.5:
        h = h * 0.7 - w[0, 0] * 0.1
    return h * h
""",
    "break": """
    h = x[0]
    for i in range(n):
        h = h * 0.8 + sin(w[0] * f64(i))
        if h.sum() > 2:
            break
    return (h * h).sum()
""",
    "continue, and a loop inside": """
    h = x[1]
    for i in range(n):
        if i % 3 == 1:
            continue
        for j in range(i):
            h = tanh(w @ h) + x[j % 5]
    return (h * x[0]).sum()
""",
    "a return": """
    h = x[0]
    for i in range(n):
        h = w @ h
        if (h * h).sum() < 0.05:
            return h[0] * h[1]
    return h.sum()
""",
    "no round": """
    h = x[0]
    while h.sum() > 1e9:
        h = h * 2
    return (h * w[0]).sum()
""",
}


def _gradient(body: str, form: str) -> object:
    signature = "x: Tensor[(5, 3), f64], w: Tensor[(3, 3), f64], n: i64"
    text = (
        f"def loss({signature}) -> f64:{body}\ndef main({signature}):\n"
        f"    return value_and_grad(lambda x, w: {form}(x, w, n), argnums=(0, 1))(x, w)\n"
    )
    return nnmagic.compile(text, engine="numpy", cache=False, namespace={})(X, W, 7)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("every", [1, 2, 3, 100])
@pytest.mark.parametrize("name", [*LOOPS, *PROGRAMS])
def test_a_checkpoint_of_chunks_changes_no_gradient(name: str, every: int) -> None:
    body = {**LOOPS, **PROGRAMS}[name]
    value, gradients = _gradient(body, "loss")
    chunked, others = _gradient(body, f"checkpoint(loss, every={every})")
    np.testing.assert_allclose(chunked, value, rtol=1e-12)
    for one, other in zip(others, gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def test_a_second_derivative_of_chunks() -> None:
    text = """
def f(x: f64, n: i64) -> f64:
    y = x
    for i in range(n):
        y = y * x
    return y
def main(x: f64, n: i64):
    g = lambda x: checkpoint(f, every=2)(x, n)
    return grad(g)(x), grad(grad(g))(x)
"""
    found = nnmagic.compile(text, engine="numpy", cache=False)(1.1, 5)
    np.testing.assert_allclose(found, [6 * 1.1**5, 30 * 1.1**4], rtol=1e-12)


@pytest.mark.parametrize("every", ["0", "-1", "1.5", "True", "'a'"])
def test_a_wrong_number_of_rounds(every: str) -> None:
    (error,) = errors_of(
        f"def main(x: f64):\n    return checkpoint(lambda x: x, every={every})(x)\n",
    )
    assert "`every` must be a positive int" in error.message


#: A child process prints by how many bytes a gradient over so many rounds lets the peak of its memory grow.
_PEAK = """
import resource, nnmagic
text = '''
def f(x: f64, n: i64) -> f64:
    y = x
    for i in range(n):
        y = y + 1e-3 * sin(y) * x
    return y
def main(x: f64, n: i64) -> f64:
    return grad(lambda x: {form}(x, n))(x)
'''
main = nnmagic.compile(text, cache=False)
main(0.5, 10)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
main(0.5, {rounds})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read as on Linux")
@pytest.mark.parametrize(
    ("form", "rounds", "most"),
    [
        ("f", 1_000_000, 24 * 1_000_000),  # a value and the counter for each round
        ("checkpoint(f, every=3000)", 10_000_000, 12_000_000),
    ],
)
def test_the_memory_of_a_gradient_is_that_of_what_it_keeps(form: str, rounds: int, most: int) -> None:
    code = textwrap.dedent(_PEAK.format(form=form, rounds=rounds))
    grown = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert grown < most
