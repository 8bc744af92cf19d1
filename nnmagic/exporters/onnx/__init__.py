"""Export Relay modules as ONNX models; the package onnx is imported when a module is exported."""

from __future__ import annotations

from nnmagic.exporters.onnx.errors import ExportError
from nnmagic.exporters.onnx.export_module import export_module
from nnmagic.exporters.onnx.files import write_model
from nnmagic.tracebacks import short_errors

__all__ = ["ExportError", "to_onnx", "write_onnx"]

to_onnx = short_errors(export_module)
write_onnx = short_errors(write_model)
