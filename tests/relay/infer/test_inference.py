"""Type inference of modules built through the IR: what each kind of expression gets, and what is refused."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nnmagic.diagnostics import RelayError, Span
from nnmagic.limits import MAX_ERRORS
from nnmagic.relay import infer
from nnmagic.relay.expr import (
    Call,
    Clause,
    Constructor,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    constant,
)
from nnmagic.relay.infer import erase_types, infer_type
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.ops.calls import call
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.text.types import type_text
from nnmagic.relay.types import (
    ANY,
    AnyDim,
    FuncType,
    GlobalTypeVar,
    RefType,
    TensorType,
    TupleType,
    TypeCall,
    TypeVar,
    scalar_type,
)
from tests.work import count_calls

T23 = TensorType((2, 3))
BOOL = scalar_type("bool")
INT = scalar_type("int32")
F32 = scalar_type("float32")


def result_of(*functions, types=(), **named):
    """The result type of @main, as text."""
    module = Module(
        {"main": functions[0], **named} if functions else named, {t.header.name: t for t in types}
    )
    return type_text(infer_type(module).functions["main"].ret_type)


def errors_of(main, types=(), **named):
    """The messages of the errors of a module, in order."""
    with pytest.raises(RelayError) as caught:
        infer_type(Module({"main": main, **named}, {t.header.name: t for t in types}))
    return [diagnostic.message for diagnostic in caught.value.diagnostics]


def list_type():
    """``type List[A] { Cons(A, List[A]), Nil }`` with its constructors."""
    name, a = GlobalTypeVar("List"), TypeVar("A")
    cons = Constructor("Cons", (a, TypeCall(name, (a,))), name, 0)
    nil = Constructor("Nil", (), name, 1)
    return TypeData(name, (a,), (cons, nil)), cons, nil


# --- what is inferred -------------------------------------------------------------------------------------


def test_every_node_gets_its_type_and_the_input_module_stays_as_it_is():
    x = Var("x", T23)
    total = call("sum", [x])
    pair = Tuple((x, total))
    main = Function((x,), TupleGetItem(pair, 1))
    typed = infer_type(Module({"main": main})).functions["main"]
    assert [type_text(node.checked_type) for node in post_order(typed) if not isinstance(node, OpRef)] == [
        "Tensor[(2, 3), float32]",
        "float32",
        "(Tensor[(2, 3), float32], float32)",
        "float32",
        "fn (Tensor[(2, 3), float32]) -> float32",
    ]
    assert typed.ret_type == F32
    assert main.ret_type is None
    assert x.checked_type is None


def test_a_shared_node_stays_one_node_and_keeps_its_span():
    span = Span("cell", 3, 1, 3, 9)
    x = Var("x", T23)
    shared = call("exp", [x], span)
    typed = infer_type(Module({"main": Function((x,), call("add", [shared, shared]))})).functions["main"]
    left, right = typed.body.args
    assert left is right
    assert left.span == span
    assert left.args[0] is typed.params[0]


def test_functions_that_share_a_node_have_their_own_afterwards():
    """As in real Relay, which infers function by function; a function's own sharing stays."""
    shared = call("exp", [constant(np.arange(6, dtype="float32"))])
    functions = {"f": Function((), call("add", [shared, shared])), "g": Function((), shared)}
    typed = infer_type(Module(functions)).functions
    assert typed["f"].body.args[0] is typed["f"].body.args[1] is not typed["g"].body


def test_let_and_pattern_variables_are_annotated_and_marked_as_inferred():
    x, v = Var("x", T23), Var("v")
    typed = infer_type(Module({"main": Function((x,), Let(v, call("exp", [x]), v))})).functions["main"]
    let = typed.body
    assert let.var.type_annotation == let.var.checked_type == T23
    assert let.var.inferred
    assert not typed.params[0].inferred


