"""Represent annotations as Python objects: ``Tensor[(2, 3), f32]`` evaluates in any Python file.

Imports neither NumPy nor synr nor the rest of the compiler, so that importing nnmagic stays fast.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from keyword import iskeyword
from types import EllipsisType
from typing import TYPE_CHECKING, NoReturn, TypeGuard

from nnmagic.tracebacks import short_errors

if TYPE_CHECKING:
    import numpy as np

    from nnmagic.relay.types import TensorType, Type

__all__ = [
    "CHANGED",
    "DESTINATIONS",
    "DTYPES",
    "GENERATOR",
    "PYTHON_DTYPES",
    "DType",
    "DTypeKind",
    "Destination",
    "Dim",
    "Generator",
    "InOut",
    "OpenTensor",
    "OpenType",
    "Out",
    "Tensor",
    "as_dtype",
    "dtype_named",
]

#: A dimension in an annotation: a number, the name of a dynamic dimension, or
#: arithmetic on such names (``"2*n"``, ``"n + m"``, ``"n // 2"``).
Dim = int | str


class _Annotation:
    """What annotations have in common: ``f32 | None`` is a union in Python."""

    __slots__ = ()

    def __or__(self, other: object) -> object:
        import typing

        return typing.Union[self, other]  # noqa: UP007  # `|` is what is defined here

    __ror__ = __or__


@dataclass(frozen=True, slots=True)
class DType(_Annotation):
    """Element type; as an annotation, a tensor of rank 0 (``alpha: f32``).

    ``name`` is Relay's and NumPy's (``float32``), ``short`` is the cell's (``f32``).
    """

    name: str
    short: str

    def __repr__(self) -> str:
        return self.short

    def __call__(self, value: object) -> np.ndarray | np.generic:
        """Convert a value outside a cell: to a NumPy scalar, or to an array of this dtype."""
        import numpy as np

        converted: np.ndarray | np.generic = np.asarray(value).astype(self.dtype)[()]
        return converted

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """Return the NumPy dtype; NumPy asks for it, so that ``np.zeros(3, dtype=f32)`` works."""
        from nnmagic.relay.types import ARRAY_DTYPES

        return ARRAY_DTYPES[self.name]

    def relay_type(self) -> TensorType:
        """Return the type of a rank-0 tensor."""
        from nnmagic.relay.types import scalar_type

        return scalar_type(self.name)


f16, bf16 = DType("float16", "f16"), DType("bfloat16", "bf16")
f32, f64 = DType("float32", "f32"), DType("float64", "f64")
i8, i16, i32, i64 = (DType(f"int{bits}", f"i{bits}") for bits in (8, 16, 32, 64))
u8, u16, u32, u64 = (DType(f"uint{bits}", f"u{bits}") for bits in (8, 16, 32, 64))
bool_ = DType("bool", "bool_")
c64, c128 = DType("complex64", "c64"), DType("complex128", "c128")

#: Dtypes by their names in a cell.
DTYPES: dict[str, DType] = {
    dtype.short: dtype
    for dtype in (f16, bf16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64, bool_, c64, c128)
}
_BY_NAME = {dtype.name: dtype for dtype in DTYPES.values()}

#: What Python's types of numbers are, by their names.
PYTHON_DTYPES: dict[str, DType] = {"bool": bool_, "int": i64, "float": f64, "complex": c128}
_PYTHON_TYPES = {bool: bool_, int: i64, float: f64, complex: c128}


def dtype_named(name: str) -> DType | None:
    """Return the dtype by its name in Relay, NumPy or a cell; None if there is none."""
    return _BY_NAME.get(name) or DTYPES.get(name)


def as_dtype(value: object) -> DType | None:
    """Return the dtype that an object stands for, None if it stands for none.

    That is a dtype of a cell, Python's ``bool``, ``int``, ``float`` and ``complex``, a dtype or a scalar type
    of NumPy, JAX or PyTorch, or the name of one, as in ``"float32"`` and ``"f4"``.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str):
        return dtype_named(value) or _numpy_dtype(value)
    for python, dtype in _PYTHON_TYPES.items():  # by identity: classes of the notebook may define equality
        if value is python:
            return dtype
    if type(value).__qualname__ == "dtype" and type(value).__module__ == "torch":
        return dtype_named(repr(value).removeprefix("torch."))
    if type(value).__module__.startswith("numba."):  # numba.float64, numba.boolean
        return _numpy_dtype(object.__getattribute__(value, "__dict__").get("name"))
    if "numpy" not in sys.modules:
        return None
    import numpy as np

    if is_class(value):
        if value.__module__.startswith("jax."):  # a scalar type of JAX has its dtype as an attribute
            return _numpy_dtype(vars(value).get("dtype"))
        return _numpy_dtype(value) if issubclass(value, np.generic) else None
    return _numpy_dtype(value)


def is_class(value: object) -> TypeGuard[type]:
    """Return whether a value is a class; in Python 3.10, ``isinstance`` takes ``list[int]`` for one."""
    return issubclass(type(value), type)


