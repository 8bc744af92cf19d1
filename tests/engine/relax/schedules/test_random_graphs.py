"""Fused graphs against NumPy: random programs, and those that were once wrong.

``python -m tests.engine.relax.schedules.random_graphs FIRST LAST`` runs more seeds, and makes small what
disagrees.
"""

import os

import numpy as np
import pytest

from nnmagic.engine.relax import build
from nnmagic.relay import ANY, Function, Module, TensorType, Tuple, Var, call, constant, infer_type
from tests.child_process import run_python
from tests.engine.programs import compile_text
from tests.engine.relax.legalize.test_rules_robust import checked_memory
from tests.engine.relax.schedules.random_graphs import difference, disagreement, program
from tests.engine.relax.schedules.test_reductions import TARGETS
from tests.suites import FULL

PROGRAMS = int(os.environ.get("NNMAGIC_RANDOM_GRAPHS", "80" if FULL else "32"))


@pytest.mark.full
@pytest.mark.parametrize("part", range(4))
def test_programs_compute_what_numpy_computes(part):
    for seed in range(part, PROGRAMS, 4):
        wrong = disagreement(program(seed))
        assert wrong is None, f"{wrong}\n{program(seed)}"


@pytest.mark.full
def test_programs_write_no_memory_but_theirs():
    run = run_python(
        "-m",
        "tests.engine.relax.schedules.random_graphs",
        "1000",
        "1040" if FULL else "1016",
        **checked_memory(),
    )
    wrong = "WRONG" in run.stdout or "ERROR" in run.stdout
    assert not wrong, run.stdout[-5000:]


def small(*shape, dtype="float32", seed=0):
    """Small integers, among which are many equal ones."""
    return np.random.default_rng([seed, *shape]).integers(-3, 4, shape).astype(dtype)


def special(*shape):
    """What is not finite, zeros of both signs, and others."""
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1, 1, -3e38], "float32")
    return np.random.default_rng(shape).choice(values, shape)


def windows(x, *size):
    axes = tuple(range(x.ndim - len(size), x.ndim))
    return np.lib.stride_tricks.sliding_window_view(x, size, axis=axes)


#: What was wrong -> body, arrays of %a, %b and so on, what NumPy makes of them.
ONCE_WRONG = {
    "a reduction read what its own loop had not yet computed": (
        "argmax(maximum(%a, %b), axis=[-1])",
        [small(4, 5, 33), small(4, 5, 33, seed=1)],
        lambda a, b: np.maximum(a, b).argmax(-1).astype("i4"),
    ),
    "a kernel read what the one before it had not yet written": (
        "negative(cumsum(negative(prod(%a, axis=[1], keepdims=True))))",
        [1 - 2 * (small(15, 9, 1, 9, dtype="int8") > 0).astype("int8")],
        lambda a: -np.cumsum(-a.prod(1, dtype="int8"), dtype="int8"),
    ),
    "a place of no elements that another kernel computes": (
        "argmax(expand_dims(%a, axis=0, num_newaxis=2))",
        [small(0, 31)],
        lambda _: np.array(-1, "i4"),
    ),
    "a sum of a part without elements": (
        "sum(strided_slice(%a, begin=[3], end=[3], strides=[1], axes=[0]), axis=[0], keepdims=True)",
        [small(3, 4)],
        lambda _: np.zeros((1, 4), "f4"),
    ),
    "an addend that is broader than the convolution of one channel": (
        "add(nn.conv2d(%a, %b, padding=[0, 0, 0, 0]), %c)",
        [small(2, 3, 5, 6), small(1, 3, 1, 1), small(1, 2, 1, 1)],
        lambda a, b, c: (a * b).sum(1, keepdims=True) + c,
    ),
    "a pool of channels that the convolution has elsewhere": (
        'nn.max_pool2d(nn.conv2d(%a, %b, padding=[0, 0, 0, 0], data_layout="NHWC", kernel_layout="HWIO"), '
        "pool_size=[2, 2], padding=[0, 0, 0, 0])",
        [small(1, 4, 6, 3), small(1, 1, 3, 8)],
        lambda a, b: windows(a @ b[0, 0], 2, 2).max((-1, -2)),
    ),
    "a global pool of channels that the convolution has elsewhere": (
        'nn.global_max_pool2d(nn.conv2d(%a, %b, padding=[0, 0, 0, 0], data_layout="NHWC", '
        'kernel_layout="HWIO"))',
        [small(1, 4, 6, 3), small(1, 1, 3, 8)],
        lambda a, b: (a @ b[0, 0]).max((2, 3), keepdims=True),
    ),
    "a negated comparison with NaN inside of a reduction": (
        "(any(logical_not(greater(%a, %b)), axis=[0]), "
        "sum(where(logical_not(less(%a, %b)), 1f, 2f), axis=[1]), "
        "argmax(greater(%a, %b), axis=[0], select_last_index=True))",
        [special(9, 5), special(9, 5)[::-1].copy()],
        lambda a, b: (
            (~(a > b)).any(0),
            np.where(~(a < b), 1, 2).sum(1).astype("f4"),
            (8 - (a > b)[::-1].argmax(0)).astype("i4"),
        ),
    ),
    "comparisons of which one holds but where there is NaN": (
        "(all(logical_or(less_equal(%a, %b), less(%b, %a)), axis=[0]), "
        "sum(where(logical_or(less(%a, %b), greater_equal(%a, %b)), 1f, 2f), axis=[1]))",
        [special(9, 5), special(9, 5)[::-1].copy()],
        lambda a, b: (
            ((a <= b) | (b < a)).all(0),
            np.where((a < b) | (a >= b), 1, 2).sum(1).astype("f4"),
        ),
    ),
    "the largest element of a window of what is not finite": (
        "nn.max_pool2d(%a, pool_size=[3, 2], padding=[0, 0, 0, 0])",
        [special(2, 3, 9, 10)],
        lambda a: windows(a, 3, 2).max((-1, -2)),
    ),
    "the largest element of images of what is not finite": (
        "(nn.global_max_pool2d(%a), nn.adaptive_max_pool2d(%a, output_size=[2, 1]))",
        [special(5, 8, 4, 3)],
        lambda a: (
            a.max((2, 3), keepdims=True),
            np.stack([a[:, :, :2].max((2, 3)), a[:, :, 2:].max((2, 3))], -1)[..., None],
        ),
    ),
}


