"""Elaborate calls of functions that have gradient rules: ``custom_vjp`` and ``custom_jvp``.

The function and its rule become functions of the module, for the types of the call. The first one names the
others in an attribute (`nnmagic.relay.annotations`), which derivatives read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import CUSTOM_JVP, CUSTOM_VJP, CustomRule
from nnmagic.relay.ops.calls import call as call_operator
from nnmagic.relay.signatures import format_type
from nnmagic.relay.structure.callgraph import is_call
from nnmagic.relay.structure.traverse import binders, post_order, rewrite
from nnmagic.relay.structure.tuple_trees import leaf_types
from nnmagic.relay.types import FuncType, TensorType, TupleType, Type, TypeCall, is_inexact
from nnmagic.tinynn.calls.function_calls import bind_arguments
from nnmagic.tinynn.elaborate.context import Elaboration, RuleInProgress
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind, render
from nnmagic.tinynn.elaborate.conversions import to_relay
from nnmagic.tinynn.elaborate.generators import is_state
from nnmagic.tinynn.elaborate.let_bindings import atomize
from nnmagic.tinynn.elaborate.python_functions import python_function
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.descriptions import describe, with_article

#: Calls a value: `calls.apply_value`.
Apply = Callable[[Elaboration, v.Operand, list[v.Operand], Span], v.Value]

#: Functions whose parameters are known.
WithParameters = v.GlobalFunction | v.LocalFunction | v.SpecializableFunction | v.ClosureValue


#: How often a rule may call its function anew with other functions or types: derivatives of that order.
_MAX_ORDER = 2


@dataclass(slots=True)
class Leaves:
    """The tensors of arguments, and the parameters that stand for them."""

    ctx: Elaboration
    span: Span
    args: list[v.Computed] = field(default_factory=list)
    params: list[ir.Var] = field(default_factory=list)

    def stand_in(self, value: v.Value, name: str) -> v.Value:
        """Return a value whose tensors are parameters."""
        if isinstance(value, v.TupleOf):
            items = tuple(self.stand_in(item, name) for item in value.items)
            return replace(value, items=items, whole=None)
        if not isinstance(value, v.Computed) or not isinstance(value.type, TensorType | TypeCall):
            return value
        self.args.append(value)
        is_taken = any(param.name_hint == name for param in self.params)
        hint = f"{name}{len(self.params)}" if is_taken else name
        self.params.append(ir.Var(hint, value.type, span=self.span))
        self.ctx.memory.bound[self.params[-1]] = value.expr
        return replace(value, expr=self.params[-1])


def fit(what: str, operand: v.Operand, wanted: Type) -> v.Computed:
    """Convert a cotangent or a tangent to the type of its value. Raises RefusalError."""
    fitted = to_relay(operand, wanted)
    if _shapes(fitted.type) != _shapes(wanted):
        message = f"{what} is {with_article(fitted.type)}, not {with_article(wanted)}"
        raise v.RefusalError(message, operand.span, hint=f"give {format_type(wanted)}")
    return fitted


def _shapes(type_: Type) -> list[object]:
    return [
        (leaf.shape, leaf.dtype if is_inexact(leaf.dtype) else "") if isinstance(leaf, TensorType) else leaf
        for leaf in leaf_types(type_)
    ]


def call_custom(
    ctx: Elaboration, custom: v.GradientOf, operands: Sequence[v.Operand], span: Span, apply: Apply
) -> v.Value:
    """Call ``custom_vjp(f, forward, backward)`` or ``custom_jvp(f, tangent)``. Raises RefusalError."""
    function = replace(custom.function, value=python_function(ctx, custom.function.value, span))
    custom_call = _Custom(ctx, replace(custom, function=function), span, apply, Leaves(ctx, span))
    return custom_call.call(operands)


@dataclass(slots=True)
class _Custom:
    """A call of a function with a rule.

    given: the arguments over parameters; chosen: those that are differentiated by; letters: what each
    parameter is for the rule.
    """

    ctx: Elaboration
    custom: v.GradientOf
    span: Span
    apply: Apply
    leaves: Leaves
    given: list[v.Operand] = field(default_factory=list)
    chosen: list[v.Operand] = field(default_factory=list)
    nondiff: list[v.Operand] = field(default_factory=list)
    letters: list[str] = field(default_factory=list)

    def call(self, operands: Sequence[v.Operand]) -> v.Value:
        """Return the value of the call. Raises RefusalError."""
        ctx, span = self.ctx, self.span
        if ctx.pending.inferring:  # the rule may call a function whose type is sought
            return self.apply(ctx, self.custom.function, list(operands), span)
        self._bind(operands)
        value = self.custom.function.value
        arguments: list[object] = [
            *(operand.value for operand in self.given if not _has_tensors(operand.value))
        ]
        arguments += [arg.type for arg in self.leaves.args]
        definition = getattr(value, "definition", value)
        args = tuple(arg.expr for arg in self.leaves.args)
        for active in ctx.rules_in_progress:
            if active.function is definition and active.arguments == arguments and active.type is not None:
                return v.as_value(ir.Call(ir.GlobalVar(active.name, span=span), args, span=span), active.type)
        stem = getattr(value, "name", "").removeprefix("<lambda>") or "custom"
        progress = RuleInProgress(definition, arguments, f"{stem}#{len(ctx.rules_in_progress)}")
        ctx.rules_in_progress.append(progress)
        try:
            functions = self._functions(progress)
        finally:
            ctx.rules_in_progress.remove(progress)
        if functions is None:
            return v.FAILED
        name, captured = self._define(progress.name, functions)
        call_node = ir.Call(ir.GlobalVar(name, span=span), (*args, *captured), span=span)
        assert progress.type is not None
        return v.as_value(call_node, progress.type)

    def _bind(self, operands: Sequence[v.Operand]) -> None:
        """Take the arguments apart. Raises RefusalError."""
        function, span = self.custom.function.value, self.span
        ordered, names = list(operands), [f"x{number or ''}" for number in range(len(operands))]
        by_name = set[str]()
        if isinstance(function, WithParameters):
            bound = bind_arguments(name_of(function), function.parameters, operands, span)
            names = [formal.name for formal in function.parameters]
            ordered = [bound[name] for name in names]
            by_name = {formal.name for formal in function.parameters if formal.kind == "KEYWORD_ONLY"}
        assert isinstance(self.custom.argnums, tuple)
        argnums = [number for number in self.custom.argnums if isinstance(number, int)]
        for number in argnums:
            if not -len(ordered) <= number < len(ordered):
                what = f"nondiff_argnums has {number}, but there are {len(ordered)} arguments"
                message = f"{self.custom.kind}: {what}"
                raise v.RefusalError(message, span, hint="arguments are counted from 0")
        nondiff = {number % len(ordered) for number in argnums}
        for number, (name, operand) in enumerate(zip(names, ordered, strict=True)):
            atom = atomize(self.ctx, operand.value, name, set())
            argument = v.Operand(
                self.leaves.stand_in(atom, name), operand.span, name if name in by_name else None
            )
            self.given.append(argument)
            (self.nondiff if number in nondiff else self.chosen).append(replace(argument, keyword=None))
            new = self.leaves.args[len(self.letters) :]
            is_read = [number in nondiff or isinstance(arg.type, TypeCall) for arg in new]
            letters = ["g" if _is_float(arg.type) else "n" for arg in new]
            self.letters += ["r" if read else letter for letter, read in zip(letters, is_read, strict=True)]

    # -- the functions -------------------------------------------------------------------------------------

    def _functions(self, progress: RuleInProgress) -> list[ir.Function] | None:
        """Return the function and those of its rule; None after an error. Raises RefusalError."""
        ctx = self.ctx
        result: list[v.Value] = []

        def primal() -> v.Computed:
            outcome = self._apply(self.custom.function, self.given)
            result.append(outcome.value)
            return to_relay(outcome)

        plain = self._function(self.leaves.params, primal)
        if plain is None:
            return None
        progress.type = plain.ret_type
        assert progress.type is not None
        if sum(active.function is progress.function for active in ctx.rules_in_progress) > _MAX_ORDER:
            return [plain]
        rule = self._by_tangents if self.custom.kind == CUSTOM_JVP else self._by_cotangents
        inlining = ctx.inlining  # the rule may call the function anew
        ctx.inlining = [replace(active, environment=v.Environment("")) for active in inlining]
        try:
            functions = rule(progress.type)
        finally:
            ctx.inlining = inlining
        return None if functions is None else [plain, *functions]

    def _function(self, params: Sequence[ir.Var], fill: Callable[[], v.Computed]) -> ir.Function | None:
        """Return a function of the values that ``fill`` makes in its block; None after an error."""
        ctx, block = self.ctx, Block()
        try:
            with ctx.inside(block, ctx.environment.bindings.copy()), ctx.frozen_generators(is_state):
                value = fill()
        except _FailedError:
            return None
        block.end = BlockExit(ExitKind.RETURNS, self.span)
        body = render(block, value.type, lambda _exit: value.expr)
        return ir.Function(tuple(params), body, value.type, span=self.span)

    def _apply(self, function: v.Operand, operands: Sequence[v.Operand]) -> v.Operand:
        """Call a function in the block at hand. Raises RefusalError."""
        place = self.span if function is self.custom.function else function.span
        value = self.apply(self.ctx, function, list(operands), place)
        if v.is_failed(value):
            raise _FailedError
        span = value.expr.span if isinstance(value, v.Computed) else None
        return v.Operand(value, span or function.span)

    def _by_cotangents(self, type_: Type) -> list[ir.Function] | None:
        """Return the forward and the backward function. Raises RefusalError."""
        forward, backward = self.custom.arguments
        types, residuals = list[v.Computed](), list[v.Value]()

        def run_forward() -> v.Computed:
            pair = self._pair(
                self._apply(forward, self._plain), "the forward function", "(result, residuals)"
            )
            result = fit("the result of the forward function", pair[0], type_)
            residuals.append(_residuals(pair[1], types))
            residual_tuple = ir.Tuple(tuple(residual.expr for residual in types), span=self.span)
            pair_type = TupleType((type_, TupleType(tuple(residual.type for residual in types))))
            return v.Computed(ir.Tuple((result.expr, residual_tuple), span=self.span), pair_type)

        first = self._function(self.leaves.params, run_forward)
        if first is None:
            return None
        place = backward.span
        residual_vars = [
            ir.Var(f"r{number}", residual.type, span=place) for number, residual in enumerate(types)
        ]
        tangents, cotangent = _variables("d", type_, place)
        pairs = iter(zip(residual_vars, types, strict=True))
        operands = [*self.nondiff, v.Operand(_restore(residuals[0], pairs), place)]

        def run_backward() -> v.Computed:
            gradients = self._apply(backward, [*operands, v.Operand(cotangent, place)])
            return self._gradients(gradients)

        read = [
            param for param, letter in zip(self.leaves.params, self.letters, strict=True) if letter == "r"
        ]
        second = self._function([*read, *residual_vars, *tangents], run_backward)
        return None if second is None else [first, second]

    @property
    def _plain(self) -> list[v.Operand]:
        return [replace(operand, keyword=None) for operand in self.given]

    def _gradients(self, returned: v.Operand) -> v.Computed:
        """Return what the backward function gives as a tuple of tensors, and note which are zeros."""
        items = returned.value.items if isinstance(returned.value, v.TupleOf) else ()
        if not isinstance(returned.value, v.TupleOf) or len(items) != len(self.chosen):
            number = len(self.chosen)
            what = "a gradient" if number == 1 else f"{number} gradients"
            message = f"the backward function returns {describe(returned.value)}, not a tuple of {what}"
            form = ", ".join(f"d{index}" for index in range(number)) + ("," if number == 1 else "")
            hint = f"return one for each argument, as in return ({form}); None stands for zeros"
            raise v.RefusalError(message, returned.span, hint=hint)
        gradients = list[v.Computed | None]()
        for number, (argument, item) in enumerate(zip(self.chosen, items, strict=True)):
            what = f"gradient {number} of the backward function"
            gradients += _fit_tensors(argument.value, v.Operand(item, returned.span), what)
        remaining = iter(gradients)
        letters = [(next(remaining), letter) if letter != "r" else (None, letter) for letter in self.letters]
        self.letters = [letter if gradient or letter == "r" else "n" for gradient, letter in letters]
        return _tuple([gradient for gradient, _ in letters if gradient is not None], self.span)

    def _by_tangents(self, type_: Type) -> list[ir.Function] | None:
        """Return the function that gives the result and its tangent. Raises RefusalError."""
        rows = list(zip(self.leaves.params, self.leaves.args, self.letters, strict=True))
        place = self.custom.arguments[0].span
        tangents = [
            ir.Var(f"t_{var.name_hint}", arg.type, span=place) for var, arg, letter in rows if letter == "g"
        ]
        own = iter(tangents)
        moved = [_tangent(operand.value, own) for operand in self.chosen]
        like = _variables("y", type_, self.span)[1]

        def run() -> v.Computed:
            result, tangent = self._tangent_of(type_, moved)
            parts = _fit_tensors(like, tangent, "the tangent of the result")
            primals = iter(_float_parts(result.expr, type_))
            exprs = [
                call_operator("zeros_like", [own], own.span) if part is None else part.expr
                for part, own in zip(parts, primals, strict=True)
            ]
            floats = TupleType(tuple(leaf for leaf in leaf_types(type_) if _is_float(leaf)))
            pair = ir.Tuple((result.expr, ir.Tuple(tuple(exprs), span=self.span)), span=self.span)
            return v.Computed(pair, TupleType((type_, floats)))

        function = self._function([*self.leaves.params, *tangents], run)
        return None if function is None else [function]

    def _tangent_of(self, type_: Type, moved: Sequence[v.Value]) -> tuple[v.Computed, v.Operand]:
        """Return the result and its tangent, by the rule or by one for each argument."""
        if not self.custom.has_aux:
            (rule,) = self.custom.arguments
            primals = v.TupleOf(tuple(operand.value for operand in self.chosen))
            operands = [v.Operand(primals, self.span), v.Operand(v.TupleOf(tuple(moved)), self.span)]
            returned = self._apply(rule, [*self.nondiff, *operands])
            pair = self._pair(returned, "the function of tangents", "(result, tangent)")
            return fit("the result of the function of tangents", pair[0], type_), pair[1]
        result = self._apply(self.custom.function, self.given)
        total: v.Value | None = None
        rules = self.custom.arguments
        if len(rules) != len(self.chosen):
            message = f"defjvps has {len(rules)} rules, but there are {len(self.chosen)} arguments"
            raise v.RefusalError(message, self.span, hint="give None for an argument without a rule")
        for rule, tangent in zip(rules, moved, strict=True):
            if rule.value != v.Known(None):
                returned = self._apply(rule, [v.Operand(tangent, self.span), result, *self.chosen])
                total = returned.value if total is None else self._sum(total, returned.value)
        return to_relay(result), v.Operand(v.Known(None) if total is None else total, self.span)

    def _sum(self, lhs: v.Value, rhs: v.Value) -> v.Value:
        a, b = (to_relay(v.Operand(operand, self.span)) for operand in (lhs, rhs))
        return v.Computed(call_operator("add", [a.expr, b.expr], self.span), a.type)

    def _pair(self, returned: v.Operand, what: str, form: str) -> tuple[v.Operand, v.Operand]:
        """Return the two parts of what a rule's function gives. Raises RefusalError."""
        items = returned.value.items if isinstance(returned.value, v.TupleOf) else ()
        if len(items) != 2:
            message = f"{what} returns {describe(returned.value)}, not {form}"
            raise v.RefusalError(message, returned.span, hint=f"return a tuple of two, {form}")
        return v.Operand(items[0], returned.span), v.Operand(items[1], returned.span)

    # -- the module ----------------------------------------------------------------------------------------

    def _define(self, name: str, functions: Sequence[ir.Function]) -> tuple[str, list[ir.Expr]]:
        """Add the functions to the module; return the name of the first one, and what they capture."""
        captured = dict.fromkeys(var for function in functions for var in _free(function))
        for var in captured:
            if isinstance(var.type_annotation, FuncType):
                message = f"a function with a gradient rule reads `{var.name_hint}`, a function of a function"
                hint = "define it in the cell, or give it as an argument of nondiff_argnums"
                raise v.RefusalError(message, self.span, hint=hint)
        stem, _, number = name.partition("#")
        is_vjp, count = self.custom.kind == CUSTOM_VJP, len(self.letters)
        places = {"forward": count, "backward": self.letters.count("r")} if is_vjp else {"tangent": count}
        places = places if functions[1:] else {}
        names = [name, *(f"{stem.removesuffix('_primal')}_{word}#{number}" for word in places)]
        rule = CustomRule(self.custom.kind, tuple(names[1:]), "".join(self.letters) + "r" * len(captured))
        closed = [
            self._close_over(function, name, list(captured), place)
            for function, place in zip(functions, (count, *places.values()), strict=True)
        ]
        closed[0] = replace(closed[0], attrs=rule.attrs())
        return self.ctx.resolver.linker.link(dict(zip(names, closed, strict=True)))[name], list(captured)

    @staticmethod
    def _close_over(function: ir.Function, name: str, captured: Sequence[ir.Var], place: int) -> ir.Function:
        """Return a function that takes what it captures, at a place of its parameters, and passes it on."""
        new: dict[ir.Expr, ir.Var] = {
            var: ir.Var(var.name_hint, var.type_annotation, span=var.span) for var in captured
        }

        def pass_on(_old: ir.Expr, node: ir.Expr) -> ir.Expr:
            return replace(node, args=(*node.args, *new.values())) if is_call(node, name) else node

        memo: dict[ir.Expr, ir.Expr] = {**new}
        body = rewrite(function.body, pass_on, memo)
        params = (*function.params[:place], *new.values(), *function.params[place:])
        return replace(function, params=params, body=body)


