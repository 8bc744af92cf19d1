"""What reductions, means, variances and softmax read is computed in their loops; slices are not copied."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import nnmagic

pytestmark = pytest.mark.sampled(every=12)

X = np.random.default_rng(0).standard_normal((33, 50)).astype("float32")
Y = X[::-1] + np.float32(3)
B = X[0].copy()

KNOWN, NAMED = "33, 50", '"n", "m"'


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def compiled(text: str, sizes: str, dtype: str = "f32") -> Any:
    columns = sizes.split(", ")[1]
    parameters = (
        f"x: Tensor[({sizes}), {dtype}], y: Tensor[({sizes}), {dtype}], b: Tensor[({columns},), {dtype}]"
    )
    return nnmagic.compile(f"def function({parameters}):\n    return {text}\n", namespace={})


def kernels_of(function: Any) -> list[str]:
    return re.findall(r"def (\w+)[(\[]", function.stages["tir"])


def check(text: str, function: Any, **tolerance: float) -> None:
    names = {**vars(np), "softmax": softmax, "x": X, "y": Y, "b": B}
    expected = eval(text.replace("nn.softmax", "softmax"), names)
    np.testing.assert_allclose(function(X, Y, B), expected, **{"rtol": 2e-5, "atol": 2e-5, **tolerance})


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
@pytest.mark.parametrize(
    "text",
    [
        "mean((x - y) ** 2)",
        "mean(x * y, axis=0)",
        "mean(exp(x) * b, axis=1)",
        "mean(where(x > 0, x, y), axis=1)",
        "var(x * y)",
        "var(abs(x) + y, axis=0)",
        "var(tanh(x) * y, axis=1)",
        "nn.softmax(x * 0.125)",
        "nn.softmax(x * y + b)",
        "sum(x[:, 1:] * 2.0, axis=1)",
        "sum(x[:, 1:], axis=1)",
        "mean(x[2:, 3:], axis=0)",
        "max(x[::2, :7], axis=0)",
        "var(x[:, 1:49], axis=1)",
    ],
)
def test_the_operand_of_a_reduction_is_no_array(text: str, sizes: str) -> None:
    function = compiled(text, sizes)
    check(text, function)
    assert len(kernels_of(function)) == 1


@pytest.mark.sampled(every=12)
@pytest.mark.full('mean((x @ y.T - 1.0) ** 2)-"n", "m"', 'nn.softmax(x @ x.T + 0.5) * 2.0-"n", "m"')
@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
@pytest.mark.parametrize(
    "text",
    [
        "x - x.mean(axis=1, keepdims=True)",
        "x * y - (x * y).mean(axis=1, keepdims=True)",
        "(x * y).mean(axis=1) + x.mean(axis=1)",
        "(x * y).mean(axis=1) + (x + y).mean(axis=1)",
        "(x * y).mean() + (x * y).sum()",
        "x / sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)",
        "nn.softmax(x * y) * y",
        "nn.softmax(x - x.mean(axis=1, keepdims=True))",
        "nn.softmax(x @ x.T + 0.5) * 2.0",
        "mean((x @ y.T - 1.0) ** 2)",
        "std(x[:, ::-1], axis=1)",
        "mean(x[::-1, ::3], axis=0)",
        "mean(x[:, 7:7].sum(axis=1))",
    ],
)
def test_other_company_of_reductions(text: str, sizes: str) -> None:
    check(text, compiled(text, sizes), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("text", ["nn.softmax(x @ x.T + 0.5) * 2.0", "nn.softmax(nn.relu(x @ x.T) * 0.5)"])
def test_what_follows_a_product_stays_with_it(text: str) -> None:
    assert len(kernels_of(compiled(text, KNOWN))) == 2


@pytest.mark.parametrize("text", ["sum(x[1:], axis=1)", "argmax(x[2:9], axis=0)", "cumsum(x[1:], axis=0)"])
def test_rows_are_read_where_they_are(text: str) -> None:
    function = compiled(text, KNOWN)
    check(text, function)
    assert not any("slice" in name for name in kernels_of(function))


@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
def test_a_copy_of_rows_keeps_what_they_were(sizes: str) -> None:
    source = f"""
def function(x: InOut[Tensor[({sizes}), f32]]):
    rows = x[1:].copy()
    x += 1.0
    x[3] = 7.0
    return rows, rows.sum(axis=0), rows[2:4].mean(axis=1)
