"""Transform functions in A-normal form to their gradients: reverse mode, first-order in, first-order out.

Each binding is visited once, the last first. A branch that is the result of a block gives value and
cotangents together. Any other branch is computed again in the backward pass, where the same side is taken;
and so is a recursive function: its backward function runs the forward part on the way down and propagates
cotangents on the way up, so that the stack holds what the rounds of a loop need.

Griewank and Walther, Evaluating Derivatives, 2nd edition, SIAM (2008), describe reverse mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nnmagic.diagnostics import Diagnostics
from nnmagic.relay import expr as ir
from nnmagic.relay.annotations import BACKWARD_LOOP, CUSTOM_VJP, LOOP, CustomRule, custom_rule
from nnmagic.relay.gradients import blocks
from nnmagic.relay.gradients.activity import Activity, FunctionActivity
from nnmagic.relay.gradients.cotangents import Cotangents
from nnmagic.relay.gradients.counted_loops import CountedRecursion
from nnmagic.relay.gradients.data_types import DataTypes
from nnmagic.relay.gradients.expansions import expand
from nnmagic.relay.gradients.open_loops import Loops
from nnmagic.relay.gradients.registry import NoGradientError
from nnmagic.relay.gradients.rules import EXPANSIONS, REFUSED, RULES
from nnmagic.relay.gradients.taped_loops import LoopTaper, TapedCall, TapedLoop, call_backward, call_forward
from nnmagic.relay.gradients.vjp_call import VjpCall, terms
from nnmagic.relay.module import Module
from nnmagic.relay.passes.inlining import CHECKPOINT
from nnmagic.relay.structure.tuple_trees import Tree, has_leaf, items, leaf_types, leaves, project, tree_of
from nnmagic.relay.types import AnyDim, TupleType, Type, TypeCall


@dataclass(slots=True)
class _Scope:
    """A block while it is differentiated: what its names stand for, and which of them are active."""

    env: dict[ir.Expr, ir.Expr]
    active: dict[ir.Expr, Tree]
    taped: dict[ir.Var, TapedCall] = field(default_factory=dict)
    #: The residuals of calls of functions that have a rule of their own.
    residuals: dict[ir.Var, list[ir.Expr]] = field(default_factory=dict)
    #: What names in branches stand for that are not computed again in the backward pass.
    reads: dict[ir.Var, ir.Expr] = field(default_factory=dict)


class Backward:
    """The backward passes of the functions of a module, which must be typed and in A-normal form."""

    def __init__(self, module: Module, taken: set[str], diagnostics: Diagnostics) -> None:
        self.functions = dict(module.functions)
        self.data_types = DataTypes(module.types, self.new_name)
        self.activity = Activity(self.functions, self.data_types)
        self.diagnostics = diagnostics
        self.taken = taken
        self.made: dict[str, ir.Function] = {}
        self._bindings: dict[ir.Expr, ir.Expr] = {}
        self._helpers: dict[tuple[str, tuple[bool, ...], tuple[bool, ...]], str] = {}
        self._loops = Loops(self.functions, self.new_name)
        self._taped: dict[tuple[str, tuple[bool, ...], int, int, int | AnyDim], TapedLoop | None] = {}

    # -- blocks ----------------------------------------------------------------------------------------

    def of_block(
        self,
        expr: ir.Expr,
        env: Mapping[ir.Expr, ir.Expr],
        active: dict[ir.Expr, Tree],
        seed: Tree,
        *,
        valued: bool,
        reads: Mapping[ir.Var, ir.Expr] | None = None,
    ) -> tuple[ir.Expr | None, Cotangents]:
        """Return the value of a block (if ``valued``) and the cotangents of the names that it uses.

        ``reads``: what names stand for that are not to be computed.
        """
        block = blocks.block_of(expr)
        scope = _Scope(dict(env), active, reads=dict(reads or {}))
        cotangents = Cotangents(scope.env, self.data_types)
        bindings, tail = list(block.bindings), None
        # The value and its cotangents come out of one decision then; any other branch is decided
        # twice, once in each pass.
        if has_leaf(seed) and has_leaf(active.get(block.result)) and _ends_in_branches(block):
            tail = bindings.pop()[1]
        self.run(bindings, scope)
        if isinstance(tail, ir.If | ir.Match):
            result = self._decide(tail, scope, seed, cotangents, valued=valued)
        else:
            result = blocks.rename(block.result, scope.env) if valued else None
            self.add(cotangents, block.result, seed, scope)
        self.pull(bindings, scope, cotangents)
        return result, cotangents

    @staticmethod
    def scope(
        env: dict[ir.Expr, ir.Expr], active: dict[ir.Expr, Tree], reads: Mapping[ir.Var, ir.Expr]
    ) -> _Scope:
        """Return the scope of a block: what its names stand for, and which of them are active.

        ``reads``: what names in branches stand for that are not computed again.
        """
        return _Scope(env, active, reads=dict(reads))

    @staticmethod
    def add(cotangents: Cotangents, var: ir.Expr, tree: Tree, scope: _Scope) -> None:
        """Add what flows into the active leaves of a name."""
        cotangents.add(var, _only(tree, scope.active.get(var, False)))

    def run(self, bindings: Sequence[tuple[ir.Var, ir.Expr]], scope: _Scope) -> None:
        """Note what each binding stands for that the scope does not know yet."""
        for var, value in bindings:
            self._bindings[var] = value
            if var not in scope.env:
                scope.env[var] = scope.reads.get(var) or self._forward(var, value, scope)

    def _forward(self, var: ir.Var, value: ir.Expr, scope: _Scope) -> ir.Expr:
        """Return the value of a binding; that of a loop of known length is on tapes, if it is active."""
        if (
            isinstance(value, ir.Call)
            and isinstance(value.op, ir.GlobalVar)
            and has_leaf(scope.active.get(var))
        ):
            rule = custom_rule(self.functions[value.op.name])
            # The user's forward function replaces the call: it hands on the residuals that the
            # user's backward function takes, which the function itself does not compute.
            if rule is not None and rule.kind == CUSTOM_VJP and rule.functions:
                return self._call_forward(rule, var, value, scope)
            loop, call = None, value
            if rule is None:
                loop, call = self._loops.of_call(value, scope.env, self._resolve)
            taped = None if loop is None else self._taped_loop(loop, call, scope)
            if loop is not None and taped is not None:
                args = [blocks.rename(arg, scope.env) for arg in call.args]
                result, scope.taped[var] = call_forward(taped, loop, args, scope.env, value.span)
                return result
        # What a branch reads of an array that changes afterwards could not be read again: the array
        # would be copied, in each round of a loop.
        if isinstance(value, ir.If) and has_leaf(scope.active.get(var)):
            reading, names = blocks.with_reads(value)
            if names and not scope.reads.keys() >= set(names):
                decided = blocks.forward(reading, scope.env)
                result, *reads = items(decided, 1 + len(names))
                scope.reads |= dict(zip(names, reads, strict=True))
                return result
        return blocks.forward(value, scope.env)

    def pull(self, bindings: Sequence[tuple[ir.Var, ir.Expr]], scope: _Scope, cotangents: Cotangents) -> None:
        """Pass the cotangents of bindings on to the names that their values use, the last first."""
        # All uses of a name come after its binding: going backwards, its cotangent is complete when
        # the binding is reached.
        for var, value in reversed(bindings):
            if has_leaf(scope.active.get(var)):
                if blocks.is_taken_row(value):
                    # x[i][j] is an element of x: an array like x[i] for its cotangent would cost
                    # each round of a loop a whole row.
                    index = blocks.rename(value.args[1], scope.env)
                    for slice_ in cotangents.pop_slices(var):
                        self.add(cotangents, value.args[0], slice_.of_taken(value, index).update(), scope)
                tree = cotangents.of(var)
                if has_leaf(tree):
                    self._pull(var, value, scope, tree, cotangents)

    def _pull(self, var: ir.Var, value: ir.Expr, scope: _Scope, tree: Tree, cotangents: Cotangents) -> None:
        """Pass the cotangent of a binding on to the names that its value uses."""
        match value:
            case ir.Call(op=ir.OpRef()):
                self._pull_operator(var, value, scope, tree, cotangents)
            case ir.Call() if var in scope.taped:
                self._pull_loop(scope.taped[var], value, scope, tree, cotangents)
            case ir.Call(op=ir.GlobalVar(name=name)):
                rule = custom_rule(self.functions[name])
                if rule is None:
                    self._pull_call(value, scope, tree, cotangents)
                else:
                    self._pull_by_rule(rule, var, value, scope, tree, cotangents)
            case ir.Call(op=ir.Constructor(), args=args):
                primals = [blocks.rename(arg, scope.env) for arg in args]
                for arg, part in zip(args, self.data_types.of_fields(value, primals, tree), strict=True):
                    self.add(cotangents, arg, part, scope)
            case ir.Tuple(fields=fields):
                parts = tree if isinstance(tree, list) else [None] * len(fields)
                for part, cotangent in zip(fields, parts, strict=True):
                    cotangents.add(part, cotangent)
            case ir.TupleGetItem(tuple_value=whole, index=index):
                type_ = blocks.type_of(whole)
                assert isinstance(type_, TupleType)
                cotangents.add(whole, [tree if at == index else None for at in range(len(type_.fields))])
            case ir.If() | ir.Match():
                self._decide(value, scope, tree, cotangents, valued=False)
            case ir.Var():
                cotangents.add(value, tree)
            case ir.Constant():
                pass
            case _:
                hint = "use tensors and tuples of them, and functions that are called by name"
                what = (
                    "a call of a function value"
                    if isinstance(value, ir.Call)
                    else "a reference or a function"
                )
                self.diagnostics.error(f"a gradient does not flow through {what}", value.span, hint=hint)

    def _pull_loop(
        self, tape: TapedCall, value: ir.Call, scope: _Scope, tree: Tree, cotangents: Cotangents
    ) -> None:
        """Pass the cotangent of a loop's result on, through its rounds."""
        loop = tape.taped.loop
        # A loop whose rounds are counted first has two parameters more, at its beginning.
        args = dict(zip(reversed(loop.function.params), reversed(value.args), strict=False))
        so_far = {param: cotangents.take(args[param]) for param in loop.fixed if param in args}
        found = {param: leaves for param, leaves in so_far.items() if leaves}
        parts = call_backward(tape, self, tree, found, value.span)
        for param, part in zip(loop.function.params, parts, strict=True):
            if param in args:
                self.add(cotangents, args[param], part, scope)

    # -- operators ---------------------------------------------------------------------------------------

    def _pull_operator(
        self, var: ir.Var, value: ir.Call, scope: _Scope, tree: Tree, cotangents: Cotangents
    ) -> None:
        assert isinstance(value.op, ir.OpRef)
        name = value.op.name
        place = VjpCall(
            name,
            [blocks.rename(arg, scope.env) for arg in value.args],
            [blocks.type_of(arg) for arg in value.args],
            value.attrs,
            scope.env[var],
            blocks.type_of(var),
            terms(tree, blocks.type_of(var)),
            [has_leaf(scope.active.get(arg)) for arg in value.args],
            value.span,
        )
        place.producer = lambda expr: expr
        try:
            if name in RULES:
                contributions = RULES[name](place)
            elif name in EXPANSIONS:
                # An operator without a rule is its expansion, whose operators have rules.
                contributions = self._through_expansion(place, scope, value, tree)
            else:
                reason = REFUSED.get(name, "no rule is declared for it")
                self._refuse(NoGradientError(f"{name} has no gradient: {reason}"), value)
                return
        except NoGradientError as error:
            self._refuse(error, value)
            return
        for arg, wanted, contribution in zip(value.args, place.wanted, contributions, strict=True):
            if wanted:
                cotangents.add(arg, _only(contribution, scope.active.get(arg, False)))

    def _refuse(self, error: NoGradientError, value: ir.Call) -> None:
        hint = error.hint or "wrap it in stop_gradient(...) if nothing should flow through it"
        self.diagnostics.error(str(error), value.span, hint=hint)

    def _through_expansion(self, place: VjpCall, scope: _Scope, value: ir.Call, tree: Tree) -> list[Tree]:
        """Differentiate an equal expression of other operators instead of the call."""
        function = expand(place)
        active: dict[ir.Expr, Tree] = {
            param: scope.active.get(arg, False)
            for param, arg in zip(function.params, value.args, strict=True)
        }
        self.activity.of_block(function.body, active)
        env: dict[ir.Expr, ir.Expr] = dict(zip(function.params, place.args, strict=True))
        _, cotangents = self.of_block(function.body, env, active, tree, valued=False)
        return [cotangents.of(param) for param in function.params]

    # -- branches ----------------------------------------------------------------------------------------

    def _decide(
        self, value: ir.If | ir.Match, scope: _Scope, seed: Tree, cotangents: Cotangents, *, valued: bool
    ) -> ir.Expr | None:
        """Differentiate all branches; the decision gives the value (if ``valued``) and the cotangents."""
        is_taken_apart = isinstance(value, ir.Match) and has_leaf(scope.active.get(value.data))
        if isinstance(value, ir.Match) and is_taken_apart:
            # `_` hides the constructor, by which the cotangent's own constructor is chosen.
            value = self.data_types.without_wildcards(value)
        variables = blocks.fresh_variables(value)
        arms = [
            self.of_block(body, {**scope.env, **new}, scope.active, seed, valued=valued, reads=scope.reads)
            for body, new in zip(blocks.branches(value), variables, strict=True)
        ]
        if isinstance(value, ir.Match) and is_taken_apart:
            for clause, new, (_, inner) in zip(value.clauses, variables, arms, strict=True):
                tree = self.data_types.of_pattern(clause.lhs, blocks.type_of(value.data), new, inner.of)
                self.add(inner, value.data, tree, scope)
        outer = [
            var
            for var in dict.fromkeys(
                var for _, cotangent_values in arms for var in cotangent_values.variables()
            )
            # Names that an arm binds itself are not visible outside of it.
            if var in scope.env
        ]
        columns = [
            [leaf for var in outer for leaf in cotangent_values.leaves(var)] for _, cotangent_values in arms
        ]
        primals = [leaf for var in outer for leaf in project(scope.env[var], blocks.type_of(var))]
        types = [leaf for var in outer for leaf in leaf_types(blocks.type_of(var))]
        # All arms must return values of one type: a cotangent that one arm has is zeros in the
        # others, and one that none has is left out.
        flows = [any(column[row] is not None for column in columns) for row in range(len(primals))]
        bodies = []
        for (matched, _), column in zip(arms, columns, strict=True):
            fields = [] if matched is None else [matched]
            fields += [
                self.data_types.zero(primal, type_) if leaf is None else leaf
                for leaf, primal, type_, flowing in zip(column, primals, types, flows, strict=True)
                if flowing
            ]
            bodies.append(fields[0] if len(fields) == 1 else ir.Tuple(tuple(fields), span=value.span))
        width = int(valued) + sum(flows)
        if width == 0:
            return None
        decided = blocks.with_branches(value, scope.env, bodies, variables)
        values = items(decided, width)
        result = next(values) if valued else None
        cotangent_values = iter([next(values) if flowing else None for flowing in flows])
        for var in outer:
            cotangents.add(var, tree_of(cotangent_values, blocks.type_of(var)))
        return result

    # -- rules of functions --------------------------------------------------------------------------------

    def _call_forward(self, rule: CustomRule, var: ir.Var, value: ir.Call, scope: _Scope) -> ir.Expr:
        """Call the forward function of a rule; return the value, and note the residuals."""
        forward_name, _ = rule.functions
        type_ = self.functions[forward_name].ret_type
        assert isinstance(type_, TupleType)
        args = tuple(blocks.rename(arg, scope.env) for arg in value.args)
        forward_call = ir.Call(ir.GlobalVar(forward_name, span=value.span), args, span=value.span)
        scope.residuals[var] = project(ir.TupleGetItem(forward_call, 1, span=value.span), type_.fields[1])
        return ir.TupleGetItem(forward_call, 0, span=value.span)

    def _pull_by_rule(
        self, rule: CustomRule, var: ir.Var, value: ir.Call, scope: _Scope, tree: Tree, cotangents: Cotangents
    ) -> None:
        """Pass a cotangent on by the rule that a function has of its own."""
        wanted = [arg for arg, letter in zip(value.args, rule.letters, strict=True) if letter == "g"]
        read = [arg for arg, letter in zip(value.args, rule.letters, strict=True) if letter == "r"]
        if any(has_leaf(scope.active.get(arg)) for arg in read):
            message = "a function with a gradient rule reads a value that depends on the parameters"
            hint = (
                "give it as an argument of which the rule returns the gradient, or stop_gradient(...) of it"
            )
            self.diagnostics.error(message, value.span, hint=hint)
            return
        if not rule.functions:
            message = "a gradient rule that uses itself has derivatives of the first two orders alone"
            self.diagnostics.error(message, value.span, hint="differentiate less often")
            return
        type_ = blocks.type_of(var)
        seeds = list[ir.Expr]()
        rows = zip(leaves(tree, type_), project(scope.env[var], type_), leaf_types(type_), strict=True)
        for seed, own, leaf in (row for row in rows if self.data_types.flows(row[2])):
            if isinstance(leaf, TypeCall):
                message = "a function with a gradient rule returns a value of a data type that has a gradient"
                self.diagnostics.error(message, value.span, hint="return tensors, and tuples of them")
                return
            seeds.append(self.data_types.zero(own, leaf) if seed is None else seed)
        if rule.kind == CUSTOM_VJP:
            args = (*(blocks.rename(arg, scope.env) for arg in read), *scope.residuals[var], *seeds)
            call = ir.Call(ir.GlobalVar(rule.functions[1], span=value.span), args, span=value.span)
            cotangent_fields = list(items(call, len(wanted)))
        else:  # the rule is linear in tangents: its gradient by them, at zeros
            primals: dict[ir.Expr, ir.Expr] = {
                blocks.fresh(param): blocks.rename(arg, scope.env)
                for param, arg in zip(self.functions[rule.functions[0]].params, value.args, strict=False)
            }
            tangents = {
                ir.Var("t", blocks.type_of(arg)): self.data_types.zero(
                    blocks.rename(arg, scope.env), blocks.type_of(arg)
                )
                for arg in wanted
            }
            tangent = ir.Call(ir.GlobalVar(rule.functions[0]), (*primals, *tangents), span=value.span)
            within = _Scope(primals | tangents, dict.fromkeys(tangents, True))
            inner = Cotangents(within.env, self.data_types)
            self._pull_call(tangent, within, [None, seeds], inner)
            cotangent_fields = [inner.of(each) for each in tangents]
        for arg, cotangent_field in zip(wanted, cotangent_fields, strict=True):
            cotangents.add(arg, _only(cotangent_field, scope.active.get(arg, False)))

    # -- functions ---------------------------------------------------------------------------------------

    def _pull_call(self, value: ir.Call, scope: _Scope, tree: Tree, cotangents: Cotangents) -> None:
        """Call the backward function of a function that is called."""
        assert isinstance(value.op, ir.GlobalVar)
        name = value.op.name
        activity = self.activity.of_function(name, self.activity.mask_of(name, value.args, scope.active))
        function = self.functions[name]
        seeds = leaves(_only(tree, activity.result), function.result_type)
        # Each combination of active parameters and seeded results has a backward function of its
        # own: zeros that nobody needs are neither passed nor computed.
        seeded = tuple(seed is not None for seed in seeds)
        if not any(seeded):
            return
        helper = self._helper(name, activity, seeded)
        args = [blocks.rename(arg, scope.env) for arg in value.args]
        given = [seed for seed in seeds if seed is not None]
        call = ir.Call(ir.GlobalVar(helper, span=value.span), (*args, *given), span=value.span)
        given_back = items(call, sum(activity.mask))
        flat = iter([next(given_back) if flowing else None for flowing in activity.mask])
        for param, arg in zip(function.params, value.args, strict=True):
            part = tree_of(flat, blocks.type_of(param))
            cotangents.add(arg, _only(part, scope.active.get(arg, False)))

    def _taped_loop(self, loop: CountedRecursion, value: ir.Call, scope: _Scope) -> TapedLoop | None:
        """Return a loop with its two functions, which calls of the same kind share; None if it has none."""
        assert isinstance(value.op, ir.GlobalVar)
        name = value.op.name
        activity = self.activity.of_function(name, self.activity.mask_of(name, value.args, scope.active))
        key = (name, activity.mask, loop.start, loop.step, loop.number)
        if key not in self._taped:
            before = (dict(self.made), dict(self._helpers), dict(self._taped))
            taped = LoopTaper(self, loop, activity, name).tape()
            if taped is None:
                # The functions that the attempt made call each other, so all go.
                self.made, self._helpers, self._taped = before
            self._taped[key] = taped
        return self._taped[key]

    def _resolve(self, expr: ir.Expr) -> ir.Expr:
        """Return what a name is bound to."""
        while isinstance(expr, ir.Var) and expr in self._bindings:
            expr = self._bindings[expr]
        return expr

    def new_name(self, name: str) -> str:
        """Return a name for a function that no other has."""
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _helper(self, name: str, activity: FunctionActivity, seeded: tuple[bool, ...]) -> str:
        """Return the backward function of a function: (arguments, cotangents) -> cotangents."""
        key = (name, activity.mask, seeded)
        if key in self._helpers:
            return self._helpers[key]
        # Registered before its body is differentiated: a recursive call in there finds it.
        helper = self._helpers[key] = self.new_name(f"{name}_backward")
        function = self.functions[name]
        env: dict[ir.Expr, ir.Expr] = {param: blocks.fresh(param) for param in function.params}
        types = leaf_types(function.result_type)
        seeds = [
            ir.Var(
                f"d{index}" if len(types) > 1 else "d",
                self.data_types.cotangent_type(type_),
                span=function.span,
            )
            if flows
            else None
            for index, (type_, flows) in enumerate(zip(types, seeded, strict=True))
        ]
        seed = tree_of(iter(seeds), function.result_type)
        _, cotangents = self.of_block(function.body, env, dict(activity.active), seed, valued=False)
        filled = [leaf for param in function.params for leaf in cotangents.filled(param, env[param])]
        fields = [leaf for leaf, flowing in zip(filled, activity.mask, strict=True) if flowing]
        all_types = (leaf for param in function.params for leaf in leaf_types(blocks.type_of(param)))
        field_types = [
            self.data_types.cotangent_type(leaf)
            for leaf, flowing in zip(all_types, activity.mask, strict=True)
            if flowing
        ]
        body = fields[0] if len(fields) == 1 else ir.Tuple(tuple(fields), span=function.span)
        result: Type = field_types[0] if len(fields) == 1 else TupleType(tuple(field_types))
        params = [param for param in env.values() if isinstance(param, ir.Var)][: len(function.params)]
        params += [part for part in seeds if part is not None]
        attrs = {CHECKPOINT: 1} if CHECKPOINT in function.attrs else {}
        attrs |= {BACKWARD_LOOP: 1} if LOOP in function.attrs else {}
        self.made[helper] = ir.Function(tuple(params), body, result, attrs=attrs, span=function.span)
        return helper


def _ends_in_branches(block: blocks.LetBlock) -> bool:
    """Return whether the result of a block is that of its last binding, an ``if`` or a ``match``."""
    if not block.bindings:
        return False
    var, value = block.bindings[-1]
    return var is block.result and isinstance(value, ir.If | ir.Match)


def _only(tree: Tree, active: Tree) -> Tree:
    """Return a tree without what flows into leaves that are not active."""
    if isinstance(active, list):
        parts = tree if isinstance(tree, list) else [None] * len(active)
        return [_only(part, own) for part, own in zip(parts, active, strict=True)]
    return tree if active else None
