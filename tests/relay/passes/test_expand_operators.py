"""Operators that TVM's Relay lacks, written with those that it has, compute the same."""

from dataclasses import replace

import numpy as np
import pytest

from nnmagic import relay
from nnmagic.engine.numpy import Interpreter
from nnmagic.engine.relax import build
from nnmagic.engine.relax.legalize import RULES
from nnmagic.relay.batching.transformation import batch
from nnmagic.relay.infer import infer_type
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.declaration import Trait, operators_with
from nnmagic.relay.passes import expand_operators
from nnmagic.relay.passes.expand_operators import EXPANSIONS
from nnmagic.relay.text.parser import parse_module

FLOATS = [0.0, 1e-38, 3e-8, 0.3, 0.5, 1.0, 1.5, 2.5, 27.0, 1e9, 3e38, np.inf, np.nan]
VALUES = np.array([sign * value for value in FLOATS for sign in (1, -1)])
#: Those that subtract numbers near 1: their errors are units of 1, not of the result.
CANCELLING = ("numpy.logaddexp", "special.erfc", "special.log_ndtr")


#: The attributes of operators that need some, and the types of operands that are not vectors of floats.
ATTRIBUTES = {"python.window": "sizes=[-1, 3]"}
TYPES = {
    "linalg.det": ["Tensor[(3, 3, 3), {}]"],
    "python.window": ["Tensor[(26, 26), {}]", "Tensor[(2), int64]", "Tensor[(2), int64]"],
}


def text_of(name, dtype):
    count = len(OPERATORS[name].args)
    types = TYPES.get(name, ["Tensor[(676), {}]"] * count)
    parameters = ", ".join(
        f"%{each}: {type_.format(dtype)}" for each, type_ in zip("xyz", types, strict=False)
    )
    operands = ", ".join([*["%x", "%y", "%z"][:count], *([ATTRIBUTES[name]] if name in ATTRIBUTES else [])])
    return f'#[version = "0.0.5"]\ndef @main({parameters}) {{\n  {name}({operands})\n}}\n'


def operands_of(name, dtype):
    if name == "linalg.det":
        return [np.random.default_rng(0).standard_normal((3, 3, 3)).astype(dtype)]
    with np.errstate(over="ignore"):
        values = VALUES.astype(dtype)
    if name == "python.window":
        return [np.resize(values, (26, 26)), np.array([0, 23]), np.array([26, 3])]
    return [np.repeat(values, 26), np.tile(values, 26)][: len(OPERATORS[name].args)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", EXPANSIONS)
def test_an_expansion_gives_what_the_operator_gives(name, dtype):
    if name == "linalg.det" and dtype == "float16":
        pytest.skip("LAPACK has no halves")
    typed = infer_type(parse_module(text_of(name, dtype)))
    expanded, operands = expand_operators(typed), operands_of(name, dtype)
    assert name not in expanded.astext()
    assert expanded.functions["main"].ret_type == typed.functions["main"].ret_type
    wanted, found = (Interpreter(module).run("main", operands) for module in (typed, expanded))
    if wanted.dtype == bool:
        np.testing.assert_array_equal(found, wanted)
        return
    info = np.finfo(dtype)
    atol = float(info.eps if name in CANCELLING else 2 * info.smallest_subnormal)
    np.testing.assert_allclose(found.astype("f8"), wanted.astype("f8"), rtol=8 * float(info.eps), atol=atol)
    if name.endswith(".accumulate"):  # either zero is the extreme of 0.0 and -0.0
        return
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(wanted[zero]))


def test_a_window_of_some_axes_leaves_the_others():
    text = text_of("python.window", "float64").replace("sizes=[-1, 3]", "sizes=[2]").replace("(2)", "(1)")
    module = parse_module(text)
    x, begin, _ = operands_of("python.window", "float64")
    found = Interpreter(expand_operators(infer_type(module))).run("main", [x, begin[1:], np.array([2])])
    np.testing.assert_array_equal(found, x[23:25])


def test_what_is_kept_and_what_is_untyped_stay_so():
    module = parse_module(text_of("numpy.log1p", "float32"))
    assert "log(" in expand_operators(module).astext()
    assert "/* ty=" not in expand_operators(module).astext()
    assert expand_operators(infer_type(module), keep=["numpy.log1p"]).astext() == infer_type(module).astext()
    assert relay.passes.expand_operators is expand_operators


def test_operators_with_kernels_are_not_expanded():
    assert EXPANSIONS.keys() & RULES.keys() == operators_with(Trait.KERNEL)


def test_an_expansion_is_all_that_gradients_batches_and_machine_code_need(monkeypatch):
    operator = replace(OPERATORS["nn.leaky_relu"], name="special.scaled_cube", numpy=None)
    monkeypatch.setitem(OPERATORS, operator.name, operator)
    monkeypatch.setitem(EXPANSIONS, operator.name, lambda x, alpha: x * x * x * alpha)
    text = """#[version = "0.0.5"]
def @cube(%x: Tensor[(3), float64]) {
  sum(special.scaled_cube(%x, alpha=2f))
}
"""
    module, x = infer_type(parse_module(text)), np.array([1.0, -2.0, 0.5])
    value, slope = compile_relay(relay.passes.gradient(module, "cube", 0), "cube")(x)
    np.testing.assert_allclose(value, (2 * x**3).sum())
    np.testing.assert_allclose(slope, 6 * x**2)
    made = batch(module, "cube", [0], 4, set())
    batched = infer_type(relay.Module({"main": relay.Function(made.params, made.body), **made.helpers}))
    rows = np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(compile_relay(batched, "main")(rows), (2 * rows**3).sum(axis=1))


def compile_relay(module, name):
    executable = build(module, name)
    return lambda *arguments: executable(list(arguments))