def test_an_unannotated_parameter_gets_its_type_from_the_call():
    x, a, f = Var("x", T23), Var("a"), Var("f")
    body = Let(f, Function((a,), call("add", [call("exp", [a]), a])), Call(f, (x,)))
    assert result_of(Function((x,), body)) == "Tensor[(2, 3), float32]"


def test_an_unannotated_parameter_gets_its_type_from_the_result():
    a = Var("a")
    typed = infer_type(Module({"main": Function((a,), call("exp", [a]), T23)}))
    assert typed.functions["main"].params[0].checked_type == T23


def test_an_unannotated_weight_gets_its_type_from_the_data_and_the_attributes():
    x, w, b = Var("x", T23), Var("w"), Var("b")
    dense = Call(OpRef("nn.dense"), (x, w), {"units": 4})
    main = Function((x, w, b), Call(OpRef("nn.bias_add"), (dense, b)))
    typed = infer_type(Module({"main": main})).functions["main"]
    assert [type_text(p.checked_type) for p in typed.params[1:]] == [
        "Tensor[(4, 3), float32]",
        "Tensor[(4), float32]",
    ]
    assert typed.ret_type == TensorType((2, 4))


def test_a_missing_attribute_gets_its_default():
    x = Var("x", T23)
    main = Function((x,), Call(OpRef("nn.softmax"), (x,)))
    assert infer_type(Module({"main": main})).functions["main"].body.attrs == {"axis": -1}


def test_a_projection_waits_for_its_tuple():
    x, p, f = Var("x", T23), Var("p"), Var("f")
    body = Let(f, Function((p,), TupleGetItem(p, 1)), Call(f, (Tuple((constant(1), x)),)))
    assert result_of(Function((x,), body)) == "Tensor[(2, 3), float32]"


def test_a_higher_order_function_is_inferred_from_its_use():
    x, g, w, z, apply = Var("x", T23), Var("g"), Var("w"), Var("z"), Var("apply")
    twice = Function((g, w), Call(g, (Call(g, (w,)),)))
    double = Function((z,), call("add", [z, z]))
    typed = infer_type(Module({"main": Function((x,), Let(apply, twice, Call(apply, (double, x))))}))
    assert type_text(typed.functions["main"].body.var.checked_type) == (
        "fn (fn (Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32], Tensor[(2, 3), float32])"
        " -> Tensor[(2, 3), float32]"
    )


def test_a_generic_global_takes_a_type_for_each_call():
    a = TypeVar("A")
    p, x, y = Var("p", a), Var("x", T23), Var("y", INT)
    identity = Function((p,), p, a, (a,))
    main = Function((x, y), Tuple((Call(GlobalVar("id"), (x,)), Call(GlobalVar("id"), (y,)))))
    typed = infer_type(Module({"id": identity, "main": main})).functions["main"]
    assert type_text(typed.ret_type) == "(Tensor[(2, 3), float32], int32)"
    assert [field.type_args for field in typed.body.fields] == [(T23,), (INT,)]


def test_a_generic_let_bound_function_takes_a_type_for_each_call():
    a = TypeVar("A")
    p, f, x, y = Var("p", a), Var("f"), Var("x", T23), Var("y", INT)
    body = Let(f, Function((p,), p, a, (a,)), Tuple((Call(f, (x,)), Call(f, (y,)))))
    assert result_of(Function((x, y), body)) == "(Tensor[(2, 3), float32], int32)"


def test_a_generic_function_may_be_passed_where_a_plain_one_is_wanted():
    a = TypeVar("A")
    p, g, x = Var("p", a), Var("g", FuncType((T23,), T23)), Var("x", T23)
    functions = {
        "id": Function((p,), p, a, (a,)),
        "use": Function((g,), Call(g, (constant(np.ones((2, 3), "float32")),)), T23),
    }
    assert result_of(Function((x,), Call(GlobalVar("use"), (GlobalVar("id"),))), **functions) == (
        "Tensor[(2, 3), float32]"
    )


