"""Functions that are written with operators, against NumPy's."""

import numpy as np
import pytest

from nnmagic.engine.numpy import Interpreter
from nnmagic.relay.expr import Function, constant
from nnmagic.relay.functions import special
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.tensor_expr import TensorExpr

X = np.array([-np.inf, -800, -30, -1.5, -0.0, 0, 1e-9, 0.25, 3, 40, 800, np.inf, np.nan])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("function", "twin"),
    [(special.softplus, lambda x: np.logaddexp(x, x.dtype.type(0))), (special.rint, np.rint)],
)
def test_a_function_gives_what_numpys_gives(function, twin, dtype):
    x = X.astype(dtype)
    expr = function(TensorExpr(constant(x), dtype)).expr
    found = Interpreter(infer_type(Module({"main": Function((), expr)}))).run("main", [])
    with np.errstate(invalid="ignore"):
        wanted = twin(x)
    np.testing.assert_allclose(found, wanted, rtol=4 * float(np.finfo(dtype).eps))
    assert found.dtype == dtype
