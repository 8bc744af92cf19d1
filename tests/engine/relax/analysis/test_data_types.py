"""Data types as machine code.

What programs over them mean is judged by the snippets, by `interpreter/test_control_flow` and by random
programs of the family `language`; here are memory, depth, sharing, dtypes, and what stays on the interpreter:
what `engine/relax/analysis/cell_layout`, `engine/relax/analysis/cell_operators`,
`engine/relax/analysis/pattern_tests`, `engine/relax/lowering/cells`, `engine/relax/codegen/aot/cells`,
`engine/relax/codegen/aot/cell_memory`, `engine/relax/codegen/aot/planning/cells`,
`engine/relax/runtime/cell_executable` and `relay/passes/specialization` do.
"""

import ctypes
import gc
import resource
import sys
import warnings
from functools import cache

import ml_dtypes
import numpy as np
import pytest

import nnmagic
from nnmagic.engine import EngineError
from nnmagic.engine.relax import build
from nnmagic.engine.relax.runtime.cell_executable import CellExecutable
from nnmagic.relay.values import AdtValue
from tests.engine.programs import VERSION, compile_text

LIST = """class List:
    def Nil(): ...
    def Cons(head: f64, tail: List): ...

def onto(n: i64, items: List) -> List:
    if n == 0:
        return items
    return onto(n - 1, List.Cons(f64(n), items))

def made(n: i64) -> List:
    if n == 0:
        return List.Nil()
    return List.Cons(f64(n), made(n - 1))

def total(items: List, start: f64) -> f64:
    match items:
        case List.Nil():
            return start
        case List.Cons(head, tail):
            return total(tail, start + head)

"""


ENDS = {
    "by_loop": "def f(n: i64):\n    return total(onto(n, List.Nil()), 0.0)\n",
    "by_recursion": "def f(n: i64):\n    return total(made(n), 0.0)\n",
    "given": "def f(items: List):\n    return total(items, 0.0)\n",
    "given_back": "def f(n: i64):\n    return onto(n, List.Nil())\n",
}


@cache
def fold(kind):
    """A function over lists: its sum, built from the end or the start; a list; the sum of one."""
    return nnmagic.compile(LIST + ENDS[kind])


def test_long_lists_take_no_stack():
    assert fold("by_loop")(1_000_000) == 500_000_500_000
    assert fold("by_recursion")(300_000) == 45_000_150_000
    with pytest.raises(RecursionError, match="deeper than 1000000 calls"):
        fold("by_recursion")(1_000_001)


@pytest.mark.full
def test_calls_leave_no_memory_behind():
    items = fold("given_back")(20)

    def call():
        fold("by_loop")(2_000)
        fold("by_recursion")(50)
        return fold("given")(items)

    for _ in range(100):
        call()
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1_000):
        assert call() == 210
    unit = 1 if sys.platform == "darwin" else 1024
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 1 << 20


def compile_cell(source):
    """The executable of the last function of a cell, which does not copy results again."""
    f = nnmagic.compile(source)
    executable = build(f.relay, f.__name__)
    assert isinstance(executable, CellExecutable)
    return executable


TREE = """class Tree:
    def Leaf(value: f64): ...
    def Node(left: Tree, right: Tree): ...

"""


def test_values_that_are_shared_stay_so():
    leaf = AdtValue("Leaf", (np.float64(1.5),))
    tree = AdtValue("Node", (leaf, AdtValue("Node", (leaf, leaf))))
    doubled = """def f(t: Tree, n: i64) -> Tree:
    if n == 0:
        return t
    return f(Tree.Node(t, t), n - 1)
"""
    executable = compile_cell(TREE + doubled)
    result = executable([tree, np.int64(60)])  # of more leaves than any memory holds
    for _ in range(60):
        assert result.fields[0] is result.fields[1]
        result = result.fields[0]
    assert result == tree


DTYPES = ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float32", "float64"]


