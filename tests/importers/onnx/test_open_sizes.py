"""Models with sizes that only the call knows: what exporters write to compute shapes, beside onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import nnmagic
from tests.importers.onnx.graphs import info, model, node

onnxruntime.set_default_logger_severity(4)
RANDOM = np.random.default_rng(0)


def compare(proto: onnx.ModelProto, *inputs: dict[str, np.ndarray]) -> nnmagic.CompiledFunction:
    """Run a model on several inputs, of other sizes."""
    proto.ir_version = 9
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    function = nnmagic.from_onnx(proto, cache=False)
    for given in inputs:
        wanted = session.run(None, given)
        found = function(*given.values())
        for have, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            assert (have.shape, have.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-5)
    return function


def normal(*shape: int) -> dict[str, np.ndarray]:
    return {"x": RANDOM.standard_normal(shape).astype("float32")}


def test_positions_are_taken_from_a_table_up_to_the_length() -> None:
    """The rows of the table are min(t, 8) many; adding them to rows of length t fails beyond 8."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "one"], ["t"]),
        node("Slice", ["table", "zero", "t", "zero"], ["rows"]),
        node("Add", ["x", "rows"], ["sum"]),
        node("Reshape", ["sum", "target"], ["heads"]),
        node("MatMul", ["heads", "w"], ["y"]),
    ]
    constants = {
        "table": RANDOM.standard_normal((8, 4)).astype("float32"),
        "w": RANDOM.standard_normal((2, 2)).astype("float32"),
        "target": np.array([0, 0, 2, 2]),
        "zero": np.array([0]),
        "one": np.array([1]),
    }
    proto = model(nodes, [info("x", ("n", "t", 4))], ["y"], constants)
    function = compare(proto, normal(2, 5, 4), normal(1, 8, 4), normal(3, 1, 4), normal(3, 0, 4))
    with pytest.raises(ValueError, match="do not broadcast"):
        function(**normal(2, 9, 4))


