"""Build the dataflow graph of a Relay module.

A node stands in the innermost region that holds all its uses, where Relay computes it.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nnmagic.relay import expr as ir
from nnmagic.relay.failures import Failure
from nnmagic.relay.module import Module
from nnmagic.relay.ops import OPERATORS
from nnmagic.relay.passes.scopes import PlacementScope, Scopes, is_opaque, scopes_of
from nnmagic.relay.structure.traverse import pattern_vars
from nnmagic.relay.text.literals import attr_text, scalar_text
from nnmagic.relay.text.printer import non_default_attrs
from nnmagic.relay.text.types import dim_text, type_text
from nnmagic.relay.types import TensorType, TupleType, Type
from nnmagic.rendering.drawing import graph_svg
from nnmagic.rendering.folding import fold
from nnmagic.rendering.graph_data import Edge, GraphNode, GraphRegion
from nnmagic.rendering.output import Output, Section
from nnmagic.rendering.sections import Picture, graph_section
from nnmagic.rendering.shape_values import shape_values
from nnmagic.rendering.text_graph import graph_text

#: With more nodes than this, the functions of a graph have pictures of their own.
_MANY_NODES = 80

#: With more parameters and constants than this, those that one operator alone takes, and not as its first
#: argument, are written inside of it: the weights of a network.
_MANY_INPUTS = 12


@dataclass(frozen=True, slots=True)
class Graph:
    """A region for each function. ``str`` draws it with lines of text, a notebook shows it as SVG."""

    regions: tuple[GraphRegion, ...]

    @property
    def svg(self) -> str:
        """The picture: an SVG document."""
        return graph_svg(self.regions)

    def __str__(self) -> str:
        return graph_text(self.regions)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002
        return Output((self.section("graph"),)).bundle()

    def section(self, title: str) -> Section:
        """Return the graph as a section: a large one as an overview, with parts that open."""
        return graph_section(title, str(self), _pictures(self.regions))


def _pictures(regions: Sequence[GraphRegion]) -> list[Picture]:
    """Return the pictures of a graph: one of all functions, or of each its own, large ones in parts."""
    folded = [fold(region) for region in regions]
    if not any(folded) and sum(len(region.nodes) for region in regions) <= _MANY_NODES:
        return [Picture("", graph_svg(regions))]
    pictures = []
    for number, (region, picture) in enumerate(zip(regions, folded, strict=True)):
        svg = graph_svg([region if picture is None else picture.overview])
        parts = [
            Picture(
                picture_part.title,
                graph_svg([picture_part.region]),
                graph_text([picture_part.region]).strip(),
            )
            for picture_part in (() if picture is None else picture.parts)
        ]
        title, text = (region.title, graph_text([region])) if number else ("", "")
        pictures.append(Picture(title, svg, text, tuple(parts)))
    return pictures


def graph_of(module: Module, entry: str | None = None) -> Graph:
    """Return the graph of a typed module, with the function ``entry`` first and the others sorted by name."""
    names = sorted(module.functions, key=lambda name: (name != entry, name))
    keys = itertools.count()
    return Graph(tuple(_Builder(f"@{name}", module.functions[name], keys).region() for name in names))


def short_type(type_: Type | None) -> str:
    """Return a type as an edge shows it: ``(2, 3) float32`` for a tensor."""
    match type_:
        case None:
            return ""
        case TensorType(shape=(), dtype=dtype):
            return dtype
        case TensorType(shape=(size,), dtype=dtype):
            return f"({dim_text(size)},) {dtype}"
        case TensorType(shape=shape, dtype=dtype):
            return f"({', '.join(map(dim_text, shape))}) {dtype}"
        case TupleType(fields=fields) if fields:
            return f"({', '.join(map(short_type, fields))}{',' if len(fields) == 1 else ''})"
    return type_text(type_)


@dataclass(slots=True, eq=False)
class _OpenGraphRegion:
    """A region while it is built.

    ``owner`` is the expression that holds it, which stands in ``parent``. values: the node of each value.
    entered: the values of the regions around that it uses.
    """

    title: str
    owner: ir.Expr | None = None
    nodes: dict[int, GraphNode] = field(default_factory=dict)
    edges: dict[Edge, None] = field(default_factory=dict)
    values: dict[ir.Expr, int] = field(default_factory=dict)
    entered: list[ir.Expr] = field(default_factory=list)

    def close(self) -> GraphRegion:
        return GraphRegion(self.title, tuple(self.nodes.values()), tuple(self.edges))


class _Builder:
    """Builds the region of one function."""

    def __init__(self, title: str, function: ir.Function, keys: Iterator[int]) -> None:
        self.function = function
        self.scopes: Scopes = scopes_of(function)
        self.order = tuple(dict.fromkeys(self.scopes.order))  # a let stands there twice
        self.keys = keys
        self.open: dict[PlacementScope, _OpenGraphRegion] = {self.scopes.outermost: _OpenGraphRegion(title)}
        self.lets = {node.var: node.value for node in self.order if isinstance(node, ir.Let)}
        self.names = {value: var.name_hint for var, value in self.lets.items()}
        self.uses, self.arguments = _uses(function, self.order)
        self.folded = {**self._fold_inputs(), **self._fold_shapes()}
        self._open_regions()

    def region(self) -> GraphRegion:
        for node in self.order:
            if (
                isinstance(node, ir.Let | ir.Var | ir.OpRef | ir.GlobalVar | ir.Constructor)
                or node in self.folded
            ):
                continue
            if not (isinstance(node, ir.Constant) and self._inline(node)):
                self._add(node, self.open[self.scopes.scope_of[node]])
        outermost = self.open[self.scopes.outermost]
        self._result(self.function.body, outermost)
        if left_out := sum(isinstance(node, ir.Call) for node in self.folded):
            outermost.title += f" (+ {left_out} values of shapes)"
        return outermost.close()

    def _open_regions(self) -> None:
        """Open every region, with nodes for the variables that it binds."""
        self._bind(self.function.params, self.open[self.scopes.outermost])
        for node in self.order:
            for scope, (title, bound) in zip(self.scopes.inner.get(node, ()), _regions(node), strict=True):
                self.open[scope] = _OpenGraphRegion(title, node)
                self._bind(bound, self.open[scope])

    def _bind(self, variables: Iterable[ir.Var], region: _OpenGraphRegion) -> None:
        for var in variables:
            if var not in self.folded:
                label, type_ = f"%{var.name_hint}", short_type(var.checked_type)
                region.values[var] = self._node(region, GraphNode(0, "parameter", label, type_))

    def _fold_inputs(self) -> Mapping[ir.Expr, str]:
        """Return the parameters and constants that are written inside the operators that take them."""
        constants = [node for node in self.order if isinstance(node, ir.Constant) and not self._inline(node)]
        inputs: list[ir.Expr] = [*self.function.params, *constants]
        if len(inputs) <= _MANY_INPUTS:
            return {}
        calls = [node for node in self.order if isinstance(node, ir.Call) and isinstance(node.op, ir.OpRef)]
        weights = {arg for call in calls for arg in call.args[1:]}
        return {
            node: f"%{node.name_hint} {short_type(node.checked_type)}"
            if isinstance(node, ir.Var)
            else short_type(node.checked_type)
            for node in inputs
            if self.uses[node] == 1 and node in weights
        }

    def _fold_shapes(self) -> Mapping[ir.Expr, str]:
        """Return the numbers of shapes that operators alone take, which write what these are."""
        shapes = shape_values(self.function)
        taken: Counter[ir.Expr] = Counter()
        for node in self.order:
            if isinstance(node, ir.Call) and isinstance(node.op, ir.OpRef):
                taken.update(node.args)
            elif isinstance(node, ir.Tuple) and node in shapes:
                taken.update(node.fields)
        return {node: text for node, text in shapes.items() if self.uses[node] == taken[node]}

    def _inline(self, node: ir.Constant) -> bool:
        """Return whether a constant is a number that calls alone take: they show it themselves."""
        return scalar_text(node) is not None and self.uses[node] == self.arguments[node]

    def _node(self, region: _OpenGraphRegion, node: GraphNode) -> int:
        key = next(self.keys)
        region.nodes[key] = replace(node, key=key)
        return key

    def _add(self, expr: ir.Expr, region: _OpenGraphRegion) -> None:
        """Add the node of an expression whose operands have nodes."""
        details: list[str] = []
        taken = [(self._source(part, region), role) for role, part in self._parts(expr, details)]
        held = [self.open[scope] for scope in self.scopes.inner.get(expr, ())]
        for inner, result in zip(held, _results(expr), strict=True):
            self._result(result, inner)
            entered = [value for value in inner.entered if value is not expr]  # a function that calls itself
            taken += [(self._source(value, region), "") for value in entered]
        node = _make_node(expr)
        if isinstance(expr, ir.Function) and expr in self.names:
            node = replace(node, label=f"fn %{self.names[expr]}")
        node = replace(
            node,
            type=short_type(expr.checked_type),
            details=tuple(details),
            regions=tuple(inner.close() for inner in held),
        )
        key = region.values[expr] = self._node(region, node)
        for source, role in taken:
            region.edges[Edge(source, key, role)] = None

    def _parts(self, expr: ir.Expr, details: list[str]) -> list[tuple[str, ir.Expr]]:
        """Return a node's operands with their roles; operands without a node go to the details."""
        match expr:
            case ir.Call(op=op, args=args):
                operator = OPERATORS.get(op.name) if isinstance(op, ir.OpRef) else None
                roles = operator.args if operator and len(operator.args) == len(args) else [""] * len(args)
                named = isinstance(op, ir.OpRef | ir.GlobalVar | ir.Constructor)
                operands: list[tuple[str, ir.Expr]] = [] if named else [("callee", op)]
                for role, arg in zip(roles, args, strict=True):
                    text = self.folded.get(arg)
                    if text is None and isinstance(arg, ir.Constant) and self._inline(arg):
                        text = scalar_text(arg)
                    if text is None:
                        operands.append((role, arg))
                    else:
                        details.append(f"{role}: {text}" if role else text)
                details += [
                    f"{name}={attr_text(value, str)}"
                    for name, value in non_default_attrs(expr).items()
                    if not isinstance(value, ir.Expr)  # which is an operand, too
                ]
                return operands
            case ir.If(cond=cond):
                return [("condition", cond)]
            case ir.Match(data=data):
                return [("", data)]
            case ir.Function():
                return []
        return [("", child) for child in ir.children(expr)]

    def _result(self, result: ir.Expr, region: _OpenGraphRegion) -> None:
        source = self._source(result, region)
        region.edges[Edge(source, self._node(region, GraphNode(0, "result", "result")))] = None

    def _source(self, expr: ir.Expr, region: _OpenGraphRegion) -> int:
        """Return the node of a value in a region; a value from outside enters through a new node."""
        while isinstance(expr, ir.Let) or (expr in self.lets and expr not in region.values):
            expr = expr.body if isinstance(expr, ir.Let) else self.lets[expr]
        if expr not in region.values:
            name = self.names.get(expr)
            node = _make_node(expr) if name is None else GraphNode(0, "outer", f"%{name}")
            if not isinstance(expr, ir.GlobalVar | ir.OpRef | ir.Constructor):
                node = replace(node, kind="outer", family="", summary="")
                region.entered.append(expr)
            type_ = short_type(expr.checked_type)
            region.values[expr] = self._node(region, replace(node, type=type_))
        return region.values[expr]


