"""Computing what is known when compiling: the machine behind folding and control flow. Knows the IR.

It goes through a function in the order of evaluation and rebuilds it, so that at every node the new parts,
and what is known of variables, are at hand. Every node is visited once, in one context: a function that is
put in the place of several calls is copied for all but one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

from nnmagic.diagnostics import Span
from nnmagic.relay.callgraph import call_graph, recursive_functions
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
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    Tuple,
    TupleGetItem,
    Var,
    children,
)
from nnmagic.relay.module import Module
from nnmagic.relay.passes.effects import Effects
from nnmagic.relay.passes.normal_forms import without_lets
from nnmagic.relay.passes.numpy_evaluator import OF_TYPES
from nnmagic.relay.passes.rewriting import copied, map_functions
from nnmagic.relay.passes.scopes import computing_order, is_atom, is_opaque
from nnmagic.relay.text.trampoline import Steps, run
from nnmagic.relay.traverse import with_parts
from nnmagic.relay.types import scalar_type

#: Gives the value of an operator's call whose arguments are constants or tuples of them, or None.
Evaluator = Callable[[Call], "Constant | None"]


def evaluate_module(
    module: Module, evaluate: Evaluator | None, *, reduce: bool = False, unroll: int = 0
) -> Module:
    """Every function evaluated as far as is known.

    evaluate: for operators on constants. reduce: also match, projections, calls of function literals and lets
    of names. unroll: how many calls of recursive functions may be replaced by the functions' bodies.
    """
    machine = _Machine(module, evaluate, reduce=reduce, unroll=unroll)
    return map_functions(module, machine.function)


class _Machine:
    """memo: the new node for each old one, and what stands for a variable that was done away with.

    known: the new values of variables that stay. uses, calls: how many nodes use a node, and how many call
    it. early: the variables that are used before they are bound. once: the functions bound by a let whose
    only use is a call; taken: those that a call has become. recursive: those bound by a let that call
    themselves. introduced: the lets that were put in the place of calls and matches.
    """

    def __init__(self, module: Module, evaluate: Evaluator | None, *, reduce: bool, unroll: int) -> None:
        self.module = module
        self.evaluate = evaluate
        self.reduce = reduce
        self.unroll = unroll
        self.effects = Effects(module)
        self.recursive_globals = recursive_functions(call_graph(module))
        self.memo: dict[Expr, Expr] = {}
        self.known: dict[Expr, Expr] = {}
        self.uses: Counter[Expr] = Counter()
        self.calls: Counter[Expr] = Counter()
        self.early: set[Var] = set()
        self.once: dict[Expr, Function] = {}
        self.taken: set[Function] = set()
        self.recursive: dict[Expr, Function] = {}
        self.introduced: set[Let] = set()

    def function(self, function: Function) -> Function:
        self.count(function)
        new = run(self.visit(function))
        assert isinstance(new, Function)
        return without_lets(new, self.effects, self.introduced)

    def count(self, function: Function) -> None:
        """Counts the uses of nodes, and those as what a call calls."""
        order, early = computing_order(function.body)
        self.early |= early
        for node in dict.fromkeys(order):
            self.uses.update(children(node))
            if isinstance(node, Call):
                self.calls[node.op] += 1

    def visit(self, node: Expr) -> Steps[Expr]:
        """The new node for an old one."""
        if node not in self.memo:
            match node:
                case Let():
                    new = yield self.let(node)
                case Call():
                    new = yield self.call(node)
                case If():
                    new = yield self.conditional(node)
                case Match():
                    new = yield self.match(node)
                case Var() if node in self.once:  # its call is not well typed
                    new = yield self.visit(self.once[node])
                case Function() if is_opaque(node):
                    new = node
                case _:
                    for part in children(node):
                        yield self.visit(part)
                    new = with_parts(node, self.new)
                    if isinstance(new, TupleGetItem):
                        new = self.projection(new)
            self.memo[node] = new
        return self.memo[node]

    def new(self, expr: Expr) -> Expr:
        return self.memo.get(expr, expr)

    def value(self, expr: Expr) -> Expr:
        """What a new expression is known to be: itself, or what a let bound to it."""
        while self.reduce and expr in self.known:
            expr = self.known[expr]
        return expr

    # Lets and calls of functions

    def let(self, let: Let) -> Steps[Expr]:
        var, value, early = let.var, let.value, let.var in self.early
        if isinstance(value, Function) and not is_opaque(value):
            if self.reduce and not early and self.uses[var] == self.calls[var] <= 1 and not value.type_params:
                self.once[var] = value
                return (yield self.visit(let.body))
            if early and not any(map(self.effects.own, computing_order(value)[0])):
                self.recursive[var] = value
        new_value = yield self.visit(value)
        is_name = self.reduce and is_atom(new_value)
        if not early and (is_name or _is_constant(new_value)):
            self.memo[var] = new_value
            return (yield self.visit(let.body))
        if not early:
            self.known[var] = new_value
        yield self.visit(let.body)
        return with_parts(let, self.new)

    def call(self, call: Call) -> Steps[Expr]:
        for arg in call.args:
            yield self.visit(arg)
        args = tuple(map(self.new, call.args))
        function = self.inlined(call) or self.unrolled(call, args)
        if function is not None:
            return (yield self.bound(dict(zip(function.params, args, strict=True)), function.body, call.span))
        yield self.visit(call.op)
        new = with_parts(call, self.new)
        assert isinstance(new, Call)
        return self.folded(new)

    def inlined(self, call: Call) -> Function | None:
        """The function that a call is the only one to use."""
        op = call.op
        function = self.once.get(op)
        if self.reduce and isinstance(op, Function) and self.uses[op] == 1:
            function = op
        if function is None or is_opaque(function) or len(function.params) != len(call.args):
            return None
        if function.type_params:
            return None
        if function in self.taken:  # the call was copied after all
            return self.copy(function, only=_must_stay)
        self.taken.add(function)
        return function

    def unrolled(self, call: Call, args: Sequence[Expr]) -> Function | None:
        """A copy of the recursive function called, where what it does first is decided by what is known."""
        function: Function | None = None
        match call.op:
            case GlobalVar(name=name) if name in self.recursive_globals:
                function = self.module.functions[name]
            case Var() as var:
                function = self.recursive.get(var)
        if self.unroll <= 0 or function is None or is_opaque(function) or function.type_params:
            return None
        if len(function.params) != len(args) or not self.is_decided(function, args):
            return None
        self.unroll -= 1
        # Functions of the module share nothing; copies of a local one may share what they find outside.
        return self.copy(function, only=_must_stay if isinstance(call.op, Var) else lambda _node: True)

    def is_decided(self, function: Function, args: Sequence[Expr]) -> bool:
        """Whether the arguments decide which branch a function takes in the end."""
        values: dict[Expr, Expr] = {}
        values |= {param: self.value(arg) for param, arg in zip(function.params, args, strict=True)}
        lets: dict[Expr, Expr] = {}
        last = function.body
        while isinstance(last, Let):
            lets[last.var] = last.value
            last = last.body
        while last in lets:
            last = lets.pop(last)  # a let of itself must not hold us up
        match last:
            case If(cond=cond):
                return isinstance(run(self.constant(cond, values, lets)), Constant)
            case Match(data=Var() as data):
                found = values.get(data)
                return isinstance(found, Call) and isinstance(found.op, Constructor)
            case _:
                return False

    def constant(self, node: Expr, values: dict[Expr, Expr], lets: Mapping[Expr, Expr]) -> Steps[Expr]:
        """What is known of an old node, a constant perhaps; ``values`` are known already, and grow."""
        if node not in values:
            if isinstance(node, Call) and isinstance(node.op, OpRef) and self.evaluate is not None:
                for arg in node.args:
                    yield self.constant(arg, values, lets)
                args = tuple(values[arg] for arg in node.args)
                known = bool(args) and all(map(_is_constant, args))
                values[node] = (self.evaluate(replace(node, args=args)) if known else None) or node
            elif node in lets:
                values[node] = node  # as it is found by a let of itself
                values[node] = yield self.constant(lets[node], values, lets)
            else:
                values[node] = self.value(self.new(node))
        return values[node]

    def copy(self, function: Function, only: Callable[[Expr], bool]) -> Function:
        new = copied(function, only=only)
        self.count(new)
        return new

    def bound(self, values: Mapping[Var, Expr], body: Expr, span: Span | None) -> Steps[Expr]:
        """The new node for ``body`` with variables bound to new expressions, in their order."""
        lets = []
        for var, value in values.items():
            if is_atom(value) or isinstance(value, Constant):
                self.memo[var] = value
            else:
                self.known[var] = value
                lets.append((var, value))
        new = yield self.visit(body)
        for var, value in reversed(lets):
            new = Let(var, value, new, span=span)
            self.introduced.add(new)
        return new

    # What is known of values

    def folded(self, call: Call) -> Expr:
        """A call of an operator on constants, computed."""
        if self.evaluate is None or not isinstance(call.op, OpRef) or not call.args:
            return call
        if call.op.name in OF_TYPES:
            if any(map(self.effects.within, call.args)):
                return call
        elif not all(map(_is_constant, call.args)):
            return call
        return self.evaluate(call) or call

    def projection(self, node: TupleGetItem) -> Expr:
        """A field of a tuple that is known; not where leaving out the tuple would leave out an effect."""
        whole = self.value(node.tuple_value)
        if not isinstance(whole, Tuple) or not 0 <= node.index < len(whole.fields):
            return node
        others = (field for index, field in enumerate(whole.fields) if index != node.index)
        if whole is node.tuple_value and any(map(self.effects.within, others)):
            return node
        return whole.fields[node.index]

    def conditional(self, node: If) -> Steps[Expr]:
        cond = yield self.visit(node.cond)
        if isinstance(cond, Constant) and cond.tensor_type == scalar_type("bool"):
            return (yield self.visit(node.true_branch if cond.data.item() else node.false_branch))
        yield self.visit(node.true_branch)
        yield self.visit(node.false_branch)
        return with_parts(node, self.new)

    def match(self, node: Match) -> Steps[Expr]:
        data = yield self.visit(node.data)
        if self.reduce and not self.effects.within(data):
            for clause in node.clauses:
                found = self.matched(clause.lhs, data)
                if found is None:
                    break
                if found is False:
                    continue
                if self.value(data) is data:
                    return (yield self.bound(found, clause.rhs, node.span))
                # What a let binds is computed there, also for those who use a part of it.
                self.memo |= cast(dict[Expr, Expr], found)
                return (yield self.visit(clause.rhs))
        for clause in node.clauses:
            yield self.visit(clause.rhs)
        return with_parts(node, self.new)

    def matched(self, pattern: Pattern, data: Expr) -> dict[Var, Expr] | Literal[False] | None:
        """The variables that a pattern binds; False where it does not match, None where that is not known."""
        bound: dict[Var, Expr] = {}
        is_known = True
        work = [(pattern, data)]
        while work:
            part, given = work.pop()
            found = self.value(given)
            match part, found:
                case PatternVar(var=var), _:
                    bound[var] = given
                case PatternWildcard(), _:
                    pass
                case PatternConstructor(), Call(op=Constructor(name=name), args=args):
                    if part.constructor.name != name:
                        return False
                    work.extend(reversed(list(zip(part.patterns, args, strict=False))))
                case PatternTuple(), Tuple(fields=fields):
                    work.extend(reversed(list(zip(part.patterns, fields, strict=False))))
                case _:
                    is_known = False
        return bound if is_known else None


def _is_constant(expr: Expr) -> bool:
    """Whether an expression is a constant, or a tuple of constants."""
    return isinstance(expr, Constant) or (
        isinstance(expr, Tuple) and all(isinstance(field, Constant) for field in expr.fields)
    )


#: Operators that stop the machine on some integers.
_MAY_STOP = frozenset({"divide", "floor_divide", "floor_mod", "mod", "trunc_divide", "trunc_mod"})


def _must_stay(node: Expr) -> bool:
    """Whether a node may stop the program, or never end, if it is computed earlier than the program says.

    What does not depend on the variables of a function that is copied, and need not stay, is computed once
    for all copies.
    """
    if not isinstance(node, Call) or isinstance(node.op, Constructor):
        return False
    return not isinstance(node.op, OpRef) or node.op.name in _MAY_STOP
