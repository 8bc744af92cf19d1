"""Whole networks, compiled and interpreted: real Relay's outputs for the same weights are the judge."""

import json

import numpy as np
import pytest

import nnmagic
from tests.relay.corpus import FOLDER, models


def draw_weights(index, name, shape, scale):
    """The weights for which real Relay was measured, by the parameter's index, name and shape."""
    generator = np.random.default_rng(1000 + index)
    if "var" in name or "gamma" in name:
        return generator.uniform(0.5, 1.5, shape).astype("float32")
    values = generator.standard_normal(shape)
    if name == "data":
        return values.astype("float32")
    fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 0
    return (values * ((scale / fan_in) ** 0.5 if fan_in else 0.1)).astype("float32")


@pytest.mark.full
@pytest.mark.parametrize("engine", ["relax", "numpy"])
@pytest.mark.parametrize("name", models())
def test_a_model_computes_what_real_relay_computed(name, engine):
    module = nnmagic.relay.parse(models()[name])
    compiled = nnmagic.compile(module, engine=engine)
    scale = 0.3 if name == "resnet18" else 2.0
    params = module.functions["main"].params
    arguments = [draw_weights(i, p.name_hint, p.type_annotation.shape, scale) for i, p in enumerate(params)]
    result = compiled(*arguments)
    results = result if isinstance(result, tuple) else (result,)
    expected = json.loads((FOLDER / "models" / f"{name}.expected.json").read_text())
    assert len(results) == len(expected)
    for actual, record in zip(results, expected, strict=True):
        assert (list(actual.shape), str(actual.dtype)) == (record["shape"], record["dtype"])
        np.testing.assert_allclose(actual.ravel()[:512], record["first"], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(np.abs(actual.astype("float64")).sum(), record["abs_sum"], rtol=1e-4)
