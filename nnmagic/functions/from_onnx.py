"""Compile ONNX models: ``from_onnx``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nnmagic.functions.caching.build_or_load import Use
from nnmagic.functions.caching.compile_options import Options, Target
from nnmagic.functions.compile import chosen_passes, compile_module
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.tracebacks import short_errors

if TYPE_CHECKING:
    from nnmagic.engine.custom import Engine
    from nnmagic.importers.onnx.import_model import Model, Shapes
    from nnmagic.relay.passes.pipeline import NamedPass, Pass


@short_errors
def from_onnx(
    model: Model,
    *,
    shapes: Shapes | None = None,
    name: str | None = None,
    engine: str | Engine = "auto",
    target: Target = None,
    opt_level: int = 3,
    passes: Iterable[str | Pass | NamedPass] = (),
    zero_d_arrays: bool = False,
    cache: bool = True,
) -> CompiledFunction:
    """Compile an ONNX model for the CPU.

    Args:
        model: the path of a file, its bytes, or an ``onnx.ModelProto``.
        shapes: the shapes of inputs, by name, where the model's are unknown or should be fixed: ints, and
            names for sizes that are known at the call.
        name: of the function; the graph's name by default.
        engine: as ``compile`` takes it.
        target: as ``compile`` takes it.
        opt_level: 0 to 3.
        passes: as ``compile`` takes them: they run on the Relay of the model.
        zero_d_arrays: whether results of rank 0 are arrays rather than NumPy scalars.
        cache: whether to use the caches.

    Returns:
        The function. Its parameters are the inputs of the graph that have no initializer, in their order;
        it returns the output, or a tuple of several.

    Raises:
        nnmagic.importers.onnx.OnnxError: a RelayError with every problem of the model.
        EngineError: if it cannot be compiled.
        ImportError: if the package onnx is not installed.
        TypeError, ValueError, OSError: for a wrong argument, or a file that cannot be read.

    """
    from nnmagic.importers.onnx import import_with_listing

    # Errors come before a long import.
    passes = chosen_passes(passes)
    options = Options(engine, target, opt_level, passes=passes, zero_d_arrays=zero_d_arrays)
    module, listing = import_with_listing(model, shapes=shapes, name=name)
    return compile_module(module, options, Use.YES if cache else Use.NO, listing, "onnx")
