"""Python's operators on tensors under construction compute what they compute on NumPy's arrays."""

import operator

import numpy as np
import pytest

from nnmagic.engine.numpy import Interpreter
from nnmagic.relay.expr import Function, constant
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.tensor_expr import TensorExpr

X, Y = np.array([[1.5, -2.0], [3.0, 0.25]], "float32"), np.array([2.0, 0.25], "float32")


def tensor(array):
    return TensorExpr(constant(array), array.dtype.name)


def value(expr):
    module = infer_type(Module({"main": Function((), expr.expr)}))
    return Interpreter(module).run("main", [])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "lt", "le", "gt", "ge"])
def test_binary_operators(name):
    compute = getattr(operator, name)
    np.testing.assert_allclose(value(compute(tensor(X), tensor(Y))), compute(X, Y), rtol=1e-6)
    np.testing.assert_allclose(value(compute(tensor(X), 2)), compute(X, np.float32(2)), rtol=1e-6)
    assert compute(tensor(X), 2).dtype == compute(X, X).dtype.name


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv"])
def test_a_number_on_the_left(name):
    compute = getattr(operator, name)
    np.testing.assert_allclose(value(compute(3, tensor(X))), compute(np.float32(3), X), rtol=1e-6)


def test_conditions():
    above, below = tensor(X) > 0, tensor(X) < 2
    np.testing.assert_array_equal(value((above & below) | ~above), ((X > 0) & (X < 2)) | ~(X > 0))
    chosen = above.choose(tensor(X), -1)
    assert chosen.dtype == "float32"
    np.testing.assert_array_equal(value(chosen), np.where(X > 0, X, -1))
    np.testing.assert_array_equal(value(tensor(X).equal(3)), X == 3)
    np.testing.assert_array_equal(value(tensor(X).differs(tensor(Y))), X != Y)


def test_functions():
    x = tensor(X)
    np.testing.assert_array_equal(value((-x).abs().maximum(1).minimum(2)), np.clip(abs(X), 1, 2))
    np.testing.assert_array_equal(value(x.transpose([1, 0]).shaped([4])), X.T.reshape(4))
    np.testing.assert_array_equal(value(x.sum([0], keepdims=True)), X.sum(0, keepdims=True))
    assert x.cast("float32") is x
    narrow = tensor(np.full(4096, 1, "float16")).sum()
    assert (value(narrow), narrow.dtype) == (4096, "float16")
