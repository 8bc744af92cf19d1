"""What the parser accepts beyond what is printed, where nodes stand, and how errors read."""

import json

import numpy as np
import pytest

from nnmagic.diagnostics import RelayError, Source
from nnmagic.relay.expr import Call, If, Let, Match, OpRef, RefWrite, Tuple, TupleGetItem, Var
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.relay.text.parser import parse_expression, parse_module
from nnmagic.relay.text.printer import expr_text
from nnmagic.relay.types import ANY, FuncType, Int64, TensorType, TupleType, TypeCall, scalar_type

VERSION = '#[version = "0.0.5"]\n'
XY = "free_var %x; free_var %y;\n"


def module(text):
    return parse_module(VERSION + text)


def body(text):
    """The body of a function with the parameters %x, %y and %b."""
    return module(f"def @main(%x: float32, %y: float32, %b: bool) {{ {text} }}").functions["main"].body


def same(text, other):
    left, right = parse_expression(XY + text), parse_expression(XY + other)
    return structural_equal(left, right, map_free_vars=True)


def errors(text):
    with pytest.raises(RelayError) as caught:
        parse_module(text)
    return caught.value.diagnostics


def error(text):
    (result,) = errors(VERSION + text)
    return result


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("%x + %y * %x", "add(%x, multiply(%y, %x))"),
        ("%x * %y + %x", "add(multiply(%x, %y), %x)"),
        ("%x - %y - %x", "subtract(subtract(%x, %y), %x)"),
        ("%x / %y / %x", "divide(divide(%x, %y), %x)"),
        ("%x + %y < %x - %y", "less(add(%x, %y), subtract(%x, %y))"),
        ("%x < %y == %y > %x", "equal(less(%x, %y), greater(%y, %x))"),
        ("%x <= %y != %y >= %x", "not_equal(less_equal(%x, %y), greater_equal(%y, %x))"),
        ("(%x + %y) * %x", "multiply(add(%x, %y), %x)"),
        ("%x - 1f", "subtract(%x, 1f)"),
        ("exp(%x) + exp(%y)", "add(exp(%x), exp(%y))"),
        ("{ %x }", "%x"),
        ("((%x))", "%x"),
        ("(%x,)", "(%x,)"),
        ("(%x, %y,)", "(%x, %y)"),
        ("add(%x, %y,)", "add(%x, %y)"),
        ("exp({ %x })", "exp(%x)"),
        ("add(%x /* a /* nested */ comment */, %y) // the end", "add(%x, %y)"),
        ("\tadd(\r\n%x,\r\n%y)", "add(%x, %y)"),
        ("%0 = exp(%x); %0 = tanh(%x); %0", "exp(%x)"),
        ("%007 = exp(%x); %7", "exp(%x)"),
        ("let %x = exp(%x); %x", "let %z = exp(%x); %x"),
        ("let %f = fn (%a) { %f(%a) }; %f(%x)", "let %g = fn (%a) { %g(%a) }; %g(%x)"),
        ("if (%x) { %0 = exp(%x); %0 } else { %0 }", "%1 = exp(%x); if (%x) { %1 } else { %1 }"),
        ("(fn (%a, %a) { %a })(%x, %y)", "(fn (%a, %b) { %a })(%x, %y)"),
        ("match (%x) { (%a, %a) => %a }", "match (%x) { (%a, %b) => %a }"),
        ("match (%x) { (%x, (%x, _)) => %x }", "match (%x) { (%a, (%b, _)) => %a }"),
        ("nn.bias_add(%x, %y, axis=1)", "nn.bias_add(%x, %y)"),
        ("sum(%x, keepdims=True, axis=[0],)", "sum(%x, axis=[0], keepdims=True)"),
        ("exp(let %a = %x; %a)", "exp((let %a = %x; %a))"),
        ("(%x, %y).1", "%0 = (%x, %y); %0.1"),
        ("(@f(%x)).0", "%0 = @f(%x); %0.0"),
        ("%x(%y)(%x)", "%0 = %x(%y); %0(%x)"),
    ],
)
def test_more_than_is_printed(text, meaning):
    if "@f" in text:
        prefix = "def @f(%a) { (%a,) }\ndef @main(%x, %y) { "
        left, right = module(f"{prefix}{text} }}"), module(f"{prefix}{meaning} }}")
        assert structural_equal(left, right)
    else:
        assert same(text, meaning)


