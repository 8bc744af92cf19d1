"""Operators over axes whose sizes only the call knows, and sequences in loops, beside onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import nnmagic
from nnmagic.importers.onnx import OnnxError
from tests.importers.onnx.graphs import info, model, node

onnxruntime.set_default_logger_severity(4)
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def compare(proto: onnx.ModelProto, *inputs: dict[str, np.ndarray]) -> nnmagic.CompiledFunction:
    """Run a model on several inputs, of other sizes."""
    proto.ir_version = 9
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    function = nnmagic.from_onnx(proto, cache=False, engine="numpy")
    for given in inputs:
        found = function(**given)
        wanted = session.run(None, given)
        for have, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert (have.shape, have.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)
    return function


def of_image(op_type: str, *others: str, constants: Any = None, outputs: int = 1, **attributes: Any) -> Any:
    names = [f"y{number}" for number in range(outputs)]
    nodes = [node(op_type, ["x", *others], names, **attributes)]
    return model(nodes, [info("x", ("n", 2, "h", "w"))], names, constants)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 3, 0), (4, 3, 1)])
def test_windows_whose_number_is_rounded_up(op_type: str, kernel: int, stride: int, pad: int) -> None:
    settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "ceil_mode": 1}
    inputs = [{"x": normal(1, 2, height, width)} for height, width in ((5, 4), (7, 6), (8, 9))]
    compare(of_image(op_type, **settings), *inputs)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(("kernel", "stride", "pad"), [(1, 2, 0), (2, 3, 0), (3, 2, 1), (3, 4, 1)])
def test_windows_that_may_begin_behind_the_data(op_type: str, kernel: int, stride: int, pad: int) -> None:
    """What lies behind the padding does not count, what lies in it does."""
    settings = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4, "ceil_mode": 1}
    counted = {"count_include_pad": 1} if op_type == "AveragePool" else {}
    inputs = [{"x": normal(1, 2, height, width)} for height, width in ((5, 4), (7, 6), (8, 9))]
    compare(of_image(op_type, **settings, **counted), *inputs)


def test_images_are_cropped_and_padded_to_a_size() -> None:
    proto = of_image("CenterCropPad", "shape", axes=[2, 3], constants={"shape": np.array([5, 6])})
    sizes = ((4, 9), (5, 6), (8, 3), (9, 1))
    function = compare(proto, *({"x": normal(1, 2, *size)} for size in sizes))
    assert function(normal(2, 2, 4, 4)).shape == (2, 2, 5, 6)
    given = [info("x", ("n", 2, "h", "w")), info("shape", (2,), "int64")]
    proto = model([node("CenterCropPad", ["x", "shape"], ["y"], axes=[-1, 0])], given, ["y"])
    compare(
        proto, *({"x": normal(3, 2, 4, 7), "shape": np.array(size)} for size in ((4, 5), (10, 1), (7, 3)))
    )


def test_blocks_of_an_image() -> None:
    function = compare(
        of_image("SpaceToDepth", blocksize=2), {"x": normal(2, 2, 4, 6)}, {"x": normal(1, 2, 2, 8)}
    )
    with pytest.raises(AssertionError, match="SpaceToDepth: axis 3 must be a multiple of 2"):
        function(normal(1, 2, 4, 5))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_images_keep_their_aspect_ratio(policy: str) -> None:
    settings = {"axes": [2, 3], "keep_aspect_ratio_policy": policy, "mode": "linear"}
    proto = of_image("Resize", "", "", "target", constants={"target": np.array([7, 6])}, **settings)
    compare(proto, {"x": normal(1, 2, 4, 5)}, {"x": normal(1, 2, 9, 3)}, {"x": normal(2, 2, 7, 6)})


@pytest.mark.parametrize("is_sorted", [0, 1])
def test_distinct_elements(is_sorted: int) -> None:
    nodes = [node("Unique", ["x"], ["y", "first", "inverse", "count"], sorted=is_sorted)]
    outputs = [info("y", (None,)), *(info(name, (None,), "int64") for name in ("first", "inverse", "count"))]
    proto = model(nodes, [info("x", ("n", "m"))], outputs)
    rows = np.array([[3, 1, 2], [1, -0.0, 3], [0, 7, 1]], "float32")
    compare(proto, {"x": rows}, {"x": rows[:1]}, {"x": rows[:, :1]})


def test_spectra_of_signals_of_open_length() -> None:
    nodes = [
        node("STFT", ["x", "step", "window"], ["frames"]),
        node("Unsqueeze", ["x", "last"], ["wide"]),
        node("DFT", ["wide"], ["whole"], axis=1, onesided=1),
        node("DFT", ["whole"], ["again"], axis=1, inverse=1),
    ]
    constants = {"step": np.array(3), "window": np.hanning(8).astype("float32"), "last": np.array([2])}
    proto = model(nodes, [info("x", ("n", "t"))], ["frames", "whole", "again"], constants, opset=17)
    function = compare(proto, {"x": normal(2, 8)}, {"x": normal(1, 19)})
    with pytest.raises(AssertionError, match="a frame of 8 elements does not fit"):
        function(normal(1, 7))


def test_sizes_are_computed_in_floats() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Cast", ["s"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["f", "two"], ["doubled"]),
        node("Floor", ["doubled"], ["whole"]),
        node("Cast", ["whole"], ["target"], to=onnx.TensorProto.INT64),
        node("Concat", ["x", "x"], ["rows"], axis=0),
        node("Concat", ["rows", "rows"], ["both"], axis=1),
        node("Reshape", ["both", "target"], ["y"]),
    ]
    proto = model(nodes, [info("x", ("n", "m"))], ["y"], {"two": np.array([2.0], "float32")})
    compare(proto, {"x": normal(2, 3)}, {"x": normal(1, 4)})


def test_a_mask_of_another_size_than_the_scores() -> None:
    """A decoder with a past: nothing says that the mask's size is the sum of two others."""
    nodes = [
        node("Concat", ["past", "x"], ["all"], axis=2),
        node("Transpose", ["all"], ["keys"], perm=[0, 1, 3, 2]),
        node("MatMul", ["x", "keys"], ["scores"]),
        node("Add", ["scores", "mask"], ["masked"]),
        node("Softmax", ["masked"], ["shares"]),
        node("MatMul", ["shares", "all"], ["y"]),
    ]
    inputs = [info("x", ("n", 2, "t", 4)), info("past", ("n", 2, "k", 4)), info("mask", ("n", 1, 1, "total"))]
    function = compare(
        model(nodes, inputs, ["y"]),
        {"x": normal(2, 2, 3, 4), "past": normal(2, 2, 0, 4), "mask": normal(2, 1, 1, 3)},
        {"x": normal(1, 2, 1, 4), "past": normal(1, 2, 3, 4), "mask": normal(1, 1, 1, 4)},
        {"x": normal(1, 2, 2, 4), "past": normal(1, 2, 3, 4), "mask": normal(1, 1, 1, 1)},
    )
    for total in (2, 6):
        with pytest.raises(ValueError, match=r"broadcast|must be"):
            function(normal(1, 2, 2, 4), normal(1, 2, 3, 4), normal(1, 1, 1, total))


