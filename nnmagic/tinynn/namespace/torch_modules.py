"""Read the members of an ``nn.Module`` of the notebook, without running its code."""

from __future__ import annotations

import inspect
import types

from nnmagic.diagnostics import Span, closest
from nnmagic.tinynn.namespace.capture import (
    NotCapturableError,
    capture,
    holds_values,
    member_names,
    member_of,
    snapshot,
)
from nnmagic.tinynn.namespace.notebook_functions import python_code
from nnmagic.tinynn.namespace.torch_values import is_torch_module
from nnmagic.tinynn.parameters import MISSING
from nnmagic.tinynn.values.values import DictOf, ModuleOf, RefusalError, TupleOf, Value


def module_value(module: object, path: str, constants: dict[int, Value] | None = None) -> Value:
    """Return a module as a value; a ``ModuleList`` as a tuple, and a ``ModuleDict`` as a dictionary."""
    known = {} if constants is None else constants
    kind = f"{type(module).__module__}.{type(module).__qualname__}"
    if kind in ("torch.nn.modules.container.ModuleList", "torch.nn.modules.container.ModuleDict"):
        inner = object.__getattribute__(module, "__dict__")["_modules"]
        items = {key: module_value(each, f"{path}[{key}]", known) for key, each in inner.items()}
        return TupleOf(tuple(items.values())) if kind.endswith("List") else DictOf(dict(items))
    return ModuleOf(module, path, known)


def attribute_of_module(owner: ModuleOf, name: str, span: Span) -> Value:
    """Return ``self.name``: a tensor, a module, a method, or a value that a cell can capture."""
    path = f"{owner.path}.{name}"
    member = member_of(owner.module, name)
    if member is MISSING:
        method = inspect.getattr_static(type(owner.module), name, None)
        if isinstance(method, types.FunctionType):
            return ModuleOf(owner.module, owner.path, owner.constants, name)
        close = closest(name, [each for each in member_names(owner.module) if each[:1] != "_"])
        hint = f"did you mean .{close}?" if close else "a cell reads parameters, modules and plain values"
        message = f"`{path}` is no value that the {type(owner.module).__name__} holds"
        raise RefusalError(message, span, hint=hint)
    if (code := python_code(member)) is not None:
        return ModuleOf(code, path, {}, "")
    if not is_torch_module(member) and holds_values(member) and not isinstance(member, type | tuple):
        return ModuleOf(member, path, owner.constants, "__call__")
    if is_torch_module(member):
        return module_value(member, path, owner.constants)
    if id(member) not in owner.constants:
        try:
            value = capture(snapshot(member))
        except NotCapturableError as problem:
            hint = problem.hint.replace("{name}", path)
            message = f"`{path}{problem.path}` is {problem.what}, which a cell cannot use"
            raise RefusalError(message, span, hint=hint) from None
        if not hasattr(member, "__dlpack__"):
            return value
        owner.constants[id(member)] = value
    return owner.constants[id(member)]
