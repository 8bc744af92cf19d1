"""Read annotations of NumPy's typing, jaxtyping and ``typing.Annotated`` as annotations of a cell.

Only these libraries' own objects are inspected; none of them is imported, and no code of the notebook runs.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterable
from types import EllipsisType

from nnmagic.tinynn.types import annotations as ann

Annotation = ann.DType | ann.DTypeKind | ann.Tensor | ann.OpenTensor | ann.Destination

#: A dimension of any size is None; an Ellipsis stands for any number of dimensions.
Shape = tuple[ann.Dim | EllipsisType | None, ...]

#: Classes of arrays, which say nothing of dtypes and shapes.
_ARRAY_CLASSES = {("numpy", "ndarray"), ("jax", "Array"), ("jaxlib", "Array"), ("torch", "Tensor")}
_UNIONS: tuple[type, ...] = (types.UnionType, type(typing.Union[int, str]))  # noqa: UP007  # the older spelling
_SUBSCRIPTED: tuple[type, ...] = (types.GenericAlias, type(typing.List[int]))  # noqa: UP006  # typing's own
_SIGNED = ("i8", "i16", "i32", "i64")
_UNSIGNED = ("u8", "u16", "u32", "u64")
_FLOATS = ("f16", "bf16", "f32", "f64")
_COMPLEX = ("c64", "c128")
#: What NumPy's scalar types that are no dtypes allow.
_KINDS = {
    kind.name: kind
    for kind in (
        ann.DTypeKind(name, tuple(ann.DTYPES[short] for short in members))
        for name, members in {
            "number": (*_SIGNED, *_UNSIGNED, *_FLOATS, *_COMPLEX),
            "integer": (*_SIGNED, *_UNSIGNED),
            "signedinteger": _SIGNED,
            "unsignedinteger": _UNSIGNED,
            "inexact": (*_FLOATS, *_COMPLEX),
            "floating": _FLOATS,
            "complexfloating": _COMPLEX,
        }.items()
    )
}


class ForeignTypeError(Exception):
    """An annotation of a library says what no tensor of a cell has; the text says what it is."""


def constructor_name(value: object) -> str | None:
    """Return the name of a class or form that is subscripted in annotations; None for any other value."""
    for name in ("Annotated", "Any", "Literal", "Optional", "Union"):
        if value is getattr(typing, name):
            return name
    typed = sys.modules.get("numpy.typing")
    if typed is not None and value is vars(typed).get("NDArray"):
        return "NDArray"
    if ann.is_class(value) and value.__module__.partition(".")[0] in ("numpy", "jax", "jaxlib", "torch"):
        top = value.__module__.partition(".")[0]
        if (top, value.__name__) in _ARRAY_CLASSES:
            return "ndarray"
        if (top, value.__name__) == ("numpy", "dtype"):
            return "dtype"
    return None


def kind_of_dtypes(value: object) -> ann.DTypeKind | None:
    """Return the dtypes that one of NumPy's scalar types stands for, or one of jaxtyping's classes.

    None for any other value, and for those that leave the dtype open.
    """
    if isinstance(value, _SUBSCRIPTED):  # np.floating[Any]
        value = getattr(value, "__origin__", None)
    if not ann.is_class(value):
        return None
    if value.__module__ == "numpy":
        return _KINDS.get(value.__name__)
    if value.__module__.partition(".")[0] != "jaxtyping" or "dtypes" not in dir(value):
        return None
    names = getattr(value, "dtypes", None)
    if not isinstance(names, tuple | list):  # Shaped
        return ann.DTypeKind(value.__name__, tuple(ann.DTYPES.values()))
    known = [ann.dtype_named(name) for name in names if isinstance(name, str)]
    return ann.DTypeKind(value.__name__, tuple(dtype for dtype in known if dtype is not None))


def foreign_annotation(value: object) -> object | None:
    """Return what an annotation object of a library stands for: one of a cell, or what a cell knows.

    None for any other value. Raises ForeignTypeError.
    """
    typed = sys.modules.get("numpy.typing")
    if typed is not None and value is vars(typed).get("ArrayLike"):
        return ann.OpenTensor()
    if type(value).__name__ == "_AnnotatedAlias":
        metadata: tuple[object, ...] = getattr(value, "__metadata__", ())
        own = (
            argument if isinstance(argument, Annotation) else foreign_annotation(argument)
            for argument in metadata
        )
        decided = next((argument for argument in own if argument is not None), None)
        return getattr(value, "__origin__", None) if decided is None else decided
    if isinstance(value, _SUBSCRIPTED):
        origin, arguments = getattr(value, "__origin__", None), _parts(value)
        name = constructor_name(origin)
        if name == "ndarray" and len(arguments) == 2:
            return ann.OpenTensor(_shape_of(arguments[0]), element_of(arguments[1]))
        if name == "dtype":
            return element_of(value)
    if isinstance(value, _UNIONS):
        return ann.OpenType()
    kind = kind_of_dtypes(value)
    dims = getattr(value, "dim_str", None) if kind is not None else None
    return tensor_of(kind, dims) if kind is not None and isinstance(dims, str) else kind


def element_of(value: object) -> ann.DType | ann.DTypeKind | None:
    """Return the dtypes that the element type of an array allows; None if it allows any.

    Raises ForeignTypeError.
    """
    if isinstance(value, ann.DType | ann.DTypeKind):
        return value
    if isinstance(value, typing.TypeVar):
        if value.__constraints__:
            return _one_of(value.__constraints__)
        return None if value.__bound__ is None else element_of(value.__bound__)
    if isinstance(value, _UNIONS):
        return _one_of(_parts(value))
    if isinstance(value, _SUBSCRIPTED) and constructor_name(getattr(value, "__origin__", None)) == "dtype":
        return element_of(_parts(value)[0])
    if value is typing.Any or _is_of_numpy(value, "generic"):
        return None
    dtype = None if isinstance(value, str) else ann.as_dtype(value) or kind_of_dtypes(value)
    if dtype is None:
        raise ForeignTypeError(f"an array of `{getattr(value, '__name__', None) or repr(value)}`")
    return dtype


def _is_of_numpy(value: object, name: str) -> bool:
    return ann.is_class(value) and (value.__module__, value.__name__) == ("numpy", name)


def _one_of(values: Iterable[object]) -> ann.DType | ann.DTypeKind | None:
    """Return the dtypes that one of several element types allows."""
    dtypes = [element_of(value) for value in values]
    if None in dtypes:
        return None
    members: list[ann.DType] = []
    for item in dtypes:
        members += item.dtypes if isinstance(item, ann.DTypeKind) else [item] if item is not None else []
    return (
        members[0] if len(set(members)) == 1 else ann.DTypeKind(" | ".join(map(repr, dtypes)), tuple(members))
    )


def _shape_of(value: object) -> Shape | None:
    """Return the shape that NumPy's first parameter of ``ndarray`` says; None if it leaves the rank open."""
    if not isinstance(value, _SUBSCRIPTED) or getattr(value, "__origin__", None) is not tuple:
        return None
    parts = _parts(value)
    return None if Ellipsis in parts else tuple(map(_size_of, parts))


