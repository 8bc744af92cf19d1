"""Functions written as ONNX models: onnxruntime gives the numbers that real Relay and NumPy gave.

Fourier transforms (exporters/onnx/operators/signal), too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import nnmagic
from nnmagic.exporters.onnx import files
from nnmagic.exporters.onnx.registry import OPERATORS
from nnmagic.relay.text.parser import parse_module
from tests.engine.programs import assert_close, make_input, read_array
from tests.engine.relax.test_corpus import NO_NUMBERS, NOT_ROUNDED, tolerance
from tests.relay.corpus import parameters

onnxruntime.set_default_logger_severity(4)
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((5, 4)).astype("float32")


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [part for item in value for part in flat(item)]
    return [value]


def run(model: onnx.ModelProto, *args: Any) -> list[np.ndarray]:
    """What onnxruntime computes; the standard's evaluator where it has no kernel for the dtype."""
    onnx.checker.check_model(model, full_check=True)
    feed = {each.name: np.asarray(arg) for each, arg in zip(model.graph.input, flat(args), strict=True)}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return list(ReferenceEvaluator(model).run(None, feed))
    return list(session.run(None, feed))


# -- operators -------------------------------------------------------------------------------------------


def expected(outputs: Any) -> list[np.ndarray]:
    if isinstance(outputs, list):
        return [array for item in outputs for array in expected(item)]
    return expected(outputs["tuple"]) if "tuple" in outputs else [read_array(outputs)]


@pytest.mark.sampled(every=4)
@pytest.mark.parametrize("record", parameters("programs"))
def test_onnxruntime_computes_what_real_relay_computed(record):
    if record["id"] in {*NO_NUMBERS, *NOT_ROUNDED} or record["outputs"] is None or record.get("compare"):
        pytest.skip("no numbers to compare with")
    try:
        model = nnmagic.relay.to_onnx(parse_module(record["text"]))
    except nnmagic.RelayError as refused:
        names = {diagnostic.message.split(":")[0] for diagnostic in refused.diagnostics}
    else:
        names = set()
    whole = {name for name, operator in OPERATORS.items() if not operator.note}
    assert not names & whole, "the page says that these are written in all their forms"
    if names:
        return
    found = run(model, [make_input(each) for each in record["inputs"]])
    for have, want in zip(found, expected(record["outputs"]), strict=True):
        assert_close(have, want, *tolerance(record))


@pytest.mark.parametrize("dtype", ["i8", "u8", "i32", "i64", "u64"])
@pytest.mark.parametrize("power", ["x ** y", "x ** 11", "3 ** y", "x[:, None] ** y"])
def test_powers_of_integers_are_exact(power, dtype):
    parameters = f"x: Tensor[(4,), {dtype}], y: Tensor[(4,), {dtype}]"
    function = nnmagic.compile(f"def f({parameters}):\n    return {power}\n", cache=False)
    model = nnmagic.relay.to_onnx(function.relay)
    numpy_dtype = {"i": "int", "u": "uint"}[dtype[0]] + dtype[1:]
    x, y = np.array([1, 2, 3, 7], numpy_dtype), np.array([0, 5, 40, 23], numpy_dtype)
    given = {each.name: {"x": x, "y": y}[each.name] for each in model.graph.input}
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(run(model, *given.values())[0], eval(power, {"x": x, "y": y}))


@pytest.mark.parametrize(("dtype", "bits"), [("i8", 7), ("u8", 8), ("i64", 63)])
def test_a_power_has_a_step_for_each_bit_that_an_exponent_can_have(dtype, bits):
    parameters = f"x: Tensor[(4,), {dtype}], y: Tensor[(4,), {dtype}]"
    function = nnmagic.compile(f"def f({parameters}):\n    return x ** y\n", engine="numpy")
    operators = [each.op_type for each in nnmagic.relay.to_onnx(function.relay).graph.node]
    assert operators.count("Mod") == bits


@pytest.mark.parametrize("exponent", [-1, -7])
def test_a_power_of_an_integer_to_a_negative_number_is_refused(exponent):
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(4), int32]) {{ power(%x, {exponent}) }}'
    with pytest.raises(nnmagic.RelayError, match="to a negative number"):
        nnmagic.relay.to_onnx(parse_module(text))


# -- cells -----------------------------------------------------------------------------------------------

