"""Import ONNX models as Relay modules; the package onnx is imported when a model is."""

from __future__ import annotations

from nnmagic.importers.onnx.errors import OnnxError
from nnmagic.importers.onnx.import_model import import_listed, import_model
from nnmagic.tracebacks import short_errors

__all__ = ["OnnxError", "from_onnx", "import_listed"]

from_onnx = short_errors(import_model)
