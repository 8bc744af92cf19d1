"""Declare random numbers from the counter-based generator Threefry.

A key is a vector of ten uint64 (Salmon et al. 2011).
"""

from __future__ import annotations

from collections.abc import Sequence

from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import DIM, DTYPE, one_or_more
from nnmagic.relay.ops.declaration import Attr, RelationError, declare
from nnmagic.relay.ops.relations import dims, require_type, tensor
from nnmagic.relay.types import TensorType, TupleType, Type, scalar_type

_KEY = TensorType((10,), "uint64")


def _key(types: Sequence[Type]) -> TensorType:
    key = tensor(types)
    if key.dtype != _KEY.dtype:
        raise RelationError("expected a key of type {wanted}, found {key}", 0, wanted=_KEY, key=key)
    require_type(key, _KEY.shape, "the key", 0)
    return _KEY


def _distribution(types: Sequence[Type], attrs: Attrs) -> TupleType:
    dtype = str(attrs["out_dtype"])
    if dtype not in {"float32", "float64"}:
        message = "out_dtype must be {allowed:dtype or}, not {dtype!r}"
        raise RelationError(message, attr="out_dtype", allowed=("float32", "float64"), dtype=dtype)
    for index in (1, 2):
        if tensor(types, index) != scalar_type(dtype):
            message = "expected a scalar of dtype {dtype:dtype}, found {operand}"
            raise RelationError(message, index, attr="out_dtype", dtype=dtype, operand=types[index])
    return TupleType((_key(types), TensorType(dims(attrs, "out_shape"), dtype)))


def _generate(types: Sequence[Type], attrs: Attrs) -> TupleType:
    return TupleType((_key(types), TensorType(dims(attrs, "out_shape"), "uint64")))


def _generate_like(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    _key(types)
    return TensorType(tensor(types, 1).shape, "uint64")


def _split(types: Sequence[Type], _attrs: Attrs) -> TupleType:
    return TupleType((_key(types), _KEY))


_SHAPE = Attr("out_shape", one_or_more(DIM))
for _name, _args, _key_name, _summary, _defaults in (
    ("normal", "mean scale", "NormalAttrs", "normal distribution", {"mean": 0.0, "scale": 1.0}),
    (
        "uniform",
        "low high",
        "UniformAttrs",
        "uniform distribution over [low, high)",
        {"low": 0.0, "high": 1.0},
    ),
):
    declare(
        f"random.{_name}",
        f"key {_args}",
        _distribution,
        f"A new key and numbers of a {_summary}.",
        _SHAPE,
        Attr("out_dtype", DTYPE, "", call_default="float32"),
        attrs_key=_key_name,
        call_order=f"key out_shape out_dtype {_args}",
        keywords={"shape": "out_shape", "dtype": "out_dtype"},
        arg_defaults=_defaults,
        family="random",
    )
declare(
    "random.threefry_generate",
    "key",
    _generate,
    "A new key and random bits as uint64.",
    _SHAPE,
    attrs_key="ThreefryGenerateAttrs",
    keywords={"shape": "out_shape"},
    family="random",
)
declare(
    "numpy.random.bits_like",
    "key like",
    _generate_like,
    "Random bits as uint64, in the shape of another tensor.",
    family="random",
)
declare(
    "random.threefry_split",
    "key",
    _split,
    "Two independent keys from one.",
    family="random",
)
