"""Plan the control flow of a function: its loop, its branches and the sizes that they decide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir, relax, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.planning.arrays import (
    ANALYZER,
    Planned,
    PlannedShape,
    UnsupportedError,
    bindings_of,
    evaluate,
    forwarding_position,
    has_shape,
    with_sizes,
)
from nnmagic.engine.relax.codegen.aot.planning.calls import CallPlanner
from nnmagic.engine.relax.codegen.aot.program import Value as NativeValue
from nnmagic.engine.relax.lowering.module import LOOP
from nnmagic.engine.relax.schedules.kernel_analysis import Stage
from nnmagic.engine.relax.tir.builders import as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, RelaxExpr, Var
from nnmagic.relay.structure.tuple_trees import flatten


class FunctionPlanner(CallPlanner):
    """Plans the body of one function."""

    def plan(self) -> None:
        """Plan the body."""
        parameters = iter(self.native.parameters)
        for param in self.function.params:
            if isinstance(param.ty, relax.ShapeType):
                self.values[param] = ()
            else:
                self.values[param] = next(parameters)
        self._plan_tail(self.native.body, self.function.body)

    # Regions

    def _plan_tail(self, region: aot.Region, sequence: RelaxExpr) -> None:
        """Plan what ends the function."""
        bindings = bindings_of(sequence)
        last = forwarding_position(bindings, sequence.body, self.var)
        for binding in bindings if last is None else bindings[:last]:
            self._bind(region, binding)
        if last is None:
            results = tuple(flatten(self._operand(sequence.body)))
            if len(results) != len(self.native.results):
                raise UnsupportedError
            arrays = list(flatten(self._arrays_of(sequence.body)))
            measured = self._measure(arrays)
            if self.native.named or self.native.result_dims:
                wanted = [with_sizes(array, measured) for array in self.native.results]
                self._require_shapes(region, arrays, wanted)
            if self.native.result_dims:
                results = self._store_measured(region, results, arrays)
            region.append(aot.Exit(results, tuple(measured[dim] for dim in self.native.result_dims)))
            return
        value = bindings[last].value
        if isinstance(value, relax.If):
            then, other = self._branches(value)
            branch = aot.Branch(self._condition(value.cond), [], [])
            region.append(branch)
            self._plan_tail(branch.then, then)
            self._plan_tail(branch.other, other)
            return
        self.native.loops = True
        self.native.counts_rounds = LOOP not in (self.function.attrs or {})
        args = [self._operand(arg) for arg in value.args if not isinstance(arg, relax.ShapeExpr)]
        arrays = [self._array_of(arg) for arg in value.args if not isinstance(arg, relax.ShapeExpr)]
        sizes = self._carry_sizes(region, arrays, self._given_sizes(value, self.function))
        pairs = [
            (param, self._in_memory(region, arg, array) if isinstance(param, aot.Storage) else arg)
            for param, arg, array in zip(self.native.parameters, args, arrays, strict=True)
        ]
        # Parameters that stay what they are need no assignment, and count as invariant in the
        # passes that follow.
        assigned = aot.Assign(tuple((param, arg) for param, arg in pairs if param is not arg))
        region.append(aot.NextRound(assigned, sizes))

    def _carry_sizes(
        self, region: aot.Region, arrays: Sequence[aot.Array], sizes: dict[Var, PrimExpr]
    ) -> tuple[tuple[Var, PrimExpr], ...]:
        """Return the dimensions that the next round of a loop has anew, with what they become.

        ``sizes``: those that it is given without an array that has them.
        """
        for array, result_type in zip(arrays, self.native.arrays, strict=True):
            if array.dtype != result_type.dtype or len(array.shape) != len(result_type.shape):
                raise UnsupportedError
            for size, dim in zip(array.shape, result_type.shape, strict=True):
                if isinstance(dim, tirx.Var):
                    self._require_size(region, size, sizes.setdefault(dim, as_expr(size)))
                else:
                    self._require_size(region, size, dim)
        changed = {
            dim: size for dim, size in sizes.items() if not ANALYZER.can_prove_equal(as_expr(dim), size)
        }
        self.native.carried_dims.update(changed)
        return tuple(changed.items())

    def _measure(self, arrays: Sequence[Planned]) -> dict[Var, PrimExpr]:
        """Return what the sizes of the function's results are that it measures."""
        measured: dict[Var, PrimExpr] = {}
        for array, result in zip(arrays, self.native.results, strict=True):
            if isinstance(array, aot.Array) and len(array.shape) == len(result.shape):
                for size, dim in zip(array.shape, result.shape, strict=True):
                    if isinstance(dim, tirx.Var) and dim in self.native.result_dims:
                        measured[dim] = as_expr(size)
        if len(measured) != len(self.native.result_dims):
            raise UnsupportedError
        return measured

    def _store_measured(
        self, region: aot.Region, results: Sequence[NativeValue], arrays: Sequence[aot.Array]
    ) -> tuple[NativeValue, ...]:
        """Put results whose sizes are measured into memory."""
        measured = self.native.measured_results()
        return tuple(
            self._in_memory(region, value, array) if number in measured else value
            for number, (value, array) in enumerate(zip(results, arrays, strict=True))
        )

    # Bindings

    def _bind(self, region: aot.Region, binding: RelaxExpr) -> None:
        if isinstance(binding, relax.MatchCast):
            self._match_cast(region, binding)
            return
        if isinstance(binding.value, relax.If):
            planned, self.arrays[binding.var] = self._plan_if(region, binding.value)
            self.values[binding.var] = planned
            return
        if not isinstance(binding.value, ir.Call):
            self.arrays[binding.var] = evaluate(binding.value, self.arrays)
        self.values[binding.var] = self._value(region, binding)

    def _match_cast(self, region: aot.Region, binding: relax.MatchCast) -> None:
        """Name dimensions: those of an array, which are known, those of a shape, or those in a vector."""
        if isinstance(binding.ty, relax.ShapeType):
            dims = tuple(binding.ty.values)
            if not all(isinstance(dim, tirx.Var) for dim in dims):
                raise UnsupportedError
            value = self._value(region, binding)
            if isinstance(value, PlannedShape):
                region.extend(map(aot.DefineSize, dims, value.sizes))
            elif isinstance(value, aot.Register | aot.Immediate | aot.Storage):
                region.append(aot.NameSizes(dims, value, self.bounds.get(value)))
            else:
                raise UnsupportedError
            self.native.named.update(dict.fromkeys(dims))
            self.values[binding.var] = ()
            return
        self.arrays[binding.var] = self._name_dims(binding.ty, self._arrays_of(binding.value))
        self.values[binding.var] = self._value(region, binding)

    def _name_dims(self, type_: ir.Type, arrays: Planned) -> Planned:
        """Name the dimensions of a type that arrays are cast to, and return its arrays."""
        if isinstance(type_, relax.TupleType):
            parts = arrays if isinstance(arrays, tuple) else [None] * len(type_.fields)
            return tuple(map(self._name_dims, type_.fields, parts))
        if not has_shape(type_):
            return arrays
        sizes = arrays.shape if isinstance(arrays, aot.Array) else [None] * len(type_.shape.values)
        for dim, size in zip(type_.shape.values, sizes, strict=True):
            if isinstance(dim, tirx.Var) and dim not in self.sizes and not self._is_own(dim):
                if size is None:
                    raise UnsupportedError
                self.sizes[dim] = self._size(size)
        return self._array(type_)

    def _is_own(self, dim: Var) -> bool:
        return dim in self.native.named or any(dim.same_as(own) for own in self.native.dims)

    def _branches(self, value: relax.If) -> tuple[RelaxExpr, RelaxExpr]:
        return value.true_branch, value.false_branch

    def _plan_if(self, region: aot.Region, value: relax.If) -> tuple[Planned, Planned]:
        """Plan a branch, and return its value and the arrays of that.

        The value is made of registers and pointers that both sides assign.
        """
        branch = aot.Branch(self._condition(value.cond), [], [])
        outcomes, arrays = [], []
        for inner, sequence in zip((branch.then, branch.other), self._branches(value), strict=True):
            for binding in bindings_of(sequence):
                self._bind(inner, binding)
            outcomes.append(self._operand(sequence.body))
            arrays.append(self._arrays_of(sequence.body))
        region.append(branch)
        pairs: tuple[list[Any], list[Any]] = ([], [])
        planned = self._merge(outcomes[0], outcomes[1], branch, pairs)
        for inner, assignments in zip((branch.then, branch.other), pairs, strict=True):
            if assignments:
                inner.append(aot.Assign(tuple(assignments)))
        named: list[aot.NameSizes] = []
        common = self._merge_arrays(arrays[0], arrays[1], branch, named)
        region += named
        return planned, common

    def _merge_arrays(
        self, lhs: Planned, rhs: Planned, branch: aot.Branch, named: list[aot.NameSizes]
    ) -> Planned:
        """Return the arrays of a branch's value, None where that is not known; name sizes that it decides."""
        if isinstance(lhs, tuple) and isinstance(rhs, tuple):
            pairs = zip(lhs, rhs, strict=True)
            return tuple(self._merge_arrays(one, other, branch, named) for one, other in pairs)
        if not isinstance(lhs, aot.Array) or not isinstance(rhs, aot.Array) or lhs.dtype != rhs.dtype:
            return None
        if len(lhs.shape) != len(rhs.shape):
            return None
        shape: list[Extent] = []
        for one, other in zip(lhs.shape, rhs.shape, strict=True):
            if ANALYZER.can_prove_equal(as_expr(one), as_expr(other)):
                shape.append(one)
                continue
            size, dim = aot.Register("int64", "size"), tirx.Var("size", "int64")
            for inner, extent in ((branch.then, one), (branch.other, other)):
                own = aot.Register("int64", "size")
                inner += [_set_size(own, extent), aot.Assign(((size, own),))]
            named.append(aot.NameSizes((dim,), size))
            self.native.named[dim] = None
            shape.append(dim)
        return aot.Array(lhs.dtype, tuple(shape))

    def _merge(
        self, lhs: Planned, rhs: Planned, branch: aot.Branch, pairs: tuple[list[Any], list[Any]]
    ) -> Planned:
        if isinstance(lhs, tuple) and isinstance(rhs, tuple):
            return tuple(self._merge(a, b, branch, pairs) for a, b in zip(lhs, rhs, strict=True))
        if lhs is rhs:
            return lhs
        if isinstance(lhs, aot.Storage) and isinstance(rhs, aot.Register | aot.Immediate):
            rhs = self._in_memory(branch.other, rhs, aot.Array(rhs.dtype, ()))
        elif isinstance(rhs, aot.Storage) and isinstance(lhs, aot.Register | aot.Immediate):
            lhs = self._in_memory(branch.then, lhs, aot.Array(lhs.dtype, ()))
        target: aot.Register | aot.Storage
        if isinstance(lhs, aot.Storage) and isinstance(rhs, aot.Storage):
            # Neither side is copied: the value of the branch is the address of one of two arrays,
            # like a phi node.
            target = aot.Storage("pointer", -1, lhs.nbytes, sources=[lhs, rhs])
            self.native.pointers.append(target)
        elif isinstance(lhs, aot.Register | aot.Immediate) and isinstance(rhs, aot.Register | aot.Immediate):
            target = aot.Register(lhs.dtype)
        else:
            raise UnsupportedError
        pairs[0].append((target, lhs))
        pairs[1].append((target, rhs))
        return target


def _set_size(register: aot.Register, size: Extent) -> aot.ScalarCode:
    """Return the step that puts a size into a register."""
    buffer = tirx.decl_buffer((), "int64", "size")
    return aot.ScalarCode((Stage((buffer,), (), (), (), (as_expr(size),), None),), {buffer: register}, {}, ())
