"""Convert NumPy arrays to TVM tensors and back without a copy.

TVM assumes 64-byte alignment; our kernels require the alignment of the element type only
(``codegen.kernel_preparation``), so a tensor may share the memory of any C-contiguous, aligned array.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nnmagic.engine.relax.runtime.ffi import tvm_ffi
from nnmagic.engine.relax.runtime.loader import global_function
from nnmagic.relay.types import NUMPY_DTYPES

if TYPE_CHECKING:
    from tvm_ffi import Tensor

#: The CPU, as DLPack numbers devices.
_CPU = 1


class _Writable:
    """An array marked writable: DLPack cannot express "read-only", and kernels write no arguments."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, array: np.ndarray) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self.owner = array


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else np.asarray(_Writable(array))


def as_tensor(array: np.ndarray) -> Tensor:
    """Return a TVM tensor of an array's values, in the array's memory if TVM can read that."""
    dtype = array.dtype
    if array.size == 0:  # NumPy exports strides of 0, which TVM's checks refuse
        return _empty(array.shape, str(dtype.newbyteorder("=")))
    if not (dtype.isnative and array.flags.c_contiguous and array.flags.aligned):
        array = np.array(array, dtype=dtype.newbyteorder("="), order="C", copy=True)
    if dtype == NUMPY_DTYPES["bfloat16"]:
        return _view(tvm_ffi.from_dlpack(_writable(array.view(np.uint16))), "bfloat16")
    return tvm_ffi.from_dlpack(_writable(array))


def as_array(tensor: Tensor) -> np.ndarray:
    """Return a writable NumPy array that shares the tensor's memory and keeps it alive."""
    if str(tensor.dtype) == "bfloat16":  # which DLPack does not export to NumPy
        return as_array(_view(tensor, "uint16")).view(NUMPY_DTYPES["bfloat16"])
    return _writable(np.from_dlpack(tensor))


def argument_array(value: object, name: str, dtype: np.dtype[np.generic]) -> np.ndarray:
    """Return an argument as an array, in any byte order. Raises TypeError for one of another dtype."""
    array = np.asarray(value)
    if array.dtype.newbyteorder("=") != dtype:
        raise TypeError(f"{name} must be an array of {dtype}, not of {array.dtype}")
    return array


def host_array(tensor: Tensor) -> np.ndarray:
    """Return the values of a tensor of any device; it shares the memory of a tensor of the CPU."""
    return as_array(tensor) if tensor.device.dlpack_device_type() == _CPU else copy_from_device(tensor)


def copy_from_device(tensor: Tensor) -> np.ndarray:
    """Return a new array with the values of a tensor of a device, once the device has computed them."""
    array = np.empty(tuple(tensor.shape), NUMPY_DTYPES[str(tensor.dtype)])
    if array.size:
        global_function("runtime.TVMTensorCopyToBytes")(tensor, address_of(array), array.nbytes)
    return array


def address_of(array: np.ndarray) -> ctypes.c_void_p:
    """Return the address of a contiguous array's memory, for TVM."""
    return ctypes.c_void_p(array.ctypes.data)


def _empty(shape: Sequence[int], dtype: str) -> Tensor:
    allocate = global_function("runtime.TVMTensorAllocWithScope")
    return allocate(tvm_ffi.Shape(shape), tvm_ffi.dtype(dtype), tvm_ffi.device("cpu", 0), None)


def _view(tensor: Tensor, dtype: str) -> Tensor:
    """View the tensor's memory as elements of another dtype of the same size."""
    return global_function("runtime.TVMTensorCreateView")(tensor, tensor.shape, tvm_ffi.dtype(dtype), 0)
