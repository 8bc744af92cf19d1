"""Find which values of functions in A-normal form depend on the example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import custom_rule
from nnmagic.relay.gradients.blocks import arm_variables, block_of, branches, type_of
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import components, definition_graph
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.tuple_trees import Tree, combine, has_leaf, leaf_types, leaves, tree_of
from nnmagic.relay.types import TupleType, Type, TypeCall

#: The constructors by which a branch says whether an assertion holds.
_ASSERTIONS = frozenset({("Assertion", "Holds"), ("Assertion", "Fails")})

#: Operators that read sizes alone, which all examples share.
OF_SIZES = frozenset({"shape_of", "ndarray_size"})


@dataclass(slots=True, eq=False)
class FunctionFlags:
    """What depends on the example in a function whose parameters do as ``mask`` says, leaf by leaf.

    flags: a tree of bools for each variable. result: that of its result. diverges: whether examples decide
    how often it calls functions, itself among them. holds_data: whether values of data types depend on the
    example: it runs for one example after the other. circle: itself, and the functions that call it and that
    it calls with examples: all their calls of one another share its mask here.
    """

    name: str
    mask: tuple[bool, ...]
    flags: dict[ir.Expr, Tree] = field(default_factory=dict)
    result: Tree = False
    diverges: bool = False
    holds_data: bool = False
    circle: dict[str, FunctionFlags] = field(default_factory=dict)


class BatchFlags:
    """The flags of the functions of a module in A-normal form."""

    def __init__(self, functions: Mapping[str, ir.Function]) -> None:
        self.functions = functions
        self._known: dict[tuple[str, tuple[bool, ...]], FunctionFlags] = {}
        groups = components(definition_graph(Module(functions)))
        self._groups = {name: group for group in groups for name in group}
        rules = {
            name: rule for name, function in functions.items() if (rule := custom_rule(function)) is not None
        }
        self.of_rules = {*rules, *(name for rule in rules.values() for name in rule.functions)}

    def of_function(self, name: str, mask: tuple[bool, ...]) -> FunctionFlags:
        """Return the flags of a function; its mask grows by what it passes to itself.

        Functions that call each other in a circle are looked at until nothing changes.
        """
        stored = self._known.get((name, mask))
        if stored is not None:
            return stored
        flags = FunctionFlags(name, mask)
        flags.circle[name] = flags
        while any([self._update(each) for each in list(flags.circle.values())]):  # noqa: C419 # each is updated
            pass
        flags = self._known[name, mask] = self._known.setdefault((name, flags.mask), flags)
        return flags

    def of_call(self, callee: str, mask: tuple[bool, ...], caller: FunctionFlags) -> FunctionFlags:
        """Return the flags of a function that another one calls with a mask."""
        return caller.circle.get(callee) or self.of_function(callee, mask)

    def _update(self, flags: FunctionFlags) -> bool:
        """Look at a function again; return whether more depends on the example than before."""
        before = (flags.mask, flags.result, flags.diverges, _masks(flags))
        function, parts = self.functions[flags.name], iter(flags.mask)
        flags.flags = {}
        for param in function.params:
            flags.flags[param] = tree_of(parts, type_of(param))
        flags.result = _union(flags.result, self.of_block(function.body, flags))
        if flags.name in self.of_rules and any(flags.mask):
            flags.result = spread_flag(function.result_type, flag=True)
        rule = custom_rule(function)
        for callee in () if rule is None else rule.functions:
            flags.diverges |= self._of_callee(callee, self.all_of(callee), flags).diverges
        return (flags.mask, flags.result, flags.diverges, _masks(flags)) != before

    def of_block(self, expr: ir.Expr, flags: FunctionFlags) -> Tree:
        """Note the flags of each variable of a block; return those of its result."""
        block = block_of(expr)
        for var, value in block.bindings:
            tree = flags.flags[var] = self._of_value(value, flags)
            if has_leaf(tree) and any(isinstance(leaf, TypeCall) for leaf in leaf_types(type_of(var))):
                flags.holds_data = flags.diverges = True
        return flags.flags.get(block.result, False)

    def _of_value(self, value: ir.Expr, caller: FunctionFlags) -> Tree:
        flags = caller.flags
        match value:
            case ir.Call(op=ir.OpRef(name=operator), args=args):
                depends = operator not in OF_SIZES and any(has_leaf(flags.get(arg, False)) for arg in args)
                return spread_flag(type_of(value), flag=depends)
            case ir.Call(op=ir.GlobalVar(name=callee), args=args):
                return self._of_call(callee, args, type_of(value), caller)
            case ir.Call(args=args):
                depends = any(has_leaf(flags.get(arg, False)) for arg in (value.op, *args))
                return spread_flag(type_of(value), flag=depends)
            case ir.Tuple(fields=fields):
                return [flags.get(field, False) for field in fields]
            case ir.TupleGetItem(tuple_value=field, index=index):
                tree = flags.get(field, False)
                return tree[index] if isinstance(tree, list) else tree
            case ir.If() | ir.Match():
                return self._of_branches(value, caller)
            case _:
                return flags.get(value, False)

    def _of_call(self, callee: str, args: tuple[ir.Expr, ...], type_: Type, caller: FunctionFlags) -> Tree:
        mask = self.mask_of(callee, args, caller.flags)
        if not any(mask):
            return False
        flags = self._of_callee(callee, mask, caller)
        return spread_flag(type_, flag=True) if flags.diverges else flags.result

    def _of_callee(self, callee: str, mask: tuple[bool, ...], caller: FunctionFlags) -> FunctionFlags:
        if callee not in self._groups[caller.name]:
            return self.of_function(callee, mask)
        flags = caller.circle.setdefault(callee, FunctionFlags(callee, mask, circle=caller.circle))
        flags.mask = tuple(a or b for a, b in zip(flags.mask, mask, strict=True))
        return flags

    def all_of(self, name: str) -> tuple[bool, ...]:
        """Return the mask of a function whose parameters all depend on the example."""
        return (True,) * sum(len(leaf_types(type_of(param))) for param in self.functions[name].params)

    def _of_branches(self, value: ir.If | ir.Match, flags: FunctionFlags) -> Tree:
        result: Tree = False
        data = value.cond if isinstance(value, ir.If) else value.data
        depends = has_leaf(flags.flags.get(data, False))
        for body, bound in zip(branches(value), arm_variables(value), strict=True):
            for var in bound:
                flags.flags[var] = spread_flag(type_of(var), flag=depends)
            result = _union(result, self.of_block(body, flags))
        if not depends or is_test(value):
            return result
        calls = (node for body in branches(value) for node in post_order(body))
        if any(isinstance(node, ir.GlobalVar) for node in calls):
            flags.diverges = True
        return spread_flag(type_of(value), flag=True)

    def mask_of(
        self, callee: str, args: tuple[ir.Expr, ...], flags: Mapping[ir.Expr, Tree]
    ) -> tuple[bool, ...]:
        """Return which leaves of the arguments of a call depend on the example."""
        mask: list[bool] = []
        for param, arg in zip(self.functions[callee].params, args, strict=True):
            mask += map(bool, leaves(_in_form(flags.get(arg, False), type_of(param)), type_of(param)))
        if callee in self.of_rules and any(mask):  # a gradient rule is batched as a whole
            return (True,) * len(mask)
        return tuple(mask)


def is_test(value: ir.If | ir.Match) -> bool:
    """Return whether a branch only says, by a constructor, whether an assertion holds: of all examples."""
    results = (body.value if isinstance(body, ir.Let) else body for body in branches(value))
    return isinstance(value, ir.If) and all(
        isinstance(result, ir.Call)
        and isinstance(result.op, ir.Constructor)
        and (result.op.belong_to.name, result.op.name) in _ASSERTIONS
        for result in results
    )


def spread_flag(type_: Type, *, flag: bool) -> Tree:
    """Return a tree in which each leaf has the flag."""
    if isinstance(type_, TupleType):
        return [spread_flag(field, flag=flag) for field in type_.fields]
    return flag


def _masks(flags: FunctionFlags) -> tuple[tuple[bool, ...], ...]:
    return tuple(each.mask for each in flags.circle.values())


def _in_form(tree: Tree, type_: Type) -> Tree:
    if isinstance(type_, TupleType):
        parts = tree if isinstance(tree, list) else [tree] * len(type_.fields)
        return [_in_form(part, field) for part, field in zip(parts, type_.fields, strict=True)]
    return tree


def _union(first: Tree, second: Tree) -> Tree:
    return combine(first, second, lambda a, b: bool(a or b))
