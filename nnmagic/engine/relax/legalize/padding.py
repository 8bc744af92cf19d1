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
    mode = str(call.attrs["pad_mode"])
    if mode not in PAD_MODES:
        call.refuse(f"pad_mode must be one of {', '.join(PAD_MODES)}, not {mode!r}")

    def compute(x: Tensor, *fill: Tensor) -> Tensor:
        shape = _padded_shape(x, before, after)
        return pad_to(x, before, shape, mode, *(number() for number in fill))

    return call.te(compute, data, *([value] if mode == "constant" else []))


def _padded_shape(data: Tensor, before: Sequence[Extent], after: Sequence[Extent]) -> list[Extent]:
    return [a + dim + b for a, dim, b in zip(before, data.shape, after, strict=True)]


def pad_with(data: Tensor, before: Sequence[Extent], after: Sequence[Extent], fill: PrimExpr) -> Tensor:
    """Pad with one value; negative widths crop."""
    return pad_to(data, before, _padded_shape(data, before, after), "constant", fill)


def pad_to(
    data: Tensor,
    before: Sequence[Extent],
    shape: Sequence[Extent],
    mode: str,
    fill: PrimExpr | None = None,
) -> Tensor:
    """Pad to a shape, with one value or by one of the other modes."""

    def element(*index: Index) -> PrimExpr:
        where = [i - width for i, width in zip(index, before, strict=True)]
        if fill is None or mode != "constant":
            return data(*(border_index(i, dim, mode) for i, dim in zip(where, data.shape, strict=True)))
        inside = [tirx.all(i >= 0, i < dim) for i, dim in zip(where, data.shape, strict=True)]
        return (
            tirx.if_then_else(tirx.all(*inside), data(*where), fill.astype(data.dtype)) if inside else data()
        )

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
