"""Lower products of complex tensors: of matrices, by subscripts, of all elements along an axis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import cast

from nnmagic.relay import expr as ir
from nnmagic.relay.complex_numbers.expressions import Parts
from nnmagic.relay.complex_numbers.site import ComplexCall, Rule, make_complex
from nnmagic.relay.ops.calls import call
from nnmagic.relay.tensor_expr import TensorExpr


def _matrix_product(site: ComplexCall) -> ir.Expr:
    """Multiply matrices by four products of their parts; by two where one matrix is of real numbers."""
    lhs, rhs = site.parts(0), site.parts(1)

    def product(a: TensorExpr, b: TensorExpr) -> TensorExpr:
        return site.real(site.call(a.expr, b.expr, out_dtype=""))

    if _is_zeros(lhs.im):
        return make_complex(Parts(product(lhs.re, rhs.re), product(lhs.re, rhs.im)))
    if _is_zeros(rhs.im):
        return make_complex(Parts(product(lhs.re, rhs.re), product(lhs.im, rhs.re)))
    re = product(lhs.re, rhs.re) - product(lhs.im, rhs.im)
    im = product(lhs.re, rhs.im) + product(lhs.im, rhs.re)
    return make_complex(Parts(re, im))


def _is_zeros(part: TensorExpr) -> bool:
    """Return whether an imaginary part is that of real numbers which were converted."""
    expr = part.expr
    return ir.operator_of(expr) == "zeros_like"


def _einsum(site: ComplexCall) -> ir.Expr:
    """Expand the product of the operands' parts; the powers of i give signs."""
    operands = [site.forms.parts(expr, type_, site.span) for expr, type_ in site.fields()]
    sums: list[TensorExpr | None] = [None, None]
    for chosen in itertools.product((0, 1), repeat=len(operands)):
        power = sum(chosen)
        parts = ((operand.re, operand.im)[which] for operand, which in zip(operands, chosen, strict=True))
        whole = ir.Tuple(tuple(part.expr for part in parts), span=site.span)
        term = site.real(site.call(whole))
        total, negative = sums[power % 2], power % 4 > 1
        if total is None:
            sums[power % 2] = -term if negative else term
        else:
            sums[power % 2] = total - term if negative else total + term
    re, im = sums
    assert re is not None
    assert im is not None
    return make_complex(Parts(re, im))


def _product_of_elements(site: ComplexCall) -> ir.Expr:
    """Multiply the elements along axes of known sizes, in halves."""
    axes, rank = site.attrs["axis"], site.rank()
    axes_ = range(rank) if axes is None else [int(axis) % rank for axis in cast("Sequence[int]", axes)]
    sizes = [cast(int, site.type().shape[axis]) for axis in axes_]
    total = site.parts()
    for axis, size in zip(axes_, sizes, strict=True):
        total = _along(total, axis, size)
    if not site.attrs["keepdims"] and axes_:
        axis_list = tuple(axes_)
        total = Parts(total.re.op("squeeze", axis=axis_list), total.im.op("squeeze", axis=axis_list))
    return make_complex(total)


def _along(z: Parts, axis: int, size: int) -> Parts:
    """Multiply along one axis, which keeps size 1."""

    def piece(begin: int, end: int) -> Parts:
        return Parts(z.re.between(axis, begin, end), z.im.between(axis, begin, end))

    while size > 1:
        half = size // 2
        product = piece(0, half) * piece(half, 2 * half)
        if size % 2:
            last = piece(size - 1, size)
            joined = [
                call("concatenate", [ir.Tuple((a.expr, b.expr))], a.span, axis=axis)
                for a, b in ((product.re, last.re), (product.im, last.im))
            ]
            product = Parts(*(TensorExpr(expr, z.dtype, z.re.span) for expr in joined))
        z, size = product, half + size % 2
    return z


#: LAPACK takes pairs of floats as they are.
_OF_PAIRS = (
    *("linalg.solve", "linalg.inv", "linalg.cholesky", "linalg.slogdet", "linalg.qr", "linalg.svd"),
    *("linalg.eigh", "linalg.lu"),
)

RULES: dict[str, Rule] = {
    **dict.fromkeys(_OF_PAIRS, lambda site: site.call(*map(site.pairs, range(len(site.args))), pairs=True)),
    **dict.fromkeys(("nn.matmul", "nn.dense", "nn.batch_matmul"), _matrix_product),
    "einsum": _einsum,
    "prod": _product_of_elements,
}