def test_sequence_is_a_let_of_an_unnamed_variable():
    result = body("ref_write(ref(%x), %y); %x")
    assert isinstance(result, Let)
    assert result.var.name_hint == ""
    assert isinstance(result.value, RefWrite)


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("3", 3, "int32"),
        ("-3", -3, "int32"),
        ("3i16", 3, "int16"),
        ("3000000000", 3000000000, "int64"),
        ("9223372036854775807i64", 2**63 - 1, "int64"),
        ("-9223372036854775808i64", -(2**63), "int64"),
        ("0.5f", 0.5, "float32"),
        ("--1f", 1, "float32"),
        ("---1f", -1, "float32"),
        ("0.5f16", 0.5, "float16"),
        ("0.1f64", 0.1, "float64"),
        ("1e-05f", 1e-5, "float32"),
        ("1e+10f", 1e10, "float32"),
        ("1E3f", 1000, "float32"),
        ("inff", np.inf, "float32"),
        ("-inff64", -np.inf, "float64"),
        ("True", True, "bool"),
        ("False", False, "bool"),
    ],
)
def test_literals(text, value, dtype):
    data = parse_expression(text).data
    assert data.dtype == dtype
    assert data == np.array(value, dtype)
    assert data.shape == ()


def test_types():
    text = (
        "type L[A] { N, }\ntype S { D }\n"
        "def @main[T](%a: Tensor[(2, ?, 3i64), float16], %b: Tensor[(3,), int8], %c: Tensor[(), bool], "
        "%d: (), %e: (float32,), %f: (float32), %g: fn (T, float32) -> T, %h: L[(T, L[T])], %i: S, %j: S[], "
        "%k: _) { %k }"
    )
    function = module(text).functions["main"]
    f32, (t,) = scalar_type("float32"), function.type_params
    a, b, c, d, e, f, g, h, i, j, k = [param.type_annotation for param in function.params]
    assert a == TensorType((2, ANY, 3), "float16")
    assert isinstance(a.shape[2], Int64)
    assert (b, c, d) == (TensorType((3,), "int8"), scalar_type("bool"), TupleType(()))
    assert (e, f, g) == (TupleType((f32,)), TupleType((f32,)), FuncType((t, f32), t))
    assert h == TypeCall(h.func, (TupleType((t, TypeCall(h.func, (t,)))),))
    assert h.func.name == "L"
    assert i == j
    assert k is None


def test_types_constructors_and_functions_may_be_used_before_they_are_declared():
    result = module(
        "def @main(%s: S) { match (%s) { D(%v) => @f(%v) } }\ndef @f(%v) { %v }\ntype S { D(float32) }"
    )
    match_ = result.functions["main"].body
    assert isinstance(match_, Match)
    assert match_.clauses[0].lhs.constructor is result.types["S"].constructors[0]


def test_arms_need_no_braces_and_a_tuple_pattern_binds():
    result = body("match? ((%x, %y)) { (%a, _) => %a, }")
    assert not result.complete
    assert result.clauses[0].rhs is result.clauses[0].lhs.patterns[0].var


def test_of_two_functions_of_one_name_the_last_counts():
    assert isinstance(module("def @f(%a) { %a }\ndef @f(%a) { (%a,) }").functions["f"].body, Tuple)


def test_the_numbers_of_graph_variables_count_through_the_module():
    """Real Relay takes the first binding also here, and then finds a variable that nothing binds."""
    with pytest.raises(RelayError) as caught:
        module("def @f(%a) { %0 = exp(%a); tanh(%0) }\ndef @g(%a) { %0 = sin(%a); tanh(%0) }")
    (result,) = caught.value.diagnostics
    assert "`%0` is bound already, in another function" in result.message
    assert (result.span.line, result.span.column) == (3, 14)
    result = module("def @f() { %0 = exp(1f); %0 }\ndef @g() { %0 = sin(1f); tanh(%0) }")
    assert result.functions["g"].body.args[0].op.name == "exp"


def test_the_first_of_two_variables_of_one_scope_counts_as_in_relay():
    function = module("def @f(%x: float32) { let %x = exp(%x); tanh(%x) }").functions["f"]
    assert function.body.value.args == function.body.body.args == function.params
    function = module("def @f(%x: float32) { let %y = %x; let %x = %x; %x }").functions["f"]
    assert function.body.body.value is function.body.body.body is function.body.body.var


def test_a_graph_variable_of_another_function_is_seen():
    """Relay's printer writes a node that two functions share only once."""
    result = module("def @f() { %0 = exp(1f); tanh(%0) }\ndef @g() { sin(%0) }")
    assert result.functions["g"].body.args[0] is result.functions["f"].body.args[0]


