"""Differentiate random programs with control flow, and compare with differences in float64.

``python -m tests.relay.gradients.random_programs FIRST COUNT [--second]`` runs COUNT programs from the seed
FIRST on; ``--second`` differentiates them twice. Each name keeps one kind for life: S is an f64 number, V a
vector of three, M a matrix with rows of three. Values stay small: each assignment goes through a bounded
function.
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

import nnmagic
from nnmagic.relay.values import AdtValue

STEP = 1e-6
_ROWS = 4
_TYPES = {"S": "f64", "V": "Tensor[(3,), f64]", "M": 'Tensor[("n", 3), f64]'}
_HEAD = """class List:
    def Nil(): ...
    def Cons(head: i64, tail: List): ...

"""
_PARAMS = 's: f64, v: Tensor[(3,), f64], m: Tensor[("n", 3), f64], k: i64, items: List'
_KINDS = {"s": "S", "v": "V", "m": "M"}
_SECOND = """
def second(PARAMS):
    a, b, c = grad(f, (0, 1, 2))(s, v, m, k, items)
    return sin(a) + (b * v).sum() + tanh(c).sum()
""".replace("PARAMS", _PARAMS)


@dataclass(frozen=True)
class Where:
    """A position: the names in sight with their kinds, the functions of S, and what is around."""

    names: dict[str, str]
    functions: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()
    depth: int = 0
    loop: bool = False

    def inner(self, *, loop: bool | None = None, counters: Sequence[str] = ()) -> Where:
        return replace(
            self,
            names=dict(self.names),
            counters=(*self.counters, *counters),
            depth=self.depth + 1,
            loop=self.loop if loop is None else loop,
        )


@dataclass
class Generator:
    """Writes one program."""

    random: random.Random
    size: int = 14
    lines: list[str] = field(default_factory=list)
    made: int = 0

    def program(self) -> str:
        """Return the source of a cell; ``f`` takes s, v, m, k and items, and gives an f64."""
        functions: list[str] = []
        for _ in range(self.random.randint(0, 2)):
            functions.append(self.helper(tuple(functions)))
        self.write(0, f"def f({_PARAMS}):")
        where = Where(dict(_KINDS), tuple(functions), ("k",))
        self.block(where, 1, self.random.randint(3, 7))
        self.write(1, f"return {self.result(where)}")
        return _HEAD + "\n".join(self.lines) + "\n"

    def helper(self, functions: tuple[str, ...]) -> str:
        """Write a function of an S that calls itself."""
        name, a, n = self.new("g"), self.new("a"), self.new("n")
        self.write(0, f"def {name}({a}: f64, {n}: i64) -> f64:")
        self.write(1, f"if {n} <= 0:")
        where = Where({a: "S"}, functions, (n,), 2)
        self.write(2, f"return {self.S(where, 1)}")
        self.size, size = 3, self.size
        self.block(where, 1, self.random.randint(0, 2))
        self.size = size
        again = f"{name}({self.bounded('S', where)}, {n} - 1)"
        if self.chance(0.3):
            again += f" * {name}({a} * 0.5, {n} - 2)"
        self.write(1, f"return sin({again} + {self.S(where, 1)})" if self.chance(0.7) else f"return {again}")
        self.write(0, "")
        return name

    # -- small things ----------------------------------------------------------------------------------

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def new(self, stem: str) -> str:
        self.made += 1
        return f"{stem}{self.made}"

    def number(self, low: float = -1.0, high: float = 1.5) -> str:
        return f"{self.random.uniform(low, high):.2f}"

    def name(self, kind: str, where: Where) -> str:
        """Return a name of a kind; f's parameters first, where no other is in sight."""
        found = [name for name, each in where.names.items() if each == kind]
        if not found:
            return {"S": self.number(), "V": "full((3,), 0.3, f64)", "M": "ones((4, 3), f64)"}[kind]
        return self.random.choice(found)

    # -- expressions -----------------------------------------------------------------------------------

    def expr(self, kind: str, where: Where, depth: int = 0) -> str:
        if depth > 2 or self.chance(0.25):
            return self.name(kind, where)
        if self.chance(0.08):
            one, other = (self.expr(kind, where, depth + 1) for _ in range(2))
            return f"({one} if {self.condition(where)} else {other})"
        text: str = getattr(self, kind)(where, depth + 1)
        return f"({text})"

    def bounded(self, kind: str, where: Where) -> str:
        """Return an expression whose value is small."""
        text = self.expr(kind, where, 1)
        return self.random.choice([f"sin({text})", f"tanh({text})", f"{text} / (1 + {text} ** 2)"])

    def index(self, where: Where, size: str) -> str:
        if where.counters and self.chance(0.6):
            return f"{self.random.choice(where.counters)} % {size}"
        return str(self.random.randint(0, 2))

    def S(self, where: Where, depth: int) -> str:
        def e(kind: str = "S") -> str:
            return self.expr(kind, where, depth)

        makers = [
            lambda: f"{e()} + {e()}",
            lambda: f"{e()} * {e()}",
            lambda: f"{e()} - {self.number()}",
            lambda: f"{self.random.choice(['sin', 'cos', 'tanh', 'sigmoid', 'softplus', 'arctan'])}({e()})",
            lambda: f"exp(-{e()} ** 2)",
            lambda: f"sqrt(1 + {e()} ** 2)",
            lambda: f"log1p({e()} ** 2)",
            lambda: f"hypot({e()}, 1.5)",
            lambda: f"{e('V')}.{self.random.choice(['sum', 'mean', 'max', 'prod'])}()",
            lambda: f"{e('V')} @ {e('V')}",
            lambda: f"{e('V')}[{self.index(where, '3')}]",
            lambda: f"{e('M')}[{self.index(where, '4')}, {self.index(where, '3')}]",
            lambda: f"{e('M')}.mean()",
            lambda: f"logsumexp({e('V')})",
            lambda: f"norm({e('V')} + 3)",
            lambda: f"maximum({e()}, {e()})",
            lambda: f"abs({e()})",
            lambda: f"{e()} * {self.random.choice(where.counters or ('2',))} * 0.25",
        ]
        if where.functions:
            makers += [lambda: self.call(where, depth)] * 3
        return self.random.choice(makers)()

    def call(self, where: Where, depth: int) -> str:
        name = self.random.choice(where.functions)
        argument = f"sin({self.expr('S', where, depth)})"
        if not name.startswith("g"):
            return f"{name}({argument})"
        count = f"{self.random.choice(where.counters)} % 4" if where.counters else "i64(3)"
        return f"{name}({argument}, {count})"

    def V(self, where: Where, depth: int) -> str:
        def e(kind: str = "V") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: f"{e()} {self.random.choice('+-*')} {e(self.random.choice('VS'))}",
                lambda: f"{self.random.choice(['sin', 'tanh', 'softplus', 'relu', 'softmax'])}({e()})",
                lambda: f"where({e()} > {self.number()}, {e()}, {e()})",
                lambda: f"{e()}[::-1]",
                lambda: f"{e()}.cumsum()",
                lambda: f"stack([{e('S')}, {e('S')}, {e('S')}])",
                lambda: f"{e('M')}[{self.index(where, '4')}]",
                lambda: f"{e('M')}.{self.random.choice(['sum', 'mean', 'max'])}(axis=0)",
                lambda: f"{e('M')}.T @ ({e('M')} @ {e()}) * 0.1",
                lambda: f"roll({e()}, 1)",
                lambda: f"concatenate([{e()}[1:], {e()}[:1]])",
            ]
        )()

    def M(self, where: Where, depth: int) -> str:
        def e(kind: str = "M") -> str:
            return self.expr(kind, where, depth)

        return self.random.choice(
            [
                lambda: f"{e()} {self.random.choice('+-*')} {e(self.random.choice('MVS'))}",
                lambda: f"{self.random.choice(['sin', 'tanh', 'softmax'])}({e()})",
                lambda: f"{e()} * {e('V')}",
                lambda: f"{e()}[::-1]",
                lambda: f"where({e()} > {self.number()}, {e()}, {e()})",
            ]
        )()

    def condition(self, where: Where) -> str:
        kinds = [f"{self.expr('S', where, 2)} > {self.number()}"]
        kinds.append(f"{self.name('V', where)}.sum() < {self.number(-1, 2)}")
        kinds.append(f"{self.name('S', where)} > {self.number()} and {self.name('S', where)} < 1.2")
        if where.counters:
            kinds += [f"{self.random.choice(where.counters)} % 2 == {self.random.randint(0, 1)}"] * 2
        return self.random.choice(kinds)

    def result(self, where: Where) -> str:
        parts = [self.expr("S", where, 1), f"({self.expr('V', where, 2)} * {self.name('V', where)}).sum()"]
        if self.chance(0.5):
            parts.append(f"{self.name('M', where)}.sum() * 0.3")
        return " + ".join(parts)

    # -- statements ------------------------------------------------------------------------------------

    def block(self, where: Where, indent: int, count: int) -> None:
        """Write statements, at least one."""
        before = len(self.lines)
        for _ in range(count):
            if self.size <= 0:
                break
            self.size -= 1
            self.statement(where, indent)
        if len(self.lines) == before:
            self.assign(where, indent)

    def statement(self, where: Where, indent: int) -> None:
        makers = [self.assign, self.assign, self.again, self.again, self.swap]
        if "V" in where.names.values():
            makers += [self.elements]
        if where.depth < 3 and self.size > 1:
            makers += [self.choice, self.choice, self.for_loop, self.for_loop, self.while_loop]
            if "items" not in where.counters and "m" in where.names:
                makers += [self.match, self.early]
            if where.depth == 0:
                makers += [self.closure, self.closure]
        self.random.choice(makers)(where, indent)

    def assign(self, where: Where, indent: int) -> None:
        kind = self.random.choice("SSVVM" if "m" in where.names else "S")
        name = self.new("x")
        self.write(indent, f"{name} = {self.bounded(kind, where)}")
        where.names[name] = kind

    def again(self, where: Where, indent: int) -> None:
        """Assign a name again, which others may have read."""
        name = self.random.choice(list(where.names))
        kind = where.names[name]
        if self.chance(0.3):
            self.write(indent, f"{name} = {name} * 0.5 + {self.bounded(kind, where)}")
        else:
            self.write(indent, f"{name} = {self.bounded(kind, where)}")

    def swap(self, where: Where, indent: int) -> None:
        names = [name for name, kind in where.names.items() if kind == "S"]
        one, other = self.random.choice(names), self.random.choice(names)
        self.write(indent, f"{one}, {other} = {other}, {one} * 0.9" if one != other else f"{one} = -{one}")

    def elements(self, where: Where, indent: int) -> None:
        """Change parts of an array."""
        name, kind = self.new("y"), self.random.choice("VM")
        self.write(indent, f"{name} = {self.name(kind, where)} + 0.0")
        for _ in range(self.random.randint(1, 3)):
            if kind == "V":
                place, value = self.index(where, "3"), self.bounded("S", where)
            else:
                place, value = self.index(where, "4"), self.bounded("V", where)
            if self.chance(0.2):
                place, value = f"{name} > {self.number()}", self.number()
            sign = self.random.choice(["=", "=", "+=", "*="])
            self.write(indent, f"{name}[{place}] {sign} {value}")
        where.names[name] = kind

    def choice(self, where: Where, indent: int) -> None:
        shared, kind = self.new("x"), self.random.choice("SV")
        complete = self.chance(0.6)
        for word in (f"if {self.condition(where)}:", "else:")[: 1 + complete]:
            self.write(indent, word)
            inner = where.inner()
            if complete:
                self.write(indent + 1, f"{shared} = {self.bounded(kind, inner)}")
                inner.names[shared] = kind
            self.block(inner, indent + 1, self.random.randint(1, 2))
            if where.loop and self.chance(0.2):
                self.write(indent + 1, self.random.choice(["break", "continue"]))
                complete = False
                break
        if complete:
            where.names[shared] = kind

    def for_loop(self, where: Where, indent: int) -> None:
        name = self.new("i")
        rows = "m" in where.names
        kinds = [f"range({self.random.randint(1, 3)})", f"range({self.random.choice([65, 67])})"]
        if rows:
            kinds += ["range(m.shape[0])", "range(k)", "range(k % 3, k)", "reversed(range(k))"]
        head = self.random.choice(kinds)
        inner = where.inner(loop=True, counters=[name])
        if rows and self.chance(0.2):
            self.write(indent, f"for {name} in m:")
            inner = where.inner(loop=True)
            inner.names[name] = "V"
        else:
            self.write(indent, f"for {name} in {head}:")
        self.block(inner, indent + 1, self.random.randint(1, 3))

    def while_loop(self, where: Where, indent: int) -> None:
        count, name = self.new("c"), self.name("S", where)
        if name not in where.names:
            return self.assign(where, indent)
        self.write(indent, f"{count} = i64(0)")
        bound = self.random.randint(2, 6)
        self.write(indent, f"while {name} ** 2 > {self.number(0.01, 0.3)} and {count} < {bound}:")
        self.write(indent + 1, f"{name} = {name} * 0.7")
        self.write(indent + 1, f"{count} += 1")
        self.block(where.inner(loop=True, counters=[count]), indent + 1, self.random.randint(1, 2))
        return None

    def match(self, where: Where, indent: int) -> None:
        head, tail = self.new("h"), self.new("t")
        cases = [("Nil()", []), (f"Cons({head}, Nil())", [head]), (f"Cons({head}, {tail})", [head])]
        walked = "items"
        self.write(indent, f"match {walked}:")
        for pattern, counters in cases:
            self.write(indent + 1, f"case {pattern}:")
            inner = where.inner(counters=[*counters, "items"])
            inner = replace(inner, counters=tuple(each for each in inner.counters if each != "items"))
            self.block(inner, indent + 2, 1)

    def early(self, where: Where, indent: int) -> None:
        self.write(indent, f"if {self.condition(where)}:")
        self.write(indent + 1, f"return {self.result(where)}")

    def closure(self, where: Where, indent: int) -> None:
        """Define a function of an S that reads names from around it."""
        name, param = self.new("u"), self.new("a")
        inner = replace(where.inner(), names={**where.names, param: "S"})
        if self.chance(0.5):
            self.write(indent, f"{name} = lambda {param}: {self.S(inner, 1)}")
        else:
            annotation = ": f64" if self.chance(0.5) else ""
            self.write(indent, f"def {name}({param}{annotation}):")
            own = self.new("x")
            self.write(indent + 1, f"{own} = {self.bounded('S', inner)}")
            inner.names[own] = "S"
            self.write(indent + 1, f"return {self.S(inner, 1)} + {param} * {own}")
        result = self.new("x")
        self.write(indent, f"{result} = tanh({name}({self.name('S', where)}))")
        where.names[result] = "S"
        if self.chance(0.3):
            self.write(indent, f"{result} = grad(lambda z: sin({name}(z)))({result})")


