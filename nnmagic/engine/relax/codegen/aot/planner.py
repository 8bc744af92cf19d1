"""Plan an AOT program from a fused Relax module: functions of kernel calls, branches, checks and loops."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.destructive_updates import (
    changed_in_place,
    single_store,
    update_in_place,
)
from nnmagic.engine.relax.codegen.aot.in_place import InPlacePlan, plan_in_place
from nnmagic.engine.relax.codegen.aot.late_values import compute_late_values_last
from nnmagic.engine.relax.codegen.aot.linear_recursion import find_linear_recursion
from nnmagic.engine.relax.codegen.aot.loop_versions import version_loops
from nnmagic.engine.relax.codegen.aot.memory import plan_memory
from nnmagic.engine.relax.codegen.aot.parallel_loops import changes_one_element, why_serial
from nnmagic.engine.relax.codegen.aot.program import Value as NativeValue
from nnmagic.engine.relax.codegen.aot.ranges import decide_checks
from nnmagic.engine.relax.codegen.aot.scalar_code import load_element, read_scalar_stages, store_element
from nnmagic.engine.relax.codegen.aot.size_text import NoSizeError
from nnmagic.engine.relax.codegen.aot.views import point_at_parts
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.legalize.counted_results import COUNTS_ELEMENTS
from nnmagic.engine.relax.legalize.extern_loops import COPIES_RESULT
from nnmagic.engine.relax.legalize.kernel_cache import IS_RESHAPE, has_reshape_order
from nnmagic.engine.relax.lowering.module import (
    CALL_DEPTH,
    KERNEL_FUNCTION,
    LOOP,
    PARALLEL_LOOP,
    UNLIMITED,
)
from nnmagic.engine.relax.lowering.origins import IN_PLACE
from nnmagic.engine.relax.runtime.callbacks import (
    ASSERTED,
    INDEX_IN_RANGE,
    REQUIRED,
    SHAPE_TO_NAME,
    SHAPES_FIT,
    SIZES_NAMED,
)
from nnmagic.engine.relax.runtime.tensors import as_array
from nnmagic.engine.relax.runtime.vm_executable import TOO_DEEP
from nnmagic.engine.relax.schedules.kernel_analysis import Stage, substitute
from nnmagic.engine.relax.tir.builders import as_expr, dtype_of
from nnmagic.engine.relax.tir.regions import expand_regions
from nnmagic.engine.relax.tir.types import Buffer, Extent, PrimExpr, PrimFunc, RelaxExpr, Var
from nnmagic.relay.structure.tuple_trees import flatten

#: The dtypes of single elements that live in registers.
_REGISTER_DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
)

_CALL_TIR = ir.Op.get("relax.call_tir")
_RESHAPE = ir.Op.get("relax.reshape")
_TENSOR_TO_SHAPE = ir.Op.get("relax.tensor_to_shape")

#: What a Relax expression is while it is planned: a value, a tuple of them, or a shape.
_Planned: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class _Shape:
    """A shape that is a value of its own."""

    sizes: tuple[PrimExpr, ...]


class _UnsupportedError(Exception):
    """A part of a program cannot be native."""


class SerialLoopError(Exception):
    """The rounds of a loop that is marked as parallel cannot be; its arguments: the loop, the reason."""


def plan_aot_program(
    module: tvm.IRModule,
    name: str,
    destinations: Mapping[int, int] | None = None,
    *,
    lengths: Sequence[int] = (),
    measured_results: bool = False,
) -> AotProgram | None:
    """Plan the function ``name`` of a fused module; return None where it cannot be machine code alone.

    ``destinations``: the arrays of the caller that it may change, with the results that they are to be then.
    A program that may have to begin anew changes none. ``lengths``: the integers that are lengths of the last
    arrays, both among all arrays. ``measured_results``: whether values may decide the sizes of results.
    """
    try:
        if destinations:
            program = _Planner(module, destinations, lengths=lengths).plan(name)
            if not any(function.recursive or function.counts_rounds for function in program.functions):
                return program
        return _Planner(module, {}, lengths=lengths, measured_results=measured_results).plan(name)
    except (_UnsupportedError, NoSizeError):
        return None


def plan_aot_programs(module: tvm.IRModule, names: Iterable[str]) -> list[AotProgram] | None:
    """Plan a program for each of these functions; return None where one cannot be machine code alone."""
    programs = []
    for name in names:
        program = plan_aot_program(module, name)
        if program is None:
            return None
        programs.append(program)
    return programs


class _Planner:
    """The functions of a program that is being planned."""

    def __init__(
        self,
        module: tvm.IRModule,
        destinations: Mapping[int, int],
        *,
        lengths: Sequence[int] = (),
        measured_results: bool = False,
    ) -> None:
        self.module, self.destinations, self.measured_results = module, destinations, measured_results
        self.lengths = lengths
        self.functions: dict[ir.GlobalVar, aot.NativeFunction] = {}
        self.waiting: list[ir.GlobalVar] = []
        self.has_control = False
        self.name = ""
        self.in_place: dict[ir.GlobalVar | None, InPlacePlan] = {}
        self.kernels_in_place: dict[ir.GlobalVar, tuple[int, ir.GlobalVar, PrimFunc]] = {}
        self.updating_kernels: dict[tuple[ir.GlobalVar, int], tuple[ir.GlobalVar, PrimFunc]] = {}
        self.program: AotProgram

    def plan(self, name: str) -> AotProgram:
        function = self.module[name]
        self.has_control = _has_control(self.module, function)
        self.name = name
        arrays = [
            number
            for number, param in enumerate(function.params)
            if not isinstance(param.ty, relax.ShapeType)
        ]
        destinations = {arrays[param]: result for param, result in self.destinations.items()}
        self.in_place = plan_in_place(
            self.module, name, self._holds_element, _forwarding_position, destinations
        )
        self.program = AotProgram(self._declare(name, function, is_entry=True), lengths=self.lengths)
        used = set(relax.analysis.free_vars(function.body))
        given = arrays[: len(self.program.parameters)]
        unread = (number for number, param in enumerate(given) if function.params[param] not in used)
        self.program.unread = list(unread)
        _FunctionPlanner(self, self.program.entry, function, None).plan()
        while self.waiting:
            var = self.waiting.pop()
            _FunctionPlanner(self, self.functions[var], self.module[var], var).plan()
        self.program.functions = _callees_first(list(self.functions.values()))
        decide_checks(self.program)
        compute_late_values_last(self.program)
        point_at_parts(self.program)
        for var, native in self.functions.items():
            native.recursion = find_linear_recursion(native)
            if native.recursion is not None:
                native.recursive = False
                native.counts_rounds = UNLIMITED not in (self.module[var].attrs or {})
        version_loops(self.program)
        if self.program.entry.result_dims:
            _leave_results(self.program.entry)
        for native in self.program.functions:
            if native.loops:
                native.saved = aot.STATE_WORDS + self.program.records
                self.program.records += len(native.parameters)
        for native in [*self.program.functions, self.program.entry]:
            native.state_words = self.program.state_words()
            plan_memory(native)
            if native.parallel is not None and (reason := why_serial(native)) is not None:
                if not changes_one_element(native):
                    raise SerialLoopError(native.name, reason)
                native.parallel = None
        self.program.facts()  # which are to be of dimensions
        return self.program

    def native(self, var: ir.GlobalVar) -> aot.NativeFunction:
        """Return the native function of a Relax function, which may not be planned yet.

        One that measures its results is planned at once: their sizes may turn out to be those of arguments.
        """
        if var not in self.functions:
            self.functions[var] = native = self._declare(var.name_hint, self.module[var])
            if native.result_dims:
                _FunctionPlanner(self, native, self.module[var], var).plan()
                _resolve_results(native)
            else:
                self.waiting.append(var)
        return self.functions[var]

    def _declare(self, name: str, function: relax.Function, *, is_entry: bool = False) -> aot.NativeFunction:
        arrays = [_array(param.ty) for param in function.params if not isinstance(param.ty, relax.ShapeType)]
        dims: dict[Var, None] = {}
        for array in arrays:
            dims |= {dim: None for dim in array.shape if isinstance(dim, tirx.Var)}
        dims |= dict.fromkeys(dim for param in function.params for dim in _passed_sizes(param))
        parameters = [self.place(array, "parameter", number) for number, array in enumerate(arrays)]
        fields = _fields(function.ret_ty)
        known = all(
            _has_shape(field) and all(_is_of(dim, dims) for dim in field.shape.values) for field in fields
        )
        if not known and is_entry and not self.measured_results:
            raise _UnsupportedError  # it depends on values
        results, result_dims = list[aot.Array](), list[Var]()
        for field in fields:
            array, measured = _measured_array(field, dims)
            results.append(array)
            result_dims += measured
        registers = [
            array.dtype if isinstance(self.place(array), aot.Register) else None for array in results
        ]
        native = aot.NativeFunction(name, list(dims), parameters, arrays, results, registers)
        native.result_dims = result_dims
        native.parallel = _reductions(function)
        native.is_kernel = KERNEL_FUNCTION in (function.attrs or {})
        return native

    def _holds_element(self, value: RelaxExpr) -> bool:
        return _has_shape(value.ty) and isinstance(self.place(_array(value.ty)), aot.Register)

    def kernel_in_place(self, var: ir.GlobalVar) -> tuple[int, ir.GlobalVar, PrimFunc]:
        """Return a kernel that changes a copy of an operand without that copy, and the operand's number."""
        if var not in self.kernels_in_place:
            changing = changed_in_place(self.module[var])
            assert changing is not None
            number, kernel = changing
            name = ir.GlobalVar(f"{var.name_hint}{IN_PLACE}{self.name}")
            self.kernels_in_place[var] = (number, name, kernel)
        return self.kernels_in_place[var]

    def updating_kernel(self, var: ir.GlobalVar, number: int) -> tuple[ir.GlobalVar, PrimFunc]:
        """Return an element-wise kernel that finds an operand in its result."""
        if (var, number) not in self.updating_kernels:
            name = ir.GlobalVar(f"{var.name_hint}{IN_PLACE}{self.name}_{number}")
            self.updating_kernels[var, number] = name, update_in_place(self.module[var], number)
        return self.updating_kernels[var, number]

    def place(
        self, array: aot.Array, kind: str = "temporary", number: int = -1
    ) -> aot.Register | aot.Storage:
        """Return a new register or new storage for an array."""
        if self.has_control and array.is_element and array.dtype in _REGISTER_DTYPES:
            return aot.Register(array.dtype)
        return aot.Storage(kind, number, array.nbytes)


