"""Import the nodes of graphs, one after the other: names, attributes, function bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.importers.onnx import schemas
from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.element_types import array_of
from nnmagic.importers.onnx.errors import OnnxError, Problems, UnsupportedError, describe_problem
from nnmagic.importers.onnx.external_data import Folder
from nnmagic.importers.onnx.function_bodies import standard_body
from nnmagic.importers.onnx.nodes import OnnxNode
from nnmagic.importers.onnx.registry import NEWEST, OPERATORS, UNREGISTERED
from nnmagic.importers.onnx.values import TensorSequence, Value, constant
from nnmagic.importers.origins import Listing, importing

if TYPE_CHECKING:
    from onnx import AttributeProto, FunctionProto, GraphProto, NodeProto, ValueInfoProto

#: How deep functions may call one another.
_MAX_CALLS = 60
#: The names that one domain has.
_ALIASES = {"ai.onnx": ""}
#: The domains whose operators onnx itself declares.
_STANDARD = frozenset(NEWEST) - {"com.microsoft"}

Shape = tuple["int | None", ...]

#: Operators whose output has the shape of their input, so that one tells the other.
KEEP_SHAPE = frozenset(
    (
        *("Abs", "Cast", "CastLike", "Ceil", "Exp", "Floor", "Identity", "Log", "Neg", "Not"),
        *("Reciprocal", "Relu", "Round", "Sigmoid", "Sign", "Sqrt", "Tanh"),
    )
)


@dataclass(frozen=True, slots=True)
class Refused:
    """The output of a node that could not be imported."""


#: What a name stands for; None for an optional tensor that is not given.
Known = Value | TensorSequence | Refused | None


@dataclass(slots=True)
class Scope:
    """The names of a graph.

    ``opsets``: the version of each domain. ``attributes``: those of a function's call. ``path``: the node
    that it belongs to, for messages. ``captured``: outer tensors that a loop's body uses are bound before it.
    """

    block: OnnxBlock
    opsets: Mapping[str, int]
    parent: Scope | None = None
    names: dict[str, Known] = field(default_factory=dict)
    declared: dict[str, Shape] = field(default_factory=dict)
    attributes: Mapping[str, AttributeProto] | None = None
    path: str = ""
    calls: int = 0
    binds_outer: bool = False

    def find(self, name: str) -> Known:
        """Return a tensor by name. Raises KeyError."""
        scope: Scope | None = self
        crossed: list[Scope] = []
        while scope is not None:
            if name in scope.names:
                value = scope.names[name]
                if isinstance(value, Value) and any(inner.binds_outer for inner in crossed):
                    value = scope.names[name] = scope.block.bind(value)
                return value
            crossed.append(scope)
            scope = scope.parent
        raise KeyError(name)


@dataclass(slots=True)
class GraphImporter:
    """The import of one model."""

    folder: Folder
    functions: Mapping[tuple[str, str, str], FunctionProto]
    listing: Listing | None = None
    problems: Problems[str] = field(default_factory=lambda: Problems(OnnxError, describe_problem))
    numbered: int = 0

    def array(self, tensor: Any) -> np.ndarray:
        """Return the elements of a tensor of the model."""
        return array_of(tensor, self.folder)

    def import_graph(self, graph: GraphProto, scope: Scope) -> list[Value | TensorSequence | Refused]:
        """Import a graph whose inputs are in the scope; return its outputs: of a model's graph, tensors."""
        for tensor in graph.initializer:
            self._define(scope, tensor.name, tensor)
        if graph.sparse_initializer:
            name = graph.sparse_initializer[0].values.name
            error = UnsupportedError("sparse initializers are not supported", "store the tensor densely")
            self.problems.add("sparse_initializer", repr(name), error)
            for sparse in graph.sparse_initializer:
                scope.names[sparse.values.name] = Refused()
        scope.declared.update(declared_shapes([*graph.value_info, *graph.output]))
        self.import_nodes(graph.node, scope)
        return [self._output(scope, info.name) for info in graph.output]

    def import_nodes(self, nodes: Sequence[NodeProto], scope: Scope) -> None:
        """Import nodes in their order, or, where that is not one of computation, in another."""
        for node in reversed(nodes):
            is_declared = len(node.output) > 0 and node.output[0] in scope.declared
            if node.op_type in KEEP_SHAPE and is_declared and node.input:
                scope.declared.setdefault(node.input[0], scope.declared[node.output[0]])
        for number, node in in_order(nodes, scope):
            self._import_node(node, number, scope)

    def _define(self, scope: Scope, name: str, tensor: object) -> None:
        try:
            scope.names[name] = constant(self.array(tensor))
        except (UnsupportedError, TypeError) as error:
            problem = error if isinstance(error, UnsupportedError) else UnsupportedError(str(error))
            self.problems.add("initializer", repr(name), problem)
            scope.names[name] = Refused()

    def _output(self, scope: Scope, name: str) -> Value | TensorSequence | Refused:
        try:
            value = scope.find(name)
        except KeyError:
            self.problems.add("graph", repr(name), UnsupportedError("nothing computes this output"))
            return Refused()
        if isinstance(value, Value) and value.bits is not None:
            error = UnsupportedError(f"a result of {value.bits} bits is not supported", "dequantize it")
            self.problems.add("graph", repr(name), error)
            return Refused()
        if value is None or (isinstance(value, TensorSequence) and scope.parent is None):
            what = "an optional output is missing" if value is None else "an output cannot be a sequence"
            self.problems.add("graph", repr(name), UnsupportedError(what, "return its tensors one by one"))
            return Refused()
        return value

    # -- nodes -----------------------------------------------------------------------------------------

    def _import_node(self, node: NodeProto, number: int, scope: Scope) -> None:
        where = repr(node.name) if node.name else f"number {number}"
        where = f"{where} {scope.path}".rstrip()
        outputs: Sequence[Known] = ()
        domain = _ALIASES.get(node.domain, node.domain)
        shown = f"{domain}.{node.op_type}" if domain else node.op_type
        span = self.listing.span(number) if self.listing is not None and scope.parent is None else None
        try:
            with importing(span):
                outputs = self._outputs_of(node, domain, scope, where)
        except UnsupportedError as error:
            self.problems.add(shown, where, error)
        for index, name in enumerate(node.output):
            if name:
                value = outputs[index] if index < len(outputs) else None
                if value is None and outputs:
                    reason = f"its output number {index} is not supported"
                    self.problems.add(shown, where, UnsupportedError(reason))
                scope.names[name] = Refused() if value is None else value

    def _outputs_of(self, node: NodeProto, domain: str, scope: Scope, where: str) -> Sequence[Known]:
        function = self.functions.get((domain, node.op_type, node.overload))
        if function is not None:
            values = [scope.find(name) if name else None for name in node.input]
            return self.call_function(function, values, _resolve(node, scope), scope, where, node.output)
        opset = _opset_of(domain, scope)
        declaration = OPERATORS.get((domain, node.op_type))
        schema = schemas.schema_of(domain, node.op_type, opset)
        if schema is None and domain in _STANDARD and node.op_type not in UNREGISTERED:
            raise schemas.unknown_operator(domain, node.op_type, schema, opset)
        attributes = _resolve(node, scope)
        inputs: list[Value | TensorSequence | None] = []
        for name in node.input:
            value = scope.find(name) if name else None
            if isinstance(value, Refused):
                if declaration is None and not schemas.has_body(schema):
                    raise schemas.unknown_operator(domain, node.op_type, schema, opset)
                return [Refused() for _ in node.output]
            inputs.append(value)
        if schema is not None:
            schemas.check_attributes(attributes, schema)
            schemas.check_dtypes(inputs, schema)
        if declaration is None:
            try:
                function = standard_body(schema, node, inputs, attributes, opset) if schema else None
            except ValueError as error:
                raise _misfit(inputs, error) from error
            if function is None:
                raise schemas.unknown_operator(domain, node.op_type, schema, opset)
            values = list(inputs)
            return self.call_function(function, values, attributes, scope, where, node.output, schema)
        schemas.check_counts(len(inputs), len(node.output), schema)
        context = OnnxNode(
            op_type=node.op_type,
            since=schema.since_version if schema is not None else opset,
            inputs=inputs,
            attributes=self._values_of(attributes, schema),
            output_count=len(node.output),
            declared=[scope.declared.get(name) for name in node.output],
            input_names=schemas.names_of_inputs(schema, len(inputs)),
            importer=self,
            scope=scope,
        )
        try:
            result = declaration.rule(context)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise _misfit(inputs, error) from error
        return [result] if isinstance(result, Value) else list(result)

    def _values_of(self, attributes: Mapping[str, AttributeProto], schema: Any) -> dict[str, object]:
        values = {name: self._attribute(proto) for name, proto in attributes.items()}
        for name, declared in (schema.attributes if schema is not None else {}).items():
            if name not in values and declared.default_value.name:
                values[name] = self._attribute(declared.default_value)
        return values

    def _attribute(self, attribute: AttributeProto) -> object:
        from onnx import AttributeProto as Attribute

        match attribute.type:
            case Attribute.FLOAT:
                return attribute.f
            case Attribute.INT:
                return attribute.i
            case Attribute.STRING:
                return attribute.s.decode("utf-8", "replace")
            case Attribute.TENSOR:
                return self.array(attribute.t)
            case Attribute.GRAPH:
                return attribute.g
            case Attribute.FLOATS:
                return list(attribute.floats)
            case Attribute.INTS:
                return list(attribute.ints)
            case Attribute.STRINGS:
                return [item.decode("utf-8", "replace") for item in attribute.strings]
            case Attribute.TENSORS:
                return [self.array(item) for item in attribute.tensors]
        kind = Attribute.AttributeType.Name(attribute.type).lower()
        raise UnsupportedError(f"the attribute {attribute.name!r} is a {kind}, which is not supported")

    # -- functions and subgraphs -----------------------------------------------------------------------

    def call_function(
        self,
        function: FunctionProto,
        given: Sequence[Known],
        attributes: Mapping[str, AttributeProto],
        scope: Scope,
        where: str,
        outputs: Sequence[str],
        schema: object = None,
    ) -> list[Known]:
        """Import the body of a function for a call."""
        if scope.calls > _MAX_CALLS:
            raise UnsupportedError("functions call one another too deeply, or without an end")
        opsets = {_ALIASES.get(item.domain, item.domain): item.version for item in function.opset_import}
        missing = set() if schema is not None else set(attributes) - schemas.attribute_names(function)
        if missing:
            raise UnsupportedError(f"the function has no attribute {sorted(missing)[0]!r}")
        values = {item.name: item for item in function.attribute_proto} | dict(attributes)
        if schema is not None:
            opsets = {**NEWEST, **scope.opsets, **opsets}
        inner = Scope(scope.block, opsets, attributes=values, path=f"in {where}", calls=scope.calls + 1)
        for index, name in enumerate(function.input):
            inner.names[name] = given[index] if index < len(given) else None
        inner.declared.update(declared_shapes(function.value_info))
        for name, outer in zip(function.output, outputs, strict=False):
            if outer in scope.declared:
                inner.declared[name] = scope.declared[outer]
        self.import_nodes(function.node, inner)
        return [inner.names.get(name) for name in function.output]

    def import_branch(self, graph: GraphProto, scope: Scope, *, binds_outer: bool = False) -> Scope:
        """Return the scope of a subgraph that sees the names around it; its nodes are not imported yet."""
        return Scope(
            OnnxBlock(),
            scope.opsets,
            scope,
            attributes=scope.attributes,
            path=f"in {graph.name!r} {scope.path}".rstrip(),
            calls=scope.calls,
            binds_outer=binds_outer,
        )

    def outputs_of_branch(self, graph: GraphProto, scope: Scope) -> list[Value | TensorSequence] | None:
        """Return the outputs of a subgraph; None if some of them could not be imported."""
        outputs = self.import_graph(graph, scope)
        values = [value for value in outputs if not isinstance(value, Refused)]
        return values if len(values) == len(outputs) else None