class _FailedError(Exception):
    """An error was reported."""


def name_of(function: WithParameters) -> str:
    """Return what a function is called where it was written."""
    if isinstance(function, v.GlobalFunction | v.SpecializableFunction):
        return function.written
    return function.name.removesuffix("_primal")


def _has_tensors(value: v.Value) -> bool:
    if isinstance(value, v.TupleOf):
        return any(map(_has_tensors, value.items))
    return isinstance(value, v.Computed)


def _is_float(type_: Type) -> bool:
    return isinstance(type_, TensorType) and is_inexact(type_.dtype)


def _free(function: ir.Function) -> Iterator[ir.Var]:
    """Yield the variables that a function uses and does not bind."""
    nodes = list(post_order(function))
    bound = {var for node in nodes for var in binders(node)}
    yield from (node for node in nodes if isinstance(node, ir.Var) and node not in bound)


def _tuple(values: Sequence[v.Computed], span: Span) -> v.Computed:
    """Return several values as a tuple, one as it is."""
    if len(values) == 1:
        return values[0]
    node = ir.Tuple(tuple(value.expr for value in values), span=span)
    return v.Computed(node, TupleType(tuple(value.type for value in values)))


def _variables(name: str, type_: Type, span: Span) -> tuple[list[ir.Var], v.Value]:
    """Return variables for the floats of a type, and a value of that type over them; zeros for integers."""
    variables, numbers = list[ir.Var](), count()

    def of(leaf: Type) -> v.Value:
        if isinstance(leaf, TupleType):
            record = getattr(v.as_value(ir.Var("", leaf), leaf), "record", None)
            return v.TupleOf(tuple(map(of, leaf.fields)), record=record)
        if not _is_float(leaf):
            return v.Known(0)
        variables.append(ir.Var(f"{name}{next(numbers) or ''}", leaf, span=span))
        return v.Computed(variables[-1], leaf)

    return variables, of(type_)


