"""Import products of matrices, and what is made of them.

The standard: https://onnx.ai/onnx/operators/onnx__Gemm.html
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.operators.integer_products import multiply_matrices
from nnmagic.importers.onnx.registry import operator, operators
from nnmagic.importers.onnx.values import Value, constant, op
from nnmagic.relay.ops.dims import broadcast_shapes, product, same_dim
from nnmagic.relay.types import ANY, AnyDim, Dim, is_float


def dim_text(dim: Dim) -> str:
    """Return a dimension as a message shows it."""
    return dim.label or "?" if isinstance(dim, AnyDim) else str(dim)


def matmul(lhs: Value, rhs: Value) -> Value:
    """Multiply matrices as NumPy's matmul does."""
    if not lhs.rank or not rhs.rank:
        raise UnsupportedError("MatMul needs tensors with axes, not numbers")
    if lhs.rank == 1 or rhs.rank == 1:
        wide_left = shapes.unsqueeze(lhs, [0]) if lhs.rank == 1 else lhs
        wide_right = shapes.unsqueeze(rhs, [1]) if rhs.rank == 1 else rhs
        result = matmul(wide_left, wide_right)
        dropped = ([result.rank - 2] if lhs.rank == 1 else []) + ([result.rank - 1] if rhs.rank == 1 else [])
        return shapes.squeeze(result, dropped)
    if same_dim(lhs.shape[-1], rhs.shape[-2]) is False:
        shown = f"({', '.join(map(dim_text, lhs.shape))}) and ({', '.join(map(dim_text, rhs.shape))})"
        raise UnsupportedError(f"matrices of the shapes {shown} cannot be multiplied")
    if lhs.shape[-1] == 0:
        shape = (*(broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2]) or ()), lhs.shape[-2], rhs.shape[-1])
        return shapes.full(shape, constant(0, lhs.dtype), lhs, rhs)
    if rhs.rank == 2:
        return _times_matrix(lhs, rhs)
    return _batch(lhs, rhs)


def along_axis(data: Value, axis: int, matrix: Value) -> Value:
    """Multiply an axis of a tensor by a matrix (old size, new size)."""
    order = [at for at in range(data.rank) if at != axis] + [axis]
    back = sorted(range(data.rank), key=lambda at: order[at])
    return shapes.transpose(matmul(shapes.transpose(data, order), matrix), back)


def _times_matrix(lhs: Value, rhs: Value) -> Value:
    """Multiply by one matrix: all rows of the left tensor at once."""
    rows, width = product(lhs.shape[:-1]), lhs.shape[-1]
    if lhs.rank > 2 and rows == ANY and isinstance(width, int):
        flat = op("reshape", lhs, newshape=(-1, int(width)))
    else:
        flat = shapes.reshape(lhs, [rows, width]) if lhs.rank > 2 else lhs
    if not is_float(lhs.dtype):
        result = _batch(shapes.unsqueeze(flat, [0]), shapes.unsqueeze(rhs, [0]))
        result = shapes.squeeze(result, [0])
    else:
        matrix = rhs.known
        if matrix is not None:
            result = op("nn.dense", flat, constant(np.ascontiguousarray(matrix.T)))
        else:
            result = op("nn.matmul", flat, rhs, transpose_b=False)
    if lhs.rank == 2:
        return result
    if rows == ANY:
        return op("reshape_like", result, lhs, lhs_end=1, rhs_end=lhs.rank - 1)
    return shapes.reshape(result, [*lhs.shape[:-1], rhs.shape[-1]], lhs, rhs)


def _batch(lhs: Value, rhs: Value) -> Value:
    outer = broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
    if outer is None:
        shown = f"({', '.join(map(dim_text, lhs.shape))}) and ({', '.join(map(dim_text, rhs.shape))})"
        raise UnsupportedError(f"the shapes {shown} do not fit together")
    sides = []
    for side, other in ((lhs, rhs), (rhs, lhs)):
        wide = shapes.expand_to(side, [*outer, *side.shape[-2:]], other) if side.shape[:-2] != outer else side
        if ANY in wide.shape:
            while wide.rank > 3:
                wide = op("reshape", wide, newshape=(-3, *[0] * (wide.rank - 2)))
            sides.append(wide)
        else:
            sides.append(shapes.reshape(wide, [product(outer), *side.shape[-2:]], other))
    dtype = lhs.dtype
    result = op("nn.batch_matmul", *sides, transpose_a=False, transpose_b=False, out_dtype=dtype)
    if ANY in result.shape and lhs.shape[:-2] == outer:
        return op("reshape_like", result, lhs, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=lhs.rank - 2)
    return shapes.reshape(result, [*outer, lhs.shape[-2], rhs.shape[-1]], lhs, rhs)


