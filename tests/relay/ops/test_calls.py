"""Operators called as from Python: names, defaults, normalised values, and how Relay prints them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from nnmagic.diagnostics import Span
from nnmagic.relay.expr import Call, Constant, OpRef, Var
from nnmagic.relay.ops import OPERATORS, RelationError, call, resolve
from nnmagic.relay.text.printer import expr_text
from nnmagic.relay.types import AnyDim
from tests.relay import corpus

MEASURED = {entry["op"]: entry for entry in json.loads((corpus.FOLDER / "operators.json").read_text())["ops"]}

#: Calls from Python and the attributes that real Relay printed for them.
PRINTED = [
    ("nn.matmul", 2, {}, "units=None"),
    ("nn.matmul", 2, {"transpose_a": True}, "units=None, transpose_a=True"),
    ("nn.dense", 2, {}, "units=None"),
    ("nn.dense", 2, {"out_dtype": "int32"}, 'units=None, out_dtype="int32"'),
    ("nn.batch_matmul", 2, {}, "transpose_b=True"),
    ("nn.batch_matmul", 2, {"transpose_b": False}, ""),
    ("nn.leaky_relu", 1, {}, "alpha=0.01f"),
    ("nn.leaky_relu", 1, {"alpha": 0.25}, ""),
    ("nn.lrn", 1, {}, "alpha=1e-05f"),
    ("nn.dropout", 1, {}, ""),
    ("nn.dropout", 1, {"rate": 0.3}, "rate=0.3f"),
    ("nn.l2_normalize", 1, {"eps": 1e-6}, "eps=1e-06f, axis=None"),
    ("nn.l2_normalize", 1, {"eps": 1e-12, "axis": 1}, "eps=1e-12f, axis=[1]"),
    ("transpose", 1, {}, "axes=None"),
    ("transpose", 1, {"axes": (1, 0, 2)}, "axes=[1, 0, 2]"),
    ("sum", 1, {"axis": 1}, "axis=[1]"),
    ("mean", 1, {"axis": (0, 2), "keepdims": True}, "axis=[0, 2], keepdims=True"),
    ("max", 1, {}, ""),
    ("cumsum", 1, {"axis": 1}, "axis=1, exclusive=None"),
    ("squeeze", 1, {"axis": 0}, "axis=[0]"),
    ("reshape", 1, {"newshape": -1}, "newshape=[-1]"),
    (
        "strided_slice",
        1,
        {"begin": [1, 0], "end": [3, 4]},
        "begin=[1, 0], end=[3, 4], strides=[1], axes=None",
    ),
    ("slice_like", 2, {}, "axes=None"),
    ("shape_of", 1, {}, 'dtype="int32"'),
    ("argsort", 1, {}, 'dtype="int32"'),
    ("topk", 1, {"k": 2}, 'k=2, dtype="int32"'),
    ("clip", 1, {"a_min": 0, "a_max": 6}, "a_min=0f, a_max=6f"),
    ("cast", 1, {"dtype": np.dtype("float64")}, 'dtype="float64"'),
    ("zeros", 0, {"shape": (2, 3), "dtype": "float32"}, 'shape=[2, 3], dtype="float32"'),
    ("full", 1, {"shape": (2,), "dtype": ""}, "shape=[2]"),
    ("split", 1, {"indices_or_sections": 3, "axis": 1}, "indices_or_sections=3, axis=1"),
    ("split", 1, {"indices_or_sections": [1, 3]}, "indices_or_sections=[1, 3]"),
    ("concatenate", 1, {"axis": 0}, ""),
    ("nn.conv2d", 2, {}, "padding=[0, 0, 0, 0]"),
    (
        "nn.conv2d",
        2,
        {"strides": (2, 1), "padding": 1, "channels": 4, "kernel_size": 3},
        "strides=[2, 1], padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]",
    ),
    ("nn.conv2d", 2, {"dilation": 2}, "padding=[0, 0, 0, 0], dilation=[2, 2]"),
    ("nn.conv1d", 2, {}, ""),
    ("nn.conv3d", 2, {"padding": 1}, "padding=[1, 1, 1, 1, 1, 1]"),
    (
        "nn.conv1d_transpose",
        2,
        {"channels": 3, "kernel_size": 3, "strides": 2, "output_padding": 1, "padding": 1},
        "channels=3, kernel_size=[3], strides=[2], output_padding=[1], padding=[1]",
    ),
    (
        "nn.max_pool2d",
        1,
        {"pool_size": 2, "strides": 2},
        "pool_size=[2, 2], strides=[2, 2], padding=[0, 0, 0, 0]",
    ),
    ("nn.max_pool1d", 1, {"pool_size": 2, "strides": 2}, "pool_size=[2], strides=[2], padding=[0, 0]"),
    (
        "nn.avg_pool3d",
        1,
        {"pool_size": (3, 3, 3), "strides": (2, 2, 2), "padding": (1, 1, 1)},
        "pool_size=[3, 3, 3], strides=[2, 2, 2], padding=[1, 1, 1, 1, 1, 1]",
    ),
    (
        "nn.max_pool2d_grad",
        2,
        {"pool_size": 2, "strides": 2},
        "pool_size=[2, 2], strides=[2, 2], dilation=[]",
    ),
    ("nn.adaptive_avg_pool2d", 1, {}, "output_size=None"),
    ("nn.adaptive_avg_pool1d", 1, {"output_size": 3}, "output_size=[3]"),
    ("nn.pad", 1, {"pad_width": ((1, 1), (0, 2))}, "pad_width=[[1, 1], [0, 2]]"),
    ("nn.space_to_depth", 1, {"block_size": 2}, 'block_size=2, mode=""'),
    ("nn.nll_loss", 3, {}, "ignore_index=-100"),
    ("nn.upsampling", 1, {"scale_h": 2, "scale_w": 2}, "scale_h=2f, scale_w=2f"),
    ("image.resize2d", 1, {"size": (6, 8)}, 'size=[6, 8], roi=[0f, 0f, 0f, 0f], rounding_method=""'),
    ("image.resize1d", 1, {"size": 7, "roi": None}, 'size=[7], roi=[0f, 0f], rounding_method=""'),
    ("vision.multibox_prior", 1, {"sizes": (0.5,), "ratios": (1.0, 2.0)}, "sizes=[0.5f], ratios=[1f, 2f]"),
    ("vision.get_valid_counts", 2, {}, "score_threshold=None"),
    ("dyn.reshape", 2, {}, "newshape=[]"),
    ("dyn.zeros", 1, {"dtype": "float32"}, 'shape=None, dtype="float32"'),
    ("dyn.one_hot", 4, {"dtype": "float32"}, 'depth=0, dtype="float32"'),
    ("dyn.strided_slice", 4, {}, "begin=None, end=None, strides=None, axes=None"),
    ("dyn.topk", 2, {}, 'k=None, dtype="int32"'),
]


def attributes_in_text(text, name):
    """The attributes of the first call of an operator in a text, without the arguments."""
    plain = re.sub(r"/\*.*?\*/", "", text)
    inside = re.search(re.escape(name) + r"\((.*)\)", plain)[1]
    result = re.search(r"\w+=.*", inside)
    return result[0].strip() if result else ""


def variables(count):
    return [Var(f"x{index}") for index in range(count)]


@pytest.mark.parametrize(("name", "arguments", "given", "expected"), PRINTED)
def test_prints_what_relay_prints(name, arguments, given, expected):
    entry = MEASURED[name]
    measured = {attributes_in_text(text, name) for text in (entry["example"], *entry["more_examples"])}
    assert expected in measured  # the table above is what was measured
    assert attributes_in_text(expr_text(call(name, variables(arguments), **given)), name) == expected


def test_text_is_not_normalised():
    conv2d, reduce = OPERATORS["nn.conv2d"], OPERATORS["sum"]
    assert conv2d.complete_attrs({"padding": (1, 1)})["padding"] == (1, 1)
    assert conv2d.complete_attrs({"padding": (1, 1)}, from_call=True)["padding"] == (1, 1, 1, 1)
    with pytest.raises(RelationError, match="'axis' must be a sequence of ints, not 1"):
        reduce.complete_attrs({"axis": 1})


def test_attributes_come_in_declaration_order():
    attrs = call("nn.conv2d", variables(2), out_dtype="int32", groups=2).attrs
    assert list(attrs) == [attr["name"] for attr in MEASURED["nn.conv2d"]["attrs"]]
    assert attrs["groups"] == 2


def test_the_span_is_the_calls_and_the_operators():
    span = Span("cell", 2, 1, 2, 9)
    made = call("add", variables(2), span)
    assert isinstance(made.op, OpRef)
    assert (made.span, made.op.span, made.op.name) == (span, span, "add")


def test_named_dimensions_may_stand_in_attributes():
    assert call("broadcast_to", variables(1), shape=(AnyDim("n"), 3)).attrs["shape"] == (AnyDim("n"), 3)


@pytest.mark.parametrize(
    ("name", "arguments", "given", "message"),
    [
        ("sum", 1, {"axiss": 1}, r"sum has no attribute 'axiss'"),
        ("cast", 1, {}, r"cast needs the attribute 'dtype' \(dtype\)"),
        (
            "cast",
            1,
            {"dtype": "float99"},
            r"cast: attribute 'dtype' must be one of the dtypes .*, not 'float99'",
        ),
        ("concatenate", 1, {}, r"concatenate needs the attribute 'axis'"),
        ("zeros", 0, {"shape": (2,)}, r"zeros needs the attribute 'dtype'"),
        ("nn.softmax", 1, {"axis": "a"}, r"nn.softmax: attribute 'axis' must be an int, not 'a'"),
        ("nn.softmax", 1, {"axis": True}, r"nn.softmax: attribute 'axis' must be an int, not True"),
        ("nn.softmax", 1, {"axis": 1.0}, r"nn.softmax: attribute 'axis' must be an int, not 1.0"),
        ("nn.leaky_relu", 1, {"alpha": "x"}, r"nn.leaky_relu: attribute 'alpha' must be a number, not 'x'"),
        ("sum", 1, {"keepdims": 2}, r"sum: attribute 'keepdims' must be True or False, not 2"),
        (
            "nn.conv2d",
            2,
            {"strides": (1, 1, 1)},
            r"'strides' must be 1 or 2 dimensions, not \(1, 1, 1\)",
        ),
        ("nn.conv2d", 2, {"padding": (1, 1, 1)}, r"'padding' must be 1, 2 or 4 ints, not \(1, 1, 1\)"),
        ("topk", 1, {"ret_type": "all"}, r"'ret_type' must be one of 'both', 'values', 'indices', not 'all'"),
        ("add", 1, {}, r"add needs the argument 'rhs'"),
    ],
)
def test_wrong_calls_name_the_attribute_and_what_it_must_be(name, arguments, given, message):
    with pytest.raises(RelationError, match=message):
        call(name, variables(arguments), **given)


def test_a_misspelt_attribute_gets_a_hint():
    with pytest.raises(RelationError) as caught:
        call("sum", variables(1), keepdim=True)
    assert caught.value.hint == "did you mean 'keepdims'?"


def test_relays_python_names_are_taken():
    assert call("nn.pad", [*variables(2)], pad_width=((1, 1),)).attrs["pad_width"] == ((1, 1),)
    assert call("unique", variables(1), is_sorted=False).attrs["sorted"] is False
    assert call("random.normal", variables(1), shape=(2, 2)).attrs["out_shape"] == (2, 2)


def values(made):
    """The constant arguments of a call, as (dtype, value)."""
    return [(str(arg.data.dtype), arg.data.item()) for arg in made.args if isinstance(arg, Constant)]


def test_arguments_with_a_number_as_default():
    assert values(call("nn.pad", variables(1), pad_width=((1, 1),))) == [("int32", 0)]
    assert values(call("vision.non_max_suppression", variables(3))) == [("int32", -1), ("float32", 0.5)]
    assert values(call("random.uniform", variables(1), shape=(2,), dtype="float64")) == [
        ("float64", 0.0),
        ("float64", 1.0),
    ]


def test_arange_fills_in_start_and_step_and_repeats_its_arguments():
    (stop,) = variables(1)
    made = call("arange", [stop], dtype="int32")
    assert values(made) == [("int32", 0), ("int32", 1)]
    assert tuple(made.attrs[name] for name in ("start", "stop", "step")) == made.args


def test_variance_computes_the_mean_that_it_needs():
    data, mean = call("variance", variables(1), axis=1).args
    assert isinstance(mean, Call)
    assert mean.args == (data,)
    assert (mean.attrs["axis"], mean.attrs["keepdims"]) == ((1,), True)


def test_stft_defaults_to_hops_of_a_quarter_and_a_window_of_ones():
    made = call("stft", variables(1), n_fft=8)
    assert (made.attrs["hop_length"], made.attrs["win_length"]) == (2, 8)
    window = made.args[1]
    assert isinstance(window, Call)
    assert dict(window.attrs) == {"shape": (8,), "dtype": "int32"}


def test_matrix_set_diag_takes_k_and_align():
    attrs = call("matrix_set_diag", variables(2), k=(-1, 2), align="LEFT_RIGHT").attrs
    assert dict(attrs) == {"k1": -1, "k2": 2, "super_diag_right_align": False, "sub_diag_right_align": True}
    with pytest.raises(RelationError, match="align must be such as 'RIGHT_LEFT', not 'UP'"):
        call("matrix_set_diag", variables(2), align="UP")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nn.relu", "nn.relu"),
        ("relu", "nn.relu"),
        ("matmul", "nn.matmul"),
        ("conv2d", "nn.conv2d"),
        ("resize2d", "image.resize2d"),
        ("roi_align", "vision.roi_align"),
        ("add", "add"),
        ("reshape", "reshape"),  # not dyn.reshape
        ("zeros", "zeros"),
        ("pad", None),  # nn.pad or dyn.nn.pad
        ("gelu", None),
        ("nn.gelu", None),
        ("nn.add", None),
        ("", None),
    ],
)
def test_resolve(name, meant):
    result = resolve(name)
    assert (result.name if result else None) == meant


def test_every_operator_is_reachable_by_its_own_name():
    assert all(resolve(name) is operator for name, operator in OPERATORS.items())