# -- the order of nodes --------------------------------------------------------------------------------


def in_order(nodes: Sequence[NodeProto], scope: Scope) -> Iterable[tuple[int, NodeProto]]:
    """Yield nodes with their numbers, each after those that it uses. Raises UnsupportedError for a cycle."""
    made_by: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.output:
            if name in made_by:
                raise UnsupportedError(f"two nodes compute {name!r}")
            if name:
                made_by[name] = number
    uses = [[made_by[name] for name in _used_names(node) if name in made_by] for node in nodes]
    if all(other < number for number, others in enumerate(uses) for other in others):
        order: Iterable[int] = range(len(nodes))
    else:
        order = _sort(nodes, uses)
    known = made_by.keys()
    for number in order:
        for name in nodes[number].input:
            if name and name not in known and not _is_defined(scope, name):
                raise UnsupportedError(f"nothing computes {name!r}, an input of node number {number}")
        yield number, nodes[number]


def _is_defined(scope: Scope, name: str) -> bool:
    try:
        scope.find(name)
    except KeyError:
        return False
    return True


def _used_names(node: NodeProto) -> list[str]:
    """Return the names that a node uses, its subgraphs, too."""
    names = [name for name in node.input if name]
    stack = [attribute for attribute in node.attribute if attribute.HasField("g")]
    while stack:
        graph = stack.pop().g
        for inner in graph.node:
            names += [name for name in inner.input if name]
            stack += [attribute for attribute in inner.attribute if attribute.HasField("g")]
        names += [output.name for output in graph.output]
    return names


