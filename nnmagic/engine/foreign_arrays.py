"""Take the arrays of other libraries as NumPy's: by DLPack, by NumPy's own protocols, or as buffers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

#: What an object raises that exports no array.
EXPORT_ERRORS = (TypeError, ValueError, RuntimeError, LookupError, BufferError)

#: NumPy's protocols.
_PROTOCOLS = ("__array__", "__array_interface__", "__array_struct__")


def importer_of(value: object) -> Callable[[], np.ndarray] | None:
    """Return a function that exports the array of an object, in its own memory if possible, or None.

    The function raises one of ``EXPORT_ERRORS`` where the object refuses.
    """
    if is_torch_tensor(value):
        return lambda: _of_torch(value)
    if hasattr(value, "__dlpack__"):
        return lambda: _from_dlpack(value)
    if any(hasattr(value, protocol) for protocol in _PROTOCOLS):
        return lambda: np.asarray(value)
    try:
        buffer = memoryview(value)  # type: ignore[arg-type]  # which may be one or not
    except (TypeError, BufferError):
        return None
    return lambda: np.asarray(buffer)


def shared_array(value: object) -> np.ndarray | None:
    """Return an array that has the memory of an object, an array or a tensor of PyTorch; None for others.

    Raises one of ``EXPORT_ERRORS``.
    """
    if isinstance(value, np.ndarray):
        return value
    return _of_torch(value) if is_torch_tensor(value) else None


def note_change(value: Any) -> None:
    """Tell PyTorch that the memory of a tensor was changed, so that gradients miss the old values."""
    if is_torch_tensor(value) and not value.is_inference():
        sys.modules["torch"].autograd.graph.increment_version(value)


def is_torch_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of PyTorch, without importing that."""
    kind = getattr(sys.modules.get("torch"), "Tensor", None)
    return kind is not None and isinstance(value, kind)


def conversion_of(value: object, dtype: str) -> str:
    """Return what converts an array of any library to a dtype, as hints write it."""
    if is_torch_tensor(value):
        return f".to(torch.{dtype})"
    return f".astype({dtype!r})" if hasattr(value, "astype") else f"numpy.asarray(..., {dtype!r})"


def _of_torch(tensor: Any) -> np.ndarray:
    """Return a tensor as an array; PyTorch refuses what is its memory with another sign, a conjugate."""
    torch: Any = sys.modules["torch"]
    if tensor.dtype == torch.bfloat16 and not (tensor.requires_grad and torch.is_grad_enabled()):
        import ml_dtypes

        halves: np.ndarray = tensor.detach().view(torch.int16).numpy()
        return halves.view(ml_dtypes.bfloat16)
    array: np.ndarray = tensor.numpy()
    return array


def _from_dlpack(value: Any) -> np.ndarray:
    """Return an array by DLPack, or by NumPy's protocol where that has no such dtype, device or layout."""
    try:
        return np.from_dlpack(value)
    except EXPORT_ERRORS:
        if not hasattr(value, "__array__"):
            raise
        return np.asarray(value)
