"""Plan the workspace of native functions: values whose lifetimes are disjoint share bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import tvm
from tvm import tirx
from tvm.sym import Analyzer

from nnmagic.engine.relax.codegen.aot import program as aot
from nnmagic.engine.relax.codegen.aot.parallel_loops import memory_of
from nnmagic.engine.relax.codegen.aot.step_operands import values_read, written_storage
from nnmagic.engine.relax.schedules.kernel_analysis import substitute
from nnmagic.engine.relax.tir.builders import are_equal, as_expr
from nnmagic.engine.relax.tir.types import Extent, PrimExpr
from nnmagic.engine.relax.tir.visitors import collect


# Lifetimes are intervals of positions, visited in order, as in linear scan register allocation
# (Poletto and Sarkar, 1999); each storage takes the lowest free offset (first fit). Optimal
# packing, dynamic storage allocation, is NP-hard.
def plan_memory(function: aot.NativeFunction) -> None:
    """Give each temporary its bytes in the workspace, and set the size of that.

    A result is written where it belongs if nothing else may hold it; sizes that only a call knows come after
    the static ones. What has a size that nothing bounds is allocated when it is written. The functions that
    this one calls must be planned.
    """
    _carry_pointers(function)
    _write_results_directly(function)
    steps = list(function.steps())
    known = _known_bytes(function, steps)
    # A workspace is kept for the next call; results may be large.
    left = {step.results[number] for step in steps if isinstance(step, aot.Exit) for number in function.left}
    for step in steps:
        if isinstance(step, aot.FunctionCall):
            step.frame.nbytes = _frame_bytes(step)
        for storage in written_storage(step):
            if storage.kind != "temporary":
                continue
            nbytes = (
                None
                if storage in left and not isinstance(storage.nbytes, int)
                else most_bytes(storage.nbytes, function, known)
            )
            if nbytes is None:
                storage.on_heap = True
            else:
                storage.nbytes = nbytes
    last = _last_uses(function, steps)
    workspace = _Workspace()
    for position, step in enumerate(steps):
        for storage in written_storage(step):
            if storage.kind == "temporary" and not storage.on_heap and storage not in workspace.live:
                workspace.allocate(storage)
        workspace.free(storage for storage in list(workspace.live) if last[storage] <= position)
    function.workspace = workspace.finish(function)


def _carry_pointers(function: aot.NativeFunction) -> None:
    """Make pointers of the parameters that a loop changes, and note which pointers may hold what."""
    for step in function.steps():
        if isinstance(step, aot.NextRound):
            for target, value in step.assign.pairs:
                if isinstance(target, aot.Storage) and isinstance(value, aot.Storage):
                    target.kind = "pointer"
                    target.sources.append(value)
    carried = [param for param in function.parameters if isinstance(param, aot.Storage) and param.sources]
    for param in carried:
        for storage in _bases(param):
            if storage.kind == "temporary" and param not in storage.holders:
                storage.holders.append(param)
                # One copy more than pointers that may hold one: a round writes to the copy that
                # none of them holds, as in double buffering.
                storage.copies += 1
    function.pointers.extend(carried)


def _bases(pointer: aot.Storage) -> Iterator[aot.Storage]:
    """Yield the storage that a pointer may point to, behind other pointers."""
    seen, work = {pointer}, [pointer]
    while work:
        for source in work.pop().sources:
            if source not in seen:
                seen.add(source)
                work.append(source)
                if source.kind != "pointer":
                    yield source


def _write_results_directly(function: aot.NativeFunction) -> None:
    """Make results of the temporaries that are nothing else, and of those that a branch chooses from."""
    held = {
        storage for pointer in function.pointers if pointer.kind == "pointer" for storage in _bases(pointer)
    }
    numbers: dict[aot.Storage, set[int]] = {}
    repeated: set[aot.Storage] = set()
    for step in function.steps():
        if isinstance(step, aot.Exit):
            storages = [result for result in step.results if isinstance(result, aot.Storage)]
            repeated |= {storage for storage in storages if storages.count(storage) > 1}
            for number, result in enumerate(step.results):
                if isinstance(result, aot.Storage):
                    numbers.setdefault(result, set()).add(number)
    measured = function.measured_results()
    by_number: dict[int, list[aot.Storage]] = {}
    for storage, positions in numbers.items():
        for number in positions:
            by_number.setdefault(number, []).append(storage)
    for storage, positions in numbers.items():
        number = min(positions)
        alone = len(positions) == 1 and len(by_number[number]) == 1 and storage not in repeated
        if not alone or number in measured or number in function.changed:
            continue
        parts = [storage] if storage.kind == "temporary" and storage not in held else []
        if storage.kind == "pointer" and numbers.keys().isdisjoint(_bases(storage)):
            parts = _written_in_branches(function, storage)
        if parts and all(_fits(function, part, function.result_bytes(number)) for part in parts):
            for part in parts:
                part.kind, part.index = "result", number
    function.pointers[:] = [pointer for pointer in function.pointers if pointer.kind != "result"]
    for region in aot.regions_of(function.body):
        region[:] = [_without_results(step) if isinstance(step, aot.Assign) else step for step in region]


def _without_results(step: aot.Assign) -> aot.Assign:
    """Return an assignment of what is not written where it belongs already."""
    return aot.Assign(
        tuple(pair for pair in step.pairs if isinstance(pair[0], aot.Register) or pair[0].kind != "result")
    )


def _written_in_branches(function: aot.NativeFunction, chosen: aot.Storage) -> list[aot.Storage]:
    """Return a pointer and what it is chosen from, if each is written in another branch and is nothing else.

    A function that calls itself hands on where its result is so, instead of copying it on each level.
    """
    pointers, bases = _pointers_behind(chosen), list(_bases(chosen))
    # What points into a cell, or at a part of an array, is no choice of whole arrays.
    inside = {step.target for step in function.steps() if isinstance(step, aot.PointAt | aot.ReadCell)}
    if not all(pointer.sources for pointer in pointers) or not pointers.isdisjoint(inside):
        return []
    holders = (pointer for pointer in function.pointers if pointer not in pointers)
    if any(base.kind != "temporary" for base in bases) or any(
        not set(bases).isdisjoint(_bases(holder)) for holder in holders
    ):
        return []
    written = dict[aot.Storage, list[tuple[int, ...]]]()
    for path, step in _with_paths(function.body):
        for storage in written_storage(step):
            written.setdefault(storage, []).append(path)
    is_apart = all(
        _are_exclusive(here, there)
        for one, other in combinations(bases, 2)
        for here in written.get(one, ())
        for there in written.get(other, ())
    )
    return [*pointers, *bases] if is_apart and pointers.isdisjoint(function.parameters) else []


def _pointers_behind(pointer: aot.Storage) -> set[aot.Storage]:
    """Return a pointer and those that it may have been chosen from."""
    seen, work = {pointer}, [pointer]
    while work:
        more = {source for source in work.pop().sources if source.kind == "pointer"} - seen
        seen |= more
        work += more
    return seen


def _with_paths(region: aot.Region, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], aot.Step]]:
    """Yield each step with its position in each region around it, and in between which branch that is."""
    for position, step in enumerate(region):
        yield (*path, position), step
        if isinstance(step, aot.Branch):
            for number, part in enumerate((step.then, step.other)):
                yield from _with_paths(part, (*path, position, number))


def _are_exclusive(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether two steps are in different branches of one condition."""
    return next((at % 2 == 1 for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), False)


