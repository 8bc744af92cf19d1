"""Complex numbers in cells, judged by NumPy on the same text."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from tests.newer_libraries import newer_numpy
from tests.tinynn.cases import errors_of

#: What the expressions below compute with.
_RNG = np.random.default_rng(7)


def draw(*shape: int, dtype: str = "c16") -> np.ndarray:
    """Return complex numbers in every direction."""
    return (_RNG.normal(size=shape) + 1j * _RNG.normal(size=shape)).astype(dtype)


OPERANDS: dict[str, np.ndarray] = {
    "A": draw(3, 4),
    "B": draw(3, 4),
    "M": draw(4, 5),
    "S": draw(4, 4),
    "T": draw(2, 3, 4),
    "V": draw(6),
    "R": _RNG.normal(size=(3, 4)),
    "P": _RNG.normal(size=(3, 4)).astype("f4"),
    "I": _RNG.integers(-4, 5, (3, 4)),
    "Q": draw(3, 4, dtype="c8"),
    "c": draw(),
    "m": _RNG.normal(size=(3, 4)) > 0,
}
_SHORT = {dtype.name: dtype.short for dtype in nnmagic.tinynn.types.annotations.DTYPES.values()}


def annotation(array: np.ndarray, named: bool = False) -> str:
    """Return the type of an array as a cell writes it; ``named``: with the sizes as names."""
    if not array.ndim:
        return _SHORT[array.dtype.name]
    dims = (f'"d{size}"' if named else str(size) for size in array.shape)
    return f"Tensor[({', '.join(dims)},), {_SHORT[array.dtype.name]}]"


def check(expressions: str, *, named: bool = False, rtol: float = 1e-12) -> None:
    """Compare expressions, separated by ``|``, with NumPy's results, dtypes and shapes."""
    texts = [text.strip() for text in expressions.split("|")]
    used = [name for name in OPERANDS if any(name in compile(text, "", "eval").co_names for text in texts)]
    parameters = ", ".join(f"{name}: {annotation(OPERANDS[name], named)}" for name in used)
    source = f"def f({parameters}):\n    return ({', '.join(texts)},)\n"
    compiled = nnmagic.compile(source, namespace={"np": np}, cache=False)
    results = compiled(*(OPERANDS[name] for name in used))
    for text, result in zip(texts, results, strict=True):
        expected = np.asarray(eval(text, {"np": np, **OPERANDS}))
        same(result, expected, text, rtol)


def same(result: np.ndarray, expected: np.ndarray, text: str, rtol: float = 1e-12) -> None:
    """Raise AssertionError where a result is not NumPy's."""
    assert result.dtype == expected.dtype, f"{text}: {result.dtype}, not {expected.dtype}"
    assert result.shape == expected.shape, f"{text}: {result.shape}, not {expected.shape}"
    tolerance = max(rtol, 1e-5) if expected.dtype.name in ("complex64", "float32") else rtol
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance, err_msg=text)


