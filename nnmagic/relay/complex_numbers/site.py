"""View the call that a rule of complex lowering sees: an operator, with its operands as pairs of floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.expressions import Parts
from nnmagic.relay.complex_numbers.operators import MAKE
from nnmagic.relay.op_call import CallView
from nnmagic.relay.ops.calls import call
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import (
    FuncType,
    TensorType,
    TupleType,
    Type,
    is_complex,
    lower_complex_type,
    part_dtype,
)


def is_made(expr: ir.Expr) -> bool:
    """Return whether a lowered complex tensor is two tensors: a call of ``complex.make``."""
    return ir.operator_of(expr) == MAKE


def make_complex(pair: Parts) -> ir.Call:
    """Return two tensors as one lowered complex tensor."""
    return ir.Call(ir.OpRef(MAKE), (pair.re.expr, pair.im.expr), span=pair.re.span)


def is_number(type_: Type | None) -> bool:
    """Return whether a type is that of a complex tensor of rank 0."""
    return isinstance(type_, TensorType) and not type_.shape and is_complex(type_.dtype)


def with_tuples(type_: Type) -> Type:
    """Return a type with tuples of floats in place of numbers, and tensors of pairs in place of others."""
    match type_:
        case TensorType(dtype=dtype) if is_number(type_):
            return TupleType((TensorType((), part_dtype(dtype)),) * 2)
        case TupleType(fields=fields):
            return TupleType(tuple(map(with_tuples, fields)))
        case FuncType(arg_types=args, ret_type=result):
            return replace(type_, arg_types=tuple(map(with_tuples, args)), ret_type=with_tuples(result))
    return lower_complex_type(type_)


def holds_numbers(type_: Type | None) -> bool:
    """Return whether a type mentions numbers that could be tuples."""
    return type_ is not None and with_tuples(type_) != lower_complex_type(type_)


def is_data(type_: Type | None) -> bool:
    """Return whether a type is that of a tensor, or of a tuple of tensors."""
    if isinstance(type_, TupleType):
        return all(map(is_data, type_.fields))
    return isinstance(type_, TensorType)


@dataclass(slots=True)
class Forms:
    """The forms of the complex tensors of one function: two tensors, one of pairs, of numbers tuples of two.

    Each is made once, so that what is shared stays shared.
    """

    tuples: bool = False
    _split: dict[ir.Expr, tuple[ir.Expr, ir.Expr]] = field(default_factory=dict)
    _joined: dict[ir.Expr, ir.Expr] = field(default_factory=dict)
    _tuples: dict[ir.Expr, ir.Expr] = field(default_factory=dict)

    def lower_type(self, type_: Type) -> Type:
        """Return a type without complex tensors."""
        return with_tuples(type_) if self.tuples else lower_complex_type(type_)

    def number(self, expr: ir.Expr, type_: Type | None) -> ir.Expr:
        """Return what functions, tuples, branches or loops give: a number that is a tuple as two tensors."""
        if not self.tuples or not is_number(type_):
            return expr
        assert isinstance(type_, TensorType)
        dtype = part_dtype(type_.dtype)
        re, im = (TensorExpr(ir.TupleGetItem(expr, at, span=expr.span), dtype, expr.span) for at in (0, 1))
        made = make_complex(Parts(re, im))
        self._tuples[made] = expr
        return made

    def given(self, expr: ir.Expr, type_: Type | None) -> ir.Expr:
        """Return what operators or other functions give: a number, also in a tuple, as two tensors."""
        if not self.tuples:
            return expr
        if isinstance(type_, TupleType) and holds_numbers(type_):
            fields = enumerate(type_.fields)
            each = (self.given(ir.TupleGetItem(expr, at, span=expr.span), field) for at, field in fields)
            return ir.Tuple(tuple(map(self.held, each)), span=expr.span)
        if not is_number(type_):
            return expr
        assert isinstance(type_, TensorType)
        made = expr if is_made(expr) else make_complex(self.parts(expr, type_, expr.span))
        assert isinstance(made, ir.Call)
        if made is not expr:
            self._joined[made] = expr
        self._tuples.setdefault(made, ir.Tuple(made.args, span=expr.span))
        return made

    def taken(self, expr: ir.Expr, type_: Type | None) -> ir.Expr:
        """Return a lowered expression as other functions take it: numbers are tensors of pairs."""
        if not self.tuples or not isinstance(type_, TupleType) or not holds_numbers(type_):
            return self.pairs(expr)
        fields = enumerate(type_.fields)
        each = (self.number(ir.TupleGetItem(expr, at, span=expr.span), field) for at, field in fields)
        return ir.Tuple(tuple(map(self.taken, each, type_.fields)), span=expr.span)

    def held(self, expr: ir.Expr) -> ir.Expr:
        """Return a lowered tensor as functions, tuples, branches and loops take it."""
        return self._tuples[expr] if expr in self._tuples else self.pairs(expr)

    def pairs(self, expr: ir.Expr) -> ir.Expr:
        """Return a lowered tensor as one of pairs along the last axis; any other expression unchanged."""
        if not is_made(expr):
            return expr
        joined = self._joined.get(expr)
        if joined is None:
            assert isinstance(expr, ir.Call)
            both = ir.Tuple(expr.args, span=expr.span)
            joined = self._joined[expr] = call("stack", [both], expr.span, axis=-1)
        return joined

    def parts(self, expr: ir.Expr, type_: TensorType, span: Span | None) -> Parts:
        """Return the real and the imaginary part of a lowered tensor."""
        if is_made(expr):
            assert isinstance(expr, ir.Call)
            both = (expr.args[0], expr.args[1])
        else:
            split = self._split.get(expr)
            if split is None:
                split = self._split[expr] = _split(expr, len(type_.shape), span)
            both = split
        re, im = (TensorExpr(part, part_dtype(type_.dtype), span) for part in both)
        return Parts(re, im)


def _split(expr: ir.Expr, axis: int, span: Span | None) -> tuple[ir.Expr, ir.Expr]:
    if isinstance(expr, ir.Constant):
        both = (expr.data[..., 0], expr.data[..., 1])
        re, im = (ir.Constant(np.array(component, order="C"), span=expr.span) for component in both)
        return re, im

    def part(number: int) -> ir.Expr:
        bounds = {"begin": [number], "end": [number + 1], "strides": [1], "axes": [axis]}
        return call("squeeze", [call("strided_slice", [expr], span, **bounds)], span, axis=[axis])

    return part(0), part(1)


@dataclass(frozen=True, slots=True, eq=False)
class ComplexCall(CallView):
    """A call of an operator with complex operands or a complex result, whose operands are lowered."""

    node: ir.Call
    args: tuple[ir.Expr, ...]
    forms: Forms
    lowered: Mapping[ir.Expr, ir.Expr]

    @property
    def result(self) -> TensorType:
        """Return the type of the result, a tensor."""
        return self.node.inferred_tensor

    def type(self, index: int = 0) -> TensorType:
        """Return the type of an operand that is a tensor."""
        return self.node.args[index].inferred_tensor

    def rank(self, index: int = 0) -> int:
        """Return the rank of an operand, without the axis of pairs."""
        return len(self.type(index).shape)

    def is_complex(self, index: int) -> bool:
        """Return whether an operand is a complex tensor."""
        return holds_complex(self.node.args[index].checked_type)

    def is_made(self, index: int = 0) -> bool:
        """Return whether an operand is two tensors."""
        return is_made(self.args[index])

    def parts(self, index: int = 0) -> Parts:
        """Return the parts of an operand."""
        return self.forms.parts(self.args[index], self.type(index), self.span)

    def pairs(self, index: int = 0) -> ir.Expr:
        """Return an operand as one tensor of pairs; one that is not complex as it is."""
        return self.forms.pairs(self.args[index])

    def fields(self) -> list[tuple[ir.Expr, TensorType]]:
        """Return the tensors of the one operand of an operator of many, with their types."""
        old = self.node.args[0]
        types = old.checked_type
        assert isinstance(types, TupleType)
        if isinstance(old, ir.Tuple):
            lowered = [self.lowered[field] for field in old.fields]
        else:
            whole = self.pairs(0)
            fields = enumerate(types.fields)
            lowered = [self.forms.number(ir.TupleGetItem(whole, number), field) for number, field in fields]
        tensors = [type_ for type_ in types.fields if isinstance(type_, TensorType)]
        return list(zip(lowered, tensors, strict=True))

    def call(self, *args: ir.Expr, **changed: object) -> ir.Call:
        """Return the same call of other operands, with some attributes changed."""
        return ir.Call(self.node.op, args, {**self.attrs, **changed}, span=self.span)

    def real(self, expr: ir.Expr) -> TensorExpr:
        """Return an expression as a tensor of the dtype of the result's parts."""
        return TensorExpr(expr, part_dtype(self.result.dtype), self.span)


