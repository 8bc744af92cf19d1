"""``nnmagic.step``: the values of a call, judged by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nnmagic

SOURCE = """def foo(x: Tensor[("n",), f32], k: f32):
    y = x - 1.0
    z = sqrt(y) * k
    return z + 1.0
"""


def test_each_value_is_shown_as_numpy_computes_it() -> None:
    x = np.array([0.5, 2, 3], "float32")
    steps = nnmagic.step(nnmagic.compile(SOURCE), x, 2.0)
    with np.errstate(invalid="ignore"):
        root = np.sqrt(x - 1)
    expected = [x, np.float32(2), x - 1, root, root * 2, root * 2 + 1]
    assert [(step.low, step.high, step.nans) for step in steps] == [
        (float(np.nanmin(value)), float(np.nanmax(value)), int(np.isnan(value).sum())) for value in expected
    ]
    assert [step.operation for step in steps][2:] == ["subtract", "sqrt", "multiply", "add"]
    assert [step.span.line for step in steps][2:] == [2, 3, 3, 4]
    np.testing.assert_array_equal(steps.result, expected[-1])
    assert steps.first_nan is steps[3]
    assert "the first NaN is in value 4: sqrt, line 3, whose operands have none" in str(steps)
    assert str(steps) == str(nnmagic.step(nnmagic.compile(SOURCE), x, 2.0))
    bundle = steps._repr_mimebundle_()
    assert '<td class="short">sqrt</td>' in bundle["text/html"]
    assert bundle["text/plain"] == str(steps)


@pytest.mark.full
def test_nan_in_arguments_and_captured_arrays_is_said() -> None:
    f = nnmagic.compile(
        "def f(x: Tensor[(2,), f32]):\n    return x + c\n", namespace={"c": np.float32([np.nan, 1])}
    )
    first = nnmagic.step(f, np.ones(2, "float32")).first_nan
    assert (first.operation, first.line) == ("constant", "    return x + c"), "where it is used"
    assert nnmagic.step(f, np.full(2, np.nan, "float32")).first_nan.operation == "argument %x"
    assert "no value has a NaN" in str(nnmagic.step(nnmagic.compile(SOURCE), np.ones(2, "float32"), 1.0))


def test_an_error_ends_the_run_and_is_shown() -> None:
    f = nnmagic.compile("def f(x: Tensor[(3,), f32], i: i64):\n    y = x * 2.0\n    return y[i]\n")
    steps = nnmagic.step(f, np.ones(3, "float32"), 9)
    assert isinstance(steps.error, IndexError)
    assert "multiply" in [step.operation for step in steps]
    assert "the run ended with IndexError: index 9 is out of range" in str(steps)


def test_values_of_loops_closures_and_open_types_are_there() -> None:
    f = nnmagic.compile(
        "def f(x):\n    s = x\n    while sum(s) < 100.0:\n        s = s * 2.0\n    return s\n"
    )
    x = np.ones(3, "float32")
    steps = nnmagic.step(f, x)
    np.testing.assert_array_equal(steps.result, f(x))
    assert [step.high for step in steps if step.operation == "multiply"] == [2, 4, 8, 16, 32, 64]


def test_what_is_no_compiled_function_is_refused() -> None:
    with pytest.raises(TypeError, match=r"nnmagic\.step takes a compiled function, not"):
        nnmagic.step(len, 3)
    with pytest.raises(TypeError, match="x"):
        nnmagic.step(nnmagic.compile(SOURCE), "text", 1.0)


def test_the_magic_shows_the_table() -> None:
    shell = InteractiveShell()
    try:
        shell.run_line_magic("load_ext", "nnmagic")
        shell.user_ns.update(foo=nnmagic.compile(SOURCE), x=np.zeros(2, "float32"))
        with capture_output() as shown:
            shell.run_line_magic("tinynn", "step foo(x, k=1)")
        text = "".join(output.data["text/plain"] for output in shown.outputs) + shown.stdout
        assert "the first NaN is in value 4: sqrt" in text
    finally:
        InteractiveShell.clear_instance()
