"""Random cells of control flow over tensors of named sizes, and a judge that runs them as Python does.

Each name keeps one kind for life. Integers wrap around; floats are small whole numbers, which are exact in
any order. ``python -m tests.engine.relax.codegen.aot.random_control_flow FIRST COUNT`` judges that many
programs, each on some calls, and writes those that differ from Python over NumPy; NNMAGIC_OPT_LEVEL is their
``opt_level``. ``write_program(seed)`` is the cell.
"""

from __future__ import annotations

import os
import random
import sys
import traceback
import warnings
from dataclasses import dataclass, field

import numpy as np

import nnmagic
from nnmagic.engine.relax.runtime.aot_executable import AotExecutable
from tests.tinynn.python_twin import plain, twin

#: The annotation of each kind: single numbers, then tensors of named and of static sizes.
ANNOTATIONS = {
    "i": "i64",
    "j": "i32",
    "a": "i8",
    "u": "u8",
    "q": "u64",
    "w": "u32",
    "f": "f32",
    "d": "f64",
    "h": "f16",
    "b": "bool_",
    "V": 'Tensor[("n",), f32]',
    "W": 'Tensor[("n",), i64]',
    "X": 'Tensor[("n",), bool_]',
    "M": 'Tensor[("n", "m"), f32]',
    "N": 'Tensor[("m",), i32]',
    "S": "Tensor[(4,), f32]",
}
_INTEGERS, _FLOATS = "ijauqw", "fdh"
_DTYPES = {kind: np.dtype(text) for kind, text in zip("ijauqwfdhb", (
    "int64", "int32", "int8", "uint8", "uint64", "uint32", "float32", "float64", "float16", "bool"
), strict=True)}  # fmt: skip
_TENSORS = {
    "V": ("n", "f4"), "W": ("n", "i8"), "X": ("n", "?"), "M": ("nm", "f4"), "N": ("m", "i4"), "S": ("4", "f4")
}  # fmt: skip
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass
class Scope:
    """The names in sight and their kinds; whether a loop is around; names that may not change."""

    names: dict[str, str]
    result: str
    depth: int = 0
    loop: bool = False
    fixed: frozenset[str] = frozenset()

    def inner(self, *, loop: bool | None = None, fixed: str | None = None) -> Scope:
        """Return the scope of a block inside."""
        more = self.fixed if fixed is None else self.fixed | {fixed}
        return Scope(dict(self.names), self.result, self.depth + 1, self.loop if loop is None else loop, more)