#: Returns the lowered result of a call: any expression, or `make_complex` parts.
Rule: TypeAlias = Callable[[ComplexCall], ir.Expr]


def holds_complex(type_: Type | None) -> bool:
    """Return whether a type is that of a complex tensor, or of a tuple that holds one."""
    match type_:
        case TensorType(dtype=dtype):
            return is_complex(dtype)
        case TupleType(fields=fields):
            return any(map(holds_complex, fields))
    return False


def each_part(site: ComplexCall) -> ir.Expr:
    """Apply an operator to the real and to the imaginary parts, where the result is complex or a tuple."""

    def of(number: int) -> ir.Expr:
        operands = []
        for index, arg in enumerate(site.args):
            if not site.is_complex(index):
                operands.append(arg)
            elif isinstance(site.node.args[index].checked_type, TupleType):
                operands.append(_tuple_part(site, number))
            else:
                pair = site.parts(index)
                operands.append((pair.re, pair.im)[number].expr)
        return site.call(*operands)

    re, im = of(0), of(1)
    return make_complex(Parts(site.real(re), site.real(im)))


def _tuple_part(site: ComplexCall, number: int) -> ir.Tuple:
    chosen = []
    for expr, type_ in site.fields():
        if not is_complex(type_.dtype):
            chosen.append(expr)
            continue
        pair = site.forms.parts(expr, type_, site.span)
        chosen.append((pair.re, pair.im)[number].expr)
    return ir.Tuple(tuple(chosen), span=site.span)
