"""Dtypes meet as in NumPy, but an integer array and a float array in the dtype of the floats."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import nnmagic
from nnmagic import TinyNNError, TinyNNWarning
from tests.suites import sample

RNG = np.random.default_rng(5)
FLOATS = ("float16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *COMPLEX, *INTEGERS)
PAIRS = [*itertools.combinations(DTYPES, 2)]

#: What computes with two arrays; after ``!`` of real numbers alone, after ``?`` of numbers that are no bools.
EXPRESSIONS = [
    "a + b",
    "b * a",
    "? a - b",
    "? a / b",
    "a == b",
    "! a > b",
    "!? a // b",
    "a @ b.T",
    "np.where(a != 1, a, b)",
    "np.concatenate([a, b])",
    "np.stack([b, a])",
    "np.hstack([a, b])",
    "! np.maximum(a, b)",
    "! np.minimum(b, a)",
    "np.dot(a, b.T)",
    "np.outer(a, b)",
    "np.einsum('ij,kj->ik', a, b)",
    "np.add(a, b)",
    "np.multiply(a, b[0])",
    "np.append(a, b)",
    "a[0, 0] + b",
    "a[0, 0] * b[0, 0]",
    "np.select([a != 1, b != 2], [a, b])",
]


def array(dtype: str) -> np.ndarray:
    """Return small numbers, which every dtype holds and no product of which overflows."""
    if dtype == "bool":
        return RNG.random((3, 2)) > 0.5
    return RNG.integers(1, 5, (3, 2)).astype(dtype)


def expected_operands(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays with integers as the floats beside them."""
    for first, second in ((a, b), (b, a)):
        if first.dtype.kind == "f" and second.dtype.kind in "biu":
            return (a, b.astype(a.dtype)) if first is a else (a.astype(b.dtype), b)
    return a, b


def expressions(*dtypes: str) -> list[str]:
    chosen = []
    for each in EXPRESSIONS:
        signs = each[: each.index(" ")] if each[0] in "!?" else ""
        real = not set(dtypes) & set(COMPLEX)
        if (real or "!" not in signs) and ("bool" not in dtypes or "?" not in signs):
            chosen.append(each.removeprefix(signs).strip())
    return chosen


def program(lines: list[str]) -> str:
    body = "".join(f"    r{index} = {each}\n" for index, each in enumerate(lines))
    return f"def f(a, b):\n{body}    return {', '.join(f'r{index}' for index in range(len(lines)))}\n"


def check(first: str, second: str, **options: object) -> None:
    a, b = array(first), array(second)
    lines = expressions(first, second)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TinyNNWarning)  # u64 and i64 meet in f64
        results = nnmagic.compile(program(lines), namespace={"np": np}, **options)(a, b)
    ours, theirs = (a, b) if options.get("promote") else expected_operands(a, b)
    for line, result in zip(lines, results, strict=True):
        expected = eval(line, {"np": np, "a": ours, "b": theirs})
        assert result.dtype == expected.dtype, line
        np.testing.assert_allclose(result, expected, rtol=1e-2 if "float16" in (first, second) else 1e-6)


@pytest.mark.parametrize(
    ("promote", "first", "second"),
    sample([(promote, *pair) for pair in PAIRS for promote in (None, True)], 3),
)
def test_dtypes_meet_as_in_numpy(first: str, second: str, promote: bool | None) -> None:
    check(first, second, engine="numpy", promote=promote)


@pytest.mark.parametrize(("first", "second"), [("float32", "float64"), ("int32", "float32")])
def test_machine_code_computes_in_the_same_dtypes(first: str, second: str) -> None:
    check(first, second)