def _measured_array(type_: ir.Type, dims: Container[Var]) -> tuple[aot.Array, list[Var]]:
    """Return the array of a type, new names for sizes other than these dimensions, and these."""
    if not isinstance(type_, relax.TensorType) or type_.ndim < 0:
        raise _UnsupportedError
    shape = type_.shape.values if _has_shape(type_) else [None] * type_.ndim
    sizes: list[Extent] = []
    measured: list[Var] = []
    for dim in shape:
        if dim is not None and _is_of(size := aot.static_or_expr(dim), dims):
            sizes.append(size)
        else:
            measured.append(tirx.Var("measured", "int64"))
            sizes.append(measured[-1])
    return aot.Array(str(type_.dtype.dtype), tuple(sizes)), measured


def _resolve_results(native: aot.NativeFunction) -> None:
    """State the sizes of results that are those of arguments, or constants, in terms of these."""
    exits = [step for step in native.steps() if isinstance(step, aot.Exit)]
    constant = [dim for dim in native.dims if dim not in native.carried_dims]
    resolved: dict[Var, PrimExpr] = {}
    for number, dim in enumerate(native.result_dims):
        sizes = [step.sizes[number] for step in exits]
        if sizes and all(
            _is_of(size, constant) and _ANALYZER.can_prove_equal(size, sizes[0]) for size in sizes
        ):
            resolved[dim] = sizes[0]
    native.results = [_with_sizes(array, resolved) for array in native.results]
    positions = [number for number, dim in enumerate(native.result_dims) if dim not in resolved]
    native.result_dims = [native.result_dims[number] for number in positions]
    if set(native.measured_results()) & set(native.changed):
        raise _UnsupportedError
    _replace_exits(
        native, lambda step: replace(step, sizes=tuple(step.sizes[number] for number in positions))
    )