def test_a_parameter_may_be_a_generic_function():
    a, b = TypeVar("A"), TypeVar("B")
    g, p, x = Var("g", FuncType((a,), a, (a,))), Var("p", b), Var("x", T23)
    use = Function((g, x), Tuple((Call(g, (x,)), Call(g, (constant(1),)))))
    main = Function((x,), Call(use, (Function((p,), p, b, (b,)), x)))
    assert result_of(main) == "(Tensor[(2, 3), float32], int32)"


def test_a_callee_without_result_type():
    """Real Relay asks a caller only for what is written; who looks into the callee knows more."""
    x, z = Var("x", T23), Var("z", T23)
    main, callee = Function((x,), Call(GlobalVar("z_last"), (x,))), Function((z,), call("sum", [z]))
    message = "in @main: cannot infer the result type of @z_last: callers know of it only what is written"
    assert errors_of(main, z_last=callee) == [message]
    module = Module({"main": main, "z_last": callee})
    typed = infer_type(module, look_into_callees=True)
    assert str(typed.functions["main"].ret_type) == "float32"
    assert structural_equal(typed, infer_type(typed))
    assert result_of(replace(main, ret_type=scalar_type("float32")), z_last=callee) == "float32"


def countdown(ret_type, name="main"):
    """``def @name(%n) { if (%n == 0) { 0 } else { @name(%n - 1) } }``"""
    n = Var("n", INT)
    again = Call(GlobalVar(name), (call("subtract", [n, constant(1)]),))
    return Function((n,), If(call("equal", [n, constant(0)]), constant(0), again), ret_type)


def test_a_recursive_global_needs_its_result_type():
    n = Var("n", INT)
    main = Function((n,), Call(GlobalVar("f"), (n,)))
    assert result_of(main, f=countdown(INT, "f")) == "int32"
    message = "in @main: cannot infer the result type of @f: callers know of it only what is written"
    assert errors_of(main, f=countdown(None, "f")) == [message]
    recursive = Module({"main": countdown(None)})
    assert str(infer_type(recursive, look_into_callees=True).functions["main"].ret_type) == "int32"


def test_a_local_function_may_call_itself():
    x, loop, i = Var("x", INT), Var("loop"), Var("i", INT)
    again = Call(loop, (call("subtract", [i, constant(1)]),))
    value = Function((i,), If(call("equal", [i, constant(0)]), i, again))
    assert result_of(Function((x,), Let(loop, value, Call(loop, (x,))))) == "int32"


def test_references():
    x, r, u = Var("x", T23), Var("r"), Var("u")
    body = Let(r, RefCreate(x), Let(u, RefWrite(r, call("exp", [x])), Tuple((RefRead(r), u, r))))
    typed = infer_type(Module({"main": Function((x,), body)})).functions["main"]
    assert typed.ret_type == TupleType((T23, TupleType(()), RefType(T23)))


def test_data_types_take_their_arguments_from_the_constructors_fields():
    data, cons, nil = list_type()
    x, h, t = Var("x", T23), Var("h"), Var("t")
    two = Call(cons, (x, Call(cons, (x, Call(nil, ())))))
    arms = (
        Clause(PatternConstructor(cons, (PatternVar(h), PatternVar(t))), Tuple((h, t))),
        Clause(PatternConstructor(nil), Tuple((x, two))),
    )
    assert result_of(Function((x,), Match(two, arms)), types=[data]) == (
        "(Tensor[(2, 3), float32], List[Tensor[(2, 3), float32]])"
    )


def test_an_unannotated_parameter_gets_its_type_from_a_pattern():
    data, cons, nil = list_type()
    h, p, x, f = Var("h"), Var("p"), Var("x", F32), Var("f")
    pattern = PatternTuple((PatternConstructor(cons, (PatternVar(h), PatternWildcard())), PatternWildcard()))
    value = Function((p,), Match(p, (Clause(pattern, h),), complete=False))
    arg = Tuple((Call(cons, (x, Call(nil, ()))), x))
    assert result_of(Function((x,), Let(f, value, Call(f, (arg,)))), types=[data]) == "float32"


