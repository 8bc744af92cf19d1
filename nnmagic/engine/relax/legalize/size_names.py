"""Bind sizes whose arithmetic is not simple to variables, which kernels use in their place.

TVM analyses the sizes of every kernel; the choices in them would multiply from operator to operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tvm_ffi
from tvm import relax, tirx

from nnmagic.engine.relax.runtime.callbacks import SHAPE_TO_NAME, SIZES_NAMED
from nnmagic.engine.relax.schedules.kernel_analysis import substitute
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, Var

#: The most names that are replaced in a size by what they stand for.
_MOST_EXPANDED = 32


class SizeNames:
    """The names of sizes, by the blocks in which they are defined: the innermost comes last."""

    def __init__(self) -> None:
        self._blocks: list[dict[object, object]] = [{}]
        self._sizes: dict[Var, PrimExpr] = {}

    @contextmanager
    def block(self) -> Iterator[None]:
        """Forget at the end the names that are defined inside."""
        self._blocks.append({})
        try:
            yield
        finally:
            self._blocks.pop()

    def name(self, builder: relax.BlockBuilder, size: Extent) -> Var:
        """Return the name of a size, which is defined in the current block unless an equal one has one."""
        key = tvm_ffi.StructuralKey(size)
        variable = self.find(key)
        if variable is None:
            variable = tirx.Var("size", "int64")
            self.define(key, variable)
            self._sizes[variable] = size
            # A call that TVM does not know: it would put the arithmetic back for the name.
            function = relax.ExternFunc(SHAPE_TO_NAME)
            shape = relax.Call(function, [relax.ShapeExpr([size])], ty_args=[relax.ShapeType(ndim=1)])
            define_sizes(builder, builder.emit(shape), [variable])
        return variable

    def find(self, key: object) -> Any:
        """Return what the current block, or one around it, defines for a key; None if there is nothing."""
        return next((names[key] for names in self._blocks if key in names), None)

    def define(self, key: object, value: object) -> None:
        """Keep what the current block defines for a key."""
        self._blocks[-1][key] = value

    def expand(self, size: Extent) -> Extent | None:
        """Return a size without the names that are defined here; None where that is a large expression."""
        count = 0
        while not isinstance(size, int):
            names = [var for var in tirx.analysis.undefined_vars(tirx.Evaluate(size)) if var in self._sizes]
            count += len(names)
            if not names:
                break
            if count > _MOST_EXPANDED:
                return None
            size = substitute(size, {var: self._sizes[var] for var in names})
        return size


def define_sizes(builder: relax.BlockBuilder, shape: relax.Expr, variables: Sequence[Var]) -> None:
    """Bind dimensions to the sizes of a shape."""
    named = builder.match_cast(shape, relax.ShapeType(list(variables)))
    # The call keeps the binding alive: nothing else uses its value.
    builder.emit(relax.Call(relax.ExternFunc(SIZES_NAMED), [named], ty_args=[relax.TupleType([])]))