def _leave_results(entry: aot.NativeFunction) -> None:
    """Have an entry leave the results whose sizes values decide where they are.

    It takes an array instead for the address and the sizes of each.
    """
    entry.left = entry.measured_results()
    entry.all_results = entry.results
    words = sum(1 + len(entry.results[number].shape) for number in entry.left)
    given = [array for number, array in enumerate(entry.results) if number not in entry.left]
    entry.results = [*given, aot.Array("int64", (words,))]


def _set_size(register: aot.Register, size: Extent) -> aot.ScalarCode:
    """Return the step that puts a size into a register."""
    buffer = tirx.decl_buffer((), "int64", "size")
    return aot.ScalarCode((Stage((buffer,), (), (), (), (as_expr(size),), None),), {buffer: register}, {}, ())


def _replace_exits(function: aot.NativeFunction, change: Callable[[aot.Exit], aot.Exit]) -> None:
    """Replace the ends of a function."""
    for region in aot.regions_of(function.body):
        region[:] = [change(step) if isinstance(step, aot.Exit) else step for step in region]


def _reductions(function: relax.Function) -> dict[int, str] | None:
    """Return the numbers of what a parallel loop reduces to, with the operators; None of another function."""
    text = (function.attrs or {}).get(PARALLEL_LOOP)
    if text is None:
        return None
    return {int(number): operator for number, operator in json.loads(str(text)).items()}


def _has_control(module: tvm.IRModule, entry: relax.Function) -> bool:
    """Return whether the entry of a program holds more than calls of kernels."""
    control: list[RelaxExpr] = []

    def look(node: RelaxExpr) -> None:
        if isinstance(node, relax.If | relax.ExternFunc) or (
            isinstance(node, ir.Call)
            and isinstance(node.op, ir.GlobalVar)
            and isinstance(module[node.op], relax.Function)
        ):
            control.append(node)

    relax.analysis.post_order_visit(entry, look)
    return bool(control)


def _callees_first(functions: Sequence[aot.NativeFunction]) -> list[aot.NativeFunction]:
    """Sort functions so that callees come first, and mark those that call themselves."""
    callees = {
        function: [step.callee for step in function.steps() if isinstance(step, aot.FunctionCall)]
        for function in functions
    }
    order: dict[aot.NativeFunction, None] = {}
    for root in functions:
        path: dict[aot.NativeFunction, Iterator[aot.NativeFunction]] = {}
        work = [root] if root not in order else []
        while work:
            function = work[-1]
            rest = path.setdefault(function, iter(callees[function]))
            callee = next(rest, None)
            if callee is None:
                order[function] = None
                del path[function]
                work.pop()
            elif callee in path:  # a cycle: all of it may hold several frames at a time
                cycle = list(path)[list(path).index(callee) :]
                for member in cycle:
                    member.recursive = True
            elif callee not in order:
                work.append(callee)
    return list(order)


