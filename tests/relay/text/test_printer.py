"""The printer's rules, each case read by hand off the description of Relay's format."""

import json
import math

import numpy as np
import pytest

from nnmagic.relay.expr import (
    Call,
    Clause,
    Constant,
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
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.text.parser import parse_module
from nnmagic.relay.text.printer import expr_text, module_body
from nnmagic.relay.types import (
    ANY,
    NUMPY_DTYPES,
    FuncType,
    GlobalTypeVar,
    Int64,
    RefType,
    TensorType,
    TupleType,
    TypeCall,
    TypeVar,
    VarDim,
    scalar_type,
)
from tests.work import count_calls

FLOAT = scalar_type("float32")


def op(name, *args, **attrs):
    return Call(OpRef(name), args, OPERATORS[name].complete_attrs(attrs))


def print_function(body, *params, **rest):
    return module_body(Module({"main": Function(params, body, **rest)}))


def lines(body, *params):
    """The lines of the function's body, without their two columns of indentation."""
    return [line[2:] for line in print_function(body, *params).splitlines()[1:-1]]


@pytest.fixture
def x():
    return Var("x", FLOAT)


@pytest.fixture
def y():
    return Var("y", FLOAT)


def test_a_number_is_given_when_the_user_is_written(x, y):
    body = op("add", op("negative", op("exp", x)), op("tanh", op("exp", y)))
    assert lines(body, x, y) == [
        "%0 = exp(%x);",
        "%1 = exp(%y);",
        "%2 = negative(%0);",
        "%3 = tanh(%1);",
        "add(%2, %3)",
    ]


def test_a_shared_last_expression_is_bound(x):
    shared = op("exp", x)
    assert lines(Tuple((shared, shared)), x) == ["%0 = exp(%x);", "(%0, %0)"]


def test_what_both_branches_share_is_bound_in_the_first(x):
    shared = op("exp", x)
    assert lines(If(constant(True), op("tanh", shared), shared), x) == [
        "if (True) {",
        "  %0 = exp(%x);",
        "  tanh(%0)",
        "} else {",
        "  %0",
        "}",
    ]


def test_a_condition_is_never_inlined_and_an_if_is_numbered_after_what_is_in_it(x):
    body = op("exp", If(op("greater", x, constant(0.0)), op("exp", op("exp", x)), x))
    assert lines(body, x) == [
        "%0 = greater(%x, 0f);",
        "%2 = if (%0) {",
        "  %1 = exp(%x);",
        "  exp(%1)",
        "} else {",
        "  %x",
        "};",
        "exp(%2)",
    ]


def test_a_called_closure_is_bound(x):
    z = Var("z", FLOAT)
    body = Call(Function((z,), op("exp", z), FLOAT, attrs={"Primitive": 1}), (x,))
    assert lines(body, x) == [
        "%0 = fn (%z: float32, Primitive=1) -> float32 {",
        "  exp(%z)",
        "};",
        "%0(%x)",
    ]


def test_arguments_are_referred_to_before_the_callee(x):
    z = Var("z", FLOAT)
    body = Call(Function((z,), op("exp", op("tanh", z))), (op("exp", x),))
    assert lines(body, x) == [
        "%1 = exp(%x);",
        "%2 = fn (%z: float32) {",
        "  %0 = tanh(%z);",
        "  exp(%0)",
        "};",
        "%2(%1)",
    ]


def test_a_let_as_an_argument_stands_in_parentheses(x):
    v, w = Var("v"), Var("w", FLOAT)
    body = op("add", Let(v, op("exp", op("tanh", x)), Let(w, op("exp", op("tanh", v)), op("add", v, w))), x)
    assert lines(body, x) == [
        "%0 = tanh(%x);",
        "%2 = (",
        "  let %v = exp(%0);",
        "  %1 = tanh(%v);",
        "  let %w: float32 = exp(%1);",
        "  add(%v, %w)",
        ");",
        "add(%2, %x)",
    ]


def test_a_let_as_the_value_of_a_let_has_no_parentheses(x):
    body = Let(Var("w"), Let(Var("v"), x, op("exp", x)), op("tanh", x))
    assert lines(body, x) == ["let %w = let %v = %x;", "exp(%x);", "tanh(%x)"]


def test_tuples_and_projections(x):
    pair = Tuple((x, x))
    assert lines(TupleGetItem(pair, 1), x) == ["%0 = (%x, %x);", "%0.1"]
    assert lines(Tuple((x,)), x) == ["(%x,)"]
    assert lines(Tuple(())) == ["()"]


def test_references(x):
    cell = RefCreate(x)
    body = Let(Var("u"), RefWrite(cell, op("exp", x)), RefRead(cell))
    assert lines(body, x) == [
        "%0 = ref(%x);",
        "%1 = exp(%x);",
        "let %u = ref_write(%0, %1);",
        "ref_read(%0)",
    ]


def test_numbers_and_names_are_unique_over_the_module():
    x, x1, other_x, unnamed, odd = Var("x"), Var("x1"), Var("x"), Var(""), Var("_a")
    first = Function((x, x1, other_x), op("exp", op("exp", x)))
    again = Var("x")
    second = Function((again, unnamed, odd), op("exp", op("exp", again)))
    assert module_body(Module({"b": second, "a": first})) == (
        "def @a(%x, %x1, %x2) {\n  %0 = exp(%x);\n  exp(%0)\n}\n\n"
        "def @b(%x3, %v, %v_a) {\n  %1 = exp(%x3);\n  exp(%1)\n}\n"
    )


def test_a_derived_name_that_is_taken():
    """The description's example: x, x, x1, x."""
    params = [Var("x"), Var("x"), Var("x1"), Var("x")]
    text = module_body(Module({"f": Function(tuple(params), Tuple(()))}))
    assert text.splitlines()[0] == "def @f(%x, %x1, %x11, %x2) {"


def test_data_types_and_match():
    head, a = GlobalTypeVar("List"), TypeVar("A")
    cons = Constructor("Cons", (a, TypeCall(head, (a,))), head, 0)
    nil = Constructor("Nil", (), head, 1)
    shape = GlobalTypeVar("Shape")
    dot = Constructor("Dot", (), shape, 0)
    data, tail, s = Var("l", TypeCall(head, (FLOAT,))), Var("t"), Var("s", TypeCall(shape, ()))
    body = Match(
        data,
        (
            Clause(PatternConstructor(cons, (PatternWildcard(), PatternVar(tail))), tail),
            Clause(PatternConstructor(nil), Call(nil, ())),
        ),
        complete=False,
    )
    types = {
        "Shape": TypeData(shape, (), (dot,)),
        "List": TypeData(head, (a,), (cons, nil)),
    }
    assert module_body(Module({"main": Function((data, s), body)}, types)) == (
        "type List[A] {\n  Cons(A, List[A]),\n  Nil,\n}\n\n"
        "type Shape {\n  Dot,\n}\n\n"
        "def @main(%l: List[float32], %s: Shape[]) {\n"
        "  match? (%l) {\n"
        "    Cons(_, %t) => {\n      %t\n    },\n"
        "    Nil => {\n      Nil\n    },\n"
        "  }\n}\n"
    )


def test_a_tuple_pattern(x):
    a, b = Var("a"), Var("b")
    body = Match(Tuple((x, x)), (Clause(PatternTuple((PatternVar(a), PatternVar(b))), b),))
    assert lines(body, x) == [
        "%0 = (%x, %x);",
        "match (%0) {",
        "  (%a, %b) => {",
        "    %b",
        "  },",
        "}",
    ]


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (3, "int16", "3i16"),
        (-3, "int32", "-3"),
        (3, "int64", "3i64"),
        (0.5, "float16", "0.5f16"),
        (0.5, "float32", "0.5f"),
        (0.5, "float64", "0.5f64"),
        (1, "float32", "1f"),
        (1e-5, "float32", "1e-05f"),
        (1e10, "float32", "1e+10f"),
        (100000, "float32", "100000f"),
        (1e6, "float32", "1e+06f"),
        (1 / 3, "float64", "0.333333f64"),
        (-0.0, "float32", "-0f"),
        (float("inf"), "float32", "inff"),
        (-float("inf"), "float32", "-inff"),
        (float("nan"), "float32", "nanf"),
        (True, "bool", "True"),
    ],
)
def test_scalars(value, dtype, text):
    assert expr_text(constant(value, dtype)) == text


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint16", "uint32", "uint64", "bfloat16"])
def test_scalars_without_a_literal_stand_in_the_metadata(dtype):
    assert expr_text(constant(1, dtype)) == "meta[relay.Constant][0]"


