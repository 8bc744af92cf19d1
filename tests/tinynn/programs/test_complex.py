"""Programs with complex numbers: loops, assignments, calls, saved functions, and four of NPBench's kind.

The same text, without its annotations, is the judge: Python runs it with NumPy.
"""

from __future__ import annotations

import ast
import inspect
import pickle
from collections.abc import Mapping

import numpy as np
import pytest

import nnmagic
from nnmagic.functions.inspection.profile import profile
from nnmagic.relay.values import AdtValue
from tests.tinynn.cases import errors_of
from tests.tinynn.values.test_complex import draw, same

_RNG = np.random.default_rng(11)


def python_function(source: str, namespace: Mapping[str, object]) -> object:
    """Return the last function of a cell as Python has it, without annotations."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        if isinstance(node, ast.FunctionDef):
            node.returns = None
    scope: dict[str, object] = {"np": np, **namespace}
    exec(compile(tree, "<cell>", "exec"), scope)
    return scope[[node for node in tree.body if isinstance(node, ast.FunctionDef)][-1].name]


def check(source: str, *arguments: object, namespace: Mapping[str, object] | None = None) -> None:
    """Compare a cell with NumPy: its results, and the arguments that it changes."""
    namespace = namespace or {}
    compiled = nnmagic.compile(source, namespace={"np": np, **namespace}, cache=False)
    ours = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    theirs = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
    result = compiled(*ours)
    function = python_function(source, namespace)
    assert callable(function)
    expected = function(*theirs)
    for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(one, np.ndarray):
            same(one, np.asarray(other), f"argument {number}", 1e-11)
    if expected is None:
        assert result is None
        return
    results = result if isinstance(result, tuple) else (result,)
    wanted = expected if isinstance(expected, tuple) else (expected,)
    for number, (one, other) in enumerate(zip(results, wanted, strict=True)):
        same(one, np.asarray(other), f"result {number}", 1e-11)


# -- control flow --------------------------------------------------------------------------------------

VECTOR = 'a: Tensor[("n",), c128]'


NUMBERS = {
    "while": """
    z, w = 1.0 + 1.0j, a
    while abs(z) < 9 and n > 0:
        z, w = z * z + a, z if w.real > 0 else w / 2
        n -= 1
    return z, w, abs(z - w)
""",
    "calls": """
    total = 0j
    for k in range(n):
        total += _power(a, k) + _halves(a, k)
    return total, _pair(a)[1]
""",
    "elements": """
    x = np.zeros((n, 3), np.complex128)
    for i in range(1, n):
        for j in range(3):
            x[i, j] = a * i + 1j * j
            x[i, j] += x[i - 1, j] * 0.5
            t = x[i, j]
            x[i, j] = x[i - 1, j]
            x[i - 1, j] = t
    return x, x[n - 1, 2]
""",
    "closure": """
    def step(z, k):
        return z * a + k

    z = 0j
    best = a
    for k in range(n):
        z = step(z, k)
        best = z if abs(z) > abs(best) else best
    return np.exp(best), np.conj(z)
""",
}

CALLED = """
def _power(z, n):
    return 1 + 0j if n == 0 else z * _power(z, n - 1)

def _halves(z, n):
    if n < 2:
        return z
    return _halves(z * 0.5, n - 1) + _halves(z * 0.5j, n - 2)

def _pair(z):
    return z, z * 1j
"""


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_in_loops_calls_and_branches(name: str) -> None:
    check(f"{CALLED if name == 'calls' else ''}\ndef f(a: c128, n: i64):{NUMBERS[name]}", 0.7 - 0.4j, 6)


def test_a_loop_carries_complex_numbers_and_arrays() -> None:
    source = f"""def f({VECTOR}, k: i32):
    s = 0j
    total = 0.0
    for i in range(a.shape[0]):
        s = s + a[i] * 1j
        total = total + a[i] * i
    t = a
    for i in range(k):
        t = t * a + 1
    return s, total, t
"""
    check(source, draw(5), np.int32(3))


def test_elements_are_assigned() -> None:
    source = f"""def f({VECTOR}, x: Tensor[(4, 5), c128], z: c128):
    b = np.zeros(a.shape[0], dtype=np.complex128)
    for i in range(a.shape[0]):
        b[i] = a[i] ** 2
    b[0] = 1
    b[1:3] = 2j
    b[3:] += a[3:]
    b[-1] = z
    y = x.copy()
    y[1] = b[:5]
    y[:, 2] = 0.5
    y[0, 0] *= 1j
    y[2:4, ::2] = y[0:2, ::2]
    y[np.array([0, 3]), np.array([1, 1])] = z
    return b, y
