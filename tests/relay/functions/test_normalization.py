"""Normalizations that are written with operators, against NumPy's formulas."""

import numpy as np
import pytest

from nnmagic.engine.numpy import Interpreter
from nnmagic.relay.expr import Function, constant
from nnmagic.relay.functions import normalization
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.tensor_expr import TensorExpr

DATA = np.random.default_rng(0).normal(2, 3, (2, 3, 4))
WEIGHT, BIAS = np.array([1.0, -2.0, 0.5]), np.array([0.0, 1.0, 3.0])


def evaluate(tensor):
    """Compute an expression with NumPy."""
    return Interpreter(infer_type(Module({"main": Function((), tensor.expr)}))).run("main", [])


def tensor(array):
    """Return an array as a tensor to write expressions with."""
    return TensorExpr(constant(array), "float64")


@pytest.mark.parametrize("axes", [[2], [0, 2]])
def test_data_are_standardized_along_axes(axes):
    parts = normalization.standardize(tensor(DATA), axes, 0.25)
    mean = DATA.mean(tuple(axes), keepdims=True)
    variance = DATA.var(tuple(axes), keepdims=True)
    inverse = 1 / np.sqrt(variance + 0.25)
    for part, wanted in zip(parts, [(DATA - mean) * inverse, mean, variance, inverse], strict=True):
        np.testing.assert_allclose(evaluate(part), wanted)


def test_data_are_divided_by_their_root_mean_square():
    found = evaluate(normalization.rms_norm(tensor(DATA), [1], 0.25))
    np.testing.assert_allclose(found, DATA / np.sqrt((DATA**2).mean(1, keepdims=True) + 0.25))


@pytest.mark.parametrize(("weight", "bias"), [(WEIGHT, BIAS), (WEIGHT, None), (None, BIAS), (None, None)])
def test_channels_have_a_weight_and_a_bias(weight, bias):
    vectors = [
        None if vector is None else normalization.per_channel(tensor(vector), 3) for vector in (weight, bias)
    ]
    found = evaluate(normalization.scale_and_shift(tensor(DATA), *vectors))
    scale = 1 if weight is None else weight.reshape(3, 1)
    shift = 0 if bias is None else bias.reshape(3, 1)
    np.testing.assert_allclose(found, DATA * scale + shift)