def _tangent(value: v.Value, tangents: Iterator[ir.Var]) -> v.Value:
    """Return a value with its tangents instead of its floats; zeros instead of others."""
    if isinstance(value, v.TupleOf):
        return replace(value, items=tuple(_tangent(item, tangents) for item in value.items), whole=None)
    if isinstance(value, v.Computed) and _is_float(value.type):
        return v.Computed(next(tangents), value.type)
    return v.Known(0)


def _float_parts(expr: ir.Expr, type_: Type) -> list[ir.Expr]:
    if isinstance(type_, TupleType):
        parts = (ir.TupleGetItem(expr, index, span=expr.span) for index in range(len(type_.fields)))
        return [
            leaf
            for field_, field_type in zip(parts, type_.fields, strict=True)
            for leaf in _float_parts(field_, field_type)
        ]
    return [expr] if _is_float(type_) else []


def _fit_tensors(value: v.Value, operand: v.Operand, what: str) -> list[v.Computed | None]:
    """Return the cotangents or tangents of the tensors of a value; None for zeros. Raises RefusalError."""
    is_none = operand.value == v.Known(None)
    if isinstance(value, v.TupleOf):
        parts = operand.value.items if isinstance(operand.value, v.TupleOf) else ()
        if not is_none and len(parts) != len(value.items):
            message = f"{what} is {describe(operand.value)}, not {describe(value)}"
            raise v.RefusalError(
                message, operand.span, hint="return a tuple of the same form, or None for zeros"
            )
        items = [operand.value] * len(value.items) if is_none else parts
        pairs = zip(value.items, items, strict=True)
        return [
            leaf for inner, item in pairs for leaf in _fit_tensors(inner, replace(operand, value=item), what)
        ]
    if not isinstance(value, v.Computed) or not isinstance(value.type, TensorType):
        return []
    if is_none or not _is_float(value.type):
        return [None]
    place = operand.value.expr.span if isinstance(operand.value, v.Computed) else None
    return [fit(what, replace(operand, span=place or operand.span), value.type)]


