"""Local functions become global ones, with what they capture as parameters."""

import numpy as np
import pytest

import nnmagic
from nnmagic import relay
from nnmagic.relay.passes.lambda_lifting import lift_local_functions
from tests.engine.programs import VERSION, compile_text
from tests.tinynn.programs.interpreter import run

LOOP = """def @main(%n: int32, %x: Tensor[(2), float32]) {
  let %loop = fn (%i: int32, %z: Tensor[(2), float32]) -> Tensor[(2), float32] {
    if (greater(%i, 0)) { %loop(subtract(%i, 1), add(multiply(%z, %x), %x)) } else { %z }
  };
  %loop(%n, %x)
}
"""
NESTED = """def @main(%n: int32, %x: float32) {
  let %outer = fn (%i: int32, %z: float32) -> float32 {
    let %inner = fn (%j: int32, %w: float32) -> float32 {
      if (greater(%j, 0)) { %inner(subtract(%j, 1), add(%w, %z)) } else { %outer(subtract(%i, 1), multiply(%w, %x)) }
    };
    if (greater(%i, 0)) { %inner(%i, %z) } else { %z }
  };
  add(%outer(%n, %x), %outer(2, 1f))
}
"""  # noqa: E501 - one function a line
KEPT = {
    "it is a value": "let %f = fn (%a: float32) -> float32 { add(%a, %x) };\n  (%f, %f(%x)).1",
    "it is generic": "let %f = fn [A](%a: A) -> A { %a };\n  %f(%x)",
    "it captures a function": (
        "let %g = fn (%a: float32) { fn (%b: float32) -> float32 { add(%a, %b) } };\n"
        "  let %h = %g(%x);\n  let %f = fn (%a: float32) -> float32 { %h(%a) };\n  %f(%x)"
    ),
}


def lift(text):
    return lift_local_functions(relay.infer_type(relay.parse(VERSION + text)))


def test_what_a_loop_captures_is_its_last_parameter():
    lifted = relay.infer_type(lift(LOOP))
    assert set(lifted.functions) == {"main", "main_loop"}
    assert [param.name_hint for param in lifted.functions["main_loop"].params] == ["i", "z", "x"]
    text = lifted.astext()
    assert "let" not in text
    assert text.count("@main_loop(") == 3


@pytest.mark.parametrize("text", [LOOP, NESTED])
def test_a_lifted_module_computes_the_same(text):
    module, lifted = relay.infer_type(relay.parse(VERSION + text)), relay.infer_type(lift(text))
    x = np.array([0.5, -1], "f4") if text is LOOP else np.float32(0.5)
    function = compile_text(text)
    for n in range(4):
        expected = run(module, "main", np.asarray(n, "i4"), np.asarray(x))
        np.testing.assert_array_equal(run(lifted, "main", np.asarray(n, "i4"), np.asarray(x)), expected)
        np.testing.assert_allclose(function([np.int32(n), x]), expected, rtol=1e-6)


def test_loops_in_loops_are_all_lifted():
    assert set(lift(NESTED).functions) == {"main", "main_outer", "main_outer_inner"}


@pytest.mark.parametrize("name", KEPT)
def test_a_local_function_stays_where(name):
    lifted = lift(f"def @main(%x: float32) {{\n  {KEPT[name]}\n}}\n")
    assert set(lifted.functions) == {"main"}
    assert "let %f: fn" in lifted.astext()


def test_a_name_that_is_taken_gets_a_line():
    text = LOOP + "def @main_loop(%x: float32) { %x }\n"
    assert set(lift(text).functions) == {"main", "main_loop", "main_loop_"}


def test_equal_loops_of_one_place_are_one_function():
    source = """
def _total(x, r):
    t = x * 0
    for k in range(r):
        t += x * k
    return t
def f(x: Tensor[("n",), f64], r: i64):
    return _total(x, r) + _total(x + 1, r) * _total(x, r + 1)
"""
    f = nnmagic.compile(source, engine="numpy", cache=False)
    lifted = lift_local_functions(f.relay)
    assert len(lifted.functions) == 2
    x = np.arange(3.0)
    np.testing.assert_array_equal(run(lifted, "f", x, np.array(3)), x * 3 + (x + 1) * 3 * x * 6)