def _numpy_dtype(value: object) -> DType | None:
    """Return the dtype of a NumPy dtype, its name or its scalar type, in any byte order."""
    import numpy as np

    if not isinstance(value, str | type | np.dtype):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error"
        )  # NumPy warns of deprecated names, and of types that are kinds of dtypes
        try:
            return _BY_NAME.get(np.dtype(value).newbyteorder("=").name)
        except (TypeError, ValueError, Warning):
            return None


@dataclass(frozen=True, slots=True)
class DTypeKind(_Annotation):
    """Several dtypes of which an annotation allows each, such as those of ``np.floating``."""

    name: str
    dtypes: tuple[DType, ...]

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse to make a number; defined because Python 3.10 requires a type hint to be callable."""
        raise TypeError(f"{self!r} is a kind of dtypes; it does not make numbers")


@dataclass(frozen=True, slots=True)
class Tensor(_Annotation):
    """Annotation of a tensor: ``Tensor[(2, "n"), f32]`` has two rows and any number of columns.

    ``Tensor[(), f32]`` has rank 0. ``Tensor[..., f32]`` and ``Tensor[("n", 3)]`` leave the shape or the dtype
    to each call. A dtype may also be Python's (``float``) or NumPy's (``np.float32``, ``"float32"``). An
    invalid shape or dtype raises TypeError or ValueError.
    """

    shape: tuple[Dim, ...]
    dtype: DType

    @short_errors
    def __class_getitem__(cls, item: object) -> Tensor | OpenTensor:
        if _is_open_shape(item):
            return OpenTensor(check_shape(item), None)
        if not isinstance(item, tuple) or len(item) != 2:
            example = "Tensor[(2, 3), f32]"
            if isinstance(item, tuple) and len(item) > 2 and (dtype := as_dtype(item[-1])) is not None:
                example = f"Tensor[{item[:-1]!r}, {dtype!r}]"
            raise TypeError(f"Tensor takes a shape and a dtype, as in {example}")
        shape, element = item
        dtype = as_dtype(element)
        if dtype is None:
            raise TypeError(f"the second part of Tensor[...] must be a dtype such as f32, not {element!r}")
        return OpenTensor(None, dtype) if shape is Ellipsis else cls(check_shape(shape), dtype)

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse to make a tensor; defined because Python 3.10 requires a type hint to be callable."""
        raise TypeError(f"{self!r} is a type; it does not make tensors")

    def __repr__(self) -> str:
        return f"Tensor[{self.shape!r}, {self.dtype!r}]"

    def relay_type(self) -> TensorType:
        """Return the Relay type; a named dimension is a ``?`` that keeps its name."""
        from nnmagic.relay.types import AnyDim, TensorType

        dims = tuple(AnyDim(dim) if isinstance(dim, str) else dim for dim in self.shape)
        return TensorType(dims, self.dtype.name)


