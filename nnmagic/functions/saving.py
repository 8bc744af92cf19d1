"""A compiled function as bytes and back: a zip of JSON and ``.npy`` arrays; no pickle, no machine code.

``relay.txt`` is there to be read by people; the function is made from ``function.json``, which is exact.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from nnmagic._version import __version__
from nnmagic.diagnostics import CompileError, Source
from nnmagic.functions.compiled import CacheInfo, CompiledFunction, Definition
from nnmagic.functions.data_types import infos_from_data, infos_to_data
from nnmagic.functions.options import Options
from nnmagic.relay.infer import infer_type
from nnmagic.relay.serial import Json, module_from_data, module_to_data
from nnmagic.relay.types import NUMPY_DTYPES, dtype_of_array
from nnmagic.relay.values import AdtValue
from nnmagic.tinynn.program import MISSING, ParameterInfo

#: The version of the form of the file; a file of another version is refused.
FORMAT = 2

#: What reading data raises that ``to_bytes`` did not make: zipfile's errors, then those of its parts.
_OF_OTHER_DATA = (
    *(zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError),  # the last: an encrypted part
    *(ValueError, TypeError, KeyError, IndexError, AttributeError),
)


def to_bytes(function: CompiledFunction) -> bytes:
    """The function as bytes, the same for the same function."""
    definition = function._definition
    module, arrays = module_to_data(definition.module)
    parameters = [
        [each.name, each.kind, _default_to_data(each.default, arrays)] for each in definition.parameters
    ]
    source, options = definition.source, definition.options
    head = {
        "format": FORMAT,
        "nnmagic": __version__,
        "name": definition.name,
        "qualname": function.__qualname__,
        "python_module": function.__module__,
        "doc": definition.doc,
        "language": definition.language,
        "text": definition.text,
        "source": [source.filename, source.text, source.first_line, source.indent],
        "options": {"engine": options.engine, "target": options.target, "opt_level": options.opt_level},
        "parameters": parameters,
        "classes": infos_to_data(definition.infos),
        "module": module,
        "dtypes": [dtype_of_array(array) for array in arrays],
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        _write(archive, "relay.txt", definition.relay_text.encode())
        _write(archive, "function.json", json.dumps(head, default=dict).encode())
        for place, array in enumerate(arrays):
            plain = array.view(np.uint16) if dtype_of_array(array) == "bfloat16" else array
            npy = io.BytesIO()
            np.lib.format.write_array(npy, plain, allow_pickle=False)
            _write(archive, f"{place}.npy", npy.getvalue())
    return packed.getvalue()


def from_bytes(data: bytes, origin: str = "a pickle") -> CompiledFunction:
    """The function again; it is built when it is first called. Raises ValueError for anything else."""
    begin = time.perf_counter()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            head = _head(archive)
            arrays = [_array(archive, place, dtype) for place, dtype in enumerate(head["dtypes"])]
        definition = _definition(head, arrays, hashlib.sha1(data, usedforsecurity=False).hexdigest())
        names = {"qualname": str(head["qualname"]), "module": str(head["python_module"])}
    except (*_OF_OTHER_DATA, CompileError) as error:
        raise ValueError(f"{origin} holds no function that nnmagic saved: {error}") from error
    info = CacheInfo(None, definition.key, time.perf_counter() - begin, f"loaded from {origin}")
    return CompiledFunction(definition, info, **names)


def load(path: str | os.PathLike[str]) -> CompiledFunction:
    """Reads a function that ``CompiledFunction.save`` wrote, and compiles it for this machine.

    Raises OSError where the file cannot be read, ValueError where it is no such file.
    """
    function = from_bytes(Path(path).read_bytes(), os.fspath(path))
    function.build()
    return function


def _definition(head: dict[str, Any], arrays: list[np.ndarray], key: str) -> Definition:
    """Raises one of many errors for data that ``to_bytes`` did not make."""
    module = infer_type(module_from_data(head["module"], arrays), look_into_callees=True)
    if head["name"] not in module.functions:
        raise ValueError(f"there is no function {head['name']!r} in it")
    filename, text, first_line, indent = head["source"]
    return Definition(
        name=head["name"],
        module=module,
        source=Source(filename, text, first_line, indent),
        text=head["text"],
        language=head["language"],
        doc=head["doc"],
        options=Options(**head["options"]),
        key=key,
        parameters=tuple(
            ParameterInfo(str(name), str(kind), _default(default, arrays))
            for name, kind, default in head["parameters"]
        ),
        infos=infos_from_data(head["classes"]),
    )


def _default_to_data(default: object, arrays: list[np.ndarray]) -> Json:
    """A parameter's default as data for JSON; its arrays are added to the file's."""
    match default:
        case bool() | int() | float():
            return default
        case tuple():
            return {"tuple": [_default_to_data(part, arrays) for part in default]}
        case AdtValue(constructor=name, fields=fields):
            return {"constructor": name, "fields": [_default_to_data(part, arrays) for part in fields]}
        case np.ndarray():
            arrays.append(default)
            return {"array": len(arrays) - 1}
    assert default is MISSING
    return None


def _default(data: Json, arrays: list[np.ndarray]) -> object:
    match data:
        case None:
            return MISSING
        case bool() | int() | float():
            return data
        case {"tuple": list() as parts}:
            return tuple(_default(part, arrays) for part in parts)
        case {"constructor": str() as name, "fields": list() as parts}:
            return AdtValue(name, tuple(_default(part, arrays) for part in parts))
        case {"array": int() as place}:
            array = arrays[place]
            array.flags.writeable = False
            return array
    raise ValueError(f"not a default: {data!r}")


def _head(archive: zipfile.ZipFile) -> dict[str, Any]:
    head = json.loads(archive.read("function.json"))
    if head["format"] != FORMAT:
        raise ValueError(f"its format is {head['format']}, this version of nnmagic reads {FORMAT}")
    return dict(head)


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name), data)  # a ZipInfo has a fixed time: the same bytes every time


def _array(archive: zipfile.ZipFile, place: int, dtype: str) -> np.ndarray:
    array = np.lib.format.read_array(io.BytesIO(archive.read(f"{place}.npy")), allow_pickle=False)
    return array.view(NUMPY_DTYPES[dtype]) if dtype == "bfloat16" else array
