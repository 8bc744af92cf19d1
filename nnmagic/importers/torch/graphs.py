"""Import the nodes of an FX graph of ATen operators, one after the other."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.blocks import OnnxBlock
from nnmagic.importers.onnx.errors import Problems, UnsupportedError
from nnmagic.importers.onnx.values import Value, constant, of_type, op, with_shape
from nnmagic.importers.origins import Listing, importing
from nnmagic.importers.torch.calls import AtenCall
from nnmagic.importers.torch.errors import place_of, torch_problems
from nnmagic.importers.torch.mathematics import convert
from nnmagic.importers.torch.registry import OPERATORS, AtenRule
from nnmagic.importers.torch.tensors import array_of, dim_of, dtype_of
from nnmagic.relay import polynomials
from nnmagic.relay.ops.dims import as_polynomial, dim_names, same_dim
from nnmagic.relay.polynomials import evaluate
from nnmagic.relay.types import ANY, Dim, TensorType

if TYPE_CHECKING:
    from torch.fx import GraphModule
    from torch.fx import Node as FxNode

#: What compute nothing: they state what tracing has found out.
_STATEMENTS = frozenset(
    (
        *("aten._assert_tensor_metadata", "aten.sym_constrain_range", "aten.sym_constrain_range_for_size"),
        *("aten._assert_async", "aten._functional_assert_async", "aten._print"),
    )
)
_NO_DECLARATION = "it has no declaration"


@dataclass(frozen=True, slots=True)
class RefusedResult:
    """The result of a node that could not be imported."""


class BodyFailedError(UnsupportedError):
    """A subgraph has problems, which are reported."""


@dataclass(slots=True)
class TorchGraphImporter:
    """The import of one program.

    ``labels``: the names of dimensions by torch's symbols. ``symbols``: their values by name.
    """

    problems: Problems[str] = field(default_factory=torch_problems)
    labels: dict[str, str] = field(default_factory=dict)
    symbols: dict[str, Value] = field(default_factory=dict)
    listing: Listing | None = None
    depth: int = 0

    # -- sizes -----------------------------------------------------------------------------------------

    def shape_of(self, tensor: Any) -> tuple[Dim, ...]:
        """Return the shape of a traced tensor."""
        return tuple(dim_of(size, self.labels) for size in tensor.shape)

    def define_sizes(self, value: Value) -> None:
        """Have the names of a tensor's dimensions stand for its sizes, or parts of them."""
        for axis, dim in enumerate(value.shape):
            polynomial = as_polynomial(dim) if not isinstance(dim, int) else None
            if polynomial is None:
                continue
            unknown = dim_names(dim) - set(self.symbols)
            if len(unknown) != 1 or len(dim_names(dim)) != 1:
                continue
            (name,) = unknown
            factor = int(evaluate(polynomial, {name: 1}))
            if polynomial == polynomials.constant(factor) * polynomials.polynomial(name):
                size = shapes.size_along(value, axis)
                whole = size if factor == 1 else op("floor_divide", size, size.like(factor))
                self.symbols[name] = whole

    def size(self, dim: Dim) -> Value:
        """Return a dimension as an int64 of rank 0. Raises UnsupportedError."""
        if isinstance(dim, int):
            return constant(int(dim), "int64")
        polynomial = as_polynomial(dim)
        if polynomial is None or not dim_names(dim) <= set(self.symbols):
            raise UnsupportedError("a size is known only when the function is called")
        value: Value = evaluate(polynomial, self.symbols, lambda number: constant(int(number), "int64"))
        return of_type(value.expr, value.type, (dim,))

    def vector(self, shape: Sequence[Dim]) -> Value:
        """Return a shape as an int64 vector."""
        sizes = [op("expand_dims", self.size(dim), axis=0) for dim in shape]
        joined = op("concatenate", sizes, axis=0) if sizes else constant(np.zeros(0, "int64"))
        return of_type(joined.expr, joined.type, tuple(shape))

    # -- graphs ----------------------------------------------------------------------------------------

    def run(self, module: GraphModule, inputs: Sequence[Any], block: OnnxBlock) -> list[Any]:
        """Import a graph for inputs into a block; return its outputs. What fails is reported."""
        environment: dict[FxNode, Any] = {}
        given = iter(inputs)
        outputs: list[Any] = []
        self.depth += 1
        for node in module.graph.nodes:
            if node.op == "placeholder":
                environment[node] = next(given)
            elif node.op == "get_attr":
                environment[node] = self._attribute(module, node)
            elif node.op == "call_function":
                with importing(self.listing.span(node) if self.listing is not None else None):
                    environment[node] = self._call_node(node, environment, block)
            elif node.op == "output":
                results = node.args[0]
                results = results if isinstance(results, list | tuple) else [results]
                outputs = [self._output(item, environment) for item in results]
            else:
                what = f"{node.op} of {node.target}"
                self.problems.add(what, place_of(node), UnsupportedError("the graph is not one of ATen"))
                environment[node] = RefusedResult()
        self.depth -= 1
        return outputs

    def run_body(self, module: GraphModule, inputs: Sequence[Any], block: OnnxBlock) -> list[Value]:
        """Import the graph of a branch or loop. Raises UnsupportedError, where problems are reported."""
        outputs = self.run(module, inputs, block)
        if any(isinstance(output, RefusedResult) for output in outputs):
            raise BodyFailedError("its graph cannot be imported")
        return [output if isinstance(output, Value) else constant(np.asarray(output)) for output in outputs]

    def _attribute(self, module: GraphModule, node: FxNode) -> Any:
        import torch

        attribute: Any = module
        for name in str(node.target).split("."):
            attribute = getattr(attribute, name)
        if not isinstance(attribute, torch.Tensor):
            return attribute
        return self.constant(attribute, place_of(node))

    def constant(self, tensor: Any, place: str) -> Value | RefusedResult:
        """Return a parameter, buffer or constant of the module as a constant; its numbers are copied."""
        try:
            dtype_of(tensor.dtype)
            array = np.array(array_of(tensor), order="C")
        except (UnsupportedError, TypeError) as error:
            problem = error if isinstance(error, UnsupportedError) else UnsupportedError(str(error))
            self.problems.add("constant", place, problem)
            return RefusedResult()
        array.flags.writeable = False  # nobody else has it: Relay need not copy it again
        return constant(array)

    # -- nodes -----------------------------------------------------------------------------------------

    def _value(self, argument: Any, environment: Mapping[FxNode, Any]) -> Any:
        """Return an argument with the values of the nodes in it."""
        from torch.fx import Node

        if isinstance(argument, Node):
            return environment[argument]
        if isinstance(argument, list | tuple):
            return [self._value(item, environment) for item in argument]
        return argument

    def _output(self, argument: Any, environment: Mapping[FxNode, Any]) -> Any:
        """Return an output of the graph; a tensor that its operator's rule left out is a problem."""
        value = self._value(argument, environment)
        if value is None and hasattr(getattr(argument, "meta", {}).get("val"), "dtype"):
            problem = UnsupportedError("this result is not supported", "capture the program without it")
            self.problems.add(f"the output {argument.name!r}", place_of(argument), problem)
            return RefusedResult()
        return value

    def _call_node(self, node: FxNode, environment: Mapping[FxNode, Any], block: OnnxBlock) -> Any:
        target = cast("Callable[..., Any]", node.target)
        args = [self._value(argument, environment) for argument in node.args]
        kwargs = {name: self._value(argument, environment) for name, argument in node.kwargs.items()}
        if target is python_operator.getitem:
            return args[0] if isinstance(args[0], RefusedResult) else args[0][args[1]]
        name = name_of(target)
        results = _results_of(node)
        if name in _STATEMENTS:
            return None
        refused = _has_refused([*args, *kwargs.values()])
        try:
            if results and all(_is_size(result) for result in results):
                return self._symbolic(name, results[0], args)
            declaration = _declaration(name)
            if refused:
                return _refused_like(node)
            return self._apply(node, declaration, args, kwargs, results, block)
        except BodyFailedError:
            return _refused_like(node)
        except UnsupportedError as error:
            if not refused or error.reason == _NO_DECLARATION:
                shown = name if "." not in name or not hasattr(target, "_schema") else str(target)
                self.problems.add(shown, place_of(node), error)
            return _refused_like(node)

    def _apply(
        self,
        node: FxNode,
        declaration: AtenRule,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        results: Sequence[Any],
        block: OnnxBlock,
    ) -> Any:
        for result in results:
            if hasattr(result, "dtype"):
                dtype_of(result.dtype)
        arguments, originals = _bind(node, args, kwargs)
        overload = str(getattr(node.target, "_overloadname", ""))
        call = AtenCall(declaration.name, overload, arguments, results, originals, self, block)
        made = declaration.rule(call)
        if isinstance(made, Value) and not isinstance(node.meta.get("val"), list | tuple):
            return self._finish(made, results[0] if results else None, block)
        values = [made] if isinstance(made, Value) else list(made)
        values += [None] * (len(results) - len(values))
        return [
            value if value is None else self._finish(value, result, block)
            for value, result in zip(values, results, strict=True)
        ]

    def _finish(self, value: Value, result: Any, block: OnnxBlock) -> Value:
        """Return a result in the dtype that torch gives it, with the sizes that torch knows."""
        if result is None or not hasattr(result, "dtype"):
            return value
        dtype, shape = dtype_of(result.dtype), self.shape_of(result)
        value = convert(value, dtype)
        if len(shape) != value.rank:
            raise UnsupportedError(f"internal error: its result has rank {value.rank}, torch's {len(shape)}")
        merged: list[Dim] = []
        for own, traced_dim in zip(value.shape, shape, strict=True):
            if same_dim(own, traced_dim) is False:
                raise UnsupportedError(
                    f"internal error: a size of its result is {own}, torch's is {traced_dim}"
                )
            merged.append(own if traced_dim == ANY else traced_dim)
        if tuple(merged) != value.shape:
            value = with_shape(value, merged)
        open_names = set().union(*(dim_names(dim) for dim in merged)) - set(self.symbols)
        if open_names:
            value = block.bind(value)
            self.define_sizes(value)
        return value

    def _symbolic(self, name: str, result: Any, args: Sequence[Any]) -> Any:
        """Import arithmetic on sizes: the result's expression says what it is."""
        import torch

        if isinstance(result, torch.SymInt):
            dim = dim_of(result, self.labels)
            if not isinstance(dim, int) and dim != ANY and dim_names(dim) <= set(self.symbols):
                return self.size(dim)
            if isinstance(dim, int):
                return int(dim)
            if name == "aten.sym_size" and isinstance(args[0], Value):
                return shapes.size_along(args[0], args[1])
            if name == "aten._local_scalar_dense":
                value = convert(shapes.scalar(args[0]), "int64")
                (label,) = dim_names(dim) or {f"item_{len(self.symbols)}"}
                self.symbols[label] = value
                return of_type(value.expr, value.type, (dim,))
        elif isinstance(result, int | float | bool):
            return result
        declaration = OPERATORS.get(f"symbolic.{name.rpartition('.')[2]}")
        if declaration is None:
            raise UnsupportedError("this computation on sizes is not supported")
        if _has_refused(args):
            return RefusedResult()
        call = AtenCall(name, "", {"args": args}, [result], {}, self, OnnxBlock())
        return declaration.rule(call)


