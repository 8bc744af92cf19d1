"""Legalize padding."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import te, tirx, topi

from nnmagic.engine.relax.analysis.attribute_values import integers
from nnmagic.engine.relax.legalize.registry import RULES, OpCall, Value, te_of
from nnmagic.engine.relax.legalize.types import Tensor
from nnmagic.engine.relax.tir.types import Extent, Index, PrimExpr
from nnmagic.relay.expr import Attrs

#: How a border is filled: with one value, with the outermost element, or with a mirror image.
PAD_MODES = ("constant", "edge", "reflect")


def _pad(call: OpCall) -> Value:
    """Lower to constant, edge or reflected padding; the constant is the second argument."""
    data, value = call.args
    widths = call.attrs["pad_width"]
    assert isinstance(widths, tuple)
    before, after = [integers(pair)[0] for pair in widths], [integers(pair)[1] for pair in widths]
    mode = call.attrs["pad_mode"]
    if mode == "constant":
        return call.te(lambda x, fill: pad_with(x, before, after, fill()), data, value)
    if mode in PAD_MODES:
        return call.te(lambda x: _pad_by_repeating(x, before, after, str(mode)), data)
    return call.refuse(f"pad_mode must be one of {', '.join(PAD_MODES)}, not {mode!r}")


def pad_with(data: Tensor, before: Sequence[Extent], after: Sequence[Extent], fill: PrimExpr) -> Tensor:
    """Pad with one value; negative widths crop."""
    shape = [a + dim + b for a, dim, b in zip(before, data.shape, after, strict=True)]

    def element(*index: Index) -> PrimExpr:
        where = [i - width for i, width in zip(index, before, strict=True)]
        inside = [tirx.all(i >= 0, i < dim) for i, dim in zip(where, data.shape, strict=True)]
        return (
            tirx.if_then_else(tirx.all(*inside), data(*where), fill.astype(data.dtype)) if inside else data()
        )

    return te.compute(shape, element)


def _pad_by_repeating(data: Tensor, before: Sequence[int], after: Sequence[int], mode: str) -> Tensor:
    shape = [a + dim + b for a, dim, b in zip(before, data.shape, after, strict=True)]

    def element(*index: Index) -> PrimExpr:
        dims = zip(index, before, data.shape, strict=True)
        return data(*(border_index(i - width, dim, mode) for i, width, dim in dims))

    return te.compute(shape, element)


def border_index(index: Index, dim: Extent, mode: str) -> PrimExpr:
    """Return the index of the element that an index beyond the border repeats."""
    if mode == "reflect":  # the border itself is not repeated
        index = tirx.Select(index < 0, -index, index)
        index = tirx.Select(index >= dim, 2 * dim - 2 - index, index)
    return tirx.max(tirx.min(index, dim - 1), tirx.const(0, "int64"))


def _mirror_pad(attrs: Attrs, data: Tensor) -> Tensor:
    widths = attrs["pad_width"]
    assert isinstance(widths, tuple)
    pairs = [integers(pair) for pair in widths]
    return topi.nn.mirror_pad(data, [a for a, _ in pairs], [b for _, b in pairs], str(attrs["mode"]))


RULES.update({"nn.pad": _pad, "nn.mirror_pad": te_of(_mirror_pad)})
