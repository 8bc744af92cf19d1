"""``if``, and how branches come together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from synr import ast

from nnmagic.diagnostics import Note, Span
from nnmagic.relay import expr as ir
from nnmagic.relay.types import TupleType, Type
from nnmagic.tinynn.analysis.bound_names import assigned_names, may_leave, mentioned_names
from nnmagic.tinynn.elaborate.context import is_atom
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    Block,
    BlockExit,
    CondBranch,
    ExitKind,
    JoinPoint,
    Terminator,
    exits_of,
    may_fail,
    render_terminator,
)
from nnmagic.tinynn.elaborate.expressions import Expressions
from nnmagic.tinynn.elaborate.merging import (
    MergeConflictError,
    Plan,
    anchored,
    expressions,
    expressions_in,
    merge_conflict,
    merge_plan,
    rebuild,
    types_of,
)
from nnmagic.tinynn.values.environments import Env, Environment
from nnmagic.tinynn.values.operator_calls import apply, is_tensor, tensor_type
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import (
    FAILED,
    ClosureValue,
    Computed,
    LocalFunction,
    NotStaticError,
    Operand,
    RefusalError,
    TupleOf,
    Unassigned,
    Value,
    described,
    is_failed,
    known_value,
    number_constant,
    source_text,
)


class Branches(Expressions):
    """What depends on a condition."""

    # -- conditions ------------------------------------------------------------------------------------

    def truth(self, operand: Operand, word: str) -> bool | Computed | None:
        """Whether a condition holds: known now, or a bool of rank 0; None where it failed. Raises Refusal."""
        operand = as_number(operand)
        value = operand.value
        if is_failed(value):
            return None
        if is_tensor(value):
            return self._tensor_truth(operand, word)
        try:
            found = known_value(value)
            if isinstance(found, bool | int | float | str | tuple | None):
                return bool(found)
        except NotStaticError:
            pass
        if isinstance(value, TupleOf):
            return bool(value.items)
        raise RefusalError(f"`{word}` takes a condition, not {described(value)}", operand.span)

    def _tensor_truth(self, operand: Operand, word: str) -> bool | Computed:
        assert isinstance(operand.value, Computed)
        value, type_ = operand.value, tensor_type(operand)
        if isinstance(value.expr, ir.Constant) and value.expr.data.size == 1:
            return bool(value.expr.data.item())
        if any(dim != 1 for dim in type_.shape):
            name = source_text(operand.span)
            message = f"`{word}` needs one truth value, not {described(value)}"
            hint = f"write {name}.any() or {name}.all()"
            if word in ("and", "or"):
                hint = f"element by element it is {'&' if word == 'and' else '|'}; or write {name}.any()"
            raise RefusalError(message, operand.span, hint=hint)
        if type_.shape:
            value = apply("squeeze", operand.span, value, axis=list(range(len(type_.shape))))
        if type_.dtype == "bool":
            return value
        zero = number_constant(0, type_.dtype, operand.span)
        return apply("not_equal", operand.span, value, zero)

    # -- if --------------------------------------------------------------------------------------------

    def branch(self, stmt: ast.If) -> Terminator | None:
        """``if``: a known condition takes one branch, any other becomes Relay's ``if``."""
        condition = self._condition(stmt)
        if condition is None:
            return self.both_for_errors(stmt, [stmt.true.stmts, stmt.false.stmts])
        if isinstance(condition, bool):
            return self.within(stmt.true.stmts if condition else stmt.false.stmts)
        self.settle_for(stmt)
        before = self.frame.env
        blocks = []
        for part in (stmt.true, stmt.false):
            block = Block()
            with self.inside(block, before.copy()):
                self.fill(block, self.steps(part.stmts), self.place(stmt.span))
            blocks.append(block)
        return self.merged(CondBranch(condition.expr, blocks[0], blocks[1], self.place(stmt.span)))

    def _condition(self, stmt: ast.If) -> bool | Computed | None:
        """The condition of an ``if``; what it shares with the branches is bound before it."""
        below = mentioned_names(stmt.true) | mentioned_names(stmt.false)
        if may_leave(stmt):
            below |= self.live
        used = mentioned_names(stmt.condition) & below
        if any(not _is_settled(self.frame, name) for name in used):
            with self.trial():
                dynamic = isinstance(self.truth(self.operand(stmt.condition), "if"), Computed)
            if dynamic:
                self.settle_for(stmt)
        return self.truth(self.operand(stmt.condition), "if")

    def within(self, statements: Sequence[ast.Stmt]) -> Terminator | None:
        """Statements carried out in the current block, as one step."""
        block, self.block = self.block, Block(self.block.lets)
        live = self.live
        try:
            self.sequence(self.steps(statements))
            return self.block.end
        finally:
            self.block, self.live = block, live

    def fill(self, block: Block, steps: Iterable[Callable[[], Terminator | None]], span: Span) -> None:
        """Carries out steps in a block that is being entered, and ends it."""
        live = self.live
        if self.sequence(steps):
            block.end = BlockExit(ExitKind.GOES_ON, span, self.frame.env)
        self.live = live

    def both_for_errors(self, stmt: ast.Stmt, parts: Sequence[Sequence[ast.Stmt]]) -> Terminator | None:
        """The condition failed: the branches are read for their own errors, what they assign is silent."""
        before = self.frame.env
        for statements in parts:
            with self.inside(Block(), before.copy()):
                self.sequence(self.steps(statements))
        for name in assigned_names(stmt):
            before.bind(name, FAILED)
        self.frame.failed = True
        return None

    def settle_for(self, stmt: ast.Stmt) -> None:
        """Binds what the branches use; where they may leave, what follows them may use it too."""
        used = mentioned_names(stmt)
        if may_leave(stmt):
            used |= self.live
        self.settle(name for name in list(self.frame.names()) if name in used)

    # -- bringing branches together --------------------------------------------------------------------

    def merged(self, end: Terminator) -> Terminator | None:
        """Goes on in the current block where all leaves go on; else the end, for the steps that follow."""
        found = [leaf for leaf, _ in exits_of(end) if leaf.exit is not ExitKind.JUMPS]
        if not found or may_fail(end) or any(leaf.exit is not ExitKind.GOES_ON for leaf in found):
            return end
        plans = self.joined([leaf.env for leaf in found], end.span)
        self.take(end, plans)
        return None

    def joined(self, envs: Sequence[Env], span: Span) -> dict[str, Plan]:
        """The plans of the names that differ where leaves are; sets what else is known of them."""
        env = self.frame.env
        plans: dict[str, Plan] = {}
        live = self._used_later(envs)
        names = dict.fromkeys(name for each in envs for name in each.locals)
        outside = {
            found
            for frame in self.frame.chain()
            for value in frame.env.locals.values()
            for found in expressions_in(value)
        }
        for name in names:
            values = [each.locals.get(name) for each in envs]
            places = [each.places.get(name, span) for each in envs]
            changed = max(each.versions.get(name, 0) for each in envs)
            if changed == env.versions.get(name, 0):
                continue
            env.versions[name] = changed
            if any(value is None for value in values):
                env.locals[name] = _maybe_unassigned(name, values, places, span)
                continue
            known = [value for value in values if value is not None]
            if any(map(is_failed, known)):
                # Where a recursive function's type is looked for, the branch that does not recur tells it.
                usable = [value for value in known if self.guessing and not is_failed(value)]
                env.locals[name] = usable[0] if usable else FAILED
                continue
            try:
                plan = anchored(merge_plan(known), outside)
            except MergeConflictError as problem:
                words = "branches leave it with different values"
                env.locals[name] = merge_conflict(name, list(zip(known, places, strict=True)), problem, words)
                continue
            env.places[name] = places[0]
            if not list(types_of(plan)):
                env.locals[name] = rebuild(plan, iter(()))
            elif name in live:
                plans[name] = plan
            else:
                env.forget(name)
        return plans

    def _used_later(self, envs: Sequence[Env]) -> set[str]:
        """The names that stand in what follows, and those that the functions among them use."""
        live = set(self.live)
        for env in envs:
            for name in self.live:
                value = env.locals.get(name)
                if isinstance(value, LocalFunction | ClosureValue):
                    live.update(value.versions)
        return live

    def take(self, end: Terminator, plans: dict[str, Plan]) -> None:
        """Renders an end whose leaves all go on, and binds the names that differ."""
        types = [one.type for plan in plans.values() for one in types_of(plan)]
        if not types:
            return
        result: Type = types[0] if len(types) == 1 else TupleType(tuple(types))

        def value_of(leaf: BlockExit) -> ir.Expr:
            parts = self.leaf_expressions(leaf, plans)
            return parts[0] if len(types) == 1 else ir.Tuple(parts, span=leaf.span)

        expr = self.placed(Computed(render_terminator(end, result, value_of), result)).expr
        exprs: list[ir.Expr] = [expr]
        if len(types) > 1:
            whole = self.bound(Computed(expr, result), "_".join(plans)[:40]).expr
            exprs = [ir.TupleGetItem(whole, index, span=end.span) for index in range(len(types))]
        parts = iter(exprs)
        for name, plan in plans.items():
            self.frame.env.locals[name] = rebuild(plan, parts)

    def placed(self, value: Computed) -> Computed:
        """A value that may stand in any expression: its bindings become those of the block.

        Real Relay cannot read what it prints for a `match` that is bound to a name, so it gets a function.
        """
        expr = value.expr
        while isinstance(expr, ir.Let):
            self.block.lets.append((expr.var, expr.value))
            expr = expr.body
        if isinstance(expr, ir.Match):
            matched = ir.Var("matched", span=expr.span)
            self.block.lets.append((matched, ir.Function((), expr, value.type, span=expr.span)))
            expr = ir.Call(matched, (), span=expr.span)
        return replace(value, expr=expr)

    def leaf_expressions(self, leaf: BlockExit, plans: dict[str, Plan]) -> tuple[ir.Expr, ...]:
        """What a leaf gives for the names of plans."""
        found: list[ir.Expr] = []
        for name, plan in plans.items():
            place, value = leaf.env.places.get(name, leaf.span), leaf.env.locals[name]
            try:
                if not is_failed(value):
                    found += expressions(plan, value, place)
                    continue
            except RefusalError as refusal:
                self.report(refusal)
            found += [ir.Tuple((), span=place) for _ in types_of(plan)]  # the function is refused
        return tuple(found)

    def followed(
        self, end: Terminator, rest: Iterator[Callable[[], Terminator | None]], exit_: ExitKind
    ) -> Terminator:
        """What follows a statement some of whose branches leave, with the leaves of ``exit_``.

        It is put into the one leaf that goes on, or made a function that several call.
        """
        ends = [(leaf, block) for leaf, block in exits_of(end) if leaf.exit is exit_]
        if not ends:
            return end  # what follows is never reached
        if len(ends) == 1:
            leaf, block = ends[0]
            assert block is not None, "a single leaf goes on in the block itself"
            block.end = None
            with self.inside(block, leaf.env):
                self.fill(block, rest, leaf.span)
            return end
        variable, params, block = ir.Var("rest", span=end.span), list[ir.Var](), Block()
        with self.inside(block, self.frame.env.copy()) as env:
            plans = self.joined([leaf.env for leaf, _ in ends], end.span)
            for name, plan in plans.items():
                made = [ir.Var(name, one.type, span=end.span) for one in types_of(plan)]
                env.locals[name] = rebuild(plan, iter(made))
                params += made
            for leaf, _ in ends:
                leaf.args = self.leaf_expressions(leaf, plans)
                leaf.exit, leaf.target = ExitKind.JUMPS, variable
            self.fill(block, rest, end.span)
        return JoinPoint(end, variable, tuple(params), block, end.span)


def _is_settled(frame: Environment, name: str) -> bool:
    owner = frame.owner(name)
    value = None if owner is None else owner.env.locals.get(name)
    return not isinstance(value, Computed) or is_atom(value.expr)


def _maybe_unassigned(name: str, values: Sequence[Value | None], places: Sequence[Span], span: Span) -> Value:
    """A name that only some branches assign."""
    if any(value is not None and is_failed(value) for value in values):
        return FAILED
    assigned = next(place for value, place in zip(values, places, strict=True) if value is not None)
    notes = (Note("it is assigned here", assigned), Note("but not on every path through this", span))
    return Unassigned(f"`{name}` may not be assigned here", "assign it before, or in every branch", notes)
