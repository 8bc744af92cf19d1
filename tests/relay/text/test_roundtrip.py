"""Properties: a printed module reads as the same program; no text whatever breaks the parser."""

import random
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from nnmagic.diagnostics import RelayError
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
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.structure.structural_equality import structural_equal
from nnmagic.relay.text.parser import parse_expression, parse_module
from nnmagic.relay.text.printer import expr_text
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
)
from tests.relay.corpus import load_file

LIST, A = GlobalTypeVar("List"), TypeVar("A")
CONS = Constructor("Cons", (A, TypeCall(LIST, (A,))), LIST, 0)
NIL = Constructor("Nil", (), LIST, 1)
TYPES = {"List": TypeData(LIST, (A,), (CONS, NIL))}

NAMES = st.sampled_from(["x", "x1", "y", "_t", "", "a/b", "2z", "let", "type"])
DIMS = st.one_of(
    st.integers(0, 5), st.integers(0, 5).map(Int64), st.just(ANY), st.sampled_from("nm").map(VarDim)
)
TENSOR_TYPES = st.builds(
    TensorType, st.lists(DIMS, max_size=3).map(tuple), st.sampled_from(sorted(NUMPY_DTYPES))
)
TYPE_TREES = st.recursive(
    TENSOR_TYPES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple).map(TupleType),
        inner.map(RefType),
        inner.map(lambda each: TypeCall(LIST, (each,))),
        st.builds(FuncType, st.lists(inner, max_size=2).map(tuple), inner),
    ),
    max_leaves=5,
)
VARIABLES = st.builds(Var, NAMES, st.none() | TYPE_TREES)

