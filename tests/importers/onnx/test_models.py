"""Models as exporters write them, compared with the standard's evaluator, torch and NumPy."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import nnmagic
from nnmagic.relay import expr as ir
from nnmagic.relay.structure.traverse import post_order
from tests.child_process import run_python
from tests.importers.onnx.graphs import info, judge, model, node

RANDOM = np.random.default_rng(0)
X = np.arange(6, dtype="float32").reshape(2, 3)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


def compare(proto: onnx.ModelProto, *args: np.ndarray, rtol: float = 1e-5, **options: object) -> None:
    found = nnmagic.from_onnx(proto, **options)(*args)
    for have, want in zip(found if isinstance(found, tuple) else (found,), judge(proto, *args), strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=rtol, atol=1e-6)


# -- graphs with little in them --------------------------------------------------------------------------


def test_outputs_may_be_inputs_constants_or_one_value_twice() -> None:
    compare(model([], [info("x")], [info("x")]), X)
    compare(model([], [info("x")], [info("w"), info("x")], {"w": X + 1}), X)
    compare(model([node("Neg", ["x"], ["y"])], [info("x")], [info("y"), info("y")]), X)
    empty = {"s": np.array([0]), "e": np.array([0])}
    compare(model([node("Slice", ["x", "s", "e"], ["y"])], [info("x")], [info("y", (0, 3))], empty), X)


def test_names_may_be_any_text() -> None:
    nodes = [
        node("Sub", ["größe 1", "größe_1"], ["/net/a.1"]),
        node("Mul", ["/net/a.1", "lambda"], ["größe 1 "]),
    ]
    inputs = [info("größe 1"), info("größe_1"), info("lambda")]
    function = nnmagic.from_onnx(model(nodes, inputs, [info("größe 1 ")]))
    np.testing.assert_array_equal(function(X, 2 * X, X + 1), -X * (X + 1))
    assert len(set(function.__signature__.parameters)) == 3


def test_nodes_need_not_be_in_order_and_a_deep_graph_is_no_problem() -> None:
    count = 3000
    nodes = [node("Add", [f"v{i}", "one"], [f"v{i + 1}"]) for i in range(count)]
    proto = model(nodes[::-1], [info("v0")], [info(f"v{count}")], {"one": np.float32(1)})
    module = nnmagic.relay.from_onnx(proto)
    assert str(module).count("add(") == count


def test_the_older_input_form_of_weights() -> None:
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x"), info("w")], [info("y")], {"w": X})
    np.testing.assert_array_equal(nnmagic.from_onnx(proto)(X), X + X)


@pytest.mark.machine_code  # the engine `numpy` keeps nothing on disk
def test_path_bytes_and_proto_are_one_function(tmp_path: object) -> None:
    proto = model([node("Neg", ["x"], ["y"])], [info("x")], [info("y")])
    path = tmp_path / "net.onnx"  # type: ignore[operator]
    onnx.save(proto, path)
    found = [nnmagic.from_onnx(each) for each in (path, str(path), path.read_bytes(), proto)]
    assert len({each.cache_info.key for each in found}) == 1
    assert found[-1].cache_info.hit is not None
    assert found[0].name == "net"
    assert nnmagic.from_onnx(proto, name="other").name == "other"


# -- sizes that only the call knows ----------------------------------------------------------------------


@pytest.mark.full
def test_heads_are_split_with_dynamic_sizes() -> None:
    """Shape, Gather, Concat and Reshape, as exporters write a transformer's heads."""
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Shape", ["p"], ["s"]),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Gather", ["s", "one"], ["t"], axis=0),
        node("Unsqueeze", ["n", "front"], ["n1"]),
        node("Unsqueeze", ["t", "front"], ["t1"]),
        node("Concat", ["n1", "t1", "heads", "rest"], ["target"], axis=0),
        node("Reshape", ["p", "target"], ["q"]),
        node("Transpose", ["q"], ["h"], perm=[0, 2, 1, 3]),
        node("Transpose", ["q"], ["k"], perm=[0, 2, 3, 1]),
        node("MatMul", ["h", "k"], ["scores"]),
        node("Softmax", ["scores"], ["a"], axis=-1),
        node("MatMul", ["a", "h"], ["y"]),
        node("Transpose", ["y"], ["z"], perm=[0, 2, 1, 3]),
        node("Concat", ["n1", "t1", "all"], ["back"], axis=0),
        node("Reshape", ["z", "back"], ["out"]),
    ]
    constants = {
        "w": normal(6, 8), "zero": np.array(0), "one": np.array(1), "front": np.array([0]),
        "heads": np.array([2]), "rest": np.array([4]), "all": np.array([8]),
    }  # fmt: skip
    proto = model(nodes, [info("x", ("n", "t", 6))], [info("out", ("n", "t", 8))], constants)
    function = nnmagic.from_onnx(proto)
    for shape in ((2, 5, 6), (1, 1, 6), (3, 7, 6)):
        x = normal(*shape)
        np.testing.assert_allclose(function(x), judge(proto, x)[0], rtol=1e-4, atol=1e-6)
    assert "dyn." not in function.relay_text