@pytest.mark.sampled(every=6)
@pytest.mark.parametrize("dtype", DTYPES)
def test_fields_of_each_dtype_come_back(dtype):
    text = f"""type T {{
  Many({dtype}, Tensor[(3), {dtype}], T[], ({dtype}, (Tensor[(0, 2), {dtype}], Tensor[(?, 2), {dtype}]))),
  None_,
}}
def @main(%t: T[]) -> (T[], {dtype}) {{
  match? (%t) {{ Many(%a, %b, %c, (%d, (%e, %f))) => {{ (Many(%d, %b, %t, (%a, (%e, %f))), %a) }} }}
}}"""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    values = np.array([0, 1, 0, 1, 1, 0], kind)
    many = (
        *(values[0], values[:3], AdtValue("None_")),
        (values[1], (np.empty((0, 2), kind), values.reshape(3, 2))),
    )
    (made, first) = compile_text(text)([AdtValue("Many", many)])
    a, b, inner, (d, (e, f)) = made.fields
    assert inner == AdtValue("Many", many)
    assert {each.dtype for each in (a, b, d, e, f, first)} == {kind}
    assert (a, d, first) == (values[1], values[0], values[0])
    np.testing.assert_array_equal(b, values[:3])
    np.testing.assert_array_equal(f, values.reshape(3, 2))
    assert e.shape == (0, 2)


def test_an_array_may_have_another_size_in_each_cell():
    text = """type L { Cons(Tensor[(?), float64], L[]), Nil, }
def @joined(%l: L[], %done: Tensor[(?), float64]) -> Tensor[(?), float64] {
  match (%l) { Cons(%h, %t) => { @joined(%t, concatenate((%done, %h))) }, Nil => { %done } }
}
def @main(%l: L[]) -> (Tensor[(?), float64], L[]) {
  let %all = @joined(%l, zeros(shape=[0], dtype="float64"));
  (%all, Cons(%all, %l))
}"""
    parts = [np.arange(float(length)) for length in (3, 0, 5)]
    items = AdtValue("Nil")
    for part in reversed(parts):
        items = AdtValue("Cons", (part, items))
    together, made = compile_text(text)([items])
    np.testing.assert_array_equal(together, np.concatenate(parts))
    np.testing.assert_array_equal(made.fields[0], together)
    assert made.fields[1] == items


def test_no_arm_of_a_nested_match_names_the_constructor():
    text = """type L { Cons(float64, L[]), Nil, }
def @main(%l: L[], %x: float64) -> float64 {
  match? ((%l, %x)) { (Cons(%h, Cons(_, Nil)), %y) => { add(%h, %y) } }
}
def @one(%l: L[]) -> float64 { match? (%l) { Cons(%h, Cons(_, Nil)) => { %h } } }"""
    one = AdtValue("Cons", (np.float64(1), AdtValue("Nil")))
    two = AdtValue("Cons", (np.float64(2), one))
    assert compile_text(text)([two, np.float64(5)]) == 7
    head = compile_text(text, entry="one", opt_level=0)
    assert head([two]) == 2
    three = AdtValue("Cons", (np.float64(3), two))
    for value, name in ((one, "Cons"), (AdtValue("Nil"), "Nil"), (three, "Cons")):
        with pytest.raises(RuntimeError, match=rf"no arm of the match.* takes {name}"):
            head([value])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("let %r = ref(%x); ref_read(%r)", "it has references"),
        ("@nested(%x, 3)", "@nested has parameters of any type"),
    ],
)
def test_what_an_interpreter_runs_says_why(body, reason):
    text = """
def @nested[A](%x: A, %n: int32) -> float32 {
  if (equal(%n, 0)) { 1f } else { @nested((%x, %x), subtract(%n, 1)) }
}
"""
    f = nnmagic.compile(nnmagic.relay.parse(f"{VERSION}{text}def @main(%x: float32) {{ {body} }}"))
    assert reason in f.why.note
    assert f(2.0) in (1, 2)


