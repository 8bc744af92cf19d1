"""Import ONNX models as Relay modules; the package onnx is imported when a model is."""

from __future__ import annotations

from nnmagic.importers.onnx.errors import OnnxError
from nnmagic.importers.onnx.import_model import import_model, import_with_listing
from nnmagic.tracebacks import short_errors

__all__ = ["OnnxError", "from_onnx", "import_with_listing"]

from_onnx = short_errors(import_model)