WEIGHTS = RANDOM.standard_normal((4, 3)).astype("float32")
CELLS = {
    "Fourier transforms": (
        """
def f(x: Tensor[("n", 4), f32]):
    half = np.fft.rfft(x)
    whole = np.fft.ifft(np.fft.fft(x, axis=1, norm="ortho") + 1j, norm="forward")
    return abs(half), np.fft.irfft(half * 2), np.fft.irfft(half, n=5, norm="ortho"), whole.imag
""",
        [(X,)],
    ),
    "branch": (
        """
def f(x: Tensor[("n", 4), f32]):
    if x.sum() < 0:
        x = x + 1
    else:
        x = x - 1
    batch, *_ = x.shape
    return x.reshape(batch, -1, 2)
""",
        [(X,), (X - 3,)],
    ),
    "while and for": (
        """
def f(x: Tensor[("n", 4), f32]):
    s = x
    i = 0
    while s.sum() < 100:
        s = s * 2 + 1
        i = i + 1
    for k in range(x.shape[0]):
        s = s + x[k]
    return s, i
""",
        [(X,), (X + 200,), (X[:1],)],
    ),
    "break": (
        """
def f(x: Tensor[(4,), f32], n: i64):
    y = x
    for i in range(n):
        y = y * x
        if y.sum() > 100:
            break
    return y
""",
        [(np.array([1, 2, 3, 1], "float32"), np.int64(count)) for count in (0, 1, 30)],
    ),
    "early return": (
        """
def f(x: Tensor[("n", 4), f32]):
    for i in range(x.shape[0]):
        if x[i].sum() > 1:
            return x[i] * 2, i
    return x.sum(axis=0), -1
""",
        [(X,), (X - 9,)],
    ),
    "loops in loops": (
        """
def f(x: Tensor[("n", 4), f32]):
    t = 0.0
    for i in range(x.shape[0]):
        for j in range(4):
            if x[i, j] > 0:
                t = t + x[i, j]
            else:
                if t > 2:
                    continue
                t = t - 1.0
    return t
""",
        [(X,)],
    ),
    "assigned elements": (
        """
def f(x: Tensor[("n", 4), f32]):
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * i
    return y
""",
        [(X,)],
    ),
    "functions, constants, tuples": (
        """
def f(p: tuple[Tensor[("n", 4), f32], f32]):
    x, scale = p
    def g(a, b):
        return a * b + w.sum()
    return softmax(g(g(x, x), scale) @ w), (scale, x)
""",
        [((X, np.float32(0.1)),)],
    ),
    "NumPy's functions": (
        """
def f(x: Tensor[("n", "m"), f32]):
    return (np.concatenate([x, x * 2.0]), np.pad(x, 1), np.sort(x, axis=0), np.argmax(x), x.std(axis=0),
            x[1:, ::2], x[::-1], np.round(x * 3), x.astype(i32) // 2, np.cumsum(x, axis=1),
            np.where(x > 0, x, 1.0))
""",
        [(X,), (X[:2, :3] * 9,)],
    ),
}  # fmt: skip


@pytest.mark.full("Fourier transforms")
@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_the_same_function_in_onnxruntime_and_when_it_comes_back(name: str, tmp_path: Path) -> None:
    source, calls = CELLS[name]
    function = nnmagic.compile(source, namespace={"np": np, "w": WEIGHTS})
    path = tmp_path / "f.onnx"
    function.to_onnx(path)
    back = nnmagic.from_onnx(path)
    for args in calls:
        want = flat(function(*args))
        for found in (run(onnx.load(path), *args), flat(back(*flat(args)))):
            for have, number in zip(found, want, strict=True):
                assert have.dtype == np.asarray(number).dtype
                np.testing.assert_allclose(have, number, rtol=1e-5, atol=1e-6)


def test_names_of_parameters_and_dimensions_are_kept(tmp_path: Path) -> None:
    source = 'def f(image: Tensor[("n", 3), f32], k: i32):\n    return image.sum(axis=1), k'
    nnmagic.compile(source).to_onnx(tmp_path / "f.onnx")
    graph = onnx.load(tmp_path / "f.onnx").graph
    assert graph.name == "f"
    assert [each.name for each in graph.input] == ["image", "k"]
    assert [dim.dim_param or dim.dim_value for dim in graph.input[0].type.tensor_type.shape.dim] == ["n", 3]
    assert [dim.dim_param for dim in graph.output[0].type.tensor_type.shape.dim] == ["n"]


