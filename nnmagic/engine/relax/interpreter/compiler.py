"""The control flow of functions as instructions for the evaluator, and the kernels in between. Knows the IR.

A function's body is cut into scopes (the body, branches, arms), whose nodes are computed in Relay's order.
Operators have no effects: in a scope all those that can be computed after one and before the next call,
branch or reference form one kernel, which is a Relay function of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm_ffi

from nnmagic.engine import engine_error
from nnmagic.engine.relax.analysis.dim_labels import names_in
from nnmagic.engine.relax.analysis.first_order_functions import is_first_order
from nnmagic.engine.relax.analysis.tuple_flattening import flatten, rebuild
from nnmagic.engine.relax.interpreter.instructions import (
    Apply,
    Branch,
    Closure,
    Code,
    FunctionCode,
    Instruction,
    RefCell,
    Select,
    Slots,
    Step,
)
from nnmagic.engine.relax.interpreter.pattern_matching import compile_pattern
from nnmagic.relay.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    OpRef,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    children,
)
from nnmagic.relay.module import Module
from nnmagic.relay.passes.scopes import PlacementScope, is_opaque, scopes_of
from nnmagic.relay.text.trampoline import Steps, run
from nnmagic.relay.traverse import pattern_vars, post_order, rewrite
from nnmagic.relay.types import AnyDim, TensorType, TupleType, Type, VarDim
from nnmagic.relay.values import AdtValue


@dataclass(frozen=True, slots=True)
class ProgramKernel:
    """A kernel: a plain Relay function; ``deep`` where it calls functions that may recurse."""

    name: str
    function: Function
    deep: bool


class ProgramCompiler:
    """The functions that an entry function needs, as code; ``as_tensor`` makes tensors of constants."""

    def __init__(self, module: Module, plain: frozenset[str], as_tensor: Any) -> None:
        self.module = module
        self.plain = plain
        self.as_tensor = as_tensor
        self.codes: dict[str, FunctionCode] = {}
        self.waiting: list[str] = []
        self.kernels: list[ProgramKernel] = []

    def compiled(self, entry: str) -> FunctionCode:
        """The code of a function, complete with all that it calls."""
        code = self.code(entry)
        while self.waiting:
            name = self.waiting.pop()
            _FunctionCompiler(self, name, _transparent(self.module.functions[name])).compile(self.codes[name])
        return code

    def code(self, name: str) -> FunctionCode:
        """The code of a function of the module; its instructions may come later."""
        if name not in self.codes:
            self.codes[name] = FunctionCode(name)
            self.waiting.append(name)
        return self.codes[name]

    def add_kernel(self, owner: str, function: Function) -> int:
        """The number of a new kernel."""
        name = f"{owner}_kernel{len(self.kernels)}"
        while name in self.module.functions:
            name += "_"
        deep = any(isinstance(node, GlobalVar) for node in post_order(function.body))
        self.kernels.append(ProgramKernel(name, function, deep))
        return len(self.kernels) - 1


def _transparent(function: Function) -> Function:
    """A copy of a function whose inner functions are not marked as one kernel: they are run as any other."""

    def plain(_old: Expr, new: Expr) -> Expr:
        return replace(new, attrs={}) if isinstance(new, Function) and is_opaque(new) else new

    found = rewrite(function, plain)
    assert isinstance(found, Function)
    return found


@dataclass(slots=True)
class _Layout:
    """The slots of one function: of its own values, and of those that it captures (in order)."""

    code: FunctionCode
    slots: dict[Expr, int] = field(default_factory=dict)
    captures: dict[Expr, int] = field(default_factory=dict)

    def own(self, node: Expr) -> int:
        """The slot of a value that this function computes."""
        if node not in self.slots:
            self.slots[node] = self.code.size
            self.code.size += 1
        return self.slots[node]


class _FunctionCompiler:
    """One global function with all functions inside.

    meaning: what each node is, behind names and projections of known tuples. owner: the function that
    computes a node. level: after how many barriers (calls, branches, references) of its scope a node can be
    computed. used: the nodes whose values are needed in slots; live: those and what kernels compute them of.
    """

    def __init__(self, program: ProgramCompiler, name: str, function: Function) -> None:
        self.program = program
        self.name = name
        self.root = function
        self.scopes = scopes_of(function)
        self.meaning: dict[Expr, Expr] = {}
        self.owner: dict[Expr, Function] = dict.fromkeys(function.params, function)
        self.level: dict[Expr, int] = {}
        self.in_scope: dict[PlacementScope, list[Expr]] = {}
        self.used: set[Expr] = set()
        self.live: set[Expr] = set()
        self.layouts: dict[Function, _Layout] = {}

    def compile(self, code: FunctionCode) -> None:
        self._place()
        self._find_used()
        run(self._function(self.root, code, self.scopes.outermost))

    # What every node is, and where

    def _place(self) -> None:
        bound = {node.var: node.value for node in self.scopes.order if isinstance(node, Let)}
        barriers: dict[PlacementScope, int] = {}
        for node in dict.fromkeys(self.scopes.order):
            self.meaning[node] = self._meaning(node, bound)
            if isinstance(node, Function):
                self.owner |= dict.fromkeys(node.params, node)
            if isinstance(node, Match):
                for arm, scope in zip(
                    node.clauses, self.scopes.inner[node][-len(node.clauses) :], strict=True
                ):
                    self.owner |= dict.fromkeys(pattern_vars(arm.lhs), scope.function)
            if node in self.scopes.early and not isinstance(self.meaning[node], Function):
                raise engine_error("a let may use itself only inside of a function", node.span)
            if self.meaning[node] is not node or isinstance(node, Var | OpRef):
                continue
            scope = self.scopes.scope_of[node]
            self.owner[node] = scope.function
            self.in_scope.setdefault(scope, []).append(node)
            if self._is_barrier(node):
                barriers[scope] = self.level[node] = barriers.get(scope, 0) + 1
            else:
                parts = (self.meaning.get(part, part) for part in self._inputs(node))
                here = (self.level.get(part, 0) for part in parts if self.scopes.scope_of.get(part) is scope)
                self.level[node] = max(here, default=0)

    def _meaning(self, node: Expr, bound: Mapping[Var, Expr]) -> Expr:
        """The node that computes the value; a let's end comes after its value and its body."""
        found = node
        while isinstance(found, Let) or (isinstance(found, Var) and found in bound):
            found = found.body if isinstance(found, Let) else bound[found]
        if isinstance(found, TupleGetItem) and found is node:
            whole = self.meaning[found.tuple_value]
            if isinstance(whole, Tuple):
                return self.meaning[whole.fields[found.index]]
        return found if found is node else self.meaning.get(found, found)

    def _inputs(self, node: Expr) -> Iterator[Expr]:
        """What a node that is no barrier is computed of; of a function, all that is inside."""
        if isinstance(node, Function):
            yield from (part for part in post_order(node.body))
        else:
            yield from children(node)

    def _in_kernel(self, node: Expr) -> bool:
        """Whether a node is computed by a kernel: an operator, or a plain function of tensors."""
        match node:
            case Call(op=op, args=args):
                callee = self.meaning.get(op, op)
                if isinstance(callee, GlobalVar):
                    types = [arg.checked_type for arg in args]
                    return callee.name in self.program.plain and all(
                        map(is_first_order, [*types, node.checked_type])
                    )
                return isinstance(callee, OpRef)
        return False

    def _is_barrier(self, node: Expr) -> bool:
        match node:
            case Call(op=op):
                return not self._in_kernel(node) and not isinstance(self.meaning.get(op, op), Constructor)
            case If() | Match() | RefCreate() | RefRead() | RefWrite():
                return True
        return False

    # What the instructions and the kernels need

    def _find_used(self) -> None:
        """Marks what is used, users before what they use; what nobody uses, barriers aside, is left out."""
        self._use(self.root.body)
        for node in reversed(list(dict.fromkeys(self.scopes.order))):
            if self.meaning[node] is not node:
                continue
            if isinstance(node, Function):
                self._use(node.body)
            elif self._in_kernel(node):
                if node in self.live:
                    for part, is_inside in self._operands(node):
                        (self.live.add if is_inside else self._use)(part)
            elif self._is_barrier(node) or node in self.used:
                callee = self.meaning[node.op] if isinstance(node, Call) else None
                for part in children(node):
                    if callee is None or self.meaning[part] is not callee or not isinstance(callee, _KNOWN):
                        self._use(part)

    def _use(self, node: Expr) -> None:
        found = self.meaning.get(node, node)
        self.used.add(found)
        self.live.add(found)

    def _kernel_of(self, node: Expr) -> tuple[PlacementScope, int]:
        return self.scopes.scope_of[node], self.level[node]

    def _operands(self, call: Expr) -> Iterator[tuple[Expr, bool]]:
        """The values that a node in a kernel is computed of, and whether its kernel computes them, too."""
        assert isinstance(call, Call)
        work = list(reversed(call.args))
        while work:
            part = work.pop()
            part = self.meaning.get(part, part)
            match part:
                case Constant():
                    pass
                case Tuple(fields=fields):
                    work.extend(reversed(fields))
                case TupleGetItem(tuple_value=value) if self._is_inside(part, call):
                    work.append(value)
                case _:
                    yield part, self._is_inside(part, call)

    def _is_inside(self, part: Expr, call: Expr) -> bool:
        """Whether a projection or call is computed by the same kernel as ``call``."""
        while isinstance(part, TupleGetItem):
            part = self.meaning[part.tuple_value]
        return self._in_kernel(part) and self._kernel_of(part) == self._kernel_of(call)

    # Instructions

    def _function(self, function: Function, code: FunctionCode, scope: PlacementScope) -> Steps[Any]:
        layout = self.layouts[function] = _Layout(code)
        code.params = tuple(layout.own(param) for param in function.params)
        code.body = yield self._scope(scope, function.body)
        code.captures = tuple(layout.captures.values())
        return code

    def _slot(self, function: Function, node: Expr) -> int:
        """The slot of a value in the frame of a function, which captures it where it is not its own."""
        node = self.meaning.get(node, node)
        if isinstance(node, OpRef):
            raise engine_error(
                f"{node.name} is an operator, which is no value; write a fn that calls it", node.span
            )
        owner = self.owner.get(node)
        layout = self.layouts[function]
        if owner is function:
            return layout.own(node)
        if function is self.root or owner is None:
            name = f"%{node.name_hint}" if isinstance(node, Var) else "a value"
            raise engine_error(f"{name} is used outside of the function or arm that binds it", node.span)
        if node not in layout.captures:
            layout.captures[node] = layout.code.size
            layout.code.size += 1
        return layout.captures[node]

    def _scope(self, scope: PlacementScope, result: Expr) -> Steps[Any]:
        """The code of a scope, level by level: the barrier, what the kernel needs, the kernel, the rest."""
        target = self._slot(scope.function, result)
        levels: dict[int, list[Expr]] = {}
        for node in self.in_scope.get(scope, ()):
            if node in self.live or self._is_barrier(node):
                levels.setdefault(self.level[node], []).append(node)
        instructions: list[Instruction] = []
        for level in sorted(levels):
            inside = [node for node in levels[level] if self._in_kernel(node)]
            after = set(inside)
            late = []
            for node in levels[level]:
                if node in after:
                    continue
                if any(self.meaning.get(part, part) in after for part in self._inputs(node)):
                    after.add(node)
                    late.append(node)
                else:
                    instructions.append((yield self._instruction(scope.function, node)))
            if inside:
                instructions.append(self._kernel(scope.function, inside))
            for node in late:
                step = yield self._instruction(scope.function, node)
                instructions.append(step)
        if instructions and not isinstance(instructions[-1], Step) and instructions[-1].target == target:
            instructions[-1] = replace(instructions[-1], last=True)
        return Code(tuple(instructions), target)

    def _instruction(self, function: Function, node: Expr) -> Steps[Any]:
        """What computes a node that no kernel computes."""
        target = self._slot(function, node)
        match node:
            case Constant(data=data):
                return _constant(target, self.program.as_tensor(data))
            case Tuple(fields=fields):
                return _tuple(target, [self._slot(function, part) for part in fields])
            case TupleGetItem(tuple_value=value, index=index):
                return _field(target, self._slot(function, value), index)
            case GlobalVar(name=name):
                return _constant(target, Closure(self.program.code(name), []))
            case Constructor():
                return _constant(target, node)
            case Function():
                return (yield self._closure(function, node, target))
            case If(cond=cond):
                scopes = self.scopes.inner[node]
                then = yield self._scope(scopes[0], node.true_branch)
                other = yield self._scope(scopes[1], node.false_branch)
                return Branch(self._slot(function, cond), then, other, target, last=False)
            case Match():
                return (yield self._select(function, node, target))
            case Call(op=op, args=args):
                callee = self.meaning[op]
                slots = tuple(self._slot(function, arg) for arg in args)
                if isinstance(callee, Constructor):
                    return _constructed(target, callee.name, slots)
                if isinstance(callee, GlobalVar):
                    return Apply(self.program.code(callee.name), slots, target, last=False)
                return Apply(self._slot(function, callee), slots, target, last=False)
            case RefCreate(value=value):
                return _cell(target, self._slot(function, value))
            case RefRead(ref=ref):
                return _read(target, self._slot(function, ref))
            case RefWrite(ref=ref, value=value):
                return _write(target, self._slot(function, ref), self._slot(function, value))
        raise engine_error(f"the relax engine cannot run a {type(node).__name__} here", node.span)

    def _closure(self, function: Function, node: Function, target: int) -> Steps[Any]:
        code = yield self._function(node, FunctionCode(self.name), self.scopes.inner[node][0])
        captured = [
            None if inner is node else self._slot(function, inner) for inner in self.layouts[node].captures
        ]
        return _closure(target, code, captured)

    def _select(self, function: Function, node: Match, target: int) -> Steps[Any]:
        scopes = self.scopes.inner.get(node, ())
        arms = []
        for clause, scope in zip(node.clauses, scopes, strict=True):
            takes = compile_pattern(clause.lhs, self.layouts[function].own)
            arms.append((takes, (yield self._scope(scope, clause.rhs))))
        data = self._slot(function, node.data)
        return Select(data, tuple(arms), target, last=False, assertion=node.assertion, span=node.span)

    # Kernels

    def _kernel(self, function: Function, nodes: Sequence[Expr]) -> Step:
        """A kernel that computes ``nodes``, and the step that runs it."""
        params: dict[Expr, Var] = {}
        made: dict[Expr, Expr] = {}

        def operand(part: Expr) -> Expr:
            part = self.meaning.get(part, part)
            match part:
                case Constant():
                    return part
                case Tuple(fields=fields):
                    return replace(part, fields=tuple(map(operand, fields)))
                case TupleGetItem(tuple_value=value) if self._is_inside(part, call):
                    return replace(part, tuple_value=operand(value))
                case _ if part in made:
                    return made[part]
            if part not in params:
                name = part.name_hint if isinstance(part, Var) else f"v{len(params)}"
                params[part] = Var(name, _type_of(part), span=part.span, checked_type=_type_of(part))
            return params[part]

        for call in nodes:
            assert isinstance(call, Call)
            made[call] = replace(
                call, op=self.meaning.get(call.op, call.op), args=tuple(map(operand, call.args))
            )
        self._add_named_dims(function, nodes, params)
        results = [node for node in nodes if node in self.used]
        body = made[results[0]] if len(results) == 1 else Tuple(tuple(made[node] for node in results))
        types = [_type_of(node) for node in results]
        type_ = types[0] if len(types) == 1 else TupleType(tuple(types))
        body = body if len(types) == 1 else replace(body, checked_type=type_)
        number = self.program.add_kernel(self.name, Function(tuple(params.values()), body, type_))
        return _run_kernel(
            number,
            [self._slot(function, part) for part in params],
            all(isinstance(param.checked_type, TensorType) for param in params.values()),
            [self._slot(function, node) for node in results],
            type_,
        )

    def _add_named_dims(self, function: Function, nodes: Sequence[Expr], params: dict[Expr, Var]) -> None:
        """Gives a kernel the parameters around it that have the dimensions which its attributes name."""
        named = {label for node in nodes if isinstance(node, Call) for label in _labels(node.attrs.values())}
        named -= {label for param in params.values() for label in _labels([param.checked_type])}
        while named:
            around = (param for param in function.params if named & set(_labels([_type_of(param)])))
            for param in around:
                if is_first_order(_type_of(param)):
                    params.setdefault(
                        param, Var(param.name_hint, _type_of(param), checked_type=_type_of(param))
                    )
                    named -= set(_labels([_type_of(param)]))
            if function is self.root:
                return
            function = self.scopes.scope_of[function].function