def _make_node(expr: ir.Expr) -> GraphNode:
    """Return the node of an expression, without type, details and regions."""
    match expr:
        case ir.Call(op=ir.OpRef(name=name)) if name in OPERATORS:
            operator = OPERATORS[name]
            return GraphNode(0, "operator", name, family=operator.family, summary=operator.summary)
        case ir.Call(op=ir.OpRef(name=name)):
            return GraphNode(0, "operator", name)
        case ir.Call(op=ir.GlobalVar(name=name)):
            return GraphNode(0, "call", f"@{name}")
        case ir.Call(op=ir.Constructor(name=name)):
            return GraphNode(0, "constructor", name)
        case ir.Call(op=ir.Var(name_hint=name)):
            return GraphNode(0, "call", f"%{name}")
        case ir.Call():
            return GraphNode(0, "call", "call")
        case ir.Constant():
            return GraphNode(0, "constant", scalar_text(expr) or "constant")
        case ir.Var(name_hint=name):
            return GraphNode(0, "outer", f"%{name}")
        case ir.GlobalVar(name=name):
            return GraphNode(0, "function", f"@{name}")
        case ir.OpRef(name=name) | ir.Constructor(name=name):
            return GraphNode(0, "function", name)
        case ir.Tuple():
            return GraphNode(0, "tuple", "tuple")
        case ir.TupleGetItem(index=index):
            return GraphNode(0, "item", f".{index}")
        case ir.If():
            return GraphNode(0, "if", "if")
        case ir.Match(assertion=Failure() as failure):
            word = "assert" if failure.kind == "AssertionError" else "raise"
            return GraphNode(0, "match", word, summary=failure.message)
        case ir.Match():
            return GraphNode(0, "match", "match")
        case ir.Function():
            return GraphNode(0, "closure", "fn")
        case ir.RefCreate():
            return GraphNode(0, "reference", "ref")
        case ir.RefRead():
            return GraphNode(0, "reference", "ref_read")
        case ir.RefWrite():
            return GraphNode(0, "reference", "ref_write")
    raise TypeError(f"not an expression with a value: {expr!r}")


