"""Export products of matrices.

The standard: https://onnx.ai/onnx/operators/onnx__MatMul.html
"""

from __future__ import annotations

from nnmagic.exporters.onnx.registry import operator
from nnmagic.exporters.onnx.sites import ExportCall


@operator("nn.dense")
def _dense(site: ExportCall) -> str:
    dtype = site.result_dtype
    data, weight = site.operand(0, dtype), site.operand(1, dtype)
    if site.rank == 2 and dtype in ("float32", "float64", "float16"):
        return site.node("Gemm", data, weight, transB=1)
    return site.node("MatMul", data, site.transpose(weight, (1, 0)))


@operator("nn.matmul", "nn.batch_matmul")
def _matmul(site: ExportCall) -> str:
    operands = []
    for index, flag in enumerate(("transpose_a", "transpose_b")):
        name, rank = site.operand(index, site.result_dtype), len(site.shape(index))
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        operands.append(site.node("Transpose", name, perm=swapped) if site.attrs[flag] else name)
    return site.node("MatMul", *operands)


@operator("einsum")
def _einsum(site: ExportCall) -> str:
    return site.node("Einsum", *site.args, equation=str(site.attrs["equation"]).replace(" ", ""))
