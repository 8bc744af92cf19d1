"""Matrices times vectors, and what follows a product: NumPy is the judge."""

import numpy as np
import pytest

from nnmagic import compile as compile_source

pytestmark = pytest.mark.sampled(every=3)

SIZES = (0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 33, 64, 150)
NAMES = {"float32": "f32", "float64": "f64", "int32": "i32"}

#: The text of a product of a matrix with ``n`` columns and a vector; which dimension the vector has.
PRODUCTS = {"x @ v": "k", "x.T @ v": "m", "v @ x": "m", "v @ x.T": "k", "einsum('ij,j->i', x, v)": "k"}


def numbers(shape, dtype):
    return np.random.default_rng(sum(shape)).integers(-9, 10, shape).astype(dtype)


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("text", PRODUCTS)
def test_every_orientation_of_named_sizes(text, dtype):
    source = (
        f'def f(x: Tensor[("m", "k"), {NAMES[dtype]}], v: Tensor[("{PRODUCTS[text]}",), {NAMES[dtype]}]):'
    )
    compiled = compile_source(f"{source}\n    return {text}\n", cache=False)
    for rows in SIZES:
        for columns in SIZES[::2]:
            x = numbers((rows, columns), dtype)
            v = numbers((columns if PRODUCTS[text] == "k" else rows,), dtype)
            expected = eval(text, {"x": x, "v": v, "einsum": np.einsum})
            np.testing.assert_array_equal(compiled(x, v), expected, err_msg=f"{x.shape}")


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (5, 7), (17, 33), (130, 64), (33, 513)])
@pytest.mark.parametrize("text", PRODUCTS)
def test_every_orientation_of_known_sizes(text, shape):
    x = numbers(shape, "float32")
    v = numbers((shape[1] if PRODUCTS[text] == "k" else shape[0],), "float32")
    parameters = f"x: Tensor[{shape}, f32], v: Tensor[({len(v)},), f32]"
    compiled = compile_source(f"def f({parameters}):\n    return {text} + 1.0\n", cache=False)
    expected = eval(text, {"x": x, "v": v, "einsum": np.einsum}) + 1
    np.testing.assert_array_equal(compiled(x, v), expected)


@pytest.mark.full('"n"')
@pytest.mark.parametrize("size", ["64", '"n"'])
def test_a_computed_scalar_after_a_product(size):
    """It was computed anew for each element, by loops that were not scheduled."""
    source = (
        f"def f(x: Tensor[({size}, {size}), f64], s: Tensor[(3,), f64]):\n    return x.T @ x / (s[0] - 1.0)\n"
    )
    x, s = np.random.default_rng(0).standard_normal((64, 64)), np.array([3.0, 1.0, 2.0])
    compiled = compile_source(source, cache=False)
    np.testing.assert_allclose(compiled(x, s), x.T @ x / 2, rtol=1e-10, atol=1e-10)
    assert (
        "sblock" not in compiled.stages["tir"].partition("def fused_nn_matmul")[2].partition("prim_func")[0]
    )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["any", "all", "sum", "count_nonzero"])
def test_reductions_of_truth_values(name, axis):
    source = f'def f(x: Tensor[("m", "k"), bool_]):\n    return {name}(x, axis={axis})\n'
    compiled = compile_source(source, cache=False)
    generator = np.random.default_rng(axis)
    for rows in (0, 1, 2, 63, 64, 65, 300):
        for columns in (0, 1, 3, 64, 129):
            for share in (0.02, 0.98):
                x = generator.random((rows, columns)) < share
                np.testing.assert_array_equal(compiled(x), getattr(np, name)(x, axis=axis))
