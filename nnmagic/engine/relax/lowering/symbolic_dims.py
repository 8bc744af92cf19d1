"""Lower the dimensions of Relay types to TIR variables, one for each label of a function."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from tvm import relax, tirx

from nnmagic.engine.relax.analysis.dim_labels import label_of, size_of
from nnmagic.engine.relax.tir.builders import expr
from nnmagic.relay.types import Dim, TensorType


class SymbolicDims:
    """The symbolic variables of one function: one for each label, a fresh one for each ``?``."""

    def __init__(self) -> None:
        self._by_label: dict[str, Any] = {}
        self._fresh = 0

    def declare(self, tensors: Iterable[TensorType]) -> None:
        """Takes the names that stand alone in the parameters: what is computed of them needs them first."""
        for type_ in tensors:
            for dim in type_.shape:
                if (label_of(dim) or "").isidentifier():
                    self.lower(dim)

    def lower(self, dim: Dim) -> Any:
        """A dimension as a TIR expression."""
        if isinstance(dim, int):
            return int(dim)
        label = label_of(dim)
        if label is None:
            return self.fresh()
        found = size_of(dim, self._by_label, expr)
        if found is None:
            found = self._by_label[label] = tirx.Var(re.sub(r"\W+", "_", label), "int64")
        return found

    def fresh(self) -> Any:
        """A variable that nothing else uses."""
        self._fresh += 1
        return tirx.Var(f"dim{self._fresh}", "int64")

    def tensor(self, type_: TensorType) -> Any:
        """A tensor type as a Relax type."""
        return relax.TensorType([self.lower(dim) for dim in type_.shape], type_.dtype)

    def result(self, type_: TensorType) -> Any:
        """A tensor type of a result: without its shape where the parameters do not determine that."""
        known = all(size_of(dim, self._by_label, expr) is not None for dim in type_.shape)
        return self.tensor(type_) if known else relax.TensorType(dtype=type_.dtype, ndim=len(type_.shape))