@pytest.mark.parametrize(
    ("value", "rounded"), [(math.pi, np.float32(3.14159)), (1e-45, np.float32(1.4013e-45)), (0.5, 0.5)]
)
def test_the_text_rounds_floats_unless_it_is_to_be_exact(value, rounded):
    module = Module({"main": Function((), constant(value, "float32"))})
    read, exact = (parse_module(module.astext(exact=exact)).functions["main"].body for exact in (False, True))
    assert read.data == rounded
    assert exact.data == np.float32(value)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_constants_of_every_dtype_survive_the_text(dtype, shape):
    data = np.arange(int(np.prod(shape))).reshape(shape).astype(NUMPY_DTYPES[dtype])
    module = Module({"main": Function((), Tuple((constant(data),)))})
    (field,) = parse_module(module.astext()).functions["main"].body.fields
    assert field.data.dtype == data.dtype
    assert field.data.shape == data.shape
    assert field.data.tobytes() == data.tobytes()


def test_types():
    a = TypeVar("A")
    params = {
        "a": TensorType((2, 3)),
        "b": TensorType((3,)),
        "c": FLOAT,
        "d": TensorType((ANY, Int64(3)), "int8"),
        "e": TupleType((FLOAT, TensorType((2,), "bool"))),
        "f": TupleType((FLOAT,)),
        "g": TupleType(()),
        "h": FuncType((FLOAT, FLOAT), FLOAT),
        "i": FuncType((a,), a, (a,)),
        "j": RefType(FLOAT),
        "k": TensorType((VarDim("n"), VarDim("m"), VarDim("n"))),
    }
    text = print_function(Tuple(()), *(Var(name, type_) for name, type_ in params.items()))
    assert text.splitlines()[0] == (
        "def @main(%a: Tensor[(2, 3), float32], %b: Tensor[(3), float32], %c: float32, "
        "%d: Tensor[(?, 3i64), int8], %e: (float32, Tensor[(2), bool]), %f: (float32,), %g: (), "
        "%h: fn (float32, float32) -> float32, %i: fn [A](A) -> A, %j: ref(float32), "
        "%k: Tensor[(meta[tir.Var][0], meta[tir.Var][1], meta[tir.Var][0]), float32]) {"
    )


