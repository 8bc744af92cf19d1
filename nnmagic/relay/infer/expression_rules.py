"""Infer the types of expressions: a rule for each kind, in an order that never recurses.

A node's parts come before the node, a let's value before its body, a match's data before its arms, which
must handle every value.
"""

from __future__ import annotations

from nnmagic.relay import expr as ir
from nnmagic.relay.expr import Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from nnmagic.relay.infer.calls import infer_call, without_labels
from nnmagic.relay.infer.context import TOO_DEEP, Context, close_name, note
from nnmagic.relay.infer.exhaustive import TooManyCasesError, find_unmatched_cases
from nnmagic.relay.infer.unify import MAX_NESTING, UNKNOWN, Hole, NestingError, describe_type, substitute
from nnmagic.relay.structure.traverse import binders
from nnmagic.relay.types import FuncType, RefType, TupleType, Type, TypeCall, scalar_type


def bind_patterns(context: Context, match_: Match) -> bool:
    """Give the variables of all patterns their types; return False after an error."""
    data = context.type_of(match_.data)
    results = [_bind_pattern(context, match_, clause.lhs, data) for clause in match_.clauses]
    return all(results)


def _bind_pattern(context: Context, match_: Match, pattern: Pattern, data: Type) -> bool:
    good = True
    work = [(pattern, data, 0)]
    while work:
        subpattern, type_, depth = work.pop()
        if depth > MAX_NESTING:
            context.error(match_, TOO_DEEP)
            return False
        inner: tuple[Type, ...] | None = ()
        match subpattern:
            case PatternVar(var=var):
                declared = context.declare(var)
                agreed = context.agree(type_, declared, match_, f"the pattern %{var.name_hint}")
                context.types[var] = declared if agreed is None else agreed
                good = good and agreed is not None
            case PatternTuple(patterns=parts):
                inner = _tuple_parts(context, match_, subpattern, type_)
                work += _pair_parts(parts, inner, depth)
            case PatternConstructor(patterns=parts):
                inner = _constructor_parts(context, match_, subpattern, type_)
                work += _pair_parts(parts, inner, depth)
        good = good and inner is not None
    return good


def _pair_parts(
    patterns: tuple[Pattern, ...], types: tuple[Type, ...] | None, depth: int
) -> list[tuple[Pattern, Type, int]]:
    """Pair the parts of a pattern with their types, which are unknown after an error."""
    part_types = types if types is not None else (UNKNOWN,) * len(patterns)
    return [(pattern, type_, depth + 1) for pattern, type_ in zip(patterns, part_types, strict=True)]


def _tuple_parts(
    context: Context, match_: Match, pattern: PatternTuple, data: Type
) -> tuple[Type, ...] | None:
    expected = TupleType(tuple(Hole() for _ in pattern.patterns))
    agreed = context.agree(data, expected, match_, "a tuple pattern")
    return None if agreed is None else expected.fields


def _constructor_parts(
    context: Context, match_: Match, pattern: PatternConstructor, data: Type
) -> tuple[Type, ...] | None:
    declaration = context.constructor(pattern.constructor, match_)
    if declaration is None:
        return None
    declared, constructor = declaration
    if len(pattern.patterns) != len(constructor.inputs):
        wanted = f"{len(constructor.inputs)} part" + "s" * (len(constructor.inputs) != 1)
        context.error(match_, f"the pattern {constructor.name} takes {wanted}, found {len(pattern.patterns)}")
        return None
    holes = {var: Hole() for var in declared.type_vars}
    expected = TypeCall(declared.header, tuple(holes.values()))
    if context.agree(data, expected, match_, f"the pattern {constructor.name}") is None:
        return None
    return tuple(substitute(type_, holes) for type_ in constructor.inputs)


def check_exhaustive(context: Context, match_: Match) -> None:
    """Report the values that a complete match leaves out."""
    patterns = [clause.lhs for clause in match_.clauses]
    hint = "write an arm for each, or `match?`, which fails when it is run"
    try:
        cases = find_unmatched_cases(patterns, context.module.types)
    except TooManyCasesError:
        data = describe_type(context.type_of(match_.data))
        context.error(match_, f"too many combinations of patterns to see whether they handle all of {data}")
        return
    if cases:
        context.error(match_, f"this match does not handle {', '.join(cases)}", hint=hint)


