"""Say how the loops and kernels of an AOT program run, and what costs: what ``f.why`` shows.

Nothing is analysed for it alone: the plan has the loops, their checks and their copies, and the analyses here
are those by which loops are emitted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tvm import ir, tirx

from nnmagic.diagnostics import Span
from nnmagic.engine.executable import Remark
from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.counted_loops import (
    CountedLoop,
    find_carried,
    find_counted_loop,
    find_steps,
    find_summands,
)
from nnmagic.engine.relax.codegen.aot.destructive_updates import changed_in_place
from nnmagic.engine.relax.codegen.aot.lane_plans import plan_lanes, runs_known_rounds
from nnmagic.engine.relax.codegen.aot.loop_versions import IN_RANGE, Affine, Indices
from nnmagic.engine.relax.codegen.aot.step_operands import written_values
from nnmagic.engine.relax.codegen.aot.whole_program import AotProgram
from nnmagic.engine.relax.codegen.kernel_preparation import has_parallel_loops
from nnmagic.engine.relax.lowering.origins import KernelOrigins, as_span
from nnmagic.engine.relax.tir.builders import collect_loads, static_int
from nnmagic.engine.relax.tir.types import Extent, PrimFunc

#: Why a kernel of TVM's pattern is not fused with what comes after it.
_ENDS = {
    3: "a reduction ends a kernel",
    4: "a product or convolution takes only element-wise operators of its own shape",
    8: "it sorts, searches, copies or assigns, which is a kernel of its own",
}
#: What kernels hand on of fewer bytes is no cost.
_SMALL = 1 << 12
_SUM = "adds floats to one sum, whose order stays", "sum an array: x.sum() may add in any order"
_CARRIED = "needs the number that the round before computed", ""


def find_remarks(
    program: AotProgram, kernels: Mapping[ir.GlobalVar, PrimFunc], origins: KernelOrigins
) -> list[Remark]:
    """Return the remarks of a program. ``kernels``: the scheduled ones."""
    functions = [native for native in program.functions if not native.name.endswith(IN_RANGE)]
    versions = {native.name.removesuffix(IN_RANGE) for native in program.functions if native not in functions}
    separate = program.separate_functions()
    in_lanes = {
        step.callee
        for function in functions
        if _runs_in_lanes(function, separate)
        for native in aot.with_callees(function)
        for step in native.steps()
        if isinstance(step, aot.FunctionCall)
    }
    remarks: list[Remark] = []
    for function in functions:
        head = origins.heads.get(function.name)
        if function.loops:
            checked = function.name in versions
            remarks += _of_loop(function, head, separate, in_lanes=function in in_lanes, checked=checked)
        elif function.recursion is not None or function.recursive:
            form = "recursion that is two loops with a stack in memory" if function.recursion else "recursion"
            remarks.append(Remark(head, form))
    for function in (program.entry, *functions):
        remarks += _of_kernels(function, program, kernels, origins)
    return remarks


def _runs_in_lanes(function: aot.NativeFunction, separate: Iterable[aot.NativeFunction]) -> bool:
    counted = find_counted_loop(function)
    others = set(separate)
    return (
        counted is not None
        and not runs_known_rounds(function, others)
        and plan_lanes(function, counted, others) is not None
    )


def _of_loop(
    loop: aot.NativeFunction,
    head: Span | None,
    separate: Iterable[aot.NativeFunction],
    *,
    in_lanes: bool,
    checked: bool,
) -> Iterator[Remark]:
    """Yield how a loop runs, and what keeps its rounds one after the other."""
    counted = find_counted_loop(loop)
    ahead = "; its indices are checked before it begins" if checked else ""
    if loop.parallel is not None:
        yield Remark(head, "a loop whose rounds threads share")
    elif loop.carried_dims:
        yield Remark(head, "a loop whose rounds may change the sizes of arrays: they run one by one")
    elif counted is None:
        form = "a loop whose number of rounds is not known before: they run one by one"
        yield Remark(head, form, "for i in range(n), if n is known before")
    elif in_lanes or _runs_in_lanes(loop, separate):
        yield Remark(head, f"a loop whose rounds are computed several at once, in lanes of vectors{ahead}")
    elif not counted.is_innermost:
        yield Remark(head, f"a loop that counts; its rounds have loops, calls or whole arrays{ahead}")
    else:
        hindrances = [*_hindrances(loop, counted), *([] if checked else _checks(loop))]
        form = "one round after the other" if hindrances else "nothing keeps its rounds from vectors"
        yield Remark(head, f"a loop that counts: {form}{ahead}")
        for span, cost, change in hindrances:
            yield Remark(span or head, f"each round {cost}", change)
        return
    for span, cost, change in () if checked or in_lanes else _checks(loop):
        yield Remark(span or head, f"each round {cost}", change)


def _hindrances(loop: aot.NativeFunction, counted: CountedLoop) -> Iterator[tuple[Span | None, str, str]]:
    """Yield what a round needs of others: where, what it does, what would help."""
    carried = [param for param in find_carried(loop) if isinstance(param, aot.Register)]
    steps = find_steps(loop)
    if sums := bool(find_summands(loop)):
        yield None, *_SUM
    elif any(param.dtype.startswith("float") and param not in steps for param in carried):
        yield None, *_CARRIED
    indices = Indices(loop, counted)
    rounds = list(aot.steps_of(counted.round))
    stored: dict[aot.Value | None, list[Affine | None]] = {}
    for step in rounds:
        if isinstance(step, aot.StoreElement):
            place = [indices.evaluate(index, step) for index in step.indices]
            if not sums or any(at is None or indices.counter in at.terms for at in place):
                stored[step.storage] = place  # else it is the sum
    for step in rounds:
        if not isinstance(step, aot.ScalarCode):
            continue
        for stage in step.stages:
            for load in collect_loads(*stage.values):
                other = stored.get(step.values.get(load.source))
                read = [indices.evaluate(index, step) for index in load.indices]
                if other is not None and (cost := _dependence(other, read, indices.counter)):
                    yield _span(step.span), cost, ""


def _dependence(stored: list[Affine | None], read: list[Affine | None], counter: aot.Register) -> str:
    """Return what a round's read of an array that it also stores into needs; "" if no round before."""
    rounds = set()
    for place, other in zip(stored, read, strict=True):
        if place is None or other is None or place.terms != other.terms:
            return "may read what another one stores: an index is computed from values"
        step, apart = place.terms.get(counter, 0), place.constant - other.constant
        if apart % step if step else apart:
            return ""
        if step:
            rounds.add(apart // step)
    if len(rounds) > 1 or any(back <= 0 for back in rounds):
        return ""
    back = rounds.pop() if rounds else 1
    return (
        "reads what the round before stored" if back == 1 else f"reads what was stored {back} rounds before"
    )


def _checks(loop: aot.NativeFunction) -> Iterator[tuple[Span | None, str, str]]:
    """Yield the checks that stay in the rounds."""
    for step in loop.steps():
        match step:
            case aot.Check(index=None, report=None):
                yield _span(step.span), "checks what it requires", ""
            case aot.Check():
                yield _span(step.span), "checks an index: neither sizes nor the rounds prove it", ""
            case aot.ShapeCheck():
                yield None, "compares sizes, which only calls know", ""
            case _:
                continue


def _of_kernels(
    function: aot.NativeFunction,
    program: AotProgram,
    kernels: Mapping[ir.GlobalVar, PrimFunc],
    origins: KernelOrigins,
) -> Iterator[Remark]:
    """Yield how the kernels that a function calls run, and what they cost."""
    carried = find_carried(function) if function.loops else set()
    varying = set(carried) | {value for step in function.steps() for value in written_values(step)}
    for region in aot.regions_of(function.body):
        written: dict[aot.Value, aot.KernelCall] = {}
        for step in region:
            if isinstance(step, aot.CopyArray):
                yield Remark(None, f"copies {_bytes(step.nbytes)}, for a function or loop that changes them")
            if not isinstance(step, aot.KernelCall):
                continue
            span = _span(step.span) or _widest(origins.of(step.kernel.name_hint, ()))
            threads = has_parallel_loops([kernels[step.kernel]]) if step.kernel in kernels else False
            form = "a part of the loop" if step.joined is not None else "a kernel"
            yield Remark(span, form + ("; threads share its work where that pays" if threads else ""))
            if function.loops:
                yield from _of_round(step, span, function, varying, program)
            for value in step.args[: step.reads]:
                before = written.get(value)
                if before is None or not isinstance(value, aot.Storage) or _is_small(value):
                    continue
                line = _span(before.span) or _widest(origins.of(before.kernel.name_hint, ()))
                why = _why_apart(before, region, value, program)
                where = f" of line {line.line}" if line is not None else ""
                yield Remark(span, f"reads {_bytes(value.nbytes)} that the kernel{where} wrote: {why}")
            written |= {value: step for value in step.args[step.reads :] if isinstance(value, aot.Storage)}


def _of_round(
    step: aot.KernelCall,
    span: Span | None,
    loop: aot.NativeFunction,
    varying: set[aot.Value],
    program: AotProgram,
) -> Iterator[Remark]:
    """Yield what a kernel costs because a loop calls it."""
    writes = step.args[step.reads :]
    if grows_in_rounds(step, loop):
        yield Remark(
            span,
            "an array grows in each round, and all that was there is copied",
            "append to a list, or make the array before the loop and assign its elements",
        )
    elif step.joined is None and _is_invariant(step, loop, varying):
        yield Remark(
            span,
            "is computed anew in each round, and reads nothing that changes",
            "compute it before the loop",
        )
    elif changed_in_place(program.kernels[step.kernel]) is not None:
        yield Remark(span, "copies an array to change it: what was there is read later, or is the caller's")
    elif any(isinstance(value, aot.Storage) and value.on_heap for value in writes):
        yield Remark(
            span, "takes memory in each round: values decide its size", "make the array before the loop"
        )


def _is_invariant(step: aot.KernelCall, loop: aot.NativeFunction, varying: set[aot.Value]) -> bool:
    """Return whether a kernel of some work computes the same in all rounds."""
    reads, writes = step.args[: step.reads], step.args[step.reads :]
    named = [dim for size in step.sizes for dim in tirx.analysis.undefined_vars(tirx.Evaluate(size))]
    return (
        varying.isdisjoint(reads)
        and not set(writes) & set(loop.parameters)
        and not any(dim in loop.named or dim in loop.carried_dims for dim in named)
        and any(isinstance(value, aot.Storage) and not _is_small(value) for value in (*reads, *writes))
    )


def grows_in_rounds(step: aot.KernelCall, loop: aot.NativeFunction) -> bool:
    """Return whether a kernel joins an array that a loop carries with more, for the next round."""
    if "concatenate" not in step.kernel.name_hint or not loop.carried_dims:
        return False
    pairs = [
        pair for other in loop.steps() if isinstance(other, aot.NextRound) for pair in other.assign.pairs
    ]
    return any(
        value in step.args[step.reads :] and param in step.args[: step.reads] for param, value in pairs
    )


def _why_apart(before: aot.KernelCall, region: aot.Region, value: aot.Value, program: AotProgram) -> str:
    """Return why a kernel is not fused with the one that reads its result."""
    attrs = program.kernels[before.kernel].attrs or {}
    if (reason := _ENDS.get(int(attrs.get("op_pattern", 0)))) is not None:
        return reason
    readers = [
        step for step in region if isinstance(step, aot.KernelCall) and value in step.args[: step.reads]
    ]
    return "several kernels read it" if len(readers) > 1 else "the two have loops of different shapes"


def _is_small(array: aot.Storage) -> bool:
    size = static_int(array.nbytes)
    return size is not None and size < _SMALL


def _bytes(size: Extent) -> str:
    known = static_int(size)
    return "an array" if known is None else f"{known:,} bytes"


def _span(span: ir.Span | None) -> Span | None:
    return None if span is None else as_span(span)


def _widest(spans: Iterable[Span]) -> Span | None:
    """Return the expression that ends last, and of these the longest."""
    last = sorted(spans, key=lambda span: (-span.end_line, -span.end_column, span.line, span.column))
    return last[0] if last else None
