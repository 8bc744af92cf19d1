"""Quantized operators on the relax engine: every number equals real Relay's, where it was measured.

tests/relay_corpus/qnn.jsonl holds random programs, their inputs and what real Relay made of them
(tests/oracle/quantized.py).
"""

import json
import math

import numpy as np
import pytest

from nnmagic.engine import EngineError
from nnmagic.engine.relax import build
from nnmagic.relay.infer import infer_type
from nnmagic.relay.text.parser import parse_module
from tests.engine.programs import compile_text, make_input, read_array
from tests.oracle.quantized import generate
from tests.relay import corpus

MEASURED = [json.loads(line) for line in (corpus.FOLDER / "qnn.jsonl").read_text().splitlines()]


@pytest.mark.sampled(every=12)
@pytest.mark.parametrize("record", MEASURED, ids=lambda record: str(record["seed"]))
def test_every_number_is_real_relays(record):
    arguments = [make_input(each) for each in record["inputs"]]
    result = build(infer_type(parse_module(record["text"])), "main")(arguments)
    expected = read_array(record["output"])
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(result, expected)


def test_numbers_that_wrap_around_are_clipped_where_they_are():
    # Comparisons are simplified as if no product before them wrapped around, and saturate the other way.
    module, inputs = generate(989)
    result = build(infer_type(parse_module(module.astext())), "main")([make_input(each) for each in inputs])
    measured = "-+--+--+-+--++-+--++--+-"  # by real Relay: the least and the most of int8
    np.testing.assert_array_equal(result.ravel(), [-128 if sign == "-" else 127 for sign in measured])


def run(body, *arrays):
    """The value of a body that calls its parameters %a, %b, ..."""
    names = "abcdef"
    params = ", ".join(
        f"%{name}: Tensor[({', '.join(map(str, array.shape))}), {array.dtype}]"
        if array.shape
        else f"%{name}: {array.dtype}"
        for name, array in zip(names, arrays, strict=False)
    )
    return compile_text(f"def @main({params}) {{ {body} }}")(list(arrays))


def test_halves_are_rounded_up_or_away_from_zero():
    x = np.array([-5, -3, -1, 0, 1, 3, 5], "i4")
    body = '(qnn.requantize(%a, 0.5f, 0, 1f, 0, rounding="{}", compute_dtype="{}", out_dtype="int8"),)'
    for compute in ("int64", "float32", "float64"):
        (up,) = run(body.format("UPWARD", compute), x)
        (away,) = run(body.format("TONEAREST", compute), x)
        np.testing.assert_array_equal(up, [-2, -1, 0, 0, 1, 2, 3])
        np.testing.assert_array_equal(away, [-3, -2, -1, 0, 1, 2, 3])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_results_stay_within_the_dtype(dtype):
    x = np.array([-(2**30), -70000, 0, 70000, 2**30], "i4")
    limits = np.iinfo(dtype)
    for compute in ("int64", "float32", "float64"):
        result = run(f'qnn.requantize(%a, 1f, 0, 1f, 0, compute_dtype="{compute}", out_dtype="{dtype}")', x)
        np.testing.assert_array_equal(result, np.clip(x, limits.min, limits.max))


def test_floats_that_int32_cannot_hold_are_limited_not_turned_round():
    x = np.array([-(2**30), 2**30], "i4")
    for dtype in ("int8", "int32"):
        limits = np.iinfo(dtype)
        result = run(
            f'qnn.requantize(%a, 1f, 0, 0.0625f, 0, compute_dtype="float32", out_dtype="{dtype}")', x
        )
        np.testing.assert_array_equal(result, [limits.min, limits.max])


def test_scales_and_zero_points_may_be_parameters():
    x = np.arange(-8, 8, dtype="i1")
    result = run(
        'qnn.requantize(%a, %b, %c, %d, %e, out_dtype="int8")',
        x, np.float32(0.5), np.int32(3), np.float32(0.25), np.int32(-7),
    )  # fmt: skip
    np.testing.assert_array_equal(result, (x - 3) * 2 - 7)