class _FunctionPlanner:
    """Plans the body of one function.

    sizes: what dimensions that ``match_cast`` names stand for.
    arrays: the arrays, or tuples of them, of branches' values, whose types have lost their sizes.
    bounds: what numbers of elements can be at most.
    """

    def __init__(
        self,
        planner: _Planner,
        native: aot.NativeFunction,
        function: relax.Function,
        var: ir.GlobalVar | None,
    ) -> None:
        self.planner, self.program = planner, planner.program
        self.native, self.function, self.var = native, function, var
        self.values: dict[RelaxExpr, _Planned] = {}
        self.arrays: dict[RelaxExpr, _Planned] = {}
        self.sizes: dict[Var, PrimExpr] = {}
        self.bounds: dict[NativeValue, Extent] = {}
        self.in_place = planner.in_place[var]
        #: The numbers of the parameters among those that are no shapes.
        self.native.changed = _array_numbers(function, self.in_place)

    def plan(self) -> None:
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
        bindings = _bindings(sequence)
        last = _forwarding_position(bindings, sequence.body, self.var)
        for binding in bindings if last is None else bindings[:last]:
            self._bind(region, binding)
        if last is None:
            results = tuple(flatten(self._operand(sequence.body)))
            if len(results) != len(self.native.results):
                raise _UnsupportedError
            arrays = list(flatten(self._arrays_of(sequence.body)))
            measured = self._measure(arrays)
            if self.native.named or self.native.result_dims:
                wanted = [_with_sizes(array, measured) for array in self.native.results]
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
        assigned = aot.Assign(tuple((param, arg) for param, arg in pairs if param is not arg))
        region.append(aot.NextRound(assigned, sizes))

    def _given_sizes(self, call: RelaxExpr, function: relax.Function) -> dict[Var, PrimExpr]:
        """Return the sizes that a call gives a function without an array that has them."""
        sizes: dict[Var, PrimExpr] = {}
        for param, arg in zip(function.params, call.args, strict=True):
            if dims := _passed_sizes(param):
                if not isinstance(arg, relax.ShapeExpr):
                    raise _UnsupportedError
                sizes |= dict(zip(dims, map(self._size, arg.values), strict=True))
        return sizes

    def _carry_sizes(
        self, region: aot.Region, arrays: Sequence[aot.Array], sizes: dict[Var, PrimExpr]
    ) -> tuple[tuple[Var, PrimExpr], ...]:
        """Return the dimensions that the next round of a loop has anew, with what they become.

        ``sizes``: those that it is given without an array that has them.
        """
        for array, result_type in zip(arrays, self.native.arrays, strict=True):
            if array.dtype != result_type.dtype or len(array.shape) != len(result_type.shape):
                raise _UnsupportedError
            for size, dim in zip(array.shape, result_type.shape, strict=True):
                if isinstance(dim, tirx.Var):
                    self._require_size(region, size, sizes.setdefault(dim, as_expr(size)))
                else:
                    self._require_size(region, size, dim)
        changed = {
            dim: size for dim, size in sizes.items() if not _ANALYZER.can_prove_equal(as_expr(dim), size)
        }
        self.native.carried_dims.update(changed)
        return tuple(changed.items())

    def _measure(self, arrays: Sequence[_Planned]) -> dict[Var, PrimExpr]:
        """Return what the sizes of the function's results are that it measures."""
        measured: dict[Var, PrimExpr] = {}
        for array, result in zip(arrays, self.native.results, strict=True):
            if isinstance(array, aot.Array) and len(array.shape) == len(result.shape):
                for size, dim in zip(array.shape, result.shape, strict=True):
                    if isinstance(dim, tirx.Var) and dim in self.native.result_dims:
                        measured[dim] = as_expr(size)
        if len(measured) != len(self.native.result_dims):
            raise _UnsupportedError
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

    def _require_shapes(
        self, region: aot.Region, arrays: Iterable[_Planned], wanted: Iterable[aot.Array]
    ) -> None:
        """Have arrays of certain shapes: sizes of which that is not known are compared at run time."""
        for array, result_type in zip(arrays, wanted, strict=True):
            if (
                not isinstance(array, aot.Array)
                or array.dtype != result_type.dtype
                or len(array.shape) != len(result_type.shape)
            ):
                raise _UnsupportedError
            for size, expected in zip(array.shape, result_type.shape, strict=True):
                self._require_size(region, size, expected)

    def _require_size(self, region: aot.Region, size: Extent, expected: Extent) -> None:
        """Have two sizes be equal."""
        if _ANALYZER.can_prove_equal(as_expr(size), as_expr(expected)):
            return
        if isinstance(size, int) and isinstance(expected, int):
            raise _UnsupportedError
        number = self._failure(["required", f"@{self.native.name}: the sizes of two arrays differ"])
        region.append(aot.Check(number, as_expr(size) == as_expr(expected)))

    def _branches(self, value: relax.If) -> tuple[RelaxExpr, RelaxExpr]:
        return value.true_branch, value.false_branch

    def _condition(self, expr: RelaxExpr) -> aot.Register | aot.Immediate:
        condition = self._operand(expr)
        if not isinstance(condition, aot.Register | aot.Immediate):
            raise _UnsupportedError
        return condition

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
            self.arrays[binding.var] = _evaluate(binding.value, self.arrays)
        self.values[binding.var] = self._value(region, binding)

    def _value(self, region: aot.Region, binding: RelaxExpr) -> _Planned:
        """Plan the value of a binding that is no branch."""
        value = binding.value
        match value:
            case ir.Call() if value.op == _CALL_TIR:
                return self._kernel_call(region, value, binding.var)
            case ir.Call() if value.op in (_RESHAPE, _TENSOR_TO_SHAPE):
                return self._operand(value.args[0])
            case ir.Call() if isinstance(value.op, ir.GlobalVar):
                return self._function_call(region, value, binding.var)
            case ir.Call() if isinstance(value.op, relax.ExternFunc):
                return self._check(region, value)
        return self._operand(value)

    def _match_cast(self, region: aot.Region, binding: relax.MatchCast) -> None:
        """Name dimensions: those of an array, which are known, those of a shape, or those in a vector."""
        if isinstance(binding.ty, relax.ShapeType):
            dims = tuple(binding.ty.values)
            if not all(isinstance(dim, tirx.Var) for dim in dims):
                raise _UnsupportedError
            value = self._value(region, binding)
            if isinstance(value, _Shape):
                region.extend(map(aot.DefineSize, dims, value.sizes))
            elif isinstance(value, aot.Register | aot.Immediate | aot.Storage):
                region.append(aot.NameSizes(dims, value, self.bounds.get(value)))
            else:
                raise _UnsupportedError
            self.native.named.update(dict.fromkeys(dims))
            self.values[binding.var] = ()
            return
        self.arrays[binding.var] = self._name_dims(binding.ty, self._arrays_of(binding.value))
        self.values[binding.var] = self._value(region, binding)

    def _name_dims(self, type_: ir.Type, arrays: _Planned) -> _Planned:
        """Name the dimensions of a type that arrays are cast to, and return its arrays."""
        if isinstance(type_, relax.TupleType):
            parts = arrays if isinstance(arrays, tuple) else [None] * len(type_.fields)
            return tuple(map(self._name_dims, type_.fields, parts))
        if not _has_shape(type_):
            return arrays
        sizes = arrays.shape if isinstance(arrays, aot.Array) else [None] * len(type_.shape.values)
        for dim, size in zip(type_.shape.values, sizes, strict=True):
            if isinstance(dim, tirx.Var) and dim not in self.sizes and not self._is_own(dim):
                if size is None:
                    raise _UnsupportedError
                self.sizes[dim] = self._size(size)
        return self._array(type_)

    def _is_own(self, dim: Var) -> bool:
        return dim in self.native.named or any(dim.same_as(own) for own in self.native.dims)

    def _plan_if(self, region: aot.Region, value: relax.If) -> tuple[_Planned, _Planned]:
        """Plan a branch, and return its value and the arrays of that.

        The value is made of registers and pointers that both sides assign.
        """
        branch = aot.Branch(self._condition(value.cond), [], [])
        outcomes, arrays = [], []
        for inner, sequence in zip((branch.then, branch.other), self._branches(value), strict=True):
            for binding in _bindings(sequence):
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
        self, lhs: _Planned, rhs: _Planned, branch: aot.Branch, named: list[aot.NameSizes]
    ) -> _Planned:
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
            if _ANALYZER.can_prove_equal(as_expr(one), as_expr(other)):
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
        self, lhs: _Planned, rhs: _Planned, branch: aot.Branch, pairs: tuple[list[Any], list[Any]]
    ) -> _Planned:
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
            target = aot.Storage("pointer", -1, lhs.nbytes, sources=[lhs, rhs])
            self.native.pointers.append(target)
        elif isinstance(lhs, aot.Register | aot.Immediate) and isinstance(rhs, aot.Register | aot.Immediate):
            target = aot.Register(lhs.dtype)
        else:
            raise _UnsupportedError
        pairs[0].append((target, lhs))
        pairs[1].append((target, rhs))
        return target

    def _kernel_call(self, region: aot.Region, call: RelaxExpr, var: RelaxExpr) -> _Planned:
        kernel, operands, *extra = call.args
        function, type_ = self.planner.module[kernel], var.ty
        outputs = [self._array(field) for field in _fields(type_)]
        arrays: list[aot.Array] = []
        reads: list[NativeValue] = []
        explicit: list[PrimExpr] = []
        for operand in operands.fields:
            if isinstance(operand.ty, ir.PrimType):
                explicit.append(self._size(getattr(operand, "value", operand)))
                continue
            reads.append(self._leaf(operand))
            arrays.append(self._array_of(operand))
        explicit += [self._size(size) for shape in extra for size in shape.values]
        sizes = _bind_sizes(function, [*arrays, *outputs], explicit)
        if len(reads) == 1 and _is_reshape(function, [*arrays, *outputs]):
            return reads[0]
        if COPIES_RESULT in (function.attrs or {}) and _is_own(reads[0]):
            return reads[0]  # the end of the program copies it, where it is not in the memory of the result
        if var in self.in_place.kernels:
            number, _, _ = self.planner.kernel_in_place(kernel)
            if isinstance(reads[number], aot.Storage):
                work = sum((_elements(array) for at, array in enumerate(arrays) if at != number), start=1)
                work = sum(map(_elements, outputs[1:]), start=work)
                more = [self.planner.place(output) for output in outputs[1:]]
                changed = self._change(region, kernel, reads, more, sizes, work)
                return (changed, *more) if more else changed
        if (updated := self.in_place.updates.get(var)) is not None and isinstance(
            reads[updated], aot.Storage
        ):
            return self._update(region, kernel, updated, reads, sizes, _elements(outputs[0]))
        written = [self.planner.place(output) for output in outputs]
        if COUNTS_ELEMENTS in (function.attrs or {}):
            self.bounds |= dict.fromkeys(written, _elements(arrays[0]))
        planned = tuple(written) if isinstance(type_, relax.TupleType) else written[0]
        if all(isinstance(value, aot.Register) for value in written):
            stages = read_scalar_stages(expand_regions(function))
            if stages is not None:
                buffers = [param for param in function.params if isinstance(param.ty, tirx.BufferType)]
                values: dict[Buffer, NativeValue] = dict(zip(buffers, [*reads, *written], strict=True))
                for buffer in (buffer for stage in stages for buffer in stage.writes):
                    values.setdefault(buffer, aot.Register(dtype_of(buffer), buffer.name))
                region.append(aot.ScalarCode(stages, values, sizes, tuple(reads), call.span))
                return planned
        self.program.kernels[kernel] = function
        work = sum((_elements(output) for output in outputs), start=1)
        taken = tuple(sizes[var] for var in aot.kernel_sizes(function))
        called = (*reads, *written)
        region.append(aot.KernelCall(kernel, called, len(reads), taken, work, span=call.span))
        return planned

    def _update(
        self,
        region: aot.Region,
        kernel: ir.GlobalVar,
        number: int,
        reads: Sequence[NativeValue],
        sizes: Mapping[Var, PrimExpr],
        work: Extent,
    ) -> aot.Storage:
        """Plan an element-wise kernel that updates one of its operands in place."""
        name, function = self.planner.updating_kernel(kernel, number)
        changed, others = reads[number], [*reads[:number], *reads[number + 1 :]]
        assert isinstance(changed, aot.Storage)
        self.program.kernels[name] = function
        taken = tuple(sizes[var] for var in aot.kernel_sizes(function))
        region.append(aot.KernelCall(name, (*others, changed), len(reads), taken, work))
        return changed

    def _change(
        self,
        region: aot.Region,
        kernel: ir.GlobalVar,
        reads: Sequence[NativeValue],
        more: Sequence[NativeValue],
        sizes: Mapping[Var, PrimExpr],
        work: Extent,
    ) -> aot.Storage:
        """Plan a kernel that changes its first operand in place; ``more``: its other results."""
        number, name, function = self.planner.kernel_in_place(kernel)
        changed, others = reads[number], [*reads[:number], *reads[number + 1 :]]
        assert isinstance(changed, aot.Storage)
        buffers = [param for param in function.params if isinstance(param.ty, tirx.BufferType)]
        values = dict(zip(buffers, [*others, changed, *more], strict=True))
        store = single_store(function)
        if (
            store is not None
            and not more
            and all(isinstance(other, aot.Register | aot.Immediate) for other in others)
        ):
            indices = tuple(store.indices)
            region.append(aot.StoreElement(changed, store.buffer, indices, store.value, values, dict(sizes)))
            return changed
        self.program.kernels[name] = function
        taken = tuple(sizes[var] for var in aot.kernel_sizes(function))
        region.append(aot.KernelCall(name, (*others, changed, *more), len(reads), taken, work))
        return changed

    def _give(self, region: aot.Region, call: RelaxExpr, var: RelaxExpr) -> list[NativeValue]:
        """Return the arguments of a call; a copy of what the callee changes and is needed here."""
        consumed = self.planner.in_place[call.op].consumed
        given = self.in_place.given.get(var, set())
        args: list[NativeValue] = []
        for number, arg in enumerate(call.args):
            if isinstance(arg, relax.ShapeExpr):
                continue
            value = self._leaf(arg)
            if number in consumed and number not in given and isinstance(value, aot.Storage):
                nbytes = self._array_of(arg).nbytes
                copy = aot.Storage("temporary", -1, nbytes)
                region.append(aot.CopyArray(value, copy, nbytes))
                value = copy
            args.append(value)
        return args

    def _function_call(self, region: aot.Region, call: RelaxExpr, var: RelaxExpr) -> _Planned:
        callee, type_ = self.planner.native(call.op), var.ty
        operands = [arg for arg in call.args if not isinstance(arg, relax.ShapeExpr)]
        args = tuple(
            self._in_memory(region, value, self._array_of(operand))
            if isinstance(param, aot.Storage)
            else value
            for value, operand, param in zip(
                self._give(region, call, var), operands, callee.parameters, strict=True
            )
        )
        sizes = self._given_sizes(call, self.planner.module[call.op])
        for dim, size in _match_dims(callee.arrays, [self._array_of(arg) for arg in operands]).items():
            self._require_size(region, size, sizes.setdefault(dim, size))
        if any(dim not in sizes for dim in callee.dims):
            raise _UnsupportedError
        if self.native.named:
            own = [_with_sizes(array, sizes) for array in callee.arrays]
            self._require_shapes(region, map(self._array_of, operands), own)
        taken = tuple(sizes[dim] for dim in callee.dims)
        result_dims = tuple(tirx.Var("measured", "int64") for _ in callee.result_dims)
        self.native.named.update(dict.fromkeys(result_dims))
        sizes |= dict(zip(callee.result_dims, result_dims, strict=True))
        arrays = [_with_sizes(array, sizes) for array in callee.results]
        places = [self.planner.place(array) for array in arrays]
        results = [
            aot.Storage("temporary", -1, array.nbytes) if register is None else place
            for place, array, register in zip(places, arrays, callee.result_registers, strict=True)
        ]
        for result, number in _array_numbers(
            self.planner.module[call.op], self.planner.in_place[call.op]
        ).items():
            changed = args[number]
            assert isinstance(changed, aot.Storage)
            results[result] = changed
        for value, param in zip(args, callee.parameters, strict=True):
            if isinstance(value, aot.Storage) != isinstance(param, aot.Storage):
                raise _UnsupportedError
        frame = aot.Storage("temporary", -1, 0)
        region.append(aot.FunctionCall(callee, taken, args, tuple(results), frame, result_dims))
        for at, (filled, place) in enumerate(zip(results, places, strict=True)):
            if isinstance(filled, aot.Storage) and isinstance(place, aot.Register):
                region.append(load_element(filled, place))
                results[at] = place
        is_tuple = isinstance(type_, relax.TupleType)
        # The type has lost its sizes where an argument is the value of a branch.
        self.arrays[var] = tuple(arrays) if is_tuple else arrays[0]
        return tuple(results) if is_tuple else results[0]

    def _in_memory(self, region: aot.Region, value: NativeValue, array: aot.Array) -> aot.Storage:
        """Return where a value is in memory: a function has arrays of named sizes there.

        Here such an array may be a single element in a register.
        """
        if isinstance(value, aot.Storage):
            return value
        stored = aot.Storage("temporary", -1, array.nbytes)
        region.append(store_element(value, stored))
        return stored

    def _check(self, region: aot.Region, call: RelaxExpr) -> _Planned:
        name, args = str(call.op.global_symbol), list(call.args)
        match name:
            case _ if name == REQUIRED:
                condition, message, *operator = args
                texts = [str(text.value) for text in (message, *operator)]
                if texts == [TOO_DEEP]:
                    return ()  # native functions count for themselves
                number = self._failure(["required", *texts])
                region.append(aot.Check(number, self._truth(condition), span=call.span))
            case _ if name == ASSERTED:
                condition, which = args
                number = self._failure(["assertion", int(self._size(which).value)])
                region.append(aot.Check(number, self._truth(condition), span=call.span))
            case _ if name == INDEX_IN_RANGE:
                report, shape = args
                number = self._failure(["index"])
                (size,) = shape.values
                index = self._operand(report)
                if isinstance(index, aot.Register | aot.Immediate):
                    region.append(aot.Check(number, index=index, size=self._size(size), span=call.span))
                else:
                    region.append(aot.Check(number, report=index, size=self._size(size), span=call.span))
            case _ if name == SIZES_NAMED:
                pass
            case _ if name == SHAPE_TO_NAME:
                return self._operand(args[0])
            case _ if name == SHAPES_FIT:
                key, fits, *shapes = args
                sizes = [self._size(dim) for shape in shapes for dim in shape.values]
                ranks = tuple(len(shape.values) for shape in shapes)
                record = aot.STATE_WORDS + self.program.records
                fit = fits if isinstance(fits, tirx.IntImm) else self._size(fits)
                region.append(aot.ShapeCheck(str(key.value), fit, ranks, tuple(sizes), record))
                self.program.records += len(sizes) + 1
            case _:
                raise _UnsupportedError
        return ()

    def _truth(self, condition: RelaxExpr) -> aot.Register | aot.Immediate | PrimExpr:
        if isinstance(condition.ty, ir.PrimType):
            return self._size(getattr(condition, "value", condition))
        return self._condition(condition)

    def _failure(self, failure: list[Any]) -> int:
        """Return the number of a possible failure."""
        if failure not in self.program.failures:
            self.program.failures.append(failure)
        return self.program.failures.index(failure)

    # Values

    def _leaf(self, expr: RelaxExpr) -> NativeValue:
        value = self._operand(expr)
        if not isinstance(value, aot.Register | aot.Immediate | aot.Storage):
            raise _UnsupportedError
        return value

    def _operand(self, expr: RelaxExpr) -> _Planned:
        if isinstance(expr, ir.GenericConst):
            return self._constant(expr)
        if isinstance(expr, relax.ShapeExpr):
            return _Shape(tuple(map(self._size, expr.values)))
        return _evaluate(expr, self.values, self._operand)

    def _constant(self, expr: RelaxExpr) -> aot.Immediate | aot.Storage:
        data = as_array(expr.value)
        array = _array(expr.ty)
        self.program.constants.append(data)
        number = len(self.program.constants) - 1
        if isinstance(self.planner.place(array), aot.Register):
            value: Any = np.asarray(data).reshape(()).item()
            return aot.Immediate(array.dtype, value, number)
        return aot.Storage("constant", number, 0)

    def _array_of(self, expr: RelaxExpr) -> aot.Array:
        known = _evaluate(expr, self.arrays)
        array = known if isinstance(known, aot.Array) else self._array(expr.ty)
        for extent in array.shape:
            key = _static_or_key(extent)
            if key not in self.native.extents and _is_of(extent, self.native.dims):
                self.native.extents[key] = extent
        if len(array.shape) > 1:
            key = tuple(_static_or_key(extent) for extent in array.shape)
            if key not in self.native.counts and all(
                _is_of(extent, self.native.dims) for extent in array.shape
            ):
                self.native.counts[key] = _elements(array)
        return array

    def _arrays_of(self, expr: RelaxExpr) -> _Planned:
        """Return the array of a value, or the arrays of a tuple; None where sizes are not known."""
        if isinstance(expr, relax.Tuple):
            return tuple(map(self._arrays_of, expr.fields))
        arrays = _evaluate(expr, self.arrays)
        if arrays is not None:
            return arrays
        if isinstance(expr.ty, relax.TupleType):
            return tuple(self._array(field) if _has_shape(field) else None for field in expr.ty.fields)
        return self._array(expr.ty) if _has_shape(expr.ty) else None

    def _array(self, type_: ir.Type) -> aot.Array:
        array = _array(type_)
        return aot.Array(array.dtype, tuple(aot.static_or_expr(self._size(dim)) for dim in array.shape))

    def _size(self, size: int | PrimExpr) -> PrimExpr:
        expr = as_expr(size) if isinstance(size, int) else size
        return substitute(expr, self.sizes) if self.sizes else expr


