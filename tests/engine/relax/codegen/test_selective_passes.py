"""Passes that run only where they change something change no number."""

import textwrap

import numpy as np
import pytest

import nnmagic

COUNT = 40

#: A condition that no round changes, one that rounds change, and a chain of many bound variables.
PROGRAMS = {
    "invariant condition": (
        """
        def f(x: Tensor[("n",), f64], up: bool_) -> Tensor[("n",), f64]:
            out = zeros(len(x))
            for i in range(len(x)):
                if up:
                    out[i] = x[i] + 1.0
                else:
                    out[i] = x[i] * 2.0
            return out
        """,
        lambda x, up: x + 1 if up else x * 2,
    ),
    "condition of the round": (
        """
        def f(x: Tensor[("n",), f64], up: bool_) -> Tensor[("n",), f64]:
            out = zeros(len(x))
            for i in range(len(x)):
                if i % 3 == 0 and up:
                    out[i] = x[i] + 1.0
            return out
        """,
        lambda x, up: np.where((np.arange(len(x)) % 3 == 0) & up, x + 1, 0),
    ),
    "many variables": (
        f"""
        def f(x: Tensor[("n",), f64], up: bool_) -> Tensor[("n",), f64]:
            out = zeros(len(x))
            for i in range({COUNT}, len(x)):
                s = x[i]
                {"; ".join(f"v{k} = s * x[i - {k}]; s = s + v{k} * {k}.0" for k in range(1, COUNT))}
                out[i] = s
            return out
        """,
        None,
    ),
}


def in_python(x, _):
    out = np.zeros(len(x))
    for i in range(COUNT, len(x)):
        s = x[i]
        for k in range(1, COUNT):
            s = s + s * x[i - k] * float(k)
        out[i] = s
    return out


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_numpy(name):
    source, reference = PROGRAMS[name]
    f = nnmagic.compile(textwrap.dedent(source).replace("; ", "\n        "), cache=False)
    x = np.random.default_rng(0).random(100) * 0.01
    for up in (True, False):
        np.testing.assert_allclose(f(x, up), (reference or in_python)(x, up), rtol=1e-12)
