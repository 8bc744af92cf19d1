"""Check sizes that are declared, and that only the call knows, when it is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay import types as ty
from nnmagic.relay.polynomials import NoPolynomialError, evaluate, polynomial
from nnmagic.relay.signatures import format_type
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.tinynn.values.numbers import number_constant
from nnmagic.tinynn.values.operator_calls import apply
from nnmagic.tinynn.values.symbolic_sizes import dimension_size, number_of, shape_tensor, size_along
from nnmagic.tinynn.values.values import Computed, Dimension, Known, NamedSize, Value


def named_sizes(written: str, value: Computed, span: Span) -> Iterator[tuple[str, NamedSize]]:
    """Yield the named dimensions of a parameter with how a body writes their sizes, and these."""
    match value.type:
        case ty.TensorType(shape=shape):
            for axis, dim in enumerate(shape):
                if isinstance(dim, ty.AnyDim) and dim.label is not None:
                    size = Dimension(dim, dimension_size(value, axis, span))
                    yield dim.label, NamedSize(f"{written}.shape[{axis}]", size)
        case ty.TupleType(fields=fields):
            for index, field in enumerate(fields):
                item = Computed(ir.TupleGetItem(value.expr, index, span=span), field)
                yield from named_sizes(f"{written}[{index}]", item, span)


@dataclass(frozen=True, slots=True)
class DeclaredSizes:
    """What the names of dimensions stand for where values are declared; a new name gets the value's size."""

    known: dict[str, Value]

    def learn(self, value: Computed, declared: ty.Type, span: Span) -> None:
        """Take the names that a value decides whose sizes are known by name, or at compile time."""
        match declared, value.type:
            case ty.TensorType(shape=wanted), ty.TensorType(shape=given):
                for axis, (name, size) in enumerate(zip(wanted, given, strict=True)):
                    if isinstance(name, ty.AnyDim) and name.label is not None and size != ty.ANY:
                        self.known.setdefault(name.label, size_along(value, axis, span))
            case ty.TupleType(fields=ours), ty.TupleType():
                for item, field in zip(_items(value), ours, strict=True):
                    self.learn(item, field, span)

    def check(self, what: str, value: Computed, declared: ty.Type, span: Span) -> Computed:
        """Return a value, whose sizes the call compares with the declared ones where only it knows them."""
        match declared, value.type:
            case ty.TensorType(shape=wanted), ty.TensorType(shape=given):
                axes, sizes = [], []
                for axis, (dim, own) in enumerate(zip(wanted, given, strict=True)):
                    if own == ty.ANY and dim != ty.ANY:
                        size = self._size(dim, span)
                        if size is not None:
                            axes.append(axis - len(wanted))
                            sizes.append(size)
                        elif isinstance(dim, ty.AnyDim) and dim.label is not None:
                            self.known[dim.label] = size_along(value, axis, span)
                return _sized(f"{what} is declared as {format_type(declared)}", value, axes, sizes, span)
            case ty.TupleType(fields=ours), ty.TupleType() as whole:
                items = _items(value)
                checked = [
                    self.check(what, item, field, span) for item, field in zip(items, ours, strict=True)
                ]
                if all(map(_is_same, items, checked)):
                    return value
                expr = ir.Tuple(tuple(item.expr for item in checked), span=span)
                return replace(value, expr=expr, type=whole)
        return value

    def check_all(self, values: Iterable[tuple[str, Computed, ty.Type, Span]]) -> list[Computed]:
        """Check values that are declared together, as arguments are; each with what it is."""
        values = list(values)
        for _, value, declared, span in values:
            self.learn(value, declared, span)
        return [self.check(*each) for each in values]

    def _size(self, dim: ty.Dim, span: Span) -> Value | None:
        """Return the size that a dimension stands for; None where a name is not known."""
        if isinstance(dim, int):
            return Known(dim)
        if not isinstance(dim, ty.AnyDim) or dim.label is None:
            return None
        if dim.label in self.known:
            return self.known[dim.label]
        numbers = {name: TensorExpr(number_of(size, span).expr, "int64") for name, size in self.known.items()}
        try:
            number = evaluate(
                polynomial(dim.label), numbers, lambda n: TensorExpr(ir.constant(n, "int64"), "int64")
            )
        except (KeyError, NoPolynomialError):
            return None
        return Dimension(dim, Computed(number.expr, ty.scalar_type("int64")))


def _items(value: Computed) -> list[Computed]:
    """Return the items of a tuple."""
    assert isinstance(value.type, ty.TupleType)
    fields, expr = value.type.fields, value.expr
    exprs = (
        expr.fields
        if isinstance(expr, ir.Tuple)
        else [ir.TupleGetItem(expr, index, span=expr.span) for index in range(len(fields))]
    )
    return [Computed(item, type_) for item, type_ in zip(exprs, fields, strict=True)]


def _is_same(first: Computed, second: Computed) -> bool:
    return first.expr is second.expr


def _sized(message: str, value: Computed, axes: list[int], sizes: list[Value], span: Span) -> Computed:
    if not axes:
        return value
    shape = shape_tensor([Known(0), *sizes], span)
    like = apply("dyn.full", span, number_constant(0, "int8", span), shape)
    checked = apply("python.sized", span, Computed(value.expr, value.type), like, axes=axes, message=message)
    return replace(value, expr=checked.expr)