def _forwarding_position(
    bindings: Sequence[RelaxExpr], result: RelaxExpr, function: ir.GlobalVar | None
) -> int | None:
    """Return the position of a branch, or call of the function itself, whose value is the result as it is."""
    last = len(bindings) - 1
    while last >= 0 and isinstance(bindings[last].value, relax.TupleGetItem | relax.Tuple | relax.Var):
        last -= 1
    if last < 0 or not isinstance(bindings[last], relax.VarBinding):
        return None
    value = bindings[last].value
    recursive = isinstance(value, ir.Call) and function is not None and value.op == function
    if not isinstance(value, relax.If) and not recursive:
        return None
    type_ = bindings[last].var.ty
    count = len(type_.fields) if isinstance(type_, relax.TupleType) else 1
    marks = [object() for _ in range(count)]
    values: dict[RelaxExpr, _Planned] = {
        bindings[last].var: tuple(marks) if isinstance(type_, relax.TupleType) else marks[0]
    }
    for binding in bindings[last + 1 :]:
        values[binding.var] = _evaluate(binding.value, values)
    return last if list(flatten(_evaluate(result, values))) == marks else None


def _evaluate(
    expr: RelaxExpr, values: dict[RelaxExpr, _Planned], leaf: Callable[[RelaxExpr], _Planned] | None = None
) -> _Planned:
    """Return the value of an expression that computes nothing."""
    match expr:
        case relax.Tuple(fields=fields):
            inner = leaf or (lambda field: _evaluate(field, values))
            return tuple(inner(field) for field in fields)
        case relax.TupleGetItem(tuple_value=whole, index=index):
            value = (leaf or (lambda field: _evaluate(field, values)))(whole)
            if isinstance(value, tuple):
                return value[int(index)]
        case relax.Var() if expr in values:
            return values[expr]
        case relax.Var():
            return None
    if leaf is None:
        return None
    raise _UnsupportedError


