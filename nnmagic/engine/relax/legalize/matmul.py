"""Legalize matrix products: matmul, dense, batch_matmul, and bias_add.

Products of float16 and bfloat16 are accumulated in float32; with an ``out_dtype``, in that.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize import scalar_functions
from nnmagic.engine.relax.legalize.binary import broadcast_shape, index_in
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, shape_of, tensor_dtype
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor
from nnmagic.engine.relax.schedules.matmul.analysis import PRODUCT
from nnmagic.engine.relax.schedules.registry import KIND
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr


def accumulation_dtype(dtype: str, out_dtype: str) -> str:
    """Return the dtype in which a product of ``dtype`` is accumulated."""
    wanted = out_dtype or dtype
    return "float32" if wanted in scalar_functions.NARROW_FLOATS else wanted


def matrix_product(
    lhs: Tensor,
    rhs: Tensor,
    out_dtype: str,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    columns: Extent = None,
) -> PrimExpr:
    """Multiply matrices, or batches of matrices whose batch dimensions are equal or 1.

    With ``columns``, the right matrix has that many, and is packed in panels: [columns / width][k][width].
    """
    wide, wanted = accumulation_dtype(lhs.dtype, out_dtype), out_dtype or lhs.dtype
    rows, inner = (lhs.shape[-1], lhs.shape[-2]) if transpose_a else (lhs.shape[-2], lhs.shape[-1])
    k = te.reduce_axis((0, inner), "k")
    width = rhs.shape[-1]
    packed = columns is not None
    batch = broadcast_shape(lhs.shape[:-2], [] if packed else rhs.shape[:-2])
    if columns is None:
        columns = rhs.shape[-2] if transpose_b else rhs.shape[-1]

    def element(*index: Index) -> PrimExpr:
        *outer, i, j = index
        a = lhs(*_batch_index(lhs, outer, batch), *((k, i) if transpose_a else (i, k))).astype(wide)
        if packed:
            b = rhs(tirx.floordiv(j, width), k, tirx.floormod(j, width))
        else:
            b = rhs(*_batch_index(rhs, outer, batch), *((j, k) if transpose_b else (k, j)))
        return te.sum(a * b.astype(wide), axis=k)

    product = te.compute((*batch, rows, columns), element, name="product", attrs={KIND: PRODUCT})
    return product if wide == wanted else topi.cast(product, wanted)


#: The width of the panels of constant matrices, in bytes: two vectors of the widest registers.
_PANEL_BYTES = 128


def _pack_constant(matrix: Value, *, transposed: bool) -> tuple[Value, int | None]:
    """Pack a constant right matrix as kernels read it fastest; return also its columns if it is in panels."""
    if isinstance(matrix, relax.Var) or tensor_dtype(matrix) not in {"float32", "float64"}:
        return matrix, None
    array = as_array(matrix.value)
    if array.ndim != 2 or array.size == 0:
        return matrix, None
    array = array.T if transposed else array
    inner, columns = array.shape
    width = _PANEL_BYTES // array.itemsize
    if columns <= width:
        return relax.const(as_tensor(np.ascontiguousarray(array))), None
    padded = np.zeros((inner, -(-columns // width) * width), array.dtype)
    padded[:, :columns] = array
    panels = np.ascontiguousarray(padded.reshape(inner, -1, width).swapaxes(0, 1))
    return relax.const(as_tensor(panels)), columns


def _batch_index(tensor: Tensor, outer: Sequence[Index], batch: Sequence[Extent]) -> list[Index]:
    """Return the index of a matrix in an operand whose batch dimensions are broadcast."""
    batch_shape = tensor.shape[:-2]
    skipped = len(batch) - len(batch_shape)
    dims = zip(batch_shape, batch[skipped:], outer[skipped:], strict=True)
    return [index_in(dim, common, i) for dim, common, i in dims]


def _matmul(call: OpCall, *, transpose_a: bool, transpose_b: bool) -> Value:
    lhs, rhs = call.args
    a, b = shape_of(lhs), shape_of(rhs)
    inner = a[-2] if transpose_a else a[-1], b[-1] if transpose_b else b[-2]
    call.require(dimensions_agree(*inner), "the inner dimensions differ")
    for dim, other in zip(reversed(a[:-2]), reversed(b[:-2]), strict=False):
        if 1 not in (dim, other) and dimensions_agree(dim, other) is not True:
            static = isinstance(dim, int) and isinstance(other, int)
            condition = False if static else tirx.any(dim == other, dim == 1, other == 1)
            call.require(condition, "the batch dimensions differ")
    out_dtype = str(call.attrs["out_dtype"])
    units = call.attrs.get("units")
    if units is not None:
        columns = b[-2] if transpose_b else b[-1]
        call.require(dimensions_agree(columns, units), f"the weight has not {units} units")
    packed, panels = _pack_constant(rhs, transposed=transpose_b)
    transpose_b = transpose_b and packed is rhs
    return call.te(
        lambda x, y: matrix_product(
            x, y, out_dtype, transpose_a=transpose_a, transpose_b=transpose_b, columns=panels
        ),
        lhs,
        packed,
    )


def dimensions_agree(lhs: Extent, rhs: Extent) -> PrimExpr | bool:
    """Return whether two dimensions are equal: a bool, or a condition on dynamic ones."""
    if isinstance(lhs, int) and isinstance(rhs, int):
        return lhs == rhs
    return True if lhs is rhs else topi.utils.simplify(lhs == rhs)


def _matmul_by_attributes(call: OpCall) -> Value:
    attrs = call.attrs
    return _matmul(call, transpose_a=bool(attrs["transpose_a"]), transpose_b=bool(attrs["transpose_b"]))


def _bias_add(call: OpCall) -> Value:
    shape, (size,) = map(shape_of, call.args)
    axis = integer(call.attrs["axis"]) % len(shape)
    call.require(dimensions_agree(shape[axis], size), "the bias has not the length of the axis")

    def compute(data: Tensor, bias: Tensor) -> Tensor:
        return te.compute(data.shape, lambda *index: data(*index) + bias(index[axis]))

    return call.te(compute, *call.args)


RULES.update(
    {
        "nn.matmul": _matmul_by_attributes,
        "nn.batch_matmul": _matmul_by_attributes,
        "nn.dense": lambda call: _matmul(call, transpose_a=False, transpose_b=True),
        "nn.bias_add": _bias_add,
    }
)
