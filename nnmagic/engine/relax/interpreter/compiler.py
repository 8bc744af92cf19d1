"""Divide the functions of a program into control flow, which is interpreted, and kernels in between.

A function's body is divided into scopes (the body, branches, arms) whose nodes run in Relay's order. Between
two barriers (calls, also of Python, branches, references) of a scope, all operators form one kernel: a Relay
function of its own. Operators have no effects, so they may move within these levels (cf. effect ordering).
A scope becomes a chain of lets (A-normal form), so that its order is that of the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nnmagic.engine import engine_error
from nnmagic.engine.relax.analysis.dim_labels import names_in
from nnmagic.engine.relax.analysis.first_order_functions import is_first_order
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
    """Compiles the functions that an entry needs.

    ``functions`` are those that are interpreted, with calls of the ``kernels`` in them.
    """

    def __init__(self, module: Module, first_order: frozenset[str]) -> None:
        self.module = module
        self.first_order = first_order
        self.functions: dict[str, ir.Function] = {}
        self.waiting: list[str] = []
        self.kernels: list[ProgramKernel] = []

    def compile(self, entry: str) -> Module:
        """Return the control flow of a function, and of all functions that it needs."""
        self.require(entry)
        while self.waiting:
            name = self.waiting.pop()
            function = _unmark_kernels(self.module.functions[name])
            self.functions[name] = _FunctionCompiler(self, name, function).compile()
        return replace(self.module, functions=self.functions)

    def require(self, name: str) -> None:
        """Note that the interpreter may call a function of the module."""
        if name not in self.functions:
            self.functions[name] = self.module.functions[name]
            self.waiting.append(name)

    def add_kernel(self, owner: str, function: ir.Function) -> str:
        """Add a kernel and return its name."""
        name = f"{owner}_kernel{len(self.kernels)}"
        while name in self.module.functions:
            name += "_"
        deep = any(isinstance(node, ir.GlobalVar) for node in post_order(function.body))
        self.kernels.append(ProgramKernel(name, function, deep))
        return name


def _unmark_kernels(function: ir.Function) -> ir.Function:
    """Return a copy of a function whose inner functions are not marked as kernels."""

    def unmark(_old: ir.Expr, new: ir.Expr) -> ir.Expr:
        return replace(new, attrs={}) if isinstance(new, ir.Function) and is_opaque(new) else new

    return rewrite(function, unmark)


class _FunctionCompiler:
    """Compiles a global function with all functions inside it.

    Attributes:
        meaning: the node that computes each node's value, behind names and projections of known tuples.
        owner: the function that computes a node.
        level: the number of barriers of its scope that come before a node.
        used: the nodes whose values need names.
        names: what a node with a name is bound to.
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
        self.names: dict[ir.Expr, ir.Var] = {}

    def compile(self) -> ir.Function:
        self._place_nodes()
        self._find_uses()
        return replace(self.root, body=run(self._scope(self.scopes.outermost, self.root.body)))

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
            if self.meaning[node] is not node or isinstance(node, ir.Var | _ATOMS):
                continue
            scope = self.scopes.scope_of[node]
            self.owner[node] = scope.function
            self.in_scope.setdefault(scope, []).append(node)
            if self._is_barrier(node):
                barriers[scope] = self.level[node] = barriers.get(scope, 0) + 1
            else:
                inputs = (self.meaning.get(input_, input_) for input_ in self._inputs(node))
                here = (
                    self.level.get(input_, 0)
                    for input_ in inputs
                    if self.scopes.scope_of.get(input_) is scope
                )
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
            yield from post_order(node.body)
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

    # What the control flow and the kernels need

    def _find_uses(self) -> None:
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
                for operand in ir.children(node):
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

    # Control flow

    def _name(self, function: ir.Function, node: ir.Expr) -> ir.Expr:
        """Return what stands for a node's value in a function: a name, or what needs none."""
        node = self.meaning.get(node, node)
        match node:
            case ir.OpRef(name=name):
                message = f"{name} is an operator, which is no value; write a fn that calls it"
                raise engine_error(message, node.span)
            case ir.GlobalVar(name=name):
                self.program.require(name)
        if isinstance(node, _ATOMS):
            return node
        owner = self.owner.get(node)
        while function is not owner:
            if function is self.root or owner is None:
                name = f"%{node.name_hint}" if isinstance(node, ir.Var) else "a value"
                raise engine_error(f"{name} is used outside of the function or arm that binds it", node.span)
            function = self.scopes.scope_of[function].function
        return node if isinstance(node, ir.Var) else self._target(node)

    def _target(self, node: ir.Expr) -> ir.Var:
        """Return the name that a computed value is bound to."""
        if node not in self.names:
            self.names[node] = ir.Var(f"v{len(self.names)}")
        return self.names[node]

    def _scope(self, scope: PlacementScope, result: ir.Expr) -> Steps[ir.Expr]:
        """Compile a scope level by level: the barrier, what the kernel needs, the kernel, the rest.

        Nodes that use results of the level's kernel (tuples, projections, closures) come after it.
        """
        function = scope.function
        levels: dict[int, list[ir.Expr]] = {}
        for node in self.in_scope.get(scope, ()):
            if node in self.live or self._is_barrier(node):
                levels.setdefault(self.level[node], []).append(node)
        bindings: list[tuple[ir.Var, ir.Expr]] = []
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
                    bindings.append((self._target(node), (yield self._with_names(function, node))))
            if inside:
                bindings += self._kernel(function, inside)
            for node in late:
                value = yield self._with_names(function, node)
                bindings.append((self._target(node), value))
        body = self._name(function, result)
        if bindings and bindings[-1][0] is body:
            body = bindings.pop()[1]  # a call at the end of a function takes no stack
        for var, value in reversed(bindings):
            body = ir.Let(var, value, body)
        return body

    def _with_names(self, function: ir.Function, node: ir.Expr) -> Steps[ir.Expr]:
        """Return a node that no kernel computes, with names for what it is computed from."""

        def name(operand: ir.Expr) -> ir.Expr:
            return self._name(function, operand)

        match node:
            case ir.Function(body=body):
                return replace(node, body=(yield self._scope(self.scopes.inner[node][0], body)))
            case ir.If(cond=cond):
                scopes = self.scopes.inner[node]
                then = yield self._scope(scopes[0], node.true_branch)
                other = yield self._scope(scopes[1], node.false_branch)
                return replace(node, cond=name(cond), true_branch=then, false_branch=other)
            case ir.Match(data=data):
                clauses = []
                for clause, scope in zip(node.clauses, self.scopes.inner.get(node, ()), strict=True):
                    clauses.append(replace(clause, rhs=(yield self._scope(scope, clause.rhs))))
                return replace(node, data=name(data), clauses=tuple(clauses))
            case ir.Call(op=op, args=args):
                if is_callback(node):
                    _check_callback(node)
                callee = op if is_callback(node) else name(op)
                return replace(node, op=callee, args=tuple(map(name, args)))
            case ir.Tuple(fields=fields):
                return replace(node, fields=tuple(map(name, fields)))
            case ir.TupleGetItem(tuple_value=value):
                return replace(node, tuple_value=name(value))
            case ir.RefCreate(value=value):
                return replace(node, value=name(value))
            case ir.RefRead(ref=ref):
                return replace(node, ref=name(ref))
            case ir.RefWrite(ref=ref, value=value):
                return replace(node, ref=name(ref), value=name(value))
        raise engine_error(f"the relax engine cannot run a {type(node).__name__} here", node.span)

    # Kernels

    def _kernel(self, function: ir.Function, nodes: Sequence[ir.Expr]) -> list[tuple[ir.Var, ir.Expr]]:
        """Make a kernel that computes ``nodes``, and return the bindings of its results."""
        params: dict[ir.Expr, ir.Var] = {}
        replacements: dict[ir.Expr, ir.Expr] = {}

        def operand(node: ir.Expr) -> ir.Expr:
            node = self.meaning.get(node, node)
            match node:
                case ir.Constant():
                    return node
                case ir.Tuple(fields=fields):
                    return replace(node, fields=tuple(map(operand, fields)))
                case ir.TupleGetItem(tuple_value=value) if self._is_inside(node, call):
                    return replace(node, tuple_value=operand(value))
                case _ if node in replacements:
                    return replacements[node]
            if node not in params:
                name = node.name_hint if isinstance(node, ir.Var) else f"v{len(params)}"
                params[node] = ir.Var(name, _type_of(node), span=node.span, checked_type=_type_of(node))
            return params[node]

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
        kernel = ir.Function(tuple(params.values()), body, type_)
        callee = ir.GlobalVar(self.program.add_kernel(self.name, kernel))
        made = ir.Call(callee, tuple(self._name(function, node) for node in params), checked_type=type_)
        if len(results) == 1:
            return [(self._target(results[0]), made)]
        pack = ir.Var("results")
        fields = [(self._target(node), ir.TupleGetItem(pack, number)) for number, node in enumerate(results)]
        return [(pack, made), *fields]

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


#: What has a value wherever it is written, and needs no name.
_ATOMS = ir.Constant | ir.GlobalVar | ir.Constructor | ir.OpRef


def _check_callback(node: ir.Call) -> None:
    """Raise EngineError for a call of Python of which the module has the name alone."""
    try:
        Callback(node)
    except TypeError as error:
        hint = "give the call a relay.PythonFunction as its attribute: Relay's text cannot hold one"
        raise engine_error(str(error), node.span, hint=hint) from None


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
