"""Classes that declare constructors, and match over them, tuples and numbers."""

# ruff: noqa: E501  # a case reads best on one line

import numpy as np

from nnmagic.relay.values import AdtValue
from tests.tinynn.programs.snippets.cases import Accepted, Case, accepted

S = "s: f32"
LIST = """class List:
    def Nil(): ...
    def Cons(head: Tensor[(3,), f32], tail: List): ...

"""
SHAPE = '''class Shape:
    """A figure in the plane."""
    def Circle(radius: f32): ...
    def Box(width: f32, height: f32): ...
    def Empty(): ...

'''
TREE = """class Tree:
    def Leaf(value: f32): ...
    def Node(left: Tree, right: Tree): ...

"""
SUM = """def total(items: List) -> Tensor[(3,), f32]:
    match items:
        case List.Nil():
            return zeros((3,), f32)
        case List.Cons(head, tail):
            return head + total(tail)

"""


def _list(*rows: list[float]) -> AdtValue:
    items = AdtValue("Nil")
    for row in reversed(rows):
        items = AdtValue("Cons", (np.asarray(row, np.float32), items))
    return items


def _scalars(*numbers: float) -> list[tuple[np.ndarray]]:
    return [(np.asarray(number, np.float32),) for number in numbers]


def _ints(*numbers: int) -> list[tuple[np.ndarray]]:
    return [(np.asarray(number, np.int32),) for number in numbers]


def _shapes() -> list[tuple[AdtValue]]:
    one, two = np.float32(2), np.float32(5)
    return [
        (AdtValue("Circle", (one,)),),
        (AdtValue("Box", (one, two)),),
        (AdtValue("Box", (two, two)),),
        (AdtValue("Empty"),),
    ]


def _leaf(number: float) -> AdtValue:
    return AdtValue("Leaf", (np.asarray(number, np.float32),))


def _node(left: AdtValue, right: AdtValue) -> AdtValue:
    return AdtValue("Node", (left, right))


TREES = [
    (_leaf(1),),
    (_node(_leaf(1), _leaf(2)),),
    (_node(_node(_leaf(3), _leaf(-1)), _node(_leaf(2), _leaf(5))),),
]
LISTS = [(_list(),), (_list([1, 2, 3]),), (_list([1, 2, 3], [4, 5, 6], [-7, 8, 9]),)]

