"""Convert values of the notebook to values of a cell, without running code of the notebook."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.limits import MAX_CAPTURED_DEPTH, MAX_TUPLE_SIZE
from nnmagic.relay import expr as ir
from nnmagic.relay.types import Type, TypeCall, dtype_of_array, is_float
from nnmagic.relay.values import AdtValue, is_masked
from nnmagic.tinynn.namespace import torch_values
from nnmagic.tinynn.namespace.compiled_values import as_compiled_function, as_compiled_type, as_template
from nnmagic.tinynn.namespace.notebook_functions import python_code
from nnmagic.tinynn.namespace.unsupported_functions import CALLBACK
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.types.aliases import NoTypeError, WideTypeError, alias_type, is_callable_name
from nnmagic.tinynn.types.annotations import (
    GENERATOR,
    Destination,
    DType,
    DTypeKind,
    OpenTensor,
    OpenType,
    Tensor,
    as_dtype,
)
from nnmagic.tinynn.types.foreign_types import ForeignTypeError, constructor_name, foreign_annotation
from nnmagic.tinynn.values import values as v
from nnmagic.tinynn.values.numbers import MAX_INT_BITS

_Key = TypeVar("_Key")
_Captured = TypeVar("_Captured")

#: Hints for NumPy's unsupported dtypes, by their kind; ``{name}`` stands for the user's name.
_DTYPE_HINTS = {
    "O": "if it holds numbers, convert it in another cell: {name} = {name}.astype('float32')",
    "f": "convert it in another cell: {name} = {name}.astype('float64')",
    "c": "convert it in another cell: {name} = {name}.astype('complex128')",
    "U": "a cell computes with numbers: give each string a number",
    "S": "a cell computes with numbers: give each string a number",
    "T": "a cell computes with numbers: give each string a number",
    "M": "convert it in another cell: {name} = {name}.astype('int64')",
    "m": "convert it in another cell: {name} = {name}.astype('int64')",
}

_NO_DTYPE = "use one of f16 bf16 f32 f64, c64 c128, i8 to i64, u8 to u64, bool_"


class NotCapturableError(Exception):
    """A cell cannot use a value: ``what`` describes it; in ``hint``, ``{name}`` stands for its name.

    ``path``: the subscripts from the name to the item of a list or dictionary, as in ``[0]['bias']``.
    """

    def __init__(self, what: str, hint: str, path: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.path = path

    def inside(self, key: object) -> NotCapturableError:
        """Return the error as seen from the tuple or dictionary that holds the value."""
        path = f"[{key!r}]{self.path}"
        return NotCapturableError(self.what, self.hint, path if len(path) <= 60 else f"{path[:60]}...")


def member_of(value: object, name: str) -> object:
    """Return a member of an object that only holds values: from its dictionary, its slots or its class.

    Return MISSING if there is none, if code computes it (a property, a method), and for values that a cell
    can use directly, whose attributes have a meaning of their own. No code of the notebook runs.
    """
    if not holds_values(value):
        return MISSING
    if torch_values.is_torch_module(value):
        found = torch_values.module_member(value, name, MISSING)
        if found is not MISSING:
            return found
    member = inspect.getattr_static(value, name, MISSING)
    if isinstance(member, _PLAIN_FIELDS) and not isinstance(value, type):
        try:
            return member.__get__(value, type(value))
        except AttributeError:  # an unset slot
            return MISSING
    return MISSING if any("__get__" in vars(base) for base in type(member).__mro__) else member


#: Descriptors of the fields of a class with slots and of a named tuple.
_PLAIN_FIELDS = (types.MemberDescriptorType, type(vars(inspect.FullArgSpec)["args"]))


def is_function(value: object) -> bool:
    """Return whether a cell can call a value: a function of a library, of the notebook, or a compiled one."""
    from nnmagic.tinynn.namespace.library_functions import library_function, own_name

    if as_compiled_function(value) is not None or as_template(value) is not None:
        return True
    known = library_function(value) is not None or own_name(value) is not None
    return known or isinstance(value, np.ufunc) or python_code(value) is not None


def is_method(value: object, name: str) -> bool:
    """Return whether a member is a function of an object's class."""
    kinds = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, classmethod, staticmethod)
    return isinstance(inspect.getattr_static(value, name, None), kinds)


