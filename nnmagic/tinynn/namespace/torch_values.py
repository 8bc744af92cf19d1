"""Take PyTorch's tensors as NumPy arrays that share their memory. PyTorch is never imported here.

Nothing of the notebook runs: only PyTorch's own classes are taken, no subclasses of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType

import numpy as np

from nnmagic.relay.types import NUMPY_DTYPES


class TorchTensorError(Exception):
    """A tensor of PyTorch that has no array: ``what`` describes it, and ``hint`` says what to do."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


def is_torch_tensor(value: object) -> bool:
    """Return whether a value is a tensor, a parameter or a buffer of PyTorch itself."""
    kind = type(value)
    torch = sys.modules.get("torch")
    if torch is None or not kind.__module__.startswith("torch"):
        return False
    tensor = getattr(torch, "Tensor", None)
    return isinstance(tensor, type) and issubclass(kind, tensor)


def torch_array(value: object) -> np.ndarray:
    """Return a tensor as an array that shares its memory. Raises TorchTensorError."""
    torch = sys.modules["torch"]
    data = torch.Tensor.detach(value)
    if data.device.type != "cpu":
        raise TorchTensorError(f"a torch tensor on {data.device}", "move it: {name} = {name}.cpu()")
    if data.layout is not torch.strided or data.is_quantized:
        kind = "quantized" if data.is_quantized else "sparse"
        fix = "dequantize" if data.is_quantized else "to_dense"
        raise TorchTensorError(f"a {kind} torch tensor", f"convert it: {{name}} = {{name}}.{fix}()")
    data = data.resolve_conj().resolve_neg()
    if data.dtype is torch.bfloat16:
        array: np.ndarray = data.view(torch.int16).numpy().view(NUMPY_DTYPES["bfloat16"])
        return array
    try:
        array = data.numpy()
    except (TypeError, RuntimeError):
        raise TorchTensorError(
            f"a torch tensor of {data.dtype}", "convert it: {name} = {name}.float()"
        ) from None
    return array


def torch_dtype_name(value: object) -> str | None:
    """Return the name of a dtype of PyTorch, as in ``float32``; None for any other value."""
    if f"{type(value).__module__}.{type(value).__qualname__}" != "torch.dtype":
        return None
    return repr(value).removeprefix("torch.")


def is_torch_module(value: object) -> bool:
    """Return whether a value is an ``nn.Module``."""
    nn = sys.modules.get("torch.nn")
    module = None if nn is None else vars(nn).get("Module")
    return isinstance(module, type) and issubclass(type(value), module)


#: The tables in which an ``nn.Module`` holds its members.
_TABLES = ("_parameters", "_buffers", "_modules")


def module_member(value: object, name: str, missing: object) -> object:
    """Return a parameter, a buffer, a module or a plain attribute of an ``nn.Module``, without its code."""
    own: Mapping[str, object] = object.__getattribute__(value, "__dict__")
    for table in (*(own.get(each) for each in _TABLES), own):
        if isinstance(table, dict) and name in table:
            return table[name]
    return missing


def module_members(value: object) -> list[str]:
    """Return the names of the parameters, buffers and modules of an ``nn.Module``."""
    own: Mapping[str, object] = object.__getattribute__(value, "__dict__")
    tables = (own.get(each) for each in _TABLES)
    return [name for table in tables if isinstance(table, dict) for name in table]


def module_parts(value: object) -> Iterator[tuple[str, str | tuple[object]]]:
    """Yield what the result of an ``nn.Module`` depends on: texts, and members in tuples of one."""
    own: Mapping[str, object] = object.__getattribute__(value, "__dict__")
    for base in type(value).__mro__:
        if base.__module__.partition(".")[0] == "torch" or base is object:
            continue
        for name, member in vars(base).items():
            if isinstance(member, FunctionType):
                yield name, _code_text(member.__code__)
            elif not name.startswith("__"):
                yield name, (member,)
    for name, member in own.items():
        if name in _TABLES and isinstance(member, dict):
            for inner, part in member.items():
                yield f"{name}.{inner}", (part,)
        elif name.endswith("_hooks"):
            yield name, f"{bool(member)}"
        elif not name.startswith("_") or name not in _OF_EVERY_MODULE:
            yield name, (member,)


#: What PyTorch keeps in every module, apart from hooks and members.
_OF_EVERY_MODULE = frozenset(
    (
        *("_non_persistent_buffers_set", "_is_full_backward_hook", "_version", "_compiled_call_impl"),
        *("_is_fsdp_managed_module", "_forward_hooks_with_kwargs"),
        *("_forward_pre_hooks_with_kwargs", "_forward_hooks_always_called"),
    )
)


def _code_text(code: CodeType) -> str:
    """Return what a function does as a text."""
    consts = [_code_text(const) if isinstance(const, CodeType) else repr(const) for const in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {consts}"
