"""Define the nodes, edges and regions of a dataflow graph.

A region is a function's body, a branch of an ``if`` or an arm of a ``match``; a node that holds regions is
drawn as a box around them. Every edge stays inside one region: a value of an outer region enters through a
node of its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the graph.

    key: its number, in the order of computation. kind: ``"operator"``, ``"call"``, ``"constructor"``,
    ``"parameter"``, ``"constant"``, ``"function"`` (a function as a value), ``"tuple"``, ``"item"``,
    ``"reference"``, ``"if"``, ``"match"``, ``"closure"``, ``"outer"`` (a value of a region around), or
    ``"result"``. type: of its value, as text. family: of an operator. details: attributes, and arguments that
    have no node. summary: what an operator does. regions: what it holds.
    """

    key: int
    kind: str
    label: str
    type: str = ""
    family: str = ""
    details: tuple[str, ...] = ()
    summary: str = ""
    regions: tuple[GraphRegion, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """From the node that computes a value to one that uses it; ``role``: what for."""

    source: int
    target: int
    role: str = ""


@dataclass(frozen=True, slots=True)
class GraphRegion:
    """Nodes, each after what it uses, and the edges between them."""

    title: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
