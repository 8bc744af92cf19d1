"""Export a module: prepare its function, export it, and make an ONNX model of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nnmagic.diagnostics import Span, kind_of
from nnmagic.exporters.onnx.errors import ExportRefusalError, export_problems
from nnmagic.exporters.onnx.operators import load_operators
from nnmagic.exporters.onnx.programs import ProgramExporter, Value, refuse_type
from nnmagic.exporters.onnx.registry import IR_VERSION, OPERATORS, OPSET
from nnmagic.exporters.onnx.writer import OnnxTensor, Writer, graph_proto
from nnmagic.importers.onnx.element_types import NUMBERS
from nnmagic.importers.onnx.errors import Problems
from nnmagic.relay import expr as ir
from nnmagic.relay import passes
from nnmagic.relay.infer import infer_type
from nnmagic.relay.module import Module
from nnmagic.relay.passes.expand_operators import expand_operators
from nnmagic.relay.structure.tuple_trees import flatten
from nnmagic.relay.types import RecordType, TensorType, TupleType, Type, dtype_of_array

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, TensorProto

#: How much a ModelProto may hold; protobuf ends at 2 GB, and nodes need some of it.
MAX_BYTES = 2**31 - 2**24

_prepare = passes.compose(
    lambda module: passes.inline(module, "all"),
    passes.inline_closures,
    passes.simplify_control_flow,
    passes.fold_constants,
    passes.eliminate_common_subexpr,
    passes.to_a_normal_form,
)


def export_module(module: Module, *, name: str | None = None) -> ModelProto:
    """Return a function of a module as an ONNX model.

    Args:
        module: a module.
        name: of the function; ``main``, or the only one, by default.

    Raises:
        ExportError: a RelayError with everything that ONNX cannot express.
        ImportError: if the package onnx is not installed.
        TypeError, ValueError: for a wrong argument, or constants of 2 GB, which only a file can hold.

    """
    model, constants = export_parts(module, name)
    if (total := sum(array.nbytes for array in constants.values())) > MAX_BYTES:
        size = f"{total / 1e9:.1f} GB"
        raise ValueError(
            f"the constants have {size}, and a ModelProto ends at 2 GB: write the model to a path"
        )
    model.graph.initializer.extend(tensor_proto(*item) for item in constants.items())
    return model


def export_parts(module: Module, name: str | None = None) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """Return a model without its constants, and these by name."""
    if not isinstance(module, Module):
        raise TypeError(f"to_onnx takes a relay.Module, not {kind_of(module)}")
    name = _entry(module, name)
    try:
        from onnx import helper
    except ImportError:
        message = "exporting ONNX models needs the package onnx: pip install 'nnmagic[onnx]'"
        raise ImportError(message) from None
    load_operators()
    writer, problems = Writer(), export_problems()
    typed = expand_operators(infer_type(module), keep=OPERATORS)
    _check_signature(typed.functions[name], problems)
    problems.raise_if_any()
    prepared = infer_type(_prepare(typed))
    function = prepared.functions[name]
    exporter = ProgramExporter(prepared, writer, problems)
    inputs: list[OnnxTensor] = []
    for param in function.params:
        type_ = param.checked_type or param.type_annotation
        assert type_ is not None
        exporter.values[param] = _parameter(param.name_hint, type_, writer, inputs)
    results = list(flatten(exporter.block(function.body)))
    if not results:
        problems.add("result", function.span, ExportRefusalError("an ONNX model gives a tensor or more"))
    problems.raise_if_any()
    tensors = [result for result in results if isinstance(result, OnnxTensor)]
    assert len(tensors) == len(results), "what could not be exported was reported"
    outputs = []
    for index, tensor in enumerate(tensors):
        label = writer.fresh("output" if len(tensors) == 1 else f"output_{index}")
        writer.graph.nodes.append(helper.make_node("Identity", [tensor.name], [label]))
        outputs.append(OnnxTensor(label, tensor.type))
    graph = graph_proto(writer.graph, name, inputs, outputs)
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, producer_name="nnmagic", ir_version=IR_VERSION)
    return model, _read_constants(model.graph, writer.constants)


def _entry(module: Module, name: str | None) -> str:
    if name is None:
        if "main" in module.functions:
            return "main"
        if len(module.functions) == 1:
            return next(iter(module.functions))
        raise ValueError("the module has several functions: name= says which")
    if name not in module.functions:
        raise ValueError(f"the module has no function {name!r}; it has {', '.join(module.functions)}")
    return name


def _check_signature(function: ir.Function, problems: Problems[Span | None]) -> None:
    """Report parameters and results that are no tensors."""
    hint = "ONNX models take and give tensors"
    for param in function.params:
        type_ = param.checked_type or param.type_annotation
        why = refuse_type(f"the parameter {param.name_hint}", type_) if type_ is not None else None
        if why is not None:
            problems.add("parameter", param.span, ExportRefusalError(why, hint))
    result = function.ret_type or function.body.checked_type
    why = refuse_type("the result", result) if result is not None else None
    if why is not None:
        problems.add("result", function.span, ExportRefusalError(why, hint))


def _parameter(hint: str, type_: Type, writer: Writer, inputs: list[OnnxTensor]) -> Value:
    """Return the inputs that a parameter is: one for each tensor of a tuple or record."""
    if isinstance(type_, TupleType):
        names = type_.names if isinstance(type_, RecordType) else map(str, range(len(type_.fields)))
        return tuple(
            _parameter(f"{hint}_{name}", field, writer, inputs)
            for name, field in zip(names, type_.fields, strict=True)
        )
    assert isinstance(type_, TensorType)
    tensor = OnnxTensor(writer.fresh(hint), type_)
    inputs.append(tensor)
    return tensor


def _read_constants(graph: GraphProto, constants: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the constants that nodes read."""
    names: set[str] = set()
    work = [graph]
    while work:
        for node in work.pop().node:
            names.update(node.input)
            work += [attr.g for attr in node.attribute if attr.HasField("g")]
    return {name: array for name, array in constants.items() if name in names}


def tensor_proto(name: str, array: np.ndarray) -> TensorProto:
    """Return a constant as ONNX has it."""
    from onnx import TensorProto

    dtype = dtype_of_array(array)
    assert dtype is not None
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return TensorProto(name=name, dims=array.shape, data_type=NUMBERS[dtype], raw_data=little.tobytes())
