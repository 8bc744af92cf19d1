"""Modules that another front end builds: what they compute by NumPy, and where their errors point."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nnmagic
from nnmagic import relay

TEXT = "first line\nrelu(x, y) + z\n"


def test_a_layer_of_a_named_size() -> None:
    b = relay.Builder()
    x, w = b.var("x", ("n", 3)), b.var("w", (4, 3))
    b.function("main", [x, w], b.call("nn.relu", b.call("add", b.call("dense", x, w), -1.5)))
    rng = np.random.default_rng(0)
    data, weights = rng.normal(size=(5, 3)).astype("float32"), rng.normal(size=(4, 3)).astype("float32")
    main = nnmagic.compile(b.module())
    np.testing.assert_allclose(
        main(data, weights), np.maximum(data @ weights.T - 1.5, 0), rtol=1e-5, atol=1e-6
    )


def test_sizes_of_one_name_are_equal() -> None:
    b = relay.Builder()
    x, y = b.var("x", ("n",)), b.var("y", ("n",))
    b.function("main", [x, y], b.call("add", x, y))
    main = nnmagic.compile(b.module())
    with pytest.raises(ValueError, match="y"):
        main(np.ones(2, "float32"), np.ones(3, "float32"))


def test_recursion_branches_tuples_and_lets() -> None:
    """Fibonacci's numbers: a pair that a function which calls itself moves on."""
    b = relay.Builder()
    number = b.tensor((), "int32")
    n, first, second = (b.var(name, number) for name in ("n", "first", "second"))
    total = b.var("total", number)
    step = b.call_function("go", b.call("subtract", n, 1), second, total)
    more = b.let(total, b.call("add", first, second), step)
    pair = relay.TupleType((number, number))
    b.function("go", [n, first, second], b.if_(b.call("greater", n, 0), more, b.tuple(first, second)), pair)
    count = b.var("count", number)
    b.function("main", [count], b.get(b.call_function("go", count, 0, 1), 0))
    main = nnmagic.compile(b.module())
    assert [int(main(np.int32(k))) for k in range(10)] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


@pytest.mark.parametrize(
    ("op", "count", "attrs", "message"),
    [
        ("reluu", 1, {}, "there is no operator 'reluu'"),
        ("nn.relu", 2, {}, "takes 1 argument"),
        ("sum", 1, {"axes": 1}, "axes"),
    ],
)
def test_errors_point_into_the_source(op: str, count: int, attrs: dict[str, object], message: str) -> None:
    b = relay.Builder(TEXT, "my.language")
    x = b.var("x", (2,))
    span = b.span(2, 1, 2, 11)

    def build() -> relay.Module:
        b.function("main", [x], b.call(op, *[x] * count, span=span, **attrs))
        return b.module()

    with pytest.raises(nnmagic.RelayError, match=message) as caught:
        build()
    assert "my.language:2:1" in str(caught.value)
    assert "relu(x, y) + z\n  | ^^^^^^^^^^" in str(caught.value)


def test_all_errors_of_types_come_at_once() -> None:
    b = relay.Builder(TEXT, "my.language")
    x = b.var("x", (2,))
    for line, name in ((1, "f"), (2, "g")):
        b.function(name, [x := b.var("x", (2,))], b.call("nn.dense", x, x, span=b.span(line, 1)))
    with pytest.raises(nnmagic.RelayError) as caught:
        b.module()
    assert [each.span.line for each in caught.value.diagnostics if each.span] == [1, 2]


def test_recursion_without_a_result_type_says_what_is_missing() -> None:
    b = relay.Builder(TEXT, "my.language")
    x = b.var("x", (2,))
    b.function("f", [x], b.call("sum", b.call_function("f", x), span=b.span(2, 1)))
    with pytest.raises(nnmagic.RelayError, match="give @f a result type"):
        b.module()


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "message"),
    [
        ("n", "float32", TypeError, r"a shape is a tuple of sizes: write \('n',\)"),
        ((3.5,), "float32", ValueError, "not 3.5"),
        ((-3,), "float32", ValueError, "not -3"),
        ((True,), "float32", ValueError, "not True"),
        (("",), "float32", ValueError, "not ''"),
        ((3,), "float33", ValueError, "no dtype 'float33'; the dtypes are bool, int8"),
    ],
)
def test_what_is_no_type_is_refused_at_once(shape: Any, dtype: str, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        relay.Builder().var("x", shape, dtype)


def test_what_is_no_operand_is_refused() -> None:
    b = relay.Builder()
    with pytest.raises(TypeError, match="an operand must be"):
        b.call("exp", "x")  # type: ignore[arg-type]  # what is refused
    b.function("f", [], b.constant(1.0))
    with pytest.raises(nnmagic.RelayError, match="defined twice"):
        b.function("f", [], b.constant(1.0))
