"""Serialize a compiled function: a zip of an entry's files, as on disk in the cache; no pickle.

Besides the machine code and its facts it holds what the code is made from: Relay as data in the header, which
is exact, and its arrays as ``.npy``. So it can be compiled again where the code cannot run. ``relay.txt`` is
for people to read.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from nnmagic._version import __version__
from nnmagic.cache import Content, Entry, MemoryCache, to_members
from nnmagic.diagnostics import CompileError, kind_of
from nnmagic.functions.caching.compile_options import Options
from nnmagic.functions.caching.fingerprint import fingerprint
from nnmagic.functions.caching.plain_data import parameter_from_data, parameter_to_data, to_npy
from nnmagic.functions.cells.unproven_loops import refuse_unproven
from nnmagic.functions.compiled import CompiledFunction
from nnmagic.functions.data_types import infos_from_data, infos_to_data
from nnmagic.functions.definition import CacheInfo, Definition
from nnmagic.functions.function_files import ARRAY, FORMAT, OF_OTHER_DATA, TEXT, read_parts, reason_of
from nnmagic.relay.callbacks import PythonFunction
from nnmagic.relay.infer import infer_type
from nnmagic.relay.structure import serialization
from nnmagic.relay.structure.encoder import PythonFunctionError
from nnmagic.relay.structure.hashing import content_digest
from nnmagic.relay.types import dtype_of_array
from nnmagic.tracebacks import short_errors

#: What the parts of a definition that are texts, or numbers, must be.
_PARTS: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("name", "qualname", "python_module", "language", "text"), str),
    "doc": (str, type(None)),
    "source": list,
    "options": dict,
}

#: The functions of pickles that were loaded: a task of Dask or joblib loads its function each time.
LOADED: MemoryCache[object] = MemoryCache(max_entries=128, max_bytes=1 << 28)


def to_bytes(function: CompiledFunction, python: list[PythonFunction] | None = None) -> bytes:
    """Return the function as bytes, the same for the same function, with its machine code if there is any.

    ``python`` takes the functions of Python that it calls; without it, one that calls some raises TypeError.
    """
    definition = function._definition
    try:
        module, arrays = serialization.module_to_data(definition.optimize[0], python=python)
    except PythonFunctionError as error:
        raise TypeError(
            f"{definition.name} cannot be saved: it calls the Python function `{error.name}`, and a file "
            "holds no Python; save the parts that call none, or the source, or pickle it"
        ) from None
    parameters = [parameter_to_data(parameter, arrays) for parameter in definition.parameters]
    options = definition.options
    if not isinstance(options.engine, str):
        raise TypeError(
            f"{definition.name} cannot be saved or pickled: its engine {options.engine_label} is a Python "
            "callable; register it as an entry point of the group 'nnmagic.engines', and pass its name"
        )
    head = {
        "format": FORMAT,
        "nnmagic": __version__,
        "name": definition.name,
        "qualname": function.__qualname__,
        "python_module": function.__module__,
        "doc": definition.doc,
        "language": definition.language,
        "text": definition.text,
        "source": serialization.source_to_data(definition.source),
        "options": asdict(replace(options, passes=())),
        "parameters": parameters,
        "classes": infos_to_data(definition.infos),
        "module": module,
        "dtypes": [dtype_of_array(array) for array in arrays],
    }
    files = {TEXT: definition.relay_text.encode()}
    files |= {f"{index}{ARRAY}": to_npy(array) for index, array in enumerate(arrays)}
    code = definition.content or Content({}, {})
    # Through JSON once: what is written is what a reader gets, tuples as lists among it.
    header = {**code.header, "definition": json.loads(json.dumps(head, default=dict))}
    members = to_members(Content(header, {**files, **code.files}))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():  # a ZipInfo has a fixed time: the same bytes every time
            archive.writestr(zipfile.ZipInfo(name), data)
    return packed.getvalue()


def from_pickle(data: bytes, python: tuple[PythonFunction, ...] = ()) -> CompiledFunction:
    """Return the function of a pickle: the same object as long as it is among those that were loaded last.

    ``python``: the functions of Python that it calls.
    """
    fingerprints = {"data": hashlib.sha256(data).hexdigest(), "python": " ".join(map(fingerprint, python))}
    entry = LOADED.find(fingerprints, str)
    if entry is None:
        entry = Entry(("pickle",), fingerprints, {}, from_bytes(data, python=python), len(data))
        LOADED.put(entry)
    assert isinstance(entry.value, CompiledFunction)
    return entry.value


def from_bytes(
    data: bytes, origin: str = "a pickle", *, code: bool = True, python: Sequence[PythonFunction] = ()
) -> CompiledFunction:
    """Return the function; it is built when it is first called. Raises ValueError for other data.

    ``code``: whether the machine code in the data may be run. ``python``: the functions of Python that it
    calls.
    """
    begin = time.perf_counter()
    try:
        head, arrays, machine_code = read_parts(data)
        definition = _definition(head, arrays, python, code=code)
        if code and "facts" in machine_code.header:
            definition = replace(definition, carried=machine_code)
        qualname, module = head["qualname"], head["python_module"]
    except (*OF_OTHER_DATA, CompileError) as error:
        raise ValueError(f"{origin} holds no function that nnmagic saved: {reason_of(error)}") from error
    info = CacheInfo(None, definition.key, time.perf_counter() - begin, f"loaded from {origin}")
    return CompiledFunction(definition, info, qualname=qualname, module=module)


def save(function: CompiledFunction, path: str | os.PathLike[str]) -> None:
    """Build the function and write its bytes; an existing file stays until the new one is complete."""
    from nnmagic.exporters.onnx.files import whole_file

    path = _path(path, f"{function.name}.save")
    if function._definition.call.crosses:
        function.build()
    data = to_bytes(function)
    with whole_file(path) as file:
        file.write(data)


@short_errors
def load(path: str | os.PathLike[str], *, code: bool = True) -> CompiledFunction:
    """Read a function that ``CompiledFunction.save`` wrote.

    Args:
        path: the file.
        code: whether to run the machine code in the file. Load it only from people whom you trust, as any
            program. Otherwise, and if this CPU cannot run the code, the Relay in the file is compiled.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it is no such file.
        EngineError: if the code cannot run here and there is no compiler.

    """
    begin = time.perf_counter()
    path = _path(path, "nnmagic.load")
    function = from_bytes(path.read_bytes(), os.fspath(path), code=code)
    definition = function._definition
    if definition.call.crosses:
        function.build()
    info = replace(function.cache_info, seconds=time.perf_counter() - begin)
    loaded = CompiledFunction(definition, info, qualname=function.__qualname__, module=function.__module__)
    if definition.call.crosses:
        loaded.build()
    return loaded


def _path(path: str | os.PathLike[str], taker: str) -> Path:
    """Return a path given by the caller. Raises TypeError."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{taker} takes a path, as text or a pathlib.Path, not {kind_of(path)}")
    return Path(path)