# --- unknown dimensions -----------------------------------------------------------------------------------


def test_an_unknown_dimension_agrees_with_any_and_the_result_is_unknown():
    c, x, y = Var("c", BOOL), Var("x", TensorType((ANY, 3))), Var("y", T23)
    assert result_of(Function((c, x, y), If(c, x, y))) == "Tensor[(?, 3), float32]"


def test_a_label_that_both_branches_have_is_kept():
    n = TensorType((AnyDim("n"), 3))
    c, x, y, z = Var("c", BOOL), Var("x", n), Var("y", n), Var("z", TensorType((AnyDim("m"), 3)))
    typed = infer_type(Module({"main": Function((c, x, y, z), Tuple((If(c, x, y), If(c, x, z))))}))
    assert typed.functions["main"].ret_type == TupleType((n, TensorType((ANY, 3))))


def callee_with_labels(*labels):
    """``def @f(%p0: Tensor[("n"), f32], ...)`` whose result has the first parameter's type."""
    params = tuple(Var(f"p{i}", TensorType((AnyDim(label),))) for i, label in enumerate(labels))
    return Function(params, call("exp", [params[0]]), params[0].type_annotation)


@pytest.mark.parametrize("dim", [3, AnyDim("batch"), ANY])
def test_a_callees_label_stands_for_the_arguments_dimension(dim):
    x = Var("x", TensorType((dim,)))
    main = Function((x,), Call(GlobalVar("f"), (x,)))
    typed = infer_type(Module({"f": callee_with_labels("n"), "main": main}))
    assert typed.functions["main"].ret_type == TensorType((dim,))


def test_a_callees_label_is_not_the_callers_label_of_that_name():
    x, y = Var("x", TensorType((AnyDim("n"),))), Var("y", TensorType((AnyDim("m"),)))
    main = Function((x, y), Call(GlobalVar("f"), (y,)))
    typed = infer_type(Module({"f": callee_with_labels("n"), "main": main}))
    assert typed.functions["main"].ret_type == TensorType((AnyDim("m"),))


def test_arguments_that_contradict_a_label_are_refused():
    x, y = Var("x", TensorType((3,))), Var("y", TensorType((4,)))
    main = Function((x, y), Call(GlobalVar("f"), (x, y)))
    assert errors_of(main, f=callee_with_labels("n", "n")) == [
        "in @main: @f: the dimension 'n' cannot be both 3 and 4"
    ]


# --- what is refused --------------------------------------------------------------------------------------

