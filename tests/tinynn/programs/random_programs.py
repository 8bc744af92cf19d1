"""Random cells that are valid: control flow, functions in functions, data types. Knows Python's text only.

Each name keeps one kind for life, so that what Python does is never a matter of luck: P and Q are Python's
int and float, I and D may be these or i64 and f64 tensors, F is an f32, V and W are vectors of three f32 and
i64, B is a truth value, L and R are values of the data types below. Numbers stay small and floats are exact.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from nnmagic.relay.values import AdtValue

TYPES = """class List:
    def Nil(): ...
    def Cons(head: i64, tail: List): ...

class Tree:
    def Leaf(value: f32): ...
    def Node(left: Tree, right: Tree): ...

def total(items: List, seen: i64) -> i64:
    match items:
        case Nil():
            return seen
        case Cons(a, Cons(b, rest)) if a > b:
            return total(rest, seen + a - b)
        case Cons(3, rest) | Cons(_, Cons(4, rest)):
            return 7 + total(rest, seen)
        case Cons(head, tail):
            return total(tail, (seen + head) % 1009)

def depth(tree: Tree) -> i64:
    match tree:
        case Node(Node(Leaf(a), b), c) if a > 0:
            return 2 + depth(b) - depth(c)
        case Node(left, right):
            l, r = depth(left), depth(right)
            return 1 + (l if l > r else r)
        case Leaf(_):
            return 0

def mirrored(tree: Tree) -> Tree:
    match tree:
        case Node(left, right):
            return Node(mirrored(right), mirrored(left))
        case other:
            return other

def descend(n: i64, x: f32) -> f32:
    if n <= 0:
        return x
    y = descend(n - 1 - n % 2, x * 0.5)
    return y + 1 if n % 3 else y - x