"""
    check(source, draw(6), draw(4, 5), np.complex128(1 - 2j))


def test_masks_choose_elements_to_assign() -> None:
    source = """def f(z: Tensor[(7,), c128], c: Tensor[(7,), c128]):
    z = z.copy()
    for n in range(4):
        chosen = np.abs(z) < 2.0
        z[chosen] = z[chosen] ** 2 + c[chosen]
    z[z.real < 0] = 0
    return z
"""
    check(source, draw(7), draw(7))


def test_a_condition_and_a_loop_depend_on_values() -> None:
    source = """def f(a: c128):
    if a.real > 0 and a != 2j:
        r = a * 2
    else:
        r = np.conj(a)
    rounds = 0
    while abs(r) < 100:
        r = r * r + 1
        rounds = rounds + 1
    if r:
        r = -r
    return r, rounds
"""
    check(source, np.complex128(1 + 1j))
    check(source, np.complex128(-1 + 1j))


def test_functions_call_functions() -> None:
    source = """def g(a: Tensor[(5,), c128], b: c128):
    return a * b, (a @ a).real


def power(a: c128, n: i32) -> c128:
    if n == 0:
        return a
    return power(a * a, n - 1)


def f(a: Tensor[(5,), c128]):
    def turn(x):
        return x * 1j

    shift = lambda x: x + a
    pair = (a, a.real)
    first, size = g(pair[0], 2j)
    second, _ = g(pair[0] + pair[1], 1)
    return turn(first), shift(second), size, power(a[0], 3), [turn(each) for each in (a, a * 2)][1]
"""
    check(source, draw(5))


def test_captured_values_are_complex() -> None:
    namespace = {"W": draw(5), "w": 1 + 2j, "s": np.complex64(2j), "swapped": draw(5).astype(">c16")}
    check("def f(a: Tensor[(5,), c128]):\n    return a * W + w + s * swapped\n", draw(5), namespace=namespace)


# -- parameters, results, files ------------------------------------------------------------------------


def test_arguments_are_converted_where_nothing_is_lost() -> None:
    compiled = nnmagic.compile("def f(a: c128, b: c64 = 1j):\n    return a * b.astype(c128)\n", cache=False)
    assert str(compiled.__signature__) == "(a: c128, b: c64 = 1j) -> c128"
    assert compiled(2, 3j) == 6j
    assert compiled(2.5) == 2.5j
    assert compiled(np.float32(2), np.complex128(1j)) == 2j
    for bad, message in (("1", "must be c128, not a str"), (True, "must be c128, not the Python bool True")):
        with pytest.raises(TypeError, match=message):
            compiled(bad)
    with pytest.raises(ValueError, match="must be c64; 1e\\+300j is too large for it"):
        compiled(1, 1e300j)


def test_arrays_of_another_dtype_are_refused() -> None:
    compiled = nnmagic.compile("def f(a: Tensor[(3,), c128]):\n    return a\n", cache=False)
    for bad in (np.ones(3), np.ones(3, "c8")):
        with pytest.raises(
            TypeError, match=r"must be Tensor\[\(3,\), c128\], not an array of .*convert it with"
        ):
            compiled(bad)
    with pytest.raises(TypeError, match="must be f32, not an array of complex64"):
        nnmagic.compile("def f(a: f32):\n    return a\n", cache=False)(np.complex64(1))


def test_arrays_of_any_layout_are_taken() -> None:
    compiled = nnmagic.compile("def f(a: Tensor[(3, 4), c128]):\n    return a * 2\n", cache=False)
    array = draw(3, 4)
    wide = draw(6, 8)
    wide[::2, ::2] = array
    views = [np.asfortranarray(array), array.astype(">c16"), wide[::2, ::2], array[::-1][::-1]]
    for each in views:
        np.testing.assert_array_equal(compiled(each), array * 2)
    out = np.empty((3, 4), complex)
    assert compiled(array, out=out) is out
    np.testing.assert_array_equal(out, array * 2)


def test_arrays_without_elements_are_taken() -> None:
    compiled = nnmagic.compile('def f(a: Tensor[("n",), c64]):\n    return a * 1j, a.sum()\n', cache=False)
    empty, total = compiled(np.zeros(0, "c8"))
    assert (empty.shape, empty.dtype, total) == ((0,), np.complex64, 0)


CHANGING = """def f(a: Tensor[("n",), c128], b: Out[Tensor[("n",), c128]], c: InOut[Tensor[("n",), c128]]):
    b[:] = a * 2
    for i in range(a.shape[0]):
        c[i] = c[i] + a[i]
    return c.sum()