def test_an_imported_model_goes_out_again(tmp_path: Path) -> None:
    helper = onnx.helper
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Mul", ["v", "x"], ["w"]), helper.make_node("Identity", ["c"], ["d"])],
        "body",
        [info("i", 7, ()), info("c", 9, ()), info("v", 1, ("n",))],
        [info("d", 9, ()), info("w", 1, ("n",))],
    )
    nodes = [
        helper.make_node("Loop", ["count", "", "x"], ["powers"], body=body),
        helper.make_node("Gemm", ["rows", "k", "b"], ["y"], alpha=0.5),
        helper.make_node("LayerNormalization", ["y", "b"], ["z"]),
    ]
    inputs = [info("count", 7, ()), info("x", 1, ("n",)), info("rows", 1, ("m", 4))]
    constants = [onnx.numpy_helper.from_array(WEIGHTS, "k"), onnx.numpy_helper.from_array(WEIGHTS[0], "b")]
    outputs = [info("powers", 1, ("n",)), info("z", 1, ("m", 3))]
    graph = helper.make_graph(nodes, "net", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    out = nnmagic.relay.to_onnx(nnmagic.relay.from_onnx(model))
    args = np.int64(4), X[:, 0], X
    for have, want in zip(run(out, *args), run(model, *args), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-5)


# -- files -----------------------------------------------------------------------------------------------


@pytest.mark.full
def test_constants_beyond_the_limit_lie_in_a_second_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = RANDOM.standard_normal((4, 1000)).astype("float32")
    function = nnmagic.compile(
        'def f(x: Tensor[("n", 4), f32]): return x @ large + large[0]', namespace={"large": large}
    )
    monkeypatch.setattr(files, "MAX_BYTES", 1000)
    path = tmp_path / "f.onnx"
    function.to_onnx(path)
    assert (tmp_path / "f.onnx.data").stat().st_size >= large.nbytes
    assert path.stat().st_size < 2000
    (found,) = onnxruntime.InferenceSession(path).run(None, {"x": X})
    np.testing.assert_allclose(found, X @ large + large[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(nnmagic.from_onnx(path)(X), function(X))


def test_a_refused_export_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "f.onnx"
    path.write_bytes(b"old")
    function = nnmagic.compile('def f(x: Tensor[("n",), f32]):\n    assert x.sum() > 0\n    return x')
    with pytest.raises(nnmagic.RelayError):
        function.to_onnx(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match="missing"):
        nnmagic.compile('def f(x: Tensor[("n",), f32]): return x').to_onnx(tmp_path / "missing" / "f.onnx")
    with pytest.raises(TypeError, match="the path of a file, not an int"):
        function.to_onnx(3)


# -- errors ----------------------------------------------------------------------------------------------


def test_all_that_onnx_cannot_express_is_reported_with_its_lines(tmp_path: Path) -> None:
    function = nnmagic.compile(
        """
def f(x: Tensor[(4, 4), f32]):
    assert x.sum() > 0, "no"
    y = np.linalg.inv(x)
    return y, np.cumprod(x, axis=0), np.cumprod(y)
""",
        namespace={"np": np},
    )
    with pytest.raises(nnmagic.RelayError) as caught:
        function.to_onnx(tmp_path / "f.onnx")
    found = [(each.message, each.span and each.span.line) for each in caught.value.diagnostics]
    assert found == [
        ("assert: ONNX has no assertions", 3),
        ("linalg.inv: no operator of ONNX computes it", 4),
        ("cumprod: no operator of ONNX computes it", 5),
    ]
    assert [len(each.notes) for each in caught.value.diagnostics] == [0, 0, 1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(x: Tensor[(4,), c64]): return x", "parameter: the parameter x is complex"),
        ("def f(n: i64):\n    if n < 2:\n        return n\n    return f(n - 1) + f(n - 2)", "recursion"),
        (
            "class L:\n    def Cons(x: f32, rest: L): ...\n    def Nil(): ...\n\n"
            "def f(x: f32): return Cons(x, Nil())",
            "result: the result is no tensor but L",
        ),
    ],
)
def test_what_onnx_has_no_types_or_control_flow_for_is_refused(
    source: str, message: str, tmp_path: Path
) -> None:
    function = nnmagic.compile(source)
    with pytest.raises(nnmagic.RelayError, match=message):
        function.to_onnx(tmp_path / "f.onnx")


def test_a_module_needs_a_function_to_export() -> None:
    module = nnmagic.relay.parse(
        '#[version = "0.0.5"]\ndef @a(%x: float32) { %x }\ndef @b(%x: float32) { exp(%x) }'
    )
    with pytest.raises(ValueError, match="several functions: name= says which"):
        nnmagic.relay.to_onnx(module)
    with pytest.raises(ValueError, match="no function 'c'; it has a, b"):
        nnmagic.relay.to_onnx(module, name="c")
    (found,) = run(nnmagic.relay.to_onnx(module, name="b"), np.float32(1))
    np.testing.assert_allclose(found, np.exp(np.float32(1)), rtol=1e-6)
