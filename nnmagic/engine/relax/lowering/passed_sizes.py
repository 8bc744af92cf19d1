"""Find the integers that calls of a loop pass and that are sizes of the arrays that they pass beside them.

A loop that is a function of its own gets ``n`` as an integer, as in ``zeros((n, n))``: it is the size of an
array that it gets, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tvm import tirx

from nnmagic.engine.relax.analysis.tuple_flattening import flatten
from nnmagic.engine.relax.legalize.registry import Value, shape_of
from nnmagic.engine.relax.legalize.size_values import Elements
from nnmagic.engine.relax.legalize.sizes import same_size
from nnmagic.engine.relax.schedules.kernel_analysis import substitute
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, Var
from nnmagic.relay.expr import Call, Expr, Function, GlobalVar
from nnmagic.relay.traverse import post_order
from nnmagic.relay.types import TensorType

_NUMBER = TensorType((), "int64")

#: An axis of one of the tensors that a function takes: the numbers of both.
_Axis = tuple[int, int]


class DifferentSizesError(Exception):
    """A call passes something else than was assumed of a function, whose name is the argument."""


@dataclass(frozen=True, slots=True)
class _Size:
    """A size in terms of axes of tensors: an expression of variables that stand for them."""

    expr: PrimExpr
    axes: tuple[tuple[Var, _Axis], ...] = ()

    def of(self, shapes: Sequence[Sequence[Extent]]) -> Extent:
        """Return the size for the shapes of the tensors."""
        values = {var: as_expr(shapes[tensor][axis]) for var, (tensor, axis) in self.axes}
        return substitute(self.expr, values) if values else self.expr

    def is_same(self, other: _Size | None) -> bool:
        """Return whether two sizes are written alike."""
        if other is None or [axis for _, axis in self.axes] != [axis for _, axis in other.axes]:
            return False
        names = {var: as_expr(own) for (var, _), (own, _) in zip(other.axes, self.axes, strict=True)}
        return same_size(self.expr, substitute(other.expr, names) if names else other.expr)


@dataclass(slots=True)
class PassedSizes:
    """The sizes among the integers that functions take, by the functions' names.

    excluded: the functions of which nothing may be assumed.
    """

    excluded: frozenset[str] = frozenset()
    _sizes: dict[str, dict[int, _Size]] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)

    def note_call(
        self,
        name: str,
        function: Function,
        args: Sequence[Value],
        elements: Callable[[Value], Elements | None],
    ) -> None:
        """Note a call of a function from outside. Raises DifferentSizesError where it is too late."""
        if name in self.excluded:
            return
        if name in self._sizes and not self._sizes[name]:
            return
        passed: dict[int, _Size] = {}
        shapes = [shape_of(leaf) for arg in args for leaf in flatten(arg)]
        for number in _invariant_integers(function, name):
            known = elements(args[number])
            size = None if known is None or len(known) != 1 else _in_terms_of(known[0], shapes)
            if size is not None:
                passed[number] = size
        before = self._sizes.get(name)
        if before is not None:
            passed = {number: size for number, size in before.items() if size.is_same(passed.get(number))}
            if name in self._used and len(passed) < len(before):
                self.excluded |= {name}
                raise DifferentSizesError(name)
        self._sizes[name] = passed

    def of(self, name: str, shapes: Sequence[Sequence[Extent]]) -> Mapping[int, Extent]:
        """Return the sizes that parameters of a function are, for the shapes of all that it takes."""
        self._used.add(name)
        return {number: size.of(shapes) for number, size in self._sizes.get(name, {}).items()}


def _invariant_integers(function: Function, name: str) -> list[int]:
    """Return the numbers of the integers that a function hands on to itself as they are."""
    numbers = [number for number, param in enumerate(function.params) if param.checked_type == _NUMBER]
    if not numbers:
        return []
    for node in post_order(function.body):
        if isinstance(node, Call) and isinstance(node.op, GlobalVar) and node.op.name == name:
            args: Sequence[Expr] = node.args
            numbers = [number for number in numbers if args[number] is function.params[number]]
    return numbers


def _in_terms_of(size: Extent, shapes: Sequence[Sequence[Extent]]) -> _Size | None:
    """Return a size in terms of shapes; None if they do not determine it."""
    if isinstance(size, int):
        return _Size(as_expr(size))
    axes = [(tensor, axis) for tensor, shape in enumerate(shapes) for axis in range(len(shape))]
    variables: list[tuple[Var, _Axis]] = []
    for var in tirx.analysis.undefined_vars(tirx.Evaluate(size)):
        at = next((at for at in axes if _is(shapes[at[0]][at[1]], var)), None)
        if at is None:
            whole = next((at for at in axes if same_size(shapes[at[0]][at[1]], size)), None)
            if whole is None:
                return None
            stands_for = tirx.Var("size", "int64")
            return _Size(stands_for, ((stands_for, whole),))
        variables.append((var, at))
    return _Size(size, tuple(sorted(variables, key=lambda pair: pair[1])))


def _is(extent: Extent, var: Var) -> bool:
    return not isinstance(extent, int) and bool(extent.same_as(var))
