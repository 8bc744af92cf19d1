"""Find what the rounds of a loop have in common: elements that one changes and another one uses.

Nothing is assumed that is not proven. Two indices are compared as polynomials (`index_bounds`); what is no
polynomial over loop variables, sizes and numbers may be any index.

Allen and Kennedy, Optimizing Compilers for Modern Architectures (2001), explain such tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from synr import ast

from nnmagic.tinynn.analysis import bound_names as bound
from nnmagic.tinynn.analysis.index_bounds import (
    Bounds,
    IndexPolynomial,
    Interval,
    differ,
    distance_of,
    number,
    of_name,
)
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.syntax.tree_building import is_subscript

#: What the attributes of an array are that its elements do not decide.
_METADATA = ("shape", "ndim", "dtype", "size")


@dataclass(frozen=True, slots=True)
class Access:
    """A read or a write of elements: ``indices`` is None for all of them, an index None for any."""

    name: str
    indices: tuple[IndexPolynomial | None, ...] | None
    span: ast.Span
    writes: bool


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the elaboration knows about the names of a loop.

    number_of: the polynomial of a name, or of an expression, that is the same in all rounds; None if unknown.
    builtin_of: the name of the language's function that an expression stands for; None for anything else.
    """

    number_of: Callable[[ast.Expr], IndexPolynomial | None]
    builtin_of: Callable[[ast.Expr], str | None]
    sizes: set[str] = field(default_factory=set)