@pytest.mark.parametrize("name", ONCE_WRONG)
@pytest.mark.parametrize("target", TARGETS, ids=["this", "avx2"])
@pytest.mark.parametrize("level", [0, 3])
def test_what_was_wrong(name, target, level):
    body, arrays, numpy = ONCE_WRONG[name]
    params = ", ".join(
        f"%{letter}: Tensor[{array.shape}, {array.dtype}]"
        for letter, array in zip("abcd", arrays, strict=False)
    )
    result = compile_text(f"def @main({params}) {{ {body} }}", target=target, opt_level=level)(arrays)
    wanted = numpy(*arrays)
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (result, wanted)), strict=True):
        assert difference(one, other, "exact") is None


#: What could not be built or had another shape, of dimensions that only the call knows: body, type, array,
#: what NumPy makes of it.
OPEN = [
    (
        "add(strided_slice(strided_slice(%x, begin=[0], end=[-1], strides=[1], axes=[0]), "
        "begin=[281474976710656], end=[-281474976710656], strides=[-2], axes=[0]), 1f)",
        "(?, 3)",
        lambda x: x[:-1][::-2] + 1,
    ),
    ("expand_dims(%x, axis=0, num_newaxis=2)", "(?, 3, 0)", lambda x: x[None, None]),
    ("reshape(%x, newshape=[-1])", "(?, 3, 0)", np.ravel),
    ("squeeze(%x, axis=[1])", "(?, 1, 0)", lambda x: x[:, 0]),
    ("let %s = split(%x, indices_or_sections=2, axis=1); %s.1", "(?, 0, 3)", np.copy),
    (
        'nn.conv1d(%x, ones(shape=[3, 1, 1], dtype="float32"), padding=[0, 0], groups=3, channels=3, '
        "kernel_size=[1])",
        "(2, ?, 3)",
        np.copy,
    ),
]


@pytest.mark.parametrize(("body", "shape", "numpy"), OPEN, ids=[each[0].partition("(")[0] for each in OPEN])
def test_open_dimensions_beside_known_ones(body, shape, numpy):
    function = compile_text(f"def @main(%x: Tensor[{shape}, float32]) {{ {body} }}")
    x = small(*(3 if dim.strip() == "?" else int(dim) for dim in shape.strip("()").split(",")))
    assert difference(function([x]), numpy(x), "exact") is None


def test_constants_without_elements():
    x = Var("x", TensorType((ANY, 3)))
    whole = call("concatenate", [Tuple((x, constant(np.zeros((0, 3), "f4"))))], axis=0)
    function = build(infer_type(Module({"main": Function((x,), whole)})), "main")
    assert difference(function([small(2, 3)]), small(2, 3), "exact") is None
