"""Arrays of sizes that nothing bounds: native code allocates, frees them and says where memory is short.

They judge `engine/relax/codegen/aot/step_operands`, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from tests.child_process import run_python
from tests.systems import POSIX

pytestmark = pytest.mark.sampled(every=3)

X = np.random.default_rng(0).standard_normal(30)

#: Programs with calls of them; each is Python on NumPy, too, without its types.
PROGRAMS: dict[str, tuple[str, list[tuple]]] = {
    "an array that shrinks": (
        """
def f(v: Tensor[("n",), f64], p: f64, q: f64):
    for i in range(len(v) - 1):
        v = p * v[:-1] + q * v[1:]
    return v[0]
""",
        [(X, 0.5, 0.49), (X[:1], 1.0, 1.0)],
    ),
    "an array that grows": (
        """
def f(x: Tensor[("n",), f64], k: i64):
    y = x
    for i in range(k):
        y = np.concatenate([y, x * i])
    return y
""",
        [(X, 4), (X, 0), (X[:0], 3)],
    ),
    "arrays of one element": (
        """
def f(x: Tensor[("n",), f64], k: i64):
    a, b = x, x[:k]
    for i in range(k):
        a, b = b[:-1], np.zeros(1)
    return a, b
""",
        [(X, 3), (X, 1), (X, 0)],
    ),
    "two that change places": (
        """
def f(x: Tensor[("n",), f64], k: i64):
    a, b = x, x
    for i in range(k):
        a, b = b[1:], np.concatenate([a, b])
    return a, b
""",
        [(X[:6], 4), (X[:6], 0)],
    ),
    "branches of other sizes": (
        """
def f(x: Tensor[("n",), f64], k: i64):
    if k > 3:
        y = x[:k]
    else:
        y = x[k:]
    return y * 2.0
""",
        [(X, 2), (X, 5), (X, 50)],
    ),
    "branches of other sizes in a loop": (
        """
def f(x: Tensor[("n",), f64], k: i64):
    y = x
    for i in range(k):
        if i % 2 == 0:
            y = y[1:]
        else:
            y = np.concatenate([y, y[:2]])
    return y
""",
        [(X, 5), (X[:1], 3)],
    ),
    "a window that moves": (
        """
def f(x: Tensor[("n",), f64], taps: i64, mu: f64):
    w = np.zeros(taps)
    y = np.zeros_like(x)
    for i in range(taps, len(x)):
        u = x[i - taps:i]
        e = x[i] - np.sum(w * u)
        w = w + mu * e * u
        y[i] = e
    return y
""",
        [(X, 4, 0.1), (X, 1, 0.1), (X, 40, 0.1)],
    ),
    "a set that loses its multiples": (
        """
def f(k: i64):
    p = np.arange(2, k)
    i = 0
    while i < len(p):
        q = p[i]
        p = p[(p == q) | (p % q != 0)]
        i += 1
    return p
""",
        [(50,), (3,), (2,)],
    ),
    "centres of k groups": (
        """
def f(x: Tensor[("n", 2), f64], k: i64, rounds: i64):
    c = x[:k]
    for r in range(rounds):
        total = np.zeros((k, 2))
        count = np.zeros(k)
        for i in range(len(x)):
            best, least = 0, 1e300
            for j in range(k):
                d = (x[i, 0] - c[j, 0]) ** 2 + (x[i, 1] - c[j, 1]) ** 2
                if d < least:
                    best, least = j, d
            total[best, 0] += x[i, 0]
            total[best, 1] += x[i, 1]
            count[best] += 1.0
        c = total / count[:, None]
    return c
""",
        [(X.reshape(15, 2), 3, 4), (X.reshape(15, 2), 1, 2)],
    ),
    "a function that several call": (
        """
def g(x: Tensor[("n",), f64], k: i64):
    for i in range(k):
        x = x[1:] + x[:-1]
    return x

def f(x: Tensor[("n",), f64], k: i64):
    return g(x, k), g(x * 2.0, 1), np.sum(g(x[k:], k))
""",
        [(X, 2), (X, 0)],
    ),
    "loops in loops": (
        """
def f(x: Tensor[("n",), f64], k: i64):
    t = 0.0
    y = x
    for i in range(k):
        z = y
        for j in range(k):
            z = z[:-1]
            if len(z) > 2:
                z = z + z[::-1]
            else:
                z = np.concatenate([z[:], x[:3]])
        t += np.sum(z)
        y = y[1:]
    return t, y
""",
        [(X, 3), (X[:3], 2)],
    ),
    "matrices": (
        """
def f(x: Tensor[("n", "m"), f64], k: i64):
    y = x
    for i in range(k):
        y = (y[1:] @ y[1:].T)[:, :-1]
    return y
""",
        [(X.reshape(6, 5), 3), (X.reshape(6, 5), 0)],
    ),
    "a return out of a loop": (
        """
