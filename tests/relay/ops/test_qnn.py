"""Types, texts and refusals of the quantized operators, as measured on real Relay."""

import json

import pytest

from nnmagic.diagnostics import RelayError
from nnmagic.relay.expr import Constant, Function, Var, constant
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS, RelationError, call, resolve
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.types import TensorType
from tests.relay import corpus
from tests.relay.corpus import without_spans

VERSION = '#[version = "0.0.5"]\n'
LINES = (corpus.FOLDER / "qnn.jsonl").read_text().splitlines()
MEASURED = [json.loads(line) for line in LINES]
PARTS = 6


def body_of(text):
    """A module's text without spans and without what stands for the metadata."""
    return without_spans(text).split("\n#[metadata]")[0].split("\n/* For debugging")[0].strip()


@pytest.mark.parametrize("part", range(PARTS))
def test_typed_texts_are_real_relays(part):
    for record in MEASURED[part::PARTS]:
        typed = infer_type(parse_module(record["text"]))
        assert body_of(typed.astext(show_meta_data=False)) == body_of(record["typed"]), record["seed"]


@pytest.mark.parametrize("part", range(PARTS))
def test_what_is_printed_is_read_again(part):
    for record in MEASURED[part::PARTS]:
        module = parse_module(record["text"])
        assert structural_equal(parse_module(module.astext()), module), record["seed"]
        typed = infer_type(module)
        assert structural_equal(parse_module(typed.astext()), typed), record["seed"]


def infer_text(body, **params):
    """The type of a body, as text."""
    given = ", ".join(f"%{name}: {type_}" for name, type_ in params.items())
    module = infer_type(parse_module(f"{VERSION}def @main({given}) {{ {body} }}"))
    return module.astext().split("-> ")[1].split(" {\n")[0]


X, W, S = "Tensor[(2, 3), int8]", "Tensor[(4, 3), int8]", "Tensor[(3), float32]"
XW, XS, XWS = {"x": X, "w": W}, {"x": X, "s": S}, {"x": X, "w": W, "s": S}
REAL, WIDE = {"x": "Tensor[(2), float32]"}, {"x": "Tensor[(2), uint16]"}
IMAGE, KERNEL = "Tensor[(1, 4, 5, 5), int8]", "Tensor[(6, 4, 3, 3), int8]"
CONV = 'padding=[0, 0, 0, 0], channels=6, kernel_size=[3, 3], out_dtype="int32"'

#: Real Relay refuses each of them; what our message says.
REFUSED = [
    ("qnn.requantize(%x, 1f, 0, 1f, 0)", {"x": X}, "out_dtype must be one of"),
    ('qnn.requantize(%x, 1f, 0, 1f, 0, out_dtype="int64")', {"x": X}, "out_dtype must be one of"),
    ('qnn.requantize(%x, 1f, 0, 1f, 0, out_dtype="int8")', REAL, "expected the data to"),
    ('qnn.requantize(%x, 1f, 0, 1f, 0, out_dtype="int8")', WIDE, "expected the data to"),
    ('qnn.requantize(%x, %s, 0, 1f, 0, axis=0, out_dtype="int8")', XS, r"Tensor\[\(2\), float32\]"),
    ('qnn.requantize(%x, 1f, 0, %s, 0, out_dtype="int8")', XS, "result to be a scalar"),
    ('qnn.requantize(%x, 1, 0, 1f, 0, out_dtype="int8")', {"x": X}, "of dtype float32, found int32"),
    ('qnn.requantize(%x, 1f, 0i64, 1f, 0, out_dtype="int8")', {"x": X}, "of dtype int32, found int64"),
    ('qnn.requantize(%x, 1f, 0, 1f, 0, axis=2, out_dtype="int8")', {"x": X}, "axis 2 is out of range"),
    ('qnn.requantize(%x, 1f, 0, 1f, out_dtype="int8")', {"x": X}, "5 arguments"),
    ("qnn.add(%x, %y, 1f, 0, 1f, 0, 1f, 0)", {"x": X, "y": "Tensor[(3), uint8]"}, "dtypes int8 and uint8"),
    ("qnn.add(%x, %y, 1f, 0, 1f, 0, 1f, 0)", {"x": X, "y": "Tensor[(4), int8]"}, "do not broadcast"),
    ("qnn.mul(%x, %x, %s, 0, 1f, 0, 1f, 0, lhs_axis=0)", XS, "the scale of lhs"),
    ("qnn.subtract(%x, %x, 1f, 0, 1f, 0, 1f, %s)", XS, "of dtype int32"),
    ("qnn.tanh(%x, 1f, 0, 1f, 0)", {"x": "Tensor[(2), int16]"}, "of dtype int8 or uint8"),
    ("qnn.exp(%x, %s, 0, 1f, 0)", XS, "to be a scalar"),
    ("qnn.softmax(%x, 1f, 0, 1f, 0)", {"x": "Tensor[(2), uint8]"}, "of dtype int8, found"),
    ("qnn.leaky_relu(%x, 1f, 0, 1f, 0, alpha=-1f)", {"x": X}, "alpha must not be negative"),
    ('qnn.dense(%x, %w, 0, 0, 1f, 1f, units=4, out_dtype="int8")', XW, "out_dtype must be one of"),
    ('qnn.dense(%x, %w, 0, 0, 1f, %s, units=4, out_dtype="int32")', XWS, "the scale of the weight"),
    (
        'qnn.dense(%x, %w, %z, 0, 1f, 1f, units=4, out_dtype="int32")',
        {"x": X, "w": W, "z": "Tensor[(1), int32]"},
        "scalar",
    ),
    # Here real Relay ends its process.
    ('qnn.dense(%x, %w, 0, 0, 1f, %s, units=None, out_dtype="int32")', XWS, "needs units"),
    (
        'qnn.batch_matmul(%x, %x, 0, 0, 1f, 1f, out_dtype="int64")',
        {"x": "Tensor[(1, 2, 2), int8]"},
        "out_dtype",
    ),
    (
        f"qnn.conv2d(%x, %w, 0, 0, 1f, %s, {CONV})",
        {"x": IMAGE, "w": KERNEL, "s": S},
        r"Tensor\[\(6\), float32\]",
    ),
    (
        f"qnn.conv2d(%x, %w, 0, 0, 1f, 1f, {CONV})",
        {"x": "Tensor[(1, 3, 5, 5), int8]", "w": KERNEL},
        "the weight",
    ),
    (
        f"qnn.conv2d(%x, %w, 0, 0, 1f, 1f, {CONV})",
        {"x": IMAGE, "w": "Tensor[(6, 4, 3, 3), float32]"},
        "the kernel to be",
    ),
    ("qnn.concatenate((%x, %x), (1f, %s), (0, 0), 1f, 0, axis=1)", XS, "a tuple of float32 scalars"),
    ("qnn.concatenate((%x, %x), 1f, 0, 1f, 0, axis=1)", {"x": X}, "a tuple of float32 scalars"),
    ("qnn.simulated_dequantize(%x, 1, 1f, 0)", {"x": S}, "needs the attribute 'out_dtype'"),
]