@pytest.mark.full
@pytest.mark.parametrize("steps", [1, 3, 9])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_an_lstm_is_one_loop_over_dynamic_steps(steps: int, direction: str) -> None:
    count = 2 if direction == "bidirectional" else 1
    constants = {"w": normal(count, 20, 4), "r": normal(count, 20, 5), "b": normal(count, 40)}
    lstm = node("LSTM", ["x", "w", "r", "b"], ["y", "h", "c"], hidden_size=5, direction=direction)
    for sizes in ((steps, 2, 4), ("t", "n", 4)):
        proto = model([lstm], [info("x", sizes)], ["y", "h", "c"], constants)
        compare(proto, normal(steps, 2, 4), rtol=1e-4)


@pytest.mark.full
def test_a_loop_collects_as_many_rows_as_it_has_rounds() -> None:
    body = helper.make_graph(
        [
            node("Add", ["state", "x"], ["next"]),
            node("Identity", ["next"], ["row"]),
            node("Identity", ["again"], ["goes"]),
        ],
        "body",
        [info("i", (), "int64"), info("again", (), "bool"), info("state", (3,))],
        [info("goes", (), "bool"), info("next", (3,)), info("row", (3,))],
    )
    loop = node("Loop", ["m", "c", "x"], ["last", "rows"], body=body)
    inputs = [info("m", (), "int64"), info("c", (), "bool"), info("x", (3,))]
    proto = model([loop], inputs, ["last", "rows"])
    function = nnmagic.from_onnx(proto)
    for rounds, begins in ((0, True), (1, True), (40, True), (5, False)):
        last, rows = function(np.array(rounds), np.array(begins), X[0])
        count = rounds if begins else 0
        np.testing.assert_array_equal(last, X[0] * (count + 1))
        np.testing.assert_array_equal(rows, X[0] * np.arange(2, count + 2)[:, None])
        assert rows.shape == (count, 3)
    fixed = model([loop], inputs[1:], ["last", "rows"], {"m": np.array(40)})
    compare(fixed, np.array(True), X[0])


def test_a_loop_ends_when_its_condition_does() -> None:
    body = helper.make_graph(
        [
            node("Mul", ["state", "two"], ["next"]),
            node("Less", ["next", "limit"], ["less"]),
            node("Squeeze", ["less"], ["goes"]),
            node("Identity", ["next"], ["row"]),
        ],
        "body",
        [info("i", (), "int64"), info("again", (), "bool"), info("state", (1,))],
        [info("goes", (), "bool"), info("next", (1,)), info("row", (1,))],
    )
    loop = node("Loop", ["", "c", "x"], ["last", "rows"], body=body)
    inputs = [info("c", (), "bool"), info("x", (1,)), info("limit", (1,))]
    proto = model([loop], inputs, ["last", "rows"], {"two": np.float32(2)})
    compare(proto, np.array(True), *np.array([[1.5], [100]], "float32"))


def test_if_takes_the_branch_that_a_tensor_decides() -> None:
    then = helper.make_graph([node("Neg", ["x"], ["a"])], "then", [], [info("a")])
    other = helper.make_graph([node("Exp", ["x"], ["a"])], "else", [], [info("a")])
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=then, else_branch=other),
    ]
    proto = model(nodes, [info("x")], [info("y")], {"zero": np.float32(0)})
    compare(proto, X)
    compare(proto, -X)