def test_call_of_a_function_with_attributes():
    result = body('%0 = fn (%a: float32) { %a }; %0(%x, k=1, attrs_type_key="DictAttrs")')
    assert dict(result.attrs) == {"k": 1, "attrs_type_key": "DictAttrs"}
    assert expr_text(result).endswith('%0(%x, k=1, attrs_type_key="DictAttrs")')


def test_attributes_written_by_name_where_relay_uses_metadata():
    assert body("cumsum(%x, axis=1)").attrs["axis"] == 1


def test_attributes_are_complete_and_in_the_order_of_the_declaration():
    result = body("nn.conv2d(%x, %y, padding=[1, 1, 1, 1], strides=[2, 2])")
    assert list(result.attrs)[:2] == ["strides", "padding"]
    assert result.attrs["data_layout"] == "NCHW"


def test_string_escapes():
    function = module('def @main(s="a\\"b\\\\c\\n\\t\\x41") { () }').functions["main"]
    assert function.attrs["s"] == 'a"b\\c\n\tA'


def test_identifiers_may_hold_a_slash():
    assert body("let %conv/weight = %x; %conv/weight").var.name_hint == "conv/weight"
    assert same("%x / %y", "divide(%x, %y)")


# Spans


def text_at(text, span):
    return text.split("\n")[span.line - 1][span.column - 1 : span.end_column - 1]


def test_every_node_says_where_it_stands():
    text = VERSION + (
        "def @main(%x: Tensor[(2), float32], %c: bool) {\n"
        "  %0 = add(%x, 1f);\n"
        "  let %v = nn.relu(%0);\n"
        "  if (%c) { %v } else { (%v, %x).1 }\n"
        "}\n"
    )
    function = parse_module(text).functions["main"]
    assert (function.span.line, function.span.column) == (2, 1)
    assert (function.span.end_line, function.span.end_column) == (6, 2)
    assert text_at(text, function.params[0].span) == "%x: Tensor[(2), float32]"
    let = function.body
    assert text_at(text, let.span) == "let %v = nn.relu(%0)"
    assert text_at(text, let.value.span) == "nn.relu(%0)"
    assert text_at(text, let.value.op.span) == "nn.relu"
    added = let.value.args[0]
    assert text_at(text, added.span) == "add(%x, 1f)"
    assert text_at(text, added.args[1].span) == "1f"
    branches = let.body
    assert isinstance(branches, If)
    assert text_at(text, branches.span) == "if (%c) { %v } else { (%v, %x).1 }"
    assert isinstance(branches.false_branch, TupleGetItem)
    assert text_at(text, branches.false_branch.span) == "(%v, %x).1"
    assert text_at(text, branches.false_branch.tuple_value.span) == "(%v, %x)"


def test_a_source_says_where_its_first_line_is_and_columns_are_characters():
    source = Source(
        "cell", VERSION + "def @main(%x: float32) { /* 漢字 */ nn.gelu(%x) }", first_line=2, indent=4
    )
    with pytest.raises(RelayError) as caught:
        parse_module(source)
    span = caught.value.diagnostics[0].span
    assert str(span) == "cell:3:39"
    assert span.source is source


# Errors


