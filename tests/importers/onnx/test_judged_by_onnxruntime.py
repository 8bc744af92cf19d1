"""What onnxruntime runs: scalars of shape [1], negative pads, padding of open images, old Resize, 4 bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import nnmagic
from nnmagic.importers.onnx.errors import OnnxError
from tests.importers.onnx.graphs import info, model, node

onnxruntime.set_default_logger_severity(4)


def agree(proto: onnx.ModelProto, *arguments: np.ndarray, tolerance: float = 1e-5) -> None:
    """Compare with onnxruntime, without the rewriting that rounds differently."""
    proto.ir_version = 10
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    names = [each.name for each in session.get_inputs()]
    wanted = session.run(None, dict(zip(names, arguments, strict=True)))
    found = nnmagic.from_onnx(proto, engine="numpy", cache=False)(*arguments)
    for have, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)


def one_node(
    operator: str,
    inputs: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    opset: int,
    *,
    constants: Sequence[int] = (),
    outputs: int = 1,
    shapes: Mapping[int, Sequence[object]] | None = None,
) -> tuple[onnx.ModelProto, list[np.ndarray]]:
    """Return a model of one node and its arguments; ``constants``: the inputs that are part of it."""
    names = ["" if each is None else f"i{number}" for number, each in enumerate(inputs)]
    results = [f"o{number}" for number in range(outputs)]
    given = [number for number, each in enumerate(inputs) if each is not None and number not in constants]
    stated = [
        info(names[number], (shapes or {}).get(number, inputs[number].shape), str(inputs[number].dtype))
        for number in given
    ]
    held = {names[number]: inputs[number] for number in constants if inputs[number] is not None}
    proto = model([node(operator, names, results, **attributes)], stated, [], held, opset)
    proto.graph.output.extend(helper.make_empty_tensor_value_info(each) for each in results)
    return onnx.shape_inference.infer_shapes(proto), [inputs[number] for number in given]


X = np.random.default_rng(0).standard_normal((2, 3, 8)).astype("float32")
BYTES = np.arange(9, dtype="uint8").reshape(1, 1, 3, 3)
MATRIX = np.arange(9, dtype="uint8").reshape(3, 3)
BOXES = np.abs(X[:1, :, :4])


def single(value: float, dtype: str = "float32") -> np.ndarray:
    return np.array([value], dtype)


ZERO, SCALE = single(1, "uint8"), single(0.5)
#: operator, inputs, attributes, opset, the inputs that the standard says are of rank 0, how many outputs.
SCALARS: list[tuple[str, list[np.ndarray | None], dict[str, Any], int, list[int], int]] = [
    ("Clip", [X, single(-0.5), single(0.5)], {}, 13, [1, 2], 1),
    ("Clip", [X, None, single(0.5)], {}, 11, [2], 1),
    ("Clip", [X, single(0.1)], {}, 12, [1], 1),
    ("Clip", [np.arange(5), single(1, "int64"), single(3, "int64")], {}, 12, [1, 2], 1),
    ("Clip", [np.asarray(X[0, 0, 0]), single(1), single(3)], {}, 12, [1, 2], 1),
    ("OneHot", [np.array([0, 2]), single(4, "int64"), np.array([0, 1], "float32")], {}, 11, [1], 1),
    ("CumSum", [X, single(1, "int64")], {}, 14, [1], 1),
    ("Trilu", [X, single(1, "int64")], {}, 14, [1], 1),
    ("Pad", [X, np.array([0, 0, 1, 0, 0, 1]), single(2.5)], {}, 13, [2], 1),
    ("TopK", [X, single(2, "int64")], {}, 11, [1], 2),
    ("NonMaxSuppression", [BOXES, BOXES[:, :1, :3], single(2, "int64"), SCALE, SCALE], {}, 11, [2, 3, 4], 1),
    ("QuantizeLinear", [X, single(0.1), single(10, "uint8")], {}, 13, [1, 2], 1),
    ("DequantizeLinear", [BYTES, SCALE, ZERO], {}, 13, [1, 2], 1),
    ("MatMulInteger", [MATRIX, MATRIX, ZERO, ZERO], {}, 10, [2, 3], 1),
    ("QLinearMatMul", [MATRIX, SCALE, ZERO, MATRIX, SCALE, ZERO, SCALE, ZERO], {}, 10, [1, 2, 4, 5, 6, 7], 1),
    ("ConvInteger", [BYTES, BYTES[:, :, :2], ZERO, ZERO], {}, 10, [2, 3], 1),
    ("QLinearConv", [BYTES, SCALE, ZERO, BYTES, SCALE, ZERO, SCALE, ZERO], {}, 10, [1, 2, 4, 5, 6, 7], 1),
    ("PRelu", [X, single(0.25)], {}, 16, [1], 1),
]


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("held", [True, False], ids=["constants", "inputs"])
@pytest.mark.parametrize("case", SCALARS, ids=[f"{i}-{case[0]}" for i, case in enumerate(SCALARS)])
def test_scalars_of_one_element(case: Any, held: bool) -> None:
    operator, inputs, attributes, opset, scalars, outputs = case
    if operator == "OneHot" and not held:
        pytest.skip("its depth must be known")
    constants = scalars if held else []
    proto, given = one_node(operator, inputs, attributes, opset, constants=constants, outputs=outputs)
    agree(proto, *given)


WIDTHS = [
    [0, 0, -1, 0, 0, -1],
    [0, 1, -2, 0, 0, 3],
    [0, 0, 2, 0, 0, -3],
    [0, 0, -1, 0, 0, 2],
    [0, -1, 3, 0, 0, -1],
]


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("form", ["fixed", "open", "at the call"])
@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_negative_pads(mode: str, widths: list[int], form: str) -> None:
    shapes = {0: ["a", "b", "c"]} if form == "open" else {}
    constants = [] if form == "at the call" else [1]
    proto, given = one_node(
        "Pad", [X, np.array(widths)], {"mode": mode}, 19, constants=constants, shapes=shapes
    )
    agree(proto, *given)


def test_negative_pads_of_some_axes() -> None:
    inputs = [X, np.array([-1, 2]), single(1.0), np.array([-1])]
    proto, given = one_node("Pad", inputs, {}, 18, constants=[1, 2, 3])
    agree(proto, *given)
    proto, given = one_node("Pad", [X], {"pads": [0, 0, -1, 0, 0, -2], "value": 3.0}, 2)
    agree(proto, *given)


IMAGE = np.random.default_rng(1).standard_normal((1, 2, 7, 9)).astype("float32")
WEIGHT = np.random.default_rng(2).standard_normal((2, 2, 3, 2)).astype("float32")
OPEN = {"open": ["n", 2, "h", "w"], "unnamed": [None, 2, None, None], "height": [1, 2, "h", 9]}


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("sizes", OPEN)
@pytest.mark.parametrize("strides", [[1, 1], [2, 2], [3, 2]], ids=str)
@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("operator", ["Conv", "ConvTranspose", "MaxPool", "AveragePool"])
def test_padding_of_images_of_open_sizes(operator: str, mode: str, strides: list[int], sizes: str) -> None:
    attributes: dict[str, Any] = {"auto_pad": mode, "strides": strides}
    inputs = [IMAGE, WEIGHT] if operator.startswith("Conv") else [IMAGE]
    if len(inputs) == 1:
        attributes["kernel_shape"] = [3, 2]
    constants = range(1, len(inputs))
    proto, given = one_node(operator, inputs, attributes, 11, constants=constants, shapes={0: OPEN[sizes]})
    agree(proto, *given, tolerance=1e-4)


def test_padding_counts_in_a_mean_if_that_is_said() -> None:
    attributes = {"auto_pad": "SAME_UPPER", "strides": [2, 2], "kernel_shape": [3, 2], "count_include_pad": 1}
    proto, given = one_node("AveragePool", [IMAGE], attributes, 11, shapes={0: OPEN["open"]})
    agree(proto, *given)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("sizes", ["fixed", "open"])
@pytest.mark.parametrize("mode", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("wanted", [[14, 18], [15, 19], [13, 17]], ids=str)
def test_the_output_shape_of_transposed_convolutions(wanted: list[int], mode: str, sizes: str) -> None:
    attributes = {"output_shape": wanted, "strides": [2, 2], "auto_pad": mode}
    shapes = {0: OPEN["open"]} if sizes == "open" else {}
    proto, given = one_node("ConvTranspose", [IMAGE, WEIGHT], attributes, 11, constants=[1], shapes=shapes)
    agree(proto, *given, tolerance=1e-4)


def test_sizes_with_names_stay_known() -> None:
    """What two operators leave of an image is added: their sizes have one name."""
    nodes = [
        node("Conv", ["x", "w"], ["a"], auto_pad="SAME_UPPER", strides=[2, 2]),
        node("MaxPool", ["x"], ["b"], auto_pad="SAME_LOWER", strides=[2, 2], kernel_shape=[3, 3]),
        node("Add", ["a", "b"], ["y"]),
    ]
    proto = model(nodes, [info("x", (1, 2, "h", "w"))], ["y"], {"w": WEIGHT})
    agree(proto, IMAGE, tolerance=1e-4)


@pytest.mark.sampled(every=2)
@pytest.mark.parametrize("sizes", ["fixed", "open"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[2, 2], [1.5, 2.4], [0.5, 0.6], [0.75, 1], [1.3, 0.7]], ids=str)
def test_resize_of_opset_10(scales: list[float], mode: str, sizes: str) -> None:
    shapes = {0: OPEN["open"]} if sizes == "open" else {}
    factors = np.array([1, 1, *scales], "float32")
    for operator, opset in (("Resize", 10), ("Upsample", 9)):
        if operator == "Resize" or min(scales) >= 1:
            proto, given = one_node(
                operator, [IMAGE, factors], {"mode": mode}, opset, constants=[1], shapes=shapes
            )
            agree(proto, *given)


def packed(name: str, values: np.ndarray, kind: int) -> onnx.TensorProto:
    return helper.make_tensor(name, kind, values.shape, values.ravel().tolist())


#: How scales stand: of a matrix of 8 rows and 6 columns.
LAYOUTS: dict[str, tuple[tuple[int, ...], dict[str, int]]] = {
    "the tensor": ((), {}),
    "rows": ((8,), {"axis": 0}),
    "columns": ((6,), {"axis": 1}),
    "blocks of rows": ((2, 6), {"axis": 0, "block_size": 4}),
    "blocks of columns": ((8, 2), {"axis": -1, "block_size": 3}),
    "blocks of other sizes": ((3, 6), {"axis": 0, "block_size": 3}),
}


def dequantized(kind: int, layout: str, *, with_zeros: bool) -> onnx.ModelProto:
    shape, attributes = LAYOUTS[layout]
    low = 0 if kind == TensorProto.UINT4 else -8
    rng = np.random.default_rng(3)
    constants = [packed("w", rng.integers(low, low + 16, (8, 6)), kind)]
    constants.append(numpy_helper.from_array((rng.random(shape) + 0.1).astype("float32"), "s"))
    if with_zeros:
        constants.append(packed("z", np.asarray(rng.integers(low, low + 16, shape)), kind))
    names = ["w", "s", "z"][: len(constants)]
    nodes = [node("DequantizeLinear", names, ["d"], **attributes), node("MatMul", ["x", "d"], ["y"])]
    proto = model(nodes, [info("x", ("n", 8))], ["y"], opset=21)
    proto.graph.initializer.extend(constants)
    return proto


@pytest.mark.parametrize("with_zeros", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4], ids=["int4", "uint4"])
def test_weights_of_4_bits(kind: int, layout: str, with_zeros: bool) -> None:
    agree(dequantized(kind, layout, with_zeros=with_zeros), np.ones((2, 8), "float32"), tolerance=1e-4)


def test_raw_and_external_weights_of_4_bits(tmp_path: Any) -> None:
    proto = dequantized(TensorProto.INT4, "columns", with_zeros=True)
    x = np.eye(8, dtype="float32")
    expected = nnmagic.from_onnx(proto, engine="numpy")(x)
    for tensor in proto.graph.initializer:
        if tensor.data_type == TensorProto.INT4:
            data = bytes(np.array(tensor.int32_data, "uint8"))
            tensor.ClearField("int32_data")
            tensor.raw_data = data
    np.testing.assert_array_equal(nnmagic.from_onnx(proto, engine="numpy")(x), expected)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights", size_threshold=0)
    np.testing.assert_array_equal(nnmagic.from_onnx(path, engine="numpy")(x), expected)
    (tmp_path / "weights").write_bytes(b"\0")
    with pytest.raises(OnnxError, match="needs 24 bytes"):
        nnmagic.from_onnx(path)


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4], ids=["int4", "uint4"])
def test_numbers_are_quantized_to_4_bits_on_the_way(kind: int) -> None:
    ends = {"inputs": ["x", "s", "z"], "axis": 0, "block_size": 4}
    attributes = {"axis": 0, "block_size": 4}
    nodes = [
        node("QuantizeLinear", ends["inputs"], ["q"], **attributes),
        node("DequantizeLinear", ["q", "s", "z"], ["y"], **attributes),
    ]
    proto = model(nodes, [info("x", (8, 6))], [info("y", (8, 6))], opset=21)
    scales = np.full((2, 6), 0.25, "float32")
    proto.graph.initializer.extend(
        [numpy_helper.from_array(scales, "s"), packed("z", np.full((2, 6), 3), kind)]
    )
    agree(proto, np.linspace(-4, 4, 48, dtype="float32").reshape(8, 6))
    proto.graph.output[0].name = "q"
    with pytest.raises(OnnxError, match="a result of 4 bits is not supported"):
        nnmagic.from_onnx(proto)


def test_constants_of_other_small_numbers_are_refused_by_name() -> None:
    proto = model([node("Identity", ["w"], ["y"])], [], ["y"])
    proto.graph.initializer.append(packed("w", np.ones(4), TensorProto.FLOAT8E4M3FN))
    with pytest.raises(OnnxError, match=r"float8_e4m3fn are not supported \('w'\)"):
        nnmagic.from_onnx(proto)
