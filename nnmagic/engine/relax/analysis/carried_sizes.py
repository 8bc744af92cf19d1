"""Name the sizes of what loops carry, so that a loop's results are known to have the sizes of its arguments.

A loop over an array of type ``Tensor[(?, ?), int32]`` says nothing about the shape of its result, which is
that of the array where rounds only change elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final, TypeAlias, cast

from nnmagic.engine.relax.analysis.dim_labels import new_labels
from nnmagic.engine.relax.analysis.entry_signature import type_of
from nnmagic.engine.relax.analysis.tuple_flattening import leaves
from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, If, Let, OpRef, Tuple, TupleGetItem, Var
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import OPERATORS, Trait, traits_of
from nnmagic.relay.ops.relations import broadcast, identity
from nnmagic.relay.passes.rewriting import keeps_types, substitute
from nnmagic.relay.structure.callgraph import call_graph, components
from nnmagic.relay.structure.tuple_trees import flatten, rebuild
from nnmagic.relay.types import ANY, AnyDim, TensorType, TupleType, Type


@dataclass(frozen=True, slots=True)
class _Open:
    """The shape of a result of the function itself, which is not known yet."""


_OPEN: Final = _Open()

#: Whose shape a value has: the number of a tensor among the parameters; None if that is not known. Of tuples
#: a tuple.
_Shape: TypeAlias = "int | _Open | tuple[_Shape, ...] | None"


@keeps_types
def name_carried_sizes(module: Module, loops: frozenset[str]) -> Module:
    """Return a module in which loops name the unknown sizes of their parameters, and of results alike.

    The module must be typed. ``loops``: the names of functions that call themselves.
    """
    shapes: dict[str, Sequence[_Shape]] = {}
    functions = dict(module.functions)
    for group in components(call_graph(module)):
        (name, *more) = group
        if more or not _is_of_tensors(functions[name]):
            continue
        shapes[name] = _result_shapes(functions[name], name, shapes)
        if name in loops and _has_unknown(functions[name]):
            functions[name] = _name(functions[name], shapes[name])
    return replace(module, functions=functions)


def _is_of_tensors(function: Function) -> bool:
    """Return whether a function takes and returns tensors and tuples of them alone."""
    types = [function.ret_type, *(type_of(param) for param in function.params)]
    while types:
        type_ = types.pop()
        if isinstance(type_, TupleType):
            types.extend(type_.fields)
        elif not isinstance(type_, TensorType):
            return False
    return not function.type_params


def _has_unknown(function: Function) -> bool:
    return any(ANY in leaf.shape for param in function.params for leaf in leaves(type_of(param)))


def _map_leaves(type_: Type, tensors: Iterator[TensorType]) -> Type:
    if isinstance(type_, TupleType):
        return replace(type_, fields=tuple(_map_leaves(field, tensors) for field in type_.fields))
    return next(tensors) if isinstance(type_, TensorType) else type_


def _name(function: Function, shapes: Sequence[_Shape]) -> Function:
    """Return the function with names for the unknown sizes of its parameters."""
    labels = new_labels(function, "carried_")
    given = [leaf for param in function.params for leaf in leaves(type_of(param))]
    named = [
        replace(leaf, shape=tuple(AnyDim(next(labels)) if dim == ANY else dim for dim in leaf.shape))
        for leaf in given
    ]
    results = [
        leaf if not isinstance(shape, int) else replace(leaf, shape=named[shape].shape)
        for leaf, shape in zip(leaves(function.result_type), shapes, strict=True)
    ]
    types = iter(named)
    params = tuple(
        replace(param, type_annotation=_map_leaves(type_of(param), types), checked_type=None)
        for param in function.params
    )
    body = substitute(function.body, dict(zip(function.params, params, strict=True)))
    ret_type = _map_leaves(function.result_type, iter(results))
    return replace(function, params=params, body=body, ret_type=ret_type, inferred=False, checked_type=None)


def _result_shapes(
    function: Function, name: str, result_shapes: Mapping[str, Sequence[_Shape]]
) -> Sequence[_Shape]:
    """Return whose shape each tensor of a loop's result has: a parameter's whose shape no round changes."""
    results = list(leaves(function.result_type))
    opened: Sequence[_Shape] = [_OPEN] * len(results)
    shapes = _Shapes(function, {**result_shapes, name: opened}, name)
    ends = list(flatten(shapes.of(function.body)))
    if len(ends) != len(results):
        return [None] * len(results)
    return [end if isinstance(end, int) and shapes.keeps(end) else None for end in ends]


class _Shapes:
    """Whose shapes the values of a function have.

    ``found``: the same of the functions that it calls, also of the function ``name`` itself.
    """

    def __init__(self, function: Function, result_shapes: Mapping[str, Sequence[_Shape]], name: str) -> None:
        self.found, self.name = result_shapes, name
        #: The shapes of the tensors that the function gives itself, of each call.
        self.rounds: list[list[_Shape]] = []
        self.lets: dict[Expr, Expr] = {}
        self.known: dict[Expr, _Shape] = {}
        numbers = count()
        for param in function.params:
            self.known[param] = _number(type_of(param), numbers)

    def of(self, root: Expr) -> _Shape:
        """Return the shape of a value; not by recursion, as programs can be deep."""
        work = [root]
        while work:
            node = work[-1]
            if node in self.known:
                work.pop()
                continue
            if isinstance(node, Let):
                self.lets[node.var] = node.value
            missing = [part for part in self._parts(node) if part not in self.known]
            if missing:
                work.extend(missing)
            else:
                self.known[node] = self._shape(node)
                work.pop()
        return self.known[root]

    def _parts(self, node: Expr) -> Sequence[Expr]:
        match node:
            case Var():
                return [self.lets[node]] if node in self.lets else []
            case Let():
                return [node.body]
            case If():
                return [node.true_branch, node.false_branch]
            case Tuple():
                return node.fields
            case TupleGetItem():
                return [node.tuple_value]
            case Call(op=OpRef() | GlobalVar()):
                return node.args
        return []

    def _shape(self, node: Expr) -> _Shape:
        shapes = [self.known[shape] for shape in self._parts(node)]
        match node:
            case Var() | Let():
                return shapes[0] if shapes else None
            case If():
                return _common(*shapes)
            case Tuple():
                return tuple(shapes)
            case TupleGetItem():
                (tuple_shape,) = shapes
                return tuple_shape[node.index] if isinstance(tuple_shape, tuple) else tuple_shape
            case Call(op=OpRef(name=name)):
                return self._of_operator(name, node, shapes)
            case Call(op=GlobalVar(name=name)) if name in self.found:
                given = [
                    leaf for arg, shape in zip(node.args, shapes, strict=True) for leaf in _spread(shape, arg)
                ]
                if name == self.name:
                    self.rounds.append(given)
                return _of_call(node, self.found[name], given)
        return None

    def keeps(self, number: int) -> bool:
        """Return whether all calls of the function by itself pass on the shape of a tensor that it takes."""
        return all(round_[number] is _OPEN or round_[number] == number for round_ in self.rounds)

    def _of_operator(self, name: str, call: Call, parts: Sequence[_Shape]) -> _Shape:
        relation = OPERATORS[name].relation if name in OPERATORS else None
        if Trait.UPDATES in traits_of(call) or relation is identity:
            return parts[0]
        if relation is not broadcast:
            return None
        arrays = [
            part
            for arg, part in zip(call.args, parts, strict=True)
            if not isinstance(arg.checked_type, TensorType) or arg.checked_type.shape
        ]
        return None if not arrays else arrays[0] if len(arrays) == 1 else _common(*arrays)


def _of_call(call: Call, results: Sequence[_Shape], given: Sequence[_Shape]) -> _Shape:
    """Return the shape of a call's result: those of the arguments that its results have."""
    own = iter([given[result] if isinstance(result, int) else result for result in results])
    return cast("_Shape", rebuild(call.inferred_type, own))


def _spread(shape: _Shape, arg: Expr) -> list[_Shape]:
    """Return the shapes of the tensors of an argument."""
    if isinstance(shape, tuple):
        return list(flatten(shape))
    return [shape for _ in leaves(arg.inferred_type)] if shape is None or shape is _OPEN else [shape]


def _number(type_: Type, numbers: Iterator[int]) -> _Shape:
    if isinstance(type_, TupleType):
        return tuple(_number(field, numbers) for field in type_.fields)
    return next(numbers) if isinstance(type_, TensorType) else None


def _common(lhs: _Shape, rhs: _Shape) -> _Shape:
    """Return the shape that both values have."""
    if lhs is _OPEN:
        return rhs
    if rhs is _OPEN:
        return lhs
    if isinstance(lhs, tuple) and isinstance(rhs, tuple):
        return tuple(map(_common, lhs, rhs))
    return lhs if lhs == rhs else None