def test_local_functions_with_attributes() -> None:
    alpha = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    inner = node("LeakyRelu", ["a"], ["b"])
    inner.attribute.append(alpha)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    function = helper.make_function("my", "Bend", ["a"], ["b"], [inner], opsets[:1], ["slope"])
    nodes = [
        node("Bend", ["x"], ["y"], domain="my", slope=0.25),
        node("Bend", ["y"], ["z"], domain="my", slope=0.5),
    ]
    graph = helper.make_graph(nodes, "net", [info("x")], [info("z")])
    found = nnmagic.from_onnx(helper.make_model(graph, functions=[function], opset_imports=opsets))
    np.testing.assert_array_equal(found(X - 3), np.where(X < 3, (X - 3) / 8, X - 3))


def test_quantized_weights_round_half_to_even() -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    constants = {"s": np.float32(2), "z": np.uint8(3)}
    proto = model(nodes, [info("x", (8,))], ["q", "y"], constants)
    proto.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    compare(proto, np.array([-9, -1, 1, 3, 5, 7, 600, 0.5], "float32"))


@pytest.mark.sampled(every=3)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("sizes", [(7, 9), (3, 2)])
@pytest.mark.parametrize(
    "transformation", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
)
def test_resize(mode: str, sizes: tuple[int, int], transformation: str) -> None:
    resize = node(
        "Resize", ["x", "", "", "sizes"], ["y"], mode=mode, coordinate_transformation_mode=transformation
    )
    proto = model([resize], [info("x", (1, 2, 5, 4))], ["y"], {"sizes": np.array([1, 2, *sizes])})
    compare(proto, normal(1, 2, 5, 4), rtol=1e-4)


@pytest.mark.full
def test_axes_of_pad_and_slice_may_come_at_the_call() -> None:
    axes = info("a", (1,), "int64")
    padded = model([node("Pad", ["x", "p", "", "a"], ["y"])], [info("x"), info("p", (2,), "int64"), axes], [])
    padded.graph.output.append(info("y", (2, 6)))
    for axis in (1, -1):
        compare(padded, X, np.array([1, 2]), np.array([axis]))
    bounds = [info(name, (1,), "int64") for name in "se"]
    cut = model([node("Slice", ["x", "s", "e", "a"], ["y"])], [info("x"), *bounds, axes], [info("y", (2, 2))])
    for axis in (1, -1):
        compare(cut, X, np.array([1]), np.array([9]), np.array([axis]))


# -- torch -----------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_convolutional_network_of_torch(dynamic: bool) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = torch.nn
    net = layers.Sequential(
        layers.Conv2d(3, 8, 3, 2, 1), layers.BatchNorm2d(8), layers.SiLU(), layers.MaxPool2d(2),
        layers.Conv2d(8, 8, 3, groups=8), layers.AdaptiveAvgPool2d(1), layers.Flatten(), layers.Linear(8, 5),
    ).eval()  # fmt: skip
    x = torch.randn(2, 3, 20, 20)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        axes = {"x": {0: "n"}} if dynamic else None
        torch.onnx.export(net, (x,), file, dynamo=False, input_names=["x"], dynamic_axes=axes)
    function = nnmagic.from_onnx(file.getvalue())
    for batch in (2, 5) if dynamic else (2,):
        x = torch.randn(batch, 3, 20, 20)
        want = net(x).detach().numpy()
        np.testing.assert_allclose(function(x.numpy()), want, rtol=1e-3, atol=1e-6)


def test_weights_stay_what_they_were() -> None:
    weight = normal(3, 4)
    proto = model([node("MatMul", ["x", "w"], ["y"])], [info("x")], ["y"], {"w": weight})
    function = nnmagic.from_onnx(proto)
    proto.graph.initializer[0].CopyFrom(numpy_helper.from_array(weight * 0, "w"))
    np.testing.assert_allclose(function(X), X @ weight, rtol=1e-5)


# -- where Relay comes from -----------------------------------------------------------------------------


