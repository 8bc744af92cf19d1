"""Prepare a program for compilation: its types, sizes, loops, and the functions that kernels need."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from nnmagic.diagnostics import TinyNNWarning
from nnmagic.engine import EngineError, engine_error
from nnmagic.relay.annotations import KERNEL, PARALLEL, PRANGE
from nnmagic.relay.expr import Call, Function, GlobalVar, OpRef
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import Module
from nnmagic.relay.structure.callgraph import CallGraph, call_graph, reachable
from nnmagic.relay.structure.hashing import code_data, content_digest
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import FuncType

if TYPE_CHECKING:
    from nnmagic.engine.arguments import Parameter
    from nnmagic.engine.relax.analysis.data_types import CellSignature
    from nnmagic.engine.relax.artifact import Json
    from nnmagic.engine.relax.interpreter.compiler import ProgramKernel
    from nnmagic.relay.passes.pipeline import PassRun


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program before it is compiled: its module and call graph, first-order functions, control flow.

    loops: the functions that were local ones, and take no stack where they call themselves at their end.
    assertions: what assertions raise, by number. destinations: the parameters of the entry that it may
    change. lengths: the parameters that its last arrays have as their lengths; without_lengths: the program
    without these arrays. cells: what stands for values of data types in the signature of the entry.
    """

    module: Module
    graph: CallGraph
    entry: str
    plain: frozenset[str]
    control: _Control | None
    loops: frozenset[str]
    assertions: Sequence[Failure]
    destinations: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    without_lengths: Callable[[], Prepared] | None = None
    cells: Cells | None = None


@dataclass(frozen=True, slots=True)
class Cells:
    """The signature of an entry with data types, and its parameters, to check arguments by."""

    signature: CellSignature
    parameters: Sequence[Parameter]


@dataclass(frozen=True, slots=True)
class _Control:
    """The part of a program that the interpreter runs, the kernels in between, and why it runs it."""

    module: Module
    parameters: Sequence[Parameter]
    kernels: Sequence[ProgramKernel]
    reason: str

    def facts(self, module: Module) -> Json:
        """Return the names of the kernels, and a digest by which an artifact's kernels are recognised."""
        names = [kernel.name for kernel in self.kernels]
        around = {**module.functions, **{kernel.name: kernel.function for kernel in self.kernels}}
        data = code_data(Module(around, module.types), names, labels=False)
        return {"names": names, "kernels": content_digest(*data), "reason": self.reason}


def prepare(
    module: Module, entry: str, opt_level: int, graph: CallGraph, *, lengths: bool = True
) -> Prepared:
    """Do the part of a compilation that needs no TVM; building and loading share it.

    ``graph`` is the module's call graph. ``lengths``: whether integers that decide sizes are lengths of
    arrays.
    """
    from nnmagic.engine.relax.analysis.entry_signature import parameters_of
    from nnmagic.engine.relax.analysis.pipeline import optimize
    from nnmagic.engine.relax.analysis.value_sizes import find_value_sizes, with_value_sizes
    from nnmagic.engine.relax.interpreter.compiler import ProgramCompiler

    if lengths and (numbers := find_value_sizes(module, entry)):
        without = partial(prepare, module, entry, opt_level, graph, lengths=False)
        longer = with_value_sizes(module, entry, numbers)
        prepared = prepare(longer, entry, opt_level, call_graph(longer), lengths=False)
        if prepared.control is not None or prepared.cells is not None:
            return without()
        return replace(prepared, lengths=numbers, without_lengths=without)
    if KERNEL in module.functions[entry].attrs:
        module = _call_kernel(module, entry)
        graph = call_graph(module)
    optimized = optimize(module, entry, opt_level, graph)
    control = cells = None
    if optimized.signature is not None:
        cells = Cells(optimized.signature, parameters_of(module, entry))
    module, plain = optimized.module, optimized.plain
    if entry not in plain:
        parameters = parameters_of(module, entry)
        program = ProgramCompiler(module, plain)
        control = _Control(program.compile(entry), parameters, program.kernels, optimized.reason)
    parts = plain, control, optimized.loops, optimized.assertions
    return Prepared(module, optimized.graph, entry, *parts, cells=cells)