def called_member(value: object, name: str) -> object:
    """Return a member that Python will call: a method is bound to its object. MISSING if there is none."""
    if is_method(value, name) or isinstance(
        inspect.getattr_static(value, name, None), types.MethodDescriptorType
    ):
        method: object = getattr(value, name)
        return method
    return member_of(value, name)


def member_names(value: object) -> list[str]:
    """Return the names of the members of an object and its classes."""
    try:
        names = list(object.__getattribute__(value, "__dict__"))
    except AttributeError:  # it has slots
        names = []
    if torch_values.is_torch_module(value):
        names += torch_values.module_members(value)
    classes = value.__mro__ if isinstance(value, type) else type(value).__mro__
    return [*names, *(name for base in classes for name in vars(base))]


def holds_values(value: object) -> bool:
    """Return whether members of a value are looked up: an object, such as settings, or a class of them."""
    if isinstance(value, tuple):
        return isinstance(inspect.getattr_static(value, "_fields", None), tuple)
    # A ``__getattribute__`` of the notebook would run; what offers itself as an array is a value.
    if isinstance(value, _VALUES) or any(
        isinstance(vars(base).get("__getattribute__"), types.FunctionType)
        or not _ARRAY_PROTOCOLS.isdisjoint(vars(base))
        for base in type(value).__mro__
    ):
        return False
    if as_template(value) is not None or as_compiled_function(value) is not None:
        return False
    return as_compiled_type(value) is None and not _is_type(value)


def _is_type(value: object) -> bool:
    """Return whether a value names a type or a dtype of a cell."""
    try:
        return isinstance(capture(value), v.TypeOf | v.TupleConstructor | v.Known)
    except NotCapturableError:
        return False


_ARRAY_PROTOCOLS = frozenset({"__array__", "__dlpack__"})
#: Classes whose attributes are not looked up: values themselves, or useless in a cell.
_NUMBERS = (
    int,
    float,
    complex,
    np.generic,
    np.dtype,
    np.ndarray,
    np.ufunc,
    DType,
    DTypeKind,
    Tensor,
    OpenTensor,
    AdtValue,
)
_TEXTS_AND_COLLECTIONS = (str, bytes, list, dict, set, frozenset, type(None), types.EllipsisType)
_CODE = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_VALUES = (*_NUMBERS, *_TEXTS_AND_COLLECTIONS, *_CODE)


def snapshot(value: object) -> object:
    """Return a value with its mutable parts copied: arrays, lists and dictionaries.

    The cell computes with exactly what the cache records. Raises NotCapturableError.
    """
    try:
        return _snapshot(value, 0, itertools.count(1))
    except _TooManyItemsError:
        what = f"{kind_of(value)} of more than {MAX_TUPLE_SIZE} items, with those of the items"
        raise NotCapturableError(what, "make it a NumPy array") from None


class _TooManyItemsError(Exception):
    """A list, tuple or dictionary with more items than a cell takes."""


def _snapshot(value: object, depth: int, items: Iterator[int]) -> object:
    """Return a part of a snapshot; ``items`` counts all items of the whole."""

    def take(item: object) -> object:
        if next(items) > MAX_TUPLE_SIZE:
            raise _TooManyItemsError
        return _snapshot(item, depth + 1, items)

    match value:
        case np.ndarray() if is_masked(value):
            raise NotCapturableError(
                "a masked array", "fill it in another cell, as in {name} = {name}.filled(0)"
            )
        case np.ndarray():
            return _constant(value).data
        case tuple() if hasattr(value, "_fields"):
            _check_depth(value, depth)
            items_ = (item for _, item in _capture_items(take, enumerate(value)))
            # Not by the class, whose ``__new__`` may be code of the notebook.
            return tuple.__new__(type(value), items_)
        case tuple() | list():
            _check_depth(value, depth)
            return tuple(item for _, item in _capture_items(take, enumerate(value)))
        case dict():
            _check_depth(value, depth)
            return dict(_capture_items(take, list(dict.items(value))))
        case _ if torch_values.is_torch_tensor(value):
            return _constant(array_of_torch(value)).data
        case _ if _is_record(value):
            copied = object.__new__(type(value))
            for name, item in _capture_items(take, _fields_of(value).items()):
                object.__setattr__(copied, name, item)
            return copied
        case int() if value.bit_length() > MAX_INT_BITS:
            raise NotCapturableError(f"an int of {value.bit_length()} bits", "the largest float has 1024")
    return value