"""
ANNOTATIONS = {
    "I": "i64",
    "D": "f64",
    "F": "f32",
    "B": "bool_",
    "V": "Tensor[(3,), f32]",
    "W": "Tensor[(3,), i64]",
    "L": "List",
    "R": "Tree",
}
_MAX_DEPTH = 3


@dataclass
class Function:
    """A function that is in sight: the kinds of its parameters and of its result."""

    params: str
    result: str
    typed: bool


@dataclass
class Where:
    """A position in the program."""

    names: dict[str, str]
    functions: dict[str, Function]
    result: str
    depth: int = 0
    loop: bool = False
    #: Names that no statement may assign: counters of loops around, and what functions around own.
    fixed: frozenset[str] = frozenset()
    #: In a function inside another: how deep.
    inside: int = 0

    def inner(self, **changes: object) -> Where:
        """A block in it."""
        scope = Where(
            dict(self.names),
            dict(self.functions),
            self.result,
            self.depth + 1,
            self.loop,
            self.fixed,
            self.inside,
        )
        for name, value in changes.items():
            setattr(scope, name, value)
        return scope


@dataclass
class Generator:
    """Writes one program."""

    random: random.Random
    size: int = 30
    lines: list[str] = field(default_factory=list)
    made: int = 0

    def program(self) -> tuple[str, list[tuple[object, ...]]]:
        """The source of a cell, whose last function is ``f``, and arguments of some calls."""
        kinds = [self.random.choice("IIFFVDWBLR") for _ in range(self.random.randint(2, 4))]
        names = {f"p{index}": kind for index, kind in enumerate(kinds)}
        result = "".join(self.random.choice("IDFVWBIFP") for _ in range(self.random.randint(1, 3)))
        where = Where(names, {}, result)
        written = ", ".join(f"{name}: {ANNOTATIONS[kind]}" for name, kind in names.items())
        self.lines = [f"def f({written}):"]
        self.block(where, 1, self.random.randint(3, 9), must_return=True)
        source = TYPES + "\n".join(self.lines) + "\n"
        return source, [tuple(map(self.argument, kinds)) for _ in range(4)]

    # -- values ----------------------------------------------------------------------------------------

    def argument(self, kind: str) -> object:
        """A value of a parameter."""
        pick = self.random.randint
        match kind:
            case "I":
                return np.asarray(pick(-4, 9), np.int64)
            case "D":
                return np.asarray(pick(-8, 8) / 4, np.float64)
            case "F":
                return np.asarray(pick(-8, 8) / 4, np.float32)
            case "B":
                return np.asarray(pick(0, 1) == 1)
            case "V":
                return np.asarray([pick(-8, 8) / 4 for _ in range(3)], np.float32)
            case "W":
                return np.asarray([pick(-5, 9) for _ in range(3)], np.int64)
            case "L":
                items = AdtValue("Nil")
                for _ in range(pick(0, 4)):
                    items = AdtValue("Cons", (np.asarray(pick(0, 5), np.int64), items))
                return items
        return self._tree(3)

    def _tree(self, depth: int) -> AdtValue:
        if depth == 0 or self.random.random() < 0.3:
            return AdtValue("Leaf", (np.asarray(self.random.randint(-4, 4) / 2, np.float32),))
        return AdtValue("Node", (self._tree(depth - 1), self._tree(depth - 1)))

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def new(self, stem: str = "v") -> str:
        self.made += 1
        return f"{stem}{self.made}"

    # -- expressions -----------------------------------------------------------------------------------

    def expr(self, kind: str, where: Where, depth: int = 0) -> str:
        """An expression of a kind."""
        names = [name for name, each in where.names.items() if each == kind]
        if kind in "ID":
            names += [name for name, each in where.names.items() if each == {"I": "P", "D": "Q"}[kind]]
        calls = [name for name, each in where.functions.items() if each.result == kind]
        if calls and depth < _MAX_DEPTH and self.chance(0.3):
            return self.call(self.random.choice(calls), where, depth)
        if names and (depth >= 2 or self.chance(0.35)):
            return self.random.choice(names)
        if depth >= _MAX_DEPTH:
            return self.leaf(kind, where)
        if depth < 2 and kind not in "LR" and self.chance(0.12):
            one, other = (self.expr(kind, where, depth + 1) for _ in range(2))
            return f"({one} if {self.condition(where, depth + 1)} else {other})"
        if depth < 2 and kind in "PIFVDW" and self.chance(0.05) and where.inside == 0:
            name = self.new("w")
            text = f"({name} := {self.expr(kind, where, depth + 1)})"
            if depth == 0:
                where.names[name] = kind
            return text
        text: str = getattr(self, f"_{kind}")(where, depth + 1)
        return text if text.isidentifier() else f"({text})"

    def leaf(self, kind: str, where: Where) -> str:
        number = self.random.randint(0, 6)
        return {
            "P": f"{number}",
            "I": self.random.choice([f"{number}", f"i64({number})"]),
            "Q": f"{number / 2}",
            "D": self.random.choice([f"{number / 4}", f"f64({number / 4})"]),
            "F": f"f32({number / 2})",
            "B": self.random.choice(["True", "False"]),
            "V": "zeros((3,), f32)",
            "W": "ones((3,), i64)",
            "L": "Nil()",
            "R": f"Leaf(f32({number / 2}))",
        }[kind]

    def _sign(self, signs: Sequence[str] = "+-*") -> str:
        return self.random.choice(signs)

    def _P(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str = "P") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: self.leaf("P", where),
                lambda: f"({e()} {self._sign()} {e()}) % {self.random.choice([7, 11, 97])}",
                lambda: f"({e()} // {self.random.choice([2, 3, -2])})",
                lambda: f"int({e('I')})",
                lambda: f"-{e()}",
                lambda: f"({e()}, {e()})[{self.random.randint(0, 1)}]",
                lambda: f"len(({e()}, 1))",
                lambda: f"{e()} % 5",
                lambda: f"({e()} {self.random.choice(['and', 'or'])} {e()})",
            ]
        )()

    def _Q(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str = "Q") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: self.leaf("Q", where),
                lambda: f"({e()} {self._sign('+-')} {e(self._sign('PQ'))})",
                lambda: f"{e()} * 0.5",
                lambda: f"{e('P')} / 4",
                lambda: f"float({e('F')})",
                lambda: f"{e()} % 8.0",
            ]
        )()

    def _I(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str = "I") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: self.expr("P", where, depth),
                lambda: f"({e()} {self._sign()} {e()}) % {self.random.choice([7, 11, 97])}",
                lambda: f"({e()} // {self.random.choice([2, 3, -2])})",
                lambda: f"{e('W')}[{self.random.randint(-3, 2)}]",
                lambda: f"{e('W')}.sum() % 31",
                lambda: f"total({e('L')}, {e()})",
                lambda: f"depth({e('R')})",
                lambda: f"({e()} {self.random.choice(['and', 'or'])} {e()})",
                lambda: f"({e('I')} {self._sign('+-')} {e('P')}) % 50",
            ]
        )()

    def _D(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str = "D") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: self.expr("Q", where, depth),
                lambda: f"({e()} {self._sign('+-')} {e(self._sign('DPQ'))})",
                lambda: f"{e()} * 0.5",
                lambda: f"{e('I')} / 4",
                lambda: f"f64({e('F')})",
            ]
        )()

    def _F(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str = "F") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: self.leaf("F", where),
                lambda: f"({e()} {self._sign('+-')} {e(self._sign('FFPQ'))})",
                lambda: f"({e(self._sign('PQ'))} {self._sign('+-')} {e()})",
                lambda: f"{e()} * {self.random.choice(['0.5', '-1', '2'])}",
                lambda: f"{e('V')}[{self.random.randint(-3, 2)}]",
                lambda: f"{e('V')}.max()",
                lambda: f"maximum({e()}, {e()})",
                lambda: f"f32({e('I')})",
                lambda: f"descend({e('I')} % 6, {e()})",
            ]
        )()

    def _V(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str = "V") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: f"({e()} {self._sign('+-')} {e(self._sign('VFPQ'))})",
                lambda: f"{e()} * 0.5",
                lambda: f"where({e()} > {e(self._sign('VFP'))}, {e()}, {e()})",
                lambda: f"{e()}[::-1]",
                lambda: f"stack([{e('F')}, {e('F')}, {e('F')}])",
                lambda: f"stack([{e('F')} + k for k in range(3)])",
                lambda: f"{e('W')}.astype(f32)",
            ]
        )()

    def _W(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str = "W") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: f"({e()} {self._sign()} {e(self._sign('WIP'))}) % 13",
                lambda: f"{e()} // 2",
                lambda: f"where({e()} > {e(self._sign('WIP'))}, {e()}, {e()})",
                lambda: f"stack([{e()}[2 - k] for k in range(3)])",
            ]
        )()

    def _L(self, where: Where, depth: int) -> str:  # a kind
        return f"Cons({self.expr('I', where, depth)}, {self.expr('L', where, depth)})"

    def _R(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str = "R") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [lambda: f"Node({e()}, {e()})", lambda: f"Leaf({e('F')})", lambda: f"mirrored({e()})"]
        )()

    def _B(self, where: Where, depth: int) -> str:  # a kind
        def e(kind: str) -> str:
            return self.expr(kind, where, depth)

        sign = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        kind = self._sign("PPIIIFFDQ")
        return self.random.choice(
            [
                lambda: f"{e(kind)} {sign} {e(kind)}",
                lambda: f"{e(kind)} {sign} {self.random.randint(-1, 5)}",
                lambda: f"not {e('B')}",
                lambda: f"({e('B')} {self.random.choice(['and', 'or'])} {e('B')})",
                lambda: f"({e('B')} and {e('B')} and {e('B')})",
                lambda: f"{self.random.randint(-3, 3)} {self._sign(('<', '<='))} {e(kind)} {sign} {e(kind)}",
                lambda: f"({e('V')} {sign} {e(self._sign('VF'))}).{self.random.choice(['any', 'all'])}()",
                lambda: f"bool({e('I')} % 2)",
            ]
        )()

    def condition(self, where: Where, depth: int = 0) -> str:
        """What may stand after ``if``."""
        if self.chance(0.12):
            return self.expr(self._sign("PIF"), where, depth + 1)
        if self.chance(0.06):
            name = self.new("w")
            if where.inside == 0 and depth == 0:
                text = f"({name} := {self.expr('I', where, 1)}) > {self.random.randint(-2, 5)}"
                where.names[name] = "I"
                return text
        return self.expr("B", where, depth)

    def call(self, name: str, where: Where, depth: int) -> str:
        """A call of a function in sight."""
        function = where.functions[name]
        args = []
        for kind in function.params:
            if kind == "k":  # a function of an f32
                args.append(self.function_value(where, depth))
            else:
                args.append(self.expr(kind, where, depth + 1))
        return f"{name}({', '.join(args)})"

    def function_value(self, where: Where, depth: int) -> str:
        fitting = [name for name, each in where.functions.items() if (each.params, each.result) == ("F", "F")]
        if fitting and self.chance(0.7):
            return self.random.choice(fitting)
        name = self.new("y")
        inner = where.inner(inside=where.inside + 1)
        inner.names[name] = "F"
        return f"lambda {name}: {self.expr('F', inner, max(depth, 2))}"

    # -- statements ------------------------------------------------------------------------------------

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def block(self, where: Where, indent: int, count: int, *, must_return: bool = False) -> bool:
        """Statements; whether what follows them can be reached."""
        before = len(self.lines)
        for _ in range(count):
            if self.size <= 0:
                break
            self.size -= 1
            if not self.statement(where, indent):
                return False
        if must_return:
            self.write(indent, f"return {self.result(where)}")
            return False
        if len(self.lines) == before:
            self.write(indent, "pass")
        return True

    def result(self, where: Where) -> str:
        parts = [self.expr(kind, where, 1) for kind in where.result]
        return ", ".join(parts)

    def statement(self, where: Where, indent: int) -> bool:
        makers: list[tuple[int, Callable[[Where, int], bool]]] = [
            (8, self.assign_new),
            (9, self.assign_again),
            (3, self.swap),
            (1, self.check),
        ]
        if where.depth < 4 and self.size > 2:
            makers += [(7, self.choice), (4, self.for_loop), (3, self.while_loop)]
            if where.inside < 2:
                makers += [(4, self.definition), (2, self.small_function), (2, self.both_define)]
            makers.append((3, self.match))
        if where.depth and self.chance(0.3):
            makers.append((3, self.leave))
        weights = [weight for weight, _ in makers]
        (maker,) = self.random.choices([each for _, each in makers], weights)
        return maker(where, indent)

    def kind(self) -> str:
        return self._sign("PPPIIIQDFFFVVWBLR")

    def assign_new(self, where: Where, indent: int) -> bool:
        kind, name = self.kind(), self.new()
        if self.chance(0.15):
            other, kind2 = self.new(), self.kind()
            text = f"{name}, {other} = {self.expr(kind, where)}, {self.expr(kind2, where)}"
            where.names[other] = kind2
        else:
            text = f"{name} = {self.expr(kind, where)}"
        self.write(indent, text)
        where.names[name] = kind
        return True

    def own(self, where: Where) -> list[str]:
        return [name for name in where.names if name not in where.fixed]

    def assign_again(self, where: Where, indent: int) -> bool:
        names = self.own(where)
        if not names:
            return True
        name = self.random.choice(names)
        kind = where.names[name]
        if kind in "FV" and self.chance(0.4):
            self.write(indent, f"{name} {self._sign('+-')}= {self.expr(self._sign(kind + 'PQF'), where, 1)}")
        elif kind in "PI" and self.chance(0.4):
            self.write(indent, f"{name} += {self.expr('P', where, 2)} % 9")
        else:
            self.write(indent, f"{name} = {self.expr(kind, where)}")
        return True

    def swap(self, where: Where, indent: int) -> bool:
        names = self.own(where)
        self.random.shuffle(names)
        for one in names:
            for other in names:
                if one != other and where.names[one] == where.names[other]:
                    self.write(indent, f"{one}, {other} = {other}, {self.expr(where.names[one], where, 2)}")
                    return True
        return True

    def check(self, where: Where, indent: int) -> bool:
        self.write(indent, f"assert {self.expr('I', where, 2)} % 7 < 7")
        return True

    def leave(self, where: Where, indent: int) -> bool:
        if where.loop and self.chance(0.7):
            self.write(indent, self.random.choice(["break", "continue"]))
        else:
            self.write(indent, f"return {self.result(where)}")
        return False

    def together(self, where: Where, parts: list[Where]) -> None:
        """After branches: the names that all have, of one kind."""
        for name, kind in parts[0].names.items():
            if all(part.names.get(name) == kind for part in parts):
                where.names[name] = kind

    def choice(self, where: Where, indent: int) -> bool:
        ways: list[Where] = []
        complete = self.chance(0.6)
        shared = self.new() if self.chance(0.4) and complete else None
        kind = self.kind()
        count = self.random.choice([1, 1, 2, 3])
        tested = where  # what is known where the conditions so far were asked
        for index in range(count + complete):
            if index < count:
                self.write(indent, f"{'if' if index == 0 else 'elif'} {self.condition(tested)}:")
            else:
                self.write(indent, "else:")
            inner = tested.inner()
            if index == 0:
                tested = where.inner()
            if shared:
                self.write(indent + 1, f"{shared} = {self.expr(kind, inner)}")
                inner.names[shared] = kind
            if self.block(inner, indent + 1, self.random.randint(0 if shared else 1, 3)):
                ways.append(inner)
        if not complete:
            ways.append(where.inner())
        if ways:
            self.together(where, ways)
        return bool(ways)

    def for_loop(self, where: Where, indent: int) -> bool:
        name = (
            self.new("i")
            if self.chance(0.8)
            else next((n for n, k in where.names.items() if k == "P" and n not in where.fixed), self.new("i"))
        )
        items, kind, static = self.random.choice(
            [
                lambda: (f"range({self.random.randint(1, 4)})", "P", True),
                lambda: (f"range({self.random.choice([66, 70])})", "P", True),
                lambda: (f"range({self.expr('P', where, 1)} % 5)", "P", False),
                lambda: (f"range({self.expr('I', where, 1)} % 5)", "P", False),
                lambda: (
                    f"range({self.expr('P', where, 1)} % 5, {self.random.randint(3, 9)}, 2)",
                    "P",
                    False,
                ),
                lambda: (
                    f"range({self.random.randint(3, 9)}, {self.expr('P', where, 1)} % 5, -1)",
                    "P",
                    False,
                ),
                lambda: (f"reversed(range({self.expr('P', where, 1)} % 5))", "P", False),
                lambda: (self.expr("V", where, 1), "F", True),
                lambda: (self.expr("W", where, 1), "I", True),
                lambda: (f"({self.expr('P', where, 1)}, {self.expr('P', where, 1)})", "P", True),
                lambda: (f"[{self.expr('F', where, 1)}, {self.expr('F', where, 1)}]", "F", True),
                lambda: (f"enumerate({self.expr('W', where, 1)})", "E", True),
                lambda: (f"zip(range(70), range({self.expr('P', where, 1)} % 5 + 3))", "Z", False),
            ]
        )()
        inner = where.inner(loop=True)
        target = name
        if kind in "EZ":
            other = self.new("e")
            target = f"{name}, {other}"
            inner.names[other] = "I" if kind == "E" else "P"
            kind = "P"
        if where.names.get(name, kind) != kind:
            name = target = self.new("i")
        inner.names[name] = kind
        self.write(indent, f"for {target} in {items}:")
        self.block(inner, indent + 1, self.random.randint(1, 4))
        if self.chance(0.2):
            self.write(indent, "else:")
            self.block(where.inner(), indent + 1, self.random.randint(1, 2))
        if static and target == name:
            where.names[name] = kind
        return True

    def while_loop(self, where: Where, indent: int) -> bool:
        name, kind = self.new("n"), self._sign("PI")
        start = self.random.choice([f"{self.random.randint(0, 4)}", f"{self.expr(kind, where, 1)} % 5"])
        self.write(indent, f"{name} = {start}")
        where.names[name] = kind
        held = f"{name} > 0"
        if self.chance(0.4):
            held = f"{name} > 0 and {self.expr('B', where, 1)}"
        if self.chance(0.15):
            self.write(indent, "while True:")
            self.write(indent + 1, f"if {name} <= 0:")
            self.write(indent + 2, "break")
        else:
            self.write(indent, f"while {held}:")
        self.write(indent + 1, f"{name} = {name} - 1")
        inner = where.inner(loop=True, fixed=where.fixed | {name})
        self.block(inner, indent + 1, self.random.randint(1, 4))
        if self.chance(0.2):
            self.write(indent, "else:")
            self.block(where.inner(), indent + 1, self.random.randint(1, 2))
        return True

    def definition(self, where: Where, indent: int) -> bool:
        """A nested function with types, or without."""
        name, typed = self.new("g"), self.chance(0.6)
        params = "".join(self._sign("IFFVDB" if typed else "IFPVQ") for _ in range(self.random.randint(1, 2)))
        if self.chance(0.2):
            params = "F"
        higher = typed and self.chance(0.15)
        result = self._sign("IFFVDB")
        if params == "F":
            result = "F"
        same = Function(params, result, typed)
        again = [n for n, each in where.functions.items() if n.startswith("g") and each == same]
        if again and not where.inside and not where.depth and not higher and self.chance(0.5):
            name = again[0]
        self.write_function(name, params, result, where, indent, typed=typed, higher=higher)
        where.functions[name] = Function(params + "k" * higher, result, typed)
        return True

    def write_function(
        self,
        name: str,
        params: str,
        result: str,
        where: Where,
        indent: int,
        *,
        typed: bool,
        higher: bool = False,
    ) -> None:
        inner = where.inner(result=result, loop=False, fixed=frozenset(where.names), inside=where.inside + 1)
        inner.functions.pop(name, None)
        written = []
        for kind in params:
            each = self.new("a")
            written.append(f"{each}: {ANNOTATIONS[kind]}" if typed else each)
            inner.names[each] = kind
        if higher:
            each = self.new("k")
            written.append(f"{each}: Callable[[f32], f32]")
            inner.functions[each] = Function("F", "F", True)
        arrow = f" -> {ANNOTATIONS[result]}" if typed and self.chance(0.3) else ""
        self.write(indent, f"def {name}({', '.join(written)}){arrow}:")
        self.block(inner, indent + 1, self.random.randint(0, 3), must_return=True)

    def both_define(self, where: Where, indent: int) -> bool:
        """One function, defined in two branches."""
        name = self.new("g")
        for text in (f"if {self.condition(where)}:", "else:"):
            self.write(indent, text)
            alone = where.inner()  # what it takes from around it may not change, so it takes nothing
            alone.names, alone.functions = {}, {}
            self.write_function(name, "F", "F", alone, indent + 1, typed=True)
        where.functions[name] = Function("F", "F", True)
        return True

    def small_function(self, where: Where, indent: int) -> bool:
        name, param, kind = self.new("u"), self.new("a"), self._sign("FFFIPV")
        inner = where.inner(inside=where.inside + 1)
        inner.names[param] = kind
        self.write(indent, f"{name} = lambda {param}: {self.expr(kind, inner, 1)}")
        where.functions[name] = Function(kind, kind, False)
        return True

    def match(self, where: Where, indent: int) -> bool:
        kind = self._sign("LLRPIT")
        ways: list[Where] = []

        def case(pattern: str, **names: str) -> None:
            inner = where.inner()
            inner.names.update(names)
            guard = f" if {self.expr('B', inner, 1)}" if self.chance(0.25) else ""
            self.write(indent + 1, f"case {pattern}{guard}:")
            if self.block(inner, indent + 2, self.random.randint(1, 2)):
                ways.append(inner)

        def last(pattern: str, **names: str) -> None:
            inner = where.inner()
            inner.names.update(names)
            self.write(indent + 1, f"case {pattern}:")
            if self.block(inner, indent + 2, self.random.randint(1, 2)):
                ways.append(inner)

        a, b, c = self.new("m"), self.new("m"), self.new("m")
        if kind == "T":
            one, two = self._sign("PI"), self._sign("PIL")
            self.write(indent, f"match ({self.expr(one, where, 1)}, {self.expr(two, where, 1)}):")
            if two == "L":
                case(f"({a}, Cons({b}, _))", **{a: one, b: "I"})
                case("(0, Nil())")
            else:
                case(f"(0 | 1, {a})", **{a: two})
                case(f"({a}, 2)", **{a: one})
                case(f"(2 as {a}, 3 | 4 as {b})", **{a: one, b: two})
            last(f"({a}, {b})", **{a: one, b: two})
        else:
            self.write(indent, f"match {self.expr(kind, where, 1)}:")
            if kind in "PI":
                case(str(self.random.randint(0, 3)))
                case(f"{self.random.randint(0, 3)} | {self.random.randint(4, 9)}")
                last(self.random.choice(["_", a]))
            elif kind == "L":
                case(f"Cons({a}, Nil())", **{a: "I"})
                case(f"Cons({a}, Cons({b}, {c}) as {c}x)", **{a: "I", b: "I", c: "L", f"{c}x": "L"})
                if self.chance(0.5):
                    case(f"Cons(2 | 3, tail={a})", **{a: "L"})
                if self.chance(0.5):
                    last("Nil()")
                    last(f"Cons({a}, {c})", **{a: "I", c: "L"})
                else:
                    last(a, **{a: "L"})
            else:
                case(f"Node(Leaf({a}), {b})", **{a: "F", b: "R"})
                case(f"Node({a}, Node({b}, _))", **{a: "R", b: "R"})
                last(f"Leaf({a})", **{a: "F"})
                last(f"Node({a}, {b})", **{a: "R", b: "R"})
        if ways:
            self.together(where, ways)
        return bool(ways)


def program(seed: int) -> tuple[str, list[tuple[object, ...]]]:
    """A program and arguments."""
    chosen = random.Random(seed)
    return Generator(chosen, size=chosen.randint(6, 40)).program()
