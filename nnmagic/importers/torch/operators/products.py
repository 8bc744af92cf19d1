"""Import products of matrices, and linear algebra."""

from __future__ import annotations

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.operators.products import matmul
from nnmagic.importers.onnx.values import Value, constant, op, ops
from nnmagic.importers.torch.calls import Call, scalar_constant
from nnmagic.importers.torch.mathematics import convert, wide
from nnmagic.importers.torch.registry import operator
from nnmagic.relay import expr as ir
from nnmagic.relay.types import Dim, TensorType


def _product(call: Call, left: Value, right: Value, shape: tuple[Dim, ...]) -> Value:
    """Multiply matrices, which may have no elements."""
    if 0 in shape or left.shape[-1] == 0:
        return call.full(shape, scalar_constant(0, left.dtype))
    plain = _untransposed(right)
    if plain is not None and left.rank == 2:
        return op("nn.dense", left, plain)  # which takes the weight as it is
    return matmul(left, right)


def _untransposed(value: Value) -> Value | None:
    """Return the matrix whose transpose a tensor of floats is."""
    match value.expr:
        case ir.Call(op=ir.OpRef(name="transpose"), args=(matrix,)) if value.rank == 2 and value.is_float:
            return Value(matrix, TensorType(value.shape[::-1], value.dtype))
    return None


@operator("mm", "bmm", "matmul")
def _mm(call: Call) -> Value:
    left, right = call["self"], call.get("mat2") or call["other"]
    return _product(call, left, right, call.shape)


@operator("dot", "vdot")
def _dot(call: Call) -> Value:
    return op("sum", wide(call["self"] * call["tensor"]))


@operator("mv")
def _mv(call: Call) -> Value:
    return op("sum", wide(call["self"] * call["vec"]), axis=(1,))


def _scaled(call: Call, value: Value, name: str) -> Value:
    factor = call.argument(name, 1)
    if not isinstance(factor, Value) and factor == 1:
        return value
    return value * (factor if isinstance(factor, Value) else scalar_constant(factor, value.dtype))


def _plus_product(call: Call, left: Value, right: Value, shape: tuple[Dim, ...]) -> Value:
    """Return beta * self + alpha * (left @ right)."""
    product = _scaled(call, _product(call, left, right, shape), "alpha")
    if call.argument("beta", 1) == 0:
        return call.expand(product, call.shape)
    return product + _scaled(call, call["self"], "beta")


@operator("addmm")
def _addmm(call: Call) -> Value:
    return _plus_product(call, call["mat1"], call["mat2"], call.shape)


@operator("baddbmm")
def _baddbmm(call: Call) -> Value:
    return _plus_product(call, call["batch1"], call["batch2"], call.shape)


@operator("addbmm")
def _addbmm(call: Call) -> Value:
    batch = call["batch1"].shape[0]
    product = op("sum", _product(call, call["batch1"], call["batch2"], (batch, *call.shape)), axis=(0,))
    return _scaled(call, product, "alpha") + _scaled(call, call["self"], "beta")


@operator("addmv")
def _addmv(call: Call) -> Value:
    product = op("sum", call["mat"] * call["vec"], axis=(1,))
    return _scaled(call, product, "alpha") + _scaled(call, call["self"], "beta")


# -- distances -----------------------------------------------------------------------------------------


def _distance(difference: Value, p: float) -> Value:
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


@operator("_cdist_forward")
def _cdist(call: Call) -> Value:
    left, right = call["x1"], call["x2"]
    if 0 in call.shape or left.shape[-1] == 0:
        return call.full(call.shape, scalar_constant(0, left.dtype))
    difference = op("expand_dims", left, axis=left.rank - 1) - op("expand_dims", right, axis=right.rank - 2)
    return _distance(difference, call.number("p"))


@operator("_pdist_forward", note="of a known number of rows")
def _pdist(call: Call) -> Value:
    data = call["self"]
    rows, width = call.static(data)
    if rows < 2 or not width:
        return call.full(call.shape, scalar_constant(0, data.dtype))
    first, second = np.triu_indices(rows, 1)
    left, right = (
        op("take", data, constant(index.astype("int64")), axis=0, mode="clip") for index in (first, second)
    )
    return _distance(left - right, call.number("p", 2))


# -- linear algebra ------------------------------------------------------------------------------------


def _info(call: Call, batch: tuple[Dim, ...]) -> Value:
    return call.full(batch, scalar_constant(0, "int32"))


@operator("linalg_inv_ex")
def _inv(call: Call) -> list[Value]:
    data = call["A"]
    return [op("linalg.inv", data), _info(call, data.shape[:-2])]


@operator("linalg_cholesky_ex")
def _cholesky_ex(call: Call) -> list[Value]:
    data = call["self"]
    return [op("linalg.cholesky", data, upper=call.flag("upper")), _info(call, data.shape[:-2])]


@operator("cholesky")
def _cholesky(call: Call) -> Value:
    return op("linalg.cholesky", call["self"], upper=call.flag("upper"))


@operator("_linalg_slogdet")
def _slogdet(call: Call) -> list[Value]:
    return ops("linalg.slogdet", call["A"])


@operator("_linalg_det")
def _det(call: Call) -> list[Value]:
    sign, size = ops("linalg.slogdet", call["A"])
    return [sign * op("exp", size)]


@operator("_linalg_solve_ex")
def _solve(call: Call) -> list[Value]:
    left, right = call["A"], call["B"]
    if not call.flag("left", default=True):
        raise UnsupportedError("a solution from the right is not supported")
    vector = right.rank == left.rank - 1
    right = shapes.unsqueeze(right, [right.rank]) if vector else right
    if right.rank != left.rank:
        raise UnsupportedError("matrix and right-hand sides differ in rank")
    found = op("linalg.solve", left, right)
    return [shapes.squeeze(found, [found.rank - 1]) if vector else found]


@operator("linalg_qr")
def _qr(call: Call) -> list[Value]:
    mode = str(call.argument("mode", "reduced"))
    if mode == "r":
        return [call.full((0,), scalar_constant(0, call["A"].dtype)), op("linalg.qr", call["A"], mode="r")]
    return ops("linalg.qr", call["A"], mode=mode)


@operator("linalg_vector_norm")
def _vector_norm(call: Call) -> Value:
    data = convert(call["self"], call.dtype)
    axes, p = call.axes("dim", data.rank), call.number("ord", 2)
    size, keep = op("abs", wide(data)), call.flag("keepdim")
    if not data.rank:
        return size if p else op("not_equal", size, size.like(0)).cast(size.dtype)
    if p in (np.inf, -np.inf):
        return op("max" if p > 0 else "min", size, axis=tuple(axes), keepdims=keep)
    if p == 0:
        return op(
            "sum", op("not_equal", size, size.like(0)).cast(size.dtype), axis=tuple(axes), keepdims=keep
        )
    if p == 1:
        return op("sum", size, axis=tuple(axes), keepdims=keep)
    if p == 2:
        return op("sqrt", op("sum", size * size, axis=tuple(axes), keepdims=keep))
    return op("sum", size**p, axis=tuple(axes), keepdims=keep) ** (1 / p)
