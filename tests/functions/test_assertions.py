"""Assertions of a cell when a call makes them fail: message and location, wherever the function has been."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction
from nnmagic.diagnostics import Source
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells.compile_cell import compile_cell

SOURCE = """\
def checked(x: Tensor[("n",), f32]):
    assert x.sum() > 0, why
    return x * 2

def plain(x: Tensor[("n",), f32]):
    return x * 2
"""
GOOD, BAD = np.ones(2, "float32"), -np.ones(3, "float32")
ERROR = """\
it must be positive: ∑ x
 --> <tinynn>:3:12
  |
3 |     assert x.sum() > 0, why
  |            ^^^^^^^^^^^"""


@pytest.fixture(scope="module")
def functions() -> dict[str, CompiledFunction]:
    source = Source("<tinynn>", SOURCE, first_line=2)
    names = {"why": "it must be positive: ∑ x"}
    return {each.name: each for each in compile_cell(source, names, Options()).functions}


@pytest.fixture(scope="module")
def checked(functions: dict[str, CompiledFunction]) -> CompiledFunction:
    return functions["checked"]


def assert_checks(function: CompiledFunction) -> None:
    np.testing.assert_array_equal(function(GOOD), GOOD * 2)
    with pytest.raises(AssertionError) as caught:
        function(BAD)
    assert str(caught.value) == ERROR
    np.testing.assert_array_equal(function(GOOD), GOOD * 2)


def test_a_failed_assertion_has_its_message_and_location(checked: CompiledFunction) -> None:
    assert_checks(checked)


def test_a_saved_function_asserts_the_same(checked: CompiledFunction, tmp_path: Path) -> None:
    checked.save(tmp_path / "f")
    assert_checks(nnmagic.load(tmp_path / "f"))
    assert_checks(pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(checked)))))


@pytest.mark.parametrize("loaded", [False, True])
def test_another_cell_that_calls_it_asserts_the_same(checked: CompiledFunction, loaded: bool) -> None:
    callee = pickle.loads(pickle.dumps(checked)) if loaded else checked
    caller = nnmagic.compile(
        'def caller(x: Tensor[("n",), f32]):\n    return checked(x)\n', namespace={"checked": callee}
    )
    assert_checks(caller)
    assert_checks(pickle.loads(pickle.dumps(caller)))


def test_two_that_differ_in_the_message_alone_stay_two() -> None:
    source = "def f(x: f32):\n    assert x > 0, why\n    return x\n"
    one, two = (nnmagic.compile(source, namespace={"why": why}) for why in ("first", "second"))
    both = nnmagic.compile(
        "def g(x: f32, y: f32):\n    return one(x) + two(y)\n", namespace={"one": one, "two": two}
    )
    assert both(1.0, 2.0) == 3
    with pytest.raises(AssertionError, match=r"^first\n"):
        both(-1.0, 2.0)
    with pytest.raises(AssertionError, match=r"^second\n"):
        both(1.0, -2.0)


def test_without_a_message_the_location_says_it() -> None:
    f = nnmagic.compile("def f(x: f32):\n    assert x > 0\n    return x\n")
    with pytest.raises(AssertionError, match=r"^the assertion does not hold\n --> <tinynn>:2:12\n"):
        f(-1.0)


def test_modules_have_the_type_of_assertions_only_where_they_use_it(
    functions: dict[str, CompiledFunction], checked: CompiledFunction
) -> None:
    assert "Assertion" in checked.relay.types
    assert "Assertion" not in functions["plain"].relay.types
    assert not checked.types, "it is nothing that a user makes values of"
    names = {"checked": checked, "plain": functions["plain"]}
    twice = nnmagic.compile('def g(x: Tensor[("n",), f32]):\n    return plain(plain(x))\n', namespace=names)
    assert not twice.relay.types


def test_an_assertion_in_a_loop_and_a_match() -> None:
    source = """
class L:
    def N(): ...
    def C(head: f32, tail: L): ...

def f(items: L, n: i32) -> f32:
    total = f32(0)
    for i in range(n):
        assert total < 10, "too much"
        total = total + 4
    match items:
        case N():
            return total
        case C(head, tail):
            assert head > 0, "not positive"
            return head + f(tail, n)
"""
    f = nnmagic.compile(source)
    L = f.types["L"]
    assert f(L.C(1.0, L.C(2.0, L.N())), 2) == 11
    with pytest.raises(AssertionError, match=r"^not positive\n  --> <tinynn>:15:20"):
        f(L.C(1.0, L.C(-2.0, L.N())), 2)
    with pytest.raises(AssertionError, match=r"^too much\n --> <tinynn>:9:16"):
        f(L.N(), 5)


def test_a_match_of_relay_text_keeps_its_own_error() -> None:
    text = """#[version = "0.0.5"]
type Answer { Yes, No, }
def @main(%x: float32) -> float32 {
  %0 = greater(%x, 0f);
  %1 = if (%0) { Yes } else { No };
  match? (%1) { Yes => { %x }, }
}"""
    f = nnmagic.compile(nnmagic.relay.parse(text))
    for function in (f, pickle.loads(pickle.dumps(f))):
        assert function(1.0) == 1
        with pytest.raises(RuntimeError, match=r"no arm of the match at from_string:6:3 takes No"):
            function(-1.0)


def test_a_class_of_one_of_the_names_is_told() -> None:
    source = "class A:\n    def Holds(): ...\n\ndef f(x: f32):\n    assert x > 0\n    return x\n"
    with pytest.raises(nnmagic.TinyNNError, match="has a constructor Holds"):
        nnmagic.compile(source)
    own = "class Assertion:\n    def T(): ...\n\ndef f(x: f32):\n    assert x > 0\n    return x\n"
    with pytest.raises(nnmagic.TinyNNError, match="two different data types are called Assertion"):
        nnmagic.compile(own)
