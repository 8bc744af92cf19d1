"""Models that cannot be imported: every problem is named with its nodes, and nothing is ignored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import nnmagic
from nnmagic.importers.onnx import OnnxError
from tests.importers.onnx.graphs import info, model, node
from tests.systems import POSIX

X = np.arange(6, dtype="float32").reshape(2, 3)


def refusal(proto: object, **options: object) -> str:
    with pytest.raises(OnnxError) as caught:
        nnmagic.relay.from_onnx(proto, **options)
    return str(caught.value)


def test_all_problems_are_reported_at_once_with_their_nodes() -> None:
    nodes = [
        node("Foo", ["x"], ["a"], name="one"),
        node("Foo", ["a"], ["b"], name="two"),
        node("Relu", ["b"], ["c"], name="three", speed=3),
        node("Bar", ["x"], ["d"], name="four", domain="my.domain"),
        node("Relu", ["x"], ["e"], name="five", speed=3),
    ]
    with pytest.raises(nnmagic.RelayError) as caught:
        nnmagic.from_onnx(model(nodes, [info("x")], [info("c")]))
    messages = [each.message for each in caught.value.diagnostics]
    assert messages == [
        "Foo: opset 19 has no such operator (nodes 'one', 'two')",
        "my.domain.Bar: the model imports no opset of the domain 'my.domain', only of '' (node 'four')",
        "Relu: there is no attribute 'speed' in opset 14 (node 'five')",
    ]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([node("Relu", ["z"], ["y"])], "nothing computes 'z'"),
        ([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"])], "two nodes compute 'y'"),
        (
            [node("Add", ["x", "y"], ["a"], name="p"), node("Neg", ["a"], ["y"], name="q")],
            "cycle: p -> q -> p",
        ),
        ([node("Softmax", ["x"], ["y"], axis=5)], "axis 5 is out of range for a tensor of rank 2"),
        ([node("Concat", ["x", "x"], ["y"])], "the attribute 'axis' is missing"),
        ([node("Concat", ["x", "x"], ["y"], axis=1.5)], "the attribute 'axis' must be a int"),
        ([node("Gelu", ["x"], ["y"])], "opset 19 has no such operator"),
        ([node("MatMul", ["x", "x"], ["y"])], "(2, 3) and (2, 3) cannot be multiplied"),
        ([node("Neg", ["x"], ["z"])], "nothing computes this output"),
    ],
)
def test_bad_graphs(nodes: list[onnx.NodeProto], message: str) -> None:
    assert message in refusal(model(nodes, [info("x")], [info("y")]))


HUGE = 2**62
I8 = np.dtype("int64")

#: Nodes whose sizes no machine has, or whose inputs are not those of the operator: constants, the message.
ABSURD = {
    "negative": (node("ConstantOfShape", ["s"], ["y"]), {"s": [-5, 2]}, "would have a negative dimension"),
    "64 bits": (
        node("ConstantOfShape", ["s"], ["y"]),
        {"s": [2**40, 2**40]},
        "Tensor[(1099511627776, 1099511627776), float32], is larger than any memory",
    ),
    "range": (
        node("Range", ["a", "b", "c"], ["y"]),
        {"a": 0, "b": HUGE, "c": 1},
        f"a constant of {HUGE} numbers is larger than 1024 MB",
    ),
    "no step": (node("Range", ["a", "b", "c"], ["y"]), {"a": 0, "b": 3, "c": 0}, "the step is 0"),
    "expand": (node("Expand", ["x", "s"], ["y"]), {"s": [HUGE, 2, 3]}, "is larger than any memory"),
    "tile": (node("Tile", ["x", "s"], ["y"]), {"s": [HUGE, 1]}, "is larger than any memory"),
    "pad": (node("Pad", ["x", "s"], ["y"]), {"s": [HUGE] * 4}, "is larger than any memory"),
    "edges": (
        node("Pad", ["x", "s"], ["y"], mode="edge"),
        {"s": [0, HUGE, 0, 0]},
        f"a constant of {HUGE + 3} numbers is larger than 1024 MB",
    ),
    "one-hot": (
        node("OneHot", ["i", "s", "v"], ["y"]),
        {"i": [1], "s": HUGE, "v": [0, 1]},
        f"a constant of {HUGE} numbers is larger",
    ),
    "lrn": (node("LRN", ["x"], ["y"], size=2**31), {}, "the size must be from 1 to 1000, not 2147483648"),
    "too many": (node("Relu", ["x", "x"], ["y"]), {}, "it has 2 inputs, and the operator has 1"),
    "too few": (node("Sum", [], ["y"]), {}, "it has 0 inputs, and the operator has 1 to"),
    "rank": (
        node("DepthToSpace", ["x"], ["y"], blocksize=2),
        {},
        "its inputs, (Tensor[(2, 3), float32]), and attributes do not fit the operator: ValueError: not",
    ),
}


@pytest.mark.parametrize("case", ABSURD)
def test_what_no_machine_computes_is_refused_at_its_node(case: str) -> None:
    bad, constants, message = ABSURD[case]
    arrays = {name: np.array(value, I8) for name, value in constants.items()}
    text = refusal(model([bad], [info("x")], ["y"], arrays))
    assert message in text
    assert f"{bad.op_type}: " in text
    assert "node number 0" in text


def test_bad_initializers() -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x")], ["y"], {"w": X})
    weight = proto.graph.initializer[0]
    weight.data_type = 99
    assert "initializer: tensors of element type 99 are not supported ('w')" in refusal(proto)
    weight.data_type = TensorProto.INT4
    weight.raw_data = b""
    assert "the tensor 'w' of shape (2, 3) needs 3 bytes, and has 0" in refusal(proto)
    weight.CopyFrom(TensorProto(name="w", data_type=TensorProto.FLOAT, dims=(0, HUGE), raw_data=b""))
    assert f"the tensor 'w', Tensor[(0, {HUGE}), float32], is larger than any memory" in refusal(proto)


def test_a_name_that_is_no_utf8() -> None:
    data = model([node("Relu", ["x"], ["y"], name="first")], [info("x")], ["y"]).SerializeToString()
    text = refusal(data.replace(b"first", b"fi\xff\xfet"))
    assert "the model: graph: node 0: name is b'fi\\xff\\xfet', which is not UTF-8" in text


def test_what_is_no_model() -> None:
    assert "no ONNX model" in refusal(b"garbage")
    assert "no ONNX model" in refusal(model([], [info("x")], [info("x")]).SerializeToString()[:-5])
    assert "opset 99 is newer than 28" in refusal(model([], [info("x")], [info("x")], opset=99))
    with pytest.raises(TypeError, match="not an int"):
        nnmagic.from_onnx(3)
    with pytest.raises(FileNotFoundError):
        nnmagic.from_onnx("nothing.onnx")
    with pytest.raises(ValueError, match="identifier"):
        nnmagic.from_onnx(model([], [info("x")], [info("x")]), name="a b")


def test_types_that_relay_has_not() -> None:
    text = helper.make_tensor_value_info("x", TensorProto.STRING, (2,))
    assert "tensors of string are not supported ('x')" in refusal(model([], [text], [text]))
    cast = node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN)
    assert "float8e4m3fn" in refusal(model([cast], [info("x")], [info("y")]))
    many = helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, (2,))
    assert "no tensor but a sequence" in refusal(model([], [many], [many]))


def test_shapes_of_inputs() -> None:
    proto = model([node("Relu", ["x"], ["y"])], [info("x", ("n", 3))], [info("y", None)])
    assert str(nnmagic.from_onnx(proto).__signature__).startswith("(x: Tensor[('n', 3), f32]")
    fixed = nnmagic.from_onnx(proto, shapes={"x": (2, 3)})
    np.testing.assert_array_equal(fixed(X), X)
    with pytest.raises(ValueError, match="fixes axis 1 to 3, not 4"):
        nnmagic.from_onnx(proto, shapes={"x": (2, 4)})
    with pytest.raises(ValueError, match="no input 'z'; its inputs are 'x'"):
        nnmagic.from_onnx(proto, shapes={"z": (2,)})
    with pytest.raises(ValueError, match="must have 2 sizes"):
        nnmagic.from_onnx(proto, shapes={"x": (2,)})
    unknown = model([node("Relu", ["x"], ["y"])], [info("x", None)], [info("y", None)])
    assert "shapes={'x': (…)}" in refusal(unknown)
    np.testing.assert_array_equal(nnmagic.from_onnx(unknown, shapes={"x": (2, 3)})(X), X)


def test_a_call_checks_what_the_importer_assumed() -> None:
    proto = model(
        [node("Reshape", ["x", "s"], ["y"])], [info("x"), info("s", (2,), "int64")], [info("y", (3, 2))]
    )
    function = nnmagic.from_onnx(proto)
    for shape in ([3, 2], [-1, 2], [3, -1]):
        np.testing.assert_array_equal(function(X, np.array(shape)), X.reshape(3, 2))
    for shape in ([2, 3], [6, 1], [-1, -1], [0, 2]):
        with pytest.raises(AssertionError, match="shape"):
            function(X, np.array(shape))


def test_indices_out_of_range_are_errors() -> None:
    indices = info("i", (2, 3), "int64")
    for operator in ("Gather", "GatherElements"):
        proto = model([node(operator, ["x", "i"], ["y"])], [info("x"), indices], ["y"])
        function = nnmagic.from_onnx(proto)
        function(X, np.full((2, 3), -2))
        with pytest.raises((IndexError, AssertionError), match="out of range"):
            function(X, np.full((2, 3), 2))


# -- weights in other files ------------------------------------------------------------------------------


def external(folder: Path, **entries: object) -> Path:
    """A model whose weight lies in another file; (folder / "w.bin") has four bytes in front of it."""
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x")], [info("y")], {"w": X})
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(value)
    (folder / "w.bin").write_bytes(b"1234" + X.tobytes())
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    path = external(tmp_path, location="w.bin", offset=4, length=24)
    function = nnmagic.from_onnx(path)
    (tmp_path / "w.bin").write_bytes(b"")  # the function does not depend on the file
    np.testing.assert_array_equal(function(X), X + X)
    assert "not from a file" in refusal(
        onnx.load(external(tmp_path, location="w.bin"), load_external_data=False)
    )


@POSIX
@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"location": "w.bin", "offset": 8}, "needs 24 bytes from byte 8 on"),
        ({"location": "w.bin", "offset": -4}, "has the offset '-4', which is no number"),
        ({"location": "w.bin", "offset": 4, "length": 12}, "gives it 12"),
        ({"location": "../w.bin"}, "outside the model's folder"),
        ({"location": "/etc/hostname"}, "outside the model's folder"),
        ({"location": "a/../../w.bin"}, "outside the model's folder"),
        ({"location": "link.bin", "offset": 4}, "which is a link"),
        ({"location": "none.bin"}, "which does not exist"),
        ({"location": ""}, "outside the model's folder"),
        ({"location": "w.bin", "colour": "red"}, "unknown keys ['colour']"),
    ],
)
def test_bad_external_data(tmp_path: Path, entries: dict[str, object], message: str) -> None:
    (tmp_path / "link.bin").symlink_to(tmp_path / "w.bin")
    assert message in refusal(external(tmp_path, **entries))


def test_a_tensor_without_all_its_bytes() -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x")], [info("y")], {"w": X})
    proto.graph.initializer[0].raw_data = b"123"
    assert "needs 24 bytes, and has 3 ('w')" in refusal(proto)
    short = model([node("Add", ["x", "w"], ["y"])], [info("x")], [info("y")])
    short.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, (2, 3), [1.0] * 6))
    short.graph.initializer[0].float_data.pop()
    assert "needs 24 bytes, and has 20" in refusal(short)


def test_sparse_weights_are_refused() -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x")], [info("y")])
    values = numpy_helper.from_array(np.ones(1, "float32"), "w")
    indices = numpy_helper.from_array(np.zeros(1, "int64"), "i")
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, (2, 3)))
    assert "sparse initializers are not supported" in refusal(proto)


def test_a_function_that_calls_itself() -> None:
    opset = helper.make_opsetid("my", 1)
    again = helper.make_function(
        "my", "Again", ["a"], ["b"], [node("Again", ["a"], ["b"], domain="my")], [opset]
    )
    graph = helper.make_graph([node("Again", ["x"], ["y"], domain="my")], "net", [info("x")], [info("y")])
    opsets = [helper.make_opsetid("", 18), opset]
    proto = helper.make_model(graph, functions=[again], opset_imports=opsets)
    assert "without an end" in refusal(proto)


def test_importing_nnmagic_imports_no_onnx() -> None:
    code = "import sys, nnmagic as n; n.from_onnx, n.relay.from_onnx; print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("op_type", ["MatMul", "Gemm", "Add", "Concat"])
def test_inputs_of_two_dtypes_where_the_operator_wants_one_are_refused(op_type: str) -> None:
    attributes = {"axis": 0} if op_type == "Concat" else {}
    nodes = [node(op_type, ["x", "w"], ["y"], **attributes)]
    proto = model(nodes, [info("x", (2, 2))], [info("y", None)], {"w": np.ones((2, 2))})
    with pytest.raises(nnmagic.RelayError, match="are of the dtypes float32 and float64, and must be of one"):
        nnmagic.relay.from_onnx(proto)