X, Y, C = Var("x", T23), Var("y", TensorType((2, 4))), Var("c", BOOL)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (Call(OpRef("nn.dens"), (X, X)), "there is no operator nn.dens"),
        (Call(OpRef("add"), (X,)), "add takes 2 arguments (lhs, rhs), got 1"),
        (Call(OpRef("nn.softmax"), (X,), {"axes": 1}), "nn.softmax has no attribute 'axes'"),
        (Call(GlobalVar("f"), (X,)), "there is no function @f"),
        (Call(X, ()), "only a function can be called, found Tensor[(2, 3), float32]"),
        (TupleGetItem(X, 0), "only a tuple has a field 0, found Tensor[(2, 3), float32]"),
        (
            TupleGetItem(Tuple((C,)), 1),
            "there is no field 1 in (bool,): fields count from 0",
        ),
        (If(X, X, X), "the condition of an if: expected bool, found Tensor[(2, 3), float32]"),
        (
            If(C, X, Y),
            "the second branch of an if: expected Tensor[(2, 3), float32], found Tensor[(2, 4), float32]: "
            "dimension 1: 3 is not 4",
        ),
        (RefRead(X), "the reference of ref_read: expected ref(_), found Tensor[(2, 3), float32]"),
        (Var("loose", T23), "the variable %loose is used but nothing binds it"),
        (Tuple((OpRef("exp"),)), "the operator exp is not a value, it can only be called"),
        (
            Let(Var("v", Y.type_annotation), X, X),
            "the value of %v: expected Tensor[(2, 4), float32], found Tensor[(2, 3), float32]: "
            "dimension 1: 4 is not 3",
        ),
        (
            Let(Var("v", TypeCall(GlobalTypeVar("L"), ())), X, X),
            "there is no data type L",
        ),
        (
            Function((Var("p", TypeVar("A")),), X),
            "the type variable A is no type parameter of a function around it",
        ),
        (
            call("repeat", [constant(np.ones((2,), "float32"))], repeats=2**62, axis=0),
            "repeat: the result Tensor[(9223372036854775808), float32] is too large",
        ),
        (
            call("strided_slice", [Var("n", TensorType((-2,)))], begin=[0], end=[1]),
            "strided_slice: an axis of -2 elements cannot be sliced",
        ),
        (
            Call(OpRef("gather"), (constant(np.ones(2, "float32")), constant(np.ones(2, "int32")))),
            "gather: axis must be given",
        ),
        (Match(X, ()), "a match needs an arm"),
        (Function((Var("p"),), X), "cannot infer the type of %p"),
    ],
)
def test_refused(body, message):
    result = errors_of(Function((X, Y, C), body))
    assert result[0].startswith(f"in @main: {message}"), result


def test_an_operators_own_message_names_it_and_points_at_the_operands():
    x = Var("x", T23, span=Span("cell", 1, 9, 1, 11))
    y = Var("y", TensorType((2, 4)), span=Span("cell", 1, 30, 1, 32))
    with pytest.raises(RelayError) as caught:
        infer_type(Module({"main": Function((x, y), call("add", [x, y], Span("cell", 2, 3, 2, 14)))}))
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message.startswith("add: ")
    assert diagnostic.span == Span("cell", 2, 3, 2, 14)
    assert [(note.message, note.span.column) for note in diagnostic.notes] == [
        ("%x is Tensor[(2, 3), float32]", 9),
        ("%y is Tensor[(2, 4), float32]", 30),
    ]


def test_a_declared_result_type_must_hold():
    assert errors_of(Function((X,), call("exp", [X]), TensorType((3, 2)))) == [
        "in @main: the result of this function: expected Tensor[(3, 2), float32], "
        "found Tensor[(2, 3), float32]: dimension 0: 3 is not 2, dimension 1: 2 is not 3"
    ]


def test_all_independent_errors_are_reported_and_their_consequences_are_not():
    wrong = call("add", [X, Y])
    other = Call(OpRef("foo"), (X,))
    body = Tuple((call("exp", [call("add", [wrong, X])]), other, call("multiply", [other, wrong])))
    result = errors_of(Function((X, Y), body))
    assert len(result) == 2
    assert {message.split(":")[1].split()[0] for message in result} == {"add", "there"}


def test_an_error_in_a_callee_is_not_repeated_in_its_callers():
    main = Function((X,), call("exp", [Call(GlobalVar("f"), (X,))]))
    p = Var("p", T23)
    assert errors_of(main, f=Function((p,), Call(OpRef("foo"), (p,)))) == ["in @f: there is no operator foo"]


def test_a_call_of_a_function_with_wrong_arguments():
    a, b = Var("a", T23), Var("b", F32)
    f = Function((a, b), call("add", [a, b]), T23)
    assert errors_of(Function((X,), Call(GlobalVar("f"), (X,))), f=f) == [
        "in @main: @f takes 2 arguments, got 1"
    ]
    assert errors_of(Function((X,), Call(GlobalVar("f"), (X, X))), f=f) == [
        "in @main: argument 2 of @f: expected float32, found Tensor[(2, 3), float32]"
    ]


