"""Plan an AOT program from a fused Relax module: functions of kernel calls, branches, checks and loops."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace

import tvm
from tvm import ir, relax, tirx

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.cells import makes_cells
from nnmagic.engine.relax.codegen.aot.destructive_updates import changed_in_place, update_in_place
from nnmagic.engine.relax.codegen.aot.in_place import InPlacePlan, plan_in_place
from nnmagic.engine.relax.codegen.aot.late_values import compute_late_values_last
from nnmagic.engine.relax.codegen.aot.linear_recursion import find_linear_recursion
from nnmagic.engine.relax.codegen.aot.loop_versions import version_loops
from nnmagic.engine.relax.codegen.aot.memory import plan_memory
from nnmagic.engine.relax.codegen.aot.parallel_loops import changes_one_element, why_serial
from nnmagic.engine.relax.codegen.aot.planning.arrays import (
    ANALYZER,
    UnsupportedError,
    array_numbers,
    array_of_type,
    fields_of,
    forwarding_position,
    has_shape,
    is_of,
    passed_sizes,
    with_sizes,
)
from nnmagic.engine.relax.codegen.aot.planning.functions import FunctionPlanner
from nnmagic.engine.relax.codegen.aot.ranges import decide_checks
from nnmagic.engine.relax.codegen.aot.unread_fills import drop_unread_fills
from nnmagic.engine.relax.codegen.aot.views import point_at_parts
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.lowering.module import KERNEL_FUNCTION, PARALLEL_LOOP, UNLIMITED
from nnmagic.engine.relax.lowering.origins import IN_PLACE
from nnmagic.engine.relax.tir.types import Extent, PrimExpr, PrimFunc, RelaxExpr, Var
from nnmagic.engine.relax.tir.visitors import collect

#: The dtypes of single elements that live in registers.
_REGISTER_DTYPES = frozenset(
    ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
)


def plan_aot_program(
    module: tvm.IRModule, name: str, destinations: Mapping[int, int], lengths: Sequence[int]
) -> AotProgram:
    """Plan the function ``name`` of a fused module as machine code.

    ``destinations``: the arrays of the caller that it may change, with the results that they are to be then.
    A program of which values decide the sizes of results changes none, nor does one that may have to begin
    anew. ``lengths``: the integers that are lengths of the last arrays, both among all arrays.
    """
    program = ProgramPlanner(module, destinations, lengths).plan(name)
    # Such a program may stop in the middle, to begin anew in another way, when part of the caller's
    # array has changed already: it must not change any.
    if destinations and any(function.recursive or function.counts_rounds for function in program.functions):
        return ProgramPlanner(module, destinations, lengths, changes_arrays=False).plan(name)
    return program


class ProgramPlanner:
    """The functions of a program that is being planned."""

    def __init__(
        self,
        module: tvm.IRModule,
        destinations: Mapping[int, int],
        lengths: Sequence[int],
        *,
        changes_arrays: bool = True,
    ) -> None:
        self.module, self.destinations, self.lengths = module, destinations, lengths
        self.changes_arrays = changes_arrays
        self.functions: dict[ir.GlobalVar, aot.NativeFunction] = {}
        self.waiting: list[ir.GlobalVar] = []
        self.has_control = False
        self.name = ""
        self.in_place: dict[ir.GlobalVar | None, InPlacePlan] = {}
        self.kernels_in_place: dict[ir.GlobalVar, tuple[int, ir.GlobalVar, PrimFunc]] = {}
        self.updating_kernels: dict[tuple[ir.GlobalVar, int], tuple[ir.GlobalVar, PrimFunc]] = {}
        self.program: AotProgram

    def plan(self, name: str) -> AotProgram:
        """Plan the program whose entry has this name."""
        function = self.module[name]
        self.has_control = _has_control(self.module, function)
        self.name = name
        arrays = [
            number
            for number, param in enumerate(function.params)
            if not isinstance(param.ty, relax.ShapeType)
        ]
        entry = self._declare(name, function)
        may_change = self.destinations if self.changes_arrays and not entry.result_dims else {}
        destinations = {arrays[param]: result for param, result in may_change.items()}
        self.in_place = plan_in_place(
            self.module, name, self._holds_element, forwarding_position, destinations
        )
        self.program = AotProgram(entry, lengths=self.lengths)
        used = set(relax.analysis.free_vars(function.body))
        given = arrays[: len(self.program.parameters)]
        unread = (number for number, param in enumerate(given) if function.params[param] not in used)
        self.program.unread = list(unread)
        FunctionPlanner(self, self.program.entry, function, None).plan()
        # Callers are planned first: a call declares its callee, whose body is planned afterwards.
        while self.waiting:
            var = self.waiting.pop()
            FunctionPlanner(self, self.functions[var], self.module[var], var).plan()
        self.program.functions = _callees_first(list(self.functions.values()))
        # The order matters: checks that are proved go first, so that the passes below see loops
        # without them.
        shares = decide_checks(self.program)
        # A call that fails leaves in the caller's arrays what it has written.
        drop_unread_fills(self.program, shares, of_results=not self.destinations)
        compute_late_values_last(self.program)
        point_at_parts(self.program)
        # It adds steps, among which the place of a call of a function in itself is found afterwards.
        version_loops(self.program)
        for var, native in self.functions.items():
            native.recursion = find_linear_recursion(native)
            if native.recursion is not None:
                native.recursive = False
                native.counts_rounds = UNLIMITED not in (self.module[var].attrs or {})
        for native in self.program.functions:
            self._check_parallel(native)
        if self.program.entry.result_dims:
            _leave_results(self.program.entry)
        for native in self.program.functions:
            if native.loops:
                native.saved = aot.STATE_WORDS + self.program.records
                self.program.records += len(native.parameters)
        for native in [*self.program.functions, self.program.entry]:
            native.state_words = self.program.state_words()
            plan_memory(native)
            self._check_parallel(native)
        self.program.facts()  # which are to be of dimensions
        return self.program

    def _check_parallel(self, native: aot.NativeFunction) -> None:
        """Have the rounds of a parallel loop run in order if threads cannot share them, and note why."""
        if native.parallel is not None and makes_cells(native):
            self.program.serial_loops.append((native.name, "its rounds make values of data types"))
            native.parallel = None
        if native.parallel is not None and (reason := why_serial(native)) is not None:
            if not changes_one_element(native):
                self.program.serial_loops.append((native.name, reason))
            native.parallel = None

    def native(self, var: ir.GlobalVar) -> aot.NativeFunction:
        """Return the native function of a Relax function, which may not be planned yet.

        One that measures its results is planned at once: their sizes may turn out to be those of arguments.
        """
        if var not in self.functions:
            self.functions[var] = native = self._declare(var.name_hint, self.module[var])
            changed = array_numbers(self.module[var], self.in_place[var])
            for result in set(native.measured_results()) & changed.keys():
                native.results[result] = native.arrays[changed[result]]  # whose sizes it keeps
            own = {dim for array in native.results for dim in array.shape}
            native.result_dims = [dim for dim in native.result_dims if dim in own]
            # A call of itself in its body finds the function declared already.
            if native.result_dims:
                FunctionPlanner(self, native, self.module[var], var).plan()
                _resolve_results(native)
            else:
                self.waiting.append(var)
        return self.functions[var]

    def _declare(self, name: str, function: relax.Function) -> aot.NativeFunction:
        tensors = (param.ty for param in function.params if not isinstance(param.ty, relax.ShapeType))
        arrays = list(map(array_of_type, tensors))
        dims: dict[Var, None] = {}
        for array in arrays:
            dims |= {dim: None for dim in array.shape if isinstance(dim, tirx.Var)}
        dims |= dict.fromkeys(dim for param in function.params for dim in passed_sizes(param))
        parameters = [self.place(array, "parameter", number) for number, array in enumerate(arrays)]
        results, result_dims = list[aot.Array](), list[Var]()
        for field in fields_of(function.ret_ty):
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
        return has_shape(value.ty) and isinstance(self.place(array_of_type(value.ty)), aot.Register)

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
        raise UnsupportedError
    shape = type_.shape.values if has_shape(type_) else [None] * type_.ndim
    sizes: list[Extent] = []
    measured: list[Var] = []
    for dim in shape:
        if dim is not None and is_of(size := aot.static_or_expr(dim), dims):
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
            is_of(size, constant) and ANALYZER.can_prove_equal(size, sizes[0]) for size in sizes
        ):
            resolved[dim] = sizes[0]
    native.results = [with_sizes(array, resolved) for array in native.results]
    positions = [number for number, dim in enumerate(native.result_dims) if dim not in resolved]
    native.result_dims = [native.result_dims[number] for number in positions]
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
    return bool(collect(relax.If, entry)) or any(
        isinstance(call.op, relax.ExternFunc)
        or (isinstance(call.op, ir.GlobalVar) and isinstance(module[call.op], relax.Function))
        for call in collect(ir.Call, entry)
    )


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
