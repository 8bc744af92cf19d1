"""Differentiate images, transforms and random numbers, and refuse what has no gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from nnmagic.relay.expr import Expr, Tuple, TupleGetItem, constant
from nnmagic.relay.gradients.registry import expansion, refuse, rule, zero
from nnmagic.relay.gradients.vjp_call import Contribution, VjpCall
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.ops.calls import call
from nnmagic.relay.tensor_expr import TensorExpr
from nnmagic.relay.types import TensorType, TupleType

refuse("it selects elements in an order that has no rule", "unique")
refuse("what a function of Python computes is not known: give it a rule, custom_vjp", "python.callback")
boxes = (name for name in OPERATORS if name.startswith("vision.") and name != "vision.roi_align")
refuse("it selects boxes", *boxes)
refuse("it computes with quantized numbers", *(name for name in OPERATORS if name.startswith("qnn.")))
zero("random.threefry_generate", "numpy.random.bits_like", "random.threefry_split", "numpy.pcg64_seed")


@rule("python.require", "python.sized")
def _require(p: VjpCall) -> Sequence[Contribution]:
    """Pass the cotangent on: the data is as it was."""
    return [p.d, None]


@rule("image.resize1d", "image.resize2d", "image.resize3d", "nn.upsampling", "nn.upsampling3d")
def _resize(p: VjpCall) -> Sequence[Contribution]:
    """Multiply each axis with the transpose of its interpolation matrix."""
    if p.attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise p.unsupported("the mode 'tf_crop_and_resize' has no rule")
    layout = str(p.attrs["layout"])
    if any(letter.isdigit() for letter in layout):
        raise p.unsupported("its layout divides an axis", "use a layout such as NCHW")
    letters = [letter for letter in "DHW" if letter in layout]
    d, rank = p.d.cast(p.tensor(0).dtype), p.rank()
    for place, letter in enumerate(letters):
        axis = layout.index(letter)
        size = p.shape(0)[axis]
        if not isinstance(size, int):
            raise p.unsupported("the sizes of the images must be known at compile time")
        matrix = _interpolation(p, letters, place, size, cast("int", p.out_shape[axis]))
        order = [*(index for index in range(rank) if index != axis), axis]
        moved = d.transpose(order).op("nn.matmul", matrix, transpose_b=True)
        d = moved.transpose([order.index(index) for index in range(rank)])
    return [d]


def _interpolation(p: VjpCall, letters: Sequence[str], place: int, size: int, count: int) -> TensorExpr:
    """Return the matrix (size, count) of one axis: what the operator makes of the identity."""
    rank, dtype = len(letters), p.tensor(0).dtype
    shape = [1, size, *([2] * rank)]
    shape[2 + place] = size
    spread = np.ones(shape) * np.eye(size).reshape(
        [1, size, *(size if axis == place else 1 for axis in range(rank))]
    )
    attrs = {**p.given, "layout": "NC" + "".join(letters), "out_dtype": dtype}
    if p.name.startswith("image."):
        attrs["size"] = [count if axis == place else 2 for axis in range(rank)]
    else:
        del attrs["out_dtype"]
        for axis, letter in enumerate(letters):
            if axis != place:
                attrs[f"scale_{letter.lower()}"] = 1.0
    spread_grad = p.array(spread, dtype).op(p.name, **attrs)
    axes = [2 + axis for axis in range(rank) if axis != place]
    if axes:
        ones = [1] * len(axes)
        spread_grad = spread_grad.op(
            "strided_slice", begin=[0] * len(axes), end=ones, strides=ones, axes=axes
        )
    return spread_grad.reshape([size, count])


@expansion("stft")
def _stft(p: VjpCall) -> Expr:
    """Multiply frames by the window and by the waves of each frequency."""
    size, hop, width = (int(cast("int", p.attrs[name])) for name in ("n_fft", "hop_length", "win_length"))
    hop, width, axis = hop if hop > 0 else size // 4, width if width > 0 else size, p.rank() - 1
    count = ((p.size(0, axis) - size) // hop + 1).op("expand_dims", axis=0)
    ones = p.call("dyn.full", p.array(1, "int64"), count, shape=None, dtype="int64")
    starts = (ones.op("cumsum", axis=0) - 1) * hop
    places = starts.op("expand_dims", axis=1) + p.array(np.arange(width), "int64")
    frames = p.x(0).op("take", places, axis=axis, mode="fast") * p.x(1).cast(p.tensor(0).dtype)
    rows = size // 2 + 1 if p.attrs["onesided"] else size
    turns = np.exp(-2j * np.pi / width * np.outer(np.arange(width), np.arange(rows)))
    waves = np.stack([turns.real, turns.imag], axis=-1) / (size**0.5 if p.attrs["normalized"] else 1)
    spectra = frames.op("nn.matmul", p.array(waves.reshape(width, 2 * rows), p.tensor(0).dtype))
    parted = spectra.reshape([0] * (axis + 1) + [rows, 2])
    return parted.transpose([*range(axis), axis + 1, axis, axis + 2]).expr


@rule("dft")
def _dft(p: VjpCall) -> Sequence[Contribution]:
    """Transform the other way; the one way divides by the length, the other does not."""
    zeros = p.x(0).zeros()
    real, imaginary = p.d_part(0) or zeros, p.d_part(1) or zeros
    inverse = bool(p.attrs["inverse"])
    pair = p.call("dft", real, imaginary, inverse=not inverse)
    length = p.count(0, [p.rank() - 1])
    components = []
    for index in range(2):
        component = pair.item(index, p.tensor(0).dtype)
        scale = p.array(length, component.dtype) if isinstance(length, int) else length
        components.append(component / scale if inverse else component * scale)
    return components


def _adjoint(p: VjpCall) -> dict[str, Any]:
    """Return the attributes of a transform's adjoint: the factor is the same, the direction the other one."""
    if not p.attrs["pairs"]:
        raise p.unsupported("complex numbers must be pairs")
    norm = {"backward": "forward", "forward": "backward"}.get(str(p.attrs["norm"]), "ortho")
    return {"axis": p.attrs["axis"], "norm": norm, "pairs": True}