@operator("Gemm")
def _gemm(node: OnnxNode) -> Value:
    lhs, rhs, added = node[0], node[1], node.get(2)
    if node.integer("transA"):
        lhs = shapes.transpose(lhs, [1, 0])
    plain = lhs.is_float and lhs.rank == rhs.rank == 2 and same_dim(lhs.shape[1], rhs.shape[1])
    if node.integer("transB") and plain and lhs.shape[1] != 0:
        result = op("nn.dense", lhs, rhs)  # which takes the weight as it is
    else:
        if node.integer("transB"):
            rhs = shapes.transpose(rhs, [1, 0])
        result = matmul(lhs, rhs)
    alpha, beta = node.number("alpha", 1.0), node.number("beta", 1.0)
    if alpha != 1:
        result = result * alpha if result.is_float else (result.cast("float64") * alpha).cast(result.dtype)
    if added is None or beta == 0:
        return result
    if beta != 1:
        added = added * beta if added.is_float else (added.cast("float64") * beta).cast(added.dtype)
    return result + added


@operator("Einsum")
def _einsum(node: OnnxNode) -> Value:
    values = [node[index] for index in range(len(node.inputs))]
    equation = node.text("equation").replace(" ", "")
    return op("einsum", values, equation=_without_ellipsis(equation, [value.rank for value in values]))


def _without_ellipsis(equation: str, ranks: Sequence[int]) -> str:
    """Write the axes that ``...`` stands for as letters, and the result that is implied."""
    terms, arrow, result = equation.partition("->")
    inputs = terms.split(",")
    if len(inputs) != len(ranks):
        raise UnsupportedError(f"the equation {equation!r} is for {len(inputs)} tensors, not {len(ranks)}")
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    counts = [
        rank - len(term.replace("...", "")) for term, rank in zip(inputs, ranks, strict=True) if "..." in term
    ]
    most = max(counts, default=0)
    if most > len(free):
        raise UnsupportedError(f"the equation {equation!r} has too many axes")
    letters = "".join(free[:most])
    written = []
    for term, rank in zip(inputs, ranks, strict=True):
        count = rank - len(term.replace("...", ""))
        written.append(term.replace("...", letters[most - count :] if count else ""))
    if arrow:
        return ",".join(written) + "->" + result.replace("...", letters)
    letters_written = "".join(written)
    once = sorted(
        letter
        for letter in set(letters_written)
        if letters_written.count(letter) == 1 and letter not in letters
    )
    return ",".join(written) + "->" + letters + "".join(once)


# -- integers ------------------------------------------------------------------------------------------


@operator("MatMulInteger")
def _matmul_integer(node: OnnxNode) -> Value:
    return multiply_matrices(node[0], node.get(2), node[1], node.get(3), matmul).cast("int32")


@operator("QLinearMatMul")
def _qlinear_matmul(node: OnnxNode) -> Value:
    from nnmagic.importers.onnx.operators.quantization import quantize

    total = multiply_matrices(node[0], node[2], node[3], node[5], matmul).cast("float32")
    scales = [_matrix_scale(node[1], node[0].rank, -2), _matrix_scale(node[4], node[3].rank, -1)]
    factor = scales[0].cast("float32") * scales[1].cast("float32") / node[6].cast("float32")
    return quantize(total * factor, node[7], node[7].dtype)


def _matrix_scale(scale: Value, rank: int, axis: int) -> Value:
    if scale.rank == 1 and scale.shape != (1,):
        after = rank - 1 - axis % rank
        return op("expand_dims", scale, axis=1, num_newaxis=after) if after else scale
    return shapes.scalar(scale) if scale.rank == 1 else scale


operators({"Det": lambda node: op("linalg.det", node[0]), "MatMul": lambda node: matmul(node[0], node[1])})