def array_of_torch(value: object) -> np.ndarray:
    """Return a tensor of PyTorch as an array that shares its memory. Raises NotCapturableError."""
    try:
        return torch_values.torch_array(value)
    except torch_values.TorchTensorError as problem:
        raise NotCapturableError(problem.what, problem.hint) from None


def capture(value: object) -> v.Value:
    """Convert a snapshot to a value of a cell. Raises NotCapturableError."""
    match value:
        case None | DType() | DTypeKind() | Tensor() | OpenTensor() | OpenType() | Destination():
            return v.Known(value)
        case np.ndarray():  # a snapshot already owns its array
            return _tensor(ir.Constant(value))
        case np.generic():
            return v.Known(_python_number(value))
        case bool():
            return v.Known(value)
        case int():
            # The plain number of a subclass, such as an IntEnum: ``int(value)`` could run code of
            # the notebook.
            return v.Known(int.__int__(value))
        case float():
            return v.Known(float.__float__(value))
        case complex():
            return v.Known(complex.__pos__(value))
        case str():
            return v.Known(str.__str__(value))
        case tuple() if hasattr(value, "_fields"):
            return _record(value, dict(zip(value._fields, value, strict=True)))
        case tuple():
            return v.TupleOf(tuple(item for _, item in _capture_items(capture, enumerate(value))))
        case dict():
            return v.DictOf(dict(_capture_items(capture, value.items())))
    if value is Ellipsis:
        return v.Known(Ellipsis)
    if _is_record(value):
        return _record(value, _fields_of(value))
    if (dtype := as_dtype(value)) is not None:
        return v.Known(dtype)
    if value is tuple or value is typing.Tuple:  # noqa: UP006  # the object that a notebook may hold
        return v.TupleConstructor("tuple")
    if value is Tensor:
        return v.TupleConstructor("Tensor")
    if value is np.random.Generator:
        return v.Known(GENERATOR)
    if isinstance(value, type) and issubclass(value, Destination):
        return v.TupleConstructor(value.__name__)
    if is_callable_name(value):
        return v.TupleConstructor("Callable")
    if (name := constructor_name(value)) is not None:
        return v.TupleConstructor(name)
    try:
        meant = foreign_annotation(value)
    except ForeignTypeError as problem:
        raise NotCapturableError(f"the type of {problem}", _NO_DTYPE) from None
    if meant is not None:
        return capture(meant)
    alias = _alias(value)
    if alias is not None:
        return alias
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        shown = value if isinstance(value, np.dtype) else value.__name__
        raise NotCapturableError(f"the NumPy dtype {shown}", _NO_DTYPE)
    raise not_capturable(value)


def _is_record(value: object) -> bool:
    """Return whether a value is an object of a dataclass of the notebook."""
    is_own = type(value).__module__.startswith("nnmagic.")
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and not is_own