def _passed_sizes(param: RelaxExpr) -> list[Var]:
    """Return the sizes that a parameter is there for, but for the depth of calls, which functions count."""
    if not isinstance(param.ty, relax.ShapeType):
        return []
    dims = [dim for dim in param.ty.values or () if isinstance(dim, tirx.Var)]
    return [dim for dim in dims if dim.name != CALL_DEPTH]


def _is_own(value: NativeValue) -> bool:
    """Return whether a value is in the program's own memory."""
    return isinstance(value, aot.Storage) and value.kind in ("temporary", "pointer")


def _array_numbers(function: relax.Function, plan: InPlacePlan) -> dict[int, int]:
    """Return the results that are changed parameters, with their numbers among those that are no shapes."""
    numbers = [
        number for number, param in enumerate(function.params) if not isinstance(param.ty, relax.ShapeType)
    ]
    return {result: numbers.index(number) for result, number in plan.returned.items()}


def _bindings(sequence: RelaxExpr) -> list[RelaxExpr]:
    if not isinstance(sequence, relax.SeqExpr):
        raise _UnsupportedError
    return [binding for block in sequence.blocks for binding in block.bindings]


def _fields(type_: ir.Type) -> list[ir.Type]:
    return list(type_.fields) if isinstance(type_, relax.TupleType) else [type_]


