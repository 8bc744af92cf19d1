"""Measure nnmagic beside NumPy, onnxruntime, torch, jax and numba: ``python -m benchmarks``."""