class ExpressionInference:
    """The visit of the functions of one group, which enters the type of every node into the context."""

    def __init__(self, context: Context) -> None:
        self.context = context
        #: Every visited node, and every bound variable: by a let, or by a function or a pattern.
        self.nodes: list[ir.Expr] = []
        self.lets: dict[ir.Var, None] = {}
        self.params: dict[ir.Var, None] = {}
        self._good_patterns: set[ir.Match] = set()

    def run(self, root: ir.Expr) -> None:
        """Infer the types of a graph."""
        # What to do next: (0) enter a node, (1) bind its variables between its parts, (2) infer its type.
        work: list[tuple[int, ir.Expr]] = [(0, root)]
        entered: set[ir.Expr] = set()
        while work:
            stage, node = work.pop()
            try:
                if stage == 2:
                    self.context.types[node] = self._type(node)
                    self.nodes.append(node)
                elif stage == 1:
                    self._bind(node)
                elif node not in entered and (node not in self.context.types or isinstance(node, ir.Var)):
                    entered.add(node)
                    work.extend(self._enter(node))
            except NestingError:
                self.context.error(node, TOO_DEEP)
                self.context.types[node] = UNKNOWN
            if self.context.solver.ready:
                self.context.run_ready()

    def _enter(self, node: ir.Expr) -> list[tuple[int, ir.Expr]]:
        """Return the steps that a node takes, the last first."""
        (self.lets if isinstance(node, ir.Let) else self.params).update(dict.fromkeys(binders(node)))
        match node:
            case ir.OpRef():
                return []
            case ir.Let(var=var, value=value, body=body):
                self._declare_let(node)
                return [(2, node), (0, body), (1, node), (0, value)]
            case ir.Match(data=data, clauses=clauses):
                arms: list[tuple[int, ir.Expr]] = [(0, clause.rhs) for clause in reversed(clauses)]
                return [(2, node), *arms, (1, node), (0, data)]
            case ir.Function(params=params, body=body):
                for var in params:
                    self.context.declare(var)
                return [(2, node), (0, body)]
            case _:
                return [(2, node), *((0, child) for child in reversed(ir.children(node)))]

    def _declare_let(self, let: ir.Let) -> None:
        """Declare the type of a let's function before its body: it may call itself by that name."""
        if isinstance(let.value, ir.Function):
            declared = self.context.declare(let.var)
            if isinstance(declared, Hole):
                self.context.types[let.var] = self.context.signature(let.value)

    def _bind(self, node: ir.Expr) -> None:
        """Bind the variables of a let or a match before the rest of the node is visited."""
        match node:
            case ir.Let(var=var, value=value):
                type_, name = self.context.type_of(value), f"%{var.name_hint}"
                if var in self.context.types and not isinstance(value, ir.Function):
                    self.context.error(
                        node,
                        f"{name} is used before this let binds it",
                        hint="only a function may use its own name; take another name for the value",
                    )
                if var in self.context.types or var.type_annotation is not None:
                    declared = self.context.declare(var)
                    agreed = self.context.agree(
                        declared, type_, value if value.span else node, f"the value of {name}"
                    )
                    if agreed is None:
                        self.context.give_up(type_)
                    type_ = declared if agreed is None else agreed
                self.context.types[var] = type_
            case ir.Match():
                if bind_patterns(self.context, node):
                    self._good_patterns.add(node)

    def _type(self, node: ir.Expr) -> Type:
        context = self.context
        match node:
            case ir.Var():
                return context.declare(node)
            case ir.Constant():
                return node.tensor_type
            case ir.GlobalVar(name=name):
                return self._global(node, name)
            case ir.Constructor():
                return self._constructor(node)
            case ir.Call():
                return infer_call(context, node)
            case ir.Tuple(fields=fields):
                return TupleType(tuple(map(context.type_of, fields)))
            case ir.TupleGetItem():
                return self._projection(node)
            case ir.Let(body=body):
                return context.type_of(body)
            case ir.If():
                return self._if(node)
            case ir.Function():
                return self._function(node)
            case ir.Match():
                return self._match(node)
            case ir.RefCreate(value=value):
                return RefType(context.type_of(value))
            case ir.RefRead(ref=ref):
                return self._cell(node, ref, "ref_read")
            case ir.RefWrite(ref=ref, value=value):
                held = self._cell(node, ref, "ref_write")
                context.agree(held, context.type_of(value), node, "the value of ref_write")
                return TupleType(())
            case _:
                raise TypeError(f"not a Relay expression: {node!r}")

    def _global(self, node: ir.Expr, name: str) -> Type:
        signature = self.context.signatures.get(name)
        if signature is None:
            hint = close_name(name, self.context.module.functions)
            self.context.error(node, f"there is no function @{name}", hint=hint)
            return UNKNOWN
        return without_labels(signature)

    def _constructor(self, node: ir.Constructor) -> Type:
        declared = self.context.constructor(node, node)
        if declared is None:
            return UNKNOWN
        data, constructor = declared
        return FuncType(constructor.inputs, TypeCall(data.header, data.type_vars), data.type_vars)

    def _projection(self, node: ir.TupleGetItem) -> Type:
        """Return the type of field ``index``; a hole while the tuple's type is unknown."""
        type_ = self.context.type_of(node.tuple_value)
        if isinstance(type_, Hole):
            result, context = Hole(), self.context

            def retry() -> None:
                context.agree(result, self._projection(node), node, f"field {node.index} of a tuple")

            context.solver.wait(type_, retry)
            return result
        if type_ is UNKNOWN:
            return UNKNOWN
        if not isinstance(type_, TupleType):
            message = f"only a tuple has a field {node.index}, found {describe_type(type_)}"
            self.context.error(node, message, notes=note(node.tuple_value, type_))
            return UNKNOWN
        if not 0 <= node.index < len(type_.fields):
            self.context.error(
                node, f"there is no field {node.index} in {describe_type(type_)}: fields count from 0"
            )
            return UNKNOWN
        return type_.fields[node.index]

    def _if(self, node: ir.If) -> Type:
        context = self.context
        cond = node.cond if node.cond.span else node
        context.agree(scalar_type("bool"), context.type_of(node.cond), cond, "the condition of an if")
        then, other = context.type_of(node.true_branch), context.type_of(node.false_branch)
        notes = note(node.true_branch, then, "the first branch") + note(
            node.false_branch, other, "the second branch"
        )
        agreed = context.agree(then, other, node, "the second branch of an if", notes)
        return UNKNOWN if agreed is None else agreed

    def _match(self, node: ir.Match) -> Type:
        context = self.context
        if not node.clauses:
            context.error(node, "a match needs an arm")
            return UNKNOWN
        first, *rest = (clause.rhs for clause in node.clauses)
        result = context.type_of(first)
        for number, arm in enumerate(rest, start=2):
            type_ = context.type_of(arm)
            notes = note(first, context.type_of(first), "the first arm") + note(arm, type_, f"arm {number}")
            agreed = context.agree(result, type_, node, f"arm {number} of a match", notes)
            if agreed is None:
                return UNKNOWN
            result = agreed
        if node.complete and node in self._good_patterns:
            check_exhaustive(context, node)
        return result

    def _cell(self, node: ir.Expr, ref: ir.Expr, what: str) -> Type:
        """Return the type that a reference holds."""
        held, type_ = Hole(), self.context.type_of(ref)
        agreed = self.context.agree(RefType(held), type_, node, f"the reference of {what}", note(ref, type_))
        return held if agreed is not None else UNKNOWN

    def _function(self, node: ir.Function) -> Type:
        context = self.context
        params = tuple(context.type_of(param) for param in node.params)
        result, body_type = context.return_type(node), context.type_of(node.body)
        end = node.body
        while isinstance(end, ir.Let):
            end = end.body
        body = end if end.span else node
        agreed = context.agree(result, body_type, body, "the result of this function")
        if agreed is None:
            context.give_up(body_type)
        # A written result type holds for all callers, also where the body's dimensions are unknown.
        return FuncType(params, result, node.type_params)
