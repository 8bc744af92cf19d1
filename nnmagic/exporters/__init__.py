"""Export Relay modules to other formats: ONNX."""
