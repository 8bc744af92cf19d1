"""Programs of Relay text, compiled, and the inputs and outputs that were measured on real Relay."""

import ml_dtypes
import numpy as np
from tvm.target import codegen

from nnmagic.engine.relax import build
from nnmagic.relay.infer import infer_type
from nnmagic.relay.text.parser import parse_module

#: CPUs whose vectors this machine has: its own, and on x86-64 one with vectors of 256 bits.
MACHINES = [
    codegen.llvm_get_system_cpu(),
    *(["haswell"] if "x86_64" in codegen.llvm_get_system_triple() else []),
]

VERSION = '#[version = "0.0.5"]\n'


def module(text):
    """The typed module of a text without its version line."""
    return infer_type(parse_module(VERSION + text))


def compile_text(text, entry="main", **options):
    """An executable of the text's function ``entry``."""
    return build(module(text), entry, **options)


def numpy_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def make_input(record):
    """The input that a record of the corpus describes."""
    if "tuple" in record:
        return tuple(make_input(part) for part in record["tuple"])
    dtype, shape = numpy_dtype(record["dtype"]), tuple(record["shape"])
    if "data" in record:
        return read_array(record)
    generator = np.random.default_rng(record["seed"])
    if record["dist"] == "normal":
        values = generator.standard_normal(shape)
    elif record["dist"] == "uniform":
        values = generator.uniform(record["lo"], record["hi"], shape)
    elif dtype == np.bool_:
        values = generator.integers(0, 2, size=shape)
    else:
        values = generator.integers(record["lo"], record["hi"], size=shape)
    return np.asarray(values).astype(dtype)


def read_array(record):
    """The array that a record of the corpus holds: flat data, NaN and infinity as strings."""
    values = [float(value) if isinstance(value, str) else value for value in record["data"]]
    return np.array(values).astype(numpy_dtype(record["dtype"])).reshape(record["shape"])


def assert_close(result, expected, rtol, atol):
    """Equal dtype and shape; equal values, floating-point ones within the tolerance."""
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "fV":
        np.testing.assert_allclose(result.astype("f8"), expected.astype("f8"), rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(result, expected)
