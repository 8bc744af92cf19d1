"""Replace what patterns match, until nothing matches any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from nnmagic.diagnostics import Diagnostic, RelayError, kind_of
from nnmagic.relay.expr import Call, Constructor, Expr, Function, GlobalVar, OpRef, Var
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.scopes import is_opaque
from nnmagic.relay.patterns.language import Pattern
from nnmagic.relay.patterns.matching import Match, match
from nnmagic.relay.traverse import rewrite as rewrite_graph

#: Rounds after which rewriting has not settled.
MAX_ROUNDS = 100

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
        RelayError: if rules still apply after ``max_rounds`` rounds, or the result is ill-typed.
        TypeError: if a rule gives something that is no expression.

    """
    for each in rules:
        if not isinstance(each, Rule):
            raise TypeError(
                f"rewrite takes rules, as rule(pattern)(function) makes them, not {kind_of(each)}"
            )
    if any(function.checked_type is None for function in module.functions.values()):
        module = infer_type(module, look_into_callees=True)
    for _ in range(max_rounds):
        new, applied = _round(module, rules)
        if applied is None:
            return module
        module = infer_type(new, look_into_callees=True)
    new, applied = _round(module, rules)
    if applied is None:
        return module
    name, span = applied
    message = f"the rule {name} still applies after {max_rounds} rounds"
    raise RelayError([Diagnostic(message, span, "a replacement must not match the rules again")])  # type: ignore[arg-type]  # a Span


def rewrite_pass(*rules: Rule, name: str | None = None) -> Callable[[Module], Module]:
    """Return the pass that rewrites a module by rules; its name is that of the first rule."""

    def run(module: Module) -> Module:
        return rewrite(module, *rules)

    run.__name__ = name or (rules[0].name if rules else "rewrite")
    return run


def _round(module: Module, rules: tuple[Rule, ...]) -> tuple[Module, tuple[str, object] | None]:
    """Rewrite every node once; return the last rule that applied and where."""
    applied: tuple[str, object] | None = None
    roots = set(module.functions.values())

    def transform(old: Expr, new: Expr) -> Expr:
        nonlocal applied
        if isinstance(new, _FIXED) or old in roots:
            return new
        for each in rules:
            found = match(each.pattern, new)
            replacement: object = None if found is None else each.replacement(found)
            if replacement is None or replacement is new:
                continue
            if not isinstance(replacement, Expr):
                raise TypeError(f"the rule {each.name} gave {kind_of(replacement)}, not an expression")
            applied = (each.name, old.span)
            return _placed(replacement, old)
        return new

    memo: dict[Expr, Expr] = {}
    functions = {}
    for name, function in module.functions.items():
        new = function if is_opaque(function) else rewrite_graph(function, transform, memo)
        assert isinstance(new, Function)
        functions[name] = new
    return (module if applied is None else replace(module, functions=functions)), applied


def _placed(new: Expr, old: Expr) -> Expr:
    """Return a new node with the span and type of the one that it replaces, if it has none."""
    if isinstance(new, Call) and (new.span is None or new.checked_type is None):
        return replace(new, span=new.span or old.span, checked_type=new.checked_type or old.checked_type)
    return new