def _residuals(operand: v.Operand, residuals: list[v.Computed]) -> v.Value:
    """Note the tensors of what the forward function keeps; return it. Raises RefusalError."""
    value = operand.value
    if isinstance(value, v.TupleOf):
        items = tuple(_residuals(replace(operand, value=item), residuals) for item in value.items)
        return replace(value, items=items, whole=None)
    if isinstance(value, v.Known):
        return value
    computed = to_relay(operand)
    if isinstance(computed.type, TupleType):
        return _residuals(replace(operand, value=v.as_value(computed.expr, computed.type)), residuals)
    if not isinstance(computed.type, TensorType | TypeCall):
        message = f"a residual is {describe(value)}: only tensors, numbers and tuples of them are kept"
        raise v.RefusalError(message, operand.span, hint="leave it out, or give it by nondiff_argnums")
    residuals.append(computed)
    return value if isinstance(value, v.Computed) else computed


def _restore(value: v.Value, residuals: Iterator[tuple[ir.Var, v.Computed]]) -> v.Value:
    """Return residuals over the parameters that stand for their tensors."""
    if isinstance(value, v.TupleOf):
        return replace(value, items=tuple(_restore(item, residuals) for item in value.items), whole=None)
    return replace(value, expr=next(residuals)[0]) if isinstance(value, v.Computed) else value