#: What a call needs no slot for.
_KNOWN = (GlobalVar, Constructor, OpRef)


def _type_of(node: Expr) -> Type:
    type_ = node.checked_type or (node.type_annotation if isinstance(node, Var) else None)
    if type_ is None:
        type_ = node.tensor_type if isinstance(node, Constant) else None
    if type_ is None:
        raise engine_error("the type of a value is not known", node.span, hint="infer types first")
    return type_


def _labels(values: Iterable[object]) -> Iterator[str]:
    """The names of dimensions in attributes or types."""
    for value in values:
        match value:
            case AnyDim() | VarDim():
                yield from names_in(value)
            case TensorType(shape=shape):
                yield from _labels(shape)
            case TupleType(fields=fields):
                yield from _labels(fields)
            case tuple():
                yield from _labels(value)


# Steps. Each is a function of the slots alone.


def _constant(target: int, value: Any) -> Step:
    def run_step(slots: Slots) -> None:
        slots[target] = value

    return Step(run_step)


def _tuple(target: int, fields: Sequence[int]) -> Step:
    def run_step(slots: Slots) -> None:
        slots[target] = tuple([slots[field] for field in fields])

    return Step(run_step)


def _field(target: int, whole: int, index: int) -> Step:
    def run_step(slots: Slots) -> None:
        slots[target] = slots[whole][index]

    return Step(run_step)