@pytest.mark.parametrize("rows", [8, "m"])
def test_slices_up_to_a_size_are_clipped(rows: int | str) -> None:
    """Both the slice and what is computed from its size are those of the standard."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "zero"], ["t"]),
        node("Add", ["t", "two"], ["end"]),
        node("Slice", ["table", "zero", "end", "zero"], ["part"]),
        node("Concat", ["part", "x"], ["both"], axis=0),
        node("MatMul", ["both", "w"], ["y"]),
        node("Shape", ["part"], ["size"]),
        node("Expand", ["one", "size"], ["ones"]),
        node("Mul", ["part", "ones"], ["z"]),
    ]
    constants = {
        "w": RANDOM.standard_normal((3, 2)).astype("float32"),
        "zero": np.array([0]),
        "two": np.array([2]),
        "one": np.ones((1, 1), "float32"),
    }
    size = info("size", (2,), "int64")
    proto = model(nodes, [info("x", ("t", 3)), info("table", (rows, 3))], ["y", "z", size], constants)
    table = normal(8, 3)["x"]
    compare(proto, *({**normal(count, 3), "table": table} for count in (4, 6, 7, 11, 1, 0)))


def test_slices_up_to_a_size_are_carried_through_loops() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["table", "zero", "s", "zero"], ["part"]),
        node("Loop", ["count", "", "part"], ["y"], body=_twice()),
    ]
    constants = {"zero": np.array([0]), "count": np.array(30), "table": np.arange(6, dtype="float32")}
    compare(model(nodes, [info("x", ("t",))], ["y"], constants), normal(4), normal(6), normal(9))


def _twice() -> onnx.GraphProto:
    """Return the body of a loop that adds a tensor to itself."""
    add = [node("Add", ["v", "v"], ["w"]), node("Identity", ["again"], ["still"])]
    scalars = [onnx.helper.make_tensor_value_info("round", onnx.TensorProto.INT64, ())]
    scalars.append(onnx.helper.make_tensor_value_info("again", onnx.TensorProto.BOOL, ()))
    after = [onnx.helper.make_tensor_value_info("still", onnx.TensorProto.BOOL, ()), info("w", ("k",))]
    return onnx.helper.make_graph(add, "body", [*scalars, info("v", ("k",))], after)


def test_slices_whose_start_may_be_outside_must_be_within_the_axis() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["table", "s", "far", "zero"], ["part"]),
    ]
    constants = {"zero": np.array([0]), "far": np.array([2**60]), "table": np.arange(6, dtype="float32")}
    proto = model(nodes, [info("x", ("t",))], ["part"], constants)
    function = compare(proto, normal(4), normal(6), normal(0))
    with pytest.raises(AssertionError, match="Slice: the bounds t and 6 of axis 0 must be within 6"):
        function(**normal(9))


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [(-1, 2**40, 1), (1, 2, 1), (1, -2, 1), (-3, -1, 1), (1, 2**40, 2)],
)
def test_slices_counted_from_either_end_have_sizes(start: int, end: int, step: int) -> None:
    constants = {
        **{name: np.array([value]) for name, value in zip("seap", (start, end, 1, step), strict=True)},
        "w": RANDOM.standard_normal((3, 2)).astype("float32"),
    }
    nodes = [node("Slice", ["x", "s", "e", "a", "p"], ["part"]), node("MatMul", ["part", "w"], ["y"])]
    proto = model(nodes, [info("x", ("n", "t", 3))], ["y"], constants)
    function = compare(proto, normal(2, 5, 3), normal(1, 4, 3))
    if step == 1:
        with pytest.raises(AssertionError, match=r"Slice: the axis 1 must have [1-3] or more"):
            function(**normal(2, 0, 3))


def test_the_target_of_expand_is_chosen_between_sizes() -> None:
    """The older exporter of torch replaces -1 in a target by 1, with a comparison."""
    nodes = [
        node("Shape", ["x"], ["sizes"], start=0, end=2),
        node("Concat", ["sizes", "own"], ["s"], axis=0),
        node("Equal", ["s", "minus"], ["open"]),
        node("Where", ["open", "ones", "s"], ["target"]),
        node("Expand", ["row", "target"], ["wide"]),
        node("Concat", ["wide", "x"], ["both"], axis=1),
        node("MatMul", ["both", "w"], ["y"]),
    ]
    constants = {
        "own": np.array([-1]),
        "minus": np.array([-1, -1, -1]),
        "ones": np.array([1, 1, 1]),
        "row": RANDOM.standard_normal((1, 1, 3)).astype("float32"),
        "w": RANDOM.standard_normal((3, 2)).astype("float32"),
    }
    proto = model(nodes, [info("x", ("n", "t", 3))], ["y"], constants)
    function = compare(proto, normal(2, 5, 3), normal(1, 4, 3))
    assert "where(" not in function.relay_text, "a constant chooses, and nothing is computed"


def test_the_target_of_a_detection_head_is_a_product_of_sizes() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Slice", ["s", "two", "four"], ["image"]),
        node("ReduceProd", ["image"], ["places"], keepdims=1),
        node("Slice", ["s", "zero", "two"], ["rest"]),
        node("Concat", ["rest", "places"], ["target"], axis=0),
        node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {name: np.array([number]) for name, number in (("zero", 0), ("two", 2), ("four", 4))}
    proto = model(nodes, [info("x", ("n", 3, "h", "w"))], ["y"], constants)
    compare(proto, normal(2, 3, 4, 5), normal(1, 3, 2, 2))


def test_the_grid_of_a_detection_head_is_counted_in_floats() -> None:
    """The sum with the grid has the sizes of the image, so that it can be flattened."""
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "two"], ["w"]),
        node("Cast", ["w"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Range", ["low", "f", "step"], ["grid"]),
        node("Add", ["x", "grid"], ["sum"]),
        node("Reshape", ["sum", "flat"], ["y"]),
    ]
    constants = {
        "low": np.array(0.0, "float32"),
        "step": np.array(1.0, "float32"),
        "two": np.array(2),
        "flat": np.array([0, -1]),
    }
    proto = model(nodes, [info("x", ("n", 3, "w"))], ["y"], constants)
    compare(proto, normal(2, 3, 4), normal(1, 3, 7))


@pytest.mark.full
def test_a_range_between_sizes_has_their_difference() -> None:
    """The positions of a step of a decoder with a past of k tokens."""
    nodes = [
        node("Shape", ["past"], ["ps"]),
        node("Shape", ["x"], ["xs"]),
        node("Gather", ["ps", "one"], ["k"]),
        node("Gather", ["xs", "one"], ["t"]),
        node("Add", ["k", "t"], ["end"]),
        node("Range", ["k", "end", "one"], ["places"]),
        node("Gather", ["table", "places"], ["rows"]),
        node("Add", ["x", "rows"], ["y"]),
        node("Concat", ["past", "x"], ["next"], axis=1),
    ]
    constants = {"table": RANDOM.standard_normal((16, 3)).astype("float32"), "one": np.array(1)}
    inputs = [info("x", ("n", "t", 3)), info("past", ("n", "k", 3))]
    proto = model(nodes, inputs, ["y", "next"], constants)
    compare(
        proto,
        {**normal(2, 5, 3), "past": normal(2, 7, 3)["x"]},
        {**normal(1, 1, 3), "past": normal(1, 3, 3)["x"]},
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("mode", "transformation", "exclude"),
    [
        ("nearest", "asymmetric", 0),
        ("nearest", "half_pixel", 0),
        ("linear", "half_pixel", 0),
        ("linear", "align_corners", 0),
        ("linear", "half_pixel_symmetric", 0),
        ("cubic", "pytorch_half_pixel", 0),
        ("cubic", "half_pixel", 1),
    ],
)
def test_images_of_open_size_are_resized_to_those_of_another(
    mode: str, transformation: str, exclude: int
) -> None:
    options = {"mode": mode, "coordinate_transformation_mode": transformation, "exclude_outside": exclude}
    nodes = [
        node("Shape", ["like"], ["target"]),
        node("Resize", ["x", "", "", "target"], ["y"], **options),
    ]
    inputs = [info("x", ("n", 2, "h", "w")), info("like", ("n", 2, "H", "W"))]
    proto = model(nodes, inputs, ["y"])
    sizes = ((1, 2, 5, 4), (1, 2, 9, 7)), ((1, 2, 6, 8), (1, 2, 3, 4))
    compare(proto, *({**normal(*old), "like": normal(*new)["x"]} for old, new in sizes))


@pytest.mark.full
@pytest.mark.parametrize("scale", [2.0, 1.5])
def test_images_of_open_size_are_scaled(scale: float) -> None:
    resize = node("Resize", ["x", "", "scales"], ["y"], mode="linear")
    constants = {"scales": np.array([1, 1, scale, scale], "float32")}
    compare(
        model([resize], [info("x", ("n", 2, "h", "w"))], ["y"], constants),
        normal(1, 2, 5, 4),
        normal(2, 2, 6, 6),
    )


@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("what", ["scales", "sizes"])
def test_images_are_resized_by_what_is_given_at_the_call(what: str, opened: bool) -> None:
    inputs = [info("x", ("n", 2, "h", "w") if opened else (2, 2, 5, 4))]
    inputs.append(info(what, (4,), "float32" if what == "scales" else "int64"))
    given = ["x", "", what] if what == "scales" else ["x", "", "", what]
    nodes = [node("Resize", given, ["y"], mode="linear")]
    proto = model(nodes, inputs, [info("y", (None, 2, None, None))])
    targets = [[1, 1, 2.4, 0.5], [1, 1, 1, 3]] if what == "scales" else [[2, 2, 7, 9], [2, 2, 5, 1]]
    dtype = "float32" if what == "scales" else "int64"
    function = compare(proto, *({**normal(2, 2, 5, 4), what: np.array(each, dtype)} for each in targets))
    with pytest.raises(AssertionError, match="the new size of axis 1 must be 2"):
        function(*normal(2, 2, 5, 4).values(), np.array([1, 3, 2, 2], dtype))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_norms_of_windows_of_images_of_open_size(p: int) -> None:
    pads = {"auto_pad": "SAME_UPPER"} if p == 3 else {"pads": [1, 0, 0, 1]}
    nodes = [node("LpPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 1], p=p, **pads)]
    compare(model(nodes, [info("x", ("n", 2, "h", "w"))], ["y"]), normal(1, 2, 5, 4), normal(2, 2, 8, 3))


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_of_open_number_in_images_of_open_size(mode: str) -> None:
    options = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5}
    nodes = [node("RoiAlign", ["x", "rois", "which"], ["y"], mode=mode, **options)]
    inputs = [info("x", ("n", 2, "h", "w")), info("rois", ("r", 4)), info("which", ("r",), "int64")]
    boxes = np.array([[0, 0, 9, 7], [3, 2, 20, 12], [-4, 1, 2, 3]], "float32")
    compare(
        model(nodes, inputs, ["y"]),
        {**normal(2, 2, 6, 8), "rois": boxes, "which": np.array([1, 0, 1])},
        {**normal(1, 2, 5, 3), "rois": boxes[:1], "which": np.array([0])},
    )


@pytest.mark.parametrize("known", [True, False])
def test_sequences_of_pieces_whose_lengths_the_call_gives(known: bool) -> None:
    nodes = [
        node("SplitToSequence", ["x", "lengths"], ["pieces"], axis=0),
        node("SequenceAt", ["pieces", "one"], ["y"]),
        node("SequenceLength", ["pieces"], ["count"]),
    ]
    outputs = [info("y", (None, 3)), info("count", (), "int64")]
    lengths, one = np.array([2, 3, 0]), np.array(1)
    inputs = [info("x", ("n", 3))] + ([] if known else [info("lengths", (3,), "int64")])
    proto = model(nodes, inputs, outputs, {"one": one, **({"lengths": lengths} if known else {})})
    given = {} if known else {"lengths": lengths}
    function = compare(proto, {**normal(5, 3), **given})
    with pytest.raises(AssertionError, match="SplitToSequence: the lengths must divide axis 0"):
        function(**normal(6, 3), **given)
    if not known:
        with pytest.raises(AssertionError, match="the lengths must divide"):
            function(**normal(5, 3), lengths=np.array([6, -1, 0]))