def test_all_errors_are_reported_at_once():
    result = errors(
        VERSION + "def @a(%x: float32) { nn.gelu(%y) }\n"
        "def @b(%x: float33x) { %x }\n"
        "def @c(%x: float32) { sum(%x, axes=[0]); @d(%x) }\n"
        "def @e(%x: float32) { %x } garbage\n"
        "type T { A(U) }\n"
        "def @g( { }\n"
    )
    assert [(each.span.line, each.message) for each in result] == [
        (2, "operator `nn.gelu` is not known"),
        (2, "`%y` is not defined"),
        (3, "unknown type `float33x`"),
        (4, "sum has no attribute `axes`"),
        (4, "`@d` is not defined"),
        (5, "expected a definition (`def @f` or `type T`), found `garbage`"),
        (6, "unknown type `U`"),
        (7, "expected a local variable (`%x`), found `{`"),
    ]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("def @f(%x) { dense(%x) }", "operator `dense` is not known", "did you mean `nn.dense`?"),
        ("def @f(%x) { nn.relo(%x) }", "operator `nn.relo` is not known", "did you mean `nn.relu`?"),
        ("def @f(%value) { %vlaue }", "`%vlaue` is not defined", "did you mean `%value`?"),
        ("def @f(%x) { x }", "operator `x` is not known", "a variable is written `%x`"),
        ("def @f(%x) { sum(%x, axs=[0]) }", "sum has no attribute `axs`", "did you mean `axis`?"),
        ("def @fun(%x) { @fnu(%x) }", "`@fnu` is not defined", "did you mean `@fun`?"),
        ("def @f(%x: Tensor[(2), flaot32]) { %x }", "unknown type `flaot32`", "did you mean `float32`?"),
        ("def f(%x) { %x }", "expected a global function (`@f`), found `f`", "write `@f`"),
        (
            "def @f(%x) { add(%x -1f) }",
            "expected `)`, found `-1f`",
            "to subtract, put a blank behind the minus sign",
        ),
        (
            "def @f(%x) { add(%x, 0.5) }",
            "invalid number `0.5`: a floating-point literal ends in f (`0.5f`)",
            None,
        ),
        (
            "def @f(%t) { %t.0.1 }",
            "invalid index `0.1`",
            "bind the inner projection first: `%0 = %t.0; %0.1`",
        ),
        (
            "def @f(%x) { @f(%x).0 }",
            "the result of a call cannot be projected",
            "give it a name first: `%0 = ...; %0.0`",
        ),
        (
            "def @f(%t) { %t.0 .1 }",
            "the result of a projection cannot be projected",
            "give it a name first: `%0 = ...; %0.0`",
        ),
        (
            "def @f(%x) { if (%x) { %x } }",
            "expected `else`, found `}`",
            "an `if` has a value, so it needs both branches",
        ),
        (
            "def @f(%x) { let %w = let %v = %x; %v; %w }",
            "a `let` cannot be the value of a `let`",
            "put it in parentheses",
        ),
        (
            "def @f(%x) { add(%x, meta[relay.Constant][0]) }",
            "the text has no metadata section, which this refers to",
            "print the module with `astext()`, which writes the section",
        ),
        ("type L[A] { N }\ndef @f(%x: L) { %x }", "`L` takes 1 type argument, found 0", None),
        ("type S { D }\ndef @f(%x: S[float32]) { %x }", "`S` takes 0 type arguments, found 1", None),
        (
            "type S { D(float32) }\ndef @f(%x: S) { match (%x) { D => 1 } }",
            "`D` has 1 field, the pattern 0",
            None,
        ),
        ("type S { D }\ntype S { E }", "the type `S` is declared twice", None),
        (
            "def @f(%x) { transpose(%x, axes=1) }",
            "transpose: attribute 'axes' must be a sequence of ints, not 1",
            None,
        ),
        ("def @f(%x) { cast(%x) }", "cast needs the attribute 'dtype' (dtype)", None),
        ("def @f(%x) { 1e39f }", "the number 1e+39 does not fit float32", None),
        ("def @f(%x) { -1e400f }", "invalid number `-1e400f`: it does not fit float32", None),
        ("def @f(%x) { 1e309f64 }", "invalid number `1e309f64`: it does not fit float64", None),
        ("def @f(%x) { 3000000000i32 }", "the integer 3000000000 does not fit int32", None),
        ("def @f(%x) { 3i8 }", "invalid number `3i8`: its suffix must be one of f, f16, f64, i16, i64", None),
        ("extern type T", "expected a definition (`def @f` or `type T`), found `extern`", None),
        ("def @f(%x) { %x } $", "unexpected character '$'", None),
        ("def @f(%x: (_, float32)) { %x }", "`_` can only stand for a whole type", "leave the type out"),
    ],
)
def test_messages(text, message, hint):
    result = error(text)
    assert result.message == message
    assert result.hint == hint


def test_an_error_draws_its_line():
    with pytest.raises(RelayError) as caught:
        parse_module(VERSION + "def @main(%x: float32) {\n  nn.relo(%x)\n}\n")
    assert str(caught.value) == (
        "error: operator `nn.relo` is not known\n"
        " --> from_string:3:3\n"
        "  |\n"
        "3 |   nn.relo(%x)\n"
        "  |   ^^^^^^^\n"
        "help: did you mean `nn.relu`?"
    )


OPEN = VERSION + "def @main(%x: float32) { "
DEEP = 100_000


