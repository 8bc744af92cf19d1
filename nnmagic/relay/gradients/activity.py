"""Find the values through which a gradient may flow: those that depend on the parameters by way of floats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import custom_rule
from nnmagic.relay.gradients.blocks import block_of, branches, type_of
from nnmagic.relay.gradients.data_types import DataTypes
from nnmagic.relay.gradients.registry import ZERO
from nnmagic.relay.structure.traverse import pattern_vars
from nnmagic.relay.structure.tuple_trees import Tree, combine, float_leaves, has_leaf, leaves, tree_of
from nnmagic.relay.types import TupleType, Type


@dataclass(slots=True)
class FunctionActivity:
    """What is active in a function whose parameters are active as ``mask`` says, leaf by leaf.

    active: a tree of bools for each variable. result: that of its result.
    """

    mask: tuple[bool, ...]
    active: dict[ir.Expr, Tree] = field(default_factory=dict)
    result: Tree = False


class Activity:
    """The activity of the functions of a module in A-normal form."""

    def __init__(self, functions: Mapping[str, ir.Function], data_types: DataTypes) -> None:
        self.functions = functions
        self.data_types = data_types
        self._known: dict[tuple[str, tuple[bool, ...]], FunctionActivity] = {}
        self._open: list[tuple[str, FunctionActivity]] = []

    def of_function(self, name: str, mask: tuple[bool, ...]) -> FunctionActivity:
        """Return the activity of a function; its mask grows by what it passes to itself.

        Functions may call each other in a circle: all that are met are looked at until nothing changes.
        """
        activity = self._known.get((name, mask))
        if activity is not None:
            return activity
        activity = self._known[(name, mask)] = FunctionActivity(mask)
        is_outermost = not self._open
        self._open.append((name, activity))
        self._update(name, activity)
        if is_outermost:
            # A least fixpoint: activity only ever grows, over finitely many leaves. `any` of a
            # generator would stop at the first change and leave the others behind.
            while any([self._update(*each) for each in self._open]):  # noqa: C419 # each is updated
                pass
            self._open.clear()
        return activity

    def _update(self, name: str, activity: FunctionActivity) -> bool:
        """Look at a function again; return whether anything is active that was not before."""
        before, activity.active = (activity.mask, activity.result), {}
        function, parts = self.functions[name], iter(activity.mask)
        for param in function.params:
            activity.active[param] = tree_of(parts, type_of(param))
        result = self.of_block(function.body, activity.active, name, activity)
        activity.result = _union(activity.result, result)
        return (activity.mask, activity.result) != before

    def of_block(
        self, expr: ir.Expr, active: dict[ir.Expr, Tree], name: str = "", own: FunctionActivity | None = None
    ) -> Tree:
        """Note the activity of each variable of a block; return that of its result."""
        block = block_of(expr)
        for var, value in block.bindings:
            active[var] = self._of_value(value, active, name, own)
        return active.get(block.result, False)

    def _of_value(
        self, value: ir.Expr, active: dict[ir.Expr, Tree], name: str, caller: FunctionActivity | None
    ) -> Tree:
        match value:
            case ir.Call(op=ir.OpRef(name=operator), args=args):
                if operator in ZERO or not any(has_leaf(active.get(arg, False)) for arg in args):
                    return False
                return float_leaves(type_of(value))
            case ir.Call(op=ir.GlobalVar(name=callee), args=args):
                return self._of_call(callee, args, active, name, caller)
            case ir.Call(args=args):
                is_active = any(has_leaf(active.get(arg, False)) for arg in (value.op, *args))
                return self.data_types.flowing(type_of(value)) if is_active else False
            case ir.Tuple(fields=fields):
                return [active.get(field, False) for field in fields]
            case ir.TupleGetItem(tuple_value=field, index=index):
                tree = active.get(field, False)
                return tree[index] if isinstance(tree, list) else tree
            case ir.If() | ir.Match():
                return self._of_branches(value, active, name, caller)
            case _:
                return active.get(value, False)

    def _of_branches(
        self, value: ir.If | ir.Match, active: dict[ir.Expr, Tree], name: str, own: FunctionActivity | None
    ) -> Tree:
        result: Tree = False
        if isinstance(value, ir.Match):
            for clause in value.clauses:
                self._bind(clause.lhs, active.get(value.data, False), active)
        for body in branches(value):
            result = _union(result, self.of_block(body, active, name, own))
        return result

    def _bind(self, pattern: ir.Pattern, tree: Tree, active: dict[ir.Expr, Tree]) -> None:
        """Note the activity of the variables of a pattern that takes a value apart."""
        if isinstance(pattern, ir.PatternTuple) and isinstance(tree, list):
            for part, own in zip(pattern.patterns, tree, strict=True):
                self._bind(part, own, active)
        elif isinstance(pattern, ir.PatternVar):
            active[pattern.var] = tree
        else:
            for var in pattern_vars(pattern):
                active[var] = self.data_types.flowing(type_of(var)) if has_leaf(tree) else False

    def _of_call(
        self,
        callee: str,
        args: tuple[ir.Expr, ...],
        active: dict[ir.Expr, Tree],
        name: str,
        activity: FunctionActivity | None,
    ) -> Tree:
        mask = self.mask_of(callee, args, active)
        function = self.functions[callee]
        if custom_rule(function) is not None:
            # What is inside of a function with its own rule is never differentiated.
            return self.data_types.flowing(function.result_type) if any(mask) else False
        if callee == name and activity is not None:
            # A function that passes an active value to an inactive parameter of its own has an
            # active parameter.
            activity.mask = tuple(a or b for a, b in zip(activity.mask, mask, strict=True))
            return activity.result
        return self.of_function(callee, mask).result if any(mask) else False

    def mask_of(
        self, callee: str, args: tuple[ir.Expr, ...], active: Mapping[ir.Expr, Tree]
    ) -> tuple[bool, ...]:
        """Return which leaves of the arguments of a call are active."""
        mask: list[bool] = []
        for param, arg in zip(self.functions[callee].params, args, strict=True):
            type_ = type_of(param)
            tree = active.get(arg, False)
            mask += [bool(leaf) for leaf in leaves(_spread(tree, type_), type_)]
        return tuple(mask)


def _spread(tree: Tree, type_: Type) -> Tree:
    """Return a tree in the form of its type; a bool alone stands for all leaves."""
    if isinstance(type_, TupleType) and not isinstance(tree, list):
        return [_spread(tree, field) for field in type_.fields]
    return tree


def _union(first: Tree, second: Tree) -> Tree:
    return combine(first, second, lambda a, b: bool(a or b))