def classifier() -> onnx.ModelProto:
    """A network whose nodes have names of many kinds."""
    nodes = [
        node("Gemm", ["x", "w 1", ""], ["h"], name="/fc/Gemm", alpha=0.5),
        node("Softmax", ["h"], ["p"], name="a\nb", axis=-1),
        node("Gather", ["p", "index"], ["q"], axis=1, name="pick"),
    ]
    inputs = [info("x", ("n", 2)), info("index", (2,), "int64")]
    return model(nodes, inputs, [info("q", ("n", 2))], {"w 1": normal(2, 3)})


def test_the_source_is_a_listing_of_the_nodes() -> None:
    function = nnmagic.from_onnx(classifier())
    assert function.stages["source"].splitlines() == [
        "# ai.onnx 19",
        "net(x: float32[n, 2], index: int64[2]) -> (q: float32[n, 2]):",
        "  w 1: float32[2, 3]",
        "  h = Gemm(x, w 1, _, alpha=0.5)  # /fc/Gemm",
        "  p = Softmax(h, axis=-1)  # 'a\\nb'",
        "  q = Gather(p, index, axis=1)  # pick",
    ]


def test_each_call_in_relay_knows_the_line_of_its_node() -> None:
    module = nnmagic.relay.from_onnx(classifier())
    calls = [each for each in post_order(module.functions["net"]) if isinstance(each, ir.Call)]
    lines = {each.op.name: each.span.line for each in calls if isinstance(each.op, ir.OpRef) and each.span}
    assert lines["nn.dense"] == lines["multiply"] == 4
    assert lines["nn.softmax"] == 5
    assert lines["take"] == 6
    assert all(each.span for each in calls)


def test_an_error_of_a_call_and_the_page_name_the_node() -> None:
    function = nnmagic.from_onnx(classifier())
    with pytest.raises(IndexError, match=r"(?s)index 7 is out of range.*<onnx net>:6.*q = Gather.*# pick"):
        function(X[:, :2], np.array([0, 7]))
    assert "q = Gather(p, index, axis=1)  # pick" in function._repr_mimebundle_()["text/html"]


def test_a_loaded_function_keeps_the_listing(tmp_path: Path) -> None:
    function = nnmagic.from_onnx(classifier())
    function.save(tmp_path / "f.nnm")
    loaded = nnmagic.load(tmp_path / "f.nnm")
    assert loaded.stages["source"] == function.stages["source"]
    assert list(loaded.stages) == list(function.stages)
    index = np.array([2, 0])
    np.testing.assert_array_equal(loaded(X[:, :2], index), function(X[:, :2], index))


# -- large models ----------------------------------------------------------------------------------------

_LARGE = """
import sys

import numpy as np

import nnmagic

path, size, to = sys.argv[1:]
result = nnmagic.from_onnx(path)(np.ones((1, int(size)), "float32"))
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
np.save(to, result)
print(int(peak) // 1000)
"""


@pytest.mark.full
def test_500_mb_of_weights_need_little_more_than_one_further_copy(tmp_path: Path) -> None:
    size, layers = 5592, 4
    factors = 1 + np.arange(size, dtype="float32") % 3
    nodes, tensors, row = [], [], np.ones(size, "float32")
    for layer in range(layers):
        weights = np.roll(np.diag(factors), layer + 1, axis=1)
        tensors.append(numpy_helper.from_array(weights, f"w{layer}"))
        nodes.append(node("MatMul", [f"x{layer}", f"w{layer}"], [f"x{layer + 1}"]))
        row = np.roll(row * factors, layer + 1)
    ends = [info("x0", (1, size))], [info(f"x{layers}", (1, size))]
    graph = helper.make_graph(nodes, "large", *ends, tensors)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    path, result = tmp_path / "large.onnx", tmp_path / "result.npy"
    onnx.save(proto, path, save_as_external_data=True)
    megabytes = 4e-6 * size * size * layers
    assert megabytes > 500
    cache = str(tmp_path / "cache")
    done = run_python("-c", _LARGE, str(path), str(size), str(result), NNMAGIC_CACHE_DIR=cache)
    np.testing.assert_array_equal(np.load(result), row[None])
    assert int(done.stdout) <= 2.2 * megabytes + 1000
