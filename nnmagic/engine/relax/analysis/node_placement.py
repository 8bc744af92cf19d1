"""Which part of a function's control flow computes each node of its graph. Knows the IR only.

Relay's graphs leave open where a node that several places share is computed. It is computed once, in the
innermost region that holds all its uses: the body of the function, or one branch of an ``if``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from nnmagic.relay.expr import Expr, If, Let, Var, children
from nnmagic.relay.traverse import post_order


@dataclass(eq=False, slots=True)
class Region:
    """A stretch of code without branches: its nodes, each after what it needs, and what it yields."""

    result: Expr
    parent: Region | None = None
    depth: int = 0
    nodes: list[Expr] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of a function: the outermost, the two branches of each ``if``; and what ``let`` binds."""

    body: Region
    branches: dict[If, tuple[Region, Region]]
    bound: dict[Var, Expr]


def regions_of(body: Expr) -> Regions:
    """Places every node of a function's body; linear in the graph, but for how deep its branches nest."""
    outermost = Region(body)
    order = list(post_order(body))
    regions = Regions(outermost, {}, {node.var: node.value for node in order if isinstance(node, Let)})
    placed: dict[Expr, Region] = {body: outermost}
    for node in reversed(order):  # users before what they use, so a node's place is final when it is reached
        for part, user in _uses(node, placed[node], regions):
            known = placed.get(part)
            placed[part] = user if known is None else _common(known, user)
    for node in order:
        placed[node].nodes.append(node)
    return regions


def _uses(node: Expr, region: Region, regions: Regions) -> Iterator[tuple[Expr, Region]]:
    """The parts of a node, each with the region that uses it."""
    if isinstance(node, If):
        yield node.cond, region
        pair = tuple(Region(part, region, region.depth + 1) for part in (node.true_branch, node.false_branch))
        regions.branches[node] = (pair[0], pair[1])
        yield from ((branch.result, branch) for branch in pair)
    else:
        yield from ((part, region) for part in children(node))


def _common(left: Region, right: Region) -> Region:
    """The innermost region that holds both."""
    while left is not right:
        if left.depth >= right.depth and left.parent is not None:
            left = left.parent
        elif right.parent is not None:
            right = right.parent
    return left
