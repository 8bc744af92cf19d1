"""Find which values of functions in A-normal form depend on the example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnmagic.relay.expr import Call, Expr, Function, GlobalVar, If, Match, OpRef, Tuple, TupleGetItem
from nnmagic.relay.gradients.activity import type_of
from nnmagic.relay.gradients.blocks import arm_variables, block_of, branches
from nnmagic.relay.gradients.trees import Tree, combine, has_leaf, leaves, tree_of
from nnmagic.relay.traverse import post_order
from nnmagic.relay.types import TupleType, Type

#: Operators that read sizes alone, which all examples share.
OF_SIZES = frozenset({"shape_of", "ndarray_size"})


@dataclass(slots=True)
class FunctionFlags:
    """What depends on the example in a function whose parameters do as ``mask`` says, leaf by leaf.

    flags: a tree of bools for each variable. result: that of its result. diverges: whether examples decide
    how often it calls functions, itself among them.
    """

    mask: tuple[bool, ...]
    flags: dict[Expr, Tree] = field(default_factory=dict)
    result: Tree = False
    diverges: bool = False


class BatchFlags:
    """The flags of the functions of a module in A-normal form."""

    def __init__(self, functions: Mapping[str, Function]) -> None:
        self.functions = functions
        self._known: dict[tuple[str, tuple[bool, ...]], FunctionFlags] = {}

    def of_function(self, name: str, mask: tuple[bool, ...]) -> FunctionFlags:
        """Return the flags of a function; its mask grows by what it passes to itself."""
        found = self._known.get((name, mask))
        if found is not None:
            return found
        found = self._known[(name, mask)] = FunctionFlags(mask)
        function = self.functions[name]
        while True:
            before, found.flags = (found.mask, found.result), {}
            parts = iter(found.mask)
            for param in function.params:
                found.flags[param] = tree_of(parts, type_of(param))
            found.result = _union(found.result, self.of_block(function.body, found.flags, name, found))
            if (found.mask, found.result) == before:
                break
        return found if found.mask == mask else self.of_function(name, found.mask)

    def of_block(
        self, expr: Expr, flags: dict[Expr, Tree], name: str = "", own: FunctionFlags | None = None
    ) -> Tree:
        """Note the flags of each variable of a block; return those of its result."""
        block = block_of(expr)
        for var, value in block.bindings:
            flags[var] = self._of_value(value, flags, name, own)
        return flags.get(block.result, False)

    def _of_value(self, value: Expr, flags: dict[Expr, Tree], name: str, own: FunctionFlags | None) -> Tree:
        match value:
            case Call(op=OpRef(name=operator), args=args):
                depends = operator not in OF_SIZES and any(has_leaf(flags.get(arg, False)) for arg in args)
                return spread_flag(type_of(value), flag=depends)
            case Call(op=GlobalVar(name=callee), args=args):
                mask = self.mask_of(callee, args, flags)
                if callee == name and own is not None:
                    own.mask = tuple(a or b for a, b in zip(own.mask, mask, strict=True))
                    return own.result
                if not any(mask):
                    return False
                found = self.of_function(callee, mask)
                return spread_flag(type_of(value), flag=True) if found.diverges else found.result
            case Call(args=args):
                depends = any(has_leaf(flags.get(arg, False)) for arg in (value.op, *args))
                return spread_flag(type_of(value), flag=depends)
            case Tuple(fields=fields):
                return [flags.get(part, False) for part in fields]
            case TupleGetItem(tuple_value=part, index=index):
                tree = flags.get(part, False)
                return tree[index] if isinstance(tree, list) else tree
            case If() | Match():
                return self._of_branches(value, flags, name, own)
            case _:
                return flags.get(value, False)

    def _of_branches(
        self, value: If | Match, flags: dict[Expr, Tree], name: str, own: FunctionFlags | None
    ) -> Tree:
        result: Tree = False
        data = value.cond if isinstance(value, If) else value.data
        depends = has_leaf(flags.get(data, False))
        for body, bound in zip(branches(value), arm_variables(value), strict=True):
            for var in bound:
                flags[var] = spread_flag(type_of(var), flag=depends)
            result = _union(result, self.of_block(body, flags, name, own))
        if not depends:
            return result
        calls = (node for body in branches(value) for node in post_order(body))
        if own is not None and name and any(isinstance(node, GlobalVar) for node in calls):
            own.diverges = True
        return spread_flag(type_of(value), flag=True)

    def mask_of(self, callee: str, args: tuple[Expr, ...], flags: Mapping[Expr, Tree]) -> tuple[bool, ...]:
        """Return which leaves of the arguments of a call depend on the example."""
        mask: list[bool] = []
        for param, arg in zip(self.functions[callee].params, args, strict=True):
            mask += map(bool, leaves(_in_form(flags.get(arg, False), type_of(param)), type_of(param)))
        return tuple(mask)


def spread_flag(type_: Type, *, flag: bool) -> Tree:
    """Return a tree in which each leaf has the flag."""
    if isinstance(type_, TupleType):
        return [spread_flag(part, flag=flag) for part in type_.fields]
    return flag


def _in_form(tree: Tree, type_: Type) -> Tree:
    if isinstance(type_, TupleType):
        parts = tree if isinstance(tree, list) else [tree] * len(type_.fields)
        return [_in_form(part, own) for part, own in zip(parts, type_.fields, strict=True)]
    return tree


def _union(first: Tree, second: Tree) -> Tree:
    return combine(first, second, lambda a, b: bool(a or b))