EXPRESSIONS = {
    "arithmetic": "A + B | A - B | A * B | A / B | -A | +A | A * c | c / A | A == B | A != B | A == A",
    "python-numbers": "A + 1 | 2.5 * A | 1j * A | A / 2j | 1 / A | (2 + 3j) * A | 1j ** 2 * A | A * complex(1, 2)",
    "parts-of-numbers": "(1 + 2j).real * A | (1 + 2j).imag * A | (1 + 2j).conjugate() * A | abs(3 + 4j) * A",
    "powers": "A ** 2 | A ** 3 | A ** -2 | A ** 0 | A ** 0.5 | A ** 1.5 | A ** B | 2 ** A | A ** (1 + 2j) | c ** 17",
    "real-operands": "A + R | R * A | R - A | A / R | R / A | A + I | I * A | A * P | Q * P | P / Q | A + c.real",
    "numbers-beside-real-arrays": "1j * R | P + 2j | 1j * I | R ** 1j | R + 1j * R | np.exp(-2.0j * np.pi * R)",
    "single-precision": "Q + Q | Q * Q | Q / (Q + 1) | 2.5 * Q | Q * 1j | abs(Q) | np.exp(Q) | np.sqrt(Q) | Q @ Q.T",
    "parts": "A.real | A.imag | R.real | R.imag | np.real(A) | np.imag(A) | np.imag(R) | A.conj() | np.conjugate(A)",
    "sizes-and-angles": "abs(A) | np.abs(A) | np.absolute(Q) | np.angle(A) | np.angle(A, deg=True) | np.angle(R)",
    "exponentials": "np.exp(A) | np.log(A) | np.sqrt(A) | np.log2(A) | np.log10(A) | np.exp2(A) | np.square(A)",
    "trigonometry": "np.sin(A) | np.cos(A) | np.tan(A) | np.sinh(A) | np.cosh(A) | np.tanh(A) | np.reciprocal(A)",
    "functions-of-two": "np.power(A, 3) | np.add(A, B) | np.multiply(A, 2j) | np.divide(A, B) | np.subtract(1j, A)",
    "tests": "np.isnan(A) | np.isinf(A) | np.isfinite(A) | np.isclose(A, A + 1e-12) | np.allclose(A, B) | np.array_equal(A, A)",
    "truth": "np.any(A) | np.all(A) | np.count_nonzero(A) | np.logical_not(A) | np.logical_and(A, B) | A.astype(bool)",
    "sums": "A.sum() | A.sum(axis=0) | A.sum(axis=-1, keepdims=True) | T.sum(axis=(0, 2)) | np.sum(A, where=m) | A.sum(axis=())",
    "means": "A.mean() | A.mean(axis=1) | T.mean(axis=(1, 2)) | np.std(A) | np.var(A, axis=1) | np.var(A, axis=0, ddof=1)",
    "products-of-elements": "A.prod() | A.prod(axis=0) | np.prod(V) | A.prod(axis=1, keepdims=True) | V.cumsum() | np.cumsum(A, axis=0)",
    "matrix-products": "A @ M | S @ S | V @ V | A @ S[0] | S[0] @ M | R @ M | M.T @ R.T | T @ S | T @ T.transpose(0, 2, 1)",
    "vector-products": "np.dot(A, M) | np.vdot(A, B) | np.vdot(R, A) | np.inner(A, B) | np.outer(V, V) | np.vecdot(A, B) | np.cross(A[:, :3], B[:, :3])",
    "tensor-products": 'np.tensordot(A, M, axes=1) | np.einsum("ij,jk->ik", A, M) | np.einsum("ij,ij->i", A, B) | np.einsum("i,j,k->ijk", V[:2], V[2:4], V[4:]) | np.kron(A, B) | np.trace(S)',
    "linear-systems": "np.linalg.solve(S, S[0]) | np.linalg.solve(S, M) | np.linalg.solve(S.real, M) | np.linalg.inv(S) | np.linalg.matrix_power(S, 3) | np.linalg.norm(A) | np.linalg.norm(A, axis=1)",
    "choices": "np.where(m, A, B) | np.where(m, A, 0) | np.where(m, A, 1j) | np.where(m, R, A) | np.where(A == B, A, -A)",
    "joins": "np.concatenate([A, B]) | np.concatenate([A, R], axis=1) | np.stack([A, B]) | np.stack([A, B], axis=-1) | np.hstack([A, B]) | np.vstack([V, V]) | np.dstack([A, A]) | np.append(V, V) | np.column_stack([V, V])",
    "shapes": "A.reshape(4, 3) | A.reshape(-1) | A.reshape(2, -1) | A.T | T.transpose(2, 0, 1) | A.ravel() | A[None] | np.expand_dims(A, -1) | np.squeeze(A[None]) | np.broadcast_to(V, (2, 6)) | np.swapaxes(T, 0, -1) | np.moveaxis(T, 0, -1) | np.atleast_2d(V)",
    "orders": "np.flip(A, axis=0) | np.flip(A) | np.roll(A, 1, axis=1) | np.roll(A, 2) | np.rot90(A) | np.tile(A, (2, 1)) | np.repeat(A, 2, axis=1) | np.pad(A, 1) | np.pad(V, 2, mode='reflect') | np.split(A, 2, axis=1)[1] | np.array_split(V, 4)[3]",
    "elements": "A[0] | A[-1, 2] | A[:, 1] | A[1:, ::2] | A[::-1] | A[..., 0] | A[[0, 2]] | A[np.array([0, 1]), np.array([1, 2])] | np.take(A, [1, 0], axis=1) | np.take_along_axis(A, np.array([[0, 1], [1, 0], [2, 2]]), axis=1)",
    "matrices": "np.diag(S) | np.diag(V) | np.tril(S) | np.triu(S) | np.eye(3, dtype=np.complex128) | np.diff(A, axis=1) | A.copy() | np.ediff1d(A) | np.meshgrid(V, V[:3])[0]",
    "new-arrays": "np.zeros(3, dtype=np.complex128) | np.ones((2, 3), dtype=np.complex64) | np.full((2, 2), 1 + 2j) | np.zeros_like(A) | np.ones_like(A) | np.full_like(A, 2j) | np.array([1j, 2.0, 3]) | np.array([[1, 2j], [3, 4]])",
    "conversions": "R.astype(np.complex128) | A.astype(np.complex64) | R.astype(complex) | I.astype('complex64') | Q.astype(np.complex128)",
    "facts": "A.size * A | A.ndim * A | np.iscomplexobj(A) | np.iscomplexobj(R) | np.isrealobj(A) | A.itemsize | A.nbytes",
}  # fmt: skip