def _arrays(type_: ir.Type) -> list[aot.Array]:
    """Return the arrays of a type, a tensor or a flat tuple."""
    return [_array(field) for field in _fields(type_)]


def _array(type_: ir.Type) -> aot.Array:
    if not _has_shape(type_):
        raise _UnsupportedError
    return aot.Array(str(type_.dtype.dtype), tuple(map(aot.static_or_expr, type_.shape.values)))


def _is_of(size: Extent, dims: Container[Var]) -> bool:
    """Return whether a size is an expression of some dimensions."""
    if isinstance(size, int):
        return True
    return all(var in dims for var in tirx.analysis.undefined_vars(tirx.Evaluate(size)))


def _has_shape(type_: ir.Type) -> bool:
    return isinstance(type_, relax.TensorType) and isinstance(type_.shape, relax.ShapeExpr)


def _elements(array: aot.Array) -> Extent:
    elements: Extent = 1
    for dim in array.shape:
        elements = elements * dim
    return elements


def _static_or_key(size: Extent) -> object:
    """Return a size, or a key that is equal for equal expressions."""
    return size if isinstance(size, int) else tvm_ffi.StructuralKey(size)


_ANALYZER = tvm.sym.Analyzer()


def _is_reshape(kernel: PrimFunc, arrays: Sequence[aot.Array]) -> bool:
    """Return whether a kernel of sizes that only a call knows copies its array as it lies in memory."""
    static = all(isinstance(dim, int) for array in arrays for dim in array.shape)
    sized = [array for array in arrays if array.shape]
    if static or len(sized) != 2:
        return False
    if IS_RESHAPE in kernel.attrs:
        return True
    if not has_reshape_order(kernel):
        return False
    before, after = (as_expr(_elements(array)) for array in sized)
    return bool(_ANALYZER.can_prove_equal(before, after))  # what writes no elements has any pattern