@rule("numpy.fft")
def _fft(p: VjpCall) -> Sequence[Contribution]:
    return [p.d.op("numpy.fft", inverse=not p.attrs["inverse"], **_adjoint(p))]


@rule("numpy.rfft")
def _rfft(p: VjpCall) -> Sequence[Contribution]:
    """Transform back with zeros for the frequencies that were left out; the real part counts."""
    given, axis = _adjoint(p), p.axis()
    count, size = p.out_shape[axis], p.shape(0)[axis]
    if not isinstance(count, int) or not isinstance(size, int):
        raise p.unsupported("the size of the axis must be known at compile time")
    widths = [(0, size - count if index == axis else 0) for index in range(p.rank() + 1)]
    padded = p.d.op("nn.pad", p.array(0, p.d.dtype), pad_width=widths)
    whole = padded.op("numpy.fft", inverse=True, **given)
    return [whole.row(p.rank(), 0)]


@rule("numpy.irfft")
def _irfft(p: VjpCall) -> Sequence[Contribution]:
    """Count the frequencies twice that have a negative twin."""
    given = _adjoint(p)
    axis = int(cast("int", p.attrs["axis"])) % (p.rank() - 1)
    length = p.out_shape[axis]
    if not isinstance(length, int):
        raise p.unsupported("the size of the axis must be known at compile time")
    weights = np.full(length // 2 + 1, 2.0)
    weights[0] = 1
    weights[(length + 1) // 2 :] = 1
    column = p.array(weights.reshape([-1, *([1] * (p.rank() - 1 - axis))]), p.d.dtype)
    return [p.d.op("numpy.rfft", **given) * column]


@rule("random.normal")
def _normal(p: VjpCall) -> Sequence[Contribution]:
    """Each number is mean + scale * z."""
    d = p.d_part(1)
    if d is None:
        return [None, None, None]
    scaled = (d * (p.part(1) - p.x(1)) / p.x(2)).sum()
    return [None, d.sum(), scaled]


@rule("random.uniform")
def _uniform(p: VjpCall) -> Sequence[Contribution]:
    """Each number is low + u * (high - low)."""
    d = p.d_part(1)
    if d is None:
        return [None, None, None]
    share = (d * ((p.part(1) - p.x(1)) / (p.x(2) - p.x(1)))).sum()
    return [None, d.sum() - share, share]


#: The functions of NumPy's generator whose numbers are those of another, moved and stretched.
_STANDARD: dict[str, tuple[str, tuple[float, ...]]] = {
    "normal": ("standard_normal", ()),
    "uniform": ("random", ()),
    "exponential": ("standard_exponential", ()),
    **{name: (name, (0.0, 1.0)) for name in ("laplace", "gumbel", "logistic")},
    "rayleigh": ("rayleigh", (1.0,)),
}


@rule("numpy.pcg64")
def _pcg64(p: VjpCall) -> Sequence[Contribution]:
    """Draw the numbers of the standard distribution again, from the same state."""
    d, function, kinds = p.d_part(1), str(p.attrs["function"]), p.types[2]
    if d is None or not p.wanted[2]:
        return [None, None, None]
    name, standard = _STANDARD.get("normal" if function == "lognormal" else function, ("", ()))
    if not name:
        raise p.unsupported(f"numbers of `{function}` are no differentiable function of its parameters")
    own = Tuple(tuple(constant(number, "float64", span=p.span) for number in standard), span=p.span)
    drawn = call("numpy.pcg64", [p.args[0], p.args[1], own], p.span, function=name)
    z = p.term(TupleGetItem(drawn, 1, span=p.span), d.dtype)
    if function == "lognormal":
        d = d * p.part(1)
    flows = [d, d * z]
    if function in ("exponential", "rayleigh"):
        flows = [d * z]
    elif function == "uniform":
        flows = [d - d * z, d * z]
    assert isinstance(kinds, TupleType)
    is_number = not p.shape(1)
    return [
        None,
        None,
        [
            flow.sum() if isinstance(kind, TensorType) and not kind.shape and not is_number else flow
            for flow, kind in zip(flows, kinds.fields, strict=True)
        ],
    ]
