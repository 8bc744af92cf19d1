"""Compile the control flow of functions to the interpreter's instructions, with kernels in between.

A function's body is divided into scopes (the body, branches, arms) whose nodes run in Relay's order. Between
two barriers (calls, also of Python, branches, references) of a scope, all operators form one kernel: a Relay
function of its own. Operators have no effects, so they may move within these levels (cf. effect ordering).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nnmagic.engine import engine_error
from nnmagic.engine.relax.analysis.dim_labels import names_in
from nnmagic.engine.relax.analysis.first_order_functions import is_first_order
from nnmagic.engine.relax.interpreter import blocks, pattern_matching, steps
from nnmagic.engine.relax.interpreter import instructions as ins
from nnmagic.relay import expr as ir
from nnmagic.relay.callbacks import Callback, is_callback
from nnmagic.relay.module import Module
from nnmagic.relay.passes.scopes import PlacementScope, is_opaque, scopes_of
from nnmagic.relay.structure.traverse import pattern_vars, post_order, rewrite
from nnmagic.relay.text.trampoline import Steps, run
from nnmagic.relay.types import AnyDim, TensorType, TupleType, Type, VarDim


@dataclass(frozen=True, slots=True)
class ProgramKernel:
    """A kernel: a first-order Relay function. ``deep``: whether it calls functions that may recurse."""

    name: str
    function: ir.Function
    deep: bool


class ProgramCompiler:
    """Compiles the functions that an entry needs."""

    def __init__(self, module: Module, first_order: frozenset[str]) -> None:
        self.module = module
        self.first_order = first_order
        self.codes: dict[str, ins.FunctionCode] = {}
        self.waiting: list[str] = []
        self.kernels: list[ProgramKernel] = []

    def compile(self, entry: str) -> ins.FunctionCode:
        """Return the code of a function, complete with all that it calls."""
        code = self.code(entry)
        while self.waiting:
            name = self.waiting.pop()
            _FunctionCompiler(self, name, _unmark_kernels(self.module.functions[name])).compile(
                self.codes[name]
            )
        return code

    def code(self, name: str) -> ins.FunctionCode:
        """Return the code of a function of the module; its instructions may be filled in later."""
        if name not in self.codes:
            self.codes[name] = ins.FunctionCode(name)
            self.waiting.append(name)
        return self.codes[name]

    def add_kernel(self, owner: str, function: ir.Function) -> int:
        """Add a kernel and return its number."""
        name = f"{owner}_kernel{len(self.kernels)}"
        while name in self.module.functions:
            name += "_"
        deep = any(isinstance(node, ir.GlobalVar) for node in post_order(function.body))
        self.kernels.append(ProgramKernel(name, function, deep))
        return len(self.kernels) - 1


def _unmark_kernels(function: ir.Function) -> ir.Function:
    """Return a copy of a function whose inner functions are not marked as kernels."""

    def unmark(_old: ir.Expr, new: ir.Expr) -> ir.Expr:
        return replace(new, attrs={}) if isinstance(new, ir.Function) and is_opaque(new) else new

    return rewrite(function, unmark)


@dataclass(slots=True)
class _Layout:
    """The slots of a function: of its own values, and of those that it captures, in order."""

    code: ins.FunctionCode
    slots: dict[ir.Expr, int] = field(default_factory=dict)
    captures: dict[ir.Expr, int] = field(default_factory=dict)

    def own(self, node: ir.Expr) -> int:
        """Return the slot of a value that this function computes."""
        if node not in self.slots:
            self.slots[node] = self.code.size
            self.code.size += 1
        return self.slots[node]


class _FunctionCompiler:
    """Compiles a global function with all functions inside it.

    Attributes:
        meaning: the node that computes each node's value, behind names and projections of known tuples.
        owner: the function that computes a node.
        level: the number of barriers of its scope that come before a node.
        used: the nodes whose values need slots.
        live: ``used``, and the nodes that kernels compute these from.

    """

    def __init__(self, program: ProgramCompiler, name: str, function: ir.Function) -> None:
        self.program = program
        self.name = name
        self.root = function
        self.scopes = scopes_of(function)
        self.meaning: dict[ir.Expr, ir.Expr] = {}
        self.owner: dict[ir.Expr, ir.Function] = dict.fromkeys(function.params, function)
        self.level: dict[ir.Expr, int] = {}
        self.in_scope: dict[PlacementScope, list[ir.Expr]] = {}
        self.used: set[ir.Expr] = set()
        self.live: set[ir.Expr] = set()
        self.layouts: dict[ir.Function, _Layout] = {}

    def compile(self, code: ins.FunctionCode) -> None:
        self._place_nodes()
        self._find_used()
        run(self._function(self.root, code, self.scopes.outermost))

    # What every node is, and where

    def _place_nodes(self) -> None:
        bound = {node.var: node.value for node in self.scopes.order if isinstance(node, ir.Let)}
        barriers: dict[PlacementScope, int] = {}
        for node in reversed(dict.fromkeys(reversed(self.scopes.order))):  # a let when its body is known
            self.meaning[node] = self._meaning(node, bound)
            if isinstance(node, ir.Function):
                self.owner |= dict.fromkeys(node.params, node)
            if isinstance(node, ir.Match):
                for arm, scope in zip(
                    node.clauses, self.scopes.inner[node][-len(node.clauses) :], strict=True
                ):
                    self.owner |= dict.fromkeys(pattern_vars(arm.lhs), scope.function)
            if node in self.scopes.early and not isinstance(self.meaning[node], ir.Function):
                raise engine_error("a let may use itself only inside of a function", node.span)
            if self.meaning[node] is not node or isinstance(node, ir.Var | ir.OpRef):
                continue
            scope = self.scopes.scope_of[node]
            self.owner[node] = scope.function
            self.in_scope.setdefault(scope, []).append(node)
            if self._is_barrier(node):
                barriers[scope] = self.level[node] = barriers.get(scope, 0) + 1
            else:
                parts = (self.meaning.get(input_, input_) for input_ in self._inputs(node))
                here = (self.level.get(part, 0) for part in parts if self.scopes.scope_of.get(part) is scope)
                self.level[node] = max(here, default=0)

    def _meaning(self, node: ir.Expr, bound: Mapping[ir.Var, ir.Expr]) -> ir.Expr:
        """Return the node that computes a node's value; a let follows its value and its body."""
        value = node
        while isinstance(value, ir.Let) or (isinstance(value, ir.Var) and value in bound):
            value = value.body if isinstance(value, ir.Let) else bound[value]
        if isinstance(value, ir.TupleGetItem) and value is node:
            tuple_ = self.meaning[value.tuple_value]
            if isinstance(tuple_, ir.Tuple):
                return self.meaning[tuple_.fields[value.index]]
        return value if value is node else self.meaning.get(value, value)

    def _inputs(self, node: ir.Expr) -> Iterator[ir.Expr]:
        """Yield what a node that is no barrier is computed from; for a function, all nodes inside."""
        if isinstance(node, ir.Function):
            yield from (part for part in post_order(node.body))
        else:
            yield from ir.children(node)

    def _in_kernel(self, node: ir.Expr) -> bool:
        """Return whether a kernel computes the node: an operator, or a first-order function of tensors."""
        match node:
            case ir.Call(op=op, args=args):
                callee = self.meaning.get(op, op)
                if isinstance(callee, ir.GlobalVar):
                    types = [arg.checked_type for arg in args]
                    return callee.name in self.program.first_order and all(
                        map(is_first_order, [*types, node.checked_type])
                    )
                return isinstance(callee, ir.OpRef) and not is_callback(node)
        return False

    def _is_barrier(self, node: ir.Expr) -> bool:
        match node:
            case ir.Call(op=op):
                return not self._in_kernel(node) and not isinstance(self.meaning.get(op, op), ir.Constructor)
            case ir.If() | ir.Match() | ir.RefCreate() | ir.RefRead() | ir.RefWrite():
                return True
        return False

    # What the instructions and the kernels need

    def _find_used(self) -> None:
        """Mark what is used, users first; unused nodes other than barriers are dropped."""
        self._use(self.root.body)
        for node in reversed(list(dict.fromkeys(self.scopes.order))):
            if self.meaning[node] is not node:
                continue
            if isinstance(node, ir.Function):
                self._use(node.body)
            elif self._in_kernel(node):
                if node in self.live:
                    for operand, is_inside in self._operands(node):
                        (self.live.add if is_inside else self._use)(operand)
            elif self._is_barrier(node) or node in self.used:
                callee = self.meaning[node.op] if isinstance(node, ir.Call) else None
                for operand in ir.children(node):
                    # The instruction of a call names a known callee, which needs no slot.
                    if (
                        callee is None
                        or self.meaning[operand] is not callee
                        or not isinstance(callee, _KNOWN)
                    ):
                        self._use(operand)

    def _use(self, node: ir.Expr) -> None:
        value = self.meaning.get(node, node)
        self.used.add(value)
        self.live.add(value)

    def _kernel_of(self, node: ir.Expr) -> tuple[PlacementScope, int]:
        return self.scopes.scope_of[node], self.level[node]

    def _operands(self, call: ir.Expr) -> Iterator[tuple[ir.Expr, bool]]:
        """Yield the operands of a node in a kernel, and whether the same kernel computes them."""
        assert isinstance(call, ir.Call)
        work = list(reversed(call.args))
        while work:
            operand = work.pop()
            operand = self.meaning.get(operand, operand)
            match operand:
                case ir.Constant():
                    pass
                case ir.Tuple(fields=fields):
                    work.extend(reversed(fields))
                case ir.TupleGetItem(tuple_value=value) if self._is_inside(operand, call):
                    work.append(value)
                case _:
                    yield operand, self._is_inside(operand, call)

    def _is_inside(self, node: ir.Expr, call: ir.Expr) -> bool:
        """Return whether the kernel of ``call`` computes a projection or call."""
        while isinstance(node, ir.TupleGetItem):
            node = self.meaning[node.tuple_value]
        return self._in_kernel(node) and self._kernel_of(node) == self._kernel_of(call)

    # Instructions

    def _function(self, function: ir.Function, code: ins.FunctionCode, scope: PlacementScope) -> Steps[Any]:
        layout = self.layouts[function] = _Layout(code)
        code.params = tuple(layout.own(param) for param in function.params)
        code.body = yield self._scope(scope, function.body)
        code.captures = tuple(layout.captures.values())
        blocks.set_start(code)
        return code

    def _slot(self, function: ir.Function, node: ir.Expr) -> int:
        """Return the slot of a value in a function's frame; the function captures what it does not own."""
        node = self.meaning.get(node, node)
        if isinstance(node, ir.OpRef):
            raise engine_error(
                f"{node.name} is an operator, which is no value; write a fn that calls it", node.span
            )
        owner = self.owner.get(node)
        layout = self.layouts[function]
        if owner is function:
            return layout.own(node)
        if function is self.root or owner is None:
            name = f"%{node.name_hint}" if isinstance(node, ir.Var) else "a value"
            raise engine_error(f"{name} is used outside of the function or arm that binds it", node.span)
        if node not in layout.captures:
            layout.captures[node] = layout.code.size
            layout.code.size += 1
        return layout.captures[node]

    def _scope(self, scope: PlacementScope, result: ir.Expr) -> Steps[Any]:
        """Compile a scope level by level: the barrier, what the kernel needs, the kernel, the rest.

        Nodes that use results of the level's kernel (tuples, projections, closures) come after it.
        """
        target = self._slot(scope.function, result)
        levels: dict[int, list[ir.Expr]] = {}
        for node in self.in_scope.get(scope, ()):
            if node in self.live or self._is_barrier(node):
                levels.setdefault(self.level[node], []).append(node)
        instructions: list[ins.Instruction] = []
        for level in sorted(levels):
            inside = [node for node in levels[level] if self._in_kernel(node)]
            after = set(inside)
            late = []
            for node in levels[level]:
                if node in after:
                    continue
                if any(self.meaning.get(operand, operand) in after for operand in self._inputs(node)):
                    after.add(node)
                    late.append(node)
                else:
                    instructions.append((yield self._instruction(scope.function, node)))
            if inside:
                instructions.append(self._kernel(scope.function, inside))
            for node in late:
                step = yield self._instruction(scope.function, node)
                instructions.append(step)
        return ins.Code(tuple(instructions), target)

    def _instruction(self, function: ir.Function, node: ir.Expr) -> Steps[Any]:
        """Compile a node that no kernel computes."""
        target = self._slot(function, node)
        match node:
            case ir.Constant(data=data):
                return steps.constant(target, data)
            case ir.Tuple(fields=fields):
                return steps.make_tuple(target, [self._slot(function, field) for field in fields])
            case ir.TupleGetItem(tuple_value=value, index=index):
                return steps.get_field(target, self._slot(function, value), index)
            case ir.GlobalVar(name=name):
                return steps.constant(target, ins.Closure(self.program.code(name), []))
            case ir.Constructor():
                return steps.constant(target, blocks.constructor_function(node.name, len(node.inputs)))
            case ir.Function():
                return (yield self._closure(function, node, target))
            case ir.If(cond=cond):
                scopes = self.scopes.inner[node]
                then = yield self._scope(scopes[0], node.true_branch)
                other = yield self._scope(scopes[1], node.false_branch)
                return ins.Branch(self._slot(function, cond), then, other, target)
            case ir.Match():
                return (yield self._select(function, node, target))
            case ir.Call() if is_callback(node):
                return self._callback(function, node, target)
            case ir.Call(op=op, args=args):
                callee = self.meaning[op]
                slots = tuple(self._slot(function, arg) for arg in args)
                if isinstance(callee, ir.Constructor):
                    return steps.construct(target, callee.name, slots)
                if isinstance(callee, ir.GlobalVar):
                    return ins.Apply(self.program.code(callee.name), slots, target)
                return ins.Apply(self._slot(function, callee), slots, target)
            case ir.RefCreate(value=value):
                return steps.make_ref(target, self._slot(function, value))
            case ir.RefRead(ref=ref):
                return steps.read_ref(target, self._slot(function, ref))
            case ir.RefWrite(ref=ref, value=value):
                return steps.write_ref(target, self._slot(function, ref), self._slot(function, value))
        raise engine_error(f"the relax engine cannot run a {type(node).__name__} here", node.span)

    def _closure(self, function: ir.Function, node: ir.Function, target: int) -> Steps[Any]:
        code = yield self._function(node, ins.FunctionCode(self.name), self.scopes.inner[node][0])
        captured = [
            # None stands for the closure itself, which is not there yet.
            None if inner is node else self._slot(function, inner)
            for inner in self.layouts[node].captures
        ]
        return steps.make_closure(target, code, captured)

    def _select(self, function: ir.Function, node: ir.Match, target: int) -> Steps[Any]:
        scopes = self.scopes.inner.get(node, ())
        data = self._slot(function, node.data)
        arms = []
        for clause, scope in zip(node.clauses, scopes, strict=True):
            conditions, binds = pattern_matching.compile_pattern(
                clause.lhs, f"v{data}", self.layouts[function].own
            )
            arms.append(ins.Arm(conditions, binds, (yield self._scope(scope, clause.rhs))))
        return ins.Select(data, tuple(arms), target, assertion=node.assertion, span=node.span)

    def _callback(self, function: ir.Function, node: ir.Call, target: int) -> ins.Step:
        """Call a function of Python; its declared shapes may name sizes of the parameters around it."""
        around: dict[ir.Expr, ir.Var] = {}
        self._add_named_dims(function, [node], around)
        try:
            callback = Callback(node)
        except TypeError as error:
            hint = "give the call a relay.PythonFunction as its attribute: Relay's text cannot hold one"
            raise engine_error(str(error), node.span, hint=hint) from None
        types = [_type_of(param) for param in around]
        inputs = [self._slot(function, param) for param in around]
        return steps.call_back(
            target, self._slot(function, node.args[0]), inputs, ins.SizedCallback(callback, types)
        )

    # Kernels

    def _kernel(self, function: ir.Function, nodes: Sequence[ir.Expr]) -> ins.Step:
        """Make a kernel that computes ``nodes``, and return the step that runs it."""
        params: dict[ir.Expr, ir.Var] = {}
        replacements: dict[ir.Expr, ir.Expr] = {}

        def operand(part: ir.Expr) -> ir.Expr:
            part = self.meaning.get(part, part)
            match part:
                case ir.Constant():
                    return part
                case ir.Tuple(fields=fields):
                    return replace(part, fields=tuple(map(operand, fields)))
                case ir.TupleGetItem(tuple_value=value) if self._is_inside(part, call):
                    return replace(part, tuple_value=operand(value))
                case _ if part in replacements:
                    return replacements[part]
            if part not in params:
                name = part.name_hint if isinstance(part, ir.Var) else f"v{len(params)}"
                params[part] = ir.Var(name, _type_of(part), span=part.span, checked_type=_type_of(part))
            return params[part]

        for call in nodes:
            assert isinstance(call, ir.Call)
            replacements[call] = replace(
                call, op=self.meaning.get(call.op, call.op), args=tuple(map(operand, call.args))
            )
        self._add_named_dims(function, nodes, params)
        results = [node for node in nodes if node in self.used]
        body = (
            replacements[results[0]]
            if len(results) == 1
            else ir.Tuple(tuple(replacements[node] for node in results))
        )
        types = [_type_of(node) for node in results]
        type_ = types[0] if len(types) == 1 else TupleType(tuple(types))
        body = body if len(types) == 1 else replace(body, checked_type=type_)
        number = self.program.add_kernel(self.name, ir.Function(tuple(params.values()), body, type_))
        return steps.run_kernel(
            number,
            [(self._slot(function, part), _type_of(param)) for part, param in params.items()],
            [self._slot(function, node) for node in results],
            type_,
        )

    def _add_named_dims(
        self, function: ir.Function, nodes: Sequence[ir.Expr], params: dict[ir.Expr, ir.Var]
    ) -> None:
        """Pass a kernel the enclosing parameters whose dimensions its attributes name."""
        named = {
            label for node in nodes if isinstance(node, ir.Call) for label in _labels(node.attrs.values())
        }
        named -= {label for param in params.values() for label in _labels([param.checked_type])}
        while named:
            around = (param for param in function.params if named & set(_labels([_type_of(param)])))
            for param in around:
                if is_first_order(_type_of(param)):
                    params.setdefault(
                        param, ir.Var(param.name_hint, _type_of(param), checked_type=_type_of(param))
                    )
                    named -= set(_labels([_type_of(param)]))
            if function is self.root:
                return
            function = self.scopes.scope_of[function].function


#: What a call needs no slot for.
_KNOWN = (ir.GlobalVar, ir.Constructor, ir.OpRef)


def _type_of(node: ir.Expr) -> Type:
    type_ = node.checked_type or (node.type_annotation if isinstance(node, ir.Var) else None)
    if type_ is None:
        type_ = node.tensor_type if isinstance(node, ir.Constant) else None
    if type_ is None:
        raise engine_error("the type of a value is not known", node.span, hint="infer types first")
    return type_


def _labels(values: Iterable[object]) -> Iterator[str]:
    """Yield the names of dimensions in attributes or types."""
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
