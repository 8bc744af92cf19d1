"""Represent, parse, print and type Relay programs, in pure Python.

Names are loaded when first used, so that importing the package is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnmagic.diagnostics import Source, kind_of
from nnmagic.tracebacks import short_errors

if TYPE_CHECKING:
    from nnmagic.relay.builder import Builder
    from nnmagic.relay.callbacks import PythonFunction
    from nnmagic.relay.expr import (
        Call,
        Clause,
        Constant,
        Constructor,
        Expr,
        Function,
        GlobalVar,
        If,
        Let,
        Match,
        OpRef,
        Pattern,
        PatternConstructor,
        PatternTuple,
        PatternVar,
        PatternWildcard,
        RefCreate,
        RefRead,
        RefWrite,
        Tuple,
        TupleGetItem,
        Var,
        constant,
    )
    from nnmagic.relay.infer import erase_types, infer_type
    from nnmagic.relay.module import Module, TypeData
    from nnmagic.relay.ops import OPERATORS
    from nnmagic.relay.ops.calls import call
    from nnmagic.relay.passes.pipeline import (
        PassContext,
        PassInstrument,
        PassRecorder,
        PassRun,
        PassTiming,
        PrintChanges,
        VerifyTypes,
        run_passes,
    )
    from nnmagic.relay.structure.structural_equality import structural_equal
    from nnmagic.relay.text.parser import parse_expression
    from nnmagic.relay.types import (
        ANY,
        AnyDim,
        Dim,
        FuncType,
        GlobalTypeVar,
        Int64,
        RefType,
        TensorType,
        TupleType,
        Type,
        TypeCall,
        TypeVar,
        VarDim,
        scalar_type,
    )
    from nnmagic.relay.values import AdtValue

#: The modules of the public names.
_MODULES = {
    "builder": "Builder",
    "callbacks": "PythonFunction",
    "expr": (
        "Call Clause Constant Constructor Expr Function GlobalVar If Let Match OpRef Pattern "
        "PatternConstructor PatternTuple PatternVar PatternWildcard RefCreate RefRead RefWrite Tuple "
        "TupleGetItem Var constant"
    ),
    "infer": "erase_types infer_type",
    "module": "Module TypeData",
    "ops": "OPERATORS",
    "ops.calls": "call",
    "passes.pipeline": (
        "PassContext PassInstrument PassRecorder PassRun PassTiming PrintChanges VerifyTypes run_passes"
    ),
    "structure.structural_equality": "structural_equal",
    "text.parser": "parse_expression",
    "types": (
        "ANY AnyDim Dim FuncType GlobalTypeVar Int64 RefType TensorType TupleType Type TypeCall TypeVar "
        "VarDim scalar_type"
    ),
    "values": "AdtValue",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "ANY",
    "OPERATORS",
    "AdtValue",
    "AnyDim",
    "Builder",
    "Call",
    "Clause",
    "Constant",
    "Constructor",
    "Dim",
    "Expr",
    "FuncType",
    "Function",
    "GlobalTypeVar",
    "GlobalVar",
    "If",
    "Int64",
    "Let",
    "Match",
    "Module",
    "OpRef",
    "PassContext",
    "PassInstrument",
    "PassRecorder",
    "PassRun",
    "PassTiming",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "PrintChanges",
    "PythonFunction",
    "RefCreate",
    "RefRead",
    "RefType",
    "RefWrite",
    "TensorType",
    "Tuple",
    "TupleGetItem",
    "TupleType",
    "Type",
    "TypeCall",
    "TypeData",
    "TypeVar",
    "Var",
    "VarDim",
    "VerifyTypes",
    "call",
    "constant",
    "erase_types",
    "from_onnx",
    "from_torch",
    "infer_type",
    "parse",
    "parse_expression",
    "run_passes",
    "scalar_type",
    "structural_equal",
    "to_onnx",
]


@short_errors
def parse(text: str | Source, *, filename: str = "from_string") -> Module:
    """Parse a module's text: the module prints as that text, and ``infer_type`` gives it types.

    Types are checked, as the original Relay's parser does, but the module is what was written. Raises
    RelayError, which points at the text.
    """
    from nnmagic.relay.infer import infer_type
    from nnmagic.relay.text.parser import parse_module

    if not isinstance(text, str | Source):
        raise TypeError(f"relay.parse takes the text of a module, not {kind_of(text)}")
    module = parse_module(text, filename)
    infer_type(module)  # for its errors
    return module


def from_onnx(
    model: object, *, shapes: Mapping[str, Sequence[int | str]] | None = None, name: str | None = None
) -> Module:
    """Return an ONNX model as a module with one function; nothing is compiled.

    Args:
        model: the path of a file, its bytes, or an ``onnx.ModelProto``.
        shapes: the shapes of inputs, by name: ints, and names for sizes that are known at the call.
        name: of the function; the graph's name by default.

    Raises RelayError with every problem of the model, ImportError without the package onnx, TypeError or
    ValueError for a wrong argument.

    """
    import importlib

    importer = importlib.import_module("nnmagic.importers.onnx")  # it imports this package
    module: Module = importer.from_onnx(model, shapes=shapes, name=name)
    return module


def to_onnx(module: Module, *, name: str | None = None) -> Any:
    """Return a function of a module as an ``onnx.ModelProto``, which onnxruntime and others run.

    Args:
        module: a module.
        name: of the function; ``main``, or the only one, by default.

    Raises RelayError with everything that ONNX cannot express, ImportError without the package onnx,
    TypeError or ValueError for a wrong argument, or for constants of 2 GB or more.

    """
    import importlib

    exporter = importlib.import_module("nnmagic.exporters.onnx")  # it imports this package
    return exporter.to_onnx(module, name=name)


def from_torch(
    module: object,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    *,
    dynamic_shapes: object = None,
    name: str | None = None,
) -> Module:
    """Return a PyTorch program as a module with one function; nothing is compiled.

    Its parameters are the buffers that the program updates, and the tensors among the arguments; it returns
    a tuple of what is updated and of the results.

    Args:
        module: a ``torch.nn.Module`` or a function, which torch.export captures; or an ExportedProgram.
        args: example arguments; sizes that ``dynamic_shapes`` does not name are fixed to theirs.
        kwargs: example arguments by keyword.
        dynamic_shapes: as ``torch.export.export`` takes it.
        name: of the function; that of the module's class by default.

    Raises RelayError with every problem of the program, ImportError without the package torch, TypeError or
    ValueError for a wrong argument.

    """
    import importlib

    importer = importlib.import_module("nnmagic.importers.torch")  # it imports this package
    program = importer.from_torch(module, args, kwargs, dynamic_shapes=dynamic_shapes, name=name)
    found: Module = program.module
    return found


def __getattr__(name: str) -> object:
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
