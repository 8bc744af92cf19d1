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


def _modules_equal(lhs: Module, rhs: Module) -> bool:
    if lhs.functions.keys() != rhs.functions.keys() or lhs.types.keys() != rhs.types.keys():
        return False
    comparison = _Comparison(map_free_vars=False)  # one for all, because functions may share expressions
    return all(comparison.type_data(data, rhs.types[name]) for name, data in lhs.types.items()) and all(
        comparison.expressions(function, rhs.functions[name]) for name, function in lhs.functions.items()
    )


class _Comparison:
    """The one-to-one correspondence so far: expressions, variables, type variables."""

    def __init__(self, *, map_free_vars: bool) -> None:
        self.map_free_vars = map_free_vars
        self.right_of: dict[object, object] = {}
        self.left_of: dict[object, object] = {}

    def expressions(self, lhs: ir.Expr, rhs: ir.Expr) -> bool:
        """Compare depth first in evaluation order, so that binders come before their variables."""
        pending = [(lhs, rhs)]
        while pending:
            first, second = pending.pop()
            if self.is_pair(first, second):
                continue
            if not self.same_node(first, second):
                return False
            children, other_parts = ir.children(first), ir.children(second)
            if len(children) != len(other_parts):
                return False
            pending += zip(reversed(children), reversed(other_parts), strict=True)
        return True

    def is_pair(self, lhs: object, rhs: object) -> bool:
        return lhs in self.right_of and self.right_of[lhs] is rhs

    def pair(self, lhs: object, rhs: object) -> bool:
        """Enter a correspondence, and return False if one of the two corresponds to something else."""
        if lhs in self.right_of or rhs in self.left_of:
            return self.is_pair(lhs, rhs)
        self.right_of[lhs] = rhs
        self.left_of[rhs] = lhs
        return True

    def same_node(self, lhs: ir.Expr, rhs: ir.Expr) -> bool:
        """Return whether two nodes are the same, their children aside; enters what corresponds."""
        match lhs, rhs:
            case ir.Var(), ir.Var():
                is_free = lhs not in self.right_of and rhs not in self.left_of
                return is_free and (lhs is rhs or self.map_free_vars) and self.pair(lhs, rhs)
            case ir.GlobalVar(), ir.GlobalVar():
                return lhs.name == rhs.name
            case ir.OpRef(), ir.OpRef():
                return lhs.name == rhs.name
            case ir.Constructor(), ir.Constructor():
                return lhs.name == rhs.name and lhs.belong_to == rhs.belong_to
            case ir.Constant(), ir.Constant():
                return _same_data(lhs, rhs)
        return type(lhs) is type(rhs) and self.pair(lhs, rhs) and self.same_own(lhs, rhs)

    def same_own(self, lhs: ir.Expr, rhs: ir.Expr) -> bool:
        """Return whether two nodes hold the same attributes, binders and patterns beside their children."""
        match lhs, rhs:
            case ir.Call(), ir.Call():
                return self.mappings(lhs.attrs, rhs.attrs) and (
                    isinstance(lhs.op, ir.OpRef) or self.types(lhs.type_args, rhs.type_args)
                )
            case ir.TupleGetItem(), ir.TupleGetItem():
                return lhs.index == rhs.index
            case ir.Let(), ir.Let():
                return self.binders((lhs.var,), (rhs.var,))
            case ir.Function(), ir.Function():
                return (
                    self.bind_type_vars(lhs.type_params, rhs.type_params)
                    and self.binders(lhs.params, rhs.params)
                    and self.optional_type(lhs.ret_type, rhs.ret_type)
                    and self.mappings(lhs.attrs, rhs.attrs)
                )
            case ir.Match(), ir.Match():
                patterns = [clause.lhs for clause in lhs.clauses]
                others = [clause.lhs for clause in rhs.clauses]
                return lhs.complete == rhs.complete and self.patterns(patterns, others)
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

    def binders(self, lhs: Sequence[ir.Var], rhs: Sequence[ir.Var]) -> bool:
        return len(lhs) == len(rhs) and all(
            self.optional_type(first.type_annotation, second.type_annotation) and self.pair(first, second)
            for first, second in zip(lhs, rhs, strict=True)
        )

    def patterns(self, lhs: Sequence[ir.Pattern], rhs: Sequence[ir.Pattern]) -> bool:
        return len(lhs) == len(rhs) and all(map(self.pattern, lhs, rhs))

    def pattern(self, lhs: ir.Pattern, rhs: ir.Pattern) -> bool:
        match lhs, rhs:
            case ir.PatternVar(), ir.PatternVar():
                return self.binders((lhs.var,), (rhs.var,))
            case ir.PatternTuple(), ir.PatternTuple():
                return self.patterns(lhs.patterns, rhs.patterns)
            case ir.PatternConstructor(), ir.PatternConstructor():
                same = self.same_node(lhs.constructor, rhs.constructor)
                return same and self.patterns(lhs.patterns, rhs.patterns)
        return type(lhs) is type(rhs)

    # Types

    def type_data(self, lhs: TypeData, rhs: TypeData) -> bool:
        return (
            self.bind_type_vars(lhs.type_vars, rhs.type_vars)
            and [first.name for first in lhs.constructors] == [second.name for second in rhs.constructors]
            and all(
                self.types(first.inputs, second.inputs)
                for first, second in zip(lhs.constructors, rhs.constructors, strict=True)
            )
        )

    def bind_type_vars(self, lhs: Sequence[ty.TypeVar], rhs: Sequence[ty.TypeVar]) -> bool:
        return len(lhs) == len(rhs) and all(map(self.pair, lhs, rhs))

    def optional_type(self, lhs: ty.Type | None, rhs: ty.Type | None) -> bool:
        if lhs is None or rhs is None:
            return lhs is rhs
        return self.type(lhs, rhs)

    def types(self, lhs: Sequence[ty.Type], rhs: Sequence[ty.Type]) -> bool:
        return len(lhs) == len(rhs) and all(map(self.type, lhs, rhs))

    def type(self, lhs: ty.Type, rhs: ty.Type) -> bool:
        match lhs, rhs:
            case ty.TensorType(), ty.TensorType():
                return lhs.dtype == rhs.dtype and _same_value(lhs.shape, rhs.shape)
            case ty.TupleType(), ty.TupleType():
                return self.types(lhs.fields, rhs.fields)
            case ty.FuncType(), ty.FuncType():
                return self.function_types(lhs, rhs)
            case ty.RefType(), ty.RefType():
                return self.type(lhs.value, rhs.value)
            case ty.TypeCall(), ty.TypeCall():
                return lhs.func == rhs.func and self.types(lhs.args, rhs.args)
            case ty.IncompleteType(), ty.IncompleteType():
                return self.pair(lhs, rhs)
            case ty.TypeVar(), ty.TypeVar():
                return self.is_pair(lhs, rhs) or (lhs is rhs and self.pair(lhs, rhs))
        return lhs == rhs

    def function_types(self, lhs: ty.FuncType, rhs: ty.FuncType) -> bool:
        """Compare function types; their type parameters may correspond to others elsewhere."""
        pairs = [(self.right_of, var) for var in lhs.type_params]
        pairs += [(self.left_of, var) for var in rhs.type_params]
        outside = [table.pop(var, None) for table, var in pairs]
        result = (
            self.bind_type_vars(lhs.type_params, rhs.type_params)
            and self.types(lhs.arg_types, rhs.arg_types)
            and self.type(lhs.ret_type, rhs.ret_type)
        )
        for (table, var), other in zip(pairs, outside, strict=True):
            table.pop(var, None)
            if other is not None:
                table[var] = other
        return result

    def mappings(self, lhs: Mapping[str, object], rhs: Mapping[str, object]) -> bool:
        return lhs.keys() == rhs.keys() and all(_same_value(lhs[name], rhs[name]) for name in lhs)


def _same_value(lhs: object, rhs: object) -> bool:
    """Return whether attribute values are equal: 1, True and 64-bit 1 differ, NaN equals NaN."""
    match lhs, rhs:
        case ((tuple() | list()), (tuple() | list())):
            return len(lhs) == len(rhs) and all(map(_same_value, lhs, rhs))
        case ir.Constant(), ir.Constant():
            return _same_data(lhs, rhs)
        case ir.Var(), ir.Var():  # the text names a variable in an attribute
            return lhs is rhs or lhs.name_hint == rhs.name_hint
        case float(), float():
            return lhs == rhs or (lhs != lhs and rhs != rhs)  # noqa: PLR0124  NaN
        case ty.AnyDim(), ty.AnyDim():
            return True
        case int(), int() if isinstance(lhs, bool | ty.Int64) or isinstance(rhs, bool | ty.Int64):
            return type(lhs) is type(rhs) and lhs == rhs
    return lhs == rhs


def _same_data(lhs: ir.Constant, rhs: ir.Constant) -> bool:
    first, second = lhs.data, rhs.data
    return first is second or (
        first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    )
