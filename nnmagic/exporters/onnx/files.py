"""Write models to files; constants that one file cannot hold lie in a second one beside it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from nnmagic.diagnostics import kind_of
from nnmagic.exporters.onnx.export_module import MAX_BYTES, export_parts, tensor_proto
from nnmagic.importers.onnx.element_types import NUMBERS
from nnmagic.relay.module import Module
from nnmagic.relay.types import dtype_of_array

if TYPE_CHECKING:
    from onnx import TensorProto

#: Constants with fewer bytes stay in the model's own file.
_SMALL = 1024
#: The multiple of bytes at which external constants begin, so that they can be mapped.
_ALIGNMENT = 4096


def write_model(module: Module, path: str | os.PathLike[str], *, name: str | None = None) -> None:
    """Write a function of a module as an ONNX file.

    Constants of 2 GB or more go to ``<path>.data`` beside it. A file appears whole or not at all. Raises as
    ``export_module`` does, and OSError.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"to_onnx takes the path of a file, not {kind_of(path)}")
    target = Path(os.fspath(path))
    model, constants = export_parts(module, name)
    if sum(array.nbytes for array in constants.values()) <= MAX_BYTES:
        model.graph.initializer.extend(tensor_proto(*item) for item in constants.items())
    else:
        data = target.with_name(f"{target.name}.data")
        with whole_file(data) as file:
            model.graph.initializer.extend(_external(file, data.name, constants))
    with whole_file(target) as file:
        file.write(model.SerializeToString(deterministic=True))


def _external(file: BinaryIO, location: str, constants: Mapping[str, np.ndarray]) -> Iterator[TensorProto]:
    """Write constants to a file, and return what a model says of each."""
    from onnx import TensorProto

    for name, array in constants.items():
        if array.nbytes < _SMALL:
            yield tensor_proto(name, array)
            continue
        file.seek(-file.tell() % _ALIGNMENT, os.SEEK_CUR)
        dtype = dtype_of_array(array)
        assert dtype is not None
        tensor = TensorProto(name=name, dims=array.shape, data_type=NUMBERS[dtype])
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in (("location", location), ("offset", file.tell()), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        file.write(array.astype(array.dtype.newbyteorder("<"), copy=False).data.cast("B"))
        yield tensor


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that takes its name when it is complete. Raises OSError with that name."""
    partial = path.with_name(f"{path.name}.{os.urandom(4).hex()}.partial")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    finally:
        partial.unlink(missing_ok=True)
