"""Decide whether two Relay programs have the same structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.module import Module, TypeData


def structural_equal(left: Module | ir.Expr, right: Module | ir.Expr, *, map_free_vars: bool = False) -> bool:
    """Return whether two modules or expressions are the same program.

    Names of variables do not matter, sharing does: an expression that is used twice differs from two equal
    ones that are used once. Constants are compared by dtype, shape and bits; spans, inferred types and the
    labels of ``?`` dimensions are not compared. A free variable equals itself only; with ``map_free_vars`` it
    may correspond to any free variable.
    """
    if isinstance(left, Module) or isinstance(right, Module):
        return isinstance(left, Module) and isinstance(right, Module) and _modules_equal(left, right)
    return _Comparison(map_free_vars=map_free_vars).expressions(left, right)


def _modules_equal(left: Module, right: Module) -> bool:
    if left.functions.keys() != right.functions.keys() or left.types.keys() != right.types.keys():
        return False
    comparison = _Comparison(map_free_vars=False)  # one for all, because functions may share expressions
    return all(comparison.type_data(data, right.types[name]) for name, data in left.types.items()) and all(
        comparison.expressions(function, right.functions[name]) for name, function in left.functions.items()
    )


class _Comparison:
    """The one-to-one correspondence so far: expressions, variables, type variables."""

    def __init__(self, *, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.right_of: dict[object, object] = {}
        self.left_of: dict[object, object] = {}

    def expressions(self, left: ir.Expr, right: ir.Expr) -> bool:
        """Compare depth first in evaluation order, so that binders come before their variables."""
        pending = [(left, right)]
        while pending:
            first, second = pending.pop()
            if self.is_pair(first, second):
                continue
            if not self.same_node(first, second):
                return False
            parts, other_parts = ir.children(first), ir.children(second)
            if len(parts) != len(other_parts):
                return False
            pending += zip(reversed(parts), reversed(other_parts), strict=True)
        return True

    def is_pair(self, left: object, right: object) -> bool:
        return left in self.right_of and self.right_of[left] is right

    def pair(self, left: object, right: object) -> bool:
        """Enter a correspondence, and return False if one of the two corresponds to something else."""
        if left in self.right_of or right in self.left_of:
            return self.is_pair(left, right)
        self.right_of[left] = right
        self.left_of[right] = left
        return True

    def same_node(self, left: ir.Expr, right: ir.Expr) -> bool:
        """Return whether two nodes are the same, their children aside; enters what corresponds."""
        match left, right:
            case ir.Var(), ir.Var():
                is_free = left not in self.right_of and right not in self.left_of
                return is_free and (left is right or self.map_free_vars) and self.pair(left, right)
            case ir.GlobalVar(), ir.GlobalVar():
                return left.name == right.name
            case ir.OpRef(), ir.OpRef():
                return left.name == right.name
            case ir.Constructor(), ir.Constructor():
                return left.name == right.name and left.belong_to == right.belong_to
            case ir.Constant(), ir.Constant():
                return _same_data(left, right)
        return type(left) is type(right) and self.pair(left, right) and self.same_own(left, right)

    def same_own(self, left: ir.Expr, right: ir.Expr) -> bool:
        """Return whether two nodes hold the same attributes, binders and patterns beside their children."""
        match left, right:
            case ir.Call(), ir.Call():
                return self.mappings(left.attrs, right.attrs) and (
                    isinstance(left.op, ir.OpRef) or self.types(left.type_args, right.type_args)
                )
            case ir.TupleGetItem(), ir.TupleGetItem():
                return left.index == right.index
            case ir.Let(), ir.Let():
                return self.binders((left.var,), (right.var,))
            case ir.Function(), ir.Function():
                return (
                    self.bind_type_vars(left.type_params, right.type_params)
                    and self.binders(left.params, right.params)
                    and self.optional_type(left.ret_type, right.ret_type)
                    and self.mappings(left.attrs, right.attrs)
                )
            case ir.Match(), ir.Match():
                patterns = [clause.lhs for clause in left.clauses]
                others = [clause.lhs for clause in right.clauses]
                return left.complete == right.complete and self.patterns(patterns, others)
            case (ir.Tuple(), ir.Tuple()) | (ir.If(), ir.If()):
                return True
            case (
                (ir.RefCreate(), ir.RefCreate())
                | (ir.RefRead(), ir.RefRead())
                | (ir.RefWrite(), ir.RefWrite())
            ):
                return True
        return False

    # Binders and patterns

    def binders(self, left: Sequence[ir.Var], right: Sequence[ir.Var]) -> bool:
        return len(left) == len(right) and all(
            self.optional_type(first.type_annotation, second.type_annotation) and self.pair(first, second)
            for first, second in zip(left, right, strict=True)
        )

    def patterns(self, left: Sequence[ir.Pattern], right: Sequence[ir.Pattern]) -> bool:
        return len(left) == len(right) and all(map(self.pattern, left, right))

    def pattern(self, left: ir.Pattern, right: ir.Pattern) -> bool:
        match left, right:
            case ir.PatternVar(), ir.PatternVar():
                return self.binders((left.var,), (right.var,))
            case ir.PatternTuple(), ir.PatternTuple():
                return self.patterns(left.patterns, right.patterns)
            case ir.PatternConstructor(), ir.PatternConstructor():
                same = self.same_node(left.constructor, right.constructor)
                return same and self.patterns(left.patterns, right.patterns)
        return type(left) is type(right)

    # Types

    def type_data(self, left: TypeData, right: TypeData) -> bool:
        return (
            self.bind_type_vars(left.type_vars, right.type_vars)
            and [first.name for first in left.constructors] == [second.name for second in right.constructors]
            and all(
                self.types(first.inputs, second.inputs)
                for first, second in zip(left.constructors, right.constructors, strict=True)
            )
        )

    def bind_type_vars(self, left: Sequence[ty.TypeVar], right: Sequence[ty.TypeVar]) -> bool:
        return len(left) == len(right) and all(map(self.pair, left, right))

    def optional_type(self, left: ty.Type | None, right: ty.Type | None) -> bool:
        if left is None or right is None:
            return left is right
        return self.type(left, right)

    def types(self, left: Sequence[ty.Type], right: Sequence[ty.Type]) -> bool:
        return len(left) == len(right) and all(map(self.type, left, right))

    def type(self, left: ty.Type, right: ty.Type) -> bool:
        match left, right:
            case ty.TensorType(), ty.TensorType():
                return left.dtype == right.dtype and _same_value(left.shape, right.shape)
            case ty.TupleType(), ty.TupleType():
                return self.types(left.fields, right.fields)
            case ty.FuncType(), ty.FuncType():
                return self.function_types(left, right)
            case ty.RefType(), ty.RefType():
                return self.type(left.value, right.value)
            case ty.TypeCall(), ty.TypeCall():
                return left.func == right.func and self.types(left.args, right.args)
            case ty.IncompleteType(), ty.IncompleteType():
                return self.pair(left, right)
            case ty.TypeVar(), ty.TypeVar():
                return self.is_pair(left, right) or (left is right and self.pair(left, right))
        return left == right

    def function_types(self, left: ty.FuncType, right: ty.FuncType) -> bool:
        """Compare function types; their type parameters may correspond to others elsewhere."""
        own = [(self.right_of, var) for var in left.type_params]
        own += [(self.left_of, var) for var in right.type_params]
        outside = [table.pop(var, None) for table, var in own]
        result = (
            self.bind_type_vars(left.type_params, right.type_params)
            and self.types(left.arg_types, right.arg_types)
            and self.type(left.ret_type, right.ret_type)
        )
        for (table, var), other in zip(own, outside, strict=True):
            table.pop(var, None)
            if other is not None:
                table[var] = other
        return result

    def mappings(self, left: Mapping[str, object], right: Mapping[str, object]) -> bool:
        return left.keys() == right.keys() and all(_same_value(left[name], right[name]) for name in left)


def _same_value(left: object, right: object) -> bool:
    """Return whether attribute values are equal: 1, True and 64-bit 1 differ, NaN equals NaN."""
    match left, right:
        case ((tuple() | list()), (tuple() | list())):
            return len(left) == len(right) and all(map(_same_value, left, right))
        case ir.Constant(), ir.Constant():
            return _same_data(left, right)
        case ir.Var(), ir.Var():  # the text names a variable in an attribute
            return left is right or left.name_hint == right.name_hint
        case float(), float():
            return left == right or (left != left and right != right)  # noqa: PLR0124  NaN
        case ty.AnyDim(), ty.AnyDim():
            return True
        case int(), int() if isinstance(left, bool | ty.Int64) or isinstance(right, bool | ty.Int64):
            return type(left) is type(right) and left == right
    return left == right


def _same_data(left: ir.Constant, right: ir.Constant) -> bool:
    first, second = left.data, right.data
    return first is second or (
        first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    )