def f(x: Tensor[("n",), f64], k: i64):
    for i in range(k):
        if x[0] > 0.5:
            return x
        x = x[1:]
    return x * 0.0
""",
        [(X, 9), (X, 0)],
    ),
    "a loop that fills two, of which one is a result": (
        """
def f(x: Tensor[("n",), f64], k: i64):
    n = len(x) - k
    a = np.empty_like(x[:n])
    b = np.empty_like(x[:n])
    for i in range(n):
        a[i] = x[i]
        b[i] = x[i + k]
    return a, a - b
""",
        [(X, 7), (X, 0), (X, 30)],
    ),
    "an array whose size alone a loop needs": (
        """
def f(x: Tensor[("n",), f64], m: i64):
    a, b = x, x[:m]
    for i in range(len(b)):
        a, b = np.zeros(len(b) // 2 + 1), x[:1]
    return a
""",
        [(X, 3), (X, 0), (X, 100)],
    ),
}


def of_python(source: str) -> Callable[..., object]:
    """The function that Python runs."""
    names = {"np": np, "Tensor": {(("n",), 0): 0}, "f64": 0}
    plain = source.replace('Tensor[("n",), f64]', "0").replace('Tensor[("n", "m"), f64]', "0")
    plain = plain.replace('Tensor[("n", 2), f64]', "0").replace(": i64", ": 0").replace(": f64", ": 0")
    exec(plain, names)
    return names["f"]


def compiled(source: str, **options: object) -> CompiledFunction:
    result = nnmagic.compile(source, namespace={"np": np}, cache=False, **options)
    return result[-1] if isinstance(result, list) else result


@pytest.mark.machine_code
@pytest.mark.filterwarnings("ignore:.*grows in each round")  # which is what some of them are about
@pytest.mark.full("matrices")
@pytest.mark.parametrize("opt_level", [3, pytest.param(0, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_is_machine_code_alone_and_gives_what_numpy_gives(name: str, opt_level: int) -> None:
    source, calls = PROGRAMS[name]
    function, expected = compiled(source, opt_level=opt_level), of_python(source)
    assert isinstance(function.build(), AotExecutable)
    for arguments in calls * 2:
        results, wanted = function(*arguments), expected(*arguments)
        pairs = zip(results, wanted, strict=True) if isinstance(wanted, tuple) else [(results, wanted)]
        for result, want in pairs:
            assert np.shape(result) == np.shape(want)
            np.testing.assert_allclose(result, want, rtol=1e-12)


#: Indices are eight times as large as bytes; so few are found that they need no room for all.
_INDICES_OF_BYTES = """
import resource
from pathlib import Path

import numpy as np
import nnmagic

x = np.zeros(1 << 26, np.int8)
x[100], x[-3] = 3, 5
for dim in ("'n'", str(len(x))):
    source = f"def f(x: Tensor[({dim},), i8]):\\n    return x[np.flatnonzero(x > 0)], x[x > 0].sum()\\n"
    function = nnmagic.compile(source, namespace={"np": np})
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 3 * len(x), -1))
    found, total = function(x)
    assert found.tolist() == [3, 5] and total == 8
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit and /proc are Linux's")
@pytest.mark.machine_code
@pytest.mark.full
def test_a_few_indices_of_bytes_need_little_memory() -> None:
    run_python("-c", _INDICES_OF_BYTES)


@POSIX
@pytest.mark.full
@pytest.mark.machine_code
def test_memory_is_given_back() -> None:
    """Also where a call fails in the middle."""
    run_python("-m", __name__)


def main() -> None:
    failing = """
def f(x: Tensor[("n",), f64], k: i64):
    for i in range(k):
        x = np.concatenate([x, x])
        assert len(x) < 1000, "too long"
    return x
"""
    functions = [(compiled(source), calls) for source, calls in PROGRAMS.values()]
    functions.append((compiled(failing), [(X, 30)]))

    def run_all() -> None:
        for function, calls in functions:
            for arguments in calls:
                with suppress(AssertionError):
                    function(*arguments)

    def pages() -> int:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])

    for _ in range(200):
        run_all()
    before = pages()
    for _ in range(3000):
        run_all()
    assert pages() - before < 256, f"{pages() - before} pages more"  # a megabyte


def test_a_size_that_no_memory_has_is_a_memory_error() -> None:
    function = compiled("""
def f(x: Tensor[("n",), f64], k: i64):
    y = x
    for i in range(k):
        y = np.zeros(len(y) * len(y) + 1000000)
    return y[:3]
""")
    with pytest.raises(MemoryError, match="@f: a tensor of this call needs more memory than there is"):
        function(X, 9)
    np.testing.assert_array_equal(function(X[:0], 0), [])


if __name__ == "__main__":
    main()
