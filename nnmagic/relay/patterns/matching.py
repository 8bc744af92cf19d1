"""Match patterns by backtracking over an explicit stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nnmagic.relay.expr import Expr, OpRef, children
from nnmagic.relay.module import Module
from nnmagic.relay.passes.scopes import is_opaque, opaque_functions
from nnmagic.relay.patterns.language import Goals, Pattern
from nnmagic.relay.structure.traverse import post_order

#: What is left to match: the first pair, and the rest.
_Stack = tuple[tuple[Pattern, Expr], "_Stack"] | None


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """What a pattern matched. ``match[part]`` is the node that a part of the pattern stands for.

    Attributes:
        expr: the node that the whole pattern matched.
        nodes: what each part matched; a part in a branch of ``|`` that was not taken has none.

    """

    expr: Expr
    nodes: Mapping[Pattern, Expr] = field(repr=False)

    def __getitem__(self, pattern: Pattern) -> Expr:
        """Return the node that a part of the pattern matched. Raises KeyError if it matched none."""
        if pattern not in self.nodes:
            raise KeyError(f"this part of the pattern matched nothing here: {pattern!r}")
        return self.nodes[pattern]

    def __contains__(self, part: object) -> bool:
        return part in self.nodes

    def get(self, part: Pattern) -> Expr | None:
        """Return the node that a part of the pattern matched, or None."""
        return self.nodes.get(part)

    @property
    def covered(self) -> frozenset[Expr]:
        """The nodes that the pattern describes, without those that stand for a wildcard or a variable."""
        covered = {node for pattern, node in self.nodes.items() if pattern.is_structure}
        for pattern, node in self.nodes.items():
            if pattern.dominator is not None:
                covered |= _between(node, self.nodes[pattern.dominator])
        return frozenset(covered)


def match(pattern: Pattern, expr: Expr) -> Match | None:
    """Return how a pattern matches an expression, or None."""
    nodes: dict[Pattern, Expr] = {}
    bound: list[Pattern] = []
    goals: _Stack = ((pattern, expr), None)
    choices: list[tuple[_Stack, int]] = []
    while goals is not None:
        (wanted, node), goals = goals
        ways: Sequence[Goals]
        if wanted in nodes:
            ways = [()] if nodes[wanted] is node else []
        else:
            nodes[wanted] = node
            bound.append(wanted)
            ways = wanted.ways(node)
        if ways:
            choices.extend((_with(way, goals), len(bound)) for way in reversed(ways[1:]))
            goals = _with(ways[0], goals)
            continue
        if not choices:
            return None
        goals, count = choices.pop()
        while len(bound) > count:
            del nodes[bound.pop()]
    return Match(expr, nodes)


def find(pattern: Pattern, program: Module | Expr) -> Iterator[Match]:
    """Yield every match in a module or an expression, operands before what uses them."""
    if isinstance(program, Module):
        roots = [function for function in program.functions.values() if not is_opaque(function)]
    else:
        roots = [program]  # type: ignore[list-item]  # any expression
    seen: set[Expr] = set()
    for root in roots:
        seen |= opaque_functions(root)
        for node in post_order(root, skip=seen):
            seen.add(node)
            matched = match(pattern, node)
            if matched is not None:
                yield matched


def _with(way: Goals, goals: _Stack) -> _Stack:
    for goal in reversed(way):
        goals = (goal, goals)
    return goals


def dominators(parent: Pattern, path: Pattern, child: Expr) -> list[Expr]:
    """Return the nodes that match ``parent`` and on which ``child`` depends through ``path`` alone."""
    candidates: dict[Expr, None] = {}
    work = list(reversed(children(child)))
    while work:
        node = work.pop()
        if node not in candidates and not isinstance(node, OpRef):
            candidates[node] = None
            if match(path, node) is not None:
                work.extend(reversed(children(node)))
    nodes = []
    for node in candidates:
        if match(parent, node) is not None:
            inner = _between(child, node)
            if all(match(path, each) is not None for each in inner):
                nodes.append(node)
    return nodes


def _between(child: Expr, parent: Expr) -> set[Expr]:
    """Return the nodes that ``child`` depends on and that depend on ``parent``, without these two."""
    dependent = {parent}
    for node in post_order(child):
        if any(part in dependent for part in children(node)):
            dependent.add(node)
    return dependent - {child, parent}
