"""Slices whose step is known at run time only, beside NumPy's: read, assigned, updated, differentiated."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import nnmagic

BOUNDS = range(-8, 9, 4), range(-9, 9, 3), (-7, -2, -1, 1, 2, 3, 9, 2**63 - 1, -(2**63))

READ = """
    a = x[i:j:k]
    b = x[:, ::k]
    c = x[0, i::k]
    d = x[None, i:, ::k]
    e = x[[0, 1], :j:k]
    return a, b, c, d, e
"""

CHANGE = """
    y = x.copy()
    y[1, i:j:k] = v
    y[::k, 0] *= 2.0
    y[:j:k] += 1.0
    y[[0, 1], ::k] = 3.0
    return (y,)
"""

PARAMETERS = 'x: Tensor[("n", "m"), f64], i: i64, j: i64, k: i64, v: Tensor[("p",), f64]'


def in_numpy(body):
    """Return the function of a body that Python runs."""
    namespace = {}
    exec(f"def f(x, i, j, k, v):{body}", namespace)
    return namespace["f"]


@pytest.mark.machine_code
@pytest.mark.full
@pytest.mark.parametrize("body", [READ, CHANGE], ids=["read", "changed"])
def test_bounds_and_steps_of_every_sign(body):
    f, wanted = nnmagic.compile(f"def f({PARAMETERS}):{body}"), in_numpy(body)
    random = np.random.default_rng(5)
    x = random.random((4, 6))
    for i, j, k in itertools.product(*BOUNDS):
        arguments = (x, i, j, k, random.random(len(range(6)[i:j:k])))
        for found, expected in zip(f(*arguments), wanted(*arguments), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{i}:{j}:{k}")


def test_a_slice_is_a_view():
    source = (
        "def f(x: Tensor[(7,), f64], k: i64):\n    y = x.copy()\n    z = y[::k]\n    y[0] = 5.0\n    return z"
    )
    x = np.arange(7.0)
    for k in (1, 3, -2):
        changed = x.copy()
        changed[0] = 5.0
        np.testing.assert_array_equal(nnmagic.compile(source)(x, k), changed[::k])


def test_a_step_of_zero_is_an_error():
    f = nnmagic.compile('def f(x: Tensor[("n",), f64], k: i64):\n    return x[::k]')
    with pytest.raises(IndexError, match="<tinynn>:2:"):
        f(np.ones(3), np.int64(0))


def test_gradients_go_to_the_elements_that_were_taken():
    f = nnmagic.compile(
        """
def loss(x: Tensor[("n",), f64], k: i64):
    return (x[::k] ** 2).sum()

def f(x: Tensor[("n",), f64], k: i64):
    return grad(loss)(x, k)
"""
    )
    x = np.arange(7.0)
    for k in (1, 2, 3, -2):
        wanted = np.zeros(7)
        wanted[::k] = 2 * x[::k]
        np.testing.assert_array_equal(f(x, np.int64(k)), wanted)
