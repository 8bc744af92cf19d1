"""What a cell becomes: Relay text read by a person, types, sharing, captures, links."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import nnmagic.tinynn.types.annotations as annotations
from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import AnyDim, TensorType, TupleType
from nnmagic.tinynn import MISSING, look_up
from tests.tinynn.cases import errors_of, program_of, text_of


def line_of(expression: str, parameters: str, namespace: dict[str, object] | None = None) -> str:
    """The body of a function that returns one expression."""
    text = text_of(f"def f({parameters}):\n    return {expression}\n", namespace)
    return "\n".join(line.strip() for line in text.splitlines()[1:-1])


def test_the_example_of_the_readme() -> None:
    text = text_of(
        "def foo(a: Tensor[(2, 3), f32], b: Tensor[(3, 4), f32], c: Tensor[(2, 4), f32]):\n"
        "    d = a @ b\n    e = d + c\n    return e\n"
    )
    assert text == (
        "def @foo(%a: Tensor[(2, 3), float32], %b: Tensor[(3, 4), float32], %c: Tensor[(2, 4), float32])"
        " -> Tensor[(2, 4), float32] {\n"
        "  %0 = nn.matmul(%a, %b, units=None);\n"
        "  add(%0, %c)\n"
        "}\n"
    )


@pytest.mark.parametrize(
    ("expression", "parameters", "text"),
    [
        ("x + 1", "x: Tensor[(2,), f32]", "add(%x, 1f)"),
        ("1 - x", "x: Tensor[(2,), i64]", "subtract(1i64, %x)"),
        ("x * 0.5", "x: Tensor[(2,), f16]", "multiply(%x, 0.5f16)"),
        ("x // 2", "x: Tensor[(2,), i32]", "floor_divide(%x, 2)"),
        ("x % 2", "x: Tensor[(2,), f32]", "floor_mod(%x, 2f)"),
        ("x ** 2", "x: Tensor[(2,), f32]", "power(%x, 2f)"),
        ("x / 2", "x: Tensor[(2,), f32]", "divide(%x, 2f)"),
        ("x / 2", "x: Tensor[(2,), i32]", '%0 = cast(%x, dtype="float64");\ndivide(%0, 2f64)'),
        ("-x", "x: f32", "negative(%x)"),
        ("~x", "x: bool_", "logical_not(%x)"),
        ("~x", "x: u8", "bitwise_not(%x)"),
        ("x & y", "x: i32, y: i32", "bitwise_and(%x, %y)"),
        ("x & y", "x: bool_, y: bool_", "logical_and(%x, %y)"),
        ("x >= y", "x: i32, y: i32", "greater_equal(%x, %y)"),
        ("x @ y", "x: Tensor[(5, 2, 3), f32], y: Tensor[(5, 3, 4), f32]", "nn.batch_matmul(%x, %y)"),
        ("relu(x)", "x: f32", "nn.relu(%x)"),
        ("nn.relu(x)", "x: f32", "nn.relu(%x)"),
        ("relay.nn.relu(x)", "x: f32", "nn.relu(%x)"),
        ("x.relu()", "x: f32", "nn.relu(%x)"),
        ("softmax(x)", "x: Tensor[(2, 3), f32]", "nn.softmax(%x)"),
        ("softmax(x, 0)", "x: Tensor[(2, 3), f32]", "nn.softmax(%x, axis=0)"),
        ("sum(x, axis=1)", "x: Tensor[(2, 3), f32]", "sum(%x, axis=[1])"),
        ("leaky_relu(x, alpha=0.1)", "x: f32", "nn.leaky_relu(%x, alpha=0.1f)"),
        ("cast(x, f64)", "x: f32", 'cast(%x, dtype="float64")'),
        ("cast(x, 'float64')", "x: f32", 'cast(%x, dtype="float64")'),
        ("f64(x)", "x: f32", 'cast(%x, dtype="float64")'),
        ("x.astype(f32)", "x: f32", "%x"),
        ("f32(2)", "x: f32", "2f"),
        ("where(x > 0, x, 0)", "x: f32", "%0 = greater(%x, 0f);\nwhere(%0, %x, 0f)"),
        ("maximum(x, 0)", "x: f32", "maximum(%x, 0f)"),
        ("take(x, 1, axis=0)", "x: Tensor[(2, 3), f32]", "take(%x, 1, axis=0)"),
        ("zeros((2, 1 + 2), f32)", "x: f32", 'zeros(shape=[2, 3], dtype="float32")'),
        ("full(1, shape=(2,), dtype=i64)", "x: f32", 'full(1i64, shape=[2], dtype="int64")'),
        ("x[1:]", "x: Tensor[(4,), f32]", "strided_slice(%x, begin=[1], end=[4], strides=[1], axes=[0])"),
        ("max(2, 3) * x", "x: f32", "multiply(3f, %x)"),
        ("x * min(x.shape[0], 2.5)", "x: Tensor[(4,), f32]", "multiply(%x, 2.5f)"),
        ("max(x, 0)", "x: Tensor[(4,), f32]", "max(%x, axis=[0])"),
        ("x[:]", "x: Tensor[(4,), f32]", "%x"),
        ("x.T", "x: Tensor[(4, 2), f32]", "transpose(%x, axes=None)"),
        ("x.reshape(-1, 2)", "x: Tensor[(4, 3), f32]", "reshape(%x, newshape=[6, 2])"),
        ("x.reshape(-1, 2)", 'x: Tensor[("n", 4), f32]', "reshape(%x, newshape=[-1, 2])"),
        ("(x, x)[0]", "x: f32", "%x"),
        ("dropout(x)", "x: f32", "%0 = nn.dropout(%x);\n%0.0"),
    ],
)
def test_text(expression: str, parameters: str, text: str) -> None:
    assert line_of(expression, parameters) == text


def test_a_convolution_with_a_bias() -> None:
    text = line_of(
        "conv2d(x, w, b, kernel_size=(3, 3), strides=2, padding=1)",
        "x: Tensor[(1, 3, 8, 8), f32], w: Tensor[(4, 3, 3, 3), f32], b: Tensor[(4,), f32]",
    )
    assert text == (
        "%0 = nn.conv2d(%x, %w, strides=[2, 2], padding=[1, 1, 1, 1], kernel_size=[3, 3]);\n"
        "nn.bias_add(%0, %b)"
    )
    nhwc = line_of(
        "conv2d(x, w, bias=b, data_layout='NHWC', kernel_layout='HWIO')",
        "x: Tensor[(1, 8, 8, 3), f32], w: Tensor[(3, 3, 3, 4), f32], b: Tensor[(4,), f32]",
    )
    assert nhwc.endswith("nn.bias_add(%0, %b, axis=3)")


def test_a_variable_is_one_node_however_often_it_is_used() -> None:
    program = program_of("def f(x: f32):\n    y = exp(x)\n    z = y\n    return y * z + y\n")
    calls = [node for node in post_order(program.module.functions["f"].body) if isinstance(node, ir.Call)]
    assert [call.op.name for call in calls if isinstance(call.op, ir.OpRef)] == ["exp", "multiply", "add"]


def test_tuples_go_in_and_out() -> None:
    program = program_of(
        "def f(t: tuple[Tensor[(2,), f32], tuple[i32, i32]]):\n"
        "    a, (b, *c) = t\n    a += 1\n    return a, b, c\n"
    )
    function = program.module.functions["f"]
    vector, number = TensorType((2,), "float32"), TensorType((), "int32")
    assert function.params[0].type_annotation == TupleType((vector, TupleType((number, number))))
    assert function.ret_type == TupleType((vector, number, TupleType((number,))))


def test_a_tuple_that_comes_back_whole_is_not_taken_apart() -> None:
    text = text_of("def f(x: Tensor[(4,), f32]):\n    t = split(x, 2)\n    return t\n")
    assert "  split(%x, indices_or_sections=2)\n" in text


def test_named_dimensions_stay_named() -> None:
    source = (
        'def f(x: Tensor[("n", 4, 3), f32], w: Tensor[(3, 5), f32]) -> Tensor[("n", 20), f32]:\n'
        "    batch, *rest = x.shape\n    return (x @ w).reshape(batch, -1)\n"
    )
    function = program_of(source).module.functions["f"]
    assert function.ret_type == TensorType((AnyDim("n"), 20), "float32")


def test_python_values_are_folded() -> None:
    text = line_of("x * (2 ** 3 - 7 // 2) + len(x.shape)", "x: Tensor[(2, 3), f32]")
    assert text == "%0 = multiply(%x, 5f);\nadd(%0, 2f)"


# -- the notebook's names ------------------------------------------------------------------------------------


def test_captured_values() -> None:
    weights = np.ones((3, 4), np.float32)
    namespace = {"W": weights, "n": 2, "hidden": (4,), "np": np, "math": math, "scale": 0.5, "T": np.float32}
    program = program_of(
        "def f(x: Tensor[(n, 3), T]) -> Tensor[(n, *hidden), np.float32]:\n"
        "    return (x @ W + W[0]) * scale * math.pi - np.inf + unused.sum()\n".replace(
            " + unused.sum()", ""
        ),
        namespace,
    )
    constants = {
        id(node): node
        for node in post_order(program.module.functions["f"].body)
        if isinstance(node, ir.Constant)
    }
    arrays = [node.data for node in constants.values() if node.data.ndim]
    assert len(arrays) == 1, "one constant a captured array"
    np.testing.assert_array_equal(arrays[0], weights)
    numbers = sorted(float(node.data) for node in constants.values() if not node.data.ndim)
    assert numbers == [0.5, np.float32(math.pi), math.inf]
    expected = {"Tensor": MISSING, "n": 2, "T": np.float32, "hidden": (4,), "scale": 0.5}
    assert {name: program.captured[name] for name in expected} == expected
    assert program.captured["W"] is arrays[0], "what was compiled, not what the notebook may change"
    assert not np.shares_memory(arrays[0], weights)
    assert program.captured["math.pi"] == math.pi
    same = {name for name, value in program.captured.items() if look_up(namespace, name) is value}
    assert set(program.captured) - same == {"W", "hidden"}, "what may change is copied"


@pytest.mark.parametrize(
    ("value", "expression", "text"),
    [
        (1 / np.sqrt(64), "x * k", "multiply(%x, 0.125f)"),
        (np.float32(0.5), "x * k", "multiply(%x, 0.5f)"),
        (np.int64(3), "x.reshape(k * 2)", "reshape(%x, newshape=[6])"),
        (np.int64(3), "x * k", "multiply(%x, 3f)"),
        (np.uint8(3), "x[:, :k - 1]", "strided_slice(%x, begin=[0], end=[2], strides=[1], axes=[1])"),
        (np.bool_(True), "sum(x, axis=0, keepdims=k)", "sum(%x, axis=[0], keepdims=True)"),
        (np.str_("float64"), "cast(x, k)", 'cast(%x, dtype="float64")'),
    ],
)
def test_a_numpy_scalar_is_a_python_number(value: object, expression: str, text: str) -> None:
    assert line_of(expression, "x: Tensor[(2, 3), f32]", {"k": value}) == text


def test_members_of_nnmagic_by_whatever_name_the_notebook_gives_it() -> None:
    import nnmagic.tinynn.types.annotations

    parameter = "x: nm.tinynn.types.annotations.Tensor[(2,), nm.f32]"
    source = f"def f({parameter}):\n    return nm.nn.relu(x) + nm.exp(x)\n"
    program = program_of(source, {"nm": nnmagic})
    text = program_of("def f(x: Tensor[(2,), f32]):\n    return nn.relu(x) + exp(x)\n").module.astext()
    assert program.module.astext() == text


def test_an_array_is_captured_as_it_is_now() -> None:
    weights = np.zeros((3,), np.float32)
    program = program_of("def f(x: Tensor[(3,), f32]):\n    return x + W\n", {"W": weights})
    weights[:] = 9
    constants = [
        node for node in post_order(program.module.functions["f"].body) if isinstance(node, ir.Constant)
    ]
    assert [node.data.tolist() for node in constants] == [[0, 0, 0]]


def test_names_that_are_missing_are_recorded() -> None:
    """So that a later definition of the name makes a cached result stale."""
    program = program_of("def f(x: f32):\n    y = x\n    return relu(y)\n")
    assert program.captured == {"f32": MISSING, "relu": MISSING}


def test_the_notebooks_own_annotations() -> None:
    image = annotations.Tensor[(1, 3, "n"), annotations.f32]
    program = program_of(
        "def f(x: Image, y: Scalar):\n    return x * y\n", {"Image": image, "Scalar": annotations.f32}
    )
    assert program.module.functions["f"].ret_type == TensorType((1, 3, AnyDim("n")), "float32")


def test_local_names_come_first() -> None:
    namespace = {"relu": 5, "y": 7, "g": 1}
    source = "def g(y: f32):\n    return y\n\ndef f(relu: f32):\n    y = g(relu)\n    return y\n"
    program = program_of(source, namespace)
    assert set(program.captured) == {"f32"}


def test_the_language_by_the_name_of_its_module() -> None:
    import nnmagic

    source = "def f(x: nm.Tensor[(2,), nm.f32]):\n    return nm.relay.nn.relu(x)\n"
    program = program_of(source, {"nm": nnmagic})
    assert program.module.functions["f"].ret_type == TensorType((2,), "float32")
    other = program_of(source.replace("nm.", "nnmagic."), {"Tensor": int, "f32": int, "relu": int})
    assert other.module.functions["f"].ret_type == TensorType((2,), "float32")


def test_an_operator_by_its_whole_name_when_a_module_has_its_first_part() -> None:
    import types

    module = types.ModuleType("torch.nn")
    text = line_of("nn.relu(x)", "x: f32", {"nn": module})
    assert text == "nn.relu(%x)"


# -- functions of a cell and of earlier cells ----------------------------------------------------------------


@dataclass
class Compiled:
    """Stands for a compiled function: all that the language asks of one."""

    __relay_global__: tuple[str, Module]


def compile_cell(source: str, namespace: dict[str, object] | None = None) -> dict[str, object]:
    program = program_of(source, namespace)
    return {info.name: Compiled((info.name, program.module)) for info in program.functions}


def test_functions_call_each_other_in_any_order() -> None:
    text = text_of(
        "def f(x: Tensor[(2, 3), f32]):\n    return g(y=x) + 1\n\n"
        'def g(y: Tensor[("n", 3), f32]):\n    """Doubles."""\n    return y * 2\n'
    )
    assert text == (
        "def @f(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {\n"
        "  %0 = @g(%x);\n  add(%0, 1f)\n}\n\n"
        "def @g(%y: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {\n"
        "  multiply(%y, 2f)\n}\n"
    )


def test_functions_of_earlier_cells_are_linked_with_what_they_call() -> None:
    earlier = compile_cell("def h(x: f32):\n    return x + 1\n\ndef g(x: f32):\n    return h(x) * 2\n")
    program = program_of("def f(a: f32):\n    return g(a) + h(a)\n", earlier)
    assert set(program.module.functions) == {"f", "g", "h"}
    assert [info.name for info in program.functions] == ["f"]


def test_a_linked_function_keeps_the_meaning_that_it_was_compiled_with() -> None:
    earlier = compile_cell("def h(x: f32):\n    return x + 1\n\ndef g(x: f32):\n    return h(x) * 2\n")
    text = text_of("def f(a: f32):\n    return g(a)\n\ndef h(a: f32):\n    return a - 5\n", earlier)
    assert "def @g(%x: float32) -> float32 {\n  %0 = @h_1(%x);\n  multiply(%0, 2f)\n}" in text
    assert "def @h_1(%x1: float32) -> float32 {\n  add(%x1, 1f)\n}" in text
    assert "subtract(%a1, 5f)" in text


def test_a_linked_function_may_have_another_name_in_the_notebook() -> None:
    earlier = compile_cell("def g(x: f32):\n    return x * 2\n")
    text = text_of("def g(a: f32):\n    return old(a)\n", {"old": earlier["g"]})
    assert "def @g(%a: float32) -> float32 {\n  @g_1(%a)\n}" in text


def test_named_dimensions_of_a_callee_take_the_callers() -> None:
    source = (
        'def g(a: Tensor[("n",), f32], b: Tensor[("n",), f32]):\n    return a + b\n\n'
        'def f(x: Tensor[("m",), f32], y: Tensor[(4,), f32]):\n    return g(x, x) * x, g(y, y) * y\n'
    )
    function = program_of(source).module.functions["f"]
    assert function.ret_type == TupleType(
        (TensorType((AnyDim("m"),), "float32"), TensorType((4,), "float32"))
    )


# -- what a program holds ------------------------------------------------------------------------------------


def test_function_infos() -> None:
    source = (
        'def f(x: f32):\n    """Adds.\n\n    One.\n    """\n    return x + 1\n\ndef _g(x: f32): return x\n'
    )
    first, second = program_of(source).functions
    assert (first.name, first.docstring) == ("f", "Adds.\n\nOne.")
    assert (first.span.line, first.span.end_line) == (2, 7)
    assert first.source == source.split("\n\ndef _g", maxsplit=1)[0]
    assert (second.name, second.docstring, second.source) == ("_g", None, "def _g(x: f32): return x")


def test_every_node_has_a_span() -> None:
    program = program_of("def f(x: Tensor[(2, 2), f32]):\n    y = x @ x\n    return relu(y[0] * 2)\n")
    for node in post_order(program.module.functions["f"]):
        assert node.span is not None
        assert 2 <= node.span.line <= 4
    (product,) = [
        node
        for node in post_order(program.module.functions["f"])
        if isinstance(node, ir.Call) and isinstance(node.op, ir.OpRef) and node.op.name == "nn.matmul"
    ]
    assert str(product.span) == "cell:3:9"
    assert product.checked_type == TensorType((2, 2), "float32")


def test_from_future_import_and_a_docstring_may_stand_first() -> None:
    source = '"""A cell."""\nfrom __future__ import annotations\n\ndef f(x: f32): return x\n'
    assert not errors_of(source)


def test_a_long_sum_needs_no_deep_recursion() -> None:
    program = program_of("def f(x: f32):\n    return " + " + ".join(["x"] * 800) + "\n")
    assert program.module.functions["f"].ret_type == TensorType((), "float32")


@pytest.mark.full
def test_a_long_function() -> None:
    lines = "".join(f"    x = relu(x * 2 - {number})\n" for number in range(1000))
    assert program_of(f"def f(x: f32):\n{lines}    return x\n").module.functions["f"].ret_type is not None


def test_gelu_is_the_exact_one() -> None:
    from nnmagic.engine.relax import build

    x = np.linspace(-6, 6, 101)
    program = program_of("def f(x: Tensor[(101,), f64]):\n    return gelu(x)\n")
    expected = [value * 0.5 * (1 + math.erf(value / math.sqrt(2))) for value in x]
    np.testing.assert_allclose(build(program.module, "f")([x]), expected, rtol=1e-6, atol=1e-9)
