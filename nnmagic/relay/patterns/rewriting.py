"""Replace what patterns match, until nothing matches any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nnmagic.diagnostics import Diagnostic, RelayError, kind_of
from nnmagic.relay.expr import Call, Constructor, Expr, Function, GlobalVar, OpRef, Var
from nnmagic.relay.infer import ensure_types, infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.rewriting import map_functions
from nnmagic.relay.passes.scopes import opaque_functions
from nnmagic.relay.patterns.language import Pattern
from nnmagic.relay.patterns.matching import Match, match
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.structure.traverse import rewrite as rewrite_graph

#: Rounds after which rewriting has not settled.
MAX_ROUNDS = 100

#: Replacements after which it has not settled either: so many, or ten for each node of a larger program. A
#: rule whose replacement matches twice doubles the program in each round.
MAX_REPLACEMENTS = 1_000

#: Nodes that are never replaced: binders and callees must stay what they are.
_FIXED = (Var, OpRef, GlobalVar, Constructor)


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern and the function that gives what replaces a match; None leaves it as it is."""

    pattern: Pattern
    replacement: Callable[[Match], Expr | None]

    @property
    def name(self) -> str:
        """The name of the function."""
        return str(getattr(self.replacement, "__name__", "a rule"))


def rule(pattern: Pattern) -> Callable[[Callable[[Match], Expr | None]], Rule]:
    """Make a function the replacement of a rule: ``@rule(pattern)`` above ``def simplify(match): ...``."""
    return lambda replacement: Rule(pattern, replacement)


def rewrite(module: Module, *rules: Rule, max_rounds: int = MAX_ROUNDS) -> Module:
    """Return a typed module in which the rules have replaced what they match, until none applies.

    Operands are rewritten before what uses them; the first rule that applies to a node is taken. A
    replacement must have the type of what it replaces, and may use any node of the match. Functions marked
    ``Primitive`` or ``Compiler`` are left alone.

    Raises:
        RelayError: if rules still apply after ``max_rounds`` rounds or very many replacements, or the result
            is ill-typed.
        TypeError: if a rule gives something that is no expression.

    """
    _check_rules(rules)
    module = ensure_types(module)
    nodes = sum(1 for function in module.functions.values() for _ in post_order(function))
    budget = max(MAX_REPLACEMENTS, 10 * nodes)
    for number in range(max_rounds + 1):
        new, applied = _round(module, rules)
        if not applied:
            return module
        budget -= len(applied)
        if number == max_rounds or budget < 0:
            last = applied[-1]
            message = f"the rule {last.rule.name} still applies after {number} rounds"
            hint = "a replacement must not match the rules again"
            raise RelayError([Diagnostic(message, last.old.span, hint)])
        module = _with_types(new, applied)
    return module


def rewrite_pass(*rules: Rule, name: str | None = None) -> Callable[[Module], Module]:
    """Return the pass that rewrites a module by rules; its name is that of the first rule."""
    _check_rules(rules)

    def run(module: Module) -> Module:
        return rewrite(module, *rules)

    run.__name__ = name or (rules[0].name if rules else "rewrite")
    return run


def _check_rules(rules: Sequence[object]) -> None:
    for rule in rules:
        if not isinstance(rule, Rule):
            raise TypeError(f"a rule is a function under @rule(pattern), not {kind_of(rule)}")


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A node, what a rule replaced it by, and the rule."""

    rule: Rule
    old: Expr
    new: Expr


def _with_types(untyped: Module, applied: Sequence[_Replacement]) -> Module:
    """Return a rewritten module with types. Raises RelayError, which names the rules."""
    try:
        typed = infer_type(untyped, look_into_callees=True)
    except RelayError as error:
        names = ", ".join(dict.fromkeys(change.rule.name for change in applied))
        message = f"rewriting by {names} gave an ill-typed module"
        raise RelayError(
            [
                replace(diagnostic, message=f"{message}: {diagnostic.message}")
                for diagnostic in error.diagnostics
            ]
        ) from error
    _check_types(applied, untyped, typed)
    return typed


def _check_types(applied: Sequence[_Replacement], untyped: Module, typed: Module) -> None:
    """Raise RelayError for a replacement of another type than the node had."""
    replacements = {change.new: change for change in applied}
    for name, function in untyped.functions.items():
        for node, same in zip(post_order(function), post_order(typed.functions[name]), strict=True):
            rewritten = replacements.get(node)
            if rewritten is not None and str(same.checked_type) != str(rewritten.old.checked_type):
                types = f"{rewritten.old.checked_type} by {same.checked_type}"
                message = f"the rule {rewritten.rule.name} replaced an expression of type {types}"
                hint = "a replacement has the type of what it replaces; return None where it does not fit"
                raise RelayError([Diagnostic(message, rewritten.old.span, hint)])


def _round(module: Module, rules: Sequence[Rule]) -> tuple[Module, list[_Replacement]]:
    """Rewrite every node once; return also what was replaced."""
    applied: list[_Replacement] = []
    roots = set(module.functions.values())

    def transform(old: Expr, new: Expr) -> Expr:
        if isinstance(new, _FIXED) or old in roots:
            return new
        for rule in rules:
            matched = match(rule.pattern, new)
            replacement: object = None if matched is None else rule.replacement(matched)
            if replacement is None or replacement is new:
                continue
            if not isinstance(replacement, Expr):
                raise TypeError(f"the rule {rule.name} gave {kind_of(replacement)}, not an expression")
            placed = _with_span(replacement, old)
            applied.append(_Replacement(rule, old, placed))
            return placed
        return new

    memo: dict[Expr, Expr] = {}

    def change(function: Function) -> Function:
        memo.update({opaque: opaque for opaque in opaque_functions(function)})
        new = rewrite_graph(function, transform, memo)
        assert isinstance(new, Function)
        return new

    return map_functions(module, change), applied


def _with_span(new: Expr, old: Expr) -> Expr:
    """Return a new node with the span and type of the one that it replaces, if it has none."""
    if isinstance(new, Call) and (new.span is None or new.checked_type is None):
        return replace(new, span=new.span or old.span, checked_type=new.checked_type or old.checked_type)
    return new
