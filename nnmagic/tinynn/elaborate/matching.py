"""``match``: constructors become Relay's ``match``, numbers become ``if``, what is known is decided now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synr import ast
from synr.ast import BuiltinOp

from nnmagic.diagnostics import Span
from nnmagic.relay import expr as ir
from nnmagic.relay.infer.exhaustive import TooManyCasesError, unmatched_cases
from nnmagic.relay.types import TupleType, Type, TypeCall
from nnmagic.tinynn.analysis.bound_names import assigned_names
from nnmagic.tinynn.elaborate.closures import Closures
from nnmagic.tinynn.elaborate.control_flow_blocks import (
    Block,
    BlockExit,
    CondBranch,
    ExitKind,
    Switch,
    Terminator,
    exits_of,
)
from nnmagic.tinynn.operators.arithmetic import binary
from nnmagic.tinynn.syntax import tree
from nnmagic.tinynn.values.operator_calls import computed_part, is_tensor
from nnmagic.tinynn.values.symbolic_sizes import as_number
from nnmagic.tinynn.values.values import (
    FAILED,
    Computed,
    ConstructorName,
    DataTypeName,
    Known,
    NotStaticError,
    Operand,
    RefusalError,
    TupleOf,
    Value,
    computed,
    described,
    is_failed,
    known_value,
    record_constructor,
)

#: Cases of one ``match`` after patterns with ``|`` are written out.
_MAX_CASES = 200


class Matching(Closures):
    """Choices by pattern."""

    def match_statement(self, stmt: tree.MatchNode) -> Terminator | None:
        """``match``. Raises Refusal."""
        subject = self.operand(stmt.subject)
        if is_failed(subject.value):
            return self.both_for_errors(stmt, [case.body.stmts for case in stmt.cases])
        cases = [one for case in stmt.cases for one in _written_out(case)]
        if len(cases) > _MAX_CASES:
            raise RefusalError(f"a match of {len(cases)} cases is too long", self.place(stmt.subject.span))
        if _needs_code(subject.value) or any(case.guard is not None for case in cases):
            self.settle_for(stmt)
            subject = Operand(self.settled(subject.value, "subject", set()), subject.span)
        return self._cases(stmt, subject, cases, ())

    def _cases(
        self,
        stmt: tree.MatchNode,
        subject: Operand,
        cases: Sequence[tree.Case],
        covered: Sequence[ir.Pattern],
    ) -> Terminator | None:
        """The cases that are left; ``covered``: patterns that took their values before."""
        if not cases:
            raise self._not_exhaustive(stmt, described(subject.value))
        count = 0
        if _holds_data(subject.value):
            while count < len(cases) and cases[count].guard is None and self._is_native(cases[count].pattern):
                count += 1
        if count:
            end = self._native(stmt, subject, cases[:count], cases[count:], covered)
        else:
            end = self._one_case(stmt, subject, cases, covered)
        return self.settled_end(end)

    def _not_exhaustive(self, stmt: tree.MatchNode, missing: str) -> RefusalError:
        hint = "add a case for it, or `case _:` for all that is left"
        return RefusalError(f"no case takes {missing}", self.place(stmt.subject.span), hint=hint)

    # -- one case after the other ----------------------------------------------------------------------

    def _one_case(
        self,
        stmt: tree.MatchNode,
        subject: Operand,
        cases: Sequence[tree.Case],
        covered: Sequence[ir.Pattern],
    ) -> Terminator | None:
        """The first case, then those that follow where it does not hold."""
        case, others = cases[0], cases[1:]
        span = self.place(case.span)
        block = Block()
        with self.inside(block, self.frame.env.copy()):
            self._test(block, [(case.pattern, subject)], case, span)
        misses = [leaf for leaf, _ in exits_of(block.end) if leaf.exit is ExitKind.FALLS_THROUGH]
        end = block.end
        assert end is not None
        if isinstance(end, BlockExit) and end.exit is ExitKind.FALLS_THROUGH:
            return self._cases(stmt, subject, others, covered)
        self.block.lets += block.lets
        if misses:
            end = self.followed(
                end, iter([lambda: self._cases(stmt, subject, others, covered)]), ExitKind.FALLS_THROUGH
            )
        return end

    def _test(self, block: Block, work: list[tuple[ast.Node, Operand]], case: tree.Case, span: Span) -> None:
        """Fills a block with the tests of patterns that are left, then with the case's body."""
        while work:
            pattern, value = work.pop(0)
            match pattern:
                case tree.CapturePattern(name=name, pattern=inner):
                    if name is not None:
                        self.frame.env.bind(name, value.value, self.place(pattern.span))
                    if inner is not None:
                        work.insert(0, (inner, value))
                case tree.InvalidPattern(names=names):
                    for name in names:
                        self.frame.env.bind(name, FAILED)
                case tree.ValuePattern():
                    held = self._equals(pattern, value)
                    if held is False:
                        block.end = BlockExit(ExitKind.FALLS_THROUGH, span, self.frame.env)
                        return
                    if held is not True:
                        self._fork(block, held, list(work), case, span)
                        return
                case tree.SequencePattern():
                    parts = self._parts(pattern, value)
                    if parts is None:
                        block.end = BlockExit(ExitKind.FALLS_THROUGH, span, self.frame.env)
                        return
                    work[:0] = parts
                case tree.ConstructorPattern():
                    self._fork_data(block, pattern, value, work, case, span)
                    return
                case _:
                    raise RefusalError("this pattern is not part of TinyNN", self.place(pattern.span))
        self._body(block, case, span)

    def _body(self, block: Block, case: tree.Case, span: Span) -> None:
        guard = None if case.guard is None else self.truth(self.operand(case.guard), "if")
        if case.guard is not None and guard is None:
            self.frame.failed = True
        if guard is False:
            block.end = BlockExit(ExitKind.FALLS_THROUGH, span, self.frame.env)
        elif isinstance(guard, Computed):
            assert case.guard is not None
            self.settle(assigned_names(case.guard))
            then, other = Block(), Block(end=BlockExit(ExitKind.FALLS_THROUGH, span, self.frame.env.copy()))
            with self.inside(then, self.frame.env.copy()):
                self.fill(then, self.steps(case.body.stmts), span)
            block.end = CondBranch(guard.expr, then, other, span)
        else:
            self.fill(block, self.steps(case.body.stmts), span)

    def _fork(
        self, block: Block, held: Computed, work: list[tuple[ast.Node, Operand]], case: tree.Case, span: Span
    ) -> None:
        then, other = Block(), Block(end=BlockExit(ExitKind.FALLS_THROUGH, span, self.frame.env.copy()))
        with self.inside(then, self.frame.env.copy()):
            self._test(then, work, case, span)
        block.end = CondBranch(held.expr, then, other, span)

    def _fork_data(
        self,
        block: Block,
        pattern: tree.ConstructorPattern,
        value: Operand,
        work: list[tuple[ast.Node, Operand]],
        case: tree.Case,
        span: Span,
    ) -> None:
        constructor, parts = self._constructor(pattern)
        data = self._data(value, constructor, pattern)
        names = [part.name if isinstance(part, tree.CapturePattern) else None for part in parts]
        fields = [
            ir.Var(name or f"field{index}", type_, span=self.place(part.span))
            for index, (name, type_, part) in enumerate(zip(names, constructor.inputs, parts, strict=True))
        ]
        then, other = Block(), Block(end=BlockExit(ExitKind.FALLS_THROUGH, span, self.frame.env.copy()))
        with self.inside(then, self.frame.env.copy()):
            inner = [
                (part, Operand(computed(field, type_), self.place(part.span)))
                for part, field, type_ in zip(parts, fields, constructor.inputs, strict=True)
            ]
            self._test(then, [*inner, *work], case, span)
        arms: list[tuple[ir.Pattern, Block]] = [
            (ir.PatternConstructor(constructor, tuple(map(ir.PatternVar, fields))), then)
        ]
        if len(self.scope.types()[constructor.belong_to.name].constructors) > 1:
            arms.append((ir.PatternWildcard(), other))
        block.end = Switch(data.expr, arms, complete=True, span=span)

    def _equals(self, pattern: tree.ValuePattern, value: Operand) -> bool | Computed:
        """Whether a value equals that of a pattern. Raises Refusal."""
        wanted = self.operand(pattern.value)
        if is_failed(wanted.value):
            return True
        if isinstance(wanted.value, ConstructorName):
            raise RefusalError(f"write {wanted.value.constructor.name}() with its brackets", wanted.span)
        value, wanted = as_number(value), as_number(wanted)
        try:
            one, other = known_value(value.value), known_value(wanted.value)
        except NotStaticError:
            pass
        else:
            return one is other or (one is not None and other is not None and one == other)
        if is_tensor(value.value) and wanted.value == Known(None):
            return False
        if not is_tensor(value.value):
            return False
        equal = self.truth(
            Operand(binary(BuiltinOp.Eq, "==", value, wanted, wanted.span), wanted.span), "case"
        )
        assert equal is not None
        return equal

    def _parts(self, pattern: tree.SequencePattern, value: Operand) -> list[tuple[ast.Node, Operand]] | None:
        """The items of a tuple with their patterns; None where the number differs. Raises Refusal."""
        if not isinstance(value.value, TupleOf):
            if isinstance(value.value, Known):
                return None
            message = f"a tuple pattern does not take {described(value.value)}"
            raise RefusalError(message, self.place(pattern.span), hint="match a tuple, as in match (x, y):")
        items = [Operand(item, value.span) for item in value.value.items]
        patterns = list(pattern.patterns)
        stars = [index for index, part in enumerate(patterns) if isinstance(part, tree.StarPattern)]
        if len(items) < len(patterns) - len(stars) or (not stars and len(items) != len(patterns)):
            return None
        if stars:
            at = stars[0]
            end = len(items) - (len(patterns) - at - 1)
            gathered = Operand(TupleOf(tuple(item.value for item in items[at:end])), value.span)
            star = patterns[at]
            patterns[at] = tree.CapturePattern(star.span, star.name)
            items = [*items[:at], gathered, *items[end:]]
        return list(zip(patterns, items, strict=True))

    # -- Relay's match ---------------------------------------------------------------------------------

    def _is_native(self, pattern: ast.Node) -> bool:
        """Whether Relay has the pattern."""
        match pattern:
            case tree.CapturePattern(pattern=None):
                return True
            case tree.ConstructorPattern(patterns=parts, keywords=named):
                return all(map(self._is_native, [*parts, *named.values()]))
            case tree.SequencePattern(patterns=parts):
                return all(map(self._is_native, parts))
        return False

    def _native(
        self,
        stmt: tree.MatchNode,
        subject: Operand,
        cases: Sequence[tree.Case],
        others: Sequence[tree.Case],
        covered: Sequence[ir.Pattern],
    ) -> Terminator | None:
        data = computed_part(subject)
        arms: list[tuple[ir.Pattern, Block]] = []
        for case in cases:
            block = Block()
            with self.inside(block, self.frame.env.copy()):
                lhs = self._pattern(case.pattern, data.type)
                self.fill(block, self.steps(case.body.stmts), self.place(case.span))
            arms.append((lhs, block))
        own = [lhs for lhs, _ in arms]
        missing = self._missing([*covered, *own])
        if missing and not others:
            raise self._not_exhaustive(stmt, " or ".join(missing[:3]))
        end = Switch(data.expr, arms, not self._missing(own), self.place(stmt.span))
        if missing:
            rest = Block(end=BlockExit(ExitKind.FALLS_THROUGH, self.place(stmt.span), self.frame.env.copy()))
            arms.append((ir.PatternWildcard(), rest))
            end.complete = True
            further = [*covered, *own]
            return self.followed(
                end, iter([lambda: self._cases(stmt, subject, others, further)]), ExitKind.FALLS_THROUGH
            )
        return end

    def _missing(self, patterns: Sequence[ir.Pattern]) -> list[str]:
        """Values that no pattern takes, as text."""
        try:
            return unmatched_cases(patterns, self.scope.types())
        except TooManyCasesError:
            return ["some value"]

    def _pattern(self, pattern: ast.Node, type_: Type) -> ir.Pattern:
        """A pattern of Relay; binds its names. Raises Refusal."""
        place = self.place(pattern.span)
        match pattern, type_:
            case tree.CapturePattern(name=None), _:
                return ir.PatternWildcard()
            case tree.CapturePattern(name=str() as name), _:
                variable = ir.Var(name, type_, span=place)
                self.frame.env.bind(name, computed(variable, type_), place)
                return ir.PatternVar(variable)
            case tree.SequencePattern(patterns=parts), TupleType(fields=fields) if len(parts) == len(fields):
                return ir.PatternTuple(tuple(map(self._pattern, parts, fields)))
            case tree.ConstructorPattern(), _:
                constructor, parts = self._constructor(pattern)
                self._check_belongs(constructor, type_, place)
                return ir.PatternConstructor(
                    constructor, tuple(map(self._pattern, parts, constructor.inputs))
                )
        raise RefusalError(f"this pattern does not take {described(Computed(ir.Tuple(()), type_))}", place)

    def _constructor(self, pattern: tree.ConstructorPattern) -> tuple[ir.Constructor, list[ast.Node]]:
        """The constructor of a pattern, and a pattern for each of its fields. Raises Refusal."""
        callee = self.operand(pattern.constructor)
        place = self.place(pattern.span)
        if isinstance(callee.value, DataTypeName) and (own := record_constructor(callee.value)) is not None:
            callee = Operand(own, callee.span)
        if not isinstance(callee.value, ConstructorName):
            hint = "write a constructor of a class of the cell, a number, a name or `_`"
            raise RefusalError(f"{described(callee.value)} is no constructor", callee.span, hint=hint)
        name, fields = callee.value.constructor.name, callee.value.fields
        if len(pattern.patterns) > len(fields):
            found = len(pattern.patterns)
            shown = f"{name}({', '.join(fields)})"
            raise RefusalError(
                f"`{name}` has {len(fields)} fields, not {found}", place, hint=f"it is {shown}"
            )
        parts: list[ast.Node] = list(pattern.patterns)
        parts += [tree.CapturePattern(pattern.span, None)] * (len(fields) - len(parts))
        for keyword, part in pattern.keywords.items():
            if keyword not in fields:
                raise RefusalError(
                    f"`{name}` has no field `{keyword}`", place, hint=f"its fields: {', '.join(fields)}"
                )
            parts[fields.index(keyword)] = part
        return callee.value.constructor, parts

    def _data(self, value: Operand, constructor: ir.Constructor, pattern: ast.Node) -> Computed:
        if not isinstance(value.value, Computed):
            message = f"`{constructor.name}` does not take {described(value.value)}"
            raise RefusalError(message, self.place(pattern.span))
        self._check_belongs(constructor, value.value.type, self.place(pattern.span))
        return value.value

    def _check_belongs(self, constructor: ir.Constructor, type_: Type, place: Span) -> None:
        if type_ != TypeCall(constructor.belong_to, ()):
            found = described(Computed(ir.Tuple(()), type_))
            owner = constructor.belong_to.name
            raise RefusalError(
                f"`{constructor.name}` is a constructor of {owner}, but this is {found}", place
            )


