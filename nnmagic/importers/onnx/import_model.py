"""Import a model: read it, import its graph, and make a Relay module of it."""

from __future__ import annotations

import itertools
import keyword
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nnmagic.diagnostics import Source, kind_of
from nnmagic.importers.onnx.blocks import ASSERTION, OnnxBlock
from nnmagic.importers.onnx.element_types import dtype_of
from nnmagic.importers.onnx.errors import UnsupportedError, model_error
from nnmagic.importers.onnx.external_data import Folder
from nnmagic.importers.onnx.graphs import GraphImporter, Refused, Scope
from nnmagic.importers.onnx.listing import model_listing
from nnmagic.importers.onnx.operators import load_operators
from nnmagic.importers.onnx.registry import NEWEST
from nnmagic.importers.onnx.values import Value
from nnmagic.relay import expr as ir
from nnmagic.relay.module import Module
from nnmagic.relay.structure.traverse import post_order
from nnmagic.relay.types import AnyDim, Dim, TensorType

if TYPE_CHECKING:
    from google.protobuf.message import Message
    from onnx import ModelProto, ValueInfoProto

    Model = str | os.PathLike[str] | bytes | ModelProto

#: The newest version of the file format that is known.
_MAX_IR_VERSION = 14

Shapes = Mapping[str, Sequence["int | str"]]


def import_model(model: object, *, shapes: Shapes | None = None, name: str | None = None) -> Module:
    """Return an ONNX model as a Relay module with one function; see `import_with_listing`."""
    return import_with_listing(model, shapes=shapes, name=name)[0]


def import_with_listing(
    model: object, *, shapes: Shapes | None = None, name: str | None = None
) -> tuple[Module, Source]:
    """Return an ONNX model as a Relay module with one function, and the listing that its spans point at.

    Args:
        model: the path of a file, its bytes, or an ``onnx.ModelProto``.
        shapes: the shapes of inputs, by name: ints, and names for sizes that are known at the call.
        name: of the function; the graph's name by default.

    Raises:
        OnnxError: a RelayError with every problem of the model.
        ImportError: if the package onnx is not installed.
        TypeError, ValueError: for a wrong argument.

    """
    if name is not None and (not str(name).isidentifier() or keyword.iskeyword(name)):
        raise ValueError(f"name must be a Python identifier, not {name!r}")
    proto, folder = read_model(model)
    load_operators()
    opsets = _opsets(proto)
    functions = {(item.domain, item.name, item.overload): item for item in proto.functions}
    listing = model_listing(proto)
    importer = GraphImporter(Folder(folder), functions, listing)
    scope = Scope(OnnxBlock(), opsets)
    params = _parameters(proto, importer, scope, shapes or {})
    try:
        outputs = importer.import_graph(proto.graph, scope)
    except UnsupportedError as error:
        importer.problems.add("graph", repr(proto.graph.name), error)
        outputs = []
    if not proto.graph.output:
        importer.problems.add("graph", repr(proto.graph.name), UnsupportedError("it has no output"))
    importer.problems.raise_if_any()
    results = [value.expr for value in outputs if isinstance(value, Value)]
    assert len(results) == len(outputs), "what could not be imported was reported"
    body = scope.block.finish(results[0] if len(results) == 1 else ir.Tuple(tuple(results)))
    function = ir.Function(tuple(params), body)
    checked = any(isinstance(node, ir.Match) for node in post_order(function))
    types = {ASSERTION.header.name: ASSERTION} if checked else {}
    module = Module({name or _identifier(proto.graph.name, "main"): function}, types)
    return module, listing.source


# -- reading -------------------------------------------------------------------------------------------


def read_model(model: object) -> tuple[ModelProto, Path | None]:
    """Return a model with the folder that it lies in. Raises OnnxError, TypeError or OSError."""
    try:
        import onnx
    except ImportError:
        message = "importing ONNX models needs the package onnx: pip install 'nnmagic[onnx]'"
        raise ImportError(message) from None
    from google.protobuf.message import DecodeError

    if isinstance(model, onnx.ModelProto):
        proto, folder, shown = model, None, "the model"
    elif isinstance(model, bytes | bytearray | memoryview):
        proto, folder, shown = onnx.ModelProto(), None, "the model"
        data = bytes(model)
    elif isinstance(model, str | os.PathLike):
        path = Path(os.fspath(model))
        proto, folder, shown = onnx.ModelProto(), path.resolve().parent, repr(str(path))
        data = path.read_bytes()
    else:
        raise TypeError(f"an ONNX model is a path, its bytes or an onnx.ModelProto, not {kind_of(model)}")
    if proto is not model:
        try:
            proto.ParseFromString(data)
        except DecodeError:
            raise model_error(
                f"{shown} is no ONNX model, or is damaged", "write it again with onnx.save"
            ) from None
    _check_texts(proto, shown)
    if not proto.HasField("graph") or not (proto.opset_import or proto.ir_version):
        raise model_error(f"{shown} is no ONNX model: it has no graph", "write it again with onnx.save")
    if proto.ir_version > _MAX_IR_VERSION:
        raise model_error(
            f"{shown} has the IR version {proto.ir_version}; the newest that is known is {_MAX_IR_VERSION}",
            "convert it to an older version",
        )
    return proto, folder