def _parts(value: object) -> tuple[object, ...]:
    """Return what stands in the brackets of a subscripted type."""
    parts: tuple[object, ...] = getattr(value, "__args__", ())
    return parts


def _size_of(value: object) -> int | None:
    """Return the size that ``Literal[3]`` says; None for any other dimension."""
    written = _parts(value) if getattr(value, "__origin__", None) is typing.Literal else ()
    return written[0] if len(written) == 1 and isinstance(written[0], int) else None


def tensor_of(kind: ann.DTypeKind, dims: str) -> ann.DType | ann.Tensor | ann.OpenTensor:
    """Return what ``Float[Array, "n 3"]`` of jaxtyping says. Raises ForeignTypeError."""
    if not kind.dtypes:
        raise ForeignTypeError(f"an array of jaxtyping's `{kind.name}`")
    shape = tuple(map(_jaxtyping_dim, dims.split()))
    element = (
        kind.dtypes[0] if len(kind.dtypes) == 1 else None if len(kind.dtypes) == len(ann.DTYPES) else kind
    )
    fixed: list[ann.Dim] = [dim for dim in shape if isinstance(dim, int | str)]
    if isinstance(element, ann.DType) and len(fixed) == len(shape):
        return ann.Tensor(tuple(fixed), element)
    return ann.OpenTensor(None if shape == (Ellipsis,) else shape, element)


def _jaxtyping_dim(text: str) -> ann.Dim | EllipsisType | None:
    """Return a dimension of jaxtyping: ``n``, ``3``, ``n+1``, ``...``, ``*batch``, ``_`` or ``k=4``."""
    _, _, size = text.rpartition("=")
    modifiers = size[: len(size) - len(size.lstrip("#*?_"))]
    if size == "..." or "*" in modifiers:
        return Ellipsis
    if modifiers:  # it may be broadcast, or has no name
        return None
    if size.isdecimal():
        return int(size)
    try:
        return ann.parse_named_dim(size)
    except ValueError as problem:
        message = f"jaxtyping's dimension {text!r}, which a cell cannot read: {problem}"
        raise ForeignTypeError(message) from None
