"""Represent a class of a cell in the notebook: ``List.Cons(x, List.Nil())`` makes a value for a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from nnmagic.cache import digest
from nnmagic.diagnostics import closest
from nnmagic.engine.arguments import convert_argument
from nnmagic.functions.arguments.calls import CallAdapter, call_with
from nnmagic.functions.arguments.scalars import scalar_of
from nnmagic.relay.expr import Constructor
from nnmagic.relay.module import Module, TypeData
from nnmagic.relay.structure.encoder import Json
from nnmagic.relay.structure.serialization import module_from_data, module_to_data
from nnmagic.relay.structure.used_types import with_field_types
from nnmagic.relay.types import TypeCall, TypeVar
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.namespace.compiled_values import CompiledType
from nnmagic.tinynn.parameters import ParameterInfo
from nnmagic.tinynn.program import DataTypeInfo
from nnmagic.tracebacks import hide_frames, short_errors


class DataType:
    """An algebraic data type: its constructors are attributes, which make values (``AdtValue``).

    In a later cell it is the type of its name, its constructors are functions, and ``match`` takes its
    values. Equal to every data type of the same declaration; it never changes and pickles.
    """

    __name__: str
    __doc__: str | None
    _compiled: CompiledType
    _constructors: Mapping[str, DataConstructor]
    _key: str

    def __init__(self, compiled: CompiledType) -> None:
        name, info = compiled.type.header.name, compiled.infos[compiled.type.header.name]
        constructors = {
            constructor.name: DataConstructor(constructor, compiled)
            for constructor in compiled.type.constructors
        }
        from nnmagic.tinynn.namespace.linking import format_constructors  # with the language

        listed = "\n".join(f"  {name}.{shown!s}" for shown in constructors.values())
        intro = (
            info.docstring
            or f"A data type of {len(constructors)} constructor{'' if len(constructors) == 1 else 's'}."
        )
        declared = {
            constructor: f"{data.type_vars} {format_constructors(data)} {_fields(compiled.infos, data)}"
            for constructor, data in compiled.types.items()
        }
        self.__dict__.update(
            __name__=name,
            __qualname__=name,
            __module__="nnmagic",
            __doc__=f"{intro}\n\nConstructors:\n{listed}",
            _compiled=compiled,
            _constructors=constructors,
            _key=digest({"name": name, **declared}),
        )

    @property
    def __relay_type__(self) -> CompiledType:
        """What a later cell knows of it."""
        return self._compiled

    @short_errors
    def __getattr__(self, name: str) -> DataConstructor:
        constructors: Mapping[str, DataConstructor] = self.__dict__.get("_constructors", {})
        if name in constructors:
            return constructors[name]
        known = self.__dict__.get("__name__", "the data type")
        close = closest(name, constructors)
        hint = f". Did you mean {close!r}?" if close else f"; it has {', '.join(constructors)}"
        raise AttributeError(f"{known} has no constructor {name!r}{hint}")

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *self._constructors})

    @short_errors
    def __call__(self, /, *args: Any, **keywords: Any) -> AdtValue:
        """Call the constructor that has the type's own name, as for a record.

        Raises TypeError if there is none (Python 3.10 accepts only callables as type hints), or for an
        argument that does not fit.
        """
        if (constructor := self._constructors.get(self.__name__)) is not None:
            try:
                return constructor(*args, **keywords)
            except (TypeError, ValueError) as error:
                hide_frames(error)
                raise
        listed = " or ".join(f"{self.__name__}.{shown!s}" for shown in self._constructors.values())
        raise TypeError(f"{self.__name__} is made by its constructors: {listed}")

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, DataType) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @short_errors
    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a data type cannot be changed: {self.__name__}.{name} was not set")

    @short_errors
    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a data type cannot be changed: {self.__name__}.{name} was not deleted")

    def __repr__(self) -> str:
        return f"<nnmagic type {self.__name__}: {', '.join(map(str, self._constructors.values()))}>"

    def __reduce__(self) -> tuple[Callable[..., DataType], tuple[object, ...]]:
        types, _ = module_to_data(Module({}, self._compiled.types))
        return _restore, (self._compiled.type.header.name, types, infos_to_data(self._compiled.infos))


class DataConstructor:
    """A constructor of a data type: ``List.Cons(head, tail)`` returns an ``AdtValue``.

    Raises TypeError or ValueError, which name the field, for an argument that does not fit.
    """

    __name__: str
    __qualname__: str
    __signature__: inspect.Signature
    _call: CallAdapter
    _owner: CompiledType

    def __init__(self, constructor: Constructor, owner: CompiledType) -> None:
        call = call_with(
            constructor.name,
            _parameters(owner.fields[constructor.name]),
            constructor.inputs,
            TypeCall(constructor.belong_to, ()),
            owner.types,
        )
        self.__dict__.update(
            __name__=constructor.name,
            __qualname__=f"{constructor.belong_to.name}.{constructor.name}",
            __module__="nnmagic",
            __signature__=call.signature,
            __doc__=f"Makes a value of {constructor.belong_to.name}.",
            _call=call,
            _owner=owner,
        )

    def __call__(self, /, *args: Any, **keywords: Any) -> AdtValue:
        """Return the value; arrays are checked as a compiled function's arguments are."""
        try:
            bound = self._call.bind(args, keywords)
            dims: dict[str, int] = {}
            fields = tuple(
                value
                if isinstance(parameter.type, TypeVar)
                else scalar_of(convert_argument(parameter, value, dims, self._made_value))
                for parameter, value in zip(self._call.parameters, bound, strict=True)
            )
        except (TypeError, ValueError) as error:
            hide_frames(error)
            raise
        return AdtValue(self.__name__, fields)

    def _made_value(self, type_: TypeCall, value: object) -> bool:
        """Return whether a constructor of the type made a value, and so checked its fields."""
        if not isinstance(value, AdtValue):
            return False
        data = self._owner.types.get(type_.func.name)
        return data is not None and any(
            constructor.name == value.constructor and len(constructor.inputs) == len(value.fields)
            for constructor in data.constructors
        )

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return getattr, (DataType(self._owner), self.__name__)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataConstructor):
            return NotImplemented
        return self.__name__ == other.__name__ and DataType(self._owner) == DataType(other._owner)

    def __hash__(self) -> int:
        return hash(self.__qualname__)

    def __str__(self) -> str:
        return f"{self.__name__}{self.__signature__.replace(return_annotation=inspect.Signature.empty)}"

    def __repr__(self) -> str:
        return f"<nnmagic constructor {self.__qualname__.rpartition('.')[0]}.{self}>"


