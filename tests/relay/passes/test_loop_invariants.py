"""What the rounds of a loop share is computed before it, unless that may fail."""

# ruff: noqa: E501  # a case reads best on one line

from __future__ import annotations

import numpy as np
import pytest

import nnmagic
from nnmagic.relay import expr as ir
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes import hoist_loop_invariants, lift_local_functions
from nnmagic.relay.structure.traverse import post_order
from tests.tinynn.cases import program_of

HEAD = "def f(x: Tensor[(40, 40), f32], v: Tensor[(40,), f32], n: i64):\n"


def lifted(body: str) -> Module:
    source = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    return lift_local_functions(infer_type(program_of(source).module))


def operators(module: Module, name: str) -> list[str]:
    nodes = post_order(module.functions[name])
    return [node.op.name for node in nodes if isinstance(node, ir.Call) and isinstance(node.op, ir.OpRef)]


def inside(module: Module, *names: str) -> set[str]:
    """The operators of these that a loop computes."""
    loops = [name for name in module.functions if name != "f"]
    return {operator for name in loops for operator in operators(module, name) if operator in names}


@pytest.mark.parametrize(
    ("body", "shared", "kept"),
    [
        ("for i in range(n):\n    v = tanh(v) + exp(x)[3]\nreturn v", {"exp"}, {"tanh"}),
        ("for i in range(n):\n    v = v + softmax(x @ x.T).sum(axis=0)\nreturn v", {"nn.matmul", "nn.softmax", "sum"}, set()),
        ("i = 0\nwhile i < n:\n    i += 1\n    w = exp(x[0])\n    v = w * v if v.sum() > 0 else w\nreturn v", {"exp"}, {"multiply"}),
        ("for i in range(n):\n    v = v + x[i].max()\nreturn v", set(), {"take", "max"}),
        ("for i in range(n):\n    v = v + exp(x[n])\nreturn v", set(), {"take", "exp"}),
        ("for i in range(n):\n    v = v + (x[0][:, None] * x[1]).sum(axis=0)\nreturn v", {"multiply", "sum"}, set()),
        ("for i in range(n):\n    v = v + x[0][:, None] * 2 * x[1]\n    v = v[0]\nreturn v", {"multiply"}, {"add"}),
    ],
)  # fmt: skip
def test_what_the_rounds_share_is_computed_once(body: str, shared: set[str], kept: set[str]) -> None:
    before = lifted(body)
    after = hoist_loop_invariants(before, "f")
    names = shared | kept
    assert inside(before, *names) == names
    assert inside(after, *names) >= kept
    assert not inside(after, *(shared - {"multiply"}))


def test_nested_loops_share_before_the_outer_one() -> None:
    body = (
        "for i in range(n):\n    for j in range(n):\n        v = tanh(v + (x @ x)[0]) + i * exp(v)\nreturn v"
    )
    module = hoist_loop_invariants(lifted(body), "f")
    assert operators(module, "f").count("nn.matmul") == 1
    assert inside(module, "nn.matmul") == set()


def test_a_program_without_shared_parts_stays_the_same() -> None:
    module = lifted("for i in range(n):\n    v = tanh(v) + i\nreturn v")
    assert hoist_loop_invariants(module, "f") is module


def test_the_entry_takes_no_further_arguments() -> None:
    source = (
        "def f(x: Tensor[(4, 4), f32], n: i64) -> Tensor[(4, 4), f32]:\n"
        "    if n <= 0:\n        return x\n    return f(x, n - 1) + exp(x)\n"
    )
    module = infer_type(program_of(source).module)
    assert hoist_loop_invariants(module, "f") is module
    hoisted = hoist_loop_invariants(module, "g")
    assert len(hoisted.functions["f"].params) == 3


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_results_stay_the_same(rounds: int) -> None:
    body = "for i in range(n):\n    for j in range(i):\n        v = tanh(v + (x @ x)[0]) * exp(-abs(x[1]))\nreturn v"
    source = HEAD + "".join(f"    {line}\n" for line in body.split("\n"))
    rng = np.random.default_rng(1)
    x, v = rng.standard_normal((40, 40), "float32"), rng.standard_normal(40, "float32")
    expected = v
    for i in range(rounds):
        for _ in range(i):
            expected = np.tanh(expected + (x @ x)[0]) * np.exp(-abs(x[1]))
    result = nnmagic.compile(source, cache=False)(x, v, rounds)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)


def test_an_index_out_of_range_in_a_round_that_is_not_run_is_no_error() -> None:
    source = HEAD + "    for i in range(n - 40):\n        v = v + exp(x[n])\n    return v\n"
    x = np.ones((40, 40), "float32")
    function = nnmagic.compile(source, cache=False)
    np.testing.assert_array_equal(function(x, x[0], 40), x[0])
    with pytest.raises(IndexError):
        function(x, x[0], 41)


@pytest.mark.parametrize("matrix", ["x", "tanh(x)", "x[:30]", "(x + x.T)"])
def test_a_matrix_that_multiplies_columns_is_transposed_before_the_loop(matrix: str) -> None:
    body = f"for i in range(n):\n    v = v * 0.5 + ({matrix} @ v).sum() + (x @ v)[0]\nreturn v"
    after = hoist_loop_invariants(lifted(body), "f")
    assert operators(after, "f").count("transpose") >= 2 - (matrix == "x")
    assert "transpose" not in inside(after, "transpose")


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_products_with_columns_are_numpys(rounds: int) -> None:
    rng = np.random.default_rng(rounds)
    x, v = rng.uniform(-0.2, 0.2, (40, 40)), rng.standard_normal(40)
    source = HEAD.replace("f32", "f64") + (
        "    w = v[:, None]\n"
        "    for i in range(n):\n"
        "        v = tanh(x @ v) + x[:40] @ v\n"
        "        w = x @ w - x.T @ v[:, None]\n"
        "    return v, w\n"
    )
    w = v[:, None]
    actual = nnmagic.compile(source, cache=False)(x, v, rounds)
    for _ in range(rounds):
        v = np.tanh(x @ v) + x @ v
        w = x @ w - x.T @ v[:, None]
    for one, other in zip(actual, (v, w), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def test_a_loop_whose_inner_loop_shares_a_part_multiplies_its_result() -> None:
    """The call of the inner loop had no type any more when the outer one was looked at."""
    body = (
        "w = x\n"
        "for i in range(n):\n"
        "    for j in range(n):\n        w = w * 0.5 + exp(x)\n"
        "    v = (w @ v[:, None])[:, 0]\n"
        "return v"
    )
    hoisted = hoist_loop_invariants(lifted(body), "f")
    assert "exp" not in {
        operator for name in hoisted.functions if name != "f" for operator in operators(hoisted, name)
    }


def test_a_matrix_without_elements_is_multiplied_as_it_is() -> None:
    """A transpose of it was reshaped to a size of 1: a reshape takes 0 for the size that there was."""
    body = "for i in range(n):\n    v = v + (x[:, :0] @ v[:0][:, None])[:, 0]\nreturn v"
    hoisted = hoist_loop_invariants(lifted(body), "f")
    assert set(hoisted.functions) == set(lifted(body).functions)
