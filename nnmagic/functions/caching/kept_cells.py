"""Keep the typed program of a cell on disk under its source, so that a new kernel need not parse it.

The key is everything that is known before the work: source, options, versions and the state of nnmagic's
files. What the free names stood for is compared after that, as in memory. Arrays that the cell captured are
not kept but taken from the namespace again; spans are kept, because errors and displays need them.

Only cells of functions with declared types are kept. Never imports the front end.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping

import numpy as np

from nnmagic.cache import Store, digest, disk_cache
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.caching.environment import front_end, is_current, is_front_end_current
from nnmagic.functions.caching.fingerprint import is_still
from nnmagic.functions.caching.plain_data import from_npy, parameter_from_data, parameter_to_data, to_npy
from nnmagic.functions.caching.typed_cell import TypedCell
from nnmagic.relay.infer import infer_type
from nnmagic.relay.structure.encoder import Json, PythonFunctionError
from nnmagic.relay.structure.hashing import array_digest
from nnmagic.relay.structure.serialization import module_from_data, module_to_data
from nnmagic.relay.types import dtype_of_array
from nnmagic.tinynn import look_up

#: The version of the form of what is kept.
_FORMAT = 2

#: Captured arrays from this size on are found in the namespace again; smaller ones are kept.
_SMALL = 4096

#: The most bytes of a program that is kept.
_MOST = 1 << 20


def find(parts: Mapping[str, str], namespace: Mapping[str, object], options: Options) -> TypedCell | None:
    """Return the program of a source, if it is on disk and all that it captured is as it was."""
    cache = _cache(parts, options)
    noted = None if cache is None else cache.read_note(_name(parts))
    match noted:
        case {"sum": str() as wanted, "cell": str() as text} if _sum(text) == wanted:
            data = json.loads(text)
        case _:
            return None
    if not all(is_still(look_up(namespace, name), was) for name, was in data["captured"].items()):
        return None
    arrays = _arrays_from_data(data["arrays"], [look_up(namespace, name) for name in data["captured"]])
    if arrays is None:
        return None
    return TypedCell(
        infer_type(module_from_data(data["module"], arrays), look_into_callees=True),
        texts=data["texts"],
        docs=data["docs"],
        parameters={
            name: tuple(parameter_from_data(each, arrays) for each in given)
            for name, given in data["parameters"].items()
        },
        captured=data["captured"],
    )


def keep(parts: Mapping[str, str], cell: TypedCell, options: Options) -> None:
    """Keep a program on disk if it can be read again as it is."""
    cache = _cache(parts, options)
    if cache is None or cell.infos or cell.types or cell.open_functions or cell.warnings:
        return
    if any(value.default is None for parameter in cell.parameters.values() for value in parameter):
        return  # a default that is a function of the cell
    if not (is_current() and is_front_end_current()):
        return
    try:
        module, arrays = module_to_data(cell.module, spans=True)
    except PythonFunctionError:
        return
    parameters = {
        name: [parameter_to_data(value, arrays) for value in parameter]
        for name, parameter in cell.parameters.items()
    }
    arrays_data = _arrays_to_data(arrays, list(cell.values.values()))
    if arrays_data is None:
        return
    data = {
        "module": module,
        "arrays": arrays_data,
        "texts": dict(cell.texts),
        "docs": dict(cell.docs),
        "parameters": parameters,
        "captured": dict(cell.captured),
    }
    text = json.dumps(data)
    if len(text) <= _MOST:
        cache.note(_name(parts), {"sum": _sum(text), "cell": text})


def _cache(parts: Mapping[str, str], options: Options) -> Store | None:
    """Return the cache on disk if cells of this kind are kept."""
    plain = parts["language"] == "tinynn" and not options.passes and options.engine in ("auto", "relax")
    return disk_cache() if plain else None


def _name(parts: Mapping[str, str]) -> str:
    return f"cell {digest({**parts, 'front end': front_end(), 'format of kept cells': str(_FORMAT)})}"


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _arrays_to_data(arrays: list[np.ndarray], captured: list[object]) -> list[Json] | None:
    """Return arrays as data, large ones as the digests of captured ones; None if they are not captured."""
    large = any(array.nbytes >= _SMALL for array in arrays)
    known = {array_digest(each) for each in _arrays_in(captured)} if large else set[str]()
    data: list[Json] = []
    for array in arrays:
        dtype = dtype_of_array(array)
        if array.nbytes < _SMALL:
            data.append([dtype, base64.b64encode(to_npy(array)).decode()])
        elif (name := array_digest(array)) in known:
            data.append(name)
        else:
            return None
    return data


def _arrays_from_data(data: list[Json], captured: list[object]) -> list[np.ndarray] | None:
    """Return the arrays again; None if a captured one changes meanwhile."""
    large = any(isinstance(entry, str) for entry in data)
    by_digest = (
        {array_digest(entry): entry for entry in _arrays_in(captured)} if large else dict[str, np.ndarray]()
    )
    arrays: list[np.ndarray] = []
    for entry in data:
        if not isinstance(entry, str):
            dtype, text = entry
            arrays.append(from_npy(base64.b64decode(text), dtype))
            continue
        if entry not in by_digest:
            return None
        array = np.array(by_digest[entry], by_digest[entry].dtype.newbyteorder("="), order="C", subok=False)
        array.flags.writeable = False
        if array_digest(array) != entry:
            return None
        arrays.append(array)
    return arrays


def _arrays_in(values: list[object]) -> Iterator[np.ndarray]:
    """Yield the arrays among values and in their lists, tuples and dictionaries."""
    waiting, seen = list(values), set[int]()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        match value:
            case np.ndarray() if not value.dtype.hasobject:
                yield value
            case tuple() | list():
                waiting.extend(value)
            case dict():
                waiting.extend(dict.values(value))
