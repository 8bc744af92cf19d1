"""Read weights that lie beside a model: only from its own folder, and only what is asked for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnmagic.importers.onnx.errors import UnsupportedError

if TYPE_CHECKING:
    from onnx import TensorProto


@dataclass(slots=True)
class Folder:
    """Read external data from the folder of a model; None for one without a file, which can have none."""

    path: Path | None

    def read(self, tensor: TensorProto, bits: int) -> np.ndarray:
        """Return the bytes of a tensor, of so many bits an element. Raises UnsupportedError."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if self.path is None:
            raise UnsupportedError(
                f"the tensor {tensor.name!r} lies in the file {location!r}, and the model is not from a file",
                "pass the path of the model, or load it with onnx.load, which reads external data",
            )
        unknown = set(entries) - {"location", "offset", "length", "checksum", "basepath"}
        if unknown:
            raise UnsupportedError(f"the external data of {tensor.name!r} has unknown keys {sorted(unknown)}")
        path = _inside(self.path, tensor.name, location)
        size = path.stat().st_size
        offset = _number(tensor.name, "offset", entries.get("offset", "0"))
        needed = -(-int(np.prod(tuple(tensor.dims), dtype=object)) * bits // 8)
        length = _number(tensor.name, "length", entries.get("length", str(needed)))
        if length != needed or offset + length > size:
            raise UnsupportedError(
                f"the tensor {tensor.name!r} needs {needed} bytes from byte {offset} on of {location!r}, "
                f"which has {size}" + (f" and gives it {length}" if length != needed else ""),
                "the file is incomplete or belongs to another model: get both again",
            )
        # read, not mapped: the function must not depend on what becomes of the file
        return np.fromfile(path, np.uint8, count=length, offset=offset)


def _number(name: str, key: str, text: str) -> int:
    if not text.isdecimal():
        raise UnsupportedError(f"the external data of {name!r} has the {key} {text!r}, which is no number")
    return int(text)


def _inside(folder: Path, name: str, location: str) -> Path:
    """Return the path of a file of the model. Raises UnsupportedError for one outside its folder."""
    hint = "external data must be a file in the model's folder"
    folders = Path(location).parts
    if not location or "\0" in location or Path(location).is_absolute() or ".." in folders:
        raise UnsupportedError(f"the tensor {name!r} lies in {location!r}, outside the model's folder", hint)
    path = folder
    for part in folders:
        path = path / part
        if path.is_symlink():
            raise UnsupportedError(f"the tensor {name!r} lies in {location!r}, which is a link", hint)
    if not path.is_file():
        raise UnsupportedError(f"the tensor {name!r} lies in {location!r}, which does not exist", hint)
    if not os.access(path, os.R_OK):
        raise UnsupportedError(f"the tensor {name!r} lies in {location!r}, which cannot be read", hint)
    return path
