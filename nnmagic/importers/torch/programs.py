"""Make a Relay module of a captured program, and say how its parameters and results are to be used."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nnmagic.diagnostics import Source
from nnmagic.importers.onnx import shapes
from nnmagic.importers.onnx.blocks import ASSERTION, OnnxBlock
from nnmagic.importers.onnx.errors import UnsupportedError
from nnmagic.importers.onnx.import_model import unique_names
from nnmagic.importers.onnx.values import Value, constant
from nnmagic.importers.torch.capture import capture
from nnmagic.importers.torch.errors import place_of, program_error
from nnmagic.importers.torch.graphs import RefusedResult, TorchGraphImporter, name_of, tensor_type
from nnmagic.importers.torch.listing import graph_listing
from nnmagic.importers.torch.operators import load_operators
from nnmagic.importers.torch.random_numbers import RandomCall, draw_outside
from nnmagic.importers.torch.tensors import dim_of, expression_of
from nnmagic.importers.torch.views import StridedLayout, layout_of, name_storages, offset_of, split_views
from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import AnyDim, TensorType

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import GraphModule, Node

#: Stands for the tokens with which torch puts effects in order.
_TOKEN = constant(np.zeros(0, "float32"))


@dataclass(frozen=True, slots=True)
class Input:
    """An argument of a program, in their flat order.

    ``kind``: ``tensor`` and ``size`` are parameters of the function, as are a ``buffer``, a ``storage`` and
    what is ``drawn``, which are no arguments: a storage is the memory of the argument ``value``, the first
    ``length`` elements or all; random numbers are drawn by ``value``. A ``constant`` must be what it was at
    the capture. ``bounds``: of the sizes of its axes.
    """

    kind: str
    name: str
    value: Any = None
    bounds: tuple[tuple[int, int, int], ...] = ()
    length: int | None = None


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """A result of a program.

    ``kind``: ``computed`` is the result ``index`` of the function, which ``value``, if given, makes a
    Python number; ``input`` is the argument ``index`` itself, ``constant`` the ``value``. ``target``: the
    argument or buffer that it is written to. ``layout``: how it lies in memory, if not as arrays do.
    """

    kind: str
    index: int = 0
    value: Any = None
    target: Any = None
    layout: StridedLayout | None = None


@dataclass(frozen=True, slots=True)
class TorchProgram:
    """A program as a Relay module with one function, which returns a tuple of the computed results.

    ``source``: the listing of its graph that spans point at. ``views``: makes the results of the outputs,
    which own the memory that results share. ``sizes``: for each name of a size the number of a parameter, and
    the axis of that size; -1 for the size itself.
    """

    module: Module
    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[ProgramOutput, ...]
    source: Source
    in_spec: Any = None
    out_spec: Any = None
    views: Callable[..., Any] | None = None
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)


#: What makes a Python number of a result, by torch's class of the output.
_NUMBERS = {"SymIntArgument": int, "SymFloatArgument": float, "SymBoolArgument": bool}


class _Importer:
    """The import of a program: its parameters, its graph, its results."""

    def __init__(self) -> None:
        load_operators()
        self.graphs = TorchGraphImporter()
        self.block = OnnxBlock()
        self.params: list[ir.Var] = []
        self.given: list[Any] = []
        self.tensors: dict[Any, Any] = {}

    def parameter(self, name: str, type_: TensorType) -> Value:
        """Add a parameter of the function."""
        var = ir.Var(name, type_)
        self.params.append(var)
        return Value(var, type_)

    def tensor(self, name: str, traced: Any, place: str) -> None:
        """Add a parameter for a traced tensor."""
        try:
            type_ = tensor_type(traced, self.graphs)
        except UnsupportedError as error:
            self.graphs.problems.add("input", place, error)
            self.given.append(RefusedResult())
            return
        self.given.append(self.parameter(name, type_))

    def size(self, name: str, traced: Any) -> None:
        """Add a parameter for a symbolic size."""
        value = self.parameter(name, TensorType((), "int64"))
        dim = dim_of(traced, self.graphs.labels)
        self.given.append(Value(value.expr, value.type, (dim,)))
        if isinstance(dim, AnyDim) and dim.label is not None and dim.label.isidentifier():
            self.graphs.symbols.setdefault(dim.label, value)

    def constant(self, tensor: Any, place: str) -> None:
        """Add a parameter, buffer or constant of the module, which is a constant of the function."""
        key = (
            (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
            if tensor.numel()
            else None
        )
        if key is None or key not in self.tensors:
            self.tensors[key] = self.graphs.constant(tensor, place)
        self.given.append(self.tensors[key])

    def run(self, graph: GraphModule, name: str) -> list[Any]:
        """Import the graph; return its outputs. Raises TorchError."""
        self.graphs.listing = graph_listing(graph, name)
        for value in self.given:
            if isinstance(value, Value):
                self.graphs.define_sizes(value)
        outputs = self.graphs.run(graph, self.given, self.block)
        self.graphs.problems.raise_if_any()
        return outputs

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Return where each size with a name is found: the number of a parameter, and an axis."""
        limits: dict[str, tuple[int, int]] = {}
        given = [value for value in self.given if isinstance(value, Value) and isinstance(value.expr, ir.Var)]
        for number, value in enumerate(given):  # as the parameters are
            dims = list(enumerate(value.shape)) if value.rank else [(-1, dim) for dim in value.sizes or ()]
            for axis, dim in dims:
                if isinstance(dim, AnyDim) and dim.label is not None:
                    limits.setdefault(dim.label, (number, axis))
        return limits

    def layout(self, node: Node) -> StridedLayout | None:
        """Return how torch's result of a node lies in memory; None if as arrays do."""
        try:
            return layout_of(node.meta["val"], self.graphs.labels, offset_of(node))
        except UnsupportedError as error:
            self.graphs.problems.add(f"the output {node.name!r}", place_of(node), error)
            return None

    def source(self) -> Source:
        """Return the listing of the graph."""
        assert self.graphs.listing is not None
        return self.graphs.listing.source

    def finish(self, results: Sequence[Value], name: str) -> Module:
        """Return the module."""
        exprs = [value.expr for value in results] or [constant(0, "int64").expr]
        body = self.block.finish(ir.Tuple(tuple(exprs)))
        function = ir.Function(tuple(self.params), body)
        checked = any(isinstance(node, ir.Match) for node in post_order(function))
        types = {ASSERTION.header.name: ASSERTION} if checked else {}
        return Module({name: function}, types)