@pytest.mark.parametrize("first", FLOATS)
@pytest.mark.parametrize("second", DTYPES)
def test_updates_keep_the_dtype(first: str, second: str) -> None:
    a, b = array(first), array(second)
    source = (
        f"def f(a, b):  # of {first} and {second}\n    x, y, z = a.copy(), a.copy(), a.copy()\n"
        "    x += b\n    y[0] *= b[1]\n    z[:, 1] = b[:, 0]\n    return x, y, z\n"
    )
    f = nnmagic.compile(source, engine="numpy")
    if second in COMPLEX:
        with pytest.raises(TinyNNError):
            f(a, b)
        return
    x, y, z = a.copy(), a.copy(), a.copy()
    x += b
    y[0] *= b[1]
    z[:, 1] = b[:, 0]
    for result, expected in zip(f(a, b), (x, y, z), strict=True):
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize(
    ("first", "second"),
    [("float32", "float64"), ("int32", "float32"), ("uint64", "int64"), ("complex64", "float64")],
)
@pytest.mark.parametrize(
    "expression", ["a + b", "np.concatenate([a, b])", "a @ b.T", "np.einsum('ij,kj', a, b)"]
)
def test_without_promotion_a_wider_float_is_refused(first: str, second: str, expression: str) -> None:
    f = nnmagic.compile(program([expression]), namespace={"np": np}, engine="numpy", promote=False)
    with pytest.raises(TinyNNError, match="which `promote=False` keeps apart") as caught:
        f(array(first), array(second))
    assert "astype" in str(caught.value.diagnostics[0].hint)


def test_half_precisions_have_no_common_dtype() -> None:
    source = "def f(a: Tensor[(3,), f16], b: Tensor[(3,), bf16]):\n    return a + b\n"
    with pytest.raises(TinyNNError, match="f16 and bf16, which have no common dtype"):
        nnmagic.compile(source)


# -- what the line below the cell says ---------------------------------------------------------------


def lines_below(source: str, **namespace: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nnmagic.compile(source, namespace={"np": np, **namespace}, engine="numpy")
    return [str(each.message) for each in caught]


X = 'x: Tensor[("n", 3), f32]'


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("return x * np.zeros(3)", "np.zeros(3)"),
        ("return x @ np.eye(3)", "np.eye(3)"),
        ("w = np.linspace(0, 1, 3)\n    return (x + w) * x + x", "np.linspace(0, 1, 3)"),
        ("return np.concatenate([x, np.ones((2, 3))])", "np.ones((2, 3))"),
        ("return np.dot(x, np.full(3, 0.5))", "np.full(3, 0.5)"),
        ("h = np.zeros(3)\n    for row in x:\n        h = np.tanh(h + row)\n    return h", "np.zeros(3)"),
        ("return x * W", "W"),
        ("return np.einsum('ij,j', x, W)", "W"),
    ],
)
def test_a_line_says_which_array_made_floats_wider(body: str, place: str) -> None:
    (line,) = lines_below(f"def f({X}):\n    {body}\n", W=np.ones(3))
    assert f"`{place}` is f64, and so is what is computed of it and of f32" in line
    assert f"write {place}.astype(f32)" in line


@pytest.mark.parametrize(
    "source",
    [
        f"def f({X}, y: Tensor[(3,), f64]):\n    return x * y\n",
        f"def f({X}):\n    return x * x.astype(f64)\n",
        f"def f({X}):\n    return x * np.zeros(3, f64)\n",
        f"def f({X}):\n    return x * np.zeros(3, x.dtype) * 0.5 * scale\n",
        f"def f({X}):\n    return x * np.arange(3)\n",
        f"def f({X}):\n    y = x.copy()\n    y += np.ones(3)\n    y[0] = np.zeros(3)\n    return y\n",
        f"def f({X}):\n    y = np.zeros(3)\n    y[:] = x[0]\n    return y\n",
    ],
)
def test_what_the_cell_says_needs_no_line(source: str) -> None:
    assert lines_below(source, scale=0.1) == []


def test_integers_that_meet_in_floats_are_told() -> None:
    (line,) = lines_below("def f(a: Tensor[(3,), u64], b: Tensor[(3,), i64]):\n    return a + b\n")
    assert "u64 and i64 meet in f64, as in NumPy" in line


# -- joins, loops and functions --------------------------------------------------------------------------