"""
    function = nnmagic.compile(source, namespace={})
    x = X.copy()
    rows, sums, means = function(x)
    np.testing.assert_array_equal(rows, X[1:])
    np.testing.assert_allclose(sums, X[1:].sum(axis=0), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(means, X[3:5].mean(axis=1), rtol=1e-4, atol=1e-5)
    changed = X + np.float32(1)
    changed[3] = 7
    np.testing.assert_array_equal(x, changed)


CHANGES = ["x[3] = 0.0", "x[2:9] = 1.0", "x[3, 1] = -100.0", "x[:, 2] = 5.0", "x += 1.0", "x[...] = 2.0"]


@pytest.mark.sampled(every=6)
@pytest.mark.full(
    'x[:, 2] = 5.0-"n", "m"',
    'x += 1.0-"n", "m"',
    'x[2:9] = 1.0-"n", "m"',
    'x[...] = 2.0-"n", "m"',
    'x[3] = 0.0-"n", "m"',
    'x[3, 1] = -100.0-"n", "m"',
)
@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_rows_keep_what_they_were(change: str, sizes: str) -> None:
    """The second slice, too, lies in the memory that the change is made in."""
    body = f"""
    a = x[1:].copy()
    b = a[1:].copy()
    c = b[1:].copy()
    sums = a.sum() + b.sum() + c.sum()
    {change}
    return a.sum(axis=0), b.sum(axis=0), c.sum(axis=0), sums
"""
    function = nnmagic.compile(f"def function(x: InOut[Tensor[({sizes}), f32]]):{body}", namespace={})
    x, y = X.copy(), X.copy()
    exec(change, {"x": y})
    for found, count in zip(function(x), (1, 2, 3), strict=False):
        np.testing.assert_allclose(found, X[count:].sum(axis=0), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(x, y)


@pytest.mark.sampled(every=9)
@pytest.mark.full('x[3, 1] = -100.0-"n", "m"', 'x[:, 2] = 5.0-"n", "m"', 'x[3] = 0.0-"n", "m"')
@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_rows_that_were_read_before_keep_what_they_were(change: str, sizes: str) -> None:
    body = f"""
    a = x[1:].copy()
    b = a[1:].copy()
    one, other = a.sum(axis=1), b.sum(axis=1)
    {change}
    return b.sum(axis=0), one, other
"""
    function = nnmagic.compile(f"def function(x: InOut[Tensor[({sizes}), f32]]):{body}", namespace={})
    wanted = X[2:].sum(axis=0), X[1:].sum(axis=1), X[2:].sum(axis=1)
    for found, expected in zip(function(X.copy()), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.full(
    'x += 1.0-"n", "m"',
    'x[3, 1] = -100.0-"n", "m"',
    'x[...] = 2.0-"n", "m"',
    'x[3] = 0.0-"n", "m"',
    'x[2:9] = 1.0-"n", "m"',
    'x[:, 2] = 5.0-"n", "m"',
)
@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_rows_keep_what_they_were_in_a_loop(change: str, sizes: str) -> None:
    body = f"""
    x = x * 2.0
    total = zeros_like(x[3])
    for i in range(3):
        a = x[1:].copy()
        sums = a.sum(axis=1)
        b = a[1:].copy()
        means = b.mean()
        {change}
        total = total + b.sum(axis=0) + means + sums[0]
    return total
"""
    function = nnmagic.compile(f"def function(x: Tensor[({sizes}), f32]):{body}", namespace={})
    names: dict[str, Any] = {**vars(np)}
    exec(f"def function(x):{body}", names)
    np.testing.assert_allclose(function(X), names["function"](X), rtol=1e-4, atol=1e-3)


@pytest.mark.sampled(every=16)
@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"]
)
@pytest.mark.parametrize(
    "text", ["mean(x)", "mean(x, axis=0)", "mean(x, axis=1)", "var(x)", "std(x, axis=1)"]
)
def test_means_of_integers(text: str, dtype: str, sizes: str) -> None:
    """In float64, as NumPy's."""
    names = {"int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "bool": "bool_"}
    short = names.get(dtype, dtype.replace("uint", "u"))
    x = (Y * 20).astype(dtype)
    source = f"def function(x: Tensor[({sizes}), {short}]):\n    return {text}\n"
    found = nnmagic.compile(source, namespace={})(x)
    assert found.dtype == "float64"
    np.testing.assert_allclose(found, eval(text, {**vars(np), "x": x}), rtol=1e-13)


@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
@pytest.mark.parametrize("text", ["max(x)", "min(x)", "max(x, axis=0)", "min(x, axis=1)"])
def test_extremes_of_truth_values(text: str, sizes: str) -> None:
    function = nnmagic.compile(
        f"def function(x: Tensor[({sizes}), bool_]):\n    return {text}\n", namespace={}
    )
    one = np.zeros((33, 50), bool)
    one[32, 49] = True
    for x in (X > 0, one, ~one, one & False, one | True):
        found = function(x)
        assert found.dtype == bool
        np.testing.assert_array_equal(found, eval(text, {**vars(np), "x": x}))


@pytest.mark.parametrize("sizes", [KNOWN, NAMED])
@pytest.mark.parametrize("text", ["argmax(x)", "argmin(x, axis=0)", "argmax(x, axis=1)"])
def test_places_of_truth_values(text: str, sizes: str) -> None:
    function = nnmagic.compile(
        f"def function(x: Tensor[({sizes}), bool_]):\n    return {text}\n", namespace={}
    )
    for x in (X > 0, X > 1.5, X > 9, X < 9):
        np.testing.assert_array_equal(function(x), eval(text, {**vars(np), "x": x}))
