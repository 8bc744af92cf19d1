"""Lower the dimensions of Relay types to TIR variables, one for each label of a function."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tvm import relax, tirx

from nnmagic.engine.relax.analysis.dim_labels import label_of, size_of
from nnmagic.engine.relax.legalize.sizes import simplify
from nnmagic.engine.relax.legalize.types import RelaxType
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, Var
from nnmagic.relay.types import Dim, TensorType


class SymbolicDims:
    """Map the dimensions of one function to variables: one for each label, a fresh one for each ``?``.

    ``sizes``: those of the labels that have one already.
    """

    def __init__(self, sizes: Mapping[str, Extent] | None = None) -> None:
        self._by_label: dict[str, Extent] = dict(sizes or {})
        self._fresh = 0

    def declare(self, tensors: Iterable[TensorType]) -> None:
        """Declare the names that are dimensions of the parameters, before expressions of them are lowered."""
        for type_ in tensors:
            for dim in type_.shape:
                if (label_of(dim) or "").isidentifier():
                    self.lower(dim)

    def define(self, label: str, size: Extent) -> None:
        """Define a name as an expression of others."""
        self._by_label[label] = simplify(size)

    def lower(self, dim: Dim) -> Extent:
        """Lower a dimension to an int or a TIR expression."""
        if isinstance(dim, int):
            return int(dim)
        label = label_of(dim)
        if label is None:
            return self.fresh()
        size = size_of(dim, self._by_label, as_expr)
        if size is not None:
            return simplify(size)
        variable = self._by_label[label] = tirx.Var(re.sub(r"\W+", "_", label), "int64")
        return variable

    def fresh(self) -> Var:
        """Return a new variable."""
        self._fresh += 1
        return tirx.Var(f"dim{self._fresh}", "int64")

    def tensor_type(self, type_: TensorType) -> RelaxType:
        """Lower a tensor type."""
        return relax.TensorType([self.lower(dim) for dim in type_.shape], type_.dtype)

    def result_type(self, type_: TensorType) -> RelaxType:
        """Lower the type of a result, without its shape where the parameters do not determine that."""
        determined = all(size_of(dim, self._by_label, as_expr) is not None for dim in type_.shape)
        if determined:
            return self.tensor_type(type_)
        return relax.TensorType(dtype=type_.dtype, ndim=len(type_.shape))