#: Floats of few digits, because the text has six.
SCALARS = st.one_of(
    st.builds(constant, st.integers(-1000, 1000), st.sampled_from(["int16", "int32", "int64"])),
    st.builds(
        lambda number, dtype: constant(number / 4, dtype),
        st.integers(-4000, 4000),
        st.sampled_from(["float16", "float32", "float64"]),
    ),
    st.booleans().map(constant),
    st.sampled_from([np.inf, -np.inf, -0.0, 1e10]).map(constant),
)
TENSORS = st.builds(
    lambda shape, dtype, seed: constant(np.random.default_rng(seed).integers(0, 2, shape), dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from(sorted(NUMPY_DTYPES)),
    st.integers(0, 9),
)
SMALL = st.integers(-3, 3)
SUM_ATTRS = st.fixed_dictionaries(
    {},
    optional={
        "axis": st.none() | st.lists(SMALL, max_size=3),
        "keepdims": st.booleans(),
        "exclude": st.booleans(),
    },
)
CONV_ATTRS = st.fixed_dictionaries(
    {},
    optional={
        "strides": st.lists(st.integers(1, 3), min_size=2, max_size=2),
        "padding": st.lists(st.one_of(SMALL, SMALL.map(Int64)), min_size=2, max_size=4),
        "channels": st.none() | st.integers(1, 9),
        "data_layout": st.sampled_from(["NCHW", "NHWC", 'odd "one"\n']),
        "out_dtype": st.sampled_from(["", "float32"]),
    },
)


def op(name, *args, **attrs):
    return Call(OpRef(name), args, OPERATORS[name].complete_attrs(attrs))


class Growth:
    """Grows a body from a pool of expressions that are in scope; picking one twice is sharing."""

    def __init__(self, draw, pool):
        self.draw = draw
        self.pool = pool

    def pick(self):
        return self.draw(st.sampled_from(self.pool))

    def body(self, depth, *more):
        """A scope of its own: what is made in it is not seen outside."""
        inner = Growth(self.draw, [*self.pool, *more])
        for _ in range(self.draw(st.integers(0, 3 if depth else 6))):
            inner.pool.append(inner.expression(depth))
        return inner.pool[-1]

    def expression(self, depth):
        kinds = [self.leaf, self.operator, self.tuple, self.cell, self.call]
        if depth < 2:
            kinds += [self.branches, self.let, self.function, self.match]
        return self.draw(st.sampled_from(kinds))(depth + 1)

    def leaf(self, _depth):
        return self.draw(SCALARS | TENSORS)

    def operator(self, _depth):
        name = self.draw(st.sampled_from(["exp", "add", "sum", "nn.conv2d", "leaky", "cumsum"]))
        match name:
            case "add":
                return op("add", self.pick(), self.pick())
            case "sum":
                return op("sum", self.pick(), **self.draw(SUM_ATTRS))
            case "nn.conv2d":
                return op("nn.conv2d", self.pick(), self.pick(), **self.draw(CONV_ATTRS))
            case "leaky":
                return op("nn.leaky_relu", self.pick(), alpha=self.draw(st.sampled_from([0.25, 0.01, 1.0])))
            case "cumsum":
                axis = self.draw(st.none() | SMALL)
                return op("cumsum", self.pick(), axis=axis, exclusive=self.draw(st.none() | st.booleans()))
        return op("exp", self.pick())

    def tuple(self, _depth):
        fields = tuple(self.pick() for _ in range(self.draw(st.integers(0, 3))))
        made = Tuple(fields)
        return TupleGetItem(made, self.draw(st.integers(0, 2))) if self.draw(st.booleans()) else made

    def cell(self, _depth):
        kind = self.draw(st.sampled_from([RefCreate, RefRead, RefWrite]))
        return RefWrite(self.pick(), self.pick()) if kind is RefWrite else kind(self.pick())

    def call(self, _depth):
        callee = self.draw(st.sampled_from([GlobalVar("main"), GlobalVar("other"), CONS, NIL, None]))
        if callee is NIL:
            return Call(NIL, ())
        return Call(callee or self.pick(), (self.pick(), self.pick()))

    def branches(self, depth):
        return If(self.pick(), self.body(depth), self.body(depth))

    def let(self, depth):
        var = self.draw(VARIABLES)
        value = self.pick()
        # The text of a let as the value of a let does not read back, in Relay either.
        return Let(var, Tuple((value,)) if isinstance(value, Let) else value, self.body(depth, var))

    def function(self, depth):
        params = tuple(self.draw(st.lists(VARIABLES, max_size=2)))
        attrs = self.draw(st.sampled_from([{}, {"Primitive": 1, "Compiler": "c", "k": (1.5, True, None)}]))
        return Function(params, self.body(depth, *params), self.draw(st.none() | TYPE_TREES), (), attrs)

    def match(self, depth):
        head, tail, first = (self.draw(VARIABLES) for _ in range(3))
        nested = PatternConstructor(CONS, (PatternWildcard(), PatternVar(tail)))
        cons = PatternConstructor(CONS, (PatternVar(head), nested))
        pair = PatternTuple((PatternVar(first), PatternConstructor(NIL)))
        clauses = (Clause(cons, self.body(depth, head, tail)), Clause(pair, self.body(depth, first)))
        return Match(self.pick(), clauses, self.draw(st.booleans()))


@st.composite
def modules(draw):
    functions = {}
    for name in ("main", "other"):
        params = tuple(draw(st.lists(VARIABLES, min_size=1, max_size=3)))
        body = Growth(draw, list(params)).body(0)
        functions[name] = Function(params, body, draw(st.none() | TYPE_TREES))
    return Module(functions, TYPES)


QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def uses_before_binding(text):
    """Whether a number stands before its binding.

    Relay's numbering does that, rarely: for what an expression with scopes holds, where another one uses it
    in a condition and the first one in a branch.
    """
    first_uses = {}
    for result in re.finditer(r"(%\d+)( = )?", text):
        first_uses.setdefault(result[1], result[2])
    return None in first_uses.values()


@pytest.mark.full
@QUICK
@given(modules())
def test_a_printed_module_is_the_same_program(module):
    text = module.astext()
    assume(not uses_before_binding(text))
    again = parse_module(text)
    assert structural_equal(module, again)
    assert again.astext() == text


TEXTS = [each["text"] for name in ("programs", "refused") for each in load_file(name)]
PIECES = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    ";",
    ".",
    "=",
    "%x",
    "%0",
    "@main",
    "let",
    "fn",
    "if",
    "else",
    "type",
]
PIECES += [
    "match",
    "def",
    "meta",
    "-",
    "1",
    "0.5f",
    '"',
    "/*",
    "*/",
    "//",
    "#[",
    "?",
    "_",
    "\n",
    "\0",
    "é",
    "=>",
]


def broken(rng):
    """A text of the corpus, cut off or changed at a few positions."""
    text = rng.choice(TEXTS)
    if rng.random() < 0.3:
        return text[: rng.randrange(len(text))]
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.choice([0, 0, 1, 2, 10]))
        text = text[:start] + rng.choice(PIECES) + text[end:]
    return text


def outcome(parse, text):
    """The printed text of what was read, or the error."""
    try:
        read = parse(text)
    except RelayError as error:
        return error
    return read.astext() if isinstance(read, Module) else expr_text(read)


@pytest.mark.parametrize("seed", range(10))
def test_broken_text_gives_located_errors(seed):
    rng = random.Random(seed)
    outcomes = [outcome(parse_module, broken(rng)) for _ in range(200)]
    errors = [each for each in outcomes if isinstance(each, RelayError)]
    assert 100 < len(errors) < 200
    diagnostics = [diagnostic for error in errors for diagnostic in error.diagnostics]
    assert all(each.span is not None and each.render(color=True) for each in diagnostics)


@pytest.mark.full
@QUICK
@given(st.text() | st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_any_text_is_read_or_refused(text):
    assert str(outcome(parse_module, f'#[version = "0.0.5"]\n{text}'))
    assert str(outcome(parse_expression, text))