def import_program(
    module: object,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    name: str | None = None,
) -> TorchProgram:
    """Import a module, a function or an exported program. Raises TorchError, TypeError, ValueError."""
    if name is not None and (not str(name).isidentifier() or keyword.iskeyword(name)):
        raise ValueError(f"name must be a Python identifier, not {name!r}")
    program = capture(module, args, kwargs, dynamic_shapes)
    return _import_program(program, name or _name_of(module))


def _name_of(module: object) -> str:
    text = getattr(module, "__name__", None) or type(module).__name__
    if text in ("ExportedProgram", "<lambda>"):
        text = "main"
    return unique_names([str(text)], "main")[0]


def _import_program(program: ExportedProgram, name: str) -> TorchProgram:
    from torch.export.graph_signature import ConstantArgument, InputKind, SymIntArgument, TensorArgument

    importer = _Importer()
    signature = program.graph_signature
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    names = unique_names([node.name for node in placeholders])
    mutated = set(signature.buffers_to_mutate.values())
    importer.graphs.labels.update(_dimension_names(placeholders))
    inputs: list[Input] = []
    for spec, node, unique in zip(signature.input_specs, placeholders, names, strict=True):
        traced = node.meta.get("val")
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            tensor = _tensor_of(program, str(spec.target))
            if spec.target in mutated:
                importer.tensor(unique, traced, repr(spec.target))
                inputs.append(Input("buffer", unique, tensor))
            else:
                importer.constant(tensor, repr(spec.target))
        elif spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, TensorArgument):
            importer.tensor(unique, traced, repr(node.name))
            inputs.append(Input("tensor", unique, bounds=_bounds(traced, program)))
        elif spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, SymIntArgument):
            importer.size(unique, traced)
            inputs.append(Input("size", unique))
        elif spec.kind == InputKind.USER_INPUT and isinstance(spec.arg, ConstantArgument):
            importer.given.append(spec.arg.value)
            inputs.append(Input("constant", node.name, spec.arg.value))
        elif spec.kind == InputKind.TOKEN:  # no argument
            importer.given.append(_TOKEN)
        else:
            error = UnsupportedError(f"inputs of the kind {spec.kind.name.lower()} are not supported")
            importer.graphs.problems.add("input", repr(node.name), error)
            importer.given.append(RefusedResult())
    found = importer.run(program.graph_module, name)
    arguments = [
        node.name
        for spec, node in zip(signature.input_specs, placeholders, strict=True)
        if spec.kind == InputKind.USER_INPUT
    ]
    outputs, results = _outputs(program, found, arguments)
    module = importer.finish(results, name)
    spec = program.call_spec
    return TorchProgram(
        module, name, tuple(inputs), tuple(outputs), importer.source(), spec.in_spec, spec.out_spec
    )


