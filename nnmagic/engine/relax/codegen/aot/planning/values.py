"""Plan the values of a function: constants, arrays with their sizes, and what fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import ir, relax

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.planning.arrays import (
    ANALYZER,
    Planned,
    PlannedShape,
    UnsupportedError,
    array_numbers,
    array_of_type,
    count_elements,
    evaluate,
    has_shape,
    is_of,
    passed_sizes,
    static_or_key,
)
from nnmagic.engine.relax.codegen.aot.program import Value as NativeValue
from nnmagic.engine.relax.codegen.aot.scalar_code import store_element
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.engine.relax.schedules.kernel_analysis import substitute
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, RelaxExpr, Var

if TYPE_CHECKING:
    from nnmagic.engine.relax.codegen.aot.planner import ProgramPlanner


class ValuePlanner:
    """Says what the values of one function are, and of which sizes.

    sizes: what dimensions that ``match_cast`` names stand for.
    arrays: the arrays, or tuples of them, of branches' values, whose types have lost their sizes.
    bounds: what numbers of elements can be at most.
    """

    def __init__(
        self,
        planner: ProgramPlanner,
        native: aot.NativeFunction,
        function: relax.Function,
        var: ir.GlobalVar | None,
    ) -> None:
        self.planner, self.program = planner, planner.program
        self.native, self.function, self.var = native, function, var
        self.values: dict[RelaxExpr, Planned] = {}
        self.arrays: dict[RelaxExpr, Planned] = {}
        self.sizes: dict[Var, PrimExpr] = {}
        self.bounds: dict[NativeValue, Extent] = {}
        self.in_place = planner.in_place[var]
        #: The numbers of the parameters among those that are no shapes.
        self.native.changed = array_numbers(function, self.in_place)

    def _leaf(self, expr: RelaxExpr) -> NativeValue:
        value = self._operand(expr)
        if not isinstance(value, aot.Register | aot.Immediate | aot.Storage):
            raise UnsupportedError
        return value

    def _operand(self, expr: RelaxExpr) -> Planned:
        if isinstance(expr, ir.GenericConst):
            return self._constant(expr)
        if isinstance(expr, relax.ShapeExpr):
            return PlannedShape(tuple(map(self._size, expr.values)))
        return evaluate(expr, self.values, self._operand)

    def _condition(self, expr: RelaxExpr) -> aot.Register | aot.Immediate:
        condition = self._operand(expr)
        if not isinstance(condition, aot.Register | aot.Immediate):
            raise UnsupportedError
        return condition

    def _constant(self, expr: RelaxExpr) -> aot.Immediate | aot.Storage:
        data = as_array(expr.value)
        array = array_of_type(expr.ty)
        self.program.constants.append(data)
        number = len(self.program.constants) - 1
        if isinstance(self.planner.place(array), aot.Register):
            value: Any = np.asarray(data).reshape(()).item()
            return aot.Immediate(array.dtype, value, number)
        return aot.Storage("constant", number, 0)

    def _array_of(self, expr: RelaxExpr) -> aot.Array:
        known = evaluate(expr, self.arrays)
        array = known if isinstance(known, aot.Array) else self._array(expr.ty)
        for extent in array.shape:
            key = static_or_key(extent)
            if key not in self.native.extents and is_of(extent, self.native.dims):
                self.native.extents[key] = extent
        if len(array.shape) > 1:
            key = tuple(static_or_key(extent) for extent in array.shape)
            if key not in self.native.counts and all(
                is_of(extent, self.native.dims) for extent in array.shape
            ):
                self.native.counts[key] = count_elements(array)
        return array

    def _arrays_of(self, expr: RelaxExpr) -> Planned:
        """Return the array of a value, or the arrays of a tuple; None where sizes are not known."""
        if isinstance(expr, relax.Tuple):
            return tuple(map(self._arrays_of, expr.fields))
        arrays = evaluate(expr, self.arrays)
        if arrays is not None:
            return arrays
        if isinstance(expr.ty, relax.TupleType):
            return tuple(self._array(field) if has_shape(field) else None for field in expr.ty.fields)
        return self._array(expr.ty) if has_shape(expr.ty) else None

    def _array(self, type_: ir.Type) -> aot.Array:
        array = array_of_type(type_)
        return aot.Array(array.dtype, tuple(aot.static_or_expr(self._size(dim)) for dim in array.shape))

    def _size(self, size: int | PrimExpr) -> PrimExpr:
        expr = as_expr(size) if isinstance(size, int) else size
        return substitute(expr, self.sizes) if self.sizes else expr

    def _truth(self, condition: RelaxExpr) -> aot.Register | aot.Immediate | PrimExpr:
        if isinstance(condition.ty, ir.PrimType):
            return self._size(getattr(condition, "value", condition))
        return self._condition(condition)

    def _failure(self, failure: list[Any]) -> int:
        """Return the number of a possible failure."""
        if failure not in self.program.failures:
            self.program.failures.append(failure)
        return self.program.failures.index(failure)

    def _in_memory(self, region: aot.Region, value: NativeValue, array: aot.Array) -> aot.Storage:
        """Return where a value is in memory: a function has arrays of named sizes there.

        Here such an array may be a single element in a register.
        """
        if isinstance(value, aot.Storage):
            return value
        stored = aot.Storage("temporary", -1, array.nbytes)
        region.append(store_element(value, stored))
        return stored

    def _require_shapes(
        self, region: aot.Region, arrays: Iterable[Planned], wanted: Iterable[aot.Array]
    ) -> None:
        """Have arrays of certain shapes: sizes of which that is not known are compared at run time."""
        for array, result_type in zip(arrays, wanted, strict=True):
            if (
                not isinstance(array, aot.Array)
                or array.dtype != result_type.dtype
                or len(array.shape) != len(result_type.shape)
            ):
                raise UnsupportedError
            for size, expected in zip(array.shape, result_type.shape, strict=True):
                self._require_size(region, size, expected)

    def _require_size(self, region: aot.Region, size: Extent, expected: Extent) -> None:
        """Have two sizes be equal."""
        # Known while planning: no code. Static sizes that differ are a program that this path does
        # not support; all others are compared by the machine code.
        if ANALYZER.can_prove_equal(as_expr(size), as_expr(expected)):
            return
        if isinstance(size, int) and isinstance(expected, int):
            raise UnsupportedError
        number = self._failure(["required", f"@{self.native.name}: the sizes of two arrays differ"])
        region.append(aot.Check(number, as_expr(size) == as_expr(expected)))

    def _given_sizes(self, call: RelaxExpr, function: relax.Function) -> dict[Var, PrimExpr]:
        """Return the sizes that a call gives a function without an array that has them."""
        sizes: dict[Var, PrimExpr] = {}
        for param, arg in zip(function.params, call.args, strict=True):
            if dims := passed_sizes(param):
                if not isinstance(arg, relax.ShapeExpr):
                    raise UnsupportedError
                sizes |= dict(zip(dims, map(self._size, arg.values), strict=True))
        return sizes
