"""Capture modules with torch.export, and decompose what was captured to core ATen."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from nnmagic.diagnostics import kind_of
from nnmagic.importers.torch.decompositions import WHOLE, complete
from nnmagic.importers.torch.errors import program_error

if TYPE_CHECKING:
    from torch.export import ExportedProgram

#: What is imported as a whole rather than decomposed: attention for its speed, the others since torch rounds
#: their results once.
_KEPT = ("scaled_dot_product_attention", *WHOLE)
#: The characters of torch's own message that are shown.
_LONGEST = 2000
_NUMPY = (
    "NumPy cannot run while torch captures: write it with torch, or as a torch.library.custom_op with a "
    "decomposition"
)
_SHAPES = "mark dynamic sizes with dynamic_shapes, or leave them out"


def require_torch() -> None:
    """Raise ImportError where torch is not installed."""
    try:
        import torch.export  # noqa: F401 - whether it is there
    except ImportError:
        message = "importing PyTorch programs needs the package torch: pip install 'nnmagic[torch]'"
        raise ImportError(message) from None


def capture(
    module: object, args: Sequence[Any], kwargs: Mapping[str, Any] | None, dynamic_shapes: Any
) -> ExportedProgram:
    """Return a module, a function or an exported program as a program of core ATen.

    Raises TorchError, TypeError.
    """
    require_torch()
    import torch
    from torch.export import ExportedProgram

    if isinstance(module, ExportedProgram):
        if args or kwargs or dynamic_shapes is not None:
            raise TypeError(
                "an ExportedProgram was captured: args, kwargs and dynamic_shapes must be left out"
            )
        program = module
    elif isinstance(module, torch.nn.Module) or callable(module):
        if not isinstance(args, tuple | list):
            raise TypeError(f"args must be a tuple of example arguments, not {kind_of(args)}")
        model = module if isinstance(module, torch.nn.Module) else _as_module(module)
        examples = _without_aliases(model, (tuple(args), dict(kwargs or {})))
        try:
            program = torch.export.export(model, *examples, dynamic_shapes=dynamic_shapes, strict=False)
        except Exception as error:
            raise _capture_error("torch.export cannot capture it", error) from error
    else:
        raise TypeError(
            f"a PyTorch program is a module, a function or an ExportedProgram, not {kind_of(module)}"
        )
    try:
        table = torch.export.default_decompositions()
        for name in _KEPT:
            table.pop(getattr(torch.ops.aten, name).default, None)
        complete(table)
        return program.run_decompositions(table)
    except Exception as error:
        raise _capture_error("torch cannot decompose it to core ATen", error) from error


def _without_aliases(model: Any, examples: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return example arguments with a copy of each tensor that is also another one, or of the module.

    torch.export takes two arguments that are one tensor for one argument.
    """
    import torch
    from torch.utils import _pytree as pytree

    seen = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}

    def own(item: Any) -> Any:
        if not isinstance(item, torch.Tensor):
            return item
        if id(item) in seen:
            return item.detach().clone().requires_grad_(item.requires_grad)
        seen.add(id(item))
        return item

    args, kwargs = pytree.tree_map(own, examples)
    return args, kwargs


def _as_module(function: Any) -> Any:
    """Return a module that calls a function, with its signature."""
    import torch

    root = torch.nn.Module()
    if isinstance(function, FunctionType):
        # torch keeps the source lines of frames that are called forward
        code = function.__code__.replace(co_name="forward")
        forward = FunctionType(code, function.__globals__, None, function.__defaults__, function.__closure__)
        forward.__kwdefaults__ = function.__kwdefaults__
        root.forward = forward
        return root
    try:
        inspect.signature(function)
        root.forward = function
    except ValueError:  # a builtin function, as torch.sin is
        root.forward = lambda *args: function(*args)  # noqa: PLW0108 - which has a signature
    return root


def _capture_error(what: str, error: Exception) -> Exception:
    text = str(error).strip()
    if isinstance(error, KeyboardInterrupt | MemoryError):
        return error
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    hint = None
    if "data-dependent" in text.lower() or "GuardOnDataDependent" in type(error).__name__:
        hint = "write a branch on values with torch.cond, a loop with torch.while_loop"
    elif ".numpy() is not supported" in text:
        hint = _NUMPY
    elif "Constraints violated" in text or "dynamic_shapes" in text:
        hint = _SHAPES
    return program_error(f"{what}: {type(error).__name__}: {shown}", hint)