def test_the_parameter_is_reported_not_the_function_that_has_it():
    f, q = Var("f"), Var("q")
    body = Let(f, Function((q,), call("add", [q, X])), X)
    assert errors_of(Function((X,), body)) == ["in @main: cannot infer the type of %q"]


def test_a_wrong_result_is_shown_at_the_last_expression():
    text = """#[version = "0.0.5"]
def @main(%x: float32) -> int32 {
  let %a = exp(%x);
  exp(%a)
}
"""
    with pytest.raises(RelayError) as caught:
        infer_type(parse_module(text))
    (diagnostic,) = caught.value.diagnostics
    assert (diagnostic.span.line, diagnostic.span.column) == (4, 3)


def test_a_type_argument_that_nothing_determines():
    data, _, nil = list_type()
    typed = infer_type(Module({"main": Function((), Call(nil, ()))}, {"List": data}))
    assert "-> List[meta[IncompleteType][0]] {" in typed.astext()
    again = parse_module(typed.astext())
    assert re.sub(r" span=[^ ]*", "", infer_type(again).astext()) == typed.astext()


def test_arms_of_different_types():
    data, cons, nil = list_type()
    wild = PatternWildcard()
    arms = (
        Clause(PatternConstructor(cons, (wild, wild)), constant(1)),
        Clause(PatternConstructor(nil), constant(1.0)),
    )
    list_of_f32 = Var("l", TypeCall(data.header, (F32,)))
    assert errors_of(Function((list_of_f32,), Match(list_of_f32, arms)), types=[data]) == [
        "in @main: arm 2 of a match: expected int32, found float32"
    ]


def match_errors(*patterns, complete=True):
    """The errors of a match of a pair of lists with these patterns."""
    data, _, _ = LIST
    lists = TypeCall(data.header, (F32,))
    pair = Var("p", TupleType((lists, lists)))
    arms = tuple(Clause(pattern, constant(1)) for pattern in patterns)
    try:
        infer_type(Module({"main": Function((pair,), Match(pair, arms, complete))}, {"List": data}))
    except RelayError as error:
        return [diagnostic.message for diagnostic in error.diagnostics]
    return []


LIST = list_type()
WILD, NIL = PatternWildcard(), PatternConstructor(LIST[2])


def cons(head, tail):
    return PatternConstructor(LIST[1], (head, tail))


@pytest.mark.parametrize(
    ("patterns", "missing"),
    [
        ([WILD], None),
        ([PatternTuple((WILD, WILD))], None),
        ([PatternTuple((NIL, WILD)), PatternTuple((cons(WILD, WILD), WILD))], None),
        ([PatternTuple((NIL, WILD)), PatternTuple((WILD, NIL))], "(Cons(_, _), Cons(_, _))"),
        ([PatternTuple((NIL, NIL))], "(Cons(_, _), _), (Nil, Cons(_, _))"),
        (
            [PatternTuple((cons(WILD, NIL), WILD)), PatternTuple((NIL, WILD))],
            "(Cons(_, Cons(_, _)), _)",
        ),
    ],
)
def test_a_match_must_handle_every_value(patterns, missing):
    expected = [] if missing is None else [f"in @main: this match does not handle {missing}"]
    assert match_errors(*patterns) == expected
    assert match_errors(*patterns, complete=False) == []