def _fits(function: aot.NativeFunction, storage: aot.Storage, nbytes: Extent) -> bool:
    """Return whether storage has so many bytes when it is written.

    Where that is not certain, as for a reshape of named sizes, a check that it has comes before.
    """
    # The temporary is written with its own size: written to a result of fewer bytes, it would write
    # beyond.
    if are_equal(storage.nbytes, nbytes):
        return True
    steps = list(function.steps())
    first = next((number for number, step in enumerate(steps) if storage in written_storage(step)), 0)
    return not any(isinstance(step, aot.Check | aot.ShapeCheck | aot.FunctionCall) for step in steps[first:])


def _frame_bytes(call: aot.FunctionCall) -> Extent:
    callee = call.callee
    if callee.recursion is not None:
        return 0 if call is callee.recursion.call else aot.FIRST_LEVELS
    if callee.recursive:
        return 0  # it allocates its frames
    if callee.parallel is not None:
        return memory_of(callee).nbytes
    if isinstance(callee.workspace, int):
        return callee.workspace
    return substitute(callee.workspace, dict(zip(callee.dims, call.sizes, strict=True)))


def _last_uses(function: aot.NativeFunction, steps: Sequence[aot.Step]) -> dict[aot.Storage, int]:
    """Return the position of the last step that uses each storage."""
    last: dict[aot.Storage, int] = {}
    for position, step in enumerate(steps):
        for value in (*values_read(step), *written_storage(step)):
            if isinstance(value, aot.Storage):
                last[value] = position
    for pointer in function.pointers:
        if any(pointer is param for param in function.parameters):
            # Dead at the end of this round's text, but read at the beginning of the next.
            last[pointer] = len(steps)  # what it holds is for the next round
    changed = True
    while changed:
        changed = False
        for pointer in function.pointers:
            for source in pointer.sources:
                if last.get(source, -1) < last.get(pointer, -1):
                    last[source] = last[pointer]
                    changed = True
    return last


