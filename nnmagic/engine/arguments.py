"""Check the arguments of a call against the Relay types of parameters, and convert them to NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.engine.foreign_arrays import EXPORT_ERRORS, conversion_of, importer_of
from nnmagic.relay import types as ty
from nnmagic.relay.signatures import format_type
from nnmagic.relay.values import AdtValue, is_masked

if TYPE_CHECKING:
    from nnmagic.relay.module import TypeData

#: An argument or a result: an array, or a tuple or a value of a data type of them.
Value = "np.ndarray | tuple[Value, ...] | AdtValue"
#: An int of more bits is shown as their number; Python writes none of more than 4300 digits.
_MOST_BITS = 1024


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a compiled function: its name for messages, its Relay type, and the data types in it."""

    name: str
    type: ty.Type
    data_types: Mapping[str, TypeData] = field(default_factory=dict)
    #: What an array that needs no further look has; None where the type is no tensor of a known shape.
    _exact: tuple[np.dtype[np.generic], tuple[int, ...]] | None = field(
        init=False, default=None, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        match self.type:
            case ty.TensorType(shape=shape, dtype=dtype) if dtype in ty.ARRAY_DTYPES:
                fixed = tuple(dim for dim in shape if isinstance(dim, int))
                if len(fixed) == len(shape):
                    object.__setattr__(self, "_exact", (ty.ARRAY_DTYPES[dtype], fixed))


def convert_argument(
    parameter: Parameter,
    value: object,
    dims: MutableMapping[str, int],
    is_checked: Callable[[ty.TypeCall, object], bool] = lambda _type, _value: False,
) -> object:
    """Return the array (or tuple or AdtValue of arrays) for an argument, checked against its parameter.

    Args:
        parameter: the parameter.
        value: a NumPy array or scalar, a Python number (rank 0 only), or an object that exports an
            array (``foreign_arrays``). It is copied only if it must be.
        dims: collects the sizes of named dimensions over the arguments of one call.
        is_checked: returns whether a value of a data type, whole or a part, needs no check.

    Raises:
        TypeError: for a wrong kind, dtype or rank.
        ValueError: for a wrong size, or a number that the dtype cannot hold. Messages name the parameter.

    """
    exact = parameter._exact
    if (
        exact is not None
        and type(value) is np.ndarray
        and value.dtype is exact[0]
        and value.shape == exact[1]
    ):
        return value
    if isinstance(parameter.type, ty.TensorType):
        return _tensor(parameter.name, parameter.type, value, dims)
    return _Conversion(parameter, dims, is_checked).of(value)


class _Path(NamedTuple):
    """The path to a part of an argument, such as ``l.Cons[1]``. Formatted only for messages."""

    outer: _Path | str
    constructor: str | None
    field: int
    name: str | None = None

    def __str__(self) -> str:
        steps = []
        path: _Path | str = self
        while isinstance(path, _Path):
            name = "" if path.constructor is None else f".{path.constructor}"
            steps.append(f"{name}[{path.field}]" if path.name is None else f".{path.name}")
            path = path.outer
        if len(steps) > 6:
            left_out = len(steps) - 4
            steps[2:-2] = [f" ... ({left_out} steps) ... "]
        return path + "".join(reversed(steps))


class _Conversion:
    """The conversion of one argument, with an explicit stack because lists nest as deep as they are long."""

    def __init__(
        self,
        parameter: Parameter,
        dims: MutableMapping[str, int],
        is_checked: Callable[[ty.TypeCall, object], bool],
    ) -> None:
        self.parameter = parameter
        self.dims = dims
        self.is_checked = is_checked
        self.field_types: dict[tuple[ty.TypeCall, str], tuple[ty.Type, ...]] = {}

    def of(self, value: object) -> object:
        """Return the converted value."""
        arrays: list[object] = []
        # What to do: convert the value at a path, or put together so many of those made last.
        work: list[tuple[_Path | str, ty.Type, object] | tuple[int, str | None]] = [
            (self.parameter.name, self.parameter.type, value)
        ]
        while work:
            task = work.pop()
            if len(task) == 2:
                count, constructor = task
                fields = tuple(arrays[len(arrays) - count :])
                del arrays[len(arrays) - count :]
                arrays.append(fields if constructor is None else AdtValue(constructor, fields))
                continue
            path, type_, item = task
            match type_:
                case ty.TensorType():
                    arrays.append(_tensor(path, type_, item, self.dims))
                case ty.TupleType(fields=types):
                    items = _tuple_fields(path, type_, item)
                    work.append((len(types), None))
                    names = type_.names if isinstance(type_, ty.RecordType) else [None] * len(types)
                    steps = [
                        (_Path(path, None, i, names[i]), *pair) for i, pair in _enumerate_pairs(types, items)
                    ]
                    work.extend(reversed(steps))
                case ty.TypeCall() if self.is_checked(type_, item):
                    arrays.append(item)
                case ty.TypeCall():
                    adt = self._require_adt(path, type_, item)
                    types = self._types_of_fields(path, type_, adt)
                    work.append((len(types), adt.constructor))
                    steps = [
                        (_Path(path, adt.constructor, i), *pair)
                        for i, pair in _enumerate_pairs(types, adt.fields)
                    ]
                    work.extend(reversed(steps))
                case _:
                    raise TypeError(
                        f"{path} is of type {format_type(type_)}, which cannot be passed from Python"
                    )
        return arrays[0]

    def _require_adt(self, path: _Path | str, type_: ty.TypeCall, item: object) -> AdtValue:
        if isinstance(item, AdtValue):
            return item
        data = self.parameter.data_types.get(type_.func.name)
        name = type_.func.name
        forms = (
            [
                f"{name}.{constructor.name}({'...' if constructor.inputs else ''})"
                for constructor in data.constructors
            ]
            if data
            else []
        )
        by = f", made by {' or '.join(forms)}" if forms else ""
        raise TypeError(f"{path} must be {format_type(type_)}{by}, not {kind_of(item)}")

    def _types_of_fields(self, path: _Path | str, type_: ty.TypeCall, item: AdtValue) -> tuple[ty.Type, ...]:
        """Return the types of a value's fields after checking its constructor and their number."""
        types = self.field_types.get((type_, item.constructor))
        if types is None:
            data = self.parameter.data_types.get(type_.func.name)
            if data is None:
                raise TypeError(f"{path} is of type {format_type(type_)}, which the module does not define")
            constructors = [
                constructor for constructor in data.constructors if constructor.name == item.constructor
            ]
            if not constructors:
                names = ", ".join(constructor.name for constructor in data.constructors)
                raise TypeError(
                    f"{path} must be {format_type(type_)}, made by {names}; "
                    f"{item.constructor!r} is none of its constructors"
                )
            from nnmagic.relay.infer.unify import substitute

            values = dict(zip(data.type_vars, type_.args, strict=True))
            types = tuple(substitute(input_type, values) for input_type in constructors[0].inputs)
            self.field_types[type_, item.constructor] = types
        fields: object = item.fields
        if not isinstance(fields, tuple | list) or len(fields) != len(types):
            given = len(fields) if isinstance(fields, tuple | list) else kind_of(fields)
            raise TypeError(
                f"{path}: {item.constructor} has {len(types)} field{'' if len(types) == 1 else 's'}, "
                f"({', '.join(map(format_type, types))}), not {given}"
            )
        return types


def _enumerate_pairs(
    types: Sequence[ty.Type], items: Sequence[object]
) -> Iterator[tuple[int, tuple[ty.Type, object]]]:
    return enumerate(zip(types, items, strict=True))


def _tuple_fields(path: _Path | str, type_: ty.TupleType, value: object) -> Sequence[object]:
    if not isinstance(value, tuple | list):
        raise TypeError(f"{path} must be a tuple, {format_type(type_)}, not {kind_of(value)}")
    if len(value) != len(type_.fields):
        raise TypeError(
            f"{path} must be a tuple of {len(type_.fields)}, {format_type(type_)}, not of {len(value)}"
        )
    return value


def _tensor(
    name: _Path | str, type_: ty.TensorType, value: object, dims: MutableMapping[str, int]
) -> np.ndarray:
    array = _as_array(name, type_, value)
    _check_array(name, type_, array, dims, value)
    return array


def _as_array(name: _Path | str, type_: ty.TensorType, value: object) -> np.ndarray:
    if is_masked(value):
        raise TypeError(f"{name} must be {format_type(type_)}; a masked array has a mask that would be lost")
    if isinstance(value, np.generic) and not type_.shape and value.dtype != ty.ARRAY_DTYPES[type_.dtype]:
        value = _python_number(value, type_.dtype)
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if (
        isinstance(value, int | float | complex)
        and not isinstance(value, bool)
        and ty.is_complex(type_.dtype)
    ):
        return _from_complex(name, type_, value)
    if isinstance(value, bool | int | float):
        return _from_number(name, type_, value)
    _refuse_lazy(name, value)
    imported = importer_of(value)
    if imported is None:
        hint = "; convert it with numpy.asarray(..., dtype=...)" if isinstance(value, list | tuple) else ""
        raise TypeError(f"{name} must be {format_type(type_)}, not {kind_of(value)}{hint}")
    try:
        return imported()
    except EXPORT_ERRORS as error:
        raise TypeError(
            f"{name} must be {format_type(type_)}; {kind_of(value)} gave no array: {error}"
        ) from error


def as_numpy(what: str, value: object) -> np.ndarray | None:
    """Return an array, a NumPy scalar or an object that exports an array as a NumPy array.

    Return None for anything else. Raises TypeError, which names ``what``, where the export fails.
    """
    if isinstance(value, np.ndarray | np.generic):
        return value if isinstance(value, np.ndarray) else np.asarray(value)
    _refuse_lazy(what, value)
    imported = importer_of(value)
    if imported is None:
        return None
    try:
        return imported()
    except EXPORT_ERRORS as error:
        raise TypeError(f"{what}: {kind_of(value)} gave no array: {error}") from error


def _refuse_lazy(name: _Path | str, value: object) -> None:
    """Raise TypeError for an array that is computed when it is asked for: Dask's, and xarray's over these."""
    graph = getattr(type(value), "__dask_graph__", None)
    if graph is None or graph(value) is None:
        return
    mapped = "nnmagic.dask.map_blocks(f, x)"
    if hasattr(value, "dims"):
        mapped = "xarray.apply_ufunc(f, x, dask='parallelized', output_dtypes=[...])"
    raise TypeError(
        f"{name} is a lazy array, all of which the call would compute: map the function over its blocks, as "
        f"in {mapped} or f.ufunc(x), or compute it first, as in f(x.compute())"
    )


def _python_number(value: np.generic, wanted: str) -> object:
    """Return a NumPy scalar of another dtype as the equal Python number; anything else unchanged."""
    dtype = ty.dtype_of_array(np.asarray(value))
    if dtype is None or (ty.is_complex(dtype) and not ty.is_complex(wanted)):
        return value
    return float(value) if ty.is_float(dtype) else value.item()


def _from_number(name: _Path | str, type_: ty.TensorType, value: bool | float) -> np.ndarray:
    """Convert a Python number to the parameter's dtype, if the dtype can hold it."""
    _require_rank_0(name, type_, value)
    dtype, short = type_.dtype, format_type(type_)
    fits = (
        dtype == "bool"
        if isinstance(value, bool)
        else ty.is_float(dtype) or (ty.is_integer(dtype) and isinstance(value, int))
    )
    if not fits:
        kind, shown = type(value).__name__, _format_number(value)
        raise TypeError(f"{name} must be {short}, not the Python {kind} {shown}")
    if ty.is_integer(dtype):
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            shown = _format_number(value)
            raise ValueError(f"{name} must be {short}, from {limits.min} to {limits.max}; {shown} is outside")
    elif ty.is_float(dtype) and _largest(dtype) < abs(value) != math.inf:
        raise ValueError(f"{name} must be {short}; {_format_number(value)} is too large for it")
    return np.asarray(float(value) if ty.is_float(dtype) else value, dtype=ty.ARRAY_DTYPES[dtype])


def _from_complex(name: _Path | str, type_: ty.TensorType, value: complex) -> np.ndarray:
    """Convert a Python number to a complex parameter's dtype."""
    _require_rank_0(name, type_, value)
    largest = _largest(ty.part_dtype(type_.dtype))
    for part in (value.real, value.imag):
        if largest < abs(part) != math.inf:
            shown = _format_number(value)
            raise ValueError(f"{name} must be {format_type(type_)}; {shown} is too large for it")
    return np.asarray(complex(value), dtype=ty.ARRAY_DTYPES[type_.dtype])


def _require_rank_0(name: _Path | str, type_: ty.TensorType, value: object) -> None:
    if type_.shape:
        raise TypeError(
            f"{name} must be {format_type(type_)}, an array of rank {len(type_.shape)}, not {kind_of(value)}"
        )


def _format_number(value: complex) -> str:
    """Format a number for a message."""
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"an int of {value.bit_length()} bits"
    return repr(value)


def _largest(dtype: str) -> float:
    if dtype != "bfloat16":
        return float(np.finfo(dtype).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]  # ml_dtypes types its classes only


def _check_array(
    name: _Path | str, type_: ty.TensorType, array: np.ndarray, dims: MutableMapping[str, int], given: object
) -> None:
    """Check an array of the argument ``given``. Raises TypeError and ValueError."""
    if array.dtype.newbyteorder("=") != ty.ARRAY_DTYPES[type_.dtype]:
        can_convert = array.dtype.kind in ("biufVc" if ty.is_complex(type_.dtype) else "biufV")
        hint = f"; convert it with {conversion_of(given, type_.dtype)}" if can_convert else ""
        raise TypeError(f"{name} must be {format_type(type_)}, not an array of {array.dtype}{hint}")
    if array.ndim != len(type_.shape):
        raise TypeError(
            f"{name} must be {format_type(type_)}, of rank {len(type_.shape)}, not of rank {array.ndim} "
            f"(shape {array.shape})"
        )
    for axis, (expected, size) in enumerate(zip(type_.shape, array.shape, strict=True)):
        _check_dim(name, type_, array, axis, expected, size, dims)


def _check_dim(
    name: _Path | str,
    type_: ty.TensorType,
    array: np.ndarray,
    axis: int,
    expected: ty.Dim,
    size: int,
    dims: MutableMapping[str, int],
) -> None:
    """Check one dimension; a named one must agree over all arguments of a call."""
    label = _label(expected)
    if label is None:
        problem = (
            f"must be {expected}, not {size}" if isinstance(expected, int) and expected != size else None
        )
    else:
        dim = dims.get(label)
        problem = None if dim == size else _learn(label, dim, size, dims)
    if problem is not None:
        raise ValueError(
            f"{name} must be {format_type(type_)}, not of shape {array.shape}: dimension {axis} {problem}"
        )


def _learn(label: str, known_dim: int | None, size: int, dims: MutableMapping[str, int]) -> str | None:
    """Record the size of a label and what follows from it; return the contradiction, if any."""
    if known_dim is not None:
        return f'("{label}") is {known_dim} elsewhere in this call, not {size}'
    problem = None if label.isidentifier() else _contradiction(label, size, dims)
    if problem is not None:
        return problem
    dims[label] = size
    for other, other_size in [*dims.items()]:  # those that had a name too many may be known now
        if other != label and not other.isidentifier():
            problem = _contradiction(other, other_size, dims)
            if problem is not None:
                return f'("{label}") is {size}, but {problem.replace("must be", "would be")}'
    return None


def _contradiction(label: str, size: int, dims: MutableMapping[str, int]) -> str | None:
    """Solve arithmetic on names for its one unknown; return what is wrong if nothing solves it."""
    from nnmagic.relay.polynomials import NoPolynomialError, constant, evaluate, linear, names, polynomial

    try:
        wanted = polynomial(label)
        open_names = set(names(wanted)) - set(dims)
        known = {name: constant(number) for name, number in dims.items()}
        residual = evaluate(wanted, known | {name: polynomial(name) for name in open_names}, constant)
    except NoPolynomialError:
        return None  # no arithmetic, but a name of Relay's; or a division by 0
    if not open_names:
        given = ", ".join(f'"{name}" is {dims[name]}' for name in sorted(set(names(wanted))))
        return None if residual.number == size else f'("{label}") must be {residual}, as {given}, not {size}'
    coefficients = linear(residual, min(open_names)) if len(open_names) == 1 else None
    if coefficients is None:
        return None
    (name,), factor, offset = open_names, coefficients[0].number or 0, coefficients[1].number or 0
    value, over = divmod(size - offset, factor) if factor else (0, size - offset)
    if over or value < 0:
        return f'("{label}") is {size}, which no "{name}" gives'
    return _learn(name, None, value, dims) if factor else None


def _label(dim: ty.Dim) -> str | None:
    """Return the name of a dimension whose size is known only at the call."""
    match dim:
        case ty.AnyDim(label=name) | ty.VarDim(name=name):
            return name
    return None
