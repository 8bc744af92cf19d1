"""Values that stay in blocks of channels between operators: the same numbers, and few conversions."""

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.relay.expr import Constant, Function
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes import fold_batch_norm
from nnmagic.relay.passes.rewriting import substitute
from tests.engine.programs import compile_text, module
from tests.engine.relax.codegen.targets import OLDER

pytestmark = pytest.mark.sampled(every=3)

TARGETS = [None, OLDER]
OPERATORS = [
    "nn.relu(%{a})",
    "sigmoid(%{a})",
    "add(%{a}, %{b})",
    "multiply(%{a}, %{b})",
    "subtract(%{a}, %x)",
    "maximum(%{a}, 0.5f)",
    "add(%v, %{a})",
    "nn.bias_add(%{a}, %c)",
    "nn.max_pool2d(%{a}, pool_size=[3, 3], padding=[1, 1, 1, 1])",
    "nn.avg_pool2d(%{a}, pool_size=[3, 3], padding=[1, 1, 1, 1])",
    "nn.conv2d(%{a}, %w, padding=[1, 1, 1, 1], channels=CH, kernel_size=[3, 3])",
    "nn.conv2d(%{a}, %d, padding=[1, 1, 1, 1], groups=CH, channels=CH, kernel_size=[3, 3])",
    "transpose(transpose(%{a}, axes=[0, 2, 3, 1]), axes=[0, 3, 1, 2])",
]


def draw_program(generator, channels):
    """A straight program over tensors of one shape."""
    image = f"(1, {channels}, 9, 10)"
    lines = [
        f"def @main(%x: Tensor[{image}, float32], %w: Tensor[({channels}, {channels}, 3, 3), float32], "
        f"%d: Tensor[({channels}, 1, 3, 3), float32], %c: Tensor[({channels}), float32], "
        f"%v: Tensor[({channels}, 1, 1), float32]) {{",
        f"  %0 = {OPERATORS[10].format(a='x')};",
    ]
    for number in range(1, 8):
        a, b = generator.integers(max(0, number - 3), number, 2)
        operator = OPERATORS[generator.integers(len(OPERATORS))]
        lines.append(f"  %{number} = {operator.format(a=a, b=b)};")
    return "\n".join([*lines, "  (%7, %4)", "}"]).replace("CH", str(channels))


@pytest.mark.sampled(every=7)
@pytest.mark.full("0-own")
@pytest.mark.parametrize("target", TARGETS, ids=["own", "older"])
@pytest.mark.parametrize("seed", range(8))
def test_random_graphs_compute_what_the_lowest_level_computes(seed, target):
    generator = np.random.default_rng(seed)
    channels = [3, 8, 16, 20][seed % 4]
    text = draw_program(generator, channels)
    shapes = [
        (1, channels, 9, 10),
        (channels, channels, 3, 3),
        (channels, 1, 3, 3),
        (channels,),
        (channels, 1, 1),
    ]
    values = [generator.standard_normal(shape).astype("float32") for shape in shapes]
    values[1] /= np.float32(channels * 3)
    values[2] /= np.float32(3)
    result = compile_text(text, target=target)(values)
    expected = compile_text(text, opt_level=0)(values)
    for one, other in zip(result, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


CHAIN = """def @main(%x: Tensor[(1, 16, 8, 8), float32], %w: Tensor[(16, 16, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  %1 = nn.relu(%0);
  %2 = nn.conv2d(%1, %w, padding=[1, 1, 1, 1], channels=16, kernel_size=[3, 3]);
  %3 = add(%2, %1);
  nn.max_pool2d(%3, pool_size=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0])
}"""


def test_a_chain_is_converted_once_at_its_end():
    assert compile_text(CHAIN).stage("relax").count("cls.unblocked,") == 1


def batch_norm_program(scale):
    text = """def @main(%x: Tensor[(1, 4, 6, 6), float32], %w: Tensor[(8, 4, 3, 3), float32],
      %g: Tensor[(8), float32], %b: Tensor[(8), float32],
      %m: Tensor[(8), float32], %v: Tensor[(8), float32]) {
      %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
      %1 = nn.batch_norm(%0, %g, %b, %m, %v, scale=SCALE);
      nn.relu(%1.0)
    }""".replace("SCALE", str(scale))
    return module(text)


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("bad", [None, np.inf, np.nan])
def test_batch_norm_is_folded_where_all_is_known_and_finite(scale, bad):
    generator = np.random.default_rng(0)
    typed = batch_norm_program(scale)
    function = typed.functions["main"]
    data, *others = function.params
    shapes = [param.type_annotation.shape for param in others]
    values = [generator.uniform(0.5, 2.0, shape).astype("float32") for shape in shapes]
    if bad is not None:
        values[3][2] = bad
    x = generator.standard_normal((1, 4, 6, 6)).astype("float32")
    constants = {param: Constant(value) for param, value in zip(others, values, strict=True)}
    known = infer_type(Module({"main": Function((data,), substitute(function.body, constants), None)}))
    assert ("batch_norm" in str(fold_batch_norm(known))) == (bad is not None)
    expected = build(typed, "main", opt_level=0)([x, *values])
    np.testing.assert_allclose(build(known, "main")([x]), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(build(typed, "main")([x, *values]), expected, rtol=1e-4, atol=1e-5)
