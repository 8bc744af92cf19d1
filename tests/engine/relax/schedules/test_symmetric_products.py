"""A matrix times its own transpose, of which half is computed, against NumPy in float64."""

import numpy as np
import pytest

import nnmagic

#: Around tiles, panels and the blocks that are copied; inner dimensions of one block and of several.
SIZES = [(1, 1), (16, 2000), (63, 1025), (97, 300), (129, 2500), (200, 40), (257, 700)]
PRODUCTS = {"rows": "x @ x.T", "columns": "x.T @ x"}
SYMMETRIC = {"alone": "{}", "scaled": "{} / (c - 1) + 2", "longer": "np.sqrt(np.exp(np.sin({})))"}
OTHERS = {"a row": "{} + b", "a matrix": "{} * np.outer(b, 1 - b)"}


def check(parameters: str, product: str, epilogue: str, x: np.ndarray, dtype: str) -> np.ndarray:
    """Compare a function with NumPy; b has as many elements as the result has columns, c is a number."""
    expression = epilogue.format(f"({product})")
    length = len(x) if product.startswith("x @") else x.shape[1]
    b, c = np.linspace(0, 1, length, dtype=x.dtype), x.dtype.type(7)
    size = '"k"' if '"n"' in parameters else length
    typed = f"def f({parameters}, b: Tensor[({size},), {dtype}], c: {dtype}):\n    return {expression}\n"
    found = nnmagic.compile(typed, namespace={"np": np}, cache=False)(x, b, c)
    exact = {"np": np, "x": x.astype("float64"), "b": b.astype("float64"), "c": float(c)}
    wanted = eval(expression, exact)
    tolerance = 1e-4 if dtype == "f32" else 1e-11
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    return found


@pytest.mark.full
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
@pytest.mark.parametrize("is_named", [False, True], ids=["known", "named"])
def test_every_size(size, product, is_named):
    rows, inner = size
    shape = (rows, inner) if product.startswith("x @") else (inner, rows)
    x = np.random.default_rng(rows).standard_normal(shape) / inner**0.5
    for dtype, epilogue in (("f64", "{}"), ("f32", "{} * c")):
        parameters = f'x: Tensor[("n", "m"), {dtype}]' if is_named else f"x: Tensor[{shape}, {dtype}]"
        values = x.astype({"f32": "float32", "f64": "float64"}[dtype])
        check(parameters, product, epilogue, values, dtype)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
@pytest.mark.parametrize("epilogue", [*SYMMETRIC.values(), *OTHERS.values()], ids=[*SYMMETRIC, *OTHERS])
def test_what_follows_a_symmetric_product(product, epilogue):
    x = np.random.default_rng(0).standard_normal((300, 300)) / 300**0.5
    found = check("x: Tensor[(300, 300), f64]", product, epilogue, x, "f64")
    assert np.array_equal(found, found.T) == (epilogue in SYMMETRIC.values())


def test_a_batch_of_symmetric_products():
    x = np.random.default_rng(0).standard_normal((3, 150, 400))
    function = nnmagic.compile(
        "def f(x: Tensor[(3, 150, 400), f64]):\n    return x @ x.transpose(0, 2, 1)\n", cache=False
    )
    np.testing.assert_allclose(function(x), x @ x.transpose(0, 2, 1), rtol=1e-10, atol=1e-10)


def test_other_rows_of_the_same_array_are_no_symmetric_product():
    x = np.random.default_rng(0).standard_normal((301, 400))
    function = nnmagic.compile(
        "def f(x: Tensor[(301, 400), f64]):\n    return x[:300] @ x[1:].T\n", cache=False
    )
    np.testing.assert_allclose(function(x), x[:300] @ x[1:].T, rtol=1e-10, atol=1e-10)


@pytest.mark.full
def test_covariances():
    x = np.random.default_rng(0).standard_normal((200, 3000))
    function = nnmagic.compile(
        'def f(x: Tensor[("n", "m"), f64]):\n    return np.cov(x), np.corrcoef(x)\n',
        namespace={"np": np},
        cache=False,
    )
    for found, wanted in zip(function(x), (np.cov(x), np.corrcoef(x)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