def pass_runs(module: Module, entry: str, opt_level: int) -> list[PassRun]:
    """Run the compiler's passes on a typed module, without TVM, and return what each did."""
    from nnmagic.engine.relax.analysis.pipeline import optimize

    runs: list[PassRun] = []
    if KERNEL not in module.functions[entry].attrs:
        optimize(module, entry, opt_level, call_graph(module), runs=runs)
    return runs


def _call_kernel(module: Module, name: str) -> Module:
    """Return a module in which a kernel has another name, and a function of its name calls it."""
    kernel, other = module.functions[name], f"{name}_kernel"
    while other in module.functions:
        other += "_"
    type_ = kernel.checked_type
    assert isinstance(type_, FuncType)
    params = tuple(replace(param) for param in kernel.params)
    body = Call(GlobalVar(other, checked_type=type_), params, span=kernel.span, checked_type=type_.ret_type)
    entry = replace(kernel, params=params, body=body, attrs={})
    return replace(module, functions={**module.functions, name: entry, other: kernel})


def first_tensors(prepared: Prepared) -> list[int]:
    """Return the number of the first tensor of each parameter, and at last that of all."""
    from nnmagic.engine.relax.analysis.entry_signature import type_of
    from nnmagic.engine.relax.analysis.tuple_flattening import leaves

    params = prepared.module.functions[prepared.entry].params
    return [0, *accumulate(len(list(leaves(type_of(var)))) for var in params)]


def has_cells(prepared: Prepared) -> bool:
    """Return whether numbers stand for values of data types in a program."""
    from nnmagic.engine.relax.analysis.cell_operators import CELL_OPERATORS

    return any(
        isinstance(node, OpRef) and node.name in CELL_OPERATORS
        for function in prepared.module.functions.values()
        for node in post_order(function.body)
    )


def remove_lengths(prepared: Prepared) -> Prepared:
    """Return a program whose sizes values decide where they are."""
    assert prepared.without_lengths is not None
    return replace(prepared.without_lengths(), destinations=prepared.destinations)


def kernels_of(prepared: Prepared) -> tuple[Module, dict[str, str]]:
    """Return the kernels of an interpreted program, with the functions that they call, and their names."""
    assert prepared.control is not None
    functions = prepared.module.functions
    called = {name: function for name, function in functions.items() if name in prepared.plain}
    kernels = {kernel.name: kernel.function for kernel in prepared.control.kernels}
    return Module({**called, **kernels}, prepared.module.types), {name: name for name in kernels}


def tell_of_serial_loops(prepared: Prepared, loops: Iterable[tuple[str, str]]) -> None:
    """Warn of loops over ``prange`` whose rounds run in order; they are given by name, with the reason.

    Raises EngineError at another one, whose rounds threads have to share.
    """
    for name, reason in loops:
        function = prepared.module.functions[name]
        if PRANGE not in function.attrs:
            raise _not_shared(function, reason)
        place = "" if function.span is None else f" (line {function.span.line})"
        message = f"the rounds of this prange{place} run one after the other: {reason}"
        warnings.warn(message, TinyNNWarning, stacklevel=2)


def refuse_parallel(prepared: Prepared, reason: str) -> None:
    """Raise EngineError at the first parallel loop: threads cannot share its rounds."""
    for name in sorted(reachable(prepared.graph, prepared.entry)):
        for node in post_order(prepared.module.functions[name]):
            if isinstance(node, Function) and PARALLEL in node.attrs:
                raise _not_shared(node, reason)


def _not_shared(loop: Function, reason: str) -> EngineError:
    hint = "let its rounds compute single elements, or write range(...)"
    return engine_error(f"threads cannot share the rounds of this loop: {reason}", loop.span, hint=hint)


def destinations_of(prepared: Prepared) -> dict[int, int]:
    """Return the arrays of the caller that a program may change, with the results that they become.

    Both are numbers among the tensors of all parameters, or results, tuples flattened.
    """
    from nnmagic.engine.relax.analysis.tuple_flattening import leaves

    if not prepared.destinations or prepared.cells is not None:
        return {}
    tensors, returned = first_tensors(prepared), prepared.module.functions[prepared.entry].ret_type
    assert returned is not None
    first = len(list(leaves(returned))) - len(prepared.destinations)
    return {tensors[number]: first + position for position, number in enumerate(prepared.destinations)}