@dataclass(frozen=True, slots=True)
class OpenTensor(_Annotation):
    """Annotation of a tensor that a call completes: ``Tensor``, ``Tensor[..., f32]``, ``Tensor[("n", 3)]``.

    ``shape`` and ``dtype`` are None where the argument's count. In the annotations of other libraries, a
    dimension that is None has any size, and an Ellipsis stands for any number of them.
    """

    shape: tuple[Dim | EllipsisType | None, ...] | None = None
    dtype: DType | DTypeKind | None = None

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse to make a tensor; defined because Python 3.10 requires a type hint to be callable."""
        raise TypeError(f"{self!r} is a type; it does not make tensors")

    def __repr__(self) -> str:
        if self.shape is None:
            return "Tensor" if self.dtype is None else f"Tensor[..., {self.dtype!r}]"
        dims = "".join(
            f"{'...' if dim is Ellipsis else '_' if dim is None else repr(dim)}, " for dim in self.shape
        )
        shape = f"({dims[:-1] if len(self.shape) == 1 else dims[:-2]})"
        return f"Tensor[{shape}]" if self.dtype is None else f"Tensor[{shape}, {self.dtype!r}]"

    @property
    def own_dtype(self) -> DType | None:
        """Return the dtype if the annotation allows only one."""
        return self.dtype if isinstance(self.dtype, DType) else None

    def allows(self, dtype: str) -> bool:
        """Return whether the annotation allows a dtype."""
        if isinstance(self.dtype, DTypeKind):
            return any(dtype == each.name for each in self.dtype.dtypes)
        return self.dtype is None or dtype == self.dtype.name

    def dims(self, rank: int) -> tuple[Dim | None, ...] | None:
        """Return the dimensions of a tensor of a rank, None for any size; None if the rank does not fit."""
        shape = (Ellipsis,) if self.shape is None else self.shape
        more = [None] * (rank - len(shape) + 1)
        known = [more if dim is Ellipsis else [dim] for dim in shape]
        result = tuple(dim for part in known for dim in part)
        return result if len(result) == rank else None

    def relay_type(self, like: TensorType) -> TensorType:
        """Return the type that the annotation says of a tensor of that type, whose rank fits."""
        from nnmagic.relay.types import AnyDim, TensorType

        dims = (dim if isinstance(dim, int) else AnyDim(dim) for dim in self.dims(len(like.shape)) or ())
        return TensorType(tuple(dims), like.dtype)

    @property
    def rank_text(self) -> str:
        """Return the ranks that the annotation allows, as messages say them."""
        assert self.shape is not None
        least = len(self.shape) - (Ellipsis in self.shape)
        return f"{least}" if least == len(self.shape) else f"{least} or more"


@dataclass(frozen=True, slots=True)
class OpenType:
    """Annotation such as ``Any``, ``np.ndarray | None`` and ``tuple[np.ndarray, float]``.

    ``fields``: the types of a tuple's items, a part of which are open; None if it is not known to be a tuple.
    """

    fields: tuple[Type | OpenTensor | OpenType, ...] | None = None


def _is_open_shape(item: object) -> bool:
    """Return whether what stands in the brackets of ``Tensor`` is a shape alone: dimensions and no dtype."""
    if not isinstance(item, tuple):
        return False
    if len(item) == 2 and isinstance(item[1], str) and dtype_named(item[1]) is not None:
        return False  # Tensor["n", "float32"]
    return all(isinstance(dim, int | str) and not isinstance(dim, bool) for dim in item)


@dataclass(frozen=True, slots=True)
class Destination(_Annotation):
    """Annotation of a parameter whose array a call changes; ``tensor`` is the array's type."""

    tensor: Tensor

    @short_errors
    def __class_getitem__(cls, item: object) -> Destination:
        name = cls.__name__
        if not isinstance(item, Tensor):
            raise TypeError(f"{name} takes the type of a tensor, as in {name}[Tensor[(2, 3), f32]]")
        if not item.shape:
            raise TypeError(f"{name} takes a tensor with elements to assign: one of rank 1 or more")
        return cls(item)

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse to make an array; defined because Python 3.10 requires a type hint to be callable."""
        raise TypeError(f"{self!r} is a type; it does not make arrays")

    def __repr__(self) -> str:
        return f"{type(self).__name__}[{self.tensor!r}]"


class Out(Destination):
    """Annotation of an array that a call fills: ``Out[Tensor[("n",), f32]]``.

    The function finds zeros in it, whatever the caller's array holds.
    """

    __slots__ = ()


class InOut(Destination):
    """Annotation of an array that a call reads and changes: ``InOut[Tensor[("n",), f32]]``."""

    __slots__ = ()


class Generator(Destination):
    """Annotation of a generator of random numbers, ``np.random.Generator``: Relay has its state."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "numpy.random.Generator"


#: Annotations of arrays that a call changes, by their names in a cell.
DESTINATIONS: dict[str, type[Destination]] = {"Out": Out, "InOut": InOut}

#: Annotations of what a call changes, by the destinations of parameters.
CHANGED: dict[str, type[Destination]] = {**DESTINATIONS, "Generator": Generator}

#: What ``np.random.Generator`` means, with the type of a state (see `nnmagic.relay.generators`).
GENERATOR = Generator(Tensor((6,), u64))


def check_shape(shape: object) -> tuple[Dim, ...]:
    """Return the shape of an annotation: a tuple or list of dimensions, or one dimension for rank 1."""
    if shape is Ellipsis:
        raise TypeError("a tensor's rank must be known: name each dimension, as in Tensor[('n', 'm'), f32]")
    if isinstance(shape, int | str):
        return (check_dim(shape),)
    if isinstance(shape, tuple | list):
        return tuple(check_dim(dim) for dim in shape)
    if isinstance(shape, Iterable) or hasattr(shape, "__index__"):
        raise TypeError(f"a shape must be a tuple of ints and names, not {type(shape).__name__}")
    raise TypeError(f"a shape must be a tuple of ints and names, not {shape!r}")


def check_dim(dim: object) -> Dim:
    """Return one dimension of an annotation; raise TypeError or ValueError if it is invalid."""
    if dim is Ellipsis:
        raise TypeError("a tensor's rank must be known: name each dimension, as in Tensor[('n', 'm'), f32]")
    if isinstance(dim, str):
        return parse_named_dim(dim)
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise TypeError(f"a dimension must be an int or a name, not {dim!r}")
    if not 0 <= dim < 2**63:
        raise ValueError(f"a dimension cannot be {dim}")
    return int(dim)


def parse_named_dim(text: str) -> Dim:
    """Return a name, or arithmetic on names in canonical form: ``"n*2"`` is ``"2*n"``."""
    if text.isascii() and text.isidentifier() and not iskeyword(text):
        return text
    from nnmagic.relay.polynomials import NoPolynomialError, has_positive_part, polynomial

    try:
        value = polynomial(text)
    except NoPolynomialError as problem:
        message = f"a dimension's name must be an identifier or arithmetic on names, not {text!r}: {problem}"
        raise ValueError(message) from None
    if has_positive_part(value):
        raise ValueError(f"the dimension {text!r} is a maximum: name it, and compute it where it is needed")
    if value.number is not None:
        raise ValueError(f"the dimension {text!r} is the number {value}: write it without quotes")
    return str(value)