def test_a_symbolic_dimension_survives_the_text():
    dims = TensorType((VarDim("n"), VarDim("m"), VarDim("n")))
    x = Var("x", dims)
    module = parse_module(Module({"main": Function((x,), x)}).astext())
    assert module.functions["main"].params[0].type_annotation == dims


def test_type_comments_are_written_once_and_at_every_use_of_a_constant():
    x = Var("x", FLOAT, checked_type=FLOAT)
    one = constant(1.0)
    one = Constant(one.data, checked_type=FLOAT)
    first = Call(OpRef("add"), (x, one), {}, checked_type=FLOAT)
    body = Call(OpRef("add"), (first, one), {}, checked_type=FLOAT)
    inner = Function(
        (Var("z", FLOAT, checked_type=FLOAT),), one, FLOAT, checked_type=FuncType((FLOAT,), FLOAT)
    )
    assert print_function(Tuple((body, inner)), x, ret_type=FLOAT) == (
        "def @main(%x: float32 /* ty=float32 */) -> float32 {\n"
        "  %0 = add(%x, 1f /* ty=float32 */) /* ty=float32 */;\n"
        "  %1 = add(%0, 1f /* ty=float32 */) /* ty=float32 */;\n"
        "  %2 = fn (%z: float32 /* ty=float32 */) -> float32 {\n"
        "    1f /* ty=float32 */\n"
        "  } /* ty=fn (float32) -> float32 */;\n"
        "  (%1, %2)\n"
        "}\n"
    )


def test_function_attributes_and_type_parameters():
    a = TypeVar("A")
    p = Var("p", a)
    attrs = {
        "Primitive": 1,
        "Compiler": "cc",
        "axes": (1, 2),
        "names": ("a", 'b"'),
        "f": 1.5,
        "t": True,
        "n": None,
    }
    text = print_function(p, p, ret_type=a, type_params=(a,), attrs=attrs)
    assert text.splitlines()[0] == (
        'def @main[A](%p: A, Primitive=1, Compiler="cc", axes=[1, 2], names=["a", "b\\""], f=1.5f, '
        "t=True, n=None) -> A {"
    )
    function = parse_module(f'#[version = "0.0.5"]\n{text}').functions["main"]
    assert function.attrs == attrs


