"""Structural equality: what counts as the same program and what does not."""

import numpy as np
import pytest

from nnmagic.relay.expr import Call, Function, OpRef, Tuple, Var, constant
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.types import AnyDim, TensorType


def module(text):
    return parse_module('#[version = "0.0.5"]\n' + text)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("def @f(%x) { exp(%x) }", "def @f(%other) { exp(%other) }"),
        ("def @f(%x) { let %a = exp(%x); %a }", "def @f(%x) { let %b = exp(%x); %b }"),
        ("def @f[A](%x: A) -> A { %x }", "def @f[B](%x: B) -> B { %x }"),
        ("def @f(%x: fn [A](A) -> A) { %x }", "def @f(%x: fn [B](B) -> B) { %x }"),
        ("def @f(%x) { %0 = exp(%x); (%0, %0) }", "def @f(%x) { %7 = exp(%x); (%7, %7) }"),
        ("def @f(%x) { match (%x) { (%a, _) => %a } }", "def @f(%x) { match (%x) { (%b, _) => %b } }"),
        ("def @f() { () }\ndef @g() { 1 }", "def @g() { 1 }\ndef @f() { () }"),
        ("def @f(%x) { sum(%x, axis=[0]) }", "def @f(%x) { sum(%x, exclude=False, axis=[0]) }"),
        (
            "type L[A] { C(A), }\ndef @f(%x: L[bool]) { %x }",
            "type L[B] { C(B), }\ndef @f(%x: L[bool]) { %x }",
        ),
    ],
)
def test_the_same_program(left, right):
    assert structural_equal(module(left), module(right))
    assert structural_equal(module(right), module(left))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("def @f(%x) { exp(%x) }", "def @f(%x) { tanh(%x) }"),
        ("def @f(%x) { exp(%x) }", "def @g(%x) { exp(%x) }"),
        ("def @f(%x, %y) { %x }", "def @f(%x, %y) { %y }"),
        ("def @f(%x, %y) { (%x, %y) }", "def @f(%x, %y) { (%x, %x) }"),
        ("def @f(%x) { %x }", "def @f(%x, %y) { %x }"),
        ("def @f(%x) { %0 = exp(%x); (%0, %0) }", "def @f(%x) { (exp(%x), exp(%x)) }"),
        ("def @f(%x) { 1f }", "def @f(%x) { 1f64 }"),
        ("def @f(%x) { 0f }", "def @f(%x) { -0f }"),
        ("def @f(%x) { 1 }", "def @f(%x) { True }"),
        ("def @f(%x: float32) { %x }", "def @f(%x) { %x }"),
        ("def @f(%x: Tensor[(2), int8]) { %x }", "def @f(%x: Tensor[(3), int8]) { %x }"),
        ("def @f(%x: Tensor[(2), int8]) { %x }", "def @f(%x: Tensor[(2i64), int8]) { %x }"),
        ("def @f(%x: Tensor[(2), int8]) { %x }", "def @f(%x: Tensor[(?), int8]) { %x }"),
        ("def @f(%x) -> bool { %x }", "def @f(%x) { %x }"),
        ("def @f[A, B](%x: A) { %x }", "def @f[A, B](%x: B) { %x }"),
        ("def @f(%x) { sum(%x, axis=[0]) }", "def @f(%x) { sum(%x, axis=[1]) }"),
        ("def @f(%x, Primitive=1) { %x }", "def @f(%x, Primitive=True) { %x }"),
        ("def @f(%x, Primitive=1) { %x }", "def @f(%x) { %x }"),
        ("def @f(%x) { %x.0 }", "def @f(%x) { %x.1 }"),
        ("def @f(%x) { match (%x) { _ => 1 } }", "def @f(%x) { match? (%x) { _ => 1 } }"),
        ("def @f(%x) { match (%x) { _ => 1 } }", "def @f(%x) { match (%x) { %a => 1 } }"),
        ("type L { C, D }\ndef @f() { C }", "type L { C, D }\ndef @f() { D }"),
        ("type L { C }\ndef @f() { 1 }", "def @f() { 1 }"),
        ("type L { C(bool) }\ndef @f() { 1 }", "type L { C(int8) }\ndef @f() { 1 }"),
        ("def @f(%x) { ref(%x) }", "def @f(%x) { ref_read(%x) }"),
    ],
)
def test_another_program(left, right):
    assert not structural_equal(module(left), module(right))
    assert not structural_equal(module(right), module(left))


def test_an_expression_shared_by_two_functions():
    shared = Call(OpRef("exp"), (constant(1.0),))
    both = Module({"f": Function((), shared), "g": Function((), Tuple((shared,)))})
    split = Module(
        {"f": Function((), shared), "g": Function((), Tuple((Call(OpRef("exp"), (constant(1.0),)),)))}
    )
    assert structural_equal(both, both)
    assert not structural_equal(both, split)


def test_free_variables():
    x, y = Var("x"), Var("y")
    assert structural_equal(Tuple((x,)), Tuple((x,)))
    assert not structural_equal(Tuple((x,)), Tuple((y,)))
    assert structural_equal(Tuple((x, x)), Tuple((y, y)), map_free_vars=True)
    assert not structural_equal(Tuple((x, x)), Tuple((y, x)), map_free_vars=True)


def test_constants_by_their_bits():
    assert structural_equal(constant(np.array([np.nan, 1])), constant(np.array([np.nan, 1])))
    assert not structural_equal(constant(np.zeros((2, 1))), constant(np.zeros((1, 2))))


def test_labels_of_dimensions_are_left_out():
    one, other = Var("x", TensorType((AnyDim("n"),))), Var("x", TensorType((AnyDim(),)))
    assert structural_equal(Function((one,), one), Function((other,), other))


def test_a_module_is_no_expression():
    assert not structural_equal(Module(), constant(1))


def test_a_type_variable_may_be_that_of_a_function_and_of_its_variables_type():
    """Inference gives a variable the type of the function bound to it, the parser reads another `A` there."""
    text = '#[version = "0.0.5"]\ndef @main() {\n  let %f = fn [A](%a: A) -> A {\n    %a\n  };\n  %f(1)\n}\n'
    typed = infer_type(parse_module(text))
    assert structural_equal(typed, infer_type(parse_module(typed.astext())))
    assert structural_equal(infer_type(parse_module(typed.astext())), typed)
