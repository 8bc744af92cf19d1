"""``import`` in a function, of what cells know."""

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNError
from tests.tinynn.cases import assert_as_in_python

PROGRAMS = {
    "a module": "    import numpy as np\n    return np.exp(x) * np.pi\n",
    "members": (
        "    from math import pi as p, sqrt\n    import math\n"
        "    return sqrt(2.0) * p * x * math.sin(math.e)\n"
    ),
    "submodules": (
        "    import numpy.linalg as la\n    from numpy.linalg import norm\n    from numpy import fft\n"
        "    return la.norm(x) + norm(x) + fft.fft(x).real\n"
    ),
    "a dotted name": (
        "    import numpy\n    import numpy.linalg\n    return numpy.linalg.norm(x) + numpy.sum(x)\n"
    ),
    "a nested function": (
        "    import numpy as np\n    def g(y):\n        return np.cos(y)\n    return g(x)\n"
    ),
    "a loop": (
        "    s = 0.0\n    for i in range(40):\n        from math import sqrt\n        s += sqrt(float(i))\n"
        "    return x * s\n"
    ),
    "a dtype": "    import numpy as np\n    return x.astype(np.float32) + np.zeros(3, dtype=np.float32)\n",
    "another name": "    from numpy import exp as sqrt\n    return sqrt(x)\n",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_in_python(name: str) -> None:
    source, x = f"def f(x):\n{PROGRAMS[name]}", np.array([0.3, 0.5, 0.7])
    names: dict[str, object] = {}
    exec(source, names)
    result = nnmagic.compile(source, engine="numpy")(x)
    expected = names["f"](x)  # type: ignore[operator]
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected)


def test_an_import_is_that_of_its_function() -> None:
    source = (
        "def g(x):\n    from numpy import exp as sqrt\n    return sqrt(x)\n\n"
        "def f(x):\n    return sqrt(x) + g(x)\n"
    )
    x = np.array([0.3, 0.5, 0.7])
    np.testing.assert_allclose(nnmagic.compile(source, engine="numpy")(x), np.sqrt(x) + np.exp(x))


@pytest.mark.parametrize(
    "line",
    ["import antigravity", "from antigravity import geohash", "from math import foo", "from numpy import *"],
)
def test_other_imports_are_refused(line: str) -> None:
    with pytest.raises(TinyNNError, match="`import` is not part of TinyNN") as caught:
        nnmagic.compile(f"def f(x: f32):\n    {line}\n    return x\n")
    assert len(caught.value.diagnostics) == 1


def test_what_loops_go_over_may_have_other_names() -> None:
    """As in ``except ImportError: prange = range``, where numba is missing."""
    text = (
        "def f(x):\n    s = 0.0\n    for i in prange(len(x)):\n        s += i * x[i]\n"
        "    for i, (a, b) in counted(pairs(x, back(x))):\n        s += a * b - i\n    return s\n"
    )
    others = {"prange": range, "counted": enumerate, "pairs": zip, "back": reversed}
    assert_as_in_python(text, np.arange(4.0), **others)


def test_numbers_become_whole_as_numpys_do() -> None:
    text = "def f(x):\n    return np.int64(2.7), np.int32(-2.7), np.int64(len(x) * 0.5), bool(np.bool_(3))\n"
    assert_as_in_python(text, np.arange(5.0), np=np)
