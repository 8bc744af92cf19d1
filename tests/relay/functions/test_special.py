"""Functions that are written with operators, against NumPy's."""

import numpy as np
import pytest

from nnmagic.engine.numpy import Interpreter
from nnmagic.relay.expr import Function, constant
from nnmagic.relay.functions import special
from nnmagic.relay.functions.normal_distribution import erfcx
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.tensor_expr import TensorExpr

X = np.array([-np.inf, -800, -30, -1.5, -0.0, 0, 1e-9, 0.25, 3, 40, 800, np.inf, np.nan])


def _exp_erfc(x: np.ndarray) -> np.ndarray:
    return x.dtype.type(1) * pytest.importorskip("scipy.special").erfcx(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "twin"),
    [
        (special.softplus, lambda x: np.logaddexp(x, x.dtype.type(0))),
        (special.rint, np.rint),
        (erfcx, _exp_erfc),
    ],
)
def test_a_function_gives_what_numpys_gives(function, twin, dtype):
    x = X.astype(dtype)
    expr = function(TensorExpr(constant(x), dtype)).expr
    found = Interpreter(infer_type(Module({"main": Function((), expr)}))).run("main", [])
    with np.errstate(invalid="ignore"):
        wanted = twin(x)
    np.testing.assert_allclose(found, wanted, rtol=16 * float(np.finfo(dtype).eps))
    assert found.dtype == dtype


def compute(tensor):
    """Compute an expression with NumPy."""
    return Interpreter(infer_type(Module({"main": Function((), tensor.expr)}))).run("main", [])


@pytest.mark.parametrize("decimals", [-2, 0, 3])
def test_floats_are_rounded_to_decimals(decimals):
    x = np.array([-1250.0, -2.5, -0.0, 0.0005, 1.2345, 149.9999, np.inf, np.nan])
    found = compute(special.round_decimals(TensorExpr(constant(x), "float64"), decimals))
    np.testing.assert_array_equal(found, np.round(x, decimals))


@pytest.mark.parametrize(("name", "twin"), [("maximum", np.fmax), ("minimum", np.fmin)])
def test_an_extreme_ignores_nan(name, twin):
    x, y = np.meshgrid([np.nan, -1.0, 2.0], [np.nan, 0.5, 3.0])
    found = compute(special.ignoring_nan(name, *(TensorExpr(constant(each), "float64") for each in (x, y))))
    np.testing.assert_array_equal(found, twin(x, y))


@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp_neither_overflows_nor_loses_infinities(keepdims):
    x = np.array(
        [[1.0, 2.0, 3.0], [800, 800, -800], [-np.inf] * 3, [np.inf, 0, -np.inf], [np.nan, 1, np.inf]]
    )
    found = compute(special.logsumexp(TensorExpr(constant(x), "float64"), [1], keepdims=keepdims))
    with np.errstate(invalid="ignore"):
        wanted = np.logaddexp.reduce(x, axis=1, keepdims=keepdims)
    np.testing.assert_allclose(found, wanted)