JOINS = {
    "if": "    if k > 0:\n        y = a\n    else:\n        y = b\n    return y * 2\n",
    "if expression": "    return (a if k > 0 else b) + 1\n",
    "return": "    if k > 0:\n        return a\n    return b\n",
    "rounds": "    y = a\n    for _ in range(k):\n        y = y * b\n    return y\n",
    "while": "    y, i = a, 0\n    while i < k:\n        y, i = y + b, i + 1\n    return y\n",
    "known rounds": "    y = a\n    for _ in range(50):\n        y = y * 0.5 + b\n    return y\n",
    "list": "    rows = [a]\n    for i in range(40):\n        rows.append(b * i)\n    return rows[-1]\n",
}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("engine", ["numpy", pytest.param("relax", marks=pytest.mark.full)])
def test_floats_meet_where_branches_and_rounds_do(name: str, engine: str) -> None:
    source = f"def f(k: i64, a: Tensor[(3,), f32], b: Tensor[(3,), f64]):\n{JOINS[name]}"
    names: dict[str, object] = {"np": np}
    exec(source.replace("k: i64, a: Tensor[(3,), f32], b: Tensor[(3,), f64]", "k, a, b"), names)
    a, b = np.float32([0.1, 0.2, 0.3]), np.array([1.1, 1.2, 1.3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TinyNNWarning)
        f = nnmagic.compile(source, namespace={"np": np}, engine=engine)
    for k in (0, 1, 2):
        result = f(k, a, b)
        assert result.dtype == np.float64
        np.testing.assert_allclose(result, names["f"](k, a, b), rtol=1e-7)


def test_the_line_of_a_join_names_both_dtypes() -> None:
    source = f"def f(k: i64, a: Tensor[(3,), f32], b: Tensor[(3,), f64]):\n{JOINS['if']}"
    (line,) = lines_below(source)
    assert "this f32 becomes f64, as the name is in another branch or round" in line


def test_a_declared_type_is_kept() -> None:
    source = (
        "def g(x: Tensor[(3,), f32]):\n    return x * 2\n\ndef f(y: Tensor[(3,), f64]):\n    return g(y)\n"
    )
    with pytest.raises(TinyNNError, match=r"`x` is a Tensor\[\(3,\), f32\], not a Tensor\[\(3,\), f64\]"):
        nnmagic.compile(source)
    source = "def f(x: Tensor[(3,), f32], y: Tensor[(3,), f64]) -> Tensor[(3,), f32]:\n    return x + y\n"
    with pytest.raises(TinyNNError, match="f32"):
        nnmagic.compile(source)


def test_gradients_have_the_dtypes_of_their_parameters() -> None:
    source = (
        "def loss(w: Tensor[(3,), f32], x: Tensor[(3,), f64]):\n    return (w * x).sum()\n\n"
        "def f(w: Tensor[(3,), f32], x: Tensor[(3,), f64]):\n    return grad(loss, argnums=(0, 1))(w, x)\n\n"
        'def g(w: Tensor[("n", 3), f32], x: Tensor[(3,), f64]):\n'
        "    return vmap(loss, in_axes=(0, None))(w, x)\n\n"
        "def both(w: Tensor[(3,), f32], x: Tensor[(3,), f64]):\n"
        "    return f(w, x), g(np.stack([w, w]), x)\n"
    )
    w, x = np.float32([0.1, 0.2, 0.3]), np.array([1.1, 1.2, 1.3])
    (of_w, of_x), each = nnmagic.compile(source, namespace={"np": np}, engine="numpy")(w, x)
    assert (of_w.dtype, of_x.dtype, each.dtype) == (np.float32, np.float64, np.float64)
    np.testing.assert_allclose(of_w, x, rtol=1e-6)
    np.testing.assert_allclose(of_x, w, rtol=1e-7)
    np.testing.assert_allclose(each, [(w * x).sum()] * 2)


def test_a_number_of_python_takes_the_dtype_of_an_array() -> None:
    f = nnmagic.compile("def f(logits, temperature):\n    return logits / temperature\n", engine="numpy")
    for number in (0.7, 2):
        result = f(np.float32([1, 2]), number)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, np.float32([1, 2]) / number, rtol=1e-6)
    assert f(np.float32([1, 2]), np.array([0.7])).dtype == np.float64
