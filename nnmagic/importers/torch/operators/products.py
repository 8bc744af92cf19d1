"""Import products of matrices and vectors, and distances.

What they compute: https://docs.pytorch.org/docs/stable/generated/torch.baddbmm.html
"""

from __future__ import annotations

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.importers.torch.calls import AtenCall, over_elements, scalar_constant
from nnmagic.importers.torch.mathematics import convert, wide
from nnmagic.importers.torch.operators.complex_numbers import absolute, conjugate
from nnmagic.importers.torch.operators.elementwise import times
from nnmagic.importers.torch.registry import operator, operators
from nnmagic.relay import expr as ir
from nnmagic.relay.ops import dims
from nnmagic.relay.types import Dim, TensorType


def _product(call: AtenCall, lhs: Value, rhs: Value, shape: tuple[Dim, ...]) -> Value:
    """Multiply matrices, which may have no elements."""
    if 0 in shape or lhs.shape[-1] == 0:
        return call.full(shape, scalar_constant(0, lhs.dtype))
    plain = _undo_transpose(rhs)
    if plain is not None and lhs.rank == 2:
        return op("nn.dense", lhs, plain)  # which takes the weight as it is
    return matmul(lhs, rhs)


def _undo_transpose(value: Value) -> Value | None:
    """Return the matrix whose transpose a tensor of floats is."""
    match value.expr:
        case ir.Call(op=ir.OpRef(name="transpose"), args=(matrix,)) if value.rank == 2 and value.is_float:
            return Value(matrix, TensorType(value.shape[::-1], value.dtype))
    return None


@operator("mm", "bmm", "matmul")
def _mm(call: AtenCall) -> Value:
    lhs, rhs = call["self"], call.get("mat2") or call["other"]
    return _product(call, lhs, rhs, call.shape)


def _plus(call: AtenCall, product: Value) -> Value:
    """Return beta * self + alpha * product; where beta is 0, whatever is in self does not matter."""
    product = times(product, call.argument("alpha", 1))
    if call.argument("beta", 1) == 0:
        return call.expand(product, call.shape)
    return product + times(call["self"].cast(product.dtype), call.argument("beta", 1))


def _factors(call: AtenCall, first: str, second: str) -> tuple[Value, Value]:
    """Return matrices in the dtype in which torch scales their product: halves in float32."""
    scaled = any(call.argument(name, 1) != 1 for name in ("alpha", "beta"))
    lhs, rhs = call[first], call[second]
    return (wide(lhs), wide(rhs)) if scaled else (lhs, rhs)


def _plus_product(call: AtenCall, first: str, second: str) -> Value:
    lhs, rhs = _factors(call, first, second)
    return _plus(call, _product(call, lhs, rhs, call.shape))


@operator("addbmm")
def _addbmm(call: AtenCall) -> Value:
    batch = call["batch1"].shape[0]
    lhs, rhs = _factors(call, "batch1", "batch2")
    product = op("sum", _product(call, lhs, rhs, (batch, *call.shape)), axis=(0,))
    return _plus(call, product)


@operator("addmv")
def _addmv(call: AtenCall) -> Value:
    matrix, vector = _factors(call, "mat", "vec")
    return _plus(call, op("sum", matrix * vector, axis=(1,)))


@operator("_trilinear")
def _trilinear(call: AtenCall) -> Value:
    """Multiply three tensors, to which axes are added, and sum."""
    factors = [shapes.unsqueeze(call[f"i{at}"], call.ints(f"expand{at}")) for at in (1, 2, 3)]
    return op("sum", factors[0] * factors[1] * factors[2], axis=tuple(call.ints("sumdim")))


# -- distances -----------------------------------------------------------------------------------------


def distance(difference: Value, p: float) -> Value:
    """Return the p-norm along the last axis."""
    size = op("abs", difference)
    axes = (size.rank - 1,)
    if p == 0:
        return op("sum", op("not_equal", size, size.like(0)).cast(size.dtype), axis=axes)
    if p == 1:
        return op("sum", size, axis=axes)
    if p == 2:
        return op("sqrt", op("sum", size * size, axis=axes))
    if p == np.inf:
        return op("max", size, axis=axes)
    return op("sum", size**p, axis=axes) ** (1 / p)


@operator("dist")
def _dist(call: AtenCall) -> Value:
    difference, p = over_elements(wide(call["self"] - call["other"])), call.number("p", 2)
    if p == -np.inf or 0 in difference.shape:
        raise UnsupportedError(f"the norm {p} of a tensor of the shape {difference.shape} is not supported")
    return distance(call.reshape(difference, [dims.product(difference.shape)]), p)


@operator("_cdist_forward")
def _cdist(call: AtenCall) -> Value:
    lhs, rhs = call["x1"], call["x2"]
    if 0 in call.shape or lhs.shape[-1] == 0:
        return call.full(call.shape, scalar_constant(0, lhs.dtype))
    difference = op("expand_dims", lhs, axis=lhs.rank - 1) - op("expand_dims", rhs, axis=rhs.rank - 2)
    return distance(difference, call.number("p"))


@operator("_pdist_forward", note="of a known number of rows")
def _pdist(call: AtenCall) -> Value:
    data = call["self"]
    rows, width = call.static(data)
    if rows < 2 or not width:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    first, second = np.triu_indices(rows, 1)
    lhs, rhs = (
        op("take", data, constant(index.astype("int64")), axis=0, mode="clip") for index in (first, second)
    )
    return distance(lhs - rhs, call.number("p", 2))


@operator("linalg_vector_norm")
def _vector_norm(call: AtenCall) -> Value:
    size = wide(convert(absolute(call["self"]), call.dtype))
    axes, p, keep = call.axes("dim", size.rank), call.number("ord", 2), call.flag("keepdim")
    if not size.rank:
        return size if p else op("not_equal", size, size.like(0)).cast(size.dtype)
    if p in (np.inf, -np.inf):
        return op("max" if p > 0 else "min", size, axis=tuple(axes), keepdims=keep)
    if p == 0:
        return op(
            "sum", op("not_equal", size, size.like(0)).cast(size.dtype), axis=tuple(axes), keepdims=keep
        )
    if p == 1 or all(size.shape[axis] == 1 for axis in axes):  # the power of one element may overflow
        return op("sum", size, axis=tuple(axes), keepdims=keep)
    if p == 2:
        return op("sqrt", op("sum", size * size, axis=tuple(axes), keepdims=keep))
    return op("sum", size**p, axis=tuple(axes), keepdims=keep) ** (1 / p)


operators(
    {
        "addmm": lambda call: _plus_product(call, "mat1", "mat2"),
        "baddbmm": lambda call: _plus_product(call, "batch1", "batch2"),
        "dot": lambda call: op("sum", wide(call["self"] * call["tensor"])),
        "vdot": lambda call: op("sum", wide(conjugate(call["self"]) * call["other"])),
        "mv": lambda call: op("sum", wide(call["self"] * call["vec"]), axis=(1,)),
    }
)
