"""Assignments to one region of an array are folded into the last one, and mean what they meant."""

import textwrap

import numpy as np
import pytest

import nnmagic
from nnmagic.engine.numpy import Interpreter
from nnmagic.relay.expr import operator_of
from nnmagic.relay.passes import dead_code_elimination, eliminate_common_subexpr, fold_assignments
from nnmagic.relay.structure.traverse import post_order

pytestmark = pytest.mark.sampled(every=3)

#: Programs of an array ``x`` and a part ``z``, and how many assignments are left of theirs.
PROGRAMS = {
    "s[1:-1] += z[:-2]\n    s[1:-1] += z[1:-1]\n    s[1:-1] += z[2:]": 1,
    "s[1:-1] = 0\n    s[1:-1] += z[1:-1]\n    s[1:-1] /= 3": 1,
    "s[1:-1] = z[1:-1]\n    s[1:-1] = 2 * z[2:]": 1,
    "s[2:] *= z[2:]\n    s[2:] -= s[:-2]": 2,
    "s[1:] += z[1:]\n    s[:-1] += z[:-1]": 2,
    "s[1:-1] += z[1:-1]\n    t = s.sum()\n    s[1:-1] *= t": 2,
    "s[:] = z\n    s[1:-1] += 1\n    s[1:-1] += s[1:-1] ** 2": 1,
    "t = s[1:-1]\n    s[1:-1] += z[1:-1]\n    s[1:-1] += t": 1,
    # The part is no later state of the whole array, of which it is the same region: none.
    "t = s[6:]\n    t[::2] += 1.0": 2,
}


def _count(module):
    body = module.functions["f"].body
    return sum(operator_of(node) == "strided_set" for node in post_order(body))


def _source(body, size):
    head = f"def f(x: Tensor[({size},), f64], z: Tensor[({size},), f64]):"
    return f"{head}\n    s = x.copy()\n    {body}\n    return s"


@pytest.mark.parametrize("size", ['"n"', 6])
@pytest.mark.parametrize("body", PROGRAMS)
def test_only_the_last_assignment_to_a_region_is_left(body, size):
    f = nnmagic.compile(_source(body, size), engine="numpy", cache=False)
    folded = dead_code_elimination(fold_assignments(eliminate_common_subexpr(f.relay)))
    assert _count(folded) == PROGRAMS[body]
    x, z = np.random.default_rng(0).standard_normal((2, 6))
    names = {"x": x, "z": z}
    exec(textwrap.dedent(f"s = x.copy()\n    {body}").replace("\n    ", "\n"), names)
    np.testing.assert_array_equal(f(x, z), names["s"])
    np.testing.assert_array_equal(Interpreter(folded).run("f", [x, z]), names["s"])


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("first", [0, 1, 2])
def test_slices_whose_ends_are_named_sizes_have_numpys_lengths(first, count):
    """``x[i:n - k]`` of an array that is shorter than ``k`` counts from the end, as in NumPy."""
    ends = (0, 1, 2, 3, 4)
    cuts = ", ".join(f"x[{first}:n - {end}]" for end in ends)
    f = nnmagic.compile(f'def f(x: Tensor[("n",), f64]):\n    n = len(x)\n    return {cuts}', cache=False)
    x = np.arange(count, dtype="float64")
    for got, end in zip(f(x), ends, strict=True):
        np.testing.assert_array_equal(got, x[first : count - end])


@pytest.mark.full
@pytest.mark.parametrize("shape", [(2, 2), (3, 5), (9, 8)])
def test_a_window_that_is_added_up_is_numpys(shape):
    """The shifted slices are one kernel, which computes the region alone, also in the middle of others."""
    source = """
def f(z: Tensor[("h", "w"), f64]):
    h, w = z.shape
    def blur(z):
        s = z.copy()
        s[1:-1, 1:-1] = 0
        for i in range(3):
            for j in range(3):
                s[1:-1, 1:-1] += z[i:h - 2 + i, j:w - 2 + j]
        s[1:-1, 1:-1] /= 9
        return s
    return blur(blur(z) * 2) - z
"""

    def blur(z):
        s = z.copy()
        h, w = z.shape
        s[1:-1, 1:-1] = 0
        for i in range(3):
            for j in range(3):
                s[1:-1, 1:-1] += z[i : h - 2 + i, j : w - 2 + j]
        s[1:-1, 1:-1] /= 9
        return s

    z = np.random.default_rng(0).standard_normal(shape)
    f = nnmagic.compile(source, cache=False)
    np.testing.assert_allclose(f(z), blur(blur(z) * 2) - z, rtol=1e-12)