@pytest.mark.full("0", "13", "11", "9", "1", "3", "7")
@pytest.mark.parametrize(
    "text",
    [
        OPEN + "(" * DEEP + "%x" + ")" * DEEP + " }",
        OPEN + "(" * DEEP,
        OPEN + "{" * DEEP,
        OPEN + "exp(" * DEEP + "%x" + ")" * DEEP + " }",
        OPEN + "-" * DEEP,
        OPEN + "sum(%x, axis=" + "[" * DEEP,
        VERSION + "def @main(%x: " + "(" * DEEP,
        VERSION + "type A[" * DEEP,
        VERSION + "/*" * DEEP + "def @a",
        OPEN + "if (True) {" * DEEP,
        OPEN + "match (%x) { " + "(" * DEEP,
        OPEN + "let %a = (" * DEEP,
        OPEN + "%x" + ".0" * DEEP,
        OPEN + "foo(%x);" * DEEP + "%x }",
        OPEN + "%" + "1" * DEEP + " }",
        OPEN + "1" * DEEP + " }",
        OPEN + "#[" * DEEP,
        OPEN + '"\\' * DEEP,
        OPEN + "%x }\n#[metadata]\n" + "[" * DEEP,
        OPEN + "%x }\n#[metadata]\n" + "1" * DEEP,
        OPEN + "a." * DEEP,
    ],
    ids=range(21),
)
def test_deep_and_long_garbage_is_refused(text):
    if text.startswith(VERSION + "/*"):
        assert not parse_module(text).functions  # as in Relay, an unterminated comment reaches to the end
        return
    result = errors(text)
    assert all(len(each.message) < 300 for each in result)


def test_nesting_that_is_deep_but_not_senseless():
    result = body("exp(" * 2000 + "%x" + ")" * 2000)
    for _ in range(2000):
        assert isinstance(result, Call)
        assert isinstance(result.op, OpRef)
        (result,) = result.args
    assert isinstance(result, Var)


@pytest.mark.parametrize(
    "section",
    [
        "",
        "{",
        "{}",
        "[]",
        '{"root": 7, "nodes": []}',
        '{"root": 0, "nodes": [{"type_key": "Map", "keys": ["relay.Constant"], "data": [0]}]}',
        '{"root": 0, "nodes": [{"type_key": "Map", "keys": ["relay.Constant"], "data": [1]}, {"data": [2]},'
        ' {"type_key": "relay.Constant", "attrs": {"data": "0"}}], "b64ndarrays": ["AAAA"]}',
        '{"root": 0, "nodes": [{"type_key": "Map", "keys": ["relay.Constant"], "data": [1]}, {"data": [2]},'
        ' {"type_key": "Array", "data": [2]}], "b64ndarrays": []}',
        '{"root": 0, "nodes": [{"type_key": "Map", "keys": ["relay.Constant"], "data": [1]}, {"data": [2]},'
        ' {"type_key": {}}], "b64ndarrays": []}',
        '{"root": 0, "nodes": [{"type_key": "Map", "keys": ["relay.Constant"], "data": [1]}, {"data": [2]},'
        f' {{"type_key": "IntImm", "attrs": {{"value": "{2**64}"}}}}], "b64ndarrays": []}}',
    ],
)
def test_broken_metadata_is_refused(section):
    text = f"{VERSION}def @f() {{ meta[relay.Constant][0] }}\n#[metadata]\n{section}"
    assert errors(text)


def test_metadata_of_arrays_of_the_same_arrays_is_refused():
    """The thirtieth names its parts ten times each, so that all have 10³⁰ parts."""
    arrays = [{"type_key": "Array", "data": [number + 3] * 10} for number in range(30)]
    nodes = [
        {"type_key": "Map", "keys": ["relay.Constant"], "data": [1]},
        {"data": [2]},
        *arrays,
        {"type_key": "runtime.String"},
    ]
    section = json.dumps({"root": 0, "nodes": nodes})
    text = f"{VERSION}def @f() {{ meta[relay.Constant][0] }}\n#[metadata]\n{section}"
    assert "the metadata section has too many parts" in str(errors(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("match (%x) { _ => " * 101 + "%x" + " }" * 101, "scopes are nested more than 100 deep"),
        ("if (%b) { " * 101, "scopes are nested more than 100 deep"),
        ("exp(%x; " * 401 + "%x" + ")" * 401, "bindings are nested more than 400 deep"),
        ("exp(" * 10_001, "expressions are nested more than 10000 deep"),
    ],
)
def test_nesting_has_limits(text, message):
    (result,) = errors(f"{VERSION}def @main(%x: float32, %b: bool) {{ {text} }}")
    assert result.message == message
    assert result.hint == "give inner parts names, `%0 = ...;`, or functions of their own"
