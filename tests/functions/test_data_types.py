"""Classes of a cell outside of cells: their values, their constructors, and their use in later cells."""

from __future__ import annotations

import copy
import inspect
import pickle
import pydoc

import numpy as np
import pytest

import nnmagic
from nnmagic import CompiledFunction, TinyNNError
from nnmagic.diagnostics import Source
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.cells.compile_cell import compile_cell
from nnmagic.functions.data_types import DataType
from nnmagic.relay import AdtValue
from tests.suites import FULL
from tests.work import count_calls

LIST = '''
class List:
    """A list of vectors."""
    def Nil(): ...
    def Cons(head: Tensor[("n",), f32], tail: List): ...
'''
TOTAL = """
def total(items: List, start: f32 = 0) -> f32:
    match items:
        case Nil():
            return start
        case Cons(head, tail):
            return head.sum() + total(tail, start)
"""
X = np.array([1, 2, 3], "float32")


def bind_cell(source: str, **names: object) -> dict[str, object]:
    """What a cell binds."""
    return compile_cell(Source("<tinynn>", source, first_line=2), names, Options()).bindings


@pytest.fixture(scope="module")
def List() -> DataType:
    bindings = bind_cell(LIST)
    assert list(bindings) == ["List"], "a cell of classes alone"
    assert isinstance(bindings["List"], DataType)
    return bindings["List"]


@pytest.fixture(scope="module")
def total(List: DataType) -> CompiledFunction:
    function = bind_cell(TOTAL, List=List)["total"]
    assert isinstance(function, CompiledFunction)
    return function


def test_values_go_into_functions_and_come_out(List: DataType, total: CompiledFunction) -> None:
    items = List.Cons(X, List.Cons(tail=List.Nil(), head=X * 2))
    assert isinstance(items, AdtValue)
    assert total(items) == 18
    assert total(List.Nil(), 5.0) == 5
    back = nnmagic.compile("def same(l: List):\n    return l\n", namespace={"List": List})(items)
    assert back == items
    assert back != List.Nil()
    assert hash(back) == hash(items)


def test_a_value_is_shown_and_compared_by_structure(List: DataType) -> None:
    items = List.Cons(X, List.Nil())
    assert repr(items) == "Cons(array([1., 2., 3.], dtype=float32), Nil())"
    assert items == List.Cons(X.copy(), List.Nil())
    assert items != List.Cons(X + 1, List.Nil())
    assert items != List.Cons(X[:2], List.Nil())
    assert items != "Cons"
    assert repr(AdtValue("T", ((1, 2.5), (3,)))) == "T((1, 2.5), (3,))"
    match items:
        case AdtValue("Cons", (head, AdtValue("Nil"))):
            np.testing.assert_array_equal(head, X)
        case _:
            pytest.fail("Python's match takes it apart")


@pytest.mark.full
def test_long_lists_are_values_like_others(List: DataType, total: CompiledFunction) -> None:
    def long() -> AdtValue:
        items = List.Nil()
        for _ in range(20_000):
            items = List.Cons(X, items)
        return items

    items = long()
    assert items == long()
    assert pickle.loads(pickle.dumps(items)) == items
    assert copy.deepcopy(items) == items
    assert repr(items).endswith(", ..." + ")" * 50)
    assert total(items) == 120_000
    shared = AdtValue("Leaf")
    for _ in range(60):  # 2 ** 60 leaves, one object a level
        shared = AdtValue("Node", (shared, shared))
    assert len(pickle.dumps(shared)) < 10_000
    assert copy.deepcopy(shared).fields[0] is not shared


#: Deep enough to end a process whose C code descends.
DEPTH = 50_000 if FULL else 20_000

DEEP = """
class Pair:
    def End(): ...
    def Both(part: tuple[f32, Pair]): ...

class Tree:
    def Leaf(value: f32): ...
    def Node(left: Tree, right: Tree): ...

class Nest:
    def Core(): ...
    def Shell(part: tuple[tuple[Nest, f32], i64]): ...
"""


@pytest.mark.full("left", "right", "tuple of tuples")
@pytest.mark.budget(3)
@pytest.mark.parametrize("shape", ["left", "right", "tuple", "tuple of tuples"])
def test_deep_values_of_any_shape(shape: str) -> None:
    """Twice as deep is twice the work to make; the rest goes without recursion."""
    names = bind_cell(DEEP)
    Pair, Tree, Nest = (names[name] for name in ("Pair", "Tree", "Nest"))

    def make(depth: int) -> AdtValue:
        one, leaf = np.float32(1), Tree.Leaf(np.float32(2))
        if shape in ("left", "right"):
            value = leaf
            for _ in range(depth):
                value = Tree.Node(value, leaf) if shape == "left" else Tree.Node(leaf, value)
        elif shape == "tuple":
            value = Pair.End()
            for _ in range(depth):
                value = Pair.Both((one, value))
        else:
            value = Nest.Core()
            for _ in range(depth):
                value = Nest.Shell(((value, one), 3))
        return value

    assert count_calls(lambda: make(400)) < 2.2 * count_calls(lambda: make(200))
    deep, other = make(DEPTH), make(DEPTH)
    assert deep == other
    assert hash(deep) == hash(other)
    assert copy.copy(deep) == deep
    assert copy.deepcopy(deep) == deep
    assert pickle.loads(pickle.dumps(deep)) == deep
    assert len(repr(deep)) < 2000