def _regions(expr: ir.Expr) -> list[tuple[str, tuple[ir.Var, ...]]]:
    """Return the regions that a node holds: the title of each, and the variables that it binds."""
    match expr:
        case ir.If():
            return [("then", ()), ("else", ())]
        case ir.Match(clauses=clauses):
            return [(_pattern_text(clause.lhs), tuple(pattern_vars(clause.lhs))) for clause in clauses]
        case ir.Function(params=params):
            return [("", params)]
    return []


def _results(expr: ir.Expr) -> list[ir.Expr]:
    """Return the results of the regions of a node."""
    match expr:
        case ir.If(true_branch=then, false_branch=other):
            return [then, other]
        case ir.Match(clauses=clauses):
            return [clause.rhs for clause in clauses]
        case ir.Function(body=body) if not is_opaque(expr):
            return [body]
    return []


def _pattern_text(pattern: ir.Pattern) -> str:
    match pattern:
        case ir.PatternWildcard():
            return "_"
        case ir.PatternVar(var=var):
            return f"%{var.name_hint}"
        case ir.PatternTuple(patterns=parts):
            return f"({', '.join(map(_pattern_text, parts))})"
        case ir.PatternConstructor(constructor=constructor, patterns=parts):
            return (
                f"{constructor.name}({', '.join(map(_pattern_text, parts))})" if parts else constructor.name
            )


def _uses(function: ir.Function, order: Iterable[ir.Expr]) -> tuple[Counter[ir.Expr], Counter[ir.Expr]]:
    """Count the uses of each expression, and its uses as an argument of a call."""
    uses: Counter[ir.Expr] = Counter([function.body])
    arguments: Counter[ir.Expr] = Counter()
    for node in order:
        uses.update(ir.children(node))
        if isinstance(node, ir.Call):
            arguments.update(node.args)
    return uses, arguments
