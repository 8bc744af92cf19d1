"""Export Fourier transforms: ONNX has complex numbers as pairs, too.

The standard: https://onnx.ai/onnx/operators/onnx__DFT.html
"""

from __future__ import annotations

import math

import numpy as np

from nnmagic.exporters.onnx.errors import ExportRefusalError
from nnmagic.exporters.onnx.registry import operator
from nnmagic.exporters.onnx.sites import ExportCall


def _transform(site: ExportCall, pairs: str, length: object, *, inverse: bool, onesided: bool = False) -> str:
    """Transform pairs along the axis; ONNX divides by the length as NumPy does by default."""
    axis = site.constant(site.integer("axis"), "int64")
    attrs = {"inverse": int(inverse), "onesided": int(onesided)}
    spectrum = site.node("DFT", pairs, "", axis, **attrs)
    norm = str(site.attrs["norm"])
    if norm == "backward":
        return spectrum
    if not isinstance(length, int):
        raise ExportRefusalError("its length must be known, unless the norm is backward")
    exponent = (0.5 if norm == "ortho" else 1.0) * (1 if inverse else -1)
    return site.node("Mul", spectrum, site.constant(math.pow(length, exponent)))


@operator("numpy.fft", note="of a known length, unless the norm is backward")
def _fft(site: ExportCall) -> str:
    length = site.shape()[site.integer("axis")]
    return _transform(site, site.args[0], length, inverse=bool(site.attrs["inverse"]))


@operator("numpy.rfft", note="of a known length, unless the norm is backward")
def _rfft(site: ExportCall) -> str:
    length = site.shape()[site.integer("axis")]
    pairs = site.unsqueeze(site.args[0], [site.rank])
    return _transform(site, pairs, length, inverse=False, onesided=True)


@operator("numpy.irfft", note="of a known length")
def _irfft(site: ExportCall) -> str:
    """Transform the whole spectrum back: the other half is the conjugate of the first."""
    axis = site.integer("axis")
    length = site.type.shape[axis]
    if not isinstance(length, int):
        raise ExportRefusalError("its length must be known")
    others = site.constant(np.arange((length - 1) // 2, 0, -1), "int64")
    mirrored = site.node("Mul", site.node("Gather", site.args[0], others, axis=axis), site.constant([1, -1]))
    whole = site.node("Concat", site.args[0], mirrored, axis=axis)
    result = _transform(site, whole, length, inverse=True)
    return site.node("Gather", result, site.constant(0, "int64"), axis=site.rank - 1)