def _check_texts(message: Message, where: str) -> None:
    """Raise OnnxError for a name, or another text, that is not UTF-8: protobuf gives it as bytes."""
    from google.protobuf.message import Message

    waiting = [(message, where)]
    while waiting:
        message, where = waiting.pop()
        for field, value in message.ListFields():
            if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
                continue
            texts = [value] if isinstance(value, Message | str | bytes) else value
            for number, text in enumerate(texts):
                place = f"{where}: {field.name} {number}" if texts is value else f"{where}: {field.name}"
                if isinstance(text, bytes):
                    raise model_error(
                        f"{place} is {text[:40]!r}, which is not UTF-8", "the file is damaged: get it again"
                    )
                if isinstance(text, Message):
                    waiting.append((text, place))


def _opsets(proto: ModelProto) -> dict[str, int]:
    opsets = {"" if item.domain == "ai.onnx" else item.domain: item.version for item in proto.opset_import}
    if not opsets and proto.ir_version < 3:
        opsets = {"": 1}
    for domain, version in opsets.items():
        if version < 1:
            raise model_error(f"the opset {version} of the domain {domain!r} does not exist")
        if version > NEWEST.get(domain, version):
            shown = f"of the domain {domain!r} " if domain else ""
            raise model_error(
                f"the opset {version} {shown}is newer than {NEWEST[domain]}, the newest that is known",
                "export the model for an older opset",
            )
    return opsets


# -- parameters ----------------------------------------------------------------------------------------


def _parameters(proto: ModelProto, importer: GraphImporter, scope: Scope, shapes: Shapes) -> list[ir.Var]:
    """Return the parameters of the function, and put them into the scope."""
    constants = {tensor.name for tensor in proto.graph.initializer}
    inputs = [info for info in proto.graph.input if info.name not in constants]
    unknown = set(shapes) - {info.name for info in inputs}
    if unknown:
        known = ", ".join(repr(info.name) for info in inputs)
        raise ValueError(f"the model has no input {sorted(unknown)[0]!r}; its inputs are {known}")
    names = unique_names([info.name for info in inputs])
    labels = _dimension_names(inputs)
    params = []
    for info, name in zip(inputs, names, strict=True):
        try:
            type_ = _input_type(info, name, shapes.get(info.name), labels)
        except UnsupportedError as error:
            importer.problems.add("input", repr(info.name), error)
            scope.names[info.name] = Refused()
            continue
        var = ir.Var(name, type_)
        params.append(var)
        scope.names[info.name] = Value(var, type_)
    return params


def _dimension_names(inputs: Sequence[ValueInfoProto]) -> dict[str, str]:
    """Return an identifier for each name that a model gives to a size."""
    dims = [dim for info in inputs for dim in info.type.tensor_type.shape.dim]
    texts = list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))
    return dict(zip(texts, unique_names(texts, "size"), strict=True))


def _input_type(
    info: ValueInfoProto, name: str, dims: Sequence[int | str] | None, labels: dict[str, str]
) -> TensorType:
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        what = str(kind).replace("_type", "").replace("_", " ")
        raise UnsupportedError(f"it is no tensor but a {what}", "pass its tensors one by one")
    tensor = info.type.tensor_type
    dtype = dtype_of(tensor.elem_type)
    if not tensor.HasField("shape") and dims is None:
        raise UnsupportedError("it has no shape", f"give it one: shapes={{{info.name!r}: (…)}}")
    declared: list[Dim] = []
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            declared.append(int(dim.dim_value))
        elif dim.dim_param:
            declared.append(AnyDim(labels[dim.dim_param]))
        else:
            declared.append(AnyDim(_free_label(f"{name}_{axis}", labels)))
    if dims is None:
        return TensorType(tuple(declared), dtype)
    return TensorType(_given_shape(info.name, dims, declared, has_shape=tensor.HasField("shape")), dtype)


def _free_label(label: str, labels: dict[str, str]) -> str:
    while label in labels.values():
        label += "_"
    return label


def _given_shape(
    name: str, sizes: Sequence[int | str], declared: Sequence[Dim], *, has_shape: bool
) -> tuple[Dim, ...]:
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise TypeError(f"shapes[{name!r}] must be a tuple of ints and names, not {kind_of(sizes)}")
    if has_shape and len(sizes) != len(declared):
        raise ValueError(f"shapes[{name!r}] must have {len(declared)} sizes, not {len(sizes)}")
    dims: list[Dim] = []
    for axis, size in enumerate(sizes):
        if isinstance(size, str):
            if not size.isidentifier():
                raise ValueError(f"shapes[{name!r}]: the name of a size must be an identifier, not {size!r}")
            dims.append(AnyDim(size))
            continue
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            raise TypeError(f"shapes[{name!r}] must hold ints and names, not {kind_of(size)}")
        number = int(size)
        if number < 0:
            raise ValueError(f"shapes[{name!r}] has the negative size {number}")
        if has_shape and isinstance(declared[axis], int) and declared[axis] != number:
            raise ValueError(
                f"shapes[{name!r}]: the model fixes axis {axis} to {declared[axis]}, not {number}"
            )
        dims.append(number)
    return tuple(dims)


def _identifier(text: str, default: str) -> str:
    """Return a name that Relay and Python can write; ``default`` for one without letters or digits."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")
    if not name:
        return default
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) or name == "__debug__" else name


def unique_names(names: Sequence[str], default: str = "input") -> list[str]:
    """Return identifiers for the names of a model, which may be any text; all of them differ."""
    taken: set[str] = set()
    unique: list[str] = []
    for index, text in enumerate(names):
        name = _identifier(text, f"{default}_{index}")
        candidates = itertools.chain([name], (f"{name}_{count}" for count in itertools.count(1)))
        choice = next(candidate for candidate in candidates if candidate not in taken)
        taken.add(choice)
        unique.append(choice)
    return unique
