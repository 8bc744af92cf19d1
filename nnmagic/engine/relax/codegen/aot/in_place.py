"""Find the kernels that may change their first operand in place, as its old value is never read again.

Values are never changed in Relay and Relax: ``scatter_nd`` copies its data and changes the copy. Where that
copy can be left out, changing one element takes one store. An operand may be changed if its memory is the
program's own, and nothing that may share it is used afterwards on any path.

A function may change a parameter in place if it hands that on from round to round, or exchanges it for others
that it changes. Its callers then give up their arguments, or pass copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import tvm
from tvm import ir, relax

from nnmagic.engine.relax.codegen.aot import destructive_updates as updates
from nnmagic.engine.relax.legalize.kernel_calls import is_kernel_call
from nnmagic.engine.relax.tir.types import RelaxExpr
from nnmagic.engine.relax.tir.visitors import collect

_RESHAPE = ir.Op.get("relax.reshape")

#: So often is assumed anew what functions change that call themselves.
_MOST_ASSUMPTIONS = 4

#: Where something is computed: positions in nested regions, and in between which branch it is.
_Path: TypeAlias = tuple[int, ...]

#: What a Relax value is made of: a tuple of them, or the memory that an array may be in.
_Memory: TypeAlias = Any

#: Finds what a region ends with: of bindings, their result and the function that they are in.
FindTail: TypeAlias = Callable[[Sequence[RelaxExpr], RelaxExpr, ir.GlobalVar | None], int | None]


@dataclass(slots=True, eq=False)
class _Root:
    """Memory between two changes of it. ``param``: of which parameter it is; ``owned``: of the program."""

    owned: bool
    param: int | None = None


@dataclass(slots=True)
class InPlacePlan:
    """What a function may change in place.

    Attributes:
        kernels: the variables of the calls of kernels that change their first operand.
        updates: the variables of the calls of element-wise kernels that change an operand, with its number.
        given: for the variable of a call of a function, the arguments that the callee may change.
        consumed: the parameters that the function itself changes.
        returned: the results that are such a parameter, by their numbers.

    """

    kernels: set[RelaxExpr] = field(default_factory=set)
    updates: dict[RelaxExpr, int] = field(default_factory=dict)
    given: dict[RelaxExpr, set[int]] = field(default_factory=dict)
    consumed: frozenset[int] = frozenset()
    returned: dict[int, int] = field(default_factory=dict)

    @property
    def promise(self) -> tuple[frozenset[int], dict[int, int]]:
        """What those rely on that call the function."""
        return self.consumed, self.returned


@dataclass(frozen=True, slots=True)
class _Planning:
    """The plans of the functions of a module so far, and what `plan_in_place` is given."""

    module: tvm.IRModule
    holds_element: Callable[[RelaxExpr], bool]
    find_tail: FindTail
    plans: dict[ir.GlobalVar | None, InPlacePlan] = field(default_factory=dict)
    _changing: dict[ir.GlobalVar, int | None] = field(default_factory=dict)
    _updated: dict[ir.GlobalVar, list[int]] = field(default_factory=dict)

    def changed_by(self, kernel: ir.GlobalVar) -> int | None:
        """Return the number of the array that a kernel may change in place, if there is one."""
        if kernel not in self._changing:
            changing = updates.changed_in_place(self.module[kernel])
            self._changing[kernel] = None if changing is None else changing[0]
        return self._changing[kernel]

    def updated_by(self, kernel: ir.GlobalVar) -> list[int]:
        """Return the numbers of the arrays that an element-wise kernel may update."""
        if kernel not in self._updated:
            self._updated[kernel] = updates.find_update_inputs(self.module[kernel])
        return self._updated[kernel]


def plan_in_place(
    module: tvm.IRModule,
    entry: str,
    holds_element: Callable[[RelaxExpr], bool],
    find_tail: FindTail,
    destinations: Mapping[int, int],
) -> dict[ir.GlobalVar | None, InPlacePlan]:
    """Return the plan of each function that ``entry`` reaches, and under None that of the entry.

    ``holds_element`` tells of a value whether a register holds it; ``find_tail`` returns the position of the
    branch, or call of the function itself, that a region ends with. ``destinations``: the parameters of the
    entry that it may change, each with the result that it is to be then.
    """
    planning = _Planning(module, holds_element, find_tail)
    order = _callees_first(module, module[entry])
    for var in order:
        planning.plans[var] = _plan_function(planning, module[var], var)
    _plan_recursion(planning, [var for var in order if var in _callees_first(module, module[var])])
    planning.plans[None] = _plan_function(planning, module[entry], None, destinations)
    return planning.plans


def _plan_recursion(planning: _Planning, functions: Sequence[ir.GlobalVar]) -> None:
    """Plan functions that call themselves: what they change is assumed, and holds if the plans say the same.

    At first each is assumed to change what it changes if its calls change nothing, and to return the
    parameters that some path of it returns. What the plans confirm holds by induction on the depth of calls.
    """
    first = {var: planning.plans[var] for var in functions}
    for var in functions:
        every = range(len(planning.module[var].params))
        returned = _FunctionAnalysis(planning, planning.module[var], var, every).may_return()
        consumed = first[var].consumed.union(returned.values())
        planning.plans[var] = InPlacePlan(consumed=consumed, returned=returned)
    for _ in range(_MOST_ASSUMPTIONS):
        assumed = {var: planning.plans[var].promise for var in functions}
        planning.plans.update({var: _plan_function(planning, planning.module[var], var) for var in functions})
        if all(planning.plans[var].promise == assumed[var] for var in functions):
            return
    planning.plans.update(first)


def _callees_first(module: tvm.IRModule, entry: RelaxExpr) -> list[ir.GlobalVar]:
    """Return the functions that a function reaches, callees before callers where there is no recursion."""
    order: dict[ir.GlobalVar, None] = {}
    path: list[tuple[ir.GlobalVar | None, Iterator[ir.GlobalVar]]] = [(None, iter(_callees(module, entry)))]
    begun: set[ir.GlobalVar] = set()
    while path:
        var, rest = path[-1]
        callee = next(rest, None)
        if callee is None:
            if var is not None:
                order[var] = None
            path.pop()
        elif callee not in begun:
            begun.add(callee)
            path.append((callee, iter(_callees(module, module[callee]))))
    return list(order)


def _callees(module: tvm.IRModule, function: RelaxExpr) -> list[ir.GlobalVar]:
    called = (call.op for call in collect(ir.Call, function) if isinstance(call.op, ir.GlobalVar))
    return [callee for callee in dict.fromkeys(called) if isinstance(module[callee], relax.Function)]


def _plan_function(
    planning: _Planning,
    function: RelaxExpr,
    var: ir.GlobalVar | None,
    destinations: Mapping[int, int] | None = None,
) -> InPlacePlan:
    """Plan with all parameters, then without those that turn out to be of others from round to round.

    Those of the entry are ``destinations``; they must be the results that these say.
    """
    candidates = set(range(len(function.params)) if destinations is None else destinations)
    while True:
        analysis = _FunctionAnalysis(planning, function, var, candidates)
        plan, wrong = analysis.plan, analysis.unstable - analysis.excluded
        if destinations is not None:
            wrong |= {param for param in plan.consumed if plan.returned.get(destinations[param]) != param}
        if not wrong:
            return plan
        # A greatest fixpoint: all parameters are assumed to be changeable, and each round drops
        # those for which that leads to a contradiction. Fewer candidates can only make others
        # wrong, so it ends.
        candidates -= wrong


class _FunctionAnalysis:
    """The analysis of one function, in which the parameters ``candidates`` may be changed."""

    def __init__(
        self, planning: _Planning, function: RelaxExpr, var: ir.GlobalVar | None, candidates: Collection[int]
    ) -> None:
        self.planning, self.var = planning, var
        self.candidates = frozenset(candidates)
        self.excluded = set(range(len(function.params))) - self.candidates
        #: The results whose sizes their type does not say; parameters of which there are views.
        self.unsized = {
            at for at, type_ in enumerate(_fields(function.ret_ty)) if not updates.has_sizes(type_)
        }
        self.viewed: set[int | None] = set()
        self.unstable: set[int] = set()
        self.plan = InPlacePlan()
        self.changed: set[int] = set()
        #: Where variables are used, and where a field of one is.
        self.uses: dict[RelaxExpr, list[_Path]] = {}
        self.field_uses: dict[RelaxExpr, list[tuple[int, _Path]]] = {}
        self.memory: dict[RelaxExpr, _Memory] = {}
        #: The variables whose arrays may be in some memory.
        self.holders: dict[_Root, list[RelaxExpr]] = {}
        self.results: list[list[_Memory]] = []
        self.rounds: list[list[frozenset[_Root]]] = []
        for number, param in enumerate(function.params):
            if isinstance(param.ty, relax.ShapeType) or planning.holds_element(param):
                self.memory[param] = frozenset()
            else:
                self._hold(param, frozenset((_Root(number in candidates, number),)))
        if isinstance(function.body, relax.SeqExpr):
            self._collect_uses(function.body, ())
            self._region(function.body, (), is_tail=True)
        self._judge(len(function.params))

    # Uses

    def _collect_uses(self, sequence: RelaxExpr, path: _Path) -> None:
        position = 0
        for block in sequence.blocks:
            for binding in block.bindings:
                here = (*path, position)
                value = binding.value
                if isinstance(value, relax.If):
                    self._use(value.cond, here)
                    self._collect_uses(value.true_branch, (*here, 0))
                    self._collect_uses(value.false_branch, (*here, 1))
                else:
                    self._use(value, here)
                position += 1
        self._use(sequence.body, (*path, position))

    def _use(self, expr: RelaxExpr, path: _Path) -> None:
        match expr:
            case relax.Var():
                self.uses.setdefault(expr, []).append(path)
            case relax.Tuple(fields=fields):
                for field in fields:
                    self._use(field, path)
            case relax.TupleGetItem(tuple_value=relax.Var() as whole, index=index):
                self.field_uses.setdefault(whole, []).append((int(index), path))
            case relax.TupleGetItem(tuple_value=whole):
                self._use(whole, path)
            case ir.Call(args=args):
                for arg in args:
                    self._use(arg, path)

    # Memory

    def _hold(self, var: RelaxExpr, memory: _Memory) -> None:
        self.memory[var] = memory
        for root in _roots(memory):
            self.holders.setdefault(root, []).append(var)

    def _evaluate(self, expr: RelaxExpr) -> _Memory:
        match expr:
            case relax.Var():
                return self.memory.get(expr, frozenset())
            case relax.Tuple(fields=fields):
                return tuple(map(self._evaluate, fields))
            case relax.TupleGetItem(tuple_value=whole, index=index):
                ranges = self._evaluate(whole)
                return ranges[int(index)] if isinstance(ranges, tuple) else ranges
            case ir.GenericConst():
                return frozenset((_Root(owned=False),))
        return frozenset()

    def _new(self, type_: ir.Type) -> _Memory:
        if isinstance(type_, relax.TupleType):
            return tuple(map(self._new, type_.fields))
        return frozenset((_Root(owned=True),))

    def _region(self, sequence: RelaxExpr, path: _Path, *, is_tail: bool) -> _Memory:
        """Find the memory of a region's values, and return that of its result."""
        bindings = [binding for block in sequence.blocks for binding in block.bindings]
        last = self.planning.find_tail(bindings, sequence.body, self.var) if is_tail else None
        for position, binding in enumerate(bindings):
            here, value = (*path, position), binding.value
            tail = position == last
            if isinstance(value, relax.If):
                then = self._region(value.true_branch, (*here, 0), is_tail=tail)
                other = self._region(value.false_branch, (*here, 1), is_tail=tail)
                memory = _merge(then, other)
            elif isinstance(value, ir.Call):
                memory = self._call(binding.var, value, here, is_tail=tail)
            else:
                memory = self._evaluate(value)
            if not self.planning.holds_element(binding.var):
                self._hold(binding.var, memory)
        # The result is evaluated after all bindings: what changed on the way has a new root.
        result = self._evaluate(sequence.body)
        if is_tail and last is None:
            self.results.append(list(result) if isinstance(result, tuple) else [result])
        return result

    def _call(self, var: RelaxExpr, call: RelaxExpr, path: _Path, *, is_tail: bool) -> _Memory:
        if is_kernel_call(call):
            return self._kernel(var, call, path)
        # A reshape is a view: its array shares the operand's memory, and changing one changes both.
        if call.op == _RESHAPE:
            return self._view(self._evaluate(call.args[0]))
        if isinstance(call.op, ir.GlobalVar):
            args = [frozenset(_roots(self._evaluate(arg))) for arg in call.args]
            if is_tail and call.op == self.var:
                self.rounds.append(args)
                return self._new(var.ty)
            return self._function(var, call, args, path)
        if isinstance(call.op, relax.ExternFunc):  # an array in a cell is not the program's to change
            return frozenset((_Root(owned=False),)) if isinstance(var.ty, relax.TensorType) else frozenset()
        return self._new(var.ty)

    def _kernel(self, var: RelaxExpr, call: RelaxExpr, path: _Path) -> _Memory:
        kernel, operands = self.planning.module[call.args[0]], call.args[1].fields
        arrays = [operand for operand in operands if isinstance(operand.ty, relax.TensorType)]
        number = None if self.planning.holds_element(var) else self.planning.changed_by(call.args[0])
        if number is not None:
            others = [frozenset(_roots(self._evaluate(operand))) for operand in arrays]
            memory = others.pop(number)
            if not self.planning.holds_element(arrays[number]) and self._may_change(memory, others, path):
                self.plan.kernels.add(var)
                changed, more = self._change(memory), _fields(var.ty)[1:]
                return (changed, *map(self._new, more)) if more else changed
        elif (updated := self._find_updated(var, call.args[0], arrays, path)) is not None:
            self.plan.updates[var] = updated
            return self._change(self._evaluate(arrays[updated]))
        # The planner may read such a kernel as a view, or run it: the result may be in either
        # memory.
        if len(arrays) == 1 and updates.may_be_view(kernel):
            return _merge(self._view(self._evaluate(arrays[0])), self._new(var.ty))
        return self._new(var.ty)

    def _view(self, memory: _Memory) -> _Memory:
        """Return the memory of an array as that of one of other sizes."""
        self.viewed.update(root.param for root in _roots(memory))
        return memory

    def _find_updated(
        self, var: RelaxExpr, kernel: ir.GlobalVar, arrays: Sequence[RelaxExpr], path: _Path
    ) -> int | None:
        """Return the number of the array that an element-wise kernel may update; None for none.

        It is the caller's, or one of which a loop changes regions.
        """
        if (self.var is None and len(path) > 1) or self.planning.holds_element(var):
            return None
        memories = [frozenset(_roots(self._evaluate(array))) for array in arrays]
        if self.var is not None and not any(root.param in self.changed for each in memories for root in each):
            return None  # no region of it is changed by then
        if not any(root.owned and root.param is not None for memory in memories for root in memory):
            return None
        for number in self.planning.updated_by(kernel):
            memory, others = memories[number], [*memories[:number], *memories[number + 1 :]]
            is_given = all(root.param is not None for root in memory)
            if is_given and self._may_change(memory, others, path):
                return number
        return None

    def _function(
        self, var: RelaxExpr, call: RelaxExpr, args: Sequence[frozenset[_Root]], path: _Path
    ) -> _Memory:
        plan = self.planning.plans.get(call.op, InPlacePlan())
        changed: dict[int, frozenset[_Root]] = {}
        for number in sorted(plan.consumed):
            others = [arg for other, arg in enumerate(args) if other != number]
            if self._may_change(args[number], others, path):
                self.plan.given.setdefault(var, set()).add(number)
                changed[number] = self._change(args[number])
        results = [self._new(field) for field in _fields(var.ty)]
        for result, number in plan.returned.items():
            if number in changed:
                results[result] = changed[number]
        return tuple(results) if isinstance(var.ty, relax.TupleType) else results[0]

    def _may_change(self, memory: frozenset[_Root], others: Sequence[frozenset[_Root]], path: _Path) -> bool:
        """Return whether nothing reads this memory later, and nothing else than one operand reads it now."""
        # Constants, and arrays of a caller who did not give them up, are never changed.
        if not memory or not all(root.owned for root in memory):
            return False
        # A kernel that reads its destination through another operand, too, would read new elements:
        # y[1:] += y[:-1].
        if any(not memory.isdisjoint(other) for other in others):
            return False
        return not any(
            _is_after(use, path)
            for root in memory
            for var in self.holders[root]
            for use in (*self.uses.get(var, ()), *self._uses_of_fields(var, root))
        )

    def _uses_of_fields(self, var: RelaxExpr, root: _Root) -> Iterator[_Path]:
        """Yield where fields of a variable are used that may be in some memory."""
        memory = self.memory[var]
        for index, path in self.field_uses.get(var, ()):
            if not isinstance(memory, tuple) or root in _roots(memory[index]):
                yield path

    def _change(self, memory: frozenset[_Root]) -> frozenset[_Root]:
        """Return the memory after a change of it."""
        self.changed.update(root.param for root in memory if root.param is not None)
        params = {root.param for root in memory}
        # A new root: a later use of a variable that held the old one is a use of the old value, and
        # not allowed.
        return frozenset(_Root(owned=True, param=param) for param in params)

    # Parameters

    def _judge(self, count: int) -> None:
        """Find the parameters that are changed, and those of them whose memory rounds do not keep apart."""
        consumed = self._exchanged()
        for args in self.rounds:
            for number in consumed:
                holders = {
                    other for other in range(count) if any(root.param == number for root in args[other])
                }
                made = {root for root in args[number] if root.param is None}
                # Two parameters of the next round must not be one array, or a change of one would
                # show in the other.
                is_shared = any(
                    other != number and not made.isdisjoint(arg) for other, arg in enumerate(args)
                )
                if len(holders) > 1 or not holders <= consumed or is_shared:
                    self.unstable.add(number)
        self.plan.consumed = frozenset(consumed)
        kept = {
            number
            for number in consumed
            if all({root.param for root in args[number]} == {number} for args in self.rounds)
        }
        self.plan.returned = self._owners(kept, lambda params: params)

    def may_return(self) -> dict[int, int]:
        """Return the results that are a parameter on some path, and on the others new memory."""
        return self._owners(self.candidates, lambda params: params - {None})

    def _owners(
        self, params: Collection[int], owners_of: Callable[[frozenset[int | None]], frozenset[int | None]]
    ) -> dict[int, int]:
        """Return the results that are one of some parameters, by their numbers; each at most once.

        ``owners_of``: which parameters count, of those whose memory a result may be in.
        """
        owners: dict[int, int] = {}
        counts = {len(results) for results in self.results}
        for result in range(counts.pop()) if len(counts) == 1 else ():
            found = frozenset(root.param for results in self.results for root in _roots(results[result]))
            owner = next(iter(owners_of(found)), None)
            if result in self.unsized and owner in self.viewed:
                continue  # its sizes are no longer those of the parameter
            if len(owners_of(found)) == 1 and owner in params and owner not in owners.values():
                assert owner is not None
                owners[result] = owner
        return owners

    def _exchanged(self) -> set[int]:
        """Return the parameters that are changed, and those that take turns with them from round to round."""
        updated, work = set(self.changed), list(self.changed)
        while work:
            number = work.pop()
            for args in self.rounds:
                sources = {root.param for root in args[number] if root.param is not None}
                is_owned = bool(args[number]) and all(root.owned for root in args[number])
                if not is_owned or len(sources) > 1 or not sources.isdisjoint(self.excluded):
                    self.unstable.add(number)
                work += sources - updated
                updated |= sources
        return updated


def _is_after(use: _Path, path: _Path) -> bool:
    """Return whether control may come from ``path`` to ``use``: not from one branch to the other."""
    for depth, (one, other) in enumerate(zip(use, path, strict=False)):
        if one != other:
            # The paths part at a position (even depth): the later one is after the earlier. At a
            # branch (odd depth), neither follows the other.
            return depth % 2 == 0 and one > other
    return len(use) > len(path)


def _roots(memory: _Memory) -> Iterator[_Root]:
    if isinstance(memory, tuple):
        for part in memory:
            yield from _roots(part)
    else:
        yield from memory


def _merge(lhs: _Memory, rhs: _Memory) -> _Memory:
    if isinstance(lhs, tuple) and isinstance(rhs, tuple) and len(lhs) == len(rhs):
        return tuple(map(_merge, lhs, rhs))
    return frozenset((*_roots(lhs), *_roots(rhs)))


def _fields(type_: ir.Type) -> list[ir.Type]:
    return list(type_.fields) if isinstance(type_, relax.TupleType) else [type_]