def test_a_match_with_too_many_combinations_ends():
    wide = 40
    lists = TypeCall(LIST[0].header, (F32,))
    data = Var("p", TupleType((lists,) * wide))
    rows = [
        PatternTuple(tuple(NIL if i in (row, wide - 1 - row) else WILD for i in range(wide)))
        for row in range(wide // 2)
    ]
    arms = tuple(Clause(pattern, constant(1)) for pattern in rows)
    (message,) = errors_of(Function((data,), Match(data, arms)), types=[LIST[0]])
    assert "this match does not handle" in message or "too many combinations" in message


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (PatternTuple((WILD, WILD, WILD)), "a tuple pattern: expected "),
        (
            PatternTuple((PatternConstructor(LIST[1], (WILD,)), WILD)),
            "the pattern Cons takes 2 parts, found 1",
        ),
        (NIL, "the pattern Nil: expected "),
        (
            PatternTuple((PatternConstructor(Constructor("Knil", (), GlobalTypeVar("List"), 1)), WILD)),
            "no data type of this module has the constructor Knil",
        ),
    ],
)
def test_patterns_must_fit_their_data(pattern, message):
    (result,) = match_errors(pattern)
    assert result.startswith(f"in @main: {message}")


# --- size -------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_chain_of_100_000_calls():
    e = x = Var("x", T23)
    for _ in range(50_000):
        e = Call(OpRef("add"), (Call(OpRef("exp"), (e,)), x))
    assert result_of(Function((x,), e)) == "Tensor[(2, 3), float32]"


@pytest.mark.full
def test_100_000_calls_that_wait_for_a_parameter():
    x, a, f = Var("x", T23), Var("a"), Var("f")
    e = a
    for _ in range(100_000):
        e = Call(OpRef("add"), (e, e))
    assert result_of(Function((x,), Let(f, Function((a,), e), Call(f, (x,))))) == "Tensor[(2, 3), float32]"


@pytest.mark.full
def test_a_chain_of_10_000_lets():
    x = Var("x", T23)
    variables = [x, *(Var(f"v{i}") for i in range(10_000))]
    body = variables[-1]
    for previous, var in reversed(list(pairwise(variables))):
        body = Let(var, Call(OpRef("exp"), (previous,)), body)
    assert result_of(Function((x,), body)) == "Tensor[(2, 3), float32]"


@pytest.mark.full
def test_10_000_functions_that_call_one_another_in_a_row():
    functions = {"main": Function((p := Var("p", T23),), Call(GlobalVar("f9999"), (p,)))}
    for i in range(10_000):
        p = Var("p", T23)
        callee = OpRef("exp") if i == 0 else GlobalVar(f"f{i - 1}")
        functions[f"f{i}"] = Function((p,), Call(callee, (p,)), T23)
    assert result_of(**functions) == "Tensor[(2, 3), float32]"


@pytest.mark.full
def test_20_000_errors_of_recursive_functions_are_reported_in_linear_time():
    def errors(count):
        functions = {f"f{i}": Function((), Call(GlobalVar(f"f{i}"), ())) for i in range(count)}
        with pytest.raises(RelayError) as caught:
            infer_type(Module(functions))
        assert len(caught.value.diagnostics) == MAX_ERRORS + 1  # and how many are left out

    errors(20_000)  # comparing all with all takes minutes
    assert count_calls(lambda: errors(1000)) < 3 * count_calls(lambda: errors(500))


@pytest.mark.full
def test_a_projection_of_each_of_10_000_fields():
    x = Var("x", T23)
    wide = Tuple((x,) * 10_000)
    fields = Tuple(tuple(TupleGetItem(wide, i) for i in range(10_000)))
    typed = infer_type(Module({"main": Function((x,), fields)})).functions["main"]
    assert len(typed.ret_type.fields) == 10_000


@pytest.mark.full
@pytest.mark.parametrize("width", [1, 2])
def test_a_type_that_nests_without_end_is_refused(width):
    e = x = Var("x", T23)
    for _ in range(20_000):
        e = Tuple((e,) * width)
    (message,) = errors_of(Function((x,), e))
    assert message == "in @main: this type nests more than 100 deep, or has too many parts"


def test_a_type_that_would_contain_itself_is_refused():
    f = Var("f")
    assert any(
        "a type would contain itself" in message for message in errors_of(Function((f,), Call(f, (f,))))
    )


