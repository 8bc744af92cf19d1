"""Functions inside functions: lambdas, nested definitions, and anything callable as a Relay function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from synr import ast

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import FuncType, Type
from nnmagic.tinynn.analysis.bound_names import assigned_names, mentioned_names, reassigned_names, walk
from nnmagic.tinynn.calls.function_calls import bound_arguments
from nnmagic.tinynn.elaborate.annotation_types import as_declared, relay_value
from nnmagic.tinynn.elaborate.control_flow_blocks import Block, BlockExit, ExitKind, exits_of, render
from nnmagic.tinynn.elaborate.loops import Loops
from nnmagic.tinynn.elaborate.merging import MergeConflictError, Plan, merge_plan, whole
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.environments import Env, Environment
from nnmagic.tinynn.values.values import (
    FAILED,
    ClosureValue,
    Computed,
    Dimension,
    Formal,
    GlobalFunction,
    Known,
    LocalFunction,
    Operand,
    RefusalError,
    TupleOf,
    Value,
    computed,
    described,
    is_failed,
    is_number,
    with_article,
)
from nnmagic.tinynn.values.weak_types import is_weak

#: Statements whose blocks are no part of the code around them.
_BRANCHING = ast.If | tree.For | tree.While | tree.MatchNode | ast.Assert

#: Bodies put into one another; more is recursion, which needs types.
_MAX_INLINED = 30


class Closures(Loops):
    """Functions as values."""

    # -- making them -----------------------------------------------------------------------------------

    def lambda_value(self, expr: tree.Lambda) -> Value:
        """``lambda x: body``."""
        formals = self.formals(expr.params)
        return LocalFunction("<lambda>", expr, formals, self.frame, self._versions(expr))

    def nested(self, definition: tree.FunctionNode) -> None:
        """``def`` in a function: a Relay function where its parameters have types, else put in its calls."""
        name, place = definition.name, self.place(definition.name_span)
        formals = self.formals(definition.params)
        typed = [parameter.ty is not None for parameter in definition.params]
        if any(typed) and not all(typed):
            untyped = next(each for each in definition.params if each.ty is None)
            hint = f"write its type, as in {untyped.name}: Tensor[(2, 3), f32], or leave all types out"
            self.frame.env.bind(name, FAILED, place)
            raise RefusalError(f"parameter `{untyped.name}` has no type", self.place(untyped.span), hint=hint)
        if not all(typed) or not typed:
            local = LocalFunction(name, definition, formals, self.frame, self._versions(definition))
            self.frame.env.bind(name, local, place)
            return
        self.frame.env.bind(name, self._closure(definition, formals), place)

    def formals(self, params: Sequence[tree.ParameterNode]) -> tuple[Formal, ...]:
        """The parameters as a caller sees them; defaults are computed here, as in Python."""
        return tuple(
            Formal(
                parameter.name,
                parameter.kind,
                None if parameter.default is None else self.transform_expr(parameter.default),
            )
            for parameter in params
        )

    def _versions(self, node: ast.Node) -> Mapping[str, int]:
        """The names of the functions around it that a function uses, and how often each was assigned."""
        versions: dict[str, int] = {}
        for name in sorted(mentioned_names(node)):
            owner = self.frame.owner(name)
            if owner is None:
                continue
            versions[name] = owner.env.versions.get(name, 0)
            value = owner.env.locals.get(name)
            if isinstance(value, LocalFunction | ClosureValue):
                for further in value.versions:
                    holder = value.frame.owner(further)
                    if holder is not None:
                        versions.setdefault(further, holder.env.versions.get(further, 0))
        return versions

    def renewed(self, closure: ClosureValue) -> ClosureValue | None:
        """The closure with what the names that it uses stand for now, as in Python. Raises Refusal.

        It was made when it was defined; where a name that it uses was assigned again, it is made again.
        """
        if not self._is_stale(closure):
            return closure
        frame = closure.frame
        if frame not in self.frame.chain():  # it has returned: nothing changes its own names any more
            frame = replace(frame, env=frame.env.copy())
        outer, self.frame = self.frame, frame
        try:
            made = self._closure(closure.definition, closure.parameters)
        finally:
            self.frame = outer
        if not isinstance(made, ClosureValue):
            return None
        if frame is self.frame and frame.env.locals.get(closure.name) is closure:
            frame.env.locals[closure.name] = made  # until its names are assigned once more
        return made

    def _is_stale(self, closure: ClosureValue) -> bool:
        """Whether a name that a closure uses was assigned since it was made."""
        for name, version in closure.versions.items():
            owner = closure.frame.owner(name)
            if owner is not None and name != closure.name and owner.env.versions.get(name, 0) != version:
                return True
        return False

    # -- bodies ----------------------------------------------------------------------------------------

    def inlined(self, function: LocalFunction, operands: list[Operand], callee: Span, span: Span) -> Value:
        """A call of a function whose body is put in its place. Raises Refusal."""
        given = bound_arguments(function.name, function.parameters, operands, span)
        if any(is_failed(operand.value) for operand in given.values()):
            return FAILED
        if self.inlining.count(function.definition) or len(self.inlining) >= _MAX_INLINED:
            hint = "give its parameters and its result types, so that it becomes a Relay function"
            raise RefusalError(f"{described(function)} calls itself", callee, hint=hint)
        body = function.definition.body
        env = Env()
        for name, operand in given.items():
            env.bind(name, operand.value, operand.span)
        again = reassigned_names(body, env.locals)
        frame = Environment(function.name, frozenset(assigned_names(body)), again, function.frame, env)
        outer, live = self.frame, self.live
        self.inlining.append(function.definition)
        self.frame, self.live = frame, mentioned_names(body)
        try:
            if isinstance(function.definition, tree.Lambda):
                return self.transform_expr(body)
            return self._result_of_body(function.definition)
        finally:
            self.inlining.pop()
            self.frame, self.live = outer, live

    def _result_of_body(self, definition: tree.FunctionNode) -> Value:
        """The value of statements carried out in a block of their own."""
        block = Block()
        around = [name for name in mentioned_names(definition.body) if name not in self.frame.assigned]
        if any(isinstance(part, _BRANCHING) for part in walk(definition.body, into_functions=False)):
            self.settle(sorted(around))
        outer, self.block = self.block, block
        self.live = frozenset()
        try:
            self.fill(block, self.steps(definition.body.stmts), self.place(definition.name_span))
        finally:
            self.block = outer
        if (
            isinstance(block.end, BlockExit)
            and block.end.exit is ExitKind.RETURNS
            and block.end.value is not None
        ):
            outer.lets += block.lets
            value = block.end.value
            if definition.ret_type is None or is_failed(value.value):
                return value.value
            declared = self.transform_type(definition.ret_type)
            if declared is None:
                return FAILED
            what, place = f"the result of `{definition.name}`", self.place(definition.ret_type.span)
            found = as_declared(what, declared, value, place)
            return computed(found.expr, found.type)
        declared = None if definition.ret_type is None else self.transform_type(definition.ret_type)
        made = self.finished(definition, block, declared)
        return FAILED if made is None else computed(self.placed(made).expr, made.type)

    def finished(self, definition: tree.FunctionNode, block: Block, declared: Type | None) -> Computed | None:
        """The body of a function as one expression; None where an error was reported. Raises Refusal."""
        found = [leaf for leaf, _ in exits_of(block.end)]
        if any(leaf.exit in (ExitKind.BREAKS, ExitKind.CONTINUES) for leaf in found):
            return None  # outside of a loop: Python's own compiler says so
        if all(leaf.exit is ExitKind.JUMPS for leaf in found) and not self.frame.failed:
            hint = "end the loop with `break` or `return`"
            message = f"`{definition.name}` never returns: it has a loop without end"
            self.found.error(message, self.place(definition.name_span), hint=hint)
            return None
        open_ends = [leaf for leaf in found if leaf.exit is ExitKind.GOES_ON]
        if open_ends and not self.frame.failed:
            self._report_no_return(definition, open_ends, found)
            return None
        values = [leaf.value for leaf in found if leaf.exit is ExitKind.RETURNS and leaf.value is not None]
        known = [value for value in values if not is_failed(value.value)]
        if not known:
            return None
        place = None if definition.ret_type is None else self.place(definition.ret_type.span)
        what = f"the result of `{definition.name}`"
        plan: Plan | None = None
        if declared is None and len(known) > 1:
            plan = self._result_plan(definition, known)

        def part_of(value: Operand) -> Computed:
            if declared is not None:
                return as_declared(what, declared, value, place)
            return relay_value(value) if plan is None else whole(plan, value)

        parts = {id(value): part_of(value) for value in known}
        result = declared if declared is not None and len(known) > 1 else parts[id(known[0])].type
        weak = declared is None and all(_is_number_alone(value.value) for value in known)
        if self.frame.failed or len(known) < len(values):
            return Computed(ir.Tuple(()), result, weak)  # the type alone is of use
        expr = render(block, result, lambda leaf: parts[id(leaf.value)].expr)
        return Computed(expr, result, weak)

    def _report_no_return(
        self, definition: tree.FunctionNode, open_ends: Sequence[BlockExit], found: Sequence[BlockExit]
    ) -> None:
        name = definition.name
        returns = [leaf for leaf in found if leaf.exit is ExitKind.RETURNS]
        if returns:
            notes = [
                Note("it returns here", returns[0].span),
                Note("but not where this is left", open_ends[0].span),
            ]
            message = f"`{name}` does not return a value on every path"
            hint = "add a `return` at its end"
            self.found.error(message, self.place(definition.name_span), hint=hint, notes=notes)
            return
        last = [bound for statement in definition.body.stmts for bound in assigned_names(statement)]
        hint = f"add `return {last[-1]}` at its end" if last else "add a `return` at its end"
        self.found.error(f"`{name}` returns nothing", self.place(definition.name_span), hint=hint)

    def _result_plan(self, definition: tree.FunctionNode, values: Sequence[Operand]) -> Plan:
        """The one type of all returns. Raises Refusal, which names two that differ."""
        try:
            return merge_plan([value.value for value in values])
        except MergeConflictError as problem:
            one, other = values[problem.first], values[problem.second]
            message = f"`{definition.name}` returns {described(other.value)} here"
            note = Note(f"and {described(one.value)} here", one.span)
            hint = "return one shape and one dtype on every path"
            raise RefusalError(message, other.span, hint=hint, notes=(note,)) from None

    # -- Relay functions -------------------------------------------------------------------------------

    def _closure(self, definition: tree.FunctionNode, formals: tuple[Formal, ...]) -> Value:
        """A nested definition with types, bound by let. Raises Refusal."""
        parameters = [
            (each, self.transform_type(each.ty)) for each in definition.params if each.ty is not None
        ]
        declared = None if definition.ret_type is None else self.transform_type(definition.ret_type)
        if any(type_ is None for _, type_ in parameters) or (
            definition.ret_type is not None and declared is None
        ):
            return FAILED
        arg_types = tuple(type_ for _, type_ in parameters if type_ is not None)
        used = mentioned_names(definition)
        self.settle(name for name in list(self.frame.names()) if name in used)
        recursive = definition.name in mentioned_names(definition.body)
        if recursive and declared is None:
            hint = "write it after the parameters, as in -> Tensor[(2, 3), f32]"
            place = self.place(definition.name_span)
            raise RefusalError(f"`{definition.name}` calls itself: its result needs a type", place, hint=hint)
        versions = self._versions(definition)

        changing = self._changing(versions, definition.name)

        def closure(result: Type, variable: ir.Var) -> ClosureValue:
            function = Computed(variable, FuncType(arg_types, result))
            return ClosureValue(
                definition.name, formals, function, definition, self.frame, versions, changing
            )

        span = self.place(definition.span)
        variable = ir.Var(definition.name, span=span)
        env = Env()
        if recursive and declared is not None:
            env.bind(definition.name, closure(declared, variable))
        params = []
        for parameter, type_ in parameters:
            assert type_ is not None
            param = ir.Var(parameter.name, type_, span=self.place(parameter.span))
            params.append(param)
            env.bind(parameter.name, computed(param, type_), param.span)
        made = self._function_body(definition, env, declared)
        if made is None:
            return FAILED
        function = ir.Function(tuple(params), made.expr, made.type, span=span)
        self.block.lets.append((variable, function))
        return closure(made.type, variable)

    def _changing(self, versions: Mapping[str, int], name: str) -> tuple[str, ...]:
        """Of the names that a function takes from around it those that may be assigned again."""
        owners = ((each, self.frame.owner(each)) for each in versions if each != name)
        return tuple(each for each, owner in owners if owner is not None and each in owner.reassigned)

    def _function_body(
        self, definition: tree.FunctionNode, env: Env, declared: Type | None
    ) -> Computed | None:
        again = reassigned_names(definition.body, env.locals)
        frame = Environment(
            definition.name, frozenset(assigned_names(definition.body)), again, self.frame, env
        )
        outer, live, block, self.block = self.frame, self.live, self.block, Block()
        self.frame, self.live = frame, frozenset()
        try:
            self.fill(self.block, self.steps(definition.body.stmts), self.place(definition.name_span))
            return self.finished(definition, self.block, declared)
        finally:
            self.frame, self.live, self.block = outer, live, block

    def as_function(self, value: Operand, wanted: FuncType) -> Computed:
        """A value as a Relay function of that type. Raises Refusal."""
        match value.value:
            case GlobalFunction(name=name, type=FuncType() as type_) if type_ == wanted:
                return Computed(ir.GlobalVar(name, span=value.span), type_)
            case ClosureValue(function=Computed(type=type_)) as closure if type_ == wanted:
                current = self.renewed(closure)
                if current is not None:
                    return current.function
            case Known() | Dimension() | TupleOf():
                raise RefusalError(f"expected a function, found {described(value.value)}", value.span)
        block, outer = Block(), self.block
        params = [
            ir.Var(name, type_, span=value.span)
            for name, type_ in zip(self._parameter_names(value.value, wanted), wanted.arg_types, strict=True)
        ]
        operands = [
            Operand(computed(param, param.type_annotation), value.span)
            for param in params
            if param.type_annotation
        ]
        kept = Operand(self.settled(value.value, "function", set()), value.span)
        with self.inside(block, self.frame.env.copy()):
            result = self.apply_value(kept, operands, value.span)
        assert self.block is outer
        if is_failed(result):
            raise RefusalError(f"expected {with_article(wanted)}", value.span)
        what = f"the result of {described(value.value)}"
        made = as_declared(what, wanted.ret_type, Operand(result, value.span), None)
        block.end = BlockExit(ExitKind.RETURNS, value.span)
        body = render(block, made.type, lambda _leaf: made.expr)
        return Computed(ir.Function(tuple(params), body, wanted.ret_type, span=value.span), wanted)

    def _parameter_names(self, value: Value, wanted: FuncType) -> list[str]:
        formals = value.parameters if isinstance(value, GlobalFunction | LocalFunction | ClosureValue) else ()
        if len(formals) == len(wanted.arg_types):
            return [formal.name for formal in formals]
        return [f"x{index}" if index else "x" for index in range(len(wanted.arg_types))]

    def apply_value(self, callee: Operand, operands: list[Operand], span: Span) -> Value:
        """A call of a value. Raises Refusal."""
        return super().apply_value(callee, operands, span)


def _is_number_alone(value: Value) -> bool:
    """Whether a function that returns it leaves the dtype open."""
    known = isinstance(value, Known) and is_number(value.value)
    return known or is_weak(value) or isinstance(value, Dimension)