"""


def test_arrays_of_the_caller_are_changed_in_place() -> None:
    check(CHANGING, draw(5), np.zeros(5, complex), draw(5))
    compiled = nnmagic.compile(CHANGING, namespace={"np": np}, cache=False)
    a, b, c = draw(5), np.zeros(10, complex)[::2], draw(5, 3)
    column = c[:, 1].copy()
    compiled(a, b, c[:, 1])
    np.testing.assert_allclose(b, a * 2)
    np.testing.assert_allclose(c[:, 1], column + a)
    with pytest.raises(TypeError, match="is changed by the call: it must be Tensor"):
        compiled(a, np.zeros(5), column)


def test_a_function_is_saved_pickled_and_linked(tmp_path) -> None:
    source = "def turn(a: Tensor[(4,), c64], by: c64 = 2j):\n    return a * by + W, a.real\n"
    turn = nnmagic.compile(source, namespace={"W": draw(4, dtype="c8")}, cache=False)
    turn.save(tmp_path / "turn.nnm")
    a = draw(4, dtype="c8")
    expected = turn(a)
    for other in (nnmagic.load(tmp_path / "turn.nnm"), pickle.loads(pickle.dumps(turn))):
        assert inspect.signature(other) == inspect.signature(turn)
        np.testing.assert_array_equal(other(a)[0], expected[0])
        source = "def f(a: Tensor[(4,), c64]):\n    return turn(a)[0] * 1j\n"
        caller = nnmagic.compile(source, namespace={"turn": other}, cache=False)
        np.testing.assert_allclose(caller(a), expected[0] * 1j, rtol=1e-6)


def test_values_of_a_class_hold_complex_arrays() -> None:
    types = """class Path:
    def End(): ...
    def Step(point: Tensor[(3,), c128], weight: c64, rest: Path): ...

"""
    make = nnmagic.compile(
        types
        + "def f(a: Tensor[(3,), c128]) -> Path:\n    return Step(a * 1j, c64(2j), Step(a, c64(1), End()))\n",
        cache=False,
    )
    add = nnmagic.compile(
        types
        + """def f(path: Path) -> Tensor[(3,), c128]:
    match path:
        case End():
            return np.zeros(3, dtype=np.complex128)
        case Step(point, weight, rest):
            return point * weight.astype(c128) + f(rest)
""",
        namespace={"np": np},
        cache=False,
    )
    a = draw(3)
    path = make(a)
    assert isinstance(path, AdtValue)
    assert path.fields[0].dtype == np.complex128
    assert path.fields[1] == np.complex64(2j)
    np.testing.assert_allclose(add(path), a * 1j * 2j + a)


@pytest.mark.machine_code
@pytest.mark.full
def test_the_kernels_of_a_function_are_profiled() -> None:
    compiled = nnmagic.compile(f"def f({VECTOR}):\n    return exp(a), a @ a\n", cache=False)
    found = profile(compiled, (draw(5),), {})
    assert any("exp" in kernel.name for kernel in found.kernels)


def test_an_index_out_of_range_is_located() -> None:
    source = f"def f({VECTOR}, i: i64):\n    return a[i]\n"
    compiled = nnmagic.compile(source, cache=False)
    with pytest.raises(IndexError, match="index 7 is out of range for an axis of size 5\n --> <tinynn>:2:12"):
        compiled(draw(5), 7)


# -- programs of NPBench's kind ------------------------------------------------------------------------

MANDELBROT = """def mandelbrot(X: Tensor[("nx",), f64], Y: Tensor[("ny",), f64], rounds: i64, horizon: f64):
    C = X + Y[:, None] * 1j
    N = np.zeros(C.shape, dtype=np.int64)
    Z = np.zeros(C.shape, dtype=np.complex128)
    for n in range(rounds):
        I = np.less(abs(Z), horizon)
        N[I] = n
        Z[I] = Z[I] ** 2 + C[I]
    N[N == rounds - 1] = 0
    return Z, N