@dataclass
class Generator:
    """Writes one program."""

    random: random.Random
    size: int = 12
    lines: list[str] = field(default_factory=list)
    helpers: dict[str, tuple[str, str]] = field(default_factory=dict)
    count: int = 0
    calls: int = 0
    whole: bool = False

    def program(self) -> tuple[str, str]:
        """Return the source of a cell, whose last function is ``f``, and the kinds of its parameters."""
        whole, self.size = self.size, 4
        for _ in range(self.random.randint(0, 2)):
            self.helper()
            self.size = 4
        self.size, self.whole = whole, True
        params = "i" + self.kinds(3, 5)
        if self.chance(0.8) and "V" not in params:
            params += "VV"
        result = self.kinds(1, 3)
        names = {f"p{number}": kind for number, kind in enumerate(params)}
        if not any(kind in "VWXM" for kind in params):  # what has the size n
            params, names["pn"] = params + "V", "V"
        if not any(kind in "MN" for kind in params):
            params, names["pm"] = params + "N", "N"
        self.function("f", names, result)
        return "\n".join(self.lines) + "\n", params

    def helper(self) -> None:
        """Write a function that ``f`` may call: plain, or recursive in its first parameter."""
        name = f"h{len(self.helpers)}"
        result = self.kinds(1, 2)
        params = self.kinds(1, 2) + "".join(sorted(set(result) & set("VWXMN")))
        if "W" in result or "X" in result or "V" in result:
            params += "V"
        if set(result) & set("MN"):
            params += "M"
        recursive = self.chance(0.6)
        names = {f"x{number}": kind for number, kind in enumerate(("i" if recursive else "") + params)}
        if recursive:
            self.recursive_function(name, names, result)
            self.helpers[name] = ("k" + params, result)
        else:
            self.function(name, names, result)
            self.helpers[name] = (params, result)

    def kinds(self, least: int, most: int) -> str:
        return "".join(
            self.random.choice("iiijauqwfffdhbVVVVWWXMMNS") for _ in range(self.random.randint(least, most))
        )

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def new(self, stem: str = "v") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    # -- functions -------------------------------------------------------------------------------------

    def function(self, name: str, names: dict[str, str], result: str) -> None:
        written = ", ".join(f"{param}: {ANNOTATIONS[kind]}" for param, kind in names.items())
        self.lines.append(f"def {name}({written}) -> {self.result_type(result)}:")
        scope = Scope(dict(names), result)
        if self.block(scope, 1, self.random.randint(3, 7)):
            self.write(1, f"return {self.results(scope)}")
        self.lines.append("")

    def recursive_function(self, name: str, names: dict[str, str], result: str) -> None:
        written = ", ".join(f"{param}: {ANNOTATIONS[kind]}" for param, kind in names.items())
        self.lines.append(f"def {name}({written}) -> {self.result_type(result)}:")
        scope = Scope(dict(names), result, depth=1, fixed=frozenset({"x0"}))
        self.write(1, "if x0 <= 0:")
        self.write(2, f"return {self.results(scope)}")
        if not self.block(scope, 1, self.random.randint(0, 2)):
            self.lines.append("")
            return
        kinds = list(names.values())[1:]

        def again(less: int) -> str:
            return f"{name}({', '.join([f'x0 - {less}', *(self.expr(kind, scope, 2) for kind in kinds)])})"

        match self.random.randint(0, 3):
            case 0:  # at the end
                self.write(1, f"return {again(1)}")
            case 1:  # at one of two ends
                self.write(1, f"if {self.condition(scope)}:")
                self.write(2, f"return {again(1)}")
                self.write(1, f"return {again(2)}")
            case 2:
                self.assign_call(scope, 1, result, again(1))
                self.write(1, f"return {self.results(scope)}")
            case _:
                self.assign_call(scope, 1, result, again(1))
                self.write(1, f"if {self.condition(scope)}:")
                self.assign_call(scope.inner(), 2, result, again(2))
                self.write(2, f"return {self.results(scope)}")
                self.write(1, f"return {self.results(scope)}")
        self.lines.append("")

    def result_type(self, kinds: str) -> str:
        types = [ANNOTATIONS[kind] for kind in kinds]
        return types[0] if len(types) == 1 else f"tuple[{', '.join(types)}]"

    def results(self, scope: Scope) -> str:
        return ", ".join(self.expr(kind, scope, 2 if self.chance(0.5) else 3) for kind in scope.result)

    def assign_call(self, scope: Scope, indent: int, kinds: str, call: str) -> None:
        """Assign a call's results to names: new ones, or some of the scope."""
        targets: list[str] = []
        for kind in kinds:
            own = [name for name in self.own(scope, kind) if name not in targets]
            name = self.random.choice(own) if own and self.chance(0.5) else self.new()
            targets.append(name)
        self.write(indent, f"{', '.join(targets)} = {call}")
        scope.names.update(zip(targets, kinds, strict=True))

    # -- statements ------------------------------------------------------------------------------------

    def write(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def own(self, scope: Scope, kind: str) -> list[str]:
        return [name for name, of in scope.names.items() if of == kind and name not in scope.fixed]

    def block(self, scope: Scope, indent: int, count: int) -> bool:
        """Write statements; return whether what follows them can be reached."""
        before = len(self.lines)
        for _ in range(count):
            if self.size <= 0:
                break
            self.size -= 1
            if not self.statement(scope, indent):
                return False
        if len(self.lines) == before:
            self.write(indent, "pass")
        return True

    def statement(self, scope: Scope, indent: int) -> bool:
        makers = [(5, self.assign), (5, self.rotate), (3, self.call_helper)]
        if self.whole:  # a call of another function is dropped with its assertions if its result is not used
            makers.append((0.6, self.check))
        if scope.depth < 3 and self.size > 1:
            makers += [(5, self.branch), (4, self.for_loop), (3, self.while_loop)]
        if scope.depth and self.chance(0.35):
            makers.append((4, self.leave))
        (maker,) = self.random.choices([maker for _, maker in makers], [weight for weight, _ in makers])
        return maker(scope, indent)

    def assign(self, scope: Scope, indent: int) -> bool:
        kind = self.kinds(1, 1)
        own = self.own(scope, kind)
        if own and self.chance(0.7):
            name = self.random.choice(own)
            self.write(indent, f"{name} = {self.expr(kind, scope, 0)}")
        else:
            name = self.new()
            self.write(indent, f"{name} = {self.expr(kind, scope, 0)}")
            scope.names[name] = kind
        return True

    def rotate(self, scope: Scope, indent: int) -> bool:
        """Exchange names of a kind, some of them for another value."""
        kinds = [kind for kind in ANNOTATIONS if len(self.own(scope, kind)) > 1]
        if not kinds:
            return self.assign(scope, indent)
        tensors = [kind for kind in kinds if kind.isupper()]
        kind = self.random.choice(tensors if tensors and self.chance(0.7) else kinds)
        own = self.own(scope, kind)
        self.random.shuffle(own)
        targets = own[: self.random.randint(2, 4)]
        values = targets[1:] + targets[:1]
        if self.chance(0.2):
            self.random.shuffle(values)
        if self.chance(0.5):
            values[self.random.randrange(len(values))] = self.expr(kind, scope, 1)
        self.write(indent, f"{', '.join(targets)} = {', '.join(values)}")
        return True

    def call_helper(self, scope: Scope, indent: int) -> bool:
        if not self.helpers or scope.depth > 2 or self.calls > 4:
            return self.assign(scope, indent)
        self.calls += 1
        name = self.random.choice(list(self.helpers))
        params, result = self.helpers[name]
        if not indent or f"def {name}(" in self.lines[-1]:
            return self.assign(scope, indent)
        self.assign_call(
            scope, indent, result, f"{name}({', '.join(self.expr(kind, scope, 2) for kind in params)})"
        )
        return True

    def check(self, scope: Scope, indent: int) -> bool:
        self.write(indent, f"assert {self.condition(scope)} or {self.expr('i', scope, 2)} % 5 < 4")
        return True

    def leave(self, scope: Scope, indent: int) -> bool:
        if scope.loop and self.chance(0.75):
            self.write(indent, self.random.choice(["break", "continue"]))
        else:
            self.write(indent, f"return {self.results(scope)}")
        return False

    def branch(self, scope: Scope, indent: int) -> bool:
        reached = False
        shared = (self.new(), self.kinds(1, 1)) if self.chance(0.4) else None
        for number in range(self.random.choice([1, 1, 2])):
            self.write(indent, f"{'elif' if number else 'if'} {self.condition(scope)}:")
            reached |= self.side(scope, indent, shared)
        if shared or self.chance(0.6):
            self.write(indent, "else:")
            reached |= self.side(scope, indent, shared)
        else:
            reached = True
        if shared and reached:
            scope.names[shared[0]] = shared[1]
        return reached

    def side(self, scope: Scope, indent: int, shared: tuple[str, str] | None) -> bool:
        inner = scope.inner()
        if shared:
            self.write(indent + 1, f"{shared[0]} = {self.expr(shared[1], inner, 1)}")
            inner.names[shared[0]] = shared[1]
        return self.block(inner, indent + 1, self.random.randint(0 if shared else 1, 3))

    def for_loop(self, scope: Scope, indent: int) -> bool:
        name, counter = self.new("c"), self.new("r")
        values = self.random.choice(
            [
                lambda: f"range({self.expr('i', scope, 2)} % 6)",
                lambda: f"range({self.expr('i', scope, 2)} % 3, {self.expr('i', scope, 2)} % 8, 2)",
                lambda: f"range({self.expr('i', scope, 2)} % 7, 0, -1)",
                lambda: f"range({self.random.randint(2, 3)})",
                lambda: "range(66)",
            ]
        )()
        self.write(indent, f"for {name} in {values}:")
        self.write(indent + 1, f"{counter} = i64({name})")
        inner = scope.inner(loop=True)
        inner.names[counter] = "i"
        if self.chance(0.6):
            self.rotate(inner, indent + 1)
        self.block(inner, indent + 1, self.random.randint(1, 4))
        return True

    def while_loop(self, scope: Scope, indent: int) -> bool:
        name = self.new("n")
        self.write(indent, f"{name} = {self.expr('i', scope, 2)} % 6")
        scope.names[name] = "i"
        scope.fixed |= {name}
        condition = f"{name} > 0"
        if self.chance(0.5):
            condition += f" {self.random.choice(['and', 'and not'])} ({self.condition(scope)})"
        self.write(indent, f"while {condition}:")
        self.write(indent + 1, f"{name} = {name} - 1")
        inner = scope.inner(loop=True)
        if self.chance(0.6):
            self.rotate(inner, indent + 1)
        self.block(inner, indent + 1, self.random.randint(1, 4))
        return True

    # -- expressions -----------------------------------------------------------------------------------

    def condition(self, scope: Scope, depth: int = 1) -> str:
        return self.expr("b", scope, depth)

    def expr(self, kind: str, scope: Scope, depth: int) -> str:
        """Return an expression of a kind; the deeper, the plainer. ``k`` is a small number of calls."""
        if kind == "k":
            return f"{self.expr('i', scope, depth)} % 5"
        names = [name for name, of in scope.names.items() if of == kind]
        if names and (depth > 2 or self.chance((0.3, 0.45, 0.7)[depth])):
            return self.random.choice(names)
        if depth > 2:
            return f"({self.leaf(kind, scope)})"
        if depth < 2 and self.chance(0.08):
            left, right = (self.expr(kind, scope, depth + 1) for _ in range(2))
            return f"({left} if {self.condition(scope, depth + 1)} else {right})"
        if kind in _INTEGERS:
            return f"({self.integer(kind, scope, depth + 1)})"
        if kind in _FLOATS:
            return f"({self.number(kind, scope, depth + 1)})"
        return f"({getattr(self, f'_{kind}')(scope, depth + 1)})"

    def leaf(self, kind: str, scope: Scope) -> str:
        number = self.random.randint(0, 5)
        sized = next((name for name, of in scope.names.items() if of in "VWX"), None)
        matrix = next((name for name, of in scope.names.items() if of == "M"), None)
        row = next((name for name, of in scope.names.items() if of == "N"), None)
        match kind:
            case "b":
                return f"{self.random.choice(list(self.named(scope, 'ijf') or ['i64(3)']))} > {number}"
            case "V" if sized:
                return f"f32({sized}) * 0 + {number}"
            case "W" if sized:
                return f"i64({sized}) * 0 + {number}"
            case "X" if sized:
                return f"i64({sized}) * 0 > {number - 3}"
            case "V" | "W" | "X" if matrix:
                whole = f"{matrix}.sum(axis=1) * 0 + {number}"
                return {"V": whole, "W": f"i64({whole})", "X": f"{whole} > 2"}[kind]
            case "N" if row is None and matrix:
                return f"i32({matrix}.sum(axis=0)) * 0 + {number}"
            case "M" if sized and row:
                return f"(i32({sized}).reshape((-1, 1)) + {row}).astype(f32) * 0 + {number}"
            case "S":
                return f"ones((4,), f32) * {number}"
            case _ if kind in "VWXMN":
                raise _NothingOfItError
        return f"{ANNOTATIONS[kind]}({number})"

    def named(self, scope: Scope, kinds: str) -> list[str]:
        return [name for name, of in scope.names.items() if of in kinds]

    def integer(self, kind: str, scope: Scope, depth: int) -> str:
        def operand(of: str = kind) -> str:
            return self.expr(of, scope, depth)

        other = self.random.choice(_INTEGERS)
        return self.random.choice(
            [
                lambda: f"{operand()} {self.random.choice('+-*')} {operand()}",
                lambda: f"{operand()} {self.random.choice('+-*')} {self.random.randint(0, 7)}",
                lambda: f"{self.random.randint(0, 7)} - {operand()}",
                lambda: f"-{operand()}",
                lambda: f"{operand()} {self.random.choice(['//', '%'])} {operand()}",
                lambda: f"{operand()} {self.random.choice(['//', '%'])} {self.random.randint(1, 7)}",
                lambda: f"{operand()} {self.random.choice(['&', '|', '^'])} {operand()}",
                lambda: f"maximum({operand()}, {operand()})",
                lambda: f"abs({operand()})",
                lambda: f"{ANNOTATIONS[kind]}({operand(other)})",
                lambda: f"{ANNOTATIONS[kind]}({operand('f')})" if kind in "ij" else operand(),
                lambda: f"where({operand('b')}, {operand()}, {operand()})",
                lambda: f"{operand('W')}.sum()" if kind == "i" and self.named(scope, "W") else operand(),
            ]
        )()

    def number(self, kind: str, scope: Scope, depth: int) -> str:
        def operand(of: str = kind) -> str:
            return self.expr(of, scope, depth)

        other = self.random.choice(_FLOATS)
        return self.random.choice(
            [
                lambda: f"({operand()} {self.random.choice('+-')} {operand()}) % 16",
                lambda: f"({operand()} * {self.random.choice([2, 3, -1])}) % 16",
                lambda: f"floor({operand()} * 0.5)",
                lambda: f"maximum({operand()}, {operand()})",
                lambda: f"{ANNOTATIONS[kind]}({operand('i')} % 16)",
                lambda: f"{ANNOTATIONS[kind]}({operand(other)})",
                lambda: f"where({operand('b')}, {operand()}, {operand()})",
                lambda: f"{operand('S')}[{operand('i')} % 4]" if kind == "f" else operand(),
                lambda: f"{operand('S')}[-1]" if kind == "f" else operand(),
                lambda: f"{operand('V')}.sum() % 16" if kind == "f" and self.named(scope, "V") else operand(),
            ]
        )()

    def _b(self, scope: Scope, depth: int) -> str:
        def operand(of: str) -> str:
            return self.expr(of, scope, depth)

        kind = self.random.choice(_INTEGERS + _FLOATS + "iif")
        sign = self.random.choice(_COMPARISONS)
        return self.random.choice(
            [
                lambda: f"{operand(kind)} {sign} {operand(kind)}",
                lambda: f"{operand(kind)} {sign} {self.random.randint(0, 5)}",
                lambda: f"{operand(kind)} + 1 {sign} {operand(kind)}",
                lambda: f"not {operand('b')}",
                lambda: f"{operand('b')} {self.random.choice(['and', 'or'])} {operand('b')}",
                lambda: f"0 <= {operand('i')} {sign} {operand('i')}",
                lambda: (
                    f"({operand('V')} > 2).{self.random.choice(['any', 'all'])}()"
                    if self.named(scope, "V")
                    else operand("b")
                ),
                lambda: f"{operand('X')}.any()" if self.named(scope, "X") else operand("b"),
            ]
        )()

    def _V(self, scope: Scope, depth: int) -> str:
        def operand(of: str = "V") -> str:
            return self.expr(of, scope, depth)

        return self.random.choice(
            [
                lambda: (
                    f"({operand()} {self.random.choice('+-')} {operand(self.random.choice('VVfS'[:3]))}) % 16"
                ),
                lambda: f"floor({operand()} * 0.5)",
                lambda: f"where({operand('X')}, {operand()}, {operand()})",
                lambda: f"{operand()}[::-1]",
                lambda: f"cumsum({operand()}) % 16",
                lambda: f"f32({operand('W')} % 16)",
                lambda: f"{operand('M')}.sum(axis=1) % 16" if self.named(scope, "M") else operand(),
                lambda: f"where({operand('b')}, {operand()}, {operand()})",
            ]
        )()

    def _W(self, scope: Scope, depth: int) -> str:
        def operand(of: str = "W") -> str:
            return self.expr(of, scope, depth)

        return self.random.choice(
            [
                lambda: f"{operand()} {self.random.choice('+-*')} {operand(self.random.choice('WWi'))}",
                lambda: f"{operand()} // {self.random.randint(2, 5)}",
                lambda: f"where({operand('X')}, {operand()}, {operand()})",
                lambda: f"cumsum({operand()})",
                lambda: f"i64({operand('V')})",
                lambda: f"-{operand()}",
            ]
        )()

    def _X(self, scope: Scope, depth: int) -> str:
        kind = self.random.choice("VW")
        left, right = (self.expr(kind, scope, depth) for _ in range(2))
        return f"{left} {self.random.choice(_COMPARISONS)} {right}"

    def _M(self, scope: Scope, depth: int) -> str:
        def operand(of: str = "M") -> str:
            return self.expr(of, scope, depth)

        return self.random.choice(
            [
                lambda: f"({operand()} {self.random.choice('+-')} {operand(self.random.choice('MMf'))}) % 16",
                lambda: f"floor({operand()} * 0.5)",
                lambda: (
                    f"({operand()} + f32({operand('N')} % 16)) % 16" if self.named(scope, "N") else operand()
                ),
                lambda: f"{operand()}[:, ::-1]",
                lambda: f"where({operand()} > {operand('f')}, {operand()}, {operand()})",
                lambda: f"cumsum({operand()}, axis={self.random.randint(0, 1)}) % 16",
            ]
        )()

    def _N(self, scope: Scope, depth: int) -> str:
        def operand(of: str = "N") -> str:
            return self.expr(of, scope, depth)

        return self.random.choice(
            [
                lambda: f"{operand()} {self.random.choice('+-*')} {operand(self.random.choice('NNj'))}",
                lambda: f"{operand()} // {self.random.randint(2, 5)}",
                lambda: f"i32({operand('M')}.sum(axis=0))" if self.named(scope, "M") else operand(),
                lambda: f"maximum({operand()}, {operand()})",
            ]
        )()

    def _S(self, scope: Scope, depth: int) -> str:
        def operand(of: str = "S") -> str:
            return self.expr(of, scope, depth)

        return self.random.choice(
            [
                lambda: f"({operand()} {self.random.choice('+-')} {operand(self.random.choice('SSf'))}) % 16",
                lambda: f"floor({operand()} * 0.5)",
                lambda: f"stack([{operand('f')}, {operand('f')}, {operand('f')}, {operand('f')}])",
                lambda: f"{operand()}[::-1]",
                lambda: f"where({operand()} > 3, {operand()}, {operand()})",
            ]
        )()


class _NothingOfItError(Exception):
    """A scope has nothing of which a tensor of some size could be made."""


def write_program(seed: int) -> tuple[str, list[tuple[np.ndarray, ...]]]:
    """Return the source of a program and the arguments of some calls."""
    chosen = random.Random(seed)
    while True:
        try:
            source, kinds = Generator(chosen, size=chosen.randint(5, 16)).program()
            break
        except _NothingOfItError:
            continue
    numbers = np.random.default_rng(seed)
    sizes = [
        {"n": int(numbers.choice([0, 1, 2, 3, 8, 33])), "m": int(numbers.choice([0, 1, 2, 5, 17]))}
        for _ in range(5)
    ]
    return source, [tuple(_argument(kind, size, numbers) for kind in kinds) for size in sizes]


def _argument(kind: str, sizes: dict[str, int], numbers: np.random.Generator) -> np.ndarray:
    if kind in _TENSORS:
        dims, dtype = _TENSORS[kind]
        shape = tuple(sizes.get(dim, 4) for dim in dims)
        low = -5 if dtype != "?" else 0
        return np.asarray(numbers.integers(low, 9 if low else 2, shape)).astype(dtype)
    dtype = _DTYPES[kind]
    if dtype.kind in "iu" and numbers.random() < 0.4:
        limits = np.iinfo(dtype)
        return np.asarray(
            [limits.max, limits.max - 1, limits.min, limits.min + 1][numbers.integers(4)], dtype
        )
    low = 0 if dtype.kind in "ub" else -4
    return np.asarray(numbers.integers(low, 2 if dtype.kind == "b" else 9)).astype(dtype)


def judge(seed: int, *, opt_level: int = 3) -> tuple[str | None, bool]:
    """Return how a program differs from Python's, None if it does not; and whether it is native."""
    source, calls = write_program(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        python = twin(source, {})
        function = nnmagic.compile(source, namespace={}, cache=False, opt_level=opt_level)
        function.build()
        native = isinstance(function._definition.executable, AotExecutable)
        for number, arguments in enumerate([*calls, calls[0]]):
            expected, result = (
                _outcome(run, arguments) for run in (lambda *args: plain(python.call("f", *args)), function)
            )
            if not _same(result, expected):
                return f"call {number}: {arguments}\n{result}\ninstead of\n{expected}\n{source}", native
    return None, native


def _outcome(run: object, arguments: tuple[np.ndarray, ...]) -> object:
    try:
        return run(*arguments)
    except (AssertionError, RecursionError) as error:
        return type(error)


def _same(result: object, expected: object) -> bool:
    if isinstance(expected, type) or isinstance(result, type):
        return result is expected
    if isinstance(expected, tuple):
        return isinstance(result, tuple) and all(map(_same, result, expected))
    return result.dtype == expected.dtype and np.array_equal(result, expected)


def main(first: int, count: int) -> int:
    """Judge some programs; return how many differ."""
    bad = native = 0
    level = int(os.environ.get("NNMAGIC_OPT_LEVEL", "3"))
    for seed in range(first, first + count):
        sys.stderr.write(f"seed {seed}\n")
        try:
            difference, is_native = judge(seed, opt_level=level)
        except Exception:  # noqa: BLE001 - every program is to be judged
            difference, is_native = traceback.format_exc() + write_program(seed)[0], False
        native += is_native
        if difference is not None:
            bad += 1
            sys.stdout.write(f"seed {seed}: {difference}\n\n")
            sys.stdout.flush()
    sys.stdout.write(f"{count} programs from {first}: {bad} differ, {native} native\n")
    return bad


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