def _needs_code(value: Value) -> bool:
    """Whether anything in a value is known only when the function runs."""
    if isinstance(value, TupleOf):
        return any(map(_needs_code, value.items))
    return isinstance(value, Computed) and not isinstance(value.expr, ir.Constant)


def _holds_data(value: Value) -> bool:
    """Whether a value of a data type is, or is in, a value that Relay can match."""
    if isinstance(value, TupleOf):
        relay = all(isinstance(item, Computed | TupleOf) for item in value.items)
        return relay and any(map(_holds_data, value.items))
    return isinstance(value, Computed) and isinstance(value.type, TypeCall)


def _written_out(case: tree.Case) -> Iterator[tree.Case]:
    """The case once for each alternative of ``|`` in its pattern."""
    for pattern in _alternatives(case.pattern):
        yield tree.Case(case.span, pattern, case.guard, case.body)


def _alternatives(pattern: ast.Node) -> Iterator[ast.Node]:
    def products(parts: Sequence[ast.Node]) -> Iterator[list[ast.Node]]:
        if not parts:
            yield []
            return
        for first in _alternatives(parts[0]):
            for rest in products(parts[1:]):
                yield [first, *rest]

    match pattern:
        case tree.OrPattern(patterns=parts):
            for part in parts:
                yield from _alternatives(part)
        case tree.SequencePattern(span=span, patterns=parts):
            for found in products(parts):
                yield tree.SequencePattern(span, found)
        case tree.ConstructorPattern(span=span, constructor=constructor, patterns=parts, keywords=named):
            for found in products([*parts, *named.values()]):
                keywords = dict(zip(named, found[len(parts) :], strict=True))
                yield tree.ConstructorPattern(span, constructor, found[: len(parts)], keywords)
        case tree.CapturePattern(span=span, name=name, pattern=inner) if inner is not None:
            for each in _alternatives(inner):
                yield tree.CapturePattern(span, name, each)
        case _:
            yield pattern