def _fields_of(value: object) -> dict[str, object]:
    """Return the fields of an object of a dataclass."""
    return {field.name: object.__getattribute__(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]


def _record(value: object, fields: Mapping[str, object]) -> v.Value:
    """Return an object with fields as a record."""
    items: dict[object, v.Value] = dict(_capture_items(capture, fields.items()))
    return v.dictionary_of(items, type(value).__name__)


def _class_type(value: object) -> Type | None:
    data = as_compiled_type(value)
    return None if data is None else TypeCall(data.type.header, ())


def _alias(value: object) -> v.Value | None:
    """Return a type alias of the notebook, or None; raise NotCapturableError if it holds another object."""
    try:
        type_ = alias_type(value, _class_type)
    except NoTypeError as problem:
        part = getattr(problem.part, "__name__", None) or repr(problem.part)
        hint = "name types of a cell in it, as in tuple[Tensor[(2, 3), f32], f32]"
        raise NotCapturableError(f"a type that holds `{part}`", hint) from None
    except WideTypeError:
        raise NotCapturableError(
            f"a type of more than {MAX_TUPLE_SIZE} parts", "name fewer types in it"
        ) from None
    return None if type_ is None else v.TypeOf(type_)


def _python_number(value: np.generic) -> object:
    """Return a NumPy scalar as the equal Python number, so that both behave the same."""
    if isinstance(value, np.str_):
        return str.__str__(value)
    kind = dtype_of_array(np.asarray(value))
    if kind is None:
        raise _no_dtype(value)
    return float(value) if is_float(kind) else value.item()


def _tensor(constant: ir.Constant) -> v.Computed:
    return v.Computed(constant, constant.tensor_type)


def _constant(value: np.ndarray) -> ir.Constant:
    """Return a constant with a copy of the array."""
    if dtype_of_array(value) is None:
        raise _no_dtype(value)
    return ir.constant(value, dtype_of_array(value))


def _no_dtype(value: np.generic | np.ndarray) -> NotCapturableError:
    what = f"a NumPy array of {value.dtype}" if isinstance(value, np.ndarray) else f"a NumPy {value.dtype}"
    hint = _DTYPE_HINTS.get(value.dtype.kind, "hold its numbers in an array of numbers")
    return NotCapturableError(what, hint)


def _check_depth(value: tuple[object, ...] | list[object] | dict[object, object], depth: int) -> None:
    if depth > MAX_CAPTURED_DEPTH:
        raise NotCapturableError(f"{kind_of(value)} nested too deeply", "make it a NumPy array")
    for key in value if isinstance(value, dict) else ():
        if type(key) not in (str, int):  # comparing keys of other classes would run their code
            raise NotCapturableError(
                f"a dict with a key that is {_format_kind(type(key).__name__)}",
                "give its values names of their own in another cell",
            )


def _capture_items(
    take: Callable[[object], _Captured], items: Iterable[tuple[_Key, object]]
) -> Iterator[tuple[_Key, _Captured]]:
    """Yield each converted item with its key; an error gets the item's key added to its path."""
    key: object = None
    item: object = None
    try:
        for key, item in items:
            yield key, take(item)
    except NotCapturableError as problem:
        if isinstance(item, types.FunctionType):
            problem = NotCapturableError(problem.what, _NAME_IT)
        raise problem.inside(key) from None


#: What to do with a function that a list or a dictionary holds.
_NAME_IT = "give it a name of its own in another cell"


def not_capturable(value: object) -> NotCapturableError:
    """Return an error that describes a value and suggests an alternative."""
    if as_compiled_function(value) is not None or as_template(value) is not None:  # in a list or a dictionary
        return NotCapturableError("a compiled function", _NAME_IT)
    name = getattr(value, "__name__", None) if isinstance(value, type | types.FunctionType) else None
    kind = type(value)
    if isinstance(value, np.ufunc):
        return NotCapturableError(
            f"the NumPy function {value.__name__}",
            "NumPy does not run inside a cell: call it in another one, and pass its result as an argument",
        )
    if isinstance(value, types.FunctionType):
        hint = f"put %%tinynn above its definition, or write {CALLBACK}, which calls Python"
        return NotCapturableError(f"the Python function {name}", hint)
    if isinstance(value, types.BuiltinFunctionType | types.MethodType | types.MethodWrapperType):
        return NotCapturableError(
            "a Python function",
            "call it in another cell, and pass its result as an argument or use it by its name",
        )
    if isinstance(value, type) and kind is not types.GenericAlias:  # a class for Python 3.10
        hint = "compute what you need in another cell and use that"
        if dataclasses.is_dataclass(value) or hasattr(value, "_fields"):
            hint = f"declare it in the cell: class {name}: with a type for each field, as in x: f64"
        elif isinstance(vars(value).get("__init__"), types.FunctionType):
            hint = "move its definition into this cell, or compute what you need in another one"
        return NotCapturableError(f"the class {name}", hint)
    if isinstance(value, types.ModuleType):
        return NotCapturableError(
            f"the module {value.__name__}", "compute what you need in another cell and use that"
        )
    if isinstance(value, AdtValue):
        return NotCapturableError(f"a value made by {value.constructor}", "pass it as an argument")
    if isinstance(value, set | frozenset):
        return NotCapturableError(
            f"a {kind.__name__}", "make it a tuple in another cell, as in {name} = tuple(sorted({name}))"
        )
    if any(not _ARRAY_PROTOCOLS.isdisjoint(vars(base)) for base in kind.__mro__):
        hint = "pass it as an argument, or convert it in another cell: {name} = numpy.asarray({name})"
        return NotCapturableError(_format_kind(f"{kind.__module__}.{kind.__qualname__}"), hint)
    if callable(value):
        return NotCapturableError(
            _format_kind(kind.__qualname__),
            "call it in another cell, and pass its result as an argument or use it by its name",
        )
    return NotCapturableError(
        _format_kind(kind.__qualname__), "capture what is needed of it as a NumPy array"
    )


def _format_kind(name: str) -> str:
    return f"an {name}" if name[:1].lower() in "aeiou" else f"a {name}"