def _is_size(result: Any) -> bool:
    import torch

    return isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool | int | float | bool)


def name_of(target: Any) -> str:
    """Return the name of an operator without its overload, as the table of declarations has it."""
    packet = getattr(target, "overloadpacket", None)
    if packet is not None:
        return str(packet)
    if getattr(target, "namespace", "") == "higher_order" or hasattr(target, "_higher_order"):
        return f"higher_order.{target.name()}"
    module = getattr(target, "__module__", "") or ""
    plain = str(getattr(target, "__name__", target))
    if "higher_order" in module:
        return f"higher_order.{plain}"
    return f"symbolic.{plain}"


def _declaration(name: str) -> AtenRule:
    """Return the declaration of an operator. Raises UnsupportedError."""
    declaration = OPERATORS.get(name)
    if declaration is None:
        raise UnsupportedError(_NO_DECLARATION, _help_for(name))
    return declaration


def _help_for(name: str) -> str:
    if name.startswith("higher_order."):
        return "capture the program without it"
    if name.startswith("aten."):
        return "write it with operators that docs/models.md lists"
    return "an operator of one's own needs a decomposition: pass an ExportedProgram after run_decompositions"


def _results_of(node: FxNode) -> list[Any]:
    value = node.meta.get("val")
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _has_refused(arguments: Any) -> bool:
    if isinstance(arguments, list | tuple):
        return any(_has_refused(item) for item in arguments)
    return isinstance(arguments, RefusedResult)


def _refused_like(node: FxNode) -> Any:
    value = node.meta.get("val")
    return [RefusedResult() for _ in value] if isinstance(value, list | tuple) else RefusedResult()


def _bind(
    node: FxNode, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments by name, with the defaults of the schema; and those that torch traced."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return {"args": args, **kwargs}, {"args": node.args, **node.kwargs}
    arguments, originals = {}, {}
    for position, declared in enumerate(schema.arguments):
        name = declared.name
        if position < len(args):
            arguments[name], originals[name] = args[position], _trace(node.args[position])
        elif name in kwargs:
            arguments[name], originals[name] = kwargs[name], _trace(node.kwargs[name])
        else:
            arguments[name] = originals[name] = declared.default_value
    return arguments, originals


def _trace(argument: Any) -> Any:
    from torch.fx import Node

    return argument.meta.get("val") if isinstance(argument, Node) else argument


def tensor_type(tensor: Any, importer: TorchGraphImporter) -> TensorType:
    """Return the type of a traced tensor."""
    return TensorType(importer.shape_of(tensor), dtype_of(tensor.dtype))