def _match_dims(declared: Sequence[aot.Array], given: Sequence[aot.Array]) -> dict[Var, PrimExpr]:
    """Return the sizes of the dimensions that arrays declare."""
    sizes: dict[Var, PrimExpr] = {}
    for own, array in zip(declared, given, strict=True):
        for dim, size in zip(own.shape, array.shape, strict=True):
            if isinstance(dim, tirx.Var):
                sizes.setdefault(dim, as_expr(size))
    return sizes


def _with_sizes(array: aot.Array, sizes: dict[Var, PrimExpr]) -> aot.Array:
    shape = (dim if isinstance(dim, int) else substitute(dim, sizes) for dim in array.shape)
    return aot.Array(
        array.dtype, tuple(aot.static_or_expr(dim) if not isinstance(dim, int) else dim for dim in shape)
    )


def _bind_sizes(
    kernel: PrimFunc, arrays: Sequence[aot.Array], explicit: Sequence[PrimExpr]
) -> dict[Var, PrimExpr]:
    """Return the sizes that a kernel takes, from the shapes of its arrays."""
    buffers = [param for param in kernel.params if isinstance(param.ty, tirx.BufferType)]
    declared = [
        aot.Array(str(buffer.ty.dtype), tuple(map(aot.static_or_expr, buffer.ty.shape))) for buffer in buffers
    ]
    if len(declared) != len(arrays):
        raise _UnsupportedError
    numbers = [param for param in kernel.params if not isinstance(param.ty, tirx.BufferType)]
    if len(numbers) != len(explicit):
        raise _UnsupportedError
    sizes = dict(zip(numbers, explicit, strict=True))
    for var, size in _match_dims(declared, arrays).items():
        sizes.setdefault(var, size)
    used: set[Var] = set()
    for array in declared:
        for dim in array.shape:
            if not isinstance(dim, int):
                tvm_vars = tirx.analysis.undefined_vars(tirx.Evaluate(dim))
                used.update(tvm_vars)
    if any(var not in sizes for var in used):
        raise _UnsupportedError
    return sizes