CASES: list[Case] = [
    # -- constructors and their fields -----------------------------------------------------------------------
    Accepted("area", SHAPE + "def f(shape: Shape):\n    match shape:\n        case Shape.Circle(radius):\n            return radius * radius * 3.0\n        case Shape.Box(width, height):\n            return width * height\n        case Shape.Empty():\n            return f32(0)\n", arguments=_shapes()),
    Accepted("a-wildcard", SHAPE + "def f(shape: Shape):\n    match shape:\n        case Shape.Box(width, _):\n            return width\n        case _:\n            return f32(-1)\n", arguments=_shapes()),
    Accepted("a-guard", SHAPE + "def f(shape: Shape):\n    match shape:\n        case Shape.Box(width, height) if width == height:\n            return width\n        case Shape.Box(width, height):\n            return -width * height\n        case Shape.Circle(r) if r > 100:\n            return r\n        case _:\n            return f32(0)\n", arguments=[*_shapes(), (AdtValue("Circle", (np.float32(101),)),)]),
    Accepted("fields-by-name", SHAPE + "def f(shape: Shape):\n    match shape:\n        case Shape.Box(height=h, width=w):\n            return h - w\n        case Shape.Circle(radius=r):\n            return r\n        case Shape.Empty():\n            return f32(0)\n", arguments=_shapes()),
    Accepted("alternatives", SHAPE + "def f(shape: Shape):\n    match shape:\n        case Shape.Circle(a) | Shape.Box(a, _):\n            return a\n        case Shape.Empty():\n            return f32(0)\n", arguments=_shapes()),
    Accepted("a-name-for-the-whole", SHAPE + "def area(shape: Shape) -> f32:\n    match shape:\n        case Shape.Box(w, h):\n            return w * h\n        case _:\n            return f32(0)\n\ndef f(shape: Shape):\n    match shape:\n        case Shape.Box() as box:\n            return area(box) + 1\n        case other:\n            return area(other)\n", arguments=_shapes()),
    Accepted("assigned-in-each-case", SHAPE + "def f(shape: Shape):\n    match shape:\n        case Shape.Circle(r):\n            size = r * 2\n        case Shape.Box(w, h):\n            size = maximum(w, h)\n        case Shape.Empty():\n            size = f32(0)\n    return size + 1\n", arguments=_shapes()),
    Accepted("made-in-the-cell", SHAPE + "def area(shape: Shape) -> f32:\n    match shape:\n        case Shape.Circle(r):\n            return r * r * 3.0\n        case Shape.Box(w, h):\n            return w * h\n        case Shape.Empty():\n            return f32(0)\n\ndef f(s: f32):\n    return area(Shape.Box(s, s + 1)), area(Shape.Circle(s)), area(Shape.Empty())\n"),
    Accepted("made-by-keyword", SHAPE + "def f(s: f32):\n    return Shape.Box(height=s, width=s * 2)\n"),
    Accepted("returned", SHAPE + "def f(s: f32):\n    return Shape.Box(s, s + 1), Shape.Empty()\n"),
    Accepted("changed-and-returned", SHAPE + "def f(shape: Shape):\n    match shape:\n        case Shape.Circle(r):\n            return Shape.Circle(r * 2)\n        case Shape.Box(w, h):\n            return Shape.Box(h, w)\n        case Shape.Empty():\n            return Shape.Empty()\n", arguments=_shapes()),
    Accepted("chosen-by-a-tensor", SHAPE + "def f(s: f32):\n    if s > 0:\n        shape = Shape.Circle(s)\n    else:\n        shape = Shape.Empty()\n    return shape\n", arguments=_scalars(-1, 2)),
    # -- recursion -------------------------------------------------------------------------------------------
    Accepted("sum-of-a-list", LIST + SUM + "def f(items: List):\n    return total(items)\n", arguments=LISTS),
    Accepted("length-of-a-list", LIST + "def f(items: List) -> i32:\n    match items:\n        case List.Nil():\n            return i32(0)\n        case List.Cons(_, tail):\n            return f(tail) + 1\n", arguments=LISTS),
    Accepted("a-list-mapped", LIST + "def f(items: List) -> List:\n    match items:\n        case List.Nil():\n            return List.Nil()\n        case List.Cons(head, tail):\n            return List.Cons(head * 2, f(tail))\n", arguments=LISTS),
    Accepted("a-list-reversed", LIST + "def onto(items: List, done: List) -> List:\n    match items:\n        case List.Nil():\n            return done\n        case List.Cons(head, tail):\n            return onto(tail, List.Cons(head, done))\n\ndef f(items: List):\n    return onto(items, List.Nil())\n", arguments=LISTS),
    Accepted("a-list-made-and-summed", LIST + SUM + "def f(x: Tensor[(3,), f32]):\n    return total(List.Cons(x, List.Cons(x * 2, List.Nil())))\n"),
    Accepted("the-first-two", LIST + "def f(items: List):\n    match items:\n        case List.Cons(a, List.Cons(b, _)):\n            return a - b\n        case List.Cons(a, List.Nil()):\n            return a * 10\n        case List.Nil():\n            return zeros((3,), f32)\n", arguments=LISTS),
    Accepted("the-last", LIST + "def f(items: List) -> Tensor[(3,), f32]:\n    match items:\n        case List.Nil():\n            return zeros((3,), f32)\n        case List.Cons(head, List.Nil()):\n            return head\n        case List.Cons(_, tail):\n            return f(tail)\n", arguments=LISTS),
    Accepted("a-list-filtered", LIST + "def f(items: List) -> List:\n    match items:\n        case List.Nil():\n            return items\n        case List.Cons(head, tail) if head.sum() > 8:\n            return List.Cons(head, f(tail))\n        case List.Cons(_, tail):\n            return f(tail)\n", arguments=LISTS),
    Accepted("a-loop-that-makes-a-list", LIST + "def f(x: Tensor[(4, 3), f32]):\n    items = List.Nil()\n    for row in x:\n        items = List.Cons(row, items)\n    return items\n"),
    Accepted("a-list-by-while", LIST + "def f(items: List):\n    total = zeros((3,), f32)\n    going = bool_(True)\n    while going:\n        match items:\n            case List.Cons(head, tail):\n                total = total * 2 + head\n                items = tail\n            case List.Nil():\n                going = bool_(False)\n    return total\n", arguments=LISTS),
    Accepted("sum-of-a-tree", TREE + "def f(tree: Tree) -> f32:\n    match tree:\n        case Tree.Leaf(value):\n            return value\n        case Tree.Node(left, right):\n            return f(left) + f(right)\n", arguments=TREES),
    Accepted("depth-of-a-tree", TREE + "def f(tree: Tree) -> i32:\n    match tree:\n        case Tree.Leaf():\n            return i32(1)\n        case Tree.Node(left, right):\n            return maximum(f(left), f(right)) + 1\n", arguments=TREES),
    Accepted("a-tree-mirrored", TREE + "def f(tree: Tree) -> Tree:\n    match tree:\n        case Tree.Leaf(_):\n            return tree\n        case Tree.Node(left, right):\n            return Tree.Node(f(right), f(left))\n", arguments=TREES),
    Accepted("patterns-in-patterns", TREE + "def f(tree: Tree) -> f32:\n    match tree:\n        case Tree.Node(Tree.Leaf(a), Tree.Leaf(b)):\n            return a * b\n        case Tree.Node(Tree.Node(_, b), c):\n            return f(b) - f(c)\n        case Tree.Node(_, c):\n            return f(c)\n        case Tree.Leaf(a):\n            return a\n", arguments=[*TREES, (_node(_leaf(4), _node(_leaf(5), _leaf(6))),)]),
    # -- tuples and numbers ----------------------------------------------------------------------------------
    accepted("match-of-numbers", "i: i32", "match i:\n    case 0:\n        return i32(10)\n    case 1 | 2:\n        return i * 5\n    case -1:\n        return i32(7)\n    case _:\n        return -i", arguments=_ints(0, 1, 2, -1, 9)),
    accepted("match-with-a-guard", S, "match s:\n    case 0:\n        return s\n    case v if v > 10:\n        return v - 10\n    case v:\n        return v * 2", arguments=_scalars(0, 11, 3, -4)),
    accepted("match-of-a-tuple", "a: i32, b: i32", "match (a, b):\n    case (0, 0):\n        return i32(0)\n    case (0, y):\n        return y * 10\n    case (x, 0):\n        return x * 100\n    case (x, y):\n        return x - y", arguments=[(np.int32(a), np.int32(b)) for a, b in [(0, 0), (0, 3), (4, 0), (5, 2)]]),
    accepted("match-of-a-nested-tuple", "t: tuple[f32, tuple[f32, f32]]", "match t:\n    case (a, (b, c)) if a > b:\n        return a - c\n    case (a, (b, _)):\n        return b - a", arguments=[((np.float32(a), (np.float32(b), np.float32(c))),) for a, b, c in [(1, 2, 3), (3, 2, 1)]]),
    accepted("match-of-a-shape", "x: Tensor[(2, 3), f32]", "match x.shape:\n    case (2, n):\n        return x * n\n    case _:\n        return x", everything=False),
    accepted("match-of-a-shape-with-a-rest", "x: Tensor[(2, 3, 4), f32]", "match x.shape:\n    case (n, *rest):\n        return x.reshape(n, -1) * len(rest)", everything=False),
    accepted("match-of-the-notebooks-text", S, 'match mode:\n    case "double":\n        return s * 2\n    case _:\n        return s', namespace={"mode": "double"}, everything=False),
    Accepted("a-tuple-of-data-types", SHAPE + "def f(a: Shape, b: Shape):\n    match (a, b):\n        case (Shape.Circle(r), Shape.Circle(q)):\n            return r - q\n        case (Shape.Box(w, _), _):\n            return w\n        case _:\n            return f32(-1)\n", arguments=[(AdtValue("Circle", (np.float32(4),)), AdtValue("Circle", (np.float32(1),))), (AdtValue("Box", (np.float32(4), np.float32(3))), AdtValue("Empty")), (AdtValue("Empty"), AdtValue("Empty"))]),
    Accepted("a-field-that-is-a-tuple", "class Pair:\n    def Pair(items: tuple[f32, f32]): ...\n\ndef f(s: f32):\n    p = Pair.Pair((s, s + 1))\n    match p:\n        case Pair.Pair((a, b)):\n            return a - b\n"),
]  # fmt: skip
