"""Declare the operator that calls a function of Python, which real Relay lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from nnmagic.relay.callbacks import CALLBACK, PythonFunction
from nnmagic.relay.expr import Attrs
from nnmagic.relay.ops.attributes import BOOL, DIMS, DTYPE, AttrKind, array
from nnmagic.relay.ops.declaration import Attr, Family, RelationError
from nnmagic.relay.ops.dims import Shape
from nnmagic.relay.ops.relations import tensors_of_tuple
from nnmagic.relay.types import ARRAY_DTYPES, TensorType, TupleType, Type, is_complex

declare = Family("python").declare


def _function(value: object) -> PythonFunction | str:
    """Return a function of Python; Relay's text has its name alone."""
    if isinstance(value, PythonFunction | str):
        return value
    raise TypeError(f"must be a relay.PythonFunction, not a {type(value).__name__}")


def _callback(types: Sequence[Type], attrs: Attrs) -> Type:
    """Return the tensor of the declared shape and dtype; a tuple if their number is not one."""
    if types != [TupleType(())] and types[0] != TupleType(()):
        tensors_of_tuple(types)
    shapes, dtypes = cast("Sequence[Shape]", attrs["shapes"]), cast("Sequence[str]", attrs["dtypes"])
    if len(shapes) != len(dtypes):
        raise RelationError(f"there are {len(shapes)} shapes and {len(dtypes)} dtypes", attr="dtypes")
    for dtype in dtypes:
        if dtype not in ARRAY_DTYPES or is_complex(dtype):
            raise RelationError(f"no tensor of the dtype {dtype!r} comes from Python", attr="dtypes")
    results = tuple(TensorType(tuple(shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True))
    return results[0] if len(results) == 1 else TupleType(results)


declare(
    f"{CALLBACK}(data)",
    _callback,
    "What a function of Python returns for some tensors.",
    Attr("function", AttrKind("function of Python", _function)),
    Attr("shapes", array(DIMS)),
    Attr("dtypes", array(DTYPE)),
    Attr("effects", BOOL, default=False),
    attrs_key="CallbackAttrs",
    variadic=True,
)