def test_a_loop_fills_a_sequence() -> None:
    float_, number, flag = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
    carried = [onnx.helper.make_tensor_sequence_value_info(name, float_, None) for name in ("s", "t")]
    body = onnx.helper.make_graph(
        [
            node("Gather", ["x", "i"], ["row"], axis=0),
            node("Identity", ["go"], ["on"]),
            node("SequenceInsert", ["s", "row"], ["t"]),
        ],
        "body",
        [
            onnx.helper.make_tensor_value_info("i", number, ()),
            onnx.helper.make_tensor_value_info("go", flag, ()),
            carried[0],
        ],
        [onnx.helper.make_tensor_value_info("on", flag, ()), carried[1]],
    )
    nodes = [
        node("SequenceEmpty", [], ["none"]),
        node("Loop", ["rounds", "yes", "none"], ["rows"], body=body),
        node("ConcatFromSequence", ["rows"], ["y"], axis=0, new_axis=1),
    ]
    constants = {"rounds": np.array(20), "yes": np.array(True)}
    compare(model(nodes, [info("x", (20, "m"))], ["y"], constants), {"x": normal(20, 3)})
    given = [info("x", (20, "m")), info("rounds", (), "int64")]
    several = [{"x": normal(20, 3), "rounds": np.array(count)} for count in (1, 7, 20)]
    compare(model(nodes, given, ["y"], {"yes": np.array(True)}), *several)
    nodes = [node("SequenceConstruct", ["x"], ["none"]), *nodes[1:]]
    constants["rounds"] = np.array(0)
    compare(model(nodes, [info("x", (20, "m"))], ["y"], constants), {"x": normal(20, 3)})


def test_branches_of_other_ranks() -> None:
    """What the model declares of the result says which branch it means; nothing else would."""
    branches = [
        onnx.helper.make_graph([node(op_type, inputs, ["z"])], op_type, [], [info("z", None)])
        for op_type, inputs in (("Squeeze", ["x", "axis"]), ("Identity", ["x"]))
    ]
    nodes = [
        node("Shape", ["x"], ["size"], start=1, end=2),
        node("Equal", ["size", "axis"], ["is_one"]),
        node("If", ["is_one"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    constants = {"axis": np.array([1])}
    given = [info("x", ("n", "m"))]
    function = compare(model(nodes, given, [info("y", ("k",))], constants), {"x": normal(3, 1)})
    with pytest.raises(AssertionError, match="another rank than declared"):
        function(normal(3, 2))
    with pytest.raises(OnnxError, match=r"(?s)If: one branch gives .*help: .*shapes="):
        nnmagic.from_onnx(model(nodes, given, ["y"], constants), engine="numpy")
