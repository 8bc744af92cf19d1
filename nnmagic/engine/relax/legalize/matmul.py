"""Matrix products: matmul, dense, batch_matmul, einsum, and bias_add.

Products of float16 and bfloat16 are accumulated in float32; with an ``out_dtype``, in that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integer
from nnmagic.engine.relax.legalize.binary import broadcast_shape, place_in
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, attr_dtype, shape_of
from nnmagic.engine.relax.runtime.tensors import as_array, as_tensor
from nnmagic.engine.relax.schedules.matmul.analysis import PRODUCT
from nnmagic.engine.relax.schedules.registry import KIND

_NARROW = ("float16", "bfloat16")


def accumulator(dtype: str, out_dtype: str) -> str:
    """The dtype in which a product of ``dtype`` is summed up."""
    wanted = out_dtype or dtype
    return "float32" if wanted in _NARROW else wanted


def product(
    left: Any,
    right: Any,
    out_dtype: str,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    columns: Any = None,
) -> Any:
    """Matrices, or batches of them whose batch dimensions are equal or 1, multiplied.

    With ``columns``, the right matrix has so many, and is laid out in panels: [columns / width][k][width].
    """
    wide, wanted = accumulator(left.dtype, out_dtype), out_dtype or left.dtype
    rows, inner = (left.shape[-1], left.shape[-2]) if transpose_a else (left.shape[-2], left.shape[-1])
    k = te.reduce_axis((0, inner), "k")
    width = right.shape[-1]
    packed = columns is not None
    batch = broadcast_shape(left.shape[:-2], [] if packed else right.shape[:-2])
    if columns is None:
        columns = right.shape[-2] if transpose_b else right.shape[-1]

    def element(*index: Any) -> Any:
        *outer, i, j = index
        a = left(*_batch_index(left, outer, batch), *((k, i) if transpose_a else (i, k))).astype(wide)
        if packed:
            b = right(tirx.floordiv(j, width), k, tirx.floormod(j, width))
        else:
            b = right(*_batch_index(right, outer, batch), *((j, k) if transpose_b else (k, j)))
        return te.sum(a * b.astype(wide), axis=k)

    found = te.compute((*batch, rows, columns), element, name="product", attrs={KIND: PRODUCT})
    return found if wide == wanted else topi.cast(found, wanted)


#: The width of the panels of constant matrices, in bytes: two vectors of the widest registers.
_PANEL_BYTES = 128


def _laid_out(matrix: Value, *, transposed: bool) -> tuple[Value, int | None]:
    """A constant right matrix as the kernels read it fastest, and its columns where it is in panels."""
    if isinstance(matrix, relax.Var) or attr_dtype(matrix) not in {"float32", "float64"}:
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


def _batch_index(tensor: Any, outer: Sequence[Any], batch: Sequence[Any]) -> list[Any]:
    """Where the matrices stand in an operand whose batch dimensions are broadcast."""
    own = tensor.shape[:-2]
    skipped = len(batch) - len(own)
    places = zip(own, batch[skipped:], outer[skipped:], strict=True)
    return [place_in(dim, common, at) for dim, common, at in places]


def _matmul(site: OpCall, *, transpose_a: bool, transpose_b: bool) -> Value:
    left, right = site.args
    a, b = shape_of(left), shape_of(right)
    inner = a[-2] if transpose_a else a[-1], b[-1] if transpose_b else b[-2]
    site.require(_equal(*inner), "the inner dimensions differ")
    for one, other in zip(reversed(a[:-2]), reversed(b[:-2]), strict=False):
        if 1 not in (one, other) and _equal(one, other) is not True:
            fit = False if isinstance(one, int) and isinstance(other, int) else one == other
            if fit is not False:
                fit = tirx.any(fit, one == 1, other == 1)
            site.require(fit, "the batch dimensions differ")
    out_dtype = str(site.attrs["out_dtype"])
    units = site.attrs.get("units")
    if units is not None:
        columns = b[-2] if transpose_b else b[-1]
        site.require(_equal(columns, units), f"the weight has not {units} units")
    laid, panels = _laid_out(right, transposed=transpose_b)
    transpose_b = transpose_b and laid is right
    return site.te(
        lambda x, y: product(
            x, y, out_dtype, transpose_a=transpose_a, transpose_b=transpose_b, columns=panels
        ),
        left,
        laid,
    )


def _equal(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    return True if left is right else topi.utils.simplify(left == right)


def _attributed(site: OpCall) -> Value:
    attrs = site.attrs
    return _matmul(site, transpose_a=bool(attrs["transpose_a"]), transpose_b=bool(attrs["transpose_b"]))


def _bias_add(site: OpCall) -> Value:
    own, (size,) = map(shape_of, site.args)
    axis = integer(site.attrs["axis"]) % len(own)
    site.require(_equal(own[axis], size), "the bias has not the length of the axis")

    def compute(data: Any, bias: Any) -> Any:
        return te.compute(data.shape, lambda *index: data(*index) + bias(index[axis]))

    return site.te(compute, *site.args)


def _einsum(site: OpCall) -> Value:
    (operands,) = site.args
    return site.te(lambda *tensors: topi.einsum(site.attrs["equation"], *tensors), *operands)


RULES.update(
    {
        "nn.matmul": _attributed,
        "nn.batch_matmul": _attributed,
        "nn.dense": lambda site: _matmul(site, transpose_a=False, transpose_b=True),
        "nn.bias_add": _bias_add,
        "einsum": _einsum,
    }
)