def _outputs(
    program: ExportedProgram, found: Sequence[Any], arguments: Sequence[str]
) -> tuple[list[ProgramOutput], list[Value]]:
    """Return what becomes of each output of the graph, and the results that the function computes."""
    from torch.export.graph_signature import ConstantArgument, OutputKind

    outputs: list[ProgramOutput] = []
    results: list[Value] = []
    for spec, value in zip(program.graph_signature.output_specs, found, strict=True):
        target: Any = None
        if spec.kind == OutputKind.TOKEN:
            continue
        if spec.kind == OutputKind.BUFFER_MUTATION:
            target = _tensor_of(program, str(spec.target))
        elif spec.kind == OutputKind.USER_INPUT_MUTATION:
            target = arguments.index(str(spec.target))
        elif spec.kind != OutputKind.USER_OUTPUT:
            kind = spec.kind.name.lower().replace("_", " ")
            raise program_error(f"outputs of the kind {kind} are not supported")
        if isinstance(spec.arg, ConstantArgument):
            outputs.append(ProgramOutput("constant", value=spec.arg.value))
        elif target is None and spec.arg.name in arguments:
            outputs.append(ProgramOutput("input", arguments.index(spec.arg.name)))
        elif not isinstance(value, Value):
            outputs.append(ProgramOutput("constant", value=value))
        else:
            outputs.append(
                ProgramOutput("computed", len(results), _NUMBERS.get(type(spec.arg).__name__), target)
            )
            results.append(value)
    return outputs, results


def _tensor_of(program: ExportedProgram, name: str) -> Any:
    tensor = program.state_dict.get(name)
    return program.constants[name] if tensor is None else tensor


def _bounds(traced: Any, program: ExportedProgram) -> tuple[tuple[int, int, int], ...]:
    """Return (axis, least, most) for each size of a tensor for which the program was captured."""
    bounds = []
    for axis, size in enumerate(traced.shape):
        allowed = program.range_constraints.get(expression_of(size))
        if allowed is not None:
            least, most = (
                _int_or(bound, default) for bound, default in ((allowed.lower, 0), (allowed.upper, 2**63))
            )
            bounds.append((axis, least, most))
    return tuple(bounds)


def _int_or(bound: Any, default: int) -> int:
    """Return a bound; infinity has none."""
    return int(bound) if bound.is_Integer else default