def _constructed(target: int, name: str, fields: Sequence[int]) -> Step:
    def run_step(slots: Slots) -> None:
        slots[target] = AdtValue(name, tuple([slots[field] for field in fields]))

    return Step(run_step)


def _closure(target: int, code: FunctionCode, captured: Sequence[int | None]) -> Step:
    """Makes a function value; it captures itself where ``captured`` has None."""

    def run_step(slots: Slots) -> None:
        closure = Closure(code, [])
        closure.captured.extend(closure if slot is None else slots[slot] for slot in captured)
        slots[target] = closure

    return Step(run_step)


def _cell(target: int, value: int) -> Step:
    def run_step(slots: Slots) -> None:
        slots[target] = RefCell(slots[value])

    return Step(run_step)


def _read(target: int, ref: int) -> Step:
    def run_step(slots: Slots) -> None:
        slots[target] = slots[ref].value

    return Step(run_step)


def _write(target: int, ref: int, value: int) -> Step:
    def run_step(slots: Slots) -> None:
        slots[ref].value = slots[value]
        slots[target] = ()

    return Step(run_step)


def _run_kernel(number: int, inputs: Sequence[int], flat: bool, targets: Sequence[int], type_: Type) -> Step:
    """Runs a kernel, whose result is that of its one target, or a tuple of theirs."""
    single = isinstance(type_, TensorType)

    def run_step(slots: Slots) -> None:
        given = [slots[slot] for slot in inputs]
        result = slots[0][number](given if flat else list(flatten(tuple(given))))
        if single:
            slots[targets[0]] = result
            return
        tensors = iter([result] if isinstance(result, tvm_ffi.Tensor) else result)
        values = rebuild(type_, tensors)
        for slot, value in zip(targets, values if len(targets) > 1 else (values,), strict=True):
            slots[slot] = value

    return Step(run_step)