def test_a_default_that_is_another_kind_of_integer_is_printed(x):
    """Relay compares 64-bit and 32-bit immediates as different."""
    data = Var("d", TensorType((1, 1, 4, 4)))
    weight = Var("w", TensorType((1, 1, 1, 1)))
    plain = op("nn.conv2d", data, weight, strides=(1, 1), padding=(0, 0))
    wide = op("nn.conv2d", data, weight, strides=(Int64(1), Int64(1)), padding=(0, 0))
    assert lines(plain, data, weight) == ["nn.conv2d(%d, %w)"]
    assert lines(wide, data, weight) == ["nn.conv2d(%d, %w, strides=[1i64, 1i64])"]


def test_an_expression_alone(x, y):
    assert expr_text(op("add", op("exp", x), y)) == (
        "free_var %x: float32;\n%0 = exp(%x);\nfree_var %y: float32;\nadd(%0, %y)"
    )
    assert expr_text(Function((x,), op("exp", x))) == "fn (%x: float32) {\n  exp(%x)\n}"
    assert expr_text(Call(GlobalVar("f"), ())) == "@f()"


def test_metadata_of_a_symbolic_dimension():
    """Printed by real Relay for the same module; the kind that the text refers to last comes first."""
    x = Var("x", TensorType((VarDim("n"), 3)))
    text = Module({"main": Function((x,), op("add", x, constant(np.float32([1, 2, 3]))))}).astext()
    section = json.loads(text.partition("#[metadata]")[2])
    assert section["nodes"] == [
        {"type_key": ""},
        {"type_key": "Map", "keys": ["relay.Constant", "tir.Var"], "data": [2, 6]},
        {"type_key": "Array", "data": [3]},
        {
            "type_key": "relay.Constant",
            "attrs": {"_checked_type_": "0", "data": "0", "span": "0", "virtual_device_": "4"},
        },
        {
            "type_key": "VirtualDevice",
            "attrs": {
                "device_type_int": "-1",
                "memory_scope": "5",
                "target": "0",
                "virtual_device_id": "-1",
            },
        },
        {"type_key": "runtime.String"},
        {"type_key": "Array", "data": [7]},
        {
            "type_key": "tir.Var",
            "attrs": {"dtype": "int32", "name": "8", "span": "0", "type_annotation": "9"},
        },
        {"type_key": "runtime.String", "repr_str": "n"},
        {"type_key": "PrimType", "attrs": {"dtype": "int32"}},
    ]


def chain(length):
    x = Var("x", FLOAT)
    body = x
    for _ in range(length):
        body = Call(OpRef("negative"), (body,))
    return Module({"main": Function((x,), body)})


def lets(length):
    x = Var("x", FLOAT)
    names = [Var("v") for _ in range(length)]
    body = names[-1]
    for before, name in zip(reversed([x, *names[:-1]]), reversed(names), strict=True):
        body = Let(name, Call(OpRef("negative"), (before,)), body)
    return Module({"main": Function((x,), body)})


def cells(length):
    x = Var("x", FLOAT)
    body = x
    for _ in range(length):
        body = RefRead(RefCreate(body))
    return Module({"main": Function((x,), body)})


def doubling(length):
    """A program of `length` nodes whose expansion without sharing would have 2 ** length."""
    x = Var("x", FLOAT)
    body = x
    for _ in range(length):
        body = Tuple((body, body))
    return Module({"main": Function((x,), body)})


@pytest.mark.sampled(every=2)
@pytest.mark.full
@pytest.mark.parametrize("build", [chain, lets, cells, doubling])
def test_100_000_expressions_are_printed_and_read(build):
    module = build(100_000)
    text = module.astext()
    again = parse_module(text)
    assert again.astext() == text
    assert text.count("\n") > 100_000


@pytest.mark.full("cells")
@pytest.mark.parametrize("build", [chain, lets, cells, doubling])
def test_printing_and_reading_take_linear_time(build):
    def work(length):
        module = build(length)
        return count_calls(lambda: parse_module(module.astext()))

    assert work(2000) < 3 * work(1000)
