"""Locate TVM's libraries without loading any of them."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path


def libraries() -> Path:
    """Return the folder of TVM's libraries; RuntimeError if TVM is not installed."""
    spec = importlib.util.find_spec("tvm")
    if spec is None or spec.origin is None:
        raise RuntimeError("TVM is not installed: pip install apache-tvm")
    return Path(spec.origin).parent / "lib"


def has_compiler() -> bool:
    """Return whether TVM's compiler can be loaded, not only its runtime."""
    return os.environ.get("TVM_USE_RUNTIME_LIB") != "1" and any(libraries().glob("*tvm_compiler*"))
