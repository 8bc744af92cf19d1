"""Replace marked calls by gradients and batches.

A marked call stands where a program asks for a gradient, until the types of the program are known. Its
callee is a function literal with the attribute ``Gradient``, whose body has the type of what is asked for:
``(value, (parameters, ...))`` for a gradient, ``(value, value)`` for a tangent, ``(value, values)`` for a
batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from nnmagic.diagnostics import Diagnostic, Diagnostics, RelayError
from nnmagic.relay import expr as ir
from nnmagic.relay.batching.transformation import batch
from nnmagic.relay.gradients.blocks import type_of
from nnmagic.relay.gradients.chunked_loops import chunk_loops
from nnmagic.relay.gradients.data_types import DataTypes
from nnmagic.relay.gradients.program import Differentiated, forward_mode, reverse
from nnmagic.relay.gradients.transformation import with_types
from nnmagic.relay.module import Module
from nnmagic.relay.ops.calls import call as ops_call
from nnmagic.relay.passes.common_subexpressions import eliminate_common_subexpr
from nnmagic.relay.passes.dead_code import dead_code_elimination
from nnmagic.relay.passes.inlining import CHECKPOINT, inline
from nnmagic.relay.passes.rewriting import copy_graph
from nnmagic.relay.structure import callgraph
from nnmagic.relay.structure.traverse import binders, post_order, rewrite
from nnmagic.relay.types import FuncType, TensorType, TupleType, Type, TypeCall

#: The attribute of a marked function: what is asked for, and the numbers of its parameters.
MARK = "Gradient"


def mark(
    params: Sequence[ir.Var], body: ir.Expr, result: Type, kind: str, count: int, rounds: int | None = None
) -> ir.Function:
    """Return a marked function.

    kind: ``"reverse"`` (of a scalar), ``"pullback"``, ``"forward"``, ``"batch"``, ``"checkpoint"`` or
    ``"stop"``. count: how many parameters are differentiated by, the first ones; the others are cotangents
    of the result, or tangents. Of a batch, the first ones are one example, the others those of all examples.
    rounds: of a checkpoint, how many rounds of a loop are kept as one.
    """
    attrs: dict[str, object] = {MARK: (kind, count)}
    return ir.Function(tuple(params), body, result, attrs=attrs | ({CHECKPOINT: rounds} if rounds else {}))


@dataclass(slots=True)
class Expanded:
    """A module without marked calls; helpers: the functions that it has gained."""

    module: Module
    helpers: tuple[str, ...] = ()
    warnings: list[Diagnostic] = field(default_factory=list)


def expand_marks(module: Module) -> Expanded:
    """Replace the marked calls of a typed module by gradients. Raises RelayError with all errors."""
    result, before = Expanded(module), set(module.functions)
    diagnostics = Diagnostics()
    recursive = callgraph.recursive_functions(callgraph.call_graph(module))
    for group in callgraph.components(callgraph.definition_graph(module)):
        for name in group:
            function = result.module.functions[name]
            if any(isinstance(node, ir.Function) and MARK in node.attrs for node in post_order(function)):
                if name in recursive:
                    _refuse_recursion(result.module, name, diagnostics)
                    continue
                try:
                    _expand_function(result, name)
                except RelayError as error:
                    for diagnostic in error.diagnostics:
                        diagnostics.add(diagnostic)
    diagnostics.raise_if_any(RelayError)
    result.helpers = tuple(name for name in result.module.functions if name not in before)
    return result


def _refuse_recursion(module: Module, name: str, diagnostics: Diagnostics) -> None:
    """Report gradients of functions that call the function at hand."""
    for node in post_order(module.functions[name]):
        if isinstance(node, ir.Call) and isinstance(node.op, ir.Function) and MARK in node.op.attrs:
            hint = "ask for the gradient in another function"
            message = f"`{name}` calls itself, and asks for a gradient"
            diagnostics.error(message, node.span, hint=hint)


def _expand_function(result: Expanded, name: str) -> None:
    function = result.module.functions[name]
    lets = {node.var: node for node in post_order(function) if isinstance(node, ir.Let)}
    memo: dict[ir.Expr, ir.Expr] = {}

    def transform(_old: ir.Expr, new: ir.Expr) -> ir.Expr:
        if isinstance(new, ir.Call) and isinstance(new.op, ir.Function) and MARK in new.op.attrs:
            try:
                return _Expansion(result, lets, memo).of_call(new, name)
            except RelayError as error:  # what derivatives are made of has no place of its own
                diagnostics = [
                    replace(diagnostic, span=diagnostic.span or new.span) for diagnostic in error.diagnostics
                ]
                raise RelayError(diagnostics) from None
        if isinstance(new, ir.TupleGetItem) and isinstance(new.tuple_value, ir.Tuple):
            return new.tuple_value.fields[new.index]
        return new

    made = rewrite(function, transform, memo)
    functions = {**result.module.functions, name: replace(made, checked_type=None)}
    untyped = replace(result.module, functions=functions, printed_types={})
    tidy = dead_code_elimination(eliminate_common_subexpr(_only(untyped, name)))
    result.module = with_types(replace(untyped, functions={**functions, name: tidy.functions[name]}))


def _only(module: Module, name: str) -> Module:
    """Return the module, in which passes change one function alone."""
    functions = {
        each: function if each == name else replace(function, attrs={**function.attrs, "Primitive": 1})
        for each, function in module.functions.items()
    }
    return replace(module, functions=functions, printed_types={})


class _Expansion:
    """The expansion of one marked call; ``lets``: those of the function that it stands in."""

    def __init__(
        self, result: Expanded, lets: Mapping[ir.Var, ir.Let], memo: Mapping[ir.Expr, ir.Expr]
    ) -> None:
        self.result = result
        self.lets = lets
        self.memo = memo
        self.captured: dict[ir.Expr, ir.Var] = {}
        self.functions: dict[ir.Var, ir.Expr] = {}

    def of_call(self, call: ir.Call, name: str) -> ir.Expr:
        """Return what a marked call stands for."""
        function = call.op
        assert isinstance(function, ir.Function)
        kind, count = _read_mark(function)
        if kind == "stop":
            return self._stop(function, call)
        inner = self._close(function)
        inner_name = self._new_name(f"{name}_{'checkpoint' if kind == 'checkpoint' else 'gradient'}")
        module = self.result.module
        functions = {**module.functions, inner_name: replace(inner, checked_type=None)}
        module = replace(module, functions=functions, printed_types={})
        wanted = callgraph.reachable(callgraph.definition_graph(module), inner_name)
        parts = {helper_name: part for helper_name, part in functions.items() if helper_name in wanted}
        typed_module = with_types(replace(module, functions=parts))
        numbers, taken = range(count), set(functions)
        if kind == "batch":
            return self._batch(function, typed_module, inner_name, call, count)
        if kind == "checkpoint":
            return self._checkpoint(typed_module, inner_name, call, function)
        if kind == "forward":
            transformed = forward_mode(typed_module, inner_name, numbers, taken)
        else:
            transformed = reverse(typed_module, inner_name, numbers, taken, seeded=kind == "pullback")
        self._warn(call, function, transformed, kind)
        helpers = {
            helper_name: helper
            for helper_name, helper in transformed.helpers.items()
            if helper_name != inner_name
        }
        module = self.result.module
        types = {**module.types, **transformed.types}
        self.result.module = replace(module, functions={**module.functions, **helpers}, types=types)
        return self._substitute(function, transformed, call, count)

    def _batch(self, function: ir.Function, module: Module, name: str, call: ir.Call, count: int) -> ir.Expr:
        """Return the values of all examples; the arguments behind the first ``count`` are those of all."""
        wide = function.params[count]
        type_ = wide.type_annotation
        while isinstance(type_, TupleType):
            type_ = type_.fields[0]
        assert isinstance(type_, TensorType)
        batched = batch(module, name, range(count), type_.shape[0], {*self.result.module.functions, name})
        helpers = {each: helper for each, helper in batched.helpers.items() if each != name}
        outer = self.result.module
        types = {**outer.types, **batched.types}
        self.result.module = replace(outer, functions={**outer.functions, **helpers}, types=types)
        values = (*call.args[count:], *self.captured)
        env: dict[ir.Expr, ir.Expr] = dict(zip(batched.params, values, strict=True))
        body = rewrite(batched.body, lambda _old, new: new, env)
        return ir.Tuple((body, body), span=call.span)

    def _stop(self, function: ir.Function, call: ir.Call) -> ir.Expr:
        """Return a copy of a value of a data type, through which nothing flows."""
        module = self.result.module
        data_types = DataTypes(module.types, self._new_name)
        made = data_types.stopped(call.args[0], type_of(function.params[0]))
        functions = {**module.functions, **data_types.functions}
        self.result.module = replace(module, functions=functions)
        return ir.Tuple((made, made), span=call.span)

    def _checkpoint(self, module: Module, name: str, call: ir.Call, marked: ir.Function) -> ir.Expr:
        """Return a call of a function that stays one: its gradient computes it again, or chunks of loops."""
        function, rounds = module.functions[name], marked.attrs.get(CHECKPOINT)
        if isinstance(rounds, int):
            function = chunk_loops(with_types(inline(module, "all")).functions[name], rounds)
        made = replace(function, attrs={CHECKPOINT: 1}, checked_type=None)
        self.result.module = replace(
            self.result.module, functions={**self.result.module.functions, name: made}
        )
        inner = ir.Call(ir.GlobalVar(name, span=call.span), (*call.args, *self.captured), span=call.span)
        return ir.Tuple((inner, inner), span=call.span)

    def _substitute(self, function: ir.Function, made: Differentiated, call: ir.Call, count: int) -> ir.Expr:
        params = list(function.params[:count])
        new_params = made.params
        env: dict[ir.Expr, ir.Expr] = dict(
            zip(new_params[: len(params)], call.args[: len(params)], strict=True)
        )
        captured = list(self.captured)
        env |= dict(zip(new_params[len(params) : len(params) + len(captured)], captured, strict=True))
        env |= dict(zip(new_params[len(params) + len(captured) :], call.args[count:], strict=True))
        return rewrite(made.body, lambda _old, new: new, env)

    def _warn(self, call: ir.Call, function: ir.Function, made: Differentiated, kind: str) -> None:
        if kind != "reverse":
            return
        for number in made.unused:
            name = function.params[number].name_hint
            message = f"no gradient flows to `{name}`: the result does not depend on it by way of floats"
            hint = "leave it out of argnums"
            self.result.warnings.append(Diagnostic(message, call.span, hint, severity="warning"))

    def _new_name(self, wanted: str) -> str:
        taken, number = self.result.module.functions, 0
        while (name := f"{wanted}{number or ''}") in taken:
            number += 1
        return name

    # -- what the function captures --------------------------------------------------------------------------

    def _close(self, function: ir.Function) -> ir.Function:
        """Return the marked function as a global one: what it captures becomes parameters.

        Its body gives what is differentiated alone.
        """
        _, count = _read_mark(function)
        value = _value_of(function.body)
        memo: dict[ir.Expr, ir.Expr] = {}
        if _read_mark(function)[0] == "batch":  # sizes that are read of all examples are those of one here
            example, wide = function.params[0], function.params[count]
            memo[wide] = ops_call("expand_dims", [example], axis=0)
        new_body = self._capture(value, set(function.params), memo)
        for var, definition in self.functions.items():
            new_body = ir.Let(var, definition, new_body, span=var.span)
        params = (*function.params[:count], *self.captured.values())
        made = copy_graph(ir.Function(params, new_body, span=function.span))
        return replace(made, attrs={})

    def _capture(self, root: ir.Expr, own: set[ir.Expr], memo: dict[ir.Expr, ir.Expr]) -> ir.Expr:
        """Replace the largest parts that do not depend on what is bound inside by variables."""
        bound = own | {var for node in post_order(root) for var in binders(node)}
        depends: dict[ir.Expr, bool] = {}
        for node in post_order(root):
            depends[node] = node in bound or any(depends[child] for child in ir.children(node))
        work, entered = [root], set[ir.Expr]()
        while work:
            node = work.pop()
            if node in entered or node in memo:
                continue
            entered.add(node)
            if not depends[node] and self._take(node, memo):
                continue
            work.extend(ir.children(node))
        return rewrite(root, lambda _old, new: new, memo)

    def _take(self, node: ir.Expr, memo: dict[ir.Expr, ir.Expr]) -> bool:
        """Capture a value from outside; return whether it was, so that its parts need no look."""
        if isinstance(node, ir.Constant | ir.GlobalVar | ir.OpRef):
            return True
        type_ = node.checked_type or (node.type_annotation if isinstance(node, ir.Var) else None)
        if isinstance(node, ir.Var) and isinstance(type_, FuncType):
            self._define(node)
            return True
        if isinstance(node, ir.Function) or type_ is None or not _is_data(type_):
            return False
        if node not in self.captured:
            hint = node.name_hint if isinstance(node, ir.Var) else f"v{len(self.captured)}"
            self.captured[node] = ir.Var(hint, type_, span=node.span)
        memo[node] = self.captured[node]
        return True

    def _define(self, var: ir.Var) -> None:
        """Define a local function, which is bound outside, inside of the gradient, too."""
        if var in self.functions:
            return
        let = self.lets.get(var)
        if let is None:
            hint = "define it in the function that asks for the gradient, or in the cell"
            message = f"`{var.name_hint}` is a function that is known at run time only: it has no gradient"
            raise RelayError([Diagnostic(message, var.span, hint)])
        definition = self.memo.get(let.value, let.value)
        memo: dict[ir.Expr, ir.Expr] = {}
        self.functions[var] = var
        new = self._capture(definition, {var}, memo)
        del self.functions[var]
        self.functions = {var: new, **self.functions}


def _read_mark(function: ir.Function) -> tuple[str, int]:
    """Return what a marked function asks for, and by how many parameters."""
    kind, count = cast("tuple[str, int]", function.attrs[MARK])
    return kind, count


def _value_of(body: ir.Expr) -> ir.Expr:
    """Return the body with the value that is differentiated as its result, below its lets and branches."""
    return ir.TupleGetItem(body, 0, span=body.span)


def _is_data(type_: Type) -> bool:
    """Return whether a value can be a parameter: tensors, values of data types, tuples of these."""
    if isinstance(type_, TupleType):
        return all(map(_is_data, type_.fields))
    return isinstance(type_, TensorType | TypeCall)
