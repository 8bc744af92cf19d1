"""Describe the kernels of windows on blocked channels: their axes, operands and parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from nnmagic.engine.relax.schedules.convolution.windows import Axis
from nnmagic.engine.relax.schedules.fusion_analysis import FusedKernel
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Buffer, Index, PrimExpr


@dataclass(frozen=True, slots=True)
class Channels:
    """The channels of the data and of the result, in groups.

    data, result: how many channels in all. axis: the data's axis of channels, -1 if they are blocked.
    """

    groups: int
    data: int
    result: int
    axis: int

    @property
    def per_group(self) -> int:
        """Return how many channels of the data a group has."""
        return self.data // self.groups

    @property
    def results_per_group(self) -> int:
        """Return how many channels of the result a group has."""
        return self.result // self.groups

    @property
    def lanewise(self) -> bool:
        """Return whether each lane of the result reads only the same lane of the data."""
        return self.groups == self.data == self.result and self.axis < 0 and self.groups > 1

    def image(self, shape: Sequence[PrimExpr]) -> list[PrimExpr]:
        """Return the sizes of the images among those of the data."""
        others = (0, self.axis) if self.axis >= 0 else (0, 1, len(shape) - 1)
        return [size for number, size in enumerate(shape) if number not in others]

    def source(self, o: PrimExpr, k: PrimExpr) -> PrimExpr:
        """Return the ``k``-th channel of the data that the result's channel ``o`` reads."""
        if self.groups == 1:
            return k
        results = self.results_per_group
        group = tirx.min(o if results == 1 else o // results, as_expr(self.groups - 1))
        return group if self.per_group == 1 else group * self.per_group + k


@dataclass(frozen=True, slots=True)
class WindowKernel:
    """A kernel that moves windows over images.

    weight: None for pooling. lanes: the channels of a block of the result. largest: pooling takes the
    maximum, not the sum. padded: zeros of the padding are multiplied with the weights.
    """

    fused: FusedKernel
    data: Buffer
    weight: Buffer | None
    axes: tuple[Axis, ...]
    channels: Channels
    lanes: int
    dtype: str
    largest: bool = False
    padded: bool = False

    def combine(self, total: PrimExpr, value: PrimExpr) -> PrimExpr:
        """Add a value to a total, or take the larger; NaN stays."""
        if not self.largest:
            return total + value
        return tirx.Select(tirx.any(total > value, tirx.isnan(total)), total, value)

    @property
    def initial(self) -> float:
        """Return the total of no values."""
        return float("-inf") if self.largest else 0.0

    def element(self, image: PrimExpr, channel: PrimExpr, indices: Sequence[Index]) -> PrimExpr:
        """Load an element of the data from the layout that it has."""
        if self.channels.axis < 0:
            return tirx.BufferLoad(self.data, [image, channel // self.lanes, *indices, channel % self.lanes])
        index = [image, *indices]
        index.insert(self.channels.axis, channel)
        return tirx.BufferLoad(self.data, index)
