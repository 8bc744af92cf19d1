"""Declare operators that create tensors from attributes or from other tensors' shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from nnmagic.relay.expr import Attrs, Constant
from nnmagic.relay.ops.attributes import BOOL, DIM, DTYPE, EXPRESSION, INT, one_or_more
from nnmagic.relay.ops.checks import require_broadcast, sizes
from nnmagic.relay.ops.declaration import REQUIRED, Attr, Family, RelationError, Trait
from nnmagic.relay.ops.dims import Shape, is_unknown
from nnmagic.relay.ops.relations import broadcast, dims, dtype_or, identity, require_type, tensor
from nnmagic.relay.types import ANY, TensorType, Type, scalar_type

declare = Family("creation", Trait.SPECULATABLE).declare

#: InitOpAttrs: the attributes of zeros, ones, full and broadcast_to.
SHAPE = Attr("shape", one_or_more(DIM))
INIT_DTYPE = Attr("dtype", DTYPE, "")


def _shape(attrs: Attrs) -> Shape:
    return dims(attrs, "shape")


def _full(types: Sequence[Type], attrs: Attrs) -> TensorType:
    fill = tensor(types, rank=0)
    return TensorType(_shape(attrs), dtype_or(attrs, "dtype", fill.dtype))


def _full_like(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    tensor(types, 1, rank=0)
    return tensor(types)


def _arange(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Return a vector, whose length is a number where start, stop and step are constants."""
    dtype = dtype_or(attrs, "dtype", "float32")
    for index in range(3):
        if tensor(types, index) != scalar_type(dtype):
            message = "start, stop and step must be scalars of dtype {dtype:dtype}"
            raise RelationError(message, index, attr="dtype", dtype=dtype)
    given = [attrs[name] for name in ("start", "stop", "step")]
    constants = [value for value in given if isinstance(value, Constant) and value.data.size == 1]
    if len(constants) != 3:
        return TensorType((ANY,), dtype)
    start, stop, step = (float(value.data.flat[0]) for value in constants)
    steps = (stop - start) / step if step else 0.0
    length = math.ceil(steps) if math.isfinite(steps) else 0
    if length <= 0:
        raise RelationError(f"the range from {start:g} to {stop:g} by {step:g} is empty", 0, 1, 2)
    return TensorType((length,), dtype)


def _trilu(types: Sequence[Type], _attrs: Attrs) -> TensorType:
    tensor(types, 1, rank=0)
    return tensor(types)


def _one_hot(types: Sequence[Type], attrs: Attrs) -> TensorType:
    indices, depth = tensor(types), cast(int, attrs["depth"])  # Relay ignores the two values
    if depth <= 0:
        raise RelationError(f"depth must be positive, it is {depth}", attr="depth")
    axis, rank = cast(int, attrs["axis"]), len(indices.shape)
    if not -1 <= axis <= rank:
        raise RelationError(f"axis {axis} is out of range [-1, {rank}]", 0, attr="axis")
    axis = rank if axis == -1 else axis
    return TensorType((*indices.shape[:axis], depth, *indices.shape[axis:]), str(attrs["dtype"]))


def _check_one_hot(types: Sequence[Type], _attrs: Attrs) -> None:
    for index in (1, 2):
        tensor(types, index, rank=0)


for _name in ("zeros", "ones"):
    declare(
        f"{_name}()",
        lambda _types, attrs: TensorType(_shape(attrs), str(attrs["dtype"])),
        f"A tensor of {_name}.",
        SHAPE,
        Attr("dtype", DTYPE, "", call_default=REQUIRED),
        attrs_key="InitOpAttrs",
        numpy=f"numpy.{_name}",
        traits=Trait.MOVES | Trait.CHECKS_SIZES | Trait.FILLS,
    )
    declare(
        f"{_name}_like(data)",
        identity,
        f"A tensor of {_name} with another's shape and dtype.",
        numpy=f"numpy.{_name}_like",
        traits=Trait.MOVES | Trait.CHECKS_SIZES | Trait.FILLS,
    )
declare(
    "full(fill_value)",
    _full,
    "A tensor whose every element is one scalar.",
    Attr("shape", one_or_more(DIM), call_default=()),
    INIT_DTYPE,
    attrs_key="InitOpAttrs",
    numpy="numpy.full",
    traits=Trait.MOVES | Trait.CHECKS_SIZES | Trait.FILLS,
)
declare(
    "full_like(data, fill_value)",
    _full_like,
    "A tensor of one scalar with another's shape and dtype.",
    numpy="numpy.full_like",
    traits=Trait.MOVES | Trait.CHECKS_SIZES | Trait.FILLS,
)
declare(
    "broadcast_to(data)",
    # Relay's type inference does not check that the data can be broadcast to the shape.
    lambda types, attrs: TensorType(_shape(attrs), tensor(types).dtype),
    "Data repeated along axes of length 1 until it has the shape.",
    SHAPE,
    INIT_DTYPE,
    attrs_key="InitOpAttrs",
    call_order="data shape",
    numpy="numpy.broadcast_to",
    traits=Trait.MOVES | Trait.VIEW,
)


def _broadcast_to_like(types: Sequence[Type], attrs: Attrs) -> TensorType:
    """Require the data, broadcast with the other tensor, to have that one's type; ``?`` stays unknown."""
    like, result = tensor(types, 1), broadcast(types, attrs)
    require_type(like, result.shape, "the other tensor", 1)
    dims = zip(like.shape, result.shape, strict=True)
    return TensorType(tuple(want if is_unknown(want) else have for want, have in dims), like.dtype)


def _fit_broadcast(types: Sequence[Type], _attrs: Attrs) -> None:
    data, like = sizes(types)
    require_broadcast(data, like)


declare(
    "broadcast_to_like(data, broadcast_type)",
    _broadcast_to_like,
    "Data repeated along axes of length 1 until it has another tensor's shape.",
    traits=Trait.MOVES | Trait.VIEW,
    shape_constraints=[_fit_broadcast],
)
declare(
    "arange(start, end, step)",
    _arange,
    "Numbers from start up to stop (not included), step by step.",
    Attr("start", EXPRESSION),
    Attr("stop", EXPRESSION),
    Attr("step", EXPRESSION),
    Attr("dtype", DTYPE, call_default="float32"),
    call_order="start end step dtype",
    keywords={"stop": "end"},
    numpy="numpy.arange",
    traits=Trait.MOVES | Trait.RESHAPES,
)
declare(
    "one_hot(indices, on_value, off_value)",
    _one_hot,
    "on_value where the index along a new axis is the element, off_value elsewhere.",
    Attr("depth", INT, 1, call_default=REQUIRED),
    Attr("axis", INT, -1, call_default=REQUIRED),
    Attr("dtype", DTYPE, "", call_default=REQUIRED),
    preconditions=[_check_one_hot],
)
declare(
    "trilu(data, k)",
    _trilu,
    "The upper or lower triangles of matrices, zero elsewhere.",
    Attr("upper", BOOL, default=True),
    numpy="numpy.triu",
)
