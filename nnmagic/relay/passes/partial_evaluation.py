"""Evaluate modules partially: the basis of constant folding and of control flow simplification.

The evaluator visits a function in the order of evaluation and rebuilds it, so that at every node the new
parts, and what is known of variables, are at hand. Every node is visited once, in one context: a function
that is inlined at several calls is copied for all but one.

Online partial evaluation (Jones, Gomard and Sestoft, 1993).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, cast

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.ops.declaration import is_speculatable
from nnmagic.relay.passes.effects import Effects
from nnmagic.relay.passes.normal_forms import without_lets
from nnmagic.relay.passes.numpy_evaluator import OF_TYPES
from nnmagic.relay.passes.rewriting import copy_graph, map_functions
from nnmagic.relay.passes.scopes import computing_order, is_atom, is_opaque, opens_sizes
from nnmagic.relay.structure.callgraph import call_graph, recursive_functions
from nnmagic.relay.structure.traverse import with_parts
from nnmagic.relay.text.trampoline import Steps, run
from nnmagic.relay.types import scalar_type

#: Returns the value of an operator's call whose arguments are constants or tuples of them, or None.
Evaluator = Callable[[ir.Call], "ir.Constant | None"]


def evaluate_module(
    module: Module, evaluate: Evaluator | None, *, reduce: bool = False, unroll: int = 0
) -> Module:
    """Evaluate every function as far as its values are known at compile time.

    evaluate: for operators on constants. reduce: also match, projections, calls of function literals and lets
    of names. unroll: how many calls of recursive functions may be replaced by the functions' bodies.
    """
    evaluator = PartialEvaluator(module, evaluate, reduce=reduce, unroll=unroll)
    return map_functions(module, evaluator.function)


class PartialEvaluator:
    """An online partial evaluator of one module.

    memo: the new node for each old one, and what replaces a variable whose let is gone. known: the new values
    of variables that stay. uses, calls: how many nodes use a node, and how many call it. early: the variables
    that are used before they are bound. once: the functions bound by a let whose only use is a call; taken:
    those already inlined at a call. recursive: those bound by a let that call themselves. introduced: the
    lets that replaced calls and matches.
    """

    def __init__(self, module: Module, evaluate: Evaluator | None, *, reduce: bool, unroll: int) -> None:
        self.module = module
        self.evaluate = evaluate
        self.reduce = reduce
        self.unroll = unroll
        self.effects = Effects(module)
        self.recursive_globals = recursive_functions(call_graph(module))
        self.memo: dict[ir.Expr, ir.Expr] = {}
        self.known: dict[ir.Expr, ir.Expr] = {}
        self.uses: Counter[ir.Expr] = Counter()
        self.calls: Counter[ir.Expr] = Counter()
        self.early: set[ir.Var] = set()
        self.once: dict[ir.Expr, ir.Function] = {}
        self.taken: set[ir.Function] = set()
        self.recursive: dict[ir.Expr, ir.Function] = {}
        self.introduced: set[ir.Let] = set()

    def function(self, function: ir.Function) -> ir.Function:
        """Evaluate a function of the module."""
        self.count(function)
        new = run(self.visit(function))
        assert isinstance(new, ir.Function)
        return without_lets(new, self.effects, self.introduced)

    def count(self, function: ir.Function) -> None:
        """Count the uses of nodes, and their uses as callees."""
        order, early = computing_order(function.body)
        self.early |= early
        for node in dict.fromkeys(order):
            self.uses.update(ir.children(node))
            if isinstance(node, ir.Call):
                self.calls[node.op] += 1

    def visit(self, node: ir.Expr) -> Steps[ir.Expr]:
        """Return the new node for an old one."""
        if node not in self.memo:
            match node:
                case ir.Let():
                    new = yield self.let(node)
                case ir.Call():
                    new = yield self.call(node)
                case ir.If():
                    new = yield self.conditional(node)
                case ir.Match():
                    new = yield self.match(node)
                case ir.Var() if node in self.once:  # its call is not well typed
                    new = yield self.visit(self.once[node])
                case ir.Function() if is_opaque(node):
                    new = node
                case _:
                    for child in ir.children(node):
                        yield self.visit(child)
                    new = with_parts(node, self.new)
                    if isinstance(new, ir.TupleGetItem):
                        new = self.project(new)
            self.memo[node] = new
        return self.memo[node]

    def new(self, expr: ir.Expr) -> ir.Expr:
        """Return the new expression for an old one; itself if it has none."""
        return self.memo.get(expr, expr)

    def value(self, expr: ir.Expr) -> ir.Expr:
        """Return what a new expression is known to be: itself, or what a let bound to it."""
        while self.reduce and expr in self.known:
            expr = self.known[expr]
        return expr

    # Lets and calls of functions

    def let(self, let: ir.Let) -> Steps[ir.Expr]:
        """Evaluate a let, and drop it if its value is a name, a constant or a function used once."""
        var, value, early = let.var, let.value, let.var in self.early
        if isinstance(value, ir.Function) and not is_opaque(value):
            if self.reduce and not early and self.uses[var] == self.calls[var] <= 1 and not value.type_params:
                self.once[var] = value
                return (yield self.visit(let.body))
            if early and not any(map(self.effects.own, computing_order(value)[0])):
                self.recursive[var] = value
        new_value = yield self.visit(value)
        is_name = self.reduce and is_atom(new_value)
        if not early and not opens_sizes(var) and (is_name or _is_constant(new_value)):
            self.memo[var] = new_value
            return (yield self.visit(let.body))
        if not early:
            self.known[var] = new_value
        yield self.visit(let.body)
        return with_parts(let, self.new)

    def call(self, call: ir.Call) -> Steps[ir.Expr]:
        """Evaluate a call: inline, unroll or fold it where that is possible."""
        for arg in call.args:
            yield self.visit(arg)
        args = tuple(map(self.new, call.args))
        function = self.function_to_inline(call) or self.function_to_unroll(call, args)
        if function is not None:
            return (yield self.bind(dict(zip(function.params, args, strict=True)), function.body, call.span))
        yield self.visit(call.op)
        new = with_parts(call, self.new)
        assert isinstance(new, ir.Call)
        return self.fold(new)

    def function_to_inline(self, call: ir.Call) -> ir.Function | None:
        """Return the function to inline at a call, which is its only use; else None."""
        op = call.op
        function = self.once.get(op)
        if self.reduce and isinstance(op, ir.Function) and self.uses[op] == 1:
            function = op
        if function is None or is_opaque(function) or len(function.params) != len(call.args):
            return None
        if function.type_params:
            return None
        if function in self.taken:  # the call was copied after all
            return self.copy(function, only=_must_stay)
        self.taken.add(function)
        return function

    def function_to_unroll(self, call: ir.Call, args: Sequence[ir.Expr]) -> ir.Function | None:
        """Return a copy of the recursive function called, if known values decide what it does first."""
        function: ir.Function | None = None
        match call.op:
            case ir.GlobalVar(name=name) if name in self.recursive_globals:
                function = self.module.functions[name]
            case ir.Var() as var:
                function = self.recursive.get(var)
        if self.unroll <= 0 or function is None or is_opaque(function) or function.type_params:
            return None
        if len(function.params) != len(args) or not self.is_decided(function, args):
            return None
        self.unroll -= 1
        # Functions of the module share nothing; copies of a local one may share nodes outside of it.
        return self.copy(function, only=_must_stay if isinstance(call.op, ir.Var) else lambda _node: True)

    def is_decided(self, function: ir.Function, args: Sequence[ir.Expr]) -> bool:
        """Return whether the arguments decide which branch a function takes in the end."""
        values: dict[ir.Expr, ir.Expr] = {}
        values |= {param: self.value(arg) for param, arg in zip(function.params, args, strict=True)}
        lets: dict[ir.Expr, ir.Expr] = {}
        last = function.body
        while isinstance(last, ir.Let):
            lets[last.var] = last.value
            last = last.body
        while last in lets:
            last = lets.pop(last)  # popped, as a let of itself would loop forever
        match last:
            case ir.If(cond=cond):
                return isinstance(run(self.constant(cond, values, lets)), ir.Constant)
            case ir.Match(data=ir.Var() as data):
                value = values.get(data)
                return isinstance(value, ir.Call) and isinstance(value.op, ir.Constructor)
            case _:
                return False

    def constant(
        self, node: ir.Expr, values: dict[ir.Expr, ir.Expr], lets: Mapping[ir.Expr, ir.Expr]
    ) -> Steps[ir.Expr]:
        """Return what is known of an old node, a constant perhaps; ``values`` are known already, and grow."""
        if node not in values:
            if isinstance(node, ir.Call) and isinstance(node.op, ir.OpRef) and self.evaluate is not None:
                for arg in node.args:
                    yield self.constant(arg, values, lets)
                args = tuple(values[arg] for arg in node.args)
                are_constant = bool(args) and all(map(_is_constant, args))
                values[node] = (self.evaluate(replace(node, args=args)) if are_constant else None) or node
            elif node in lets:
                values[node] = node  # for a let of itself
                values[node] = yield self.constant(lets[node], values, lets)
            else:
                values[node] = self.value(self.new(node))
        return values[node]

    def copy(self, function: ir.Function, only: Callable[[ir.Expr], bool]) -> ir.Function:
        """Copy a function for one more call."""
        new = copy_graph(function, only=only)
        self.count(new)
        return new

    def bind(self, values: Mapping[ir.Var, ir.Expr], body: ir.Expr, span: Span | None) -> Steps[ir.Expr]:
        """Return the new node for ``body`` with variables bound to new expressions, in their order."""
        lets = []
        for var, value in values.items():
            if is_atom(value) or isinstance(value, ir.Constant):
                self.memo[var] = value
            else:
                self.known[var] = value
                lets.append((var, value))
        new = yield self.visit(body)
        for var, value in reversed(lets):
            new = ir.Let(var, value, new, span=span)
            self.introduced.add(new)
        return new

    # What is known of values

    def fold(self, call: ir.Call) -> ir.Expr:
        """Compute a call of an operator on constants."""
        if self.evaluate is None or not isinstance(call.op, ir.OpRef) or not call.args:
            return call
        if call.op.name in OF_TYPES:
            if any(map(self.effects.within, call.args)):
                return call
        elif not all(map(_is_constant, call.args)):
            return call
        return self.evaluate(call) or call

    def project(self, node: ir.TupleGetItem) -> ir.Expr:
        """Return a field of a known tuple, unless dropping the tuple would drop an effect."""
        tuple_ = self.value(node.tuple_value)
        if not isinstance(tuple_, ir.Tuple) or not 0 <= node.index < len(tuple_.fields):
            return node
        others = (field for index, field in enumerate(tuple_.fields) if index != node.index)
        if tuple_ is node.tuple_value and any(map(self.effects.within, others)):
            return node
        return tuple_.fields[node.index]

    def conditional(self, node: ir.If) -> Steps[ir.Expr]:
        """Evaluate an ``if``, of which a constant condition leaves one branch."""
        cond = yield self.visit(node.cond)
        if isinstance(cond, ir.Constant) and cond.tensor_type == scalar_type("bool"):
            return (yield self.visit(node.true_branch if cond.data.item() else node.false_branch))
        yield self.visit(node.true_branch)
        yield self.visit(node.false_branch)
        return with_parts(node, self.new)

    def match(self, node: ir.Match) -> Steps[ir.Expr]:
        """Evaluate a match, of which a known value leaves one arm."""
        data = yield self.visit(node.data)
        if self.reduce and not self.effects.within(data):
            for clause in node.clauses:
                bindings = self.match_pattern(clause.lhs, data)
                if bindings is None:
                    break
                if bindings is False:
                    continue
                if self.value(data) is data:
                    return (yield self.bind(bindings, clause.rhs, node.span))
                # The let computes the value, also for the arm, which uses parts of it.
                self.memo |= cast(dict[ir.Expr, ir.Expr], bindings)
                return (yield self.visit(clause.rhs))
        for clause in node.clauses:
            yield self.visit(clause.rhs)
        return with_parts(node, self.new)

    def match_pattern(
        self, pattern: ir.Pattern, data: ir.Expr
    ) -> dict[ir.Var, ir.Expr] | Literal[False] | None:
        """Return the variables that a pattern binds.

        False if it does not match, None if that is not known.
        """
        bound: dict[ir.Var, ir.Expr] = {}
        is_known = True
        work = [(pattern, data)]
        while work:
            subpattern, expr = work.pop()
            value = self.value(expr)
            match subpattern, value:
                case ir.PatternVar(var=var), _:
                    bound[var] = expr
                case ir.PatternWildcard(), _:
                    pass
                case ir.PatternConstructor(), ir.Call(op=ir.Constructor(name=name), args=args):
                    if subpattern.constructor.name != name:
                        return False
                    work.extend(reversed(list(zip(subpattern.patterns, args, strict=False))))
                case ir.PatternTuple(), ir.Tuple(fields=fields):
                    work.extend(reversed(list(zip(subpattern.patterns, fields, strict=False))))
                case _:
                    is_known = False
        return bound if is_known else None


def _is_constant(expr: ir.Expr) -> bool:
    """Return whether an expression is a constant, or a tuple of constants."""
    return isinstance(expr, ir.Constant) or (
        isinstance(expr, ir.Tuple) and all(isinstance(field, ir.Constant) for field in expr.fields)
    )


def _must_stay(node: ir.Expr) -> bool:
    """Return whether a node may stop the program, or never end, if it is hoisted.

    A node of a copied function that does not depend on the function's variables, and need not stay, is
    computed once for all copies.
    """
    return isinstance(node, ir.Call) and not isinstance(node.op, ir.Constructor) and not is_speculatable(node)