@pytest.mark.parametrize(("body", "params", "message"), REFUSED)
def test_what_real_relay_refuses_is_refused_at_its_place(body, params, message):
    with pytest.raises(RelayError, match=message) as caught:
        infer_text(body, **params)
    assert caught.value.diagnostics[0].span is not None


#: What real Relay accepts although it looks odd, and its type.
ACCEPTED = [
    (
        "qnn.add(%x, %x, %s, 0, 1f, 0, 1f, 0, lhs_axis=-7)",
        {"x": "Tensor[(3), int8]", "s": S},
        "Tensor[(3), int8]",
    ),
    ("qnn.add(%x, %x, 1f, 0, 1f, 0, 1f, 0)", {"x": "Tensor[(3), bool]"}, "Tensor[(3), bool]"),
    ('qnn.dense(%x, %w, 0, %s, 1f, 1f, units=4, out_dtype="int64")', XWS, "Tensor[(2, 4), int64]"),
    ("qnn.concatenate((%x, %x), (1f,), (0, 0, 0), 1f, 0)", {"x": X}, "Tensor[(4, 3), int8]"),
    ("qnn.simulated_quantize(%x, %s, 1, 1f, axis=9)", XS, X),
    ('qnn.requantize(%x, 1f, 0, 1f, 0, rounding="x", compute_dtype="y", out_dtype="int8")', {"x": X}, X),
    (
        'qnn.requantize(%x, %s, 0, 1f, 0, axis=-9, out_dtype="int8")',
        {"x": "int8", "s": "Tensor[(1), float32]"},
        "int8",
    ),
]


@pytest.mark.parametrize(("body", "params", "result"), ACCEPTED)
def test_what_real_relay_accepts_is_accepted(body, params, result):
    assert infer_text(body, **params) == result


def var(*shape, dtype="int8"):
    return Var("x", TensorType(shape, dtype))


def constants(*numbers: float) -> list[Constant]:
    return [constant(number, "float32" if isinstance(number, float) else "int32") for number in numbers]


#: As Relay's Python function makes the call, and how that is printed there.
CALLS = [
    (call("qnn.requantize", [var(2), *constants(0.5, 1, 0.25, 2)]), 'out_dtype="int8"'),
    (
        call("qnn.dense", [var(2, 3), var(4, 3), *constants(1, 2, 0.5, 0.5)], units=4),
        'units=4, out_dtype="int32"',
    ),
    (
        call(
            "qnn.conv2d",
            [var(1, 2, 4, 4), var(3, 2, 3, 3), *constants(1, 2, 0.5, 0.5)],
            kernel_size=3,
            channels=3,
            padding=1,
        ),
        'padding=[1, 1, 1, 1], channels=3, kernel_size=[3, 3], out_dtype="int32"',
    ),
    (call("qnn.simulated_dequantize", [var(2), *constants(1, 0.5, 1)]), 'out_dtype=""'),
]


@pytest.mark.parametrize(("made", "attrs"), CALLS)
def test_calls_from_python_have_the_defaults_of_relays_functions(made, attrs):
    params = tuple(arg for arg in made.args if isinstance(arg, Var))
    text = Module({"main": Function(params, made)}).astext()
    assert f", {attrs})" in text


def test_what_a_call_from_python_must_say():
    with pytest.raises(RelationError, match="needs the attribute 'units'"):
        call("qnn.dense", [var(2, 3), var(4, 3), *constants(1, 2, 0.5, 0.5)])
    with pytest.raises(RelationError, match="needs the attribute 'channels'"):
        call("qnn.conv2d", [var(2, 3), var(4, 3), *constants(1, 2, 0.5, 0.5)], kernel_size=3)


def test_short_names_mean_the_operators_on_real_numbers():
    for name in ("softmax", "dense", "conv2d", "avg_pool2d", "leaky_relu", "batch_matmul"):
        assert resolve(name) is OPERATORS[f"nn.{name}"]
    assert resolve("requantize") is OPERATORS["qnn.requantize"]
    assert resolve("tanh") is OPERATORS["tanh"]