class _Workspace:
    """The bytes of a workspace: offsets of static sizes, then chunks whose sizes only a call knows."""

    def __init__(self) -> None:
        self.live: dict[aot.Storage, None] = {}
        self.size = 0
        self.chunks: list[tuple[PrimExpr, Extent]] = []
        self._idle: dict[str, list[PrimExpr]] = {}
        self._key: dict[aot.Storage, str] = {}
        self._analyzer = tvm.sym.Analyzer()

    def allocate(self, storage: aot.Storage) -> None:
        """Find bytes for a storage, which nobody else that is live has; those that loops carry share none."""
        if isinstance(storage.nbytes, int):
            nbytes = storage.nbytes if storage.copies == 1 else round_up(storage.nbytes) * storage.copies
            storage.offset = find_offset(
                [other for other in self.live if isinstance(other.nbytes, int)], nbytes
            )
            if storage.holders:
                storage.offset = self.size
            self.size = max(self.size, round_up(int(storage.offset) + nbytes))
        else:
            nbytes = self._analyzer.simplify(round_up(storage.nbytes) * storage.copies)
            if _may_be_negative(nbytes):  # in a branch that is not taken then
                nbytes = tirx.max(nbytes, as_expr(0))
            # Chunks of dynamic sizes are shared by those with the same expression alone: whether
            # one is at least as large as another is not known.
            key = str(nbytes)
            idle = self._idle.get(key)
            if idle and not storage.holders:
                storage.offset = idle.pop()
            else:
                storage.offset = tirx.Var("offset", "int64")
                self.chunks.append((storage.offset, nbytes))
            self._key[storage] = key
        self.live[storage] = None

    def free(self, storages: Iterator[aot.Storage]) -> None:
        """Give the bytes of storages to others; those that loops carry are kept."""
        for storage in storages:
            if storage.holders:
                continue
            del self.live[storage]
            if storage in self._key:
                self._idle.setdefault(self._key[storage], []).append(storage.offset)

    def finish(self, function: aot.NativeFunction) -> Extent:
        """Set the offsets of a function's chunks, and return the size of its workspace."""
        total = begin = round_up(self.size)
        for offset, nbytes in self.chunks:
            function.chunks.append((offset, as_expr(begin)))
            begin = offset + nbytes
            total = total + nbytes
        if isinstance(total, int):
            return total
        total = self._analyzer.simplify(total)
        return total.value if isinstance(total, tirx.IntImm) else total  # named sizes times 0