def test_a_class_is_described(List: DataType) -> None:
    assert repr(List) == """<nnmagic type List: Nil(), Cons(head: Tensor[('n',), f32], tail: List)>"""
    assert repr(List.Cons) == "<nnmagic constructor List.Cons(head: Tensor[('n',), f32], tail: List)>"
    assert list(inspect.signature(List.Cons).parameters) == ["head", "tail"]
    text = pydoc.render_doc(List, renderer=pydoc.plaintext)
    assert "A list of vectors." in text
    assert "List.Cons(head: Tensor[('n',), f32], tail: List)" in text
    assert {"Nil", "Cons"} <= set(dir(List))


def test_a_class_pickles_and_equals_its_like(List: DataType) -> None:
    again = pickle.loads(pickle.dumps(List))
    assert again == List
    assert hash(again) == hash(List)
    assert repr(again) == repr(List)
    assert again.__doc__ == List.__doc__
    assert copy.deepcopy(List) == List
    assert pickle.loads(pickle.dumps(List.Cons)) == List.Cons
    assert bind_cell(LIST.replace("f32", "f64"))["List"] != List
    assert bind_cell(LIST.replace("head", "first"))["List"] != List
    with pytest.raises(AttributeError, match="cannot be changed"):
        List.Nil = 3


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        ("List.Cons(X)", TypeError, r"^Cons\(\) missing 1 required positional argument: 'tail'$"),
        (
            "List.Cons(X, 3)",
            TypeError,
            r"^Cons\(\) argument 'tail' must be List, made by List.Nil\(\) or List.Cons\(...\), not an int",
        ),
        ("List.Cons(X, AdtValue('Leaf'))", TypeError, "'Leaf' is none of its constructors"),
        ("List.Cons(X.astype('float64'), List.Nil())", TypeError, r"argument 'head' .* float64"),
        ("List.Nil(1)", TypeError, r"^Nil\(\) takes 0 positional arguments but 1 was given$"),
        ("List.Con", AttributeError, "List has no constructor 'Con'. Did you mean 'Cons'?"),
        ("List(X)", TypeError, r"made by its constructors: List.Nil\(\) or List.Cons\(head"),
        (
            "total(3)",
            TypeError,
            r"total\(\) argument 'items' must be List, made by List.Nil\(\) or List.Cons\(...\), not an int",
        ),
        ("total(List.Cons(X, AdtValue('Cons', (1, 2))))", TypeError, r"Cons\[1\].Cons\[0\]"),
    ],
)
def test_wrong_values_are_refused(
    List: DataType, total: CompiledFunction, call: str, kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        eval(call, {"List": List, "X": X, "AdtValue": AdtValue, "total": total})


def test_types_of_a_compiled_source(total: CompiledFunction, List: DataType) -> None:
    whole = nnmagic.compile(LIST + TOTAL)
    assert list(whole.types) == ["List"]
    assert whole.types["List"] == List == total.types["List"]
    loaded = pickle.loads(pickle.dumps(whole))
    assert loaded.types["List"] == List
    assert loaded(loaded.types["List"].Cons(X, List.Nil())) == 6
    with pytest.raises(TinyNNError, match="has no function"):
        nnmagic.compile(LIST)
    text = "type L[A] { N, C(A, L[A]), }\ndef @main(%l: L[float32]) -> L[float32] { %l }"
    generic = nnmagic.compile(nnmagic.relay.parse(f'#[version = "0.0.5"]\n{text}')).types["L"]
    assert generic.C(X, generic.N()) == AdtValue("C", (X, AdtValue("N")))


def test_private_classes_are_not_bound() -> None:
    bindings = bind_cell(LIST.replace("List", "_List") + "\ndef f(x: f32):\n    return x\n")
    assert list(bindings) == ["f"]


@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize(
    "body",
    [
        "match items:\n        case List.Cons(h, List.Nil()):\n            return total(Cons(h, Nil()), 1)\n"
        "        case _:\n            return total(items)",
        "match items:\n        case Cons(h, Nil()):\n            return total(List.Cons(h, List.Nil()), 1)\n"
        "        case _:\n            return total(items)",
    ],
)
def test_later_cells_use_a_class(List: DataType, total: CompiledFunction, body: str, loaded: bool) -> None:
    names: dict[str, object] = {"List": List, "total": total}
    if loaded:
        names = {name: pickle.loads(pickle.dumps(value)) for name, value in names.items()}
    f = nnmagic.compile(f"def f(items: List) -> f32:\n    {body}\n", namespace=names)
    for function in (f, pickle.loads(pickle.dumps(f))):
        assert function(List.Cons(X, List.Nil())) == 7
        assert function(List.Cons(X, List.Cons(X, List.Nil()))) == 12


def test_a_bare_constructor_needs_no_mention_of_its_class(List: DataType, total: CompiledFunction) -> None:
    source = "def f(x: Tensor[(3,), f32]):\n    return total(Cons(x, Nil()))\n"
    assert nnmagic.compile(source, namespace={"List": List, "total": total})(X) == 6
    other = bind_cell("class Other:\n    def Nil(): ...\n")["Other"]
    with pytest.raises(TinyNNError, match="`Nil` is a constructor of List and of Other"):
        nnmagic.compile(source, namespace={"List": List, "Other": other, "total": total})
    with pytest.raises(TinyNNError, match="unknown name `Cons`"):
        nnmagic.compile(source, namespace={"total": total})


def test_a_class_of_a_class_of_an_earlier_cell(List: DataType) -> None:
    pair = """
class Pair:
    def Of(first: List, second: List): ...

def f(p: Pair):
    match p:
        case Of(a, _):
            return a
"""
    bindings = bind_cell(pair, List=List)
    Pair, f = bindings["Pair"], bindings["f"]
    value = Pair.Of(List.Cons(X, List.Nil()), List.Nil())
    assert f(value) == List.Cons(X, List.Nil())
    assert list(f.types) == ["List", "Pair"]
    assert pickle.loads(pickle.dumps(Pair)) == Pair


def test_two_types_of_one_name_are_an_error_that_names_both(List: DataType, total: CompiledFunction) -> None:
    other = bind_cell(LIST.replace("f32", "f64"))["List"]
    source = "def f(items: List) -> f32:\n    return total(items)\n"
    with pytest.raises(TinyNNError) as caught:
        nnmagic.compile(source, namespace={"List": other, "total": total})
    (error,) = caught.value.diagnostics
    assert error.message == "two different data types are called List: that of `List` and that of `total`"
    assert (error.span.line, error.span.column) == (2, 12)
    assert [note.message for note in error.notes] == [
        'List of `List`: Nil(), Cons(Tensor[("n",), f64], List)',
        'List of `total`: Nil(), Cons(Tensor[("n",), f32], List)',
    ]
    with pytest.raises(TinyNNError, match="that of this cell and that of `total`"):
        nnmagic.compile(LIST.replace("f32", "f64") + source, namespace={"total": total})
    again = nnmagic.compile(LIST + source, namespace={"total": total})  # the same class, written again
    assert again(List.Cons(X, List.Nil())) == 6


@pytest.mark.usefixtures("memory_only")
def test_a_changed_class_is_compiled_anew(List: DataType) -> None:
    source = "def f(items: List):\n    return items\n"
    assert nnmagic.compile(source, namespace={"List": List}).cache_info.why != "found in memory"
    assert (
        nnmagic.compile(source, namespace={"List": pickle.loads(pickle.dumps(List))}).cache_info.hit
        == "memory"
    )
    renamed = bind_cell(LIST.replace("head", "first"))["List"]
    assert (
        nnmagic.compile(source, namespace={"List": renamed}).cache_info.why == "captured class `List` changed"
    )


def test_a_value_is_no_name_for_a_cell(List: DataType) -> None:
    with pytest.raises(
        TinyNNError, match="`items` is a value made by Nil, which a cell cannot use"
    ) as caught:
        nnmagic.compile("def f(x: f32):\n    return items\n", namespace={"items": List.Nil()})
    assert caught.value.diagnostics[0].hint == "pass it as an argument"


RECORD = (
    "class Point:\n    def Point(x: f32, y: f32): ...\n\n"
    "def sum_of(p: Point):\n    match p:\n        case Point(x, y=y):\n            return x + y\n\n"
    "def mirrored(p: Point):\n    match p:\n        case Point(x, y):\n            return Point(y, x)\n"
)


def test_a_record_is_a_class_with_a_constructor_of_its_name() -> None:
    cell = bind_cell(RECORD)
    Point = cell["Point"]
    assert Point(1.0, y=2.0) == Point.Point(1.0, 2.0)
    assert cell["sum_of"](Point(1.0, 2.0)) == 3
    assert cell["mirrored"](Point(1.0, 2.0)) == Point(2.0, 1.0)
    later = bind_cell("def flat(x: f32):\n    return Point(x, 0.0)\n", Point=Point)
    assert later["flat"](3.0) == Point(3.0, 0.0)


def test_unnamed_fields_go_by_position() -> None:
    module = nnmagic.relay.parse(
        '#[version = "0.0.5"]\n'
        "type Tree {\n  Leaf(float32),\n  Node(Tree[], Tree[]),\n}\n"
        "def @main(%t: Tree[]) -> Tree[] {\n  %t\n}\n"
    )
    Tree = nnmagic.compile(module).types["Tree"]
    assert Tree.Node(Tree.Leaf(1.0), Tree.Leaf(2.0)).fields[1] == Tree.Leaf(2.0)
    with pytest.raises(TypeError, match="positional-only"):
        Tree.Leaf(field0=1.0)