def arguments(rng: np.random.Generator) -> list[object]:
    """Return arguments of ``f``: three that are differentiated, then integers."""
    items = AdtValue("Nil")
    for _ in range(int(rng.integers(0, 3))):
        items = AdtValue("Cons", (np.asarray(rng.integers(0, 5)), items))
    numbers: list[object] = [rng.normal(), rng.normal(size=3), rng.normal(size=(_ROWS, 3))]
    return [*numbers, int(rng.integers(0, 5)), items]


def check(seed: int, *, second: bool = False, points: int = 3) -> str:
    """Return what is wrong with the gradient of a program, "" if it is right."""
    source = Generator(random.Random(seed)).program() + (_SECOND if second else "")
    rng = np.random.default_rng(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", nnmagic.TinyNNWarning)
        function = nnmagic.compile(source, namespace={}, cache=False)
        gradient = nnmagic.value_and_grad(function, (0, 1, 2))
    checked = 0
    for _ in range(points * 3):
        given = arguments(rng)
        value, found = gradient(*given)
        if not np.allclose(value, function(*given), rtol=1e-9, atol=1e-12):
            return f"the value is {value}, not {function(*given)}\n{source}"
        ways = [rng.normal(size=np.shape(each)) for each in given[:3]]
        for number, way in enumerate(ways):
            expected = differences(function, given, number, way)
            if expected is None:
                continue
            own = float((found[number] * way).sum())
            if not np.isclose(own, expected, rtol=2e-4, atol=2e-6 * (1 + abs(float(value)))):
                return f"d/d{'svm'[number]}: {own}, not {expected}, at {given}\n{source}"
            checked += 1
        if checked >= 3 * points:
            return ""
    return "" if checked else f"nowhere differentiable\n{source}"


def differences(
    function: nnmagic.CompiledFunction, given: list[object], number: int, way: np.ndarray
) -> float | None:
    """Return the derivative in a direction; None where there is none, or it changes too fast to tell."""

    def at(step: float) -> float:
        moved = list(given)
        moved[number] = given[number] + step * way  # type: ignore[operator] # an array
        return float(function(*moved))

    slopes = [(at(step) - at(-step)) / (2 * step) for step in (STEP, 10 * STEP)]
    sides = (at(STEP) - at(0)) / STEP, (at(0) - at(-STEP)) / STEP
    scale = 1e-3 * (1 + abs(slopes[0]))
    if (
        not np.isfinite(slopes[0])
        or abs(sides[0] - sides[1]) > scale
        or abs(slopes[1] - slopes[0]) > scale / 100
    ):
        return None
    return slopes[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--second", action="store_true")
    options = parser.parse_args()
    wrong = 0
    for seed in range(options.first, options.first + options.count):
        try:
            message = check(seed, second=options.second)
        except Exception as error:  # noqa: BLE001 # each is a fault to report
            message = f"{type(error).__name__}: {error}\n{Generator(random.Random(seed)).program()}"
        if message:
            wrong += 1
            print(f"seed {seed}: {message}", flush=True)  # noqa: T201 # its output
    print(f"{options.count} programs, {wrong} wrong")  # noqa: T201 # its output
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