@pytest.mark.machine_code
@pytest.mark.sampled(every=5)
@pytest.mark.full(
    "matrix-products",
    "trigonometry",
    "single-precision",
    "exponentials",
    "numbers-beside-real-arrays",
    "real-operands",
    "powers",
    "vector-products",
)
@pytest.mark.parametrize("topic", EXPRESSIONS)
def test_an_expression_gives_what_numpy_gives(topic: str) -> None:
    check(EXPRESSIONS[topic])


@pytest.mark.parametrize(
    "topic",
    ["parts", "sums", "vector-products", "choices", "elements", "orders"],
)
def test_sizes_may_be_named(topic: str) -> None:
    unknown = (
        "np.pad",
        "np.split",
        "np.array_split",
        "np.rot90",
        "np.roll",
        "np.flip(A)",
        "np.take_",
        "cross",
    )
    texts = [text for text in EXPRESSIONS[topic].split("|") if not any(each in text for each in unknown)]
    check("|".join(texts), named=True)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-300, -1e-310, 1e300, -1e308, 1.7e308, 1e-8, 22.5, 5e-324, 710.0]


def _errors_of_parts(result: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Return the larger error of the parts, relative to the larger part."""
    parts = [np.stack([np.real(each), np.imag(each)]) for each in (result, expected)]
    with np.errstate(all="ignore"):
        return np.abs(parts[0] - parts[1]).max(0) / (np.abs(parts[1]).max(0) + 1e-300)


@pytest.mark.parametrize(
    "text",
    [
        *("np.sqrt(z)", "np.exp(z)", "np.log(z)", "np.sin(z)", "np.cosh(z)", "np.tanh(z)", "abs(z)", "1 / z"),
        *("np.angle(z)", "z * z", "z ** 2", "z / (1e300 - 2e299j)"),
    ],
)
def test_nothing_overflows_or_vanishes_where_numpys_does_not(text: str) -> None:
    z = np.array([complex(re, im) for re in SPECIAL for im in SPECIAL])
    source = f"def f(z: Tensor[({len(z)},), c128]):\n    return {text}\n"
    result = nnmagic.compile(source, namespace={"np": np}, cache=False)(z)
    with np.errstate(all="ignore"):
        expected = eval(text, {"np": np, "z": z})
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.isfinite(result), finite)
    assert _errors_of_parts(result[finite], expected[finite]).max() < 1e-14


def test_infinities_and_nan_are_numpys() -> None:
    numbers = [0.0, -1.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(re, im) for re in numbers for im in numbers])
    source = f"def f(z: Tensor[({len(z)},), c128]):\n    return np.sqrt(z), abs(z), np.isnan(z), z == z\n"
    results = nnmagic.compile(source, namespace={"np": np}, cache=False)(z)
    for result, expected in zip(results, (np.sqrt(z), np.abs(z), np.isnan(z), z == z), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-15)


FUNCTIONS = """
arccos arccosh arcsin arcsinh arctan arctanh cos cosh exp log log2 log10 log1p sign sin sinh sqrt tan tanh
""".split()  # noqa: SIM905


def _functions(dtype: str) -> nnmagic.CompiledFunction:
    names = ", ".join(f"np.{name}(z)" for name in FUNCTIONS)
    source = f'def f(z: Tensor[("n",), {dtype}]):\n    return {names}, np.expm1(z)\n'
    return nnmagic.compile(source, namespace={"np": np})


def _same_parts(result: np.ndarray, expected: np.ndarray, z: np.ndarray, name: str, rtol: float) -> None:
    """Raise AssertionError where a part is not that of NumPy, the sign of a zero included."""
    for part in ("real", "imag"):
        one, other = getattr(result, part), getattr(expected, part)
        np.testing.assert_allclose(one, other, rtol=rtol, err_msg=f"{name}: {part} of {z}")
        # A zero may have any sign beside NaN, and where C99 says so of an angle that is none.
        turned = z.real if name in ("sin", "cos", "tan") else z.imag
        is_open = ~np.isfinite(turned) if not name.startswith("arc") else np.isnan(z)
        zero = (other == 0) & ~np.isnan(expected) & ~is_open
        message = f"{name}: signs of zeros in the {part} parts, of {z[zero]}"
        np.testing.assert_array_equal(np.signbit(one[zero]), np.signbit(other[zero]), message)


@newer_numpy
@pytest.mark.parametrize("dtype", ["c128", pytest.param("c64", marks=pytest.mark.full)])
def test_branch_cuts_infinities_nan_and_signed_zeros_are_numpys(dtype: str) -> None:
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan, 1e-20, 1e200, -1e200, 30.0, 709.9]
    z = np.array([complex(re, im) for re in parts for im in parts])
    with np.errstate(all="ignore"):
        z = z.astype(np.complex128 if dtype == "c128" else np.complex64)
        *results, less_one = _functions(dtype)(z)
        for name, result in zip(FUNCTIONS, results, strict=True):
            # Near 0, NumPy's log1p has few digits: of a tiny number it is that.
            kept = abs(z) != np.abs(z.dtype.type(1e-20)) if name == "log1p" else z == z
            kept |= ~np.isfinite(z)
            if name == "log1p":
                kept &= ~((abs(z.real) < 1e-19) & (abs(z.imag) < 1e-19) & (z != 0))
                kept &= (abs(z.real) < 1e150) & (abs(z.imag) < 1e150) | ~np.isfinite(z)
            _same_parts(
                result[kept], getattr(np, name)(z[kept]), z[kept], name, 1e-13 if dtype == "c128" else 3e-6
            )
        # NumPy's expm1 of infinities is not the standard's; exp(z) - 1 is.
        infinite = ~np.isfinite(z)
        expected = np.exp(z[infinite]) - 1
        np.testing.assert_array_equal(less_one[infinite].real, expected.real)
        np.testing.assert_array_equal(less_one[infinite].imag, expected.imag)


@pytest.mark.full
def test_no_digits_are_lost() -> None:
    rng = np.random.default_rng(5)
    z = (rng.normal(size=(7, 300)) + 1j * rng.normal(size=(7, 300))) * 10.0 ** np.arange(-8, 6, 2)[:, None]
    z = np.concatenate([z.ravel(), 1 + z[1] * 1e-3, 1j + z[1] * 1e-3, -1 + z[1]])
    wide = z.astype(np.clongdouble)
    *results, less_one = _functions("c128")(z)
    with np.errstate(all="ignore"):
        for name, result in zip((*FUNCTIONS, "expm1"), (*results, less_one), strict=True):
            if name == "log1p":
                x, y = wide.real, wide.imag
                near = np.log1p(x * (x + 2) + y * y) / 2
                expected = np.where(abs(z) < 0.5, near, np.log(abs(1 + wide))) + 1j * np.arctan2(y, 1 + x)
            elif name == "sign":
                expected = wide / np.abs(wide)
            else:
                expected = getattr(np, name)(wide)
            size = abs(expected)
            kept = (size > 1e-300) & (size < 1e300)
            assert np.max(abs(result - expected)[kept] / size[kept]) < 2e-15, name


def test_a_power_of_zero_is_numpys() -> None:
    source = "def f(z: c128, w: c128):\n    return z ** w, z ** 2, z ** 0\n"
    compiled = nnmagic.compile(source, cache=False)
    for exponent in (1, 0, 2.5, 1 + 1j, 0.5j, -1 + 0.5j):
        result = compiled(0, exponent)[0]
        with np.errstate(all="ignore"):
            expected = np.complex128(0) ** np.complex128(exponent)
        np.testing.assert_array_equal(result, expected)


def test_relay_has_pairs_of_floats() -> None:
    compiled = nnmagic.compile("def f(a: Tensor[(2, 3), c64]):\n    return -a\n", cache=False)
    assert compiled.relay_text.startswith(
        "def @f(%a: Tensor[(2, 3, 2), float32]) -> Tensor[(2, 3, 2), float32]"
    )
    assert str(compiled.__signature__).startswith("(a: Tensor[(2, 3), c64]) -> Tensor[(2, 3), c64]")


# -- what is refused -----------------------------------------------------------------------------------

REFUSED = [
    ("z < w", "`<`: complex numbers have no order", "z", "compare sizes, as in abs(z), or parts, z.real"),
    ("np.max(z)", "max: complex numbers have no order", "z", "compare sizes, as in abs(z), or parts, z.real"),
    ("np.sort(z)", "sort: complex numbers have no order", "z", None),
    ("z // 2", "`//`: complex numbers have no order", "z", None),
    ("z % w", "`%`: complex numbers have no order", "z", None),
    ("np.floor(z)", "floor: complex numbers have no order", "z", None),
    ("1j < 2", "`<`: complex numbers have no order", "1j", None),
    ("np.arctan2(z, w)", "arctan2 is not defined for complex numbers", "z", None),
    ("erf(z)", "erf is not defined for complex numbers", "z", "apply it to the parts, z.real and z.imag"),
    ("softmax(z)", "softmax is not defined for complex numbers", "z", None),
    ("~z", "`~` is not defined for complex numbers", "z", None),
    ("z & 1", "`&` is not defined for complex numbers", "z", None),
    ("np.linalg.lstsq(s, s)", "lstsq is not defined for complex numbers", "s", None),
    ("float(z[0])", "float is not defined for complex numbers", "z[0]", None),
    ("relay.sigmoid(z)", "sigmoid is not defined for complex numbers", "z", None),
    ("np.arange(3j)", "arange is not defined for complex numbers", "3j", None),
    (
        "z.astype(f32)",
        "the imaginary part would be lost: a complex number does not become a real one",
        "z.astype(f32)",
        "take the part that you want, as in z.real",
    ),
    ("np.prod(n)", 'prod: how many complex numbers are multiplied must be known at compile time, not the dimension "n"', "n", None),
    ("np.fft.rfft(z)", "rfft takes real numbers, not complex ones", "z", "write fft"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "blamed", "hint"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_has_no_meaning_is_refused(text: str, message: str, blamed: str, hint: str | None) -> None:
    parameters = (
        "z: Tensor[(4,), c128], w: Tensor[(4,), c128], r: Tensor[(4,), f64], q: Tensor[(4,), c64], "
        's: Tensor[(4, 4), c128], n: Tensor[("n",), c128]'
    )
    line = f"    return {text}"
    (error,) = errors_of(f"def f({parameters}):\n{line}\n", {"np": np})
    assert error.message == message
    assert error.span is not None
    begin = error.span.column - 1
    assert line[begin : error.span.end_column - 1] == blamed
    if hint is not None:
        assert error.hint == hint


def test_an_array_that_would_lose_imaginary_parts_is_refused() -> None:
    (error,) = errors_of(
        "def f(r: Tensor[(3,), f64], z: c128):\n    y = r.copy()\n    y[0] = z\n    return y\n"
    )
    assert error.message == "the imaginary part would be lost: a complex number does not become a real one"
    (error,) = errors_of("def f(r: Tensor[(3,), f64]):\n    y = r.copy()\n    y += 1j\n    return y\n")
    assert error.message == "`+=` gives c128, which an array of f64 cannot hold"


def test_the_engine_numpy_gives_numbers_whose_parts_lie_apart() -> None:
    source = "def f(V: Tensor[(6,), c128]):\n    return np.broadcast_to(V, (2, 6))\n"
    result = nnmagic.compile(source, namespace={"np": np}, engine="numpy", cache=False)(OPERANDS["V"])
    np.testing.assert_array_equal(result, [OPERANDS["V"]] * 2)