# --- erase_types ------------------------------------------------------------------------------------------


def test_erasing_leaves_what_was_written_and_the_signatures():
    x, v, w, z = Var("x", T23), Var("v"), Var("w", T23), Var("z", T23)
    plain, written = Function((z,), z), Function((z,), z, T23)
    body = Let(v, plain, Let(w, call("exp", [x]), Tuple((Call(v, (w,)), Call(written, (w,))))))
    erased = erase_types(infer_type(Module({"main": Function((x,), body)}))).functions["main"]
    assert erased.ret_type == TupleType((T23, T23))
    let = erased.body
    assert let.var.type_annotation is None
    assert let.value.ret_type is None
    assert let.body.var.type_annotation == T23
    assert let.body.body.fields[1].op.ret_type == T23
    assert all(node.checked_type is None for node in post_order(erased))


def test_a_typed_module_infers_to_itself_also_after_a_change_of_shape():
    x, v = Var("x", T23), Var("v")
    typed = infer_type(Module({"main": Function((x,), Let(v, call("exp", [x]), v))})).functions["main"]
    assert infer_type(Module({"main": typed})).functions["main"].ret_type == T23
    y = Var("y", TensorType((5,)))
    again = Function((y,), Let(typed.body.var, call("exp", [y]), typed.body.var), inferred=True)
    assert infer_type(Module({"main": again})).functions["main"].ret_type == TensorType((5,))


# --- against NumPy ----------------------------------------------------------------------------------------

UNARY = {"exp": np.exp, "negative": np.negative, "tanh": np.tanh}
BINARY = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "less": np.less}


@st.composite
def programs(draw):
    """A dataflow program of element-wise operators with the arrays that NumPy gives for it."""
    full = draw(st.lists(st.integers(0, 4), max_size=4))
    shapes = []
    for _ in range(draw(st.integers(1, 3))):
        shape = tuple(draw(st.sampled_from([dim, 1])) for dim in full)
        shapes.append(shape[draw(st.integers(0, len(shape))) :])
    params = [Var(f"p{i}", TensorType(shape)) for i, shape in enumerate(shapes)]
    values = [(param, np.zeros(shape, "float32")) for param, shape in zip(params, shapes, strict=True)]
    for _ in range(draw(st.integers(1, 8))):
        floats = [value for value in values if value[1].dtype == np.float32]
        left, right = draw(st.sampled_from(floats)), draw(st.sampled_from(floats))
        name = draw(st.sampled_from([*UNARY, *BINARY]))
        if name in UNARY:
            values.append((call(name, [left[0]]), UNARY[name](left[1])))
        else:
            values.append((call(name, [left[0], right[0]]), BINARY[name](left[1], right[1])))
    return params, values


@pytest.mark.full
@settings(max_examples=200, deadline=None)
@given(programs())
def test_shapes_and_dtypes_are_numpys(program):
    params, values = program
    main = Function(tuple(params), Tuple(tuple(value for value, _ in values)))
    typed = infer_type(Module({"main": main})).functions["main"]
    expected = [TensorType(array.shape, str(array.dtype)) for _, array in values]
    assert list(typed.ret_type.fields) == expected


@settings(max_examples=50, deadline=None)
@given(programs())
def test_the_printed_types_are_found_again(program):
    params, values = program
    main = Function(tuple(params), Tuple(tuple(value for value, _ in values)))
    typed = infer_type(Module({"main": main}))
    again = infer_type(parse_module(typed.astext()))
    assert re.sub(r" span=[^ ]*? \*/", " */", again.astext()) == typed.astext()


def test_inference_proper_does_not_depend_on_what_reproduces_the_original() -> None:
    for path in Path(infer.__file__).parent.glob("*.py"):
        assert path.name == "__init__.py" or "relay.compat" not in path.read_text(encoding="utf-8")
