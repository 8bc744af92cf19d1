"""Activations that are written with operators, against NumPy's formulas."""

import math

import numpy as np
import pytest

from nnmagic.engine.numpy import Interpreter
from nnmagic.relay.expr import Function, constant
from nnmagic.relay.functions import activations
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.tensor_expr import TensorExpr

X = np.array([-800, -3, -1.5, -0.0, 0, 1e-9, 0.25, 3, 40, 800, np.nan])


def _gelu(x):
    return x * (1 + np.vectorize(math.erf)(x / np.sqrt(2))) / 2


def _gelu_by_tanh(x):
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "twin"),
    [
        (activations.gelu, _gelu),
        (lambda x: activations.gelu(x, "tanh"), _gelu_by_tanh),
        (lambda x: activations.elu(x, 1.5, 0.5), lambda x: np.where(x < 0, 1.5 * np.expm1(x / 2), x)),
        (activations.swish, lambda x: x / (1 + np.exp(-x))),
        (lambda x: activations.swish(x, 1.7), lambda x: x / (1 + np.exp(-1.7 * x))),
        (activations.mish, lambda x: x * np.tanh(np.logaddexp(x, 0))),
        (activations.softsign, lambda x: x / (1 + np.abs(x))),
        (lambda x: activations.limit(x, -1, 2), lambda x: np.clip(x, -1, 2)),
        (activations.hard_swish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    ],
)
def test_an_activation_gives_what_its_formula_gives(function, twin, dtype):
    expr = function(TensorExpr(constant(X.astype(dtype)), dtype)).expr
    found = Interpreter(infer_type(Module({"main": Function((), expr)}))).run("main", [])
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = twin(X)
    epsilon = 8 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(found, wanted, rtol=epsilon, atol=epsilon)
    assert found.dtype == dtype
