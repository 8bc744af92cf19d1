"""Compute fingerprints of captured values: texts that are equal only if the values are the same.

A fingerprint is a word for the kind of value, a blank, and what identifies the value; arrays by content.
Values that mean the same in a cell, such as a list and a tuple of the same items, share a fingerprint. A
value that a cell cannot capture gets one that equals no other, not even its own. No code of the notebook
runs. What numbers, arrays and names of libraries do not need is imported where it is needed.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import json
import marshal
import secrets
import sys
from collections.abc import Callable
from functools import partial
from types import CellType, EllipsisType, FunctionType, ModuleType

import numpy as np

from nnmagic.relay.callbacks import PythonFunction
from nnmagic.relay.structure.hashing import array_digest
from nnmagic.relay.values import is_masked
from nnmagic.tinynn.namespace import torch_values
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.types.aliases import is_alias
from nnmagic.tinynn.types.annotations import Destination, DType, DTypeKind, OpenTensor, OpenType, Tensor
from nnmagic.tinynn.types.foreign_types import ForeignTypeError, constructor_name, foreign_annotation

_unique = itertools.count()

#: How the fingerprint of a function of a library begins.
_LIBRARY = "library function "

#: Identities of functions of Python mean nothing in another process.
_PROCESS = secrets.token_hex(8)


def fingerprint(value: object) -> str:
    """Return the fingerprint of a captured value; MISSING stands for an undefined name."""
    if value is MISSING:
        return "name absent"
    try:
        return _fingerprint(value, {})
    except RecursionError:  # a list that holds itself; no cell captures it
        return f"value {next(_unique)}"


def _fingerprint(value: object, digests: dict[int, tuple[object, str]]) -> str:
    """Return the fingerprint of a part; ``digests``: those of lists and types that several parts share."""
    if not isinstance(value, tuple | list | dict) and not is_alias(value):
        return _compute_fingerprint(value, digests)
    if id(value) not in digests:
        digests[id(value)] = (value, _compute_fingerprint(value, digests))
    return digests[id(value)][1]


def _compute_fingerprint(value: object, digests: dict[int, tuple[object, str]]) -> str:
    of_part = partial(_fingerprint, digests=digests)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    match value:
        case np.ndarray() if is_masked(value):  # its mask is no part of its content
            return f"value {kind} {next(_unique)}"
        case np.ndarray() if value.dtype.hasobject:  # of unknown content
            return f"value {kind} {next(_unique)}"
        case np.ndarray():
            return f"array {array_digest(value)}"
        case _ if torch_values.is_torch_tensor(value):
            from nnmagic.tinynn.namespace.capture import NotCapturableError, array_of_torch

            try:
                return f"array {array_digest(array_of_torch(value))}"
            except NotCapturableError:
                return f"value {kind} {next(_unique)}"
        case np.generic():  # a Python number in a cell, which an array of rank 0 is not
            return f"number {kind} {array_digest(np.asarray(value))}"
        # In hex, all digits are kept, and -0.0 is not 0.0.
        case float():
            return f"number {kind} {float.hex(value)}"
        case complex():
            number = complex.__pos__(value)
            return f"number {kind} {number.real.hex()} {number.imag.hex()}"
        case int():  # bool too: the kind tells True and 1 apart
            return f"number {kind} {int.__int__(value)}"
        case str():
            return f"string {kind} {str.__str__(value)}"
        case tuple() | list():
            names = getattr(value, "_fields", None)
            items = json.dumps([*map(of_part, value), *([names] if names else [])]).encode()
            return f"tuple {len(value)} {hashlib.sha256(items).hexdigest()}"
        case dict():
            # dict.keys(value) and not value.keys(), which a subclass may have overridden: no code
            # of the notebook runs.
            keys = [f"{type(key).__name__} {key!r}" for key in dict.keys(value) if type(key) in (str, int)]
            if len(keys) < len(value):  # a cell captures no other keys
                return f"value {kind} {next(_unique)}"
            items = json.dumps([keys, [*map(of_part, dict.values(value))]]).encode()
            return f"dict {len(value)} {hashlib.sha256(items).hexdigest()}"
        case (
            None
            | EllipsisType()
            | DType()
            | DTypeKind()
            | Tensor()
            | OpenTensor()
            | OpenType()
            | Destination()
            | np.dtype()
        ):
            return f"value {kind} {value!r}"
    return _fingerprint_of_object(value, kind, of_part, digests)


def _fingerprint_of_object(
    value: object, kind: str, of_part: Callable[[object], str], digests: dict[int, tuple[object, str]]
) -> str:
    """Return the fingerprint of a type, a module, a function, or an object that holds values."""
    match value:
        case _ if (key := _data_type_key(value)) is not None:
            return f"class {key}"
        case ModuleType():
            return f"module {vars(value).get('__name__')}"
        case _ if (name := constructor_name(value)) is not None:
            return f"annotation {name}"
        case _ if (meant := _foreign_annotation(value)) is not None:
            return f"annotation {of_part(meant)}"
        case _ if is_alias(value):
            parts = (getattr(value, "__origin__", None), getattr(value, "__args__", None))
            return f"alias {_compute_fingerprint(parts, digests)}"
        case type():
            return _fingerprint_of_type(value)
        case _ if torch_values.is_torch_module(value):
            members = [
                (name, item if isinstance(item, str) else of_part(item[0]))
                for name, item in torch_values.module_parts(value)
            ]
            return f"module {kind} {hashlib.sha256(json.dumps(members).encode()).hexdigest()}"
        case _ if torch_values.torch_dtype_name(value) is not None:
            return f"value {kind} {torch_values.torch_dtype_name(value)}"
        case PythonFunction(function=function, name=name):  # kept by its module, so no other has its identity
            owner = getattr(function, "__self__", None)
            return f"python {_PROCESS} {name} {id(function if owner is None else owner)}"
    if isinstance(inspect.getattr_static(value, "__relay_key__", None), property):  # of a compiled function
        return f"function {value.__relay_key__}"  # type: ignore[attr-defined]  # which it has
    from nnmagic.tinynn.namespace.capture import holds_values
    from nnmagic.tinynn.namespace.library_functions import library_function, own_name
    from nnmagic.tinynn.namespace.notebook_functions import python_code, ruled_function

    if (own := own_name(value)) is not None:
        return f"{_LIBRARY}{'.'.join(own)}"
    if (ruled := ruled_function(value)) is not None:
        return f"{ruled.kind} {of_part((ruled.function, *ruled.rules, ruled.nondiff, ruled.each))}"
    of_library = library_function(value)
    if of_library is None and (code := python_code(value)) is not None:
        return _fingerprint_of_code(code, digests)
    if of_library is None and holds_values(value) and (fields := _members(value)):
        shown = json.dumps([[name, of_part(item)] for name, item in fields])
        return f"object {kind} {hashlib.sha256(shown.encode()).hexdigest()}"
    return f"value {kind} {next(_unique)}" if of_library is None else f"{_LIBRARY}{of_library[0]}"


def _fingerprint_of_code(function: FunctionType, digests: dict[int, tuple[object, str]]) -> str:
    """Return the fingerprint of a function of Python: of its code, and of what its names stand for."""
    from nnmagic.tinynn.namespace.notebook_functions import names_in

    if id(function) in digests:
        return digests[id(function)][1]
    # A recursive function finds itself among its globals: the text stands in for it, and ends the
    # recursion.
    digests[id(function)] = (function, "itself")
    names = sorted(names_in(function.__code__) & function.__globals__.keys())
    contents: list[object] = [function.__defaults__ or (), function.__kwdefaults__ or {}]
    contents += [function.__globals__[name] for name in names]
    contents += [_content(cell) for cell in function.__closure__ or ()]
    # The code alone does not tell a function: its globals, defaults and captured cells may change
    # under it.
    shown = json.dumps([names, [_fingerprint(content, digests) for content in contents]]).encode()
    text = f"source {hashlib.sha256(marshal.dumps(function.__code__) + shown).hexdigest()}"
    digests[id(function)] = (function, text)
    return text


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _members(value: object) -> list[tuple[str, object]]:
    """Return the fields of an object, and the methods of its class that are written in Python."""
    from nnmagic.tinynn.namespace.notebook_functions import python_code

    if inspect.getattr_static(value, "__getattr__", None) is not None:  # code decides what it holds
        return []
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    methods = [
        (name, var)
        for name, var in vars(type(value)).items()
        if isinstance(var, FunctionType) and python_code(var) is not None
    ]
    return [*own.items(), *methods] if methods else []


def _foreign_annotation(value: object) -> object | None:
    try:
        return foreign_annotation(value)
    except ForeignTypeError as problem:
        return str(problem)


def is_still(value: object, was: str) -> bool:
    """Return whether a value has this fingerprint."""
    if was.startswith(_LIBRARY):  # what libraries have is a long list; here one name of it decides
        module, _, name = was.removeprefix(_LIBRARY).rpartition(".")
        return module in sys.modules and vars(sys.modules[module]).get(name) is value
    return fingerprint(value) == was


def _data_type_key(value: object) -> str | None:
    """Return the key of a DataType; there is none as long as nobody has imported its class."""
    types = sys.modules.get("nnmagic.functions.data_types")
    return value._key if types is not None and isinstance(value, types.DataType) else None


def _fingerprint_of_type(value: type) -> str:
    if inspect.getattr_static(value, "__relay_record__", None) is not None:
        from nnmagic.tinynn.namespace.compiled_values import as_record_type

        record = as_record_type(value)
        if record is not None:
            return f"record {record.name} {record.names} {record.fields}"
    return f"type {type.__repr__(value)}"