"""


def test_the_mandelbrot_set() -> None:
    X, Y = np.linspace(-2.25, 0.75, 31), np.linspace(-1.25, 1.25, 17)
    check(MANDELBROT, X, Y, np.int64(20), np.float64(2.0))


STOCKHAM = """def stockham(x: Tensor[(N,), c128], y: Out[Tensor[(N,), c128]]):
    i_coord, j_coord = np.mgrid[0:R, 0:R]
    matrix = np.exp(-2.0j * np.pi * i_coord * j_coord / R)
    y[:] = x[:]
    ii_coord, jj_coord = np.mgrid[0:R, 0 : R**K]
    for i in range(K):
        view = np.reshape(y, (R**i, R, R ** (K - i - 1)))
        swapped = np.transpose(view, axes=(1, 0, 2))
        D = np.exp(-2.0j * np.pi * ii_coord[:, : R**i] * jj_coord[:, : R**i] / R ** (i + 1))
        twiddle = np.repeat(np.reshape(D, (R, R**i, 1)), R ** (K - i - 1), axis=2)
        turned = np.reshape(swapped, (N,)) * np.reshape(twiddle, (N,))
        y[:] = np.reshape(matrix @ np.reshape(turned, (R, R ** (K - 1))), (N,))
"""


def test_the_transform_of_stockham() -> None:
    namespace = {"R": 2, "K": 4, "N": 16}
    x, y = draw(16), np.zeros(16, complex)
    check(STOCKHAM, x, y, namespace=namespace)
    compiled = nnmagic.compile(STOCKHAM, namespace={"np": np, **namespace}, cache=False)
    compiled(x, y)
    np.testing.assert_allclose(y, np.fft.fft(x), rtol=1e-12)


CONTOUR = """def contour(H: Tensor[(3, 4, 4), c128], points: Tensor[(6,), c128], Y: Tensor[(4, 2), c128]):
    P0 = np.zeros((4, 2), dtype=np.complex128)
    P1 = np.zeros((4, 2), dtype=np.complex128)
    for index in range(6):
        z = points[index]
        T = np.zeros((4, 4), dtype=np.complex128)
        for n in range(3):
            T += np.power(z, 1 - n) * H[n]
        X = np.linalg.solve(T, Y)
        if abs(z) < 1.0:
            X = -X
        P0 += X
        P1 += z * X
    return P0, P1
"""


def test_a_contour_integral() -> None:
    check(CONTOUR, draw(3, 4, 4), draw(6), draw(4, 2))


SELF_ENERGIES = """def energies(
    near: Tensor[(A, B), i32],
    dH: Tensor[(A, B, D, O, O), c128],
    G: Tensor[(K, E, A, O, O), c128],
    F: Tensor[(K, W, A, B, D, D), c128],
    S: InOut[Tensor[(K, E, A, O, O), c128]],
):
    for k in range(K):
        for e in range(E):
            for q in range(K):
                for w in range(W):
                    for i in range(D):
                        for j in range(D):
                            for a in range(A):
                                for b in range(B):
                                    if e - w >= 0:
                                        dHG = G[k, e - w, near[a, b]] @ dH[a, b, i]
                                        dHD = dH[a, b, j] * F[q, w, a, b, i, j]
                                        S[k, e, a] += dHG @ dHD
"""


@pytest.mark.machine_code
@pytest.mark.full
def test_self_energies() -> None:
    sizes = {"A": 3, "B": 2, "D": 2, "O": 3, "K": 2, "E": 3, "W": 2}
    near = _RNG.integers(0, 3, (3, 2)).astype("i4")
    arrays = (
        draw(3, 2, 2, 3, 3),
        draw(2, 3, 3, 3, 3),
        draw(2, 2, 3, 2, 2, 2),
        np.zeros((2, 3, 3, 3, 3), complex),
    )
    check(SELF_ENERGIES, near, *arrays, namespace=sizes)


def test_a_name_that_is_complex_in_one_branch_only_is_refused() -> None:
    source = "def f(x: f64):\n    if x > 0:\n        r = complex(x)\n    else:\n        r = x\n    return r\n"
    (error,) = errors_of(source)
    assert error.message == "a complex number cannot become f64"
    assert error.hint == "make the other one complex, too, as in x.astype(c128)"
