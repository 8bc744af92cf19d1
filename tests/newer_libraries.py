"""Tests whose judge is a newer library than the newest one for the oldest Python."""

import importlib.metadata

import numpy as np
import pytest

IS_NUMPY_OLD = np.lib.NumpyVersion(np.__version__) < "2.3.0"

#: For what NumPy has computed otherwise up to 2.2, the newest for Python 3.10.
newer_numpy = pytest.mark.skipif(IS_NUMPY_OLD, reason=f"NumPy {np.__version__} computes it otherwise")


def is_onnxruntime_old() -> bool:
    """Whether onnxruntime refuses models of today: the newest for Python 3.10 does."""
    major, minor, *_ = importlib.metadata.version("onnxruntime").split(".")
    return (int(major), int(minor)) < (1, 24)
