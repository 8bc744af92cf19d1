"""Decide whether two Relay programs have the same structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nnmagic.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    children,
)
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.types import (
    AnyDim,
    FuncType,
    IncompleteType,
    Int64,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
)


def structural_equal(left: Module | Expr, right: Module | Expr, *, map_free_vars: bool = False) -> bool:
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

    def expressions(self, left: Expr, right: Expr) -> bool:
        """Compare depth first in evaluation order, so that binders come before their variables."""
        pending = [(left, right)]
        while pending:
            first, second = pending.pop()
            if self.is_pair(first, second):
                continue
            if not self.same_node(first, second):
                return False
            parts, other_parts = children(first), children(second)
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

    def same_node(self, left: Expr, right: Expr) -> bool:
        """Return whether two nodes are the same, their children aside; enters what corresponds."""
        match left, right:
            case Var(), Var():
                is_free = left not in self.right_of and right not in self.left_of
                return is_free and (left is right or self.map_free_vars) and self.pair(left, right)
            case GlobalVar(), GlobalVar():
                return left.name == right.name
            case OpRef(), OpRef():
                return left.name == right.name
            case Constructor(), Constructor():
                return left.name == right.name and left.belong_to == right.belong_to
            case Constant(), Constant():
                return _same_data(left, right)
        return type(left) is type(right) and self.pair(left, right) and self.same_own(left, right)

    def same_own(self, left: Expr, right: Expr) -> bool:
        """Return whether two nodes hold the same attributes, binders and patterns beside their children."""
        match left, right:
            case Call(), Call():
                return self.mappings(left.attrs, right.attrs) and (
                    isinstance(left.op, OpRef) or self.types(left.type_args, right.type_args)
                )
            case TupleGetItem(), TupleGetItem():
                return left.index == right.index
            case Let(), Let():
                return self.binders((left.var,), (right.var,))
            case Function(), Function():
                return (
                    self.bind_type_vars(left.type_params, right.type_params)
                    and self.binders(left.params, right.params)
                    and self.optional_type(left.ret_type, right.ret_type)
                    and self.mappings(left.attrs, right.attrs)
                )
            case Match(), Match():
                patterns = [clause.lhs for clause in left.clauses]
                others = [clause.lhs for clause in right.clauses]
                return left.complete == right.complete and self.patterns(patterns, others)
            case (Tuple(), Tuple()) | (If(), If()):
                return True
            case (RefCreate(), RefCreate()) | (RefRead(), RefRead()) | (RefWrite(), RefWrite()):
                return True
        return False

    # Binders and patterns

    def binders(self, left: Sequence[Var], right: Sequence[Var]) -> bool:
        return len(left) == len(right) and all(
            self.optional_type(first.type_annotation, second.type_annotation) and self.pair(first, second)
            for first, second in zip(left, right, strict=True)
        )

    def patterns(self, left: Sequence[Pattern], right: Sequence[Pattern]) -> bool:
        return len(left) == len(right) and all(map(self.pattern, left, right))

    def pattern(self, left: Pattern, right: Pattern) -> bool:
        match left, right:
            case PatternVar(), PatternVar():
                return self.binders((left.var,), (right.var,))
            case PatternTuple(), PatternTuple():
                return self.patterns(left.patterns, right.patterns)
            case PatternConstructor(), PatternConstructor():
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

    def bind_type_vars(self, left: Sequence[TypeVar], right: Sequence[TypeVar]) -> bool:
        return len(left) == len(right) and all(map(self.pair, left, right))

    def optional_type(self, left: Type | None, right: Type | None) -> bool:
        if left is None or right is None:
            return left is right
        return self.type(left, right)

    def types(self, left: Sequence[Type], right: Sequence[Type]) -> bool:
        return len(left) == len(right) and all(map(self.type, left, right))

    def type(self, left: Type, right: Type) -> bool:
        match left, right:
            case TensorType(), TensorType():
                return left.dtype == right.dtype and _same_value(left.shape, right.shape)
            case TupleType(), TupleType():
                return self.types(left.fields, right.fields)
            case FuncType(), FuncType():
                return self.function_types(left, right)
            case RefType(), RefType():
                return self.type(left.value, right.value)
            case TypeCall(), TypeCall():
                return left.func == right.func and self.types(left.args, right.args)
            case IncompleteType(), IncompleteType():
                return self.pair(left, right)
            case TypeVar(), TypeVar():
                return self.is_pair(left, right) or (left is right and self.pair(left, right))
        return left == right

    def function_types(self, left: FuncType, right: FuncType) -> bool:
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
        case Constant(), Constant():
            return _same_data(left, right)
        case Var(), Var():  # the text names a variable in an attribute
            return left is right or left.name_hint == right.name_hint
        case float(), float():
            return left == right or (left != left and right != right)  # noqa: PLR0124  NaN
        case AnyDim(), AnyDim():
            return True
        case int(), int() if isinstance(left, bool | Int64) or isinstance(right, bool | Int64):
            return type(left) is type(right) and left == right
    return left == right


def _same_data(left: Constant, right: Constant) -> bool:
    first, second = left.data, right.data
    return first is second or (
        first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    )