def test_a_convolution_is_padded_with_the_zero_point():
    rng = np.random.default_rng(4)
    x, w = rng.integers(0, 256, (1, 2, 4, 4)).astype("u1"), rng.integers(-128, 128, (3, 2, 3, 3)).astype("i1")
    result = run(
        "qnn.conv2d(%a, %b, 77, -5, 1f, 1f, padding=[1, 1, 1, 1], channels=3, kernel_size=[3, 3], "
        'out_dtype="int32")', x, w,
    )  # fmt: skip
    real = np.pad(x.astype("i4") - 77, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(real, (3, 3), axis=(2, 3))
    np.testing.assert_array_equal(result, np.einsum("nchwij,ocij->nohw", windows, w.astype("i4") + 5))


def test_a_table_has_every_number_of_the_dtype():
    x = np.arange(256).astype("u1").view("i1")
    result = run("qnn.erf(%a, 0.02f, 3, 0.008f, -1)", x)
    exact = np.array([math.erf((int(each) - 3) * 0.02) for each in x]) / 0.008
    assert np.abs(result - np.clip(exact - 1, -128, 127)).max() <= 0.51


def test_nothing_real_becomes_the_largest_number():
    """As measured: log and sqrt of what is negative."""
    x = np.array([-100, -1, 0, 1], "i1")
    np.testing.assert_array_equal(run("qnn.sqrt(%a, 1f, 0, 0.5f, 5)", x), [127, 127, 5, 7])
    np.testing.assert_array_equal(run("qnn.log(%a, 1f, 0, 0.5f, 5)", x), [127, 127, -128, 5])


def test_a_kernel_that_does_not_fit_is_refused_when_the_call_shows_it():
    run = compile_text(
        "def @main(%a: Tensor[(1, 1, ?, 4), int8], %b: Tensor[(1, 1, 3, 3), int8]) { "
        "qnn.conv2d(%a, %b, 0, 0, 1f, 1f, padding=[0, 0, 0, 0], channels=1, kernel_size=[3, 3], "
        'out_dtype="int32") }'
    )
    w = np.ones((1, 1, 3, 3), "i1")
    assert run([np.ones((1, 1, 3, 4), "i1"), w]).tolist() == [[[[9, 9]]]]
    with pytest.raises(ValueError, match="larger than the padded data"):
        run([np.ones((1, 1, 1, 4), "i1"), w])


def test_dimensions_that_only_the_call_knows():
    add = compile_text("def @main(%a: Tensor[(?, 3), int8]) { qnn.add(%a, %a, 0.5f, 1, 0.5f, 1, 0.5f, 7) }")
    for rows in (1, 5):
        x = np.arange(rows * 3, dtype="i1").reshape(rows, 3)
        np.testing.assert_array_equal(add([x]), 2 * (x - 1) + 7)


REFUSED = [
    (
        'qnn.requantize(%a, 1f, 0, 1f, 0, rounding="DOWN", out_dtype="int8")',
        "rounding must be one of 'UPWARD'",
    ),
    ('qnn.requantize(%a, 1f, 0, 1f, 0, compute_dtype="int8", out_dtype="int8")', "compute_dtype must be"),
    ("qnn.tanh(%a, %b, 0, 1f, 0)", "must be constants"),
    ("qnn.softmax(%a, 2f, 0, 1f, 0)", "at most 1, not 2"),
    (
        'qnn.dense(%a, %a, 0, %b, 1f, 1f, units=2, out_dtype="int32")',
        "the zero point of the weight to be of dtype int32",
    ),
    ("qnn.concatenate((%a, %a), (1f,), (0, 0), 1f, 0)", "2 tensors, 1 scales and 2 zero points"),
    (
        'let %f = cast(%a, dtype="float32"); qnn.add(%f, %f, 1f, 0, 1f, 0, 1f, 0)',
        r"found Tensor\[\(2, 2\), float32\]",
    ),
    ("qnn.simulated_quantize(%a, 1, 1f, 0)", "expected real numbers"),
    ('qnn.simulated_quantize(cast(%a, dtype="float32"), %b, 1f, 0)', "the code of the dtype"),
    ('qnn.simulated_quantize(cast(%a, dtype="float32"), 1, 1f, 0, axis=2)', "axis 2 is out of range"),
    ("qnn.mul(%a, %a, %c, 0, %c, 0, 1f, 0, lhs_axis=0)", "along one axis of the result"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_what_has_a_type_but_no_meaning_is_refused(body, message):
    params = "%a: Tensor[(2, 2), int8], %b: float32, %c: Tensor[(2), float32]"
    with pytest.raises(EngineError, match=message) as caught:
        compile_text(f"def @main({params}) {{ {body} }}")
    assert caught.value.diagnostics[0].span is not None