def _definition(
    head: dict[str, Any], arrays: list[np.ndarray], python: Sequence[PythonFunction], *, code: bool
) -> Definition:
    """Return the definition. Raises one of many errors for data that ``to_bytes`` did not make."""
    for field, kind in _PARTS.items():
        if not isinstance(head[field], kind):
            raise TypeError(f"its {field} is {kind_of(head[field])}")
    module = infer_type(
        serialization.module_from_data(head["module"], arrays, python), look_into_callees=True
    )
    if head["name"] not in module.functions:
        raise ValueError(f"there is no function {head['name']!r} in it")
    if not code:
        hint = "nnmagic.load(path) believes it of a file from people whom you trust"
        refuse_unproven(module, hint=hint)
    definition = Definition(
        name=head["name"],
        module=module,
        source=serialization.source_from_data(head["source"]),
        text=head["text"],
        language=head["language"],
        doc=head["doc"],
        options=Options(**head["options"]),
        key=content_digest([head, *map(fingerprint, python)] if python else head, arrays)[:40],
        parameters=tuple(parameter_from_data(each, arrays) for each in head["parameters"]),
        infos=infos_from_data(head["classes"]),
    )
    # What contradicts the program is refused here: parameters and destinations, then the classes.
    definition.call  # noqa: B018
    definition.types  # noqa: B018
    return definition
