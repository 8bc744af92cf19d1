"""Buffers of a kernel that could take each other's memory, in loops that compute some elements twice."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, tirx, topi

from nnmagic.engine.relax.codegen.target import resolve_target
from nnmagic.engine.relax.schedules import apply_schedule, cpu_model

pytestmark = pytest.mark.sampled(every=3)


def ran(tensors, x):
    """What a kernel of these tensors (argument, result) gives, with our loops for this machine."""
    target = resolve_target(None, 3)
    function = te.create_prim_func(list(tensors)).with_attr("global_symbol", "main")
    fast = apply_schedule(function, cpu_model(target))
    assert not tvm_ffi.structural_equal(fast, function)
    result = tvm.runtime.tensor(np.zeros_like(x))
    module = tvm.IRModule({"main": fast.with_attr("global_symbol", "main")})
    with tvm.transform.PassContext(config={"tirx.disable_storage_rewrite": True}):
        tvm.compile(module, target)["main"](tvm.runtime.tensor(x), result)
    return result.numpy()


def sizes(shape):
    return [tirx.IntImm("int64", size) for size in shape]


def rows(shape, dtype, axis):
    """Exponentials of exponentials, between reductions that wait for one another."""

    def along(tensor, index):
        return tensor(*(0 if dim == axis else each for dim, each in enumerate(index)))

    x = te.placeholder(sizes(shape), dtype, name="x")
    first = topi.exp(x)
    total = topi.sum(first, axis, keepdims=True)
    second = te.compute(x.shape, lambda *i: tirx.exp(first(*i) / along(total, i)))
    largest = topi.max(x, axis, keepdims=True)
    product = te.compute(x.shape, lambda *i: second(*i) * along(largest, i))
    sums = topi.sum(product, axis, keepdims=True)
    return x, te.compute(x.shape, lambda *i: second(*i) - along(sums, i))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(20, 12), (20, 35), (40, 9), (5, 1003), (20, 3, 4)], ids=str)
def test_rows_whose_columns_fill_no_vectors(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype) * 2
    for axis in range(len(shape)):
        first = np.exp(x.astype("f8"))
        second = np.exp(first / first.sum(axis, keepdims=True))
        expected = second - (second * x.max(axis, keepdims=True)).sum(axis, keepdims=True)
        np.testing.assert_allclose(ran(rows(shape, dtype, axis), x), expected, rtol=1e-4, atol=1e-4)


def elements(size, dtype):
    """Two functions of a costly one, one of them across it."""

    def function(of):
        return te.compute(x.shape, of)

    x = te.placeholder(sizes((size, size)), dtype, name="x")
    costly = function(lambda i, j: tirx.exp(tirx.tanh(tirx.exp(tirx.tanh(x[i, j])))))
    across = function(lambda i, j: tirx.exp(-costly[j, i]) + costly[i, j])
    plain = function(lambda i, j: tirx.exp(costly[i, j] * -2))
    return x, function(lambda i, j: across[i, j] * plain[j, i] + plain[i, j] + across[j, i])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [3, 9, 20, 35, 70])
def test_elements_that_fill_no_vectors(size, dtype):
    x = np.random.default_rng(0).standard_normal((size, size)).astype(dtype)
    costly = np.exp(np.tanh(np.exp(np.tanh(x.astype("f8")))))
    across, plain = np.exp(-costly.T) + costly, np.exp(costly * -2)
    expected = across * plain.T + plain + across.T
    np.testing.assert_allclose(ran(elements(size, dtype), x), expected, rtol=1e-4)