class LoopAccesses:
    """The accesses of a loop's rounds to arrays whose elements it changes.

    ``variables``: the loop's own, with the intervals that are known without its source.
    """

    def __init__(self, stmt: tree.For, variables: Mapping[str, Interval], surroundings: Surroundings) -> None:
        body = stmt.body
        self._surroundings = surroundings
        self._intervals: dict[str, Interval] = dict(variables)
        self._bound = Counter(name for node in bound.walk(body) for name in bound.bound_names_of(node))
        self._values: dict[str, ast.Expr] = {}
        self._loops = Counter[str]()
        self._polynomials: dict[str, IndexPolynomial | None] = {name: of_name(name) for name in variables}
        self.changed = frozenset(name for node in bound.walk(body) for name in _changed_by(node))
        for name, interval in zip(variables, self._intervals_of(stmt.iterable), strict=False):
            bounds = variables[name]
            low = bounds.low if interval.low is None else interval.low
            self._intervals[name] = Interval(low, bounds.high if interval.high is None else interval.high)
        for node in bound.walk(body):
            if isinstance(node, tree.For):
                self._add_inner(node)
        for node in bound.walk(body, into_functions=False):
            if isinstance(node, ast.Assign) and self._bound[node.lhs[0].id.name] == 1:
                self._values[node.lhs[0].id.name] = node.rhs
        for name in variables:
            if self._bound[name]:
                self._polynomials[name] = None
        self._forget_leftovers()
        self.accesses = list(self._find(body))

    @property
    def bounds(self) -> Bounds:
        """What is known of the names in the indices of two rounds."""
        primed = {
            f"{name}'": Interval(
                _prime(interval.low, self._intervals), _prime(interval.high, self._intervals)
            )
            for name, interval in self._intervals.items()
        }
        return Bounds({**self._intervals, **primed}, self._surroundings.sizes)

    def clash(self, variable: str) -> tuple[Access, Access] | None:
        """Return a write, and an access of another round that may use the same element; None without any."""
        bounds = self.bounds
        for write, other in self._pairs():
            if not self._differ(write, other, variable, bounds):
                return write, other
        return None

    def clash_of_tiles(self, variables: Sequence[str]) -> tuple[Access, Access] | None:
        """Return a write, and an access whose order tiles of the loops would change; None without any."""
        bounds = self.bounds
        for write, other in self._pairs():
            distances = self._distances(write, other, variables, bounds)
            if distances is None:
                continue
            unknown = sum(distance is None for distance in distances)
            signs = {distance > 0 for distance in distances if distance}
            if unknown + len(signs) > 1:
                return write, other
        return None

    def _pairs(self) -> Iterator[tuple[Access, Access]]:
        for write in self.accesses:
            if write.writes:
                for other in self.accesses:
                    if other.name == write.name:
                        yield write, other

    def _dimensions(self, write: Access, other: Access) -> Iterator[tuple[IndexPolynomial, IndexPolynomial]]:
        """Yield the indices of the axes that both have, those of the second one primed."""
        for lhs, rhs in zip_longest(write.indices or (), other.indices or ()):
            if lhs is not None and rhs is not None:
                primed = _prime(rhs, self._intervals)
                assert primed is not None
                yield lhs, primed

    def _differ(self, write: Access, other: Access, variable: str, bounds: Bounds) -> bool:
        return any(differ(lhs, rhs, variable, bounds) for lhs, rhs in self._dimensions(write, other))

    def _distances(
        self, write: Access, other: Access, variables: Sequence[str], bounds: Bounds
    ) -> list[int | None] | None:
        """Return the distance in rounds of each loop; None if the two never use the same element."""
        distances: dict[str, int] = {}
        for lhs, rhs in self._dimensions(write, other):
            inside = lhs.names() & self._intervals.keys()
            if len(inside) > 1 or {f"{name}'" for name in inside} != rhs.names() & bounds_of_second_round(
                bounds
            ):
                continue
            for variable in inside & set(variables):
                distance = distance_of(lhs, rhs, variable, bounds)
                if distance is None:
                    continue
                if distances.setdefault(variable, distance) != distance:
                    return None
        return [distances.get(variable) for variable in variables]

    # -- indices ---------------------------------------------------------------------------------------

    def _forget_leftovers(self) -> None:
        """Forget the variables of several loops that are bound elsewhere, or that other names are made of."""
        for name, times in self._loops.items():
            mentioned = any(name in bound.find_mentioned_names(value) for value in self._values.values())
            if self._bound[name] != times or (times > 1 and mentioned):
                self._polynomials[name] = None

    def _add_inner(self, loop: tree.For) -> None:
        """Add the variables of an inner loop over a range."""
        ranges, targets = self._intervals_of(loop.iterable), list(bound.targets_of(loop.target))
        if len(ranges) != len(targets):
            return
        for target, interval in zip(targets, ranges, strict=True):
            name = target.id.name
            self._loops[name] += 1
            outer_interval = self._intervals.get(name, interval)
            low = outer_interval.low if outer_interval.low == interval.low else None
            high = outer_interval.high if outer_interval.high == interval.high else None
            self._intervals[name] = Interval(low, high)
            self._polynomials[name] = of_name(name)

    def _intervals_of(self, iterable: ast.Expr) -> list[Interval]:
        """Return the intervals of the ranges that a loop goes over; none of anything else."""
        builtin = self._range_of(iterable)
        if builtin is None or iterable.keyword_params:
            return []
        params: Sequence[ast.Expr] = iterable.params
        if builtin in ("grid", "tiled"):
            stops = params[: len(params) // 2] if builtin == "tiled" else params
            return [self._interval([stop]) for stop in stops]
        return [self._interval(params)]

    def _range_of(self, iterable: ast.Expr) -> str | None:
        """Return the name of the function that makes a range; None for anything else."""
        if not isinstance(iterable, ast.Call) or isinstance(iterable.func_name, ast.Op):
            return None
        name = self._surroundings.builtin_of(iterable.func_name)
        return (
            name
            if name in ("range", "parallel", "prange", "unrolled", "vectorized", "grid", "tiled")
            else None
        )

    def _interval(self, params: Sequence[ast.Expr]) -> Interval:
        """Return the interval of a range of these arguments."""
        if len(params) == 1 and self._range_of(params[0]) == "range":
            params = params[0].params
        values = [self._polynomial(param) for param in params]
        start, stop = (number(0), values[0]) if len(values) == 1 else values[:2]
        step = 1 if len(values) < 3 or values[2] is None else values[2].constant
        one = number(1)
        if step is None or (len(values) == 3 and values[2] is None):
            return Interval(None, None)
        if step > 0:
            return Interval(start, None if stop is None else stop - one)
        return Interval(None if stop is None else stop + one, start)

    def _polynomial(self, expr: ast.Expr) -> IndexPolynomial | None:
        """Return an expression as a polynomial; None where it is none, or is not known to be a number."""
        match expr:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return number(value)
            case ast.Var():
                return self._polynomial_of_name(expr)
            case ast.Call(func_name=ast.Op(name=name), params=[operand]) if name == ast.BuiltinOp.USub:
                inner = self._polynomial(operand)
                return None if inner is None else -inner
            case ast.Call(func_name=ast.Op(name=name), params=[lhs, rhs]) if name in _ARITHMETIC:
                a, b = self._polynomial(lhs), self._polynomial(rhs)
                return None if a is None or b is None else _ARITHMETIC[name](a, b)
        return self._invariant(expr)

    def _polynomial_of_name(self, variable: ast.Var) -> IndexPolynomial | None:
        name = variable.id.name
        if name not in self._polynomials:
            if name in self._bound:
                value = self._values.get(name)
                self._polynomials[name] = None  # if it needs itself
                self._polynomials[name] = None if value is None else self._polynomial(value)
            else:
                self._polynomials[name] = self._invariant(variable)
        return self._polynomials[name]

    def _invariant(self, expr: ast.Expr) -> IndexPolynomial | None:
        """Return the polynomial of what no round changes."""
        if any(name in self._bound and name not in self.changed for name in bound.find_mentioned_names(expr)):
            return None
        if any(name in self._intervals for name in bound.find_mentioned_names(expr)):
            return None
        return self._surroundings.number_of(expr)

    # -- accesses --------------------------------------------------------------------------------------

    def _find(self, node: object) -> Iterator[Access]:
        match node:
            case tree.UpdateElements(target=target, rhs=rhs):
                yield from self._subscript(target, writes=True)
                yield from self._subscript(target, writes=False)
                yield from self._find(rhs)
            case tree.Unpack(targets=targets, rhs=rhs):
                for target in targets:
                    yield from self._target(target)
                yield from self._find(rhs)
            case tree.ChangingCall():
                for name in node.changed:
                    yield Access(name, None, node.span, writes=True)
                yield from self._parts(node)
            case ast.Call(func_name=ast.Op(name=ast.BuiltinOp.Subscript)):
                yield from self._subscript(node, writes=False)
            case tree.DefinitionNode() | tree.Lambda() | tree.Comprehension():
                for name in sorted(self.changed & bound.find_mentioned_names(node)):
                    yield Access(name, None, node.span, writes=False)
            case ast.Attr(object=ast.Var(), field=ast.Id(name=name)) if name in _METADATA:
                return
            case ast.Call(func_name=ast.Var(id=ast.Id(name="len")), params=[ast.Var()]):
                return
            case ast.Var(id=ast.Id(name=name)):
                if name in self.changed:
                    yield Access(name, None, node.span, writes=False)
            case _:
                yield from self._parts(node)

    def _parts(self, node: object) -> Iterator[Access]:
        children: Sequence[object] = ()
        if isinstance(node, ast.Node):
            children = list(vars(node).values())
        elif isinstance(node, list | tuple):
            children = node
        elif isinstance(node, dict):
            children = [child for pair in node.items() for child in pair]
        for child in children:
            if isinstance(child, ast.Node | list | tuple | dict):
                yield from self._find(child)

    def _target(self, target: ast.Expr) -> Iterator[Access]:
        match target:
            case ast.Call():
                yield from self._subscript(target, writes=True)
            case ast.Tuple(values=values):
                for part in values:
                    yield from self._target(part)
            case tree.Starred(value=value):
                yield from self._target(value)

    def _subscript(self, call: ast.Call, *, writes: bool) -> Iterator[Access]:
        """Yield the access of a subscript, and those in its indices; ``y[i][j]`` is ``y[i, j]``."""
        indices: list[ast.Expr] = []
        base: ast.Expr = call
        while is_subscript(base):
            base_indices = list(base.params[1].values)
            if indices and any(self._index(index) is None for index in base_indices):
                indices = []  # an index of what the first one selects
                yield from self._find(base)
                return
            indices = [*base_indices, *indices]
            base = base.params[0]
        yield from self._find(indices)
        if not isinstance(base, ast.Var):
            yield from self._find(base)
        elif base.id.name in self.changed:
            plain = all(isinstance(index, ast.Slice) or self._index(index) is not None for index in indices)
            known = tuple(None if isinstance(index, ast.Slice) else self._index(index) for index in indices)
            yield Access(base.id.name, known if plain else None, call.span, writes=writes)

    def _index(self, expr: ast.Expr) -> IndexPolynomial | None:
        return None if isinstance(expr, ast.Slice) else self._polynomial(expr)


def bounds_of_second_round(bounds: Bounds) -> set[str]:
    """Return the names of the second round."""
    return {name for name in bounds.variables if name.endswith("'")}


def _prime(value: IndexPolynomial | None, names: Mapping[str, object]) -> IndexPolynomial | None:
    return None if value is None else value.rename({name: f"{name}'" for name in names})


def _changed_by(node: ast.Node) -> list[str]:
    """Return the names whose elements a node assigns."""
    match node:
        case tree.UpdateElements(target=target):
            return bound.names_of(target)
        case tree.Unpack(targets=targets):
            return [name for target in targets for name in _owners(target)]
        case tree.ChangingCall(changed=changed):
            return list(changed)
    return []


def _owners(target: ast.Expr) -> Iterator[str]:
    match target:
        case ast.Call():
            yield from bound.names_of(target)
        case ast.Tuple(values=values):
            for value in values:
                yield from _owners(value)


_ARITHMETIC: dict[ast.BuiltinOp, Callable[[IndexPolynomial, IndexPolynomial], IndexPolynomial]] = {
    ast.BuiltinOp.Add: IndexPolynomial.__add__,
    ast.BuiltinOp.Sub: IndexPolynomial.__sub__,
    ast.BuiltinOp.Mul: IndexPolynomial.__mul__,
}


# -- reductions ----------------------------------------------------------------------------------------

_REDUCING = {
    ast.BuiltinOp.Add: "add",
    ast.BuiltinOp.Sub: "add",
    ast.BuiltinOp.Mul: "mul",
    ast.BuiltinOp.BitAnd: "and",
    ast.BuiltinOp.BitOr: "or",
    ast.BuiltinOp.BitXor: "xor",
}
_EXTREMES = {"max": "max", "maximum": "max", "min": "min", "minimum": "min"}


def find_reduction(body: ast.Block, name: str, builtin_of: Callable[[ast.Expr], str | None]) -> str | None:
    """Return the operator by which rounds reduce to a name that they use for nothing else; else None."""
    operators, used = set[str](), 0
    for node in bound.walk(body):
        if isinstance(node, ast.Assign) and [target.id.name for target in node.lhs] == [name]:
            operator = _operator_of(node.rhs, name, builtin_of)
            if operator is None:
                return None
            operators.add(operator)
            used += 2
    mentions = sum(isinstance(node, ast.Var) and node.id.name == name for node in bound.walk(body))
    return operators.pop() if len(operators) == 1 and used == mentions else None


def _operator_of(value: ast.Expr, name: str, builtin_of: Callable[[ast.Expr], str | None]) -> str | None:
    match value:
        case ast.Call(func_name=ast.Op(name=operator), params=[lhs, rhs]) if operator in _REDUCING:
            first = _is_name(lhs, name) and name not in bound.find_mentioned_names(rhs)
            second = _is_name(rhs, name) and name not in bound.find_mentioned_names(lhs)
            commutes = operator != ast.BuiltinOp.Sub
            return _REDUCING[operator] if first or (second and commutes) else None
        case ast.Call(func_name=function, params=[lhs, rhs], keyword_params={}) if not isinstance(
            function, ast.Op
        ):
            word = builtin_of(function)
            if word in _EXTREMES and _is_name(lhs, name) and name not in bound.find_mentioned_names(rhs):
                return _EXTREMES[word]
    return None


def _is_name(expr: ast.Expr, name: str) -> bool:
    return isinstance(expr, ast.Var) and bool(expr.id.name == name)
