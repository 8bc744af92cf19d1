"""Represent annotations as Python objects: ``Tensor[(2, 3), f32]`` evaluates in any Python file.

Imports neither NumPy nor synr nor the rest of the compiler, so that importing nnmagic stays fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from keyword import iskeyword
from typing import TYPE_CHECKING, NoReturn

from nnmagic.tracebacks import short_errors

if TYPE_CHECKING:
    import numpy as np

    from nnmagic.relay.types import TensorType

__all__ = [
    "CHANGED",
    "DESTINATIONS",
    "DTYPES",
    "GENERATOR",
    "DType",
    "Destination",
    "Dim",
    "Generator",
    "InOut",
    "OpenTensor",
    "Out",
    "Tensor",
    "dtype_named",
]

#: A dimension in an annotation: a number, the name of a dynamic dimension, or
#: arithmetic on such names (``"2*n"``, ``"n + m"``, ``"n // 2"``).
Dim = int | str


@dataclass(frozen=True, slots=True)
class DType:
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


def dtype_named(name: str) -> DType | None:
    """Return the dtype by its name in Relay, NumPy or a cell; None if there is none."""
    return _BY_NAME.get(name) or DTYPES.get(name)


@dataclass(frozen=True, slots=True)
class Tensor:
    """Annotation of a tensor: ``Tensor[(2, "n"), f32]`` has two rows and any number of columns.

    ``Tensor[(), f32]`` has rank 0. ``Tensor[..., f32]`` and ``Tensor[("n", 3)]`` leave the shape or the dtype
    to each call. An invalid shape or dtype raises TypeError or ValueError.
    """

    shape: tuple[Dim, ...]
    dtype: DType

    @short_errors
    def __class_getitem__(cls, item: object) -> Tensor | OpenTensor:
        if _is_open_shape(item):
            return OpenTensor(check_shape(item), None)
        if isinstance(item, tuple) and len(item) == 2 and item[0] is Ellipsis and isinstance(item[1], DType):
            return OpenTensor(None, item[1])
        if not isinstance(item, tuple) or len(item) != 2:
            example = "Tensor[(2, 3), f32]"
            if isinstance(item, tuple) and len(item) > 2 and isinstance(item[-1], DType):
                example = f"Tensor[{item[:-1]!r}, {item[-1]!r}]"
            raise TypeError(f"Tensor takes a shape and a dtype, as in {example}")
        shape, dtype = item
        if not isinstance(dtype, DType):
            raise TypeError(f"the second part of Tensor[...] must be a dtype such as f32, not {dtype!r}")
        return cls(check_shape(shape), dtype)

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
class OpenTensor:
    """Annotation of a tensor that a call completes: ``Tensor``, ``Tensor[..., f32]``, ``Tensor[("n", 3)]``.

    ``shape`` and ``dtype`` are None where the argument's count.
    """

    shape: tuple[Dim, ...] | None = None
    dtype: DType | None = None

    def __call__(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Refuse to make a tensor; defined because Python 3.10 requires a type hint to be callable."""
        raise TypeError(f"{self!r} is a type; it does not make tensors")

    def __repr__(self) -> str:
        if self.shape is None:
            return "Tensor" if self.dtype is None else f"Tensor[..., {self.dtype!r}]"
        return f"Tensor[{self.shape!r}]"


def _is_open_shape(item: object) -> bool:
    """Return whether what stands in the brackets of ``Tensor`` is a shape alone: dimensions and no dtype."""
    return isinstance(item, tuple) and all(
        isinstance(dim, int | str) and not isinstance(dim, bool) for dim in item
    )


@dataclass(frozen=True, slots=True)
class Destination:
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