def _sort(nodes: Sequence[NodeProto], uses: Sequence[Sequence[int]]) -> list[int]:
    from graphlib import CycleError, TopologicalSorter

    try:
        return list(TopologicalSorter(dict(enumerate(uses))).static_order())
    except CycleError as error:
        cycle = " -> ".join(nodes[number].name or f"number {number}" for number in error.args[1])
        raise UnsupportedError(f"the graph has a cycle: {cycle}") from None


# -- what a graph and a node say ----------------------------------------------------------------------


def declared_shapes(infos: Iterable[ValueInfoProto]) -> dict[str, Shape]:
    """Return the shapes that a model states, by name, with None for sizes without a number."""
    shapes: dict[str, Shape] = {}
    for info in infos:
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
            shapes[info.name] = tuple(
                dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
                for dim in info.type.tensor_type.shape.dim
            )
    return shapes


def _misfit(inputs: Sequence[Value | TensorSequence | None], error: Exception) -> UnsupportedError:
    """Return the error for a node whose inputs or attributes have other ranks or lengths than its operator.

    Rules take these as the standard states them, so that Python's own error says what is wrong.
    """
    shown = [str(value.type) if isinstance(value, Value) else "none or a sequence" for value in inputs]
    reason = f"its inputs, ({', '.join(shown)}), and attributes do not fit the operator"
    hint = "compare them with the standard's page of the operator; if they are right, please report it"
    return UnsupportedError(f"{reason}: {type(error).__name__}: {error}", hint)


def _opset_of(domain: str, scope: Scope) -> int:
    if domain not in scope.opsets:
        known = ", ".join(repr(name) for name in scope.opsets)
        raise UnsupportedError(f"the model imports no opset of the domain {domain!r}, only of {known}")
    return scope.opsets[domain]


def _resolve(node: NodeProto, scope: Scope) -> dict[str, AttributeProto]:
    """Return a node's attributes; those that refer to attributes of the function have their values."""
    attributes: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            attributes[attribute.name] = attribute
            continue
        if scope.attributes is None:
            message = (
                f"the attribute {attribute.name!r} refers to {attribute.ref_attr_name!r} outside a function"
            )
            raise UnsupportedError(message)
        if attribute.ref_attr_name in scope.attributes:
            from onnx import AttributeProto as Attribute

            copy = Attribute()
            copy.CopyFrom(scope.attributes[attribute.ref_attr_name])
            copy.name = attribute.name
            attributes[attribute.name] = copy
    return attributes
