"""The rule of each operator, against differences of its own values in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic import relay
from nnmagic.relay.gradients.program import reverse
from nnmagic.relay.gradients.rules import EXPANSIONS, REFUSED, RULES, ZERO
from nnmagic.relay.gradients.transformation import with_types
from tests.relay.gradients.operator_cases import CASES, Numbers, Parts

STEP = 1e-5


def numbers(spec: Any, rng: np.random.Generator) -> np.ndarray:
    if isinstance(spec, np.ndarray):
        return spec
    spec = spec if isinstance(spec, Numbers) else Numbers(spec)
    if spec.apart:
        count = int(np.prod(spec.shape))
        return rng.permutation(np.linspace(spec.low, spec.high, count)).reshape(spec.shape)
    return rng.uniform(spec.low, spec.high, spec.shape)


def program(name: str, specs: list[Any], attrs: dict[str, Any], rng: np.random.Generator) -> Any:
    """Return a function of the floats among the arguments, and these."""
    params: list[relay.Var] = []
    values: list[np.ndarray] = []

    def argument(spec: Any) -> relay.Expr:
        if isinstance(spec, Parts):
            return relay.Tuple(tuple(map(argument, spec.items)))
        value = numbers(spec, rng)
        if isinstance(spec, np.ndarray):
            return relay.constant(value, str(value.dtype))
        params.append(relay.Var(f"a{len(params)}", relay.TensorType(value.shape, "float64")))
        values.append(value)
        return params[-1]

    call = relay.call(name, [argument(spec) for spec in specs], **attrs)
    return relay.Function(tuple(params), call), values


def leaves(value: Any) -> list[np.ndarray]:
    return [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{name}" for i, (name, _, _) in enumerate(CASES)])
def test_the_rule_of_an_operator(case: Any) -> None:
    name, specs, attrs = case
    rng = np.random.default_rng(len(name) + len(specs))
    function, values = program(name, specs, attrs, rng)
    module = with_types(relay.Module({"f": function}))
    made = reverse(module, "f", range(len(values)), {"f"}, seeded=True)
    whole = relay.Module({"main": relay.Function(made.params, made.body), **made.helpers})
    compiled = nnmagic.compile(with_types(whole), cache=False)
    shapes = [leaf.shape for leaf in leaves(typed_result(module)) if leaf.dtype == "float64"]
    cotangents = [np.asarray(rng.normal(size=shape)) for shape in shapes]

    def total(args: list[np.ndarray]) -> float:
        result = [each for each in leaves(compiled(*args, *cotangents)[0]) if each.dtype == np.float64]
        return sum(float((a * b).sum()) for a, b in zip(result, cotangents, strict=True))

    gradients = compiled(*values, *cotangents)[1]
    for number, value in enumerate(values):
        assert gradients[number].shape == value.shape
        direction = rng.normal(size=value.shape)
        ahead, behind = list(values), list(values)
        ahead[number], behind[number] = value + STEP * direction, value - STEP * direction
        expected = (total(ahead) - total(behind)) / (2 * STEP)
        np.testing.assert_allclose((gradients[number] * direction).sum(), expected, rtol=2e-5, atol=1e-7)


def typed_result(module: relay.Module) -> Any:
    def tuple_of(type_: Any) -> Any:
        if isinstance(type_, relay.TupleType):
            return tuple(map(tuple_of, type_.fields))
        return type_

    return tuple_of(module.functions["f"].ret_type)


def test_each_operator_is_declared_once() -> None:
    declared = [*RULES, *EXPANSIONS, *ZERO, *REFUSED]
    assert len(declared) == len(set(declared))
    assert set(declared) == set(relay.OPERATORS)


def test_each_rule_has_a_case() -> None:
    elsewhere = {
        *("dyn.full", "dyn.reshape", "dyn.squeeze", "dyn.broadcast_to", "dyn.strided_slice", "dyn.nn.pad"),
        "python.window",
        *(
            "arange",
            "dyn.one_hot",
            "dyn.topk",
            "dyn.tile",
            "random.normal",
            "random.uniform",
            "nn.upsampling3d",
        ),
        *("image.resize3d", "nn.avg_pool1d", "fast_exp", "fast_tanh", "nn.fast_softmax"),
        *("linalg.cholesky", "linalg.eigh", "linalg.full_rank", "image.crop_and_resize"),
        *("python.require", "python.sized", "numpy.pcg64"),
    }
    assert {*RULES, *EXPANSIONS} - {name for name, _, _ in CASES} <= elsewhere