def _may_be_negative(size: PrimExpr) -> bool:
    """Return whether something is subtracted in an expression of sizes."""
    kinds = (tirx.Sub, tirx.IntImm)
    return any(isinstance(part, tirx.Sub) or part.value < 0 for part in collect(kinds, size))


def find_offset(live: Sequence[aot.Storage], nbytes: int) -> int:
    """Return the lowest offset of free bytes beside live storage."""
    offset = 0
    for other in sorted(live, key=lambda storage: int(storage.offset)):
        if offset + nbytes <= other.offset:
            break
        size = int(other.nbytes) if other.copies == 1 else round_up(int(other.nbytes)) * other.copies
        offset = max(offset, int(round_up(int(other.offset) + size)))
    return offset


def round_up(nbytes: Extent) -> Extent:
    """Return the size as a multiple of the alignment."""
    if isinstance(nbytes, int):
        return -(-nbytes // aot.ALIGNMENT) * aot.ALIGNMENT
    return tirx.floordiv(nbytes + (aot.ALIGNMENT - 1), tirx.const(aot.ALIGNMENT, "int64")) * aot.ALIGNMENT


def most(size: Extent, named: Mapping[PrimExpr, Extent | None]) -> Extent | None:
    """Return the most that an expression of sizes can be; ``named`` can be anything from 0 to their most.

    Return None for other expressions than sums, products, quotients and choices, and where a size that is
    named has no bound.
    """
    if isinstance(size, int) or not depends_on(size, named):
        return size
    bounds = _range(size, named)
    return None if bounds is None else aot.static_or_expr(bounds[0])


def _range(size: PrimExpr, named: Mapping[PrimExpr, Extent | None]) -> tuple[PrimExpr, PrimExpr] | None:
    """Return the most and the least that an expression of sizes can be; None where that is not known."""
    if size in named:
        limit = named[size]
        return None if limit is None else (as_expr(limit), as_expr(0))
    if not depends_on(size, named):
        return size, size
    match size:
        case tirx.Select():
            operands = size.true_value, size.false_value
        case tirx.Mul() | tirx.Sub() | tirx.FloorDiv() | tirx.Add() | tirx.Max() | tirx.Min():
            operands = size.a, size.b
        case _:
            return None
    lhs, rhs = (_range(operand, named) for operand in operands)
    if lhs is None or rhs is None:
        return None
    (a_high, a_low), (b_high, b_low) = lhs, rhs
    match size:
        # Interval arithmetic (Moore, 1966), with the upper bound first.
        case tirx.Mul():  # of what is not negative, or by a constant
            if any(isinstance(operand, tirx.IntImm) and operand.value < 0 for operand in operands):
                return a_low * b_low, a_high * b_high
            return a_high * b_high, a_low * b_low
        case tirx.Sub():
            return a_high - b_low, a_low - b_high
        case tirx.FloorDiv():
            least = as_expr(tirx.max(b_low, as_expr(1)))
            return tirx.floordiv(a_high, least), tirx.floordiv(a_low, tirx.max(b_high, least))
        case tirx.Select():
            return tirx.max(a_high, b_high), tirx.min(a_low, b_low)
    return type(size)(a_high, b_high), type(size)(a_low, b_low)


def depends_on(size: Extent, named: Mapping[PrimExpr, Extent | None]) -> bool:
    """Return whether one of these dimensions is in an expression of sizes."""
    return (
        bool(named)
        and not isinstance(size, int)
        and any(var in named for var in tirx.analysis.undefined_vars(tirx.Evaluate(size)))
    )


#: Where bytes are compared, each dimension that is not known has so many elements.
_LONG = 1 << 20

#: So few bytes are taken in any case.
_FEW_BYTES = 1 << 20


def _known_bytes(function: aot.NativeFunction, steps: Sequence[aot.Step]) -> int:
    """Return the bytes of the arrays whose sizes values do not decide, for long dimensions."""
    arrays = {storage for step in steps for storage in written_storage(step)}
    arrays.update(param for param in function.parameters if isinstance(param, aot.Storage))
    decided = _value_sizes(function)
    return sum(_of_long(array.nbytes) for array in arrays if not depends_on(array.nbytes, decided))


def _of_long(nbytes: Extent) -> int:
    """Return a number of bytes for long dimensions."""
    if isinstance(nbytes, int):
        return nbytes
    long = {var: tirx.const(_LONG, "int64") for var in tirx.analysis.undefined_vars(tirx.Evaluate(nbytes))}
    size = Analyzer().simplify(substitute(nbytes, long))
    return int(size.value) if isinstance(size, tirx.IntImm) else 0


def _value_sizes(function: aot.NativeFunction) -> dict[PrimExpr, Extent | None]:
    """Return the sizes that values decide, with the most that each can be."""
    return {dim: limit for dim, limit in function.named.items() if dim not in function.exact}


def most_bytes(nbytes: Extent, function: aot.NativeFunction, known: int) -> Extent | None:
    """Return the most that a number of bytes can be; None where nothing bounds it.

    Nor where it may be far less: where it is more than twice the bytes of the arrays that the program has
    anyway, ``known``, or several sizes that values decide are multiplied, and none of these is as large.
    """
    if depends_on(nbytes, dict.fromkeys(function.unbounded())):
        return None
    size = most(nbytes, function.named)
    decided = _value_sizes(function)
    if isinstance(nbytes, int) or size is None or not depends_on(nbytes, decided):
        return size
    if isinstance(size, int) or _factors(nbytes, decided) < 2:
        most_known = max(2 * known, _FEW_BYTES if isinstance(size, int) else 0)
        return size if _of_long(size) <= most_known else None
    if any(are_equal(size, count * item) for count in function.counts.values() for item in (1, 2, 4, 8)):
        return size
    return None


def _factors(size: PrimExpr, named: Mapping[PrimExpr, Extent | None]) -> int:
    """Return how many sizes that values decide are factors of a product, or divide one."""
    if size in named:
        return int(not isinstance(aot.static_or_expr(as_expr(named[size])), int))
    match size:
        case tirx.Mul():
            return _factors(size.a, named) + _factors(size.b, named)
        case tirx.FloorDiv():
            return _factors(size.a, named) + int(depends_on(size.b, named))
        case tirx.Add() | tirx.Sub() | tirx.Max() | tirx.Min():
            return max(_factors(size.a, named), _factors(size.b, named))
        case tirx.Select():
            return max(_factors(size.true_value, named), _factors(size.false_value, named))
    return 0


#: More bytes than any machine has: sizes beyond come near to what 64 bits can count.
MOST_BYTES = 1 << 50


def exceeds_any_memory(nbytes: PrimExpr) -> PrimExpr:
    """Return whether a size is so large that it may have wrapped around."""
    # In 64 bits, n * n * 8 of n = 2**31 wraps around to a small number, and the program would write
    # beyond its memory. A float loses digits, not magnitude.
    return tirx.const(float(MOST_BYTES), "float64") < _as_float(nbytes)


def _as_float(size: PrimExpr) -> PrimExpr:
    """Return a size, or more, in floating point, which does not wrap around."""
    match size:
        case tirx.Add() | tirx.Sub() | tirx.Mul() | tirx.Max() | tirx.Min():
            return type(size)(_as_float(size.a), _as_float(size.b))
        case tirx.FloorDiv():
            return _as_float(size.a) / _as_float(size.b)
        case tirx.FloorMod():
            # The remainder is below the divisor, which is bound enough.
            return _as_float(size.b)
        case tirx.Select():
            return tirx.Max(_as_float(size.true_value), _as_float(size.false_value))
        case tirx.Cast():
            return _as_float(size.value)
        case tirx.IntImm():
            return tirx.const(float(size.value), "float64")
        case _:
            return size.astype("float64")