def _dimension_names(placeholders: Sequence[Any]) -> dict[str, str]:
    """Return the names that the caller gave to symbolic sizes, by torch's symbols."""
    names: dict[str, str] = {}
    for node in placeholders:
        for size in getattr(node.meta.get("val"), "shape", ()):
            environment = getattr(getattr(size, "node", None), "shape_env", None)
            if environment is None:
                continue
            symbol = str(size.node.expr)
            for source in environment.var_to_sources.get(size.node.expr, ()):
                name = environment.source_name_to_debug_name.get(source.name)
                if name and str(name).isidentifier() and symbol not in names:
                    names[symbol] = str(name)
    return names


def _is_token(node: Node) -> bool:
    """Return whether an input of a graph only orders effects."""
    return any(
        name_of(user.target) == "higher_order.with_effects" and user.args[0] is node for user in node.users
    )


def import_graph(graph: GraphModule, name: str = "main") -> TorchProgram:
    """Import a functional graph of ATen operators, as AOTAutograd makes them. Raises TorchError.

    The views among its results are taken out of the graph, and what draws random numbers.
    """
    views = split_views(graph.graph)
    storages = name_storages(graph.graph)
    importer = _Importer()
    draws = draw_outside(graph.graph, importer.graphs.labels)
    placeholders = [node for node in graph.graph.nodes if node.op == "placeholder"]
    arguments = placeholders[: len(placeholders) - len(storages) - len(draws)]
    sources = [*([None] * len(arguments)), *storages, *draws]
    inputs = _graph_inputs(importer, placeholders, sources)
    program = importer.run(graph, name)
    (end,) = (node for node in graph.graph.nodes if node.op == "output")
    outputs: list[ProgramOutput] = []
    results: list[Value] = []
    for node, value in zip(end.args[0], program, strict=True):
        if node in arguments:
            outputs.append(ProgramOutput("input", arguments.index(node)))
        elif isinstance(value, Value):
            traced = node.meta.get("val")
            converted = _NUMBERS.get(f"{type(traced).__name__}Argument")
            layout = importer.layout(node) if converted is None else None
            outputs.append(ProgramOutput("computed", len(results), converted, layout=layout))
            results.append(value if layout is None else shapes.transpose(value, layout.order))
        else:
            outputs.append(ProgramOutput("constant", value=value))
    importer.graphs.problems.raise_if_any()
    module = importer.finish(results, name)
    needs_sizes = bool(draws) or any(output.layout and output.layout.gaps for output in outputs)
    sizes = importer.sizes() if needs_sizes else {}
    return TorchProgram(
        module, name, tuple(inputs), tuple(outputs), importer.source(), views=views, sizes=sizes
    )


def _graph_inputs(
    importer: _Importer, placeholders: Sequence[Node], sources: Sequence[int | RandomCall | None]
) -> list[Input]:
    """Return the inputs of a graph: arguments, storages of arguments of some numbers, random numbers."""
    import torch

    inputs: list[Input] = []
    names = unique_names([node.name for node in placeholders])
    for node, unique, source in zip(placeholders, names, sources, strict=True):
        traced = node.meta.get("val")
        if source is not None:
            importer.tensor(unique, traced, repr(node.name))
            is_storage = isinstance(source, int)
            length = traced.shape[0] if is_storage and isinstance(traced.shape[0], int) else None
            inputs.append(Input("storage" if is_storage else "drawn", unique, source, length=length))
        elif _is_token(node):  # for which AOTAutograd passes None
            importer.given.append(_TOKEN)
            inputs.append(Input("constant", unique))
        elif isinstance(traced, torch.Tensor):
            importer.tensor(unique, traced, repr(node.name))
            inputs.append(Input("tensor", unique))
        elif isinstance(traced, torch.SymInt):
            importer.size(unique, traced)
            inputs.append(Input("size", unique))
        else:
            importer.given.append(traced)
            inputs.append(Input("constant", unique, traced))
    return inputs