def data_type(name: str, types: Mapping[str, TypeData], infos: Mapping[str, DataTypeInfo]) -> DataType:
    """Return a data type of a module; its fields have numbers unless a class names them."""
    needed = with_field_types([name], types)
    known = {each: infos.get(each) or _default_info(data) for each, data in needed.items()}
    return DataType(CompiledType(types[name], needed, known))


def infos_to_data(infos: Mapping[str, DataTypeInfo]) -> Json:
    """Return the declarations of classes as JSON data."""
    return {name: [info.docstring, dict(info.fields)] for name, info in infos.items()}


def infos_from_data(data: Json) -> dict[str, DataTypeInfo]:
    """Return the declarations of classes. Raises one of several errors for data of another form."""
    return {
        str(name): DataTypeInfo(
            str(name),
            None if doc is None else str(doc),
            {str(each): tuple(map(str, f)) for each, f in fields.items()},
        )
        for name, (doc, fields) in data.items()
    }


def _restore(name: str, types: Json, infos: Json) -> DataType:
    return data_type(name, module_from_data(types, []).types, infos_from_data(infos))


def _default_info(data: TypeData) -> DataTypeInfo:
    fields = {
        constructor.name: tuple(f"field{index}" for index in range(len(constructor.inputs)))
        for constructor in data.constructors
    }
    return DataTypeInfo(data.header.name, None, fields)


def _fields(infos: Mapping[str, DataTypeInfo], data: TypeData) -> list[tuple[str, ...]]:
    return list(infos[data.header.name].fields.values())


def _parameters(fields: tuple[str, ...]) -> list[ParameterInfo]:
    """Return the parameters of a constructor; unnamed fields are positional."""
    unnamed = fields == tuple(f"field{index}" for index in range(len(fields)))
    kind = "POSITIONAL_ONLY" if unnamed else "POSITIONAL_OR_KEYWORD"
    return [ParameterInfo(field, kind) for field in fields]