def test_values_of_data_types_do_not_leave_for_c(tmp_path):
    fold("by_loop").export(tmp_path / "sum.so")
    run = ctypes.CDLL(str(tmp_path / "sum.so")).f
    result = ctypes.c_double()
    assert run(ctypes.c_int64(100), ctypes.byref(result)) == 0
    assert result.value == 5050
    with pytest.raises(EngineError, match="takes or returns values of data types"):
        fold("given").export(tmp_path / "given.so")


def test_rounds_that_make_values_run_one_after_the_other():
    source = (
        LIST
        + """def f(x: Tensor[("n",), f64], k: i64):
    y = np.zeros(len(x))
    for i in prange(len(x)):
        items, s = List.Nil(), 0.0
        for j in range(k):
            items = List.Cons(x[i] + f64(j), items)
        for j in range(k):
            match items:
                case List.Nil():
                    s = -1.0
                case List.Cons(head, tail):
                    s, items = s + head, tail
        y[i] = s
    return y
"""
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        f = nnmagic.compile(source, namespace={"np": np})
    assert any("its rounds make values of data types" in str(each.message) for each in said)
    np.testing.assert_array_equal(f(np.arange(3.0), 4), [6, 10, 14])


ROUNDS = """class Row:
    def End(): ...
    def Row(x: Tensor[(2,), f64], n: i64, rest: Row): ...

def row(x: Tensor[(2,), f64], n: i64) -> Row:
    r = Row.End()
    for i in range(n):
        r = Row.Row(x + f64(i), i, r)
    return r

def length(r: Row) -> i64:
    match r:
        case Row.End():
            return i64(0)
        case Row.Row(_, _, rest):
            return length(rest) + 1

def first(r: Row, x: Tensor[(2,), f64]) -> Tensor[(2,), f64]:
    match r:
        case Row.End():
            return x
        case Row.Row(y, _, _):
            return y

def f(x: Tensor[(2,), f64], m: i64):
    s, count, kept, last = 0.0, i64(0), Row.End(), x
    for i in range(m):
        made = row(x, i % 5)
        count += length(made)
        last = first(made, last) + first(row(last, i % 3), x)
        for j in range(i % 4):
            s += first(row(last * 0.1, j + 1), x).sum()
        match made:
            case Row.Row(y, n, rest):
                x = y * 0.5
                if n % 2 == 0:
                    kept = Row.Row(last, length(rest), kept)
            case Row.End():
                x = x + 1.0
    return s, count, last, kept
"""


@pytest.mark.parametrize("opt_level", [0, 3])
def test_what_rounds_keep_survives_what_they_drop(opt_level):
    arguments = np.array([0.5, -2.0]), np.int64(40)
    ways = {"opt_level": opt_level}, {"engine": "numpy"}
    results = [nnmagic.compile(ROUNDS, **way)(*arguments) for way in ways]
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-12)
    assert results[0][1] == results[1][1]
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-12)
    ours, theirs = (items_of(result[3]) for result in results)
    assert len(ours) == len(theirs) > 5
    for (row, count), (other, expected) in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(row, other, rtol=1e-12)
        assert count == expected


def items_of(value):
    """The arrays and numbers in a Row."""
    items = []
    while value.fields:
        items.append(value.fields[:2])
        value = value.fields[2]
    return items


def test_rounds_and_calls_that_keep_nothing_need_no_more_memory():
    source = (
        LIST
        + """def f(n: i64, m: i64):
    s, k = 0.0, i64(0)
    while k < m:
        s += total(onto(n, List.Nil()), f64(k))
        k += 1
    return s
"""
    )
    f = nnmagic.compile(source)
    assert f(10, 3) == 3 * 55 + 3
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert f(1_000, 20_000) == 20_000 * 500_500 + 20_000 * 19_999 // 2  # of 480 MB of cells
    unit = 1 if sys.platform == "darwin" else 1024
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 8 << 20
